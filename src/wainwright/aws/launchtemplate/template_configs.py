"""A launch over several types and zones, split into as few launch templates as it needs.

Templates differ by image, architecture, the interfaces for EFA, the reservation, and, where the
node can only be told one number (Bottlerocket), by the pods that the class gives the type.
InstanceType objects never divide them: nodes that can look up how many pods they take do
(`userdata/bootstrap_options.py`), and of the others a type is left out, with a remark, whose object
asks for another number than the class.

The table of pods covers every type of the class, not only those of the launch, so that one template
serves all launches of a pool. Where the user's own text leaves no room for that, it is cut down to
the types of the launch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.api.quantity import NANO, Quantity, QuantityFormat
from wainwright.aws.launchtemplate.template_data import (
    LaunchTemplate,
    SharedTemplateSettings,
    TargetReservation,
    TemplateVariant,
    build_template,
    resized_block_devices,
)
from wainwright.aws.nodeclass.status import ResolvedImage, select_image
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.aws.userdata.user_data import (
    MAX_PODS_LOOKUP_FAMILIES,
    UserData,
    UserDataTooLarge,
    build_user_data,
)
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.instancetypes.capacity import NodeResources
from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.instancetypes.max_pods import compute_max_pods, eni_limited_pods
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, NodeClassSettings
from wainwright.model.labels import CAPACITY_TYPE
from wainwright.model.requirements import Requirements
from wainwright.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

DEFAULT_CLASS_SETTINGS = NodeClassSettings()
KUBE_RESERVED_BY_FAMILY: Final = {
    AmiFamily.AL2: (CPU, EPHEMERAL_STORAGE, MEMORY),
    AmiFamily.AL2023: (MEMORY,),
}
"""What a kubelet is told of the resources that it keeps. On a command line, as AL2 has it, the list
stands in place of all that the image has reckoned; files of settings are merged. Bottlerocket is
told nothing by type, Windows reckons right, and nobody but its owner tells a Custom image."""


class LaunchInstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type under a class."""

    name: str
    architecture: str
    requirements: Requirements
    """Its labels, by which an image is chosen for it."""
    density: int
    """The pods in force, which were planned with."""
    by_class: int
    """The pods it would take without an InstanceType object."""
    unaided: int
    """The pods an image reckons by the type's interfaces when it is told nothing."""
    efa_interfaces: int = 0
    disk: int | None = None
    """Bytes of the disk that holds pods, where it must be larger than the class has it."""
    reserved: str = ""
    """What its kubelet must be told to keep, where the image would reckon with other pods."""


def launch_instance_type(
    machine: InstanceTypeInfo,
    size: NodeResources,
    requirements: Requirements,
    settings: NodeClassSettings,
) -> LaunchInstanceType:
    storage = size.derived.capacity[EPHEMERAL_STORAGE]
    return LaunchInstanceType(
        name=machine.name,
        architecture=machine.architecture,
        requirements=requirements,
        density=size.capacity[PODS],
        by_class=compute_max_pods(machine, settings).amount,
        unaided=eni_limited_pods(machine, DEFAULT_CLASS_SETTINGS, reserved=0).amount,
        efa_interfaces=machine.efa_interfaces,
        disk=storage.amount if storage.rule is DerivationRule.SIZED_TO_PODS else None,
        reserved=_kube_reserved(size.derived.overhead.kube_reserved, settings.ami_family),
    )


def _kube_reserved(kept: Mapping[str, DerivedAmount], family: AmiFamily) -> str:
    """Nothing unless memory was reckoned by the pods of an InstanceType object."""
    memory = kept.get(MEMORY)
    if memory is None or memory.rule is not DerivationRule.KUBE_MEMORY_DECLARED:
        return ""
    return ",".join(
        f"{each}={_format_amount(each, kept[each].amount)}"
        for each in KUBE_RESERVED_BY_FAMILY.get(family, ())
    )


def _format_amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount}m"
    return str(Quantity(amount * NANO, QuantityFormat.BINARY))


def launch_instance_types(
    built: NodeClassCatalog, machines: Mapping[str, InstanceTypeInfo]
) -> dict[str, LaunchInstanceType]:
    """Every type of a class's catalogue, by name."""
    settings = built.settings or DEFAULT_CLASS_SETTINGS
    return {
        each.name: launch_instance_type(
            machines[each.name], built.resources[each.name], each.requirements, settings
        )
        for each in built.types
        if each.name in machines
    }


class SubnetOffering(msgspec.Struct, frozen=True, kw_only=True):
    """A type in a zone, as it may be bought."""

    kind: str
    zone: str
    subnet: str
    price: float
    reservation: TargetReservation | None = None


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All that the templates of one launch follow from."""

    common: SharedTemplateSettings
    bootstrap: BootstrapOptions
    """Labels, taints and settings; the pods by type are filled in here."""
    images: tuple[ResolvedImage, ...]
    """In the order in which they are preferred."""
    kinds: Mapping[str, LaunchInstanceType]
    """Every type of the class, by name."""
    offers: tuple[SubnetOffering, ...]
    """Of one capacity type."""
    efa: bool = False
    """Whether pods ask for interfaces of that kind."""
    prioritised: bool = False
    """Whether prices are handed on, as priorities: those of overlays are not EC2's."""


class LaunchTemplateConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A template with the types and zones that are launched from it."""

    template: LaunchTemplate
    overrides: tuple[Mapping[str, Any], ...]

    def as_request(self) -> dict[str, Any]:
        """As CreateFleet takes it among its LaunchTemplateConfigs."""
        named = {"LaunchTemplateName": self.template.name, "Version": "$Latest"}
        return {"LaunchTemplateSpecification": named, "Overrides": [*map(dict, self.overrides)]}


class TemplateSplit(msgspec.Struct, frozen=True, kw_only=True):
    configs: tuple[LaunchTemplateConfig, ...]
    """None where no offer can be launched."""
    remarks: tuple[str, ...] = ()


class TemplateKey(msgspec.Struct, frozen=True, order=True):
    """What offers must agree in to be launched from one template."""

    image: str
    architecture: str
    max_pods: int
    """-1: whatever the class or the image says."""
    efa: int
    reservation: str


def split_by_template(launch: LaunchSpec) -> TemplateSplit:
    """Templates in a fixed order, each with its offers, cheapest first."""
    images, remarks = _select_images(launch)
    left = [each for each in one_per_type_and_zone(launch.offers) if each.kind in images]
    groups: dict[TemplateKey, list[SubnetOffering]] = {}
    for offer in sorted(left, key=lambda each: (each.price, each.kind, each.zone)):
        groups.setdefault(_template_key(launch, offer, images[offer.kind]), []).append(offer)
    configs = []
    for key, offers in sorted(groups.items()):
        config, warnings = _build_config(launch, key, offers)
        configs.append(config)
        remarks += warnings
    return TemplateSplit(configs=tuple(configs), remarks=tuple(dict.fromkeys(remarks)))


def one_per_type_and_zone(offers: Iterable[SubnetOffering]) -> list[SubnetOffering]:
    """Each type and zone once, as EC2 demands: of several reservations that with most room.

    A reservation known to be full is left out.
    """
    best: dict[tuple[str, str], SubnetOffering] = {}
    for offer in sorted(offers, key=_most_available_first):
        if offer.reservation is None or offer.reservation.free > 0:
            best.setdefault((offer.kind, offer.zone), offer)
    return list(best.values())


def _most_available_first(offer: SubnetOffering) -> tuple[int, float, str, str]:
    held = offer.reservation
    free, name = (0, "") if held is None else (held.free, held.id)
    return -free, offer.price, name, offer.subnet


def max_pods_mismatches(family: AmiFamily, kinds: Iterable[LaunchInstanceType]) -> dict[str, str]:
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


def _select_images(launch: LaunchSpec) -> tuple[dict[str, str], list[str]]:
    """The id of the image for each type that can be launched, and why the others cannot."""
    offered = [launch.kinds[name] for name in sorted({offer.kind for offer in launch.offers})]
    left_out = max_pods_mismatches(launch.common.family, offered)
    images: dict[str, str] = {}
    for each in offered:
        image = select_image(launch.images, each.requirements)
        if image is None:
            left_out[each.name] = f"{each.name} is left out: no image of the class is made for it"
        elif each.name not in left_out:
            images[each.name] = image.id
    return images, list(left_out.values())


def _template_key(launch: LaunchSpec, offer: SubnetOffering, image: str) -> TemplateKey:
    kind = launch.kinds[offer.kind]
    by_class = not launch.common.spec.networkInterfaces
    return TemplateKey(
        image=image,
        architecture=kind.architecture,
        max_pods=_template_max_pods(launch, kind),
        efa=kind.efa_interfaces if launch.efa and by_class else 0,
        reservation="" if offer.reservation is None else offer.reservation.id,
    )


def _template_max_pods(launch: LaunchSpec, kind: LaunchInstanceType) -> int:
    """The number that the instance must be told with the template, -1 for none of its own.

    Without maxPods Bottlerocket reckons right, unless interfaces are reserved or prefixes used.
    """
    told = launch.common.family is AmiFamily.BOTTLEROCKET and launch.bootstrap.max_pods is None
    return kind.by_class if told and kind.by_class != kind.unaided else -1


def _build_config(
    launch: LaunchSpec, key: TemplateKey, offers: Sequence[SubnetOffering]
) -> tuple[LaunchTemplateConfig, tuple[str, ...]]:
    written = _template_user_data(launch, key, offers)
    variant = TemplateVariant(
        image=key.image,
        user_data=written,
        efa=key.efa,
        reservation=offers[0].reservation,
    )
    overrides = tuple(_fleet_override(launch, key, offer) for offer in offers)
    made = LaunchTemplateConfig(
        template=build_template(launch.common, variant), overrides=overrides
    )
    return made, written.warnings


def _template_user_data(
    launch: LaunchSpec, key: TemplateKey, offers: Sequence[SubnetOffering]
) -> UserData:
    labels = {**launch.bootstrap.labels, CAPACITY_TYPE: launch.common.capacity_type}
    bootstrap = msgspec.structs.replace(launch.bootstrap, labels=labels)
    if key.max_pods >= 0:
        bootstrap = msgspec.structs.replace(bootstrap, max_pods=key.max_pods)
    named = {offer.kind for offer in offers}
    try:
        return _render_user_data(
            launch, bootstrap, lambda kind: kind.architecture == key.architecture
        )
    except UserDataTooLarge:
        return _render_user_data(launch, bootstrap, lambda kind: kind.name in named)


def _render_user_data(
    launch: LaunchSpec, bootstrap: BootstrapOptions, wanted: Callable[[LaunchInstanceType], bool]
) -> UserData:
    family = launch.common.family
    if family in MAX_PODS_LOOKUP_FAMILIES:
        found = [each for each in launch.kinds.values() if wanted(each)]
        bootstrap = msgspec.structs.replace(
            bootstrap,
            densities={each.name: each.density for each in found},
            reserved={each.name: each.reserved for each in found if each.reserved},
        )
    return build_user_data(family, bootstrap)


def _fleet_override(launch: LaunchSpec, key: TemplateKey, offer: SubnetOffering) -> dict[str, Any]:
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
        made["BlockDeviceMappings"] = resized_block_devices(
            launch.common.spec, launch.common.family, disk
        )
    return {name: value for name, value in made.items() if value != []}
