"""The content of a launch template: LaunchTemplateData, and the name derived from it.

The name is a hash of the whole content, tags included. So equal templates have the same name, also
in another process, and a template is never modified: other content is another template.
"""

from base64 import b64decode
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
from wainwright.aws.api.services import Row, tag_specifications
from wainwright.aws.instances import RESERVATIONS_ONLY
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
    """The disks of the class, else the defaults of the family; none for Custom images."""
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
    """Block devices for the override of a type whose pods need `size` bytes.

    Empty if it is unknown which disk holds the pods. Overrides have fewer fields than templates.
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
    """EC2 takes whole GiB: a size such as 20G is rounded up."""
    result = {} if volume.volumeSize is None else {"VolumeSize": _round_up_gib(volume.volumeSize)}
    optional = {name: getattr(volume, field) for name, field in EBS_FIELDS.items()}
    return result | {name: value for name, value in optional.items() if value is not None}


def _round_up_gib(size: str) -> int:
    return ceil_div(parse_quantity(size).units, GIB)


def network_interfaces(
    spec: EC2NodeClassSpec, groups: Sequence[str], *, efa: int = 0, ipv6: bool = False
) -> list[Row]:
    """Those of the class; else `efa` EFA interfaces; else one.

    Security groups are set here and not on the template: EC2 accepts them in one place only.
    """
    result = [each | {"Groups": sorted(groups)} for each in _interface_positions(spec, efa)]
    for number, each in enumerate(result):
        if each.get("InterfaceType") != "efa-only":  # efa-only interfaces have no address
            each.update(
                _address_settings(spec, ipv6, primary=number == 0), **_connection_tracking(spec)
            )
    if len(result) == 1 and spec.associatePublicIPAddress is not None:
        # EC2 assigns no public address to an instance that is launched with several interfaces.
        result[0]["AssociatePublicIpAddress"] = spec.associatePublicIPAddress
    return result


def _interface_positions(spec: EC2NodeClassSpec, efa: int) -> list[Row]:
    """The primary one first. Further cards start at device 1: device 0 would be primary too."""
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
    result: dict[str, Any] = {}
    if ipv6 and primary:
        result |= {"Ipv6AddressCount": 1, "PrimaryIpv6": True}
    if spec.ipPrefixCount is not None:
        result["Ipv6PrefixCount" if ipv6 else "Ipv4PrefixCount"] = spec.ipPrefixCount
    return result


def _connection_tracking(spec: EC2NodeClassSpec) -> dict[str, Any]:
    settings = spec.connectionTracking or ConnectionTracking()
    optional = {
        "TcpEstablishedTimeout": settings.tcpEstablishedTimeout,
        "UdpStreamTimeout": settings.udpStreamTimeout,
        "UdpTimeout": settings.udpTimeout,
    }
    timeouts = {name: value for name, value in optional.items() if value is not None}
    return {"ConnectionTrackingSpecification": timeouts} if timeouts else {}


TEMPLATE_NAME_PREFIX: Final = "karpenter.k8s.aws/"
INTERRUPTIBLE_RESERVATION: Final = "interruptible-capacity-reservation"


class LaunchTemplate(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A launch template as it is created."""

    data: Mapping[str, Any]
    """LaunchTemplateData, in the shape of the API."""
    tags: Mapping[str, str]

    @cached_property
    def name(self) -> str:
        content = msgspec.json.encode([self.data, self.tags], order="deterministic")
        return TEMPLATE_NAME_PREFIX + sha256(content).hexdigest()[:32]

    @property
    def user_data_size(self) -> int:
        """In bytes, as EC2 counts them."""
        return len(b64decode(self.data["UserData"]))


class TargetReservation(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity reservation that a template launches into."""

    id: str
    available_count: int
    """Available instances, as far as is known."""
    reservation_type: str = "default"
    """Or capacity-block."""
    interruptible: bool = False

    @property
    def market_type(self) -> str | None:
        """MarketType of InstanceMarketOptions; None for the default."""
        if self.reservation_type == CAPACITY_BLOCK:
            return CAPACITY_BLOCK
        return INTERRUPTIBLE_RESERVATION if self.interruptible else None


class SharedTemplateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that all templates of one launch share."""

    spec: EC2NodeClassSpec
    family: AmiFamily
    groups: tuple[str, ...]
    """Ids of security groups."""
    profile: str
    """The instance profile's name."""
    tags: Mapping[str, str]
    """Of every resource that is launched."""
    capacity_type: str
    ipv6: bool = False
    isolated_region: bool = False
    """Where EC2 does not know the newest options."""
    reservations_on: bool = True
    """The feature gate CapacityReservations."""
    tenancy: str = "default"
    enclave: bool = False
    placement: Mapping[str, Any] = {}
    """GroupId and PartitionNumber, if the class has a placement group."""


class TemplateVariant(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in which the templates of one launch differ."""

    image: str
    user_data: UserData
    efa: int = 0
    """Number of EFA interfaces; 0 unless pods request them."""
    reservation: TargetReservation | None = None


def build_template(shared: SharedTemplateSettings, variant: TemplateVariant) -> LaunchTemplate:
    """Only explicit settings are written; for the others EC2's defaults apply."""
    spec = shared.spec
    data: dict[str, Any] = {
        "ImageId": variant.image,
        "IamInstanceProfile": {"Name": shared.profile},
        "MetadataOptions": _metadata_options(shared),
        "Monitoring": {"Enabled": bool(spec.detailedMonitoring)},
        "EnclaveOptions": {"Enabled": shared.enclave},
        "Placement": {"Tenancy": shared.tenancy, **shared.placement},
        "NetworkInterfaces": network_interfaces(
            spec, shared.groups, efa=variant.efa, ipv6=shared.ipv6
        ),
        "TagSpecifications": _tag_specifications(shared),
    }
    optional = {
        "UserData": variant.user_data.encoded,
        "BlockDeviceMappings": block_devices(spec, shared.family),
        "CpuOptions": _cpu_options(spec),
        "CapacityReservationSpecification": _reservation_specification(shared, variant.reservation),
        "InstanceMarketOptions": _market_options(variant.reservation),
    }
    data |= {name: value for name, value in optional.items() if value}
    return LaunchTemplate(data=data, tags=dict(shared.tags))


def _metadata_options(shared: SharedTemplateSettings) -> dict[str, Any]:
    settings = shared.spec.metadataOptions
    result = {
        "HttpEndpoint": settings.httpEndpoint,
        "HttpProtocolIpv6": settings.httpProtocolIPv6,
        "HttpPutResponseHopLimit": settings.httpPutResponseHopLimit,
        "HttpTokens": settings.httpTokens,
    }
    # With instance metadata tags enabled, EC2 rejects tags with a slash in their key, as ours.
    return result if shared.isolated_region else result | {"InstanceMetadataTags": "disabled"}


def _tag_specifications(shared: SharedTemplateSettings) -> list[dict[str, Any]]:
    """Tags of resources that CreateFleet cannot tag: network interfaces and the spot request."""
    request = ("spot-instances-request",) if shared.capacity_type == SPOT else ()
    return tag_specifications(shared.tags, "network-interface", *request)


def _cpu_options(spec: EC2NodeClassSpec) -> dict[str, str]:
    nested = None if spec.cpuOptions is None else spec.cpuOptions.nestedVirtualization
    return {} if nested is None else {"NestedVirtualization": nested}


def _reservation_specification(
    shared: SharedTemplateSettings, reservation: TargetReservation | None
) -> dict[str, Any]:
    """A class that selects reservations is kept out of all others, open ones included.

    A class that selects none, or with the gate off, sets nothing: EC2 may put its instances into an
    open reservation, as any instance of the account.
    """
    if reservation is not None:
        target = {"CapacityReservationId": reservation.id}
        return {
            "CapacityReservationPreference": RESERVATIONS_ONLY,
            "CapacityReservationTarget": target,
        }
    if shared.reservations_on and shared.spec.capacityReservationSelectorTerms:
        return {"CapacityReservationPreference": "none"}
    return {}


def _market_options(reservation: TargetReservation | None) -> dict[str, str]:
    market_type = None if reservation is None else reservation.market_type
    return {} if market_type is None else {"MarketType": market_type}
