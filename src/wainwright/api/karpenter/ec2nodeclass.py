"""EC2NodeClass, the cloud's side of a node: selector terms, images, network, disks, status."""

from typing import Annotated, ClassVar, Final

from wainwright.api.karpenter.kubelet import KubeletConfiguration
from wainwright.api.wire import (
    Conditions,
    ObjectMeta,
    Schema,
    Timestamp,
    WireStruct,
    cel_rule,
    field_meta,
)

ALIAS_FAMILIES: Final = (
    "al2",
    "al2023",
    "bottlerocket",
    "windows2019",
    "windows2022",
    "windows2025",
)
WINDOWS: Final = ("windows2019", "windows2022", "windows2025")
INSTANCE_MATCH_CRITERIA: Final = ["open", "targeted"]
ReservationGroupArn = Annotated[
    str,
    field_meta(
        "The ARN of a resource group of capacity reservations.",
        pattern="^arn:aws[a-z0-9-]*:resource-groups:[a-z0-9-]+:[0-9]{12}:group/.+$",
        expected="the ARN of a resource group such as "
        "arn:aws:resource-groups:us-west-2:111122223333:group/web",
    ),
]

Tags = Annotated[
    dict[str, str],
    field_meta(
        "Tags that the resource has; `*` stands for any value.",
        max_properties=20,
        rules=[
            cel_rule(
                "self.size() != 0",
                "no tags would select everything in the account; name one, or leave tags out",
            ),
            cel_rule("self.all(k, k != '' && self[k] != '')", "tags need a key and a value"),
        ],
    ),
]


def _at_least_one_rule(*fields: str) -> dict[str, str]:
    cel = " || ".join(f"has(self.{field})" for field in fields)
    return cel_rule(cel, f"an empty term selects nothing; set one of {', '.join(fields)}")


def _exclusive_rule(field: str, *others: str) -> dict[str, str]:
    cel = " || ".join(f"has(self.{other})" for other in others)
    return cel_rule(
        f"!has(self.{field}) || !({cel})",
        f"{field} selects by itself and cannot be combined with {', '.join(others)}",
        at=f".{field}",
    )


def _not_all_rule(field: str, *others: str) -> dict[str, str]:
    """Like Karpenter's CRD, of a whole list: one term that is well formed lets the others pass."""
    cel = " || ".join(f"has(t.{other})" for other in others)
    return cel_rule(
        f"self.size() == 0 || !self.all(t, has(t.{field}) && ({cel}))",
        f"{field} selects by itself and cannot be combined with {', '.join(others)}",
    )


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


class SubnetSelectorTerm(WireStruct, frozen=True, kw_only=True):
    """Subnets by id, or by tags."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [_at_least_one_rule("tags", "id")],
    }

    id: Annotated[
        str | None,
        field_meta(
            "The subnet's id.", pattern="subnet-[0-9a-z]+", expected="an id such as subnet-0a1b2c"
        ),
    ] = None
    tags: Tags | None = None


class SecurityGroupSelectorTerm(WireStruct, frozen=True, kw_only=True):
    """Security groups by id, by name, or by tags."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [_at_least_one_rule("tags", "id", "name")],
    }

    id: Annotated[
        str | None,
        field_meta("The group's id.", pattern="sg-[0-9a-z]+", expected="an id such as sg-0a1b2c"),
    ] = None
    name: Annotated[str | None, field_meta("The group's name.")] = None
    tags: Tags | None = None


class AMISelectorTerm(WireStruct, frozen=True, kw_only=True):
    """Machine images by alias, id, name, owner, tags or SSM parameter."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            _at_least_one_rule("tags", "id", "name", "alias", "ssmParameter"),
            _exclusive_rule("id", "alias", "tags", "name", "owner"),
            _exclusive_rule("alias", "id", "tags", "name", "owner"),
        ]
    }

    alias: Annotated[
        str | None,
        field_meta(
            "A published family and version: al2023@latest.",
            max_length=30,
            rules=[
                cel_rule(
                    "self.matches('^[a-zA-Z0-9]+@.+$')",
                    "an alias is written family@version, as in al2023@latest",
                ),
                cel_rule(
                    f"self.split('@')[0] in [{_quoted(ALIAS_FAMILIES)}]",
                    f"the family of an alias is one of {', '.join(ALIAS_FAMILIES)}",
                ),
                cel_rule(
                    f"!(self.split('@')[0] in [{_quoted(WINDOWS)}]) || self.endsWith('@latest')",
                    "Windows images are published as @latest only",
                ),
            ],
        ),
    ] = None
    id: Annotated[
        str | None,
        field_meta("The image's id.", pattern="ami-[0-9a-z]+", expected="an id such as ami-0a1b2c"),
    ] = None
    name: Annotated[str | None, field_meta("The image's name.")] = None
    owner: Annotated[str | None, field_meta("The account that owns the image, or self.")] = None
    ssmParameter: Annotated[str | None, field_meta("The parameter that holds the image's id.")] = (
        None
    )
    tags: Tags | None = None


class CapacityReservationSelectorTerm(WireStruct, frozen=True, kw_only=True):
    """Capacity reservations by id, or by everything that describes them."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            _at_least_one_rule(
                "id",
                "ownerID",
                "tags",
                "instanceMatchCriteria",
                "instanceType",
                "availabilityZone",
                "reservationGroup",
            ),
            _exclusive_rule(
                "id",
                "ownerID",
                "tags",
                "instanceMatchCriteria",
                "instanceType",
                "availabilityZone",
                "reservationGroup",
            ),
        ]
    }

    id: Annotated[
        str | None,
        field_meta(
            "The reservation's id.", pattern="^cr-[0-9a-z]+$", expected="an id such as cr-0a1b2c"
        ),
    ] = None
    ownerID: Annotated[
        str | None,
        field_meta(
            "The account that owns it; absent: any that shares with us.",
            pattern="^[0-9]{12}$",
            expected="an account number of 12 digits",
        ),
    ] = None
    tags: Tags | None = None
    instanceMatchCriteria: Annotated[
        str | None,
        field_meta(
            "open takes any matching instance, targeted only named ones.",
            enum=INSTANCE_MATCH_CRITERIA,
        ),
    ] = None
    instanceType: Annotated[
        str | None, field_meta("The instance type it reserves.", min_length=1)
    ] = None
    availabilityZone: Annotated[str | None, field_meta("The zone it lies in.", min_length=1)] = None
    reservationGroup: ReservationGroupArn | None = None


class PlacementGroupSelector(WireStruct, frozen=True, kw_only=True):
    """One placement group, by name or by id."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            _at_least_one_rule("name", "id"),
            cel_rule(
                "!(has(self.name) && has(self.id))",
                "name and id exclude each other",
                at=".id",
            ),
        ]
    }

    id: Annotated[
        str | None,
        field_meta("The group's id.", pattern="^pg-[0-9a-z]+$", expected="an id such as pg-0a1b2c"),
    ] = None
    name: Annotated[str | None, field_meta("The group's name.", min_length=1)] = None


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
ENABLED_OR_DISABLED: Final = ["disabled", "enabled"]

VOLUME_SIZE_PATTERN: Final = (
    r"^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi"
    r"|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|([1-9]|[1-5][0-7]|58)Ti|([1-9]|[1-5][0-9]|6[0-4])T)$"
)
"""What Karpenter's CRD takes: up to 64 TB, and of two-digit Ti only those that end in 0 to 7."""
EXPECTED_VOLUME_SIZE: Final = "1Gi to 59000Gi, 1G to 64000G, or up to 58Ti or 64T, as in 100Gi"

RESTRICTED_TAGS: Final = (
    "eks:eks-cluster-name",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.sh/nodeclaim",
    "karpenter.sh/nodepool",
)


def _not_empty_rules(what: str) -> list[dict[str, str]]:
    return [cel_rule("self != ''", f"{what} may not be empty")]


class EBSVolume(WireStruct, frozen=True, kw_only=True):
    """An EBS volume."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "has(self.snapshotID) || has(self.volumeSize)",
                "a volume needs a volumeSize or a snapshotID",
            ),
            cel_rule(
                "!has(self.volumeInitializationRate) "
                "|| (has(self.snapshotID) && self.snapshotID != '')",
                "volumeInitializationRate needs a snapshotID to initialise from",
                at=".volumeInitializationRate",
            ),
        ]
    }

    volumeSize: Annotated[
        str | None,
        field_meta(
            "Its size, as in 100Gi.",
            pattern=VOLUME_SIZE_PATTERN,
            expected=EXPECTED_VOLUME_SIZE,
            max_length=10,
        ),
    ] = None
    volumeType: Annotated[str | None, field_meta("The kind of volume.", enum=VOLUME_TYPES)] = None
    snapshotID: Annotated[str | None, field_meta("The snapshot it starts from.")] = None
    encrypted: Annotated[bool | None, field_meta("Whether it is encrypted.")] = None
    kmsKeyID: Annotated[str | None, field_meta("The key it is encrypted with.")] = None
    deleteOnTermination: Annotated[
        bool | None, field_meta("Whether it goes with the instance.")
    ] = None
    iops: Annotated[int | None, field_meta("Operations per second.", format="int64")] = None
    throughput: Annotated[int | None, field_meta("MiB per second.", format="int64")] = None
    volumeInitializationRate: Annotated[
        int | None,
        field_meta("MiB per second at initialisation.", minimum=100, maximum=300, format="int32"),
    ] = None


class BlockDeviceMapping(WireStruct, frozen=True, kw_only=True):
    """A disk of the node."""

    deviceName: Annotated[str | None, field_meta("Where it is attached, as /dev/xvda.")] = None
    ebs: EBSVolume | None = None
    rootVolume: Annotated[
        bool | None, field_meta("Whether pods' ephemeral storage lies on this disk.")
    ] = None


class MetadataOptions(WireStruct, frozen=True, kw_only=True):
    """How the instance metadata service is reached."""

    httpEndpoint: Annotated[
        str, field_meta("Whether it answers.", enum=ENABLED_OR_DISABLED, default="enabled")
    ] = "enabled"
    httpProtocolIPv6: Annotated[
        str,
        field_meta("Whether it answers over IPv6.", enum=ENABLED_OR_DISABLED, default="disabled"),
    ] = "disabled"
    httpPutResponseHopLimit: Annotated[
        int,
        field_meta("How far its answers travel.", minimum=1, maximum=64, format="int64", default=1),
    ] = 1
    httpTokens: Annotated[
        str,
        field_meta(
            "Whether a session token is needed.", enum=["optional", "required"], default="required"
        ),
    ] = "required"


DEFAULT_METADATA_OPTIONS: Final = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 1,
    "httpTokens": "required",
}


class NetworkInterface(WireStruct, frozen=True, kw_only=True):
    """A network interface of the instance."""

    networkCardIndex: Annotated[int, field_meta("The card.", minimum=0, format="int32")]
    deviceIndex: Annotated[int, field_meta("The device on the card.", minimum=0, format="int32")]
    interfaceType: Annotated[str, field_meta("What it carries.", enum=["efa-only", "interface"])]


class ConnectionTracking(WireStruct, frozen=True, kw_only=True):
    """How long idle connections are remembered, in seconds."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) "
                "|| has(self.udpTimeout)",
                "set at least one of tcpEstablishedTimeout, udpStreamTimeout, udpTimeout",
            )
        ]
    }

    tcpEstablishedTimeout: Annotated[
        int | None, field_meta("Of TCP.", minimum=60, maximum=432000, format="int32")
    ] = None
    udpStreamTimeout: Annotated[
        int | None, field_meta("Of UDP streams.", minimum=60, maximum=180, format="int32")
    ] = None
    udpTimeout: Annotated[
        int | None, field_meta("Of single UDP packets.", minimum=30, maximum=60, format="int32")
    ] = None


class CPUOptions(WireStruct, frozen=True, kw_only=True):
    """Switches of the processor."""

    nestedVirtualization: Annotated[
        str | None, field_meta("Whether virtual machines may run inside.", enum=ENABLED_OR_DISABLED)
    ] = None


class EC2NodeClassSpec(WireStruct, frozen=True, kw_only=True):
    """Where instances are placed, what they boot, and how."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "has(self.role) != has(self.instanceProfile)",
                "set exactly one of role and instanceProfile",
            ),
            cel_rule(
                "!has(self.amiFamily) || self.amiFamily == 'Custom' "
                "|| self.amiSelectorTerms.all(t, !has(t.alias) "
                "|| t.alias.split('@')[0] == self.amiFamily.lowerAscii())",
                "amiFamily and the family of the alias differ; leave amiFamily out, or use Custom",
                at=".amiFamily",
            ),
            cel_rule(
                "has(self.amiFamily) || self.amiSelectorTerms.exists(t, has(t.alias))",
                "amiFamily is needed when no image is selected by alias",
            ),
        ]
    }

    amiSelectorTerms: Annotated[
        list[AMISelectorTerm],
        field_meta(
            "Which images may be booted; terms are alternatives.",
            min_items=1,
            max_items=30,
            rules=[
                cel_rule(
                    "!self.exists(t, has(t.alias)) || self.size() == 1",
                    "an alias is used alone: remove the other terms",
                )
            ],
        ),
    ]
    subnetSelectorTerms: Annotated[
        list[SubnetSelectorTerm],
        field_meta(
            "Which subnets instances may lie in; terms are alternatives.",
            max_items=30,
            rules=[
                cel_rule("self.size() != 0", "at least one subnet term is needed"),
                _not_all_rule("id", "tags"),
            ],
        ),
    ]
    securityGroupSelectorTerms: Annotated[
        list[SecurityGroupSelectorTerm],
        field_meta(
            "Which security groups instances get; terms are alternatives.",
            max_items=30,
            rules=[
                cel_rule("self.size() != 0", "at least one security group term is needed"),
                _not_all_rule("id", "tags", "name"),
                _not_all_rule("name", "tags", "id"),
            ],
        ),
    ]
    capacityReservationSelectorTerms: Annotated[
        list[CapacityReservationSelectorTerm] | None,
        field_meta(
            "Which capacity reservations may be used; terms are alternatives.",
            max_items=30,
            rules=[
                cel_rule(
                    "self.size() != 0",
                    "an empty list selects nothing; leave the field out, or add a term",
                )
            ],
        ),
    ] = None
    placementGroupSelector: PlacementGroupSelector | None = None
    amiFamily: Annotated[
        str | None, field_meta("How the image is bootstrapped.", enum=AMI_FAMILIES)
    ] = None
    role: Annotated[
        str | None, field_meta("The role of the nodes.", rules=_not_empty_rules("role"))
    ] = None
    instanceProfile: Annotated[
        str | None,
        field_meta("The profile of the nodes.", rules=_not_empty_rules("instanceProfile")),
    ] = None
    userData: Annotated[str | None, field_meta("Merged into what the instance boots with.")] = None
    kubelet: KubeletConfiguration | None = None
    blockDeviceMappings: Annotated[
        list[BlockDeviceMapping] | None,
        field_meta(
            "The node's disks.",
            max_items=50,
            rules=[
                cel_rule(
                    "self.filter(d, has(d.rootVolume) && d.rootVolume).size() <= 1",
                    "only one disk can be the root volume",
                )
            ],
        ),
    ] = None
    instanceStorePolicy: Annotated[
        str | None, field_meta("What becomes of local disks.", enum=["RAID0"])
    ] = None
    networkInterfaces: Annotated[
        list[NetworkInterface] | None,
        field_meta(
            "The node's network interfaces.",
            max_items=150,
            rules=[
                cel_rule(
                    "self.size() == 0 || self.exists(i, i.networkCardIndex == 0 "
                    "&& i.deviceIndex == 0 && i.interfaceType == 'interface')",
                    "card 0, device 0 must be there, of interfaceType interface: the primary one",
                ),
                cel_rule(
                    "self.all(i, self.filter(j, j.networkCardIndex == i.networkCardIndex "
                    "&& j.deviceIndex == i.deviceIndex).size() == 1)",
                    "two interfaces have the same networkCardIndex and deviceIndex",
                ),
                cel_rule(
                    "self.all(i, i.interfaceType != 'efa-only' || self.filter(j, "
                    "j.networkCardIndex == i.networkCardIndex "
                    "&& j.interfaceType == 'efa-only').size() == 1)",
                    "a network card has at most one efa-only interface",
                ),
            ],
        ),
    ] = None
    associatePublicIPAddress: Annotated[
        bool | None, field_meta("Whether instances get a public address.")
    ] = None
    ipPrefixCount: Annotated[
        int | None, field_meta("Prefixes per network interface.", minimum=0, format="int32")
    ] = None
    detailedMonitoring: Annotated[bool | None, field_meta("Whether metrics come every minute.")] = (
        None
    )
    metadataOptions: Annotated[MetadataOptions, field_meta(default=DEFAULT_METADATA_OPTIONS)] = (
        MetadataOptions()
    )
    connectionTracking: ConnectionTracking | None = None
    cpuOptions: CPUOptions | None = None
    context: Annotated[str | None, field_meta("Passed on to CreateFleet as it is.")] = None
    tags: Annotated[
        dict[str, str] | None,
        field_meta(
            "Tags of everything that is launched.",
            rules=[
                cel_rule("self.all(k, k != '')", "a tag needs a key"),
                cel_rule(
                    "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
                    "tags that begin with kubernetes.io/cluster are set by the controller",
                ),
                *(
                    cel_rule(
                        f"self.all(k, k != '{tag}')", f"the tag {tag} is set by the controller"
                    )
                    for tag in RESTRICTED_TAGS
                ),
            ],
        ),
    ] = None


NOTHING_SELECTED: Final = EC2NodeClassSpec(
    amiSelectorTerms=[], subnetSelectorTerms=[], securityGroupSelectorTerms=[]
)
"""The spec of a class without one, which an API server accepts: no node can be launched."""


class Subnet(WireStruct, frozen=True, kw_only=True):
    id: str
    zone: str
    zoneID: str = ""


class SecurityGroup(WireStruct, frozen=True, kw_only=True):
    id: str
    name: str = ""


class AMIRequirement(WireStruct, frozen=True, kw_only=True):
    key: str
    operator: str
    values: Annotated[list[str] | None, field_meta(list_type="atomic")] = None


class AMI(WireStruct, frozen=True, kw_only=True):
    id: str
    requirements: list[AMIRequirement]
    name: str = ""
    deprecated: bool = False


class CapacityReservation(WireStruct, frozen=True, kw_only=True):
    """A reservation that the terms have found."""

    id: Annotated[str, field_meta(pattern="^cr-[0-9a-z]+$", expected="an id such as cr-0a1b2c")]
    availabilityZone: str
    instanceType: str
    instanceMatchCriteria: Annotated[str, field_meta(enum=INSTANCE_MATCH_CRITERIA)]
    ownerID: Annotated[
        str, field_meta(pattern="^[0-9]{12}$", expected="an account number of 12 digits")
    ]
    endTime: Timestamp | None = None
    interruptible: bool = False
    reservationType: Annotated[
        str, field_meta(enum=["capacity-block", "default"], default="default")
    ] = "default"
    state: Annotated[str, field_meta(enum=["active", "expiring"], default="active")] = "active"
    reservationGroups: Annotated[
        list[ReservationGroupArn] | None,
        field_meta("The groups that the terms name and that it is in."),
    ] = None


class EC2NodeClassStatus(WireStruct, frozen=True, kw_only=True):
    """What the terms have found."""

    subnets: list[Subnet] | None = None
    securityGroups: list[SecurityGroup] | None = None
    capacityReservations: list[CapacityReservation] | None = None
    amis: list[AMI] | None = None
    instanceProfile: str = ""
    conditions: Conditions | None = None


class EC2NodeClass(WireStruct, frozen=True, kw_only=True):
    """What the nodes of a pool are made of on EC2."""

    spec: EC2NodeClassSpec = NOTHING_SELECTED
    apiVersion: str = "karpenter.k8s.aws/v1"
    kind: str = "EC2NodeClass"
    metadata: ObjectMeta = ObjectMeta()
    status: EC2NodeClassStatus | None = None
