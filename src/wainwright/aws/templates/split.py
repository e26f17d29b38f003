"""Split: a launch over several types and zones, divided among as few templates as it needs.

Templates differ by image, architecture, the interfaces for EFA, the reservation, and, where the
machine can only be told one number (Bottlerocket), by the pods that the class gives the type.
InstanceType objects never divide them: machines that can look up how many pods they take do
(`userdata/density.py`), and of the others a type is left out, with a remark, whose object asks for
another number than the class.

The table of pods covers every type of the class, not only those of the launch, so that one template
serves all launches of a pool. Where the user's own text leaves no room for that, it is cut down to
the types of the launch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wainwright.aws.nodeclass.resolved import Image, image_for
from wainwright.aws.templates.content import Common, Reservation, Template, Variant, template
from wainwright.aws.templates.disks import grown
from wainwright.aws.templates.kinds import Kind
from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.aws.userdata.write import LOOKS_UP_DENSITY, TooLarge, UserData, user_data
from wainwright.catalogue.ami import AmiFamily
from wainwright.model.labels import CAPACITY_TYPE


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A type in a zone, as it may be bought."""

    kind: str
    zone: str
    subnet: str
    price: float
    reservation: Reservation | None = None


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """All that the templates of one launch follow from."""

    common: Common
    bootstrap: Bootstrap
    """Labels, taints and settings; the pods by type are filled in here."""
    images: tuple[Image, ...]
    """In the order in which they are preferred."""
    kinds: Mapping[str, Kind]
    """Every type of the class, by name."""
    offers: tuple[Offer, ...]
    """Of one capacity type."""
    efa: bool = False
    """Whether pods ask for interfaces of that kind."""
    prioritised: bool = False
    """Whether prices are handed on, as priorities: those of overlays are not EC2's."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A template with the types and zones that are launched from it."""

    template: Template
    overrides: tuple[Mapping[str, Any], ...]

    def as_request(self) -> dict[str, Any]:
        """As CreateFleet takes it among its LaunchTemplateConfigs."""
        named = {"LaunchTemplateName": self.template.name, "Version": "$Latest"}
        return {"LaunchTemplateSpecification": named, "Overrides": [*map(dict, self.overrides)]}


class Split(msgspec.Struct, frozen=True, kw_only=True):
    configs: tuple[Config, ...]
    """None where no offer can be launched."""
    remarks: tuple[str, ...] = ()


class Key(msgspec.Struct, frozen=True, order=True):
    """What offers must agree in to be launched from one template."""

    image: str
    architecture: str
    max_pods: int
    """-1: whatever the class or the image says."""
    efa: int
    reservation: str


def split(launch: Launch) -> Split:
    """Templates in a fixed order, each with its offers, cheapest first."""
    images, remarks = _bootable(launch)
    left = [each for each in one_per_pool(launch.offers) if each.kind in images]
    groups: dict[Key, list[Offer]] = {}
    for offer in sorted(left, key=lambda each: (each.price, each.kind, each.zone)):
        groups.setdefault(_key(launch, offer, images[offer.kind]), []).append(offer)
    configs = []
    for key, offers in sorted(groups.items()):
        config, warnings = _config(launch, key, offers)
        configs.append(config)
        remarks += warnings
    return Split(configs=tuple(configs), remarks=tuple(dict.fromkeys(remarks)))


def one_per_pool(offers: Iterable[Offer]) -> list[Offer]:
    """Each type and zone once, as EC2 demands: of several reservations that with most room.

    A reservation known to be full is left out.
    """
    best: dict[tuple[str, str], Offer] = {}
    for offer in sorted(offers, key=_room):
        if offer.reservation is None or offer.reservation.free > 0:
            best.setdefault((offer.kind, offer.zone), offer)
    return list(best.values())


def _room(offer: Offer) -> tuple[int, float, str, str]:
    held = offer.reservation
    free, name = (0, "") if held is None else (held.free, held.id)
    return -free, offer.price, name, offer.subnet


def misfits(family: AmiFamily, kinds: Iterable[Kind]) -> dict[str, str]:
    """Types that would not take as many pods as were planned with, by name, and why.

    They cannot be told: their image knows one number for the class, or what it reckons itself.
    """
    if family is not AmiFamily.BOTTLEROCKET:
        return {}
    return {
        each.name: f"{each.name} is left out: its InstanceType object says {each.density} pods, "
        f"but {family.value} cannot be told by type and would take {each.by_class}"
        for each in kinds
        if each.density != each.by_class
    }


def _bootable(launch: Launch) -> tuple[dict[str, str], list[str]]:
    """The id of the image for each type that can be launched, and why the others cannot."""
    offered = [launch.kinds[name] for name in sorted({offer.kind for offer in launch.offers})]
    left_out = misfits(launch.common.family, offered)
    images: dict[str, str] = {}
    for each in offered:
        image = image_for(launch.images, each.requirements)
        if image is None:
            left_out[each.name] = f"{each.name} is left out: no image of the class is made for it"
        elif each.name not in left_out:
            images[each.name] = image.id
    return images, list(left_out.values())


def _key(launch: Launch, offer: Offer, image: str) -> Key:
    kind = launch.kinds[offer.kind]
    by_class = not launch.common.spec.networkInterfaces
    return Key(
        image=image,
        architecture=kind.architecture,
        max_pods=_max_pods(launch, kind),
        efa=kind.efa_interfaces if launch.efa and by_class else 0,
        reservation="" if offer.reservation is None else offer.reservation.id,
    )


def _max_pods(launch: Launch, kind: Kind) -> int:
    """The number that the machine must be told with the template, -1 for none of its own.

    Without maxPods Bottlerocket reckons right, unless interfaces are reserved or prefixes used.
    """
    told = launch.common.family is AmiFamily.BOTTLEROCKET and launch.bootstrap.max_pods is None
    return kind.by_class if told and kind.by_class != kind.unaided else -1


def _config(launch: Launch, key: Key, offers: Sequence[Offer]) -> tuple[Config, tuple[str, ...]]:
    written = _user_data(launch, key, offers)
    variant = Variant(
        image=key.image,
        user_data=written,
        efa=key.efa,
        reservation=offers[0].reservation,
    )
    overrides = tuple(_override(launch, key, offer) for offer in offers)
    made = Config(template=template(launch.common, variant), overrides=overrides)
    return made, written.warnings


def _user_data(launch: Launch, key: Key, offers: Sequence[Offer]) -> UserData:
    labels = {**launch.bootstrap.labels, CAPACITY_TYPE: launch.common.capacity_type}
    bootstrap = msgspec.structs.replace(launch.bootstrap, labels=labels)
    if key.max_pods >= 0:
        bootstrap = msgspec.structs.replace(bootstrap, max_pods=key.max_pods)
    named = {offer.kind for offer in offers}
    try:
        return _written(launch, bootstrap, lambda kind: kind.architecture == key.architecture)
    except TooLarge:
        return _written(launch, bootstrap, lambda kind: kind.name in named)


def _written(launch: Launch, bootstrap: Bootstrap, wanted: Callable[[Kind], bool]) -> UserData:
    family = launch.common.family
    if family in LOOKS_UP_DENSITY:
        found = [each for each in launch.kinds.values() if wanted(each)]
        bootstrap = msgspec.structs.replace(
            bootstrap,
            densities={each.name: each.density for each in found},
            reserved={each.name: each.reserved for each in found if each.reserved},
        )
    return user_data(family, bootstrap)


def _override(launch: Launch, key: Key, offer: Offer) -> dict[str, Any]:
    made: dict[str, Any] = {
        "InstanceType": offer.kind,
        "SubnetId": offer.subnet,
        "AvailabilityZone": offer.zone,
        "ImageId": key.image,
    }
    if launch.prioritised:
        made["Priority"] = offer.price
    disk = launch.kinds[offer.kind].disk
    if disk is not None:
        made["BlockDeviceMappings"] = grown(launch.common.spec, launch.common.family, disk)
    return {name: value for name, value in made.items() if value != []}
