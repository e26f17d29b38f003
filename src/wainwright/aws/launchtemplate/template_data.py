"""What a launch template says: LaunchTemplateData, and the name that follows from it.

The name is a hash of all that the template holds, tags included. So equal templates are one and
the same, whoever makes them, and a template is never changed: what has changed is another one.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import (
    BlockDeviceMapping,
    ConnectionTracking,
    EBSVolume,
    EC2NodeClassSpec,
)
from wainwright.api.quantity import parse_quantity
from wainwright.aws.api.seam import Row, tag_specifications
from wainwright.aws.userdata.user_data import UserData
from wainwright.catalogue.instancetypes.derived_amount import GIB, ceil_div
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily
from wainwright.catalogue.offerings.capacity_reservations import CAPACITY_BLOCK
from wainwright.errors import InvalidInputError
from wainwright.model.labels import SPOT

BOTTLEROCKET_SYSTEM_DISK: Final = ("/dev/xvda", 4)
EBS_FIELDS: Final = {
    "VolumeType": "volumeType",
    "SnapshotId": "snapshotID",
    "Encrypted": "encrypted",
    "KmsKeyId": "kmsKeyID",
    "DeleteOnTermination": "deleteOnTermination",
    "Iops": "iops",
    "Throughput": "throughput",
    "VolumeInitializationRate": "volumeInitializationRate",
}


def block_devices(spec: EC2NodeClassSpec, family: AmiFamily) -> list[Row]:
    """What the class lists, and nothing else; else the family's. Custom images bring their own."""
    if spec.blockDeviceMappings:
        return [_block_device(each) for each in spec.blockDeviceMappings]
    traits = family.traits
    if traits.pod_device_size is None:
        return []
    pods = _default_device(traits.pod_device, traits.pod_device_size // GIB)
    if family is AmiFamily.BOTTLEROCKET:
        return [_default_device(*BOTTLEROCKET_SYSTEM_DISK), pods]
    return [pods]


def resized_block_devices(spec: EC2NodeClassSpec, family: AmiFamily, size: int) -> list[Row]:
    """The same for a type whose pods need so many bytes, as its override in a fleet has it.

    None where nobody knows which disk holds the pods. Overrides know fewer fields than templates.
    """
    devices, device = block_devices(spec, family), _pod_device(spec, family)
    for each in devices:
        each.get("Ebs", {}).pop("VolumeInitializationRate", None)
        if each["DeviceName"] == device:
            each["Ebs"] = {**each.get("Ebs", {}), "VolumeSize": ceil_div(size, GIB)}
    return devices if any(each["DeviceName"] == device for each in devices) else []


def _pod_device(spec: EC2NodeClassSpec, family: AmiFamily) -> str | None:
    listed = spec.blockDeviceMappings or []
    root = next((each.deviceName for each in listed if each.rootVolume), None)
    if root is not None or family is not AmiFamily.CUSTOM:
        return root or family.traits.pod_device
    return listed[-1].deviceName if listed else None


def _default_device(device: str, gibibytes: int) -> Row:
    ebs = {"VolumeSize": gibibytes, "VolumeType": "gp3", "Encrypted": True}
    return {"DeviceName": device, "Ebs": ebs}


def _block_device(mapping: BlockDeviceMapping) -> Row:
    if not mapping.deviceName:
        raise InvalidInputError(
            "a disk of the class has no deviceName, and EC2 cannot attach it without",
            "name it in spec.blockDeviceMappings, as in deviceName: /dev/xvda",
        )
    if mapping.ebs is None:
        return {"DeviceName": mapping.deviceName}
    return {"DeviceName": mapping.deviceName, "Ebs": _ebs_volume(mapping.ebs)}


def _ebs_volume(volume: EBSVolume) -> dict[str, Any]:
    """EC2 counts whole GiB: what is not whole, as 20G are, counts as one more."""
    made = {} if volume.volumeSize is None else {"VolumeSize": _round_up_gib(volume.volumeSize)}
    stated = {name: getattr(volume, field) for name, field in EBS_FIELDS.items()}
    return made | {name: value for name, value in stated.items() if value is not None}


def _round_up_gib(size: str) -> int:
    return ceil_div(parse_quantity(size).units, GIB)


def network_interfaces(
    spec: EC2NodeClassSpec, groups: Sequence[str], *, efa: int = 0, ipv6: bool = False
) -> list[Row]:
    """Those that the class lists; else as many for EFA as wanted; else one.

    Security groups stand here and not beside: EC2 takes them in one place only.
    """
    made = [each | {"Groups": sorted(groups)} for each in _interface_positions(spec, efa)]
    for number, each in enumerate(made):
        if each.get("InterfaceType") != "efa-only":  # such a one has no address
            each.update(
                _address_settings(spec, ipv6, primary=number == 0), **_connection_tracking(spec)
            )
    if len(made) == 1 and spec.associatePublicIPAddress is not None:
        # EC2 gives no public address to an instance that is launched with several interfaces.
        made[0]["AssociatePublicIpAddress"] = spec.associatePublicIPAddress
    return made


def _interface_positions(spec: EC2NodeClassSpec, efa: int) -> list[Row]:
    """The primary one first. On further cards device 0 is left free: it would be primary too."""
    if spec.networkInterfaces:
        listed = sorted(spec.networkInterfaces, key=lambda i: (i.networkCardIndex, i.deviceIndex))
        return [
            {
                "NetworkCardIndex": each.networkCardIndex,
                "DeviceIndex": each.deviceIndex,
                "InterfaceType": each.interfaceType,
            }
            for each in listed
        ]
    return [
        {"NetworkCardIndex": card, "DeviceIndex": min(card, 1), "InterfaceType": "efa"}
        for card in range(efa)
    ] or [{"DeviceIndex": 0}]


def _address_settings(spec: EC2NodeClassSpec, ipv6: bool, *, primary: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if ipv6 and primary:
        made |= {"Ipv6AddressCount": 1, "PrimaryIpv6": True}
    if spec.ipPrefixCount is not None:
        made["Ipv6PrefixCount" if ipv6 else "Ipv4PrefixCount"] = spec.ipPrefixCount
    return made


def _connection_tracking(spec: EC2NodeClassSpec) -> dict[str, Any]:
    given = spec.connectionTracking or ConnectionTracking()
    stated = {
        "TcpEstablishedTimeout": given.tcpEstablishedTimeout,
        "UdpStreamTimeout": given.udpStreamTimeout,
        "UdpTimeout": given.udpTimeout,
    }
    found = {name: value for name, value in stated.items() if value is not None}
    return {"ConnectionTrackingSpecification": found} if found else {}


TEMPLATE_NAME_PREFIX: Final = "karpenter.k8s.aws/"
RESERVATIONS_ONLY_PREFERENCE: Final = "capacity-reservations-only"
INTERRUPTIBLE_MARKET: Final = "interruptible-capacity-reservation"


class LaunchTemplate(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A launch template as it is created."""

    data: Mapping[str, Any]
    """LaunchTemplateData, in the shape of the API."""
    tags: Mapping[str, str]

    @cached_property
    def name(self) -> str:
        content = msgspec.json.encode([self.data, self.tags], order="deterministic")
        return TEMPLATE_NAME_PREFIX + sha256(content).hexdigest()[:32]


class TargetReservation(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity reservation that is launched into."""

    id: str
    free: int
    """Instances that it still has room for, as far as is known."""
    kind: str = "default"
    """Or capacity-block."""
    interruptible: bool = False

    @property
    def market(self) -> str | None:
        """The market that it is bought on, where it is not the ordinary one."""
        if self.kind == CAPACITY_BLOCK:
            return CAPACITY_BLOCK
        return INTERRUPTIBLE_MARKET if self.interruptible else None


class SharedTemplateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all templates of one launch have in common."""

    spec: EC2NodeClassSpec
    family: AmiFamily
    groups: tuple[str, ...]
    """Ids of security groups."""
    profile: str
    """The instance profile's name."""
    tags: Mapping[str, str]
    """Of everything that is launched."""
    capacity_type: str
    ipv6: bool = False
    isolated_region: bool = False
    """Where EC2 does not know the newest options."""
    reservations_on: bool = True
    """The gate CapacityReservations."""
    tenancy: str = "default"
    enclave: bool = False
    placement: Mapping[str, Any] = {}
    """GroupId and PartitionNumber, where the class is in a placement group."""


class TemplateVariant(msgspec.Struct, frozen=True, kw_only=True):
    """What sets one template of a launch apart from the others."""

    image: str
    user_data: UserData
    efa: int = 0
    """Interfaces for EFA; none unless somebody asked for them."""
    reservation: TargetReservation | None = None


def build_template(common: SharedTemplateSettings, variant: TemplateVariant) -> LaunchTemplate:
    """Only what somebody has said is written; what is left out is EC2's own default."""
    spec = common.spec
    data: dict[str, Any] = {
        "ImageId": variant.image,
        "IamInstanceProfile": {"Name": common.profile},
        "MetadataOptions": _metadata_options(common),
        "Monitoring": {"Enabled": bool(spec.detailedMonitoring)},
        "EnclaveOptions": {"Enabled": common.enclave},
        "Placement": {"Tenancy": common.tenancy, **common.placement},
        "NetworkInterfaces": network_interfaces(
            spec, common.groups, efa=variant.efa, ipv6=common.ipv6
        ),
        "TagSpecifications": _tag_specifications(common),
    }
    optional = {
        "UserData": variant.user_data.encoded,
        "BlockDeviceMappings": block_devices(spec, common.family),
        "CpuOptions": _cpu_options(spec),
        "CapacityReservationSpecification": _reservation_specification(common, variant.reservation),
        "InstanceMarketOptions": _market_options(variant.reservation),
    }
    data |= {name: value for name, value in optional.items() if value}
    return LaunchTemplate(data=data, tags=dict(common.tags))


def _metadata_options(common: SharedTemplateSettings) -> dict[str, Any]:
    given = common.spec.metadataOptions
    made = {
        "HttpEndpoint": given.httpEndpoint,
        "HttpProtocolIpv6": given.httpProtocolIPv6,
        "HttpPutResponseHopLimit": given.httpPutResponseHopLimit,
        "HttpTokens": given.httpTokens,
    }
    # Tags with a slash in their key, as ours, would make EC2 refuse the launch.
    return made if common.isolated_region else made | {"InstanceMetadataTags": "disabled"}


def _tag_specifications(common: SharedTemplateSettings) -> list[dict[str, Any]]:
    """Of what the fleet request cannot tag: interfaces, and the request for spot itself."""
    request = ("spot-instances-request",) if common.capacity_type == SPOT else ()
    return tag_specifications(common.tags, "network-interface", *request)


def _cpu_options(spec: EC2NodeClassSpec) -> dict[str, str]:
    nested = None if spec.cpuOptions is None else spec.cpuOptions.nestedVirtualization
    return {} if nested is None else {"NestedVirtualization": nested}


def _reservation_specification(
    common: SharedTemplateSettings, reservation: TargetReservation | None
) -> dict[str, Any]:
    """A class that selects reservations is kept out of all others, open ones included.

    One that selects none, or with the gate off, says nothing: its instances may fall into an open
    reservation by themselves, as any instance of the account.
    """
    if reservation is not None:
        target = {"CapacityReservationId": reservation.id}
        return {
            "CapacityReservationPreference": RESERVATIONS_ONLY_PREFERENCE,
            "CapacityReservationTarget": target,
        }
    if common.reservations_on and common.spec.capacityReservationSelectorTerms:
        return {"CapacityReservationPreference": "none"}
    return {}


def _market_options(reservation: TargetReservation | None) -> dict[str, str]:
    market = None if reservation is None else reservation.market
    return {} if market is None else {"MarketType": market}
