"""EC2NodeClass: the cloud's side of a node: images, network, disks, kubelet, reservations."""

from typing import Annotated, ClassVar, Final

from wainwright.api.kubelet import Kubelet
from wainwright.api.schema import Schema, rule, wire
from wainwright.api.selectors import (
    CRITERIA,
    ImageTerm,
    PlacementGroupSelector,
    ReservationTerm,
    SecurityGroupTerm,
    SubnetTerm,
)
from wainwright.api.wire import Conditions, Metadata, Timestamp, Wire

AMI_FAMILIES: Final = [
    "AL2",
    "AL2023",
    "Bottlerocket",
    "Custom",
    "Windows2019",
    "Windows2022",
    "Windows2025",
]
VOLUME_TYPES: Final = ["gp2", "gp3", "io1", "io2", "sc1", "st1", "standard"]
SWITCH: Final = ["disabled", "enabled"]

VOLUME_SIZE: Final = (
    r"^(([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-6])Gi"
    r"|([1-9][0-9]{0,3}|[1-6][0-9]{4}|70[0-2][0-9]{2}|703[0-5][0-9]|7036[0-8])G"
    r"|([1-9]|[1-5][0-9]|6[0-4])Ti|([1-9]|[1-6][0-9]|70)T)$"
)
"""1Gi to 64Ti, in the units that people write."""

RESTRICTED_TAGS: Final = (
    "eks:eks-cluster-name",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.sh/nodeclaim",
    "karpenter.sh/nodepool",
)


def _filled(what: str) -> list[dict[str, str]]:
    return [rule("self != ''", f"{what} may not be empty")]


class Volume(Wire, frozen=True, kw_only=True):
    """An EBS volume."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "has(self.snapshotID) || has(self.volumeSize)",
                "a volume needs a volumeSize or a snapshotID",
            ),
            rule(
                "!has(self.volumeInitializationRate) "
                "|| (has(self.snapshotID) && self.snapshotID != '')",
                "volumeInitializationRate needs a snapshotID to initialise from",
                at=".volumeInitializationRate",
            ),
        ]
    }

    volumeSize: Annotated[
        str | None,
        wire(
            "1Gi to 64Ti, as in 100Gi.",
            pattern=VOLUME_SIZE,
            says="1Gi to 64Ti, as in 100Gi",
            max_length=10,
        ),
    ] = None
    volumeType: Annotated[str | None, wire("The kind of volume.", enum=VOLUME_TYPES)] = None
    snapshotID: Annotated[str | None, wire("The snapshot it starts from.")] = None
    encrypted: Annotated[bool | None, wire("Whether it is encrypted.")] = None
    kmsKeyID: Annotated[str | None, wire("The key it is encrypted with.")] = None
    deleteOnTermination: Annotated[bool | None, wire("Whether it goes with the instance.")] = None
    iops: Annotated[int | None, wire("Operations per second.", format="int64")] = None
    throughput: Annotated[int | None, wire("MiB per second.", format="int64")] = None
    volumeInitializationRate: Annotated[
        int | None,
        wire("MiB per second at initialisation.", minimum=100, maximum=300, format="int32"),
    ] = None


class BlockDevice(Wire, frozen=True, kw_only=True):
    """A disk of the node."""

    deviceName: Annotated[str | None, wire("Where it is attached, as /dev/xvda.")] = None
    ebs: Volume | None = None
    rootVolume: Annotated[
        bool | None, wire("Whether pods' ephemeral storage lies on this disk.")
    ] = None


class MetadataOptions(Wire, frozen=True, kw_only=True):
    """How the instance metadata service is reached."""

    httpEndpoint: Annotated[str, wire("Whether it answers.", enum=SWITCH, default="enabled")] = (
        "enabled"
    )
    httpProtocolIPv6: Annotated[
        str, wire("Whether it answers over IPv6.", enum=SWITCH, default="disabled")
    ] = "disabled"
    httpPutResponseHopLimit: Annotated[
        int,
        wire("How far its answers travel.", minimum=1, maximum=64, format="int64", default=1),
    ] = 1
    httpTokens: Annotated[
        str,
        wire(
            "Whether a session token is needed.", enum=["optional", "required"], default="required"
        ),
    ] = "required"


METADATA_DEFAULT: Final = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 1,
    "httpTokens": "required",
}


class NetworkInterface(Wire, frozen=True, kw_only=True):
    """A network interface of the instance."""

    networkCardIndex: Annotated[int, wire("The card.", minimum=0, format="int32")]
    deviceIndex: Annotated[int, wire("The device on the card.", minimum=0, format="int32")]
    interfaceType: Annotated[str, wire("What it carries.", enum=["efa-only", "interface"])]


class ConnectionTracking(Wire, frozen=True, kw_only=True):
    """How long idle connections are remembered, in seconds."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) "
                "|| has(self.udpTimeout)",
                "set at least one of tcpEstablishedTimeout, udpStreamTimeout, udpTimeout",
            )
        ]
    }

    tcpEstablishedTimeout: Annotated[
        int | None, wire("Of TCP.", minimum=60, maximum=432000, format="int32")
    ] = None
    udpStreamTimeout: Annotated[
        int | None, wire("Of UDP streams.", minimum=60, maximum=180, format="int32")
    ] = None
    udpTimeout: Annotated[
        int | None, wire("Of single UDP packets.", minimum=30, maximum=60, format="int32")
    ] = None


class CpuOptions(Wire, frozen=True, kw_only=True):
    """Switches of the processor."""

    nestedVirtualization: Annotated[
        str | None, wire("Whether virtual machines may run inside.", enum=SWITCH)
    ] = None


class EC2NodeClassSpec(Wire, frozen=True, kw_only=True):
    """Where instances are placed, what they boot, and how."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "has(self.role) != has(self.instanceProfile)",
                "set exactly one of role and instanceProfile",
            ),
            rule(
                "!has(self.amiFamily) || self.amiFamily == 'Custom' "
                "|| self.amiSelectorTerms.all(t, !has(t.alias) "
                "|| t.alias.split('@')[0] == self.amiFamily.lowerAscii())",
                "amiFamily and the family of the alias differ; leave amiFamily out, or use Custom",
                at=".amiFamily",
            ),
            rule(
                "has(self.amiFamily) || self.amiSelectorTerms.exists(t, has(t.alias))",
                "amiFamily is needed when no image is selected by alias",
            ),
        ]
    }

    amiSelectorTerms: Annotated[
        list[ImageTerm],
        wire(
            "Which images may be booted; terms are alternatives.",
            min_items=1,
            max_items=30,
            rules=[
                rule(
                    "!self.exists(t, has(t.alias)) || self.size() == 1",
                    "an alias is used alone: remove the other terms",
                )
            ],
        ),
    ]
    subnetSelectorTerms: Annotated[
        list[SubnetTerm],
        wire(
            "Which subnets instances may lie in; terms are alternatives.",
            max_items=30,
            rules=[rule("self.size() != 0", "at least one subnet term is needed")],
        ),
    ]
    securityGroupSelectorTerms: Annotated[
        list[SecurityGroupTerm],
        wire(
            "Which security groups instances get; terms are alternatives.",
            max_items=30,
            rules=[rule("self.size() != 0", "at least one security group term is needed")],
        ),
    ]
    capacityReservationSelectorTerms: Annotated[
        list[ReservationTerm] | None,
        wire("Which capacity reservations may be used; terms are alternatives.", max_items=30),
    ] = None
    placementGroupSelector: PlacementGroupSelector | None = None
    amiFamily: Annotated[str | None, wire("How the image is bootstrapped.", enum=AMI_FAMILIES)] = (
        None
    )
    role: Annotated[str | None, wire("The role of the nodes.", rules=_filled("role"))] = None
    instanceProfile: Annotated[
        str | None, wire("The profile of the nodes.", rules=_filled("instanceProfile"))
    ] = None
    userData: Annotated[str | None, wire("Merged into what the instance boots with.")] = None
    kubelet: Kubelet | None = None
    blockDeviceMappings: Annotated[
        list[BlockDevice] | None,
        wire(
            "The node's disks.",
            max_items=50,
            rules=[
                rule(
                    "self.filter(d, has(d.rootVolume) && d.rootVolume).size() <= 1",
                    "only one disk can be the root volume",
                )
            ],
        ),
    ] = None
    instanceStorePolicy: Annotated[
        str | None, wire("What becomes of local disks.", enum=["RAID0"])
    ] = None
    networkInterfaces: Annotated[
        list[NetworkInterface] | None,
        wire(
            "The node's network interfaces.",
            max_items=150,
            rules=[
                rule(
                    "self.size() == 0 || self.exists(i, i.networkCardIndex == 0 "
                    "&& i.deviceIndex == 0 && i.interfaceType == 'interface')",
                    "card 0, device 0 must be there, of interfaceType interface: the primary one",
                ),
                rule(
                    "self.all(i, self.filter(j, j.networkCardIndex == i.networkCardIndex "
                    "&& j.deviceIndex == i.deviceIndex).size() == 1)",
                    "two interfaces have the same networkCardIndex and deviceIndex",
                ),
                rule(
                    "self.all(i, i.interfaceType != 'efa-only' || self.filter(j, "
                    "j.networkCardIndex == i.networkCardIndex "
                    "&& j.interfaceType == 'efa-only').size() == 1)",
                    "a network card has at most one efa-only interface",
                ),
            ],
        ),
    ] = None
    associatePublicIPAddress: Annotated[
        bool | None, wire("Whether instances get a public address.")
    ] = None
    ipPrefixCount: Annotated[
        int | None, wire("Prefixes per network interface.", minimum=0, format="int32")
    ] = None
    detailedMonitoring: Annotated[bool | None, wire("Whether metrics come every minute.")] = None
    metadataOptions: Annotated[MetadataOptions, wire(default=METADATA_DEFAULT)] = MetadataOptions()
    connectionTracking: ConnectionTracking | None = None
    cpuOptions: CpuOptions | None = None
    context: Annotated[str | None, wire("Passed on to CreateFleet as it is.")] = None
    tags: Annotated[
        dict[str, str] | None,
        wire(
            "Tags of everything that is launched.",
            rules=[
                rule("self.all(k, k != '')", "a tag needs a key"),
                rule(
                    "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
                    "tags that begin with kubernetes.io/cluster are set by the controller",
                ),
                *(
                    rule(f"self.all(k, k != '{tag}')", f"the tag {tag} is set by the controller")
                    for tag in RESTRICTED_TAGS
                ),
            ],
        ),
    ] = None


class Subnet(Wire, frozen=True, kw_only=True):
    id: str
    zone: str
    zoneID: str = ""


class SecurityGroup(Wire, frozen=True, kw_only=True):
    id: str
    name: str = ""


class ImageRequirement(Wire, frozen=True, kw_only=True):
    key: str
    operator: str
    values: Annotated[list[str] | None, wire(list_type="atomic")] = None


class Image(Wire, frozen=True, kw_only=True):
    id: str
    requirements: list[ImageRequirement]
    name: str = ""
    deprecated: bool = False


class CapacityReservation(Wire, frozen=True, kw_only=True):
    """A reservation that the terms have found."""

    id: Annotated[str, wire(pattern="^cr-[0-9a-z]+$", says="an id such as cr-0a1b2c")]
    availabilityZone: str
    instanceType: str
    instanceMatchCriteria: Annotated[str, wire(enum=CRITERIA)]
    ownerID: Annotated[str, wire(pattern="^[0-9]{12}$", says="an account number of 12 digits")]
    endTime: Timestamp | None = None
    interruptible: bool = False
    reservationType: Annotated[str, wire(enum=["capacity-block", "default"], default="default")] = (
        "default"
    )
    state: Annotated[str, wire(enum=["active", "expiring"], default="active")] = "active"


class EC2NodeClassStatus(Wire, frozen=True, kw_only=True):
    """What the terms have found."""

    subnets: list[Subnet] | None = None
    securityGroups: list[SecurityGroup] | None = None
    capacityReservations: list[CapacityReservation] | None = None
    amis: list[Image] | None = None
    instanceProfile: str = ""
    conditions: Conditions | None = None


class EC2NodeClass(Wire, frozen=True, kw_only=True):
    """What the nodes of a pool are made of on EC2."""

    spec: EC2NodeClassSpec
    apiVersion: str = "karpenter.k8s.aws/v1"
    kind: str = "EC2NodeClass"
    metadata: Metadata = Metadata()
    status: EC2NodeClassStatus | None = None
