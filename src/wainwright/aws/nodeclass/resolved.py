"""Resolved: a class with everything that its terms have found; a value that launches work from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from wainwright.api import ec2nodeclass as wire
from wainwright.api.wire import Condition
from wainwright.aws.nodeclass.conditions import READY, TRUE
from wainwright.catalogue.reservations import Selected, Standing
from wainwright.catalogue.reservations import status as reservation_status
from wainwright.model.requirements import Requirements

LISTED: Final = 500
"""How many capacity reservations a status lists.

An entry takes about 250 bytes and an object of Kubernetes at most a megabyte and a half, which all
watchers get again at every change. Nothing here depends on the list: launches and drift work from
the whole of `Resolved.reservations`. What is cut is the end in the order of ids, so that the list
does not change with the free counts; the condition says how many there are.
"""


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    zone: str
    zone_id: str
    free: int
    """Addresses that nobody has."""


class SecurityGroup(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image, and the machines that it is for."""

    id: str
    name: str
    requirements: Requirements
    created: float = 0.0
    deprecated: bool = False


class PlacementGroup(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    strategy: str
    partitions: int = 0


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """A class as the account has it now. Lists are in the order in which they are to be used."""

    name: str
    uid: str
    generation: int | None = None
    subnets: tuple[Subnet, ...] = ()
    """Those with most free addresses first."""
    security_groups: tuple[SecurityGroup, ...] = ()
    images: tuple[Image, ...] = ()
    """Newest first; the same id can be there for several kinds of machines."""
    profile: str = ""
    reservations: tuple[Selected, ...] = ()
    """All that the terms select and that are active, offered to this class or not."""
    placement_group: PlacementGroup | None = None
    cluster_cidr: str = ""
    conditions: tuple[Condition, ...] = ()
    again: float = 60.0
    """Seconds after which something of it is to be looked at again."""

    @property
    def ready(self) -> bool:
        return self.condition(READY) == TRUE

    def condition(self, kind: str) -> str:
        """True, False or Unknown; empty where nobody has said anything."""
        return next((each.status for each in self.conditions if each.type == kind), "")

    @property
    def zones(self) -> Mapping[str, str]:
        """Zones in which instances can be placed, with their ids."""
        return {each.zone: each.zone_id for each in sorted(self.subnets, key=lambda one: one.zone)}

    @property
    def usable(self) -> frozenset[str]:
        """Ids of the reservations whose instances belong where they are."""
        stay = (Standing.OFFERED, Standing.ENDING)
        return frozenset(each.reservation.id for each in self.reservations if each.standing in stay)

    def image_for(self, kind: Requirements) -> Image | None:
        """The image that a machine with these labels boots."""
        return image_for(self.images, kind)


def image_for(images: Iterable[Image], kind: Requirements) -> Image | None:
    """The first that is for such machines; None where they cannot be booted at all."""
    return next((each for each in images if kind.compatible(each.requirements)), None)


def status(resolved: Resolved) -> wire.EC2NodeClassStatus:
    """As the object in the cluster has it."""
    return wire.EC2NodeClassStatus(
        subnets=[
            wire.Subnet(id=each.id, zone=each.zone, zoneID=each.zone_id)
            for each in resolved.subnets
        ],
        securityGroups=[
            wire.SecurityGroup(id=each.id, name=each.name) for each in resolved.security_groups
        ],
        capacityReservations=reservation_status(resolved.reservations)[:LISTED] or None,
        amis=[_image(each) for each in resolved.images],
        instanceProfile=resolved.profile,
        conditions=list(resolved.conditions),
    )


def _image(image: Image) -> wire.Image:
    return wire.Image(
        id=image.id,
        name=image.name,
        deprecated=image.deprecated,
        requirements=[
            wire.ImageRequirement(key=key, operator=operator, values=list(values) or None)
            for key, operator, values, _ in image.requirements.entries()
        ],
    )


def listed(reservations: Sequence[Selected]) -> str:
    """What the condition says about the reservations; nothing special where all are listed."""
    found = len(reservation_status(reservations))
    if found <= LISTED:
        return ""
    return f"{found} capacity reservations are in use by this class, {LISTED} of them listed here"
