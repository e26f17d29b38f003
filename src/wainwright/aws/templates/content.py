"""Content: what a launch template says, and the name that follows from it.

The name is a hash of all that the template holds, tags included. So equal templates are one and
the same, whoever makes them, and a template is never changed: what has changed is another one.
"""

from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClassSpec
from wainwright.aws.templates.disks import block_devices
from wainwright.aws.templates.network import interfaces
from wainwright.aws.userdata.write import UserData
from wainwright.aws.wire import tagged
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.reservations import CAPACITY_BLOCK
from wainwright.model.labels import SPOT

PREFIX: Final = "karpenter.k8s.aws/"
RESERVED_ONLY: Final = "capacity-reservations-only"
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"


class Template(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A launch template as it is created."""

    data: Mapping[str, Any]
    """LaunchTemplateData, in the shape of the API."""
    tags: Mapping[str, str]

    @cached_property
    def name(self) -> str:
        content = msgspec.json.encode([self.data, self.tags], order="deterministic")
        return PREFIX + sha256(content).hexdigest()[:32]


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
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
        return INTERRUPTIBLE if self.interruptible else None


class Common(msgspec.Struct, frozen=True, kw_only=True):
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


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """What sets one template of a launch apart from the others."""

    image: str
    user_data: UserData
    efa: int = 0
    """Interfaces for EFA; none unless somebody asked for them."""
    reservation: Reservation | None = None


def template(common: Common, variant: Variant) -> Template:
    """Only what somebody has said is written; what is left out is EC2's own default."""
    spec = common.spec
    data: dict[str, Any] = {
        "ImageId": variant.image,
        "IamInstanceProfile": {"Name": common.profile},
        "MetadataOptions": _metadata(common),
        "Monitoring": {"Enabled": bool(spec.detailedMonitoring)},
        "EnclaveOptions": {"Enabled": common.enclave},
        "Placement": {"Tenancy": common.tenancy, **common.placement},
        "NetworkInterfaces": interfaces(spec, common.groups, efa=variant.efa, ipv6=common.ipv6),
        "TagSpecifications": _tags(common),
    }
    optional = {
        "UserData": variant.user_data.encoded,
        "BlockDeviceMappings": block_devices(spec, common.family),
        "CpuOptions": _cpu(spec),
        "CapacityReservationSpecification": _reservation(common, variant.reservation),
        "InstanceMarketOptions": _market(variant.reservation),
    }
    data |= {name: value for name, value in optional.items() if value}
    return Template(data=data, tags=dict(common.tags))


def _metadata(common: Common) -> dict[str, Any]:
    given = common.spec.metadataOptions
    made = {
        "HttpEndpoint": given.httpEndpoint,
        "HttpProtocolIpv6": given.httpProtocolIPv6,
        "HttpPutResponseHopLimit": given.httpPutResponseHopLimit,
        "HttpTokens": given.httpTokens,
    }
    # Tags with a slash in their key, as ours, would make EC2 refuse the launch.
    return made if common.isolated_region else made | {"InstanceMetadataTags": "disabled"}


def _tags(common: Common) -> list[dict[str, Any]]:
    """Of what the fleet request cannot tag: interfaces, and the request for spot itself."""
    request = ("spot-instances-request",) if common.capacity_type == SPOT else ()
    return tagged(common.tags, "network-interface", *request)


def _cpu(spec: EC2NodeClassSpec) -> dict[str, str]:
    nested = None if spec.cpuOptions is None else spec.cpuOptions.nestedVirtualization
    return {} if nested is None else {"NestedVirtualization": nested}


def _reservation(common: Common, reservation: Reservation | None) -> dict[str, Any]:
    """A class that selects reservations is kept out of all others, open ones included.

    One that selects none, or with the gate off, says nothing: its machines may fall into an open
    reservation by themselves, as any machine of the account.
    """
    if reservation is not None:
        target = {"CapacityReservationId": reservation.id}
        return {
            "CapacityReservationPreference": RESERVED_ONLY,
            "CapacityReservationTarget": target,
        }
    if common.reservations_on and common.spec.capacityReservationSelectorTerms:
        return {"CapacityReservationPreference": "none"}
    return {}


def _market(reservation: Reservation | None) -> dict[str, str]:
    market = None if reservation is None else reservation.market
    return {} if market is None else {"MarketType": market}
