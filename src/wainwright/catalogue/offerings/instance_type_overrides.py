"""InstanceType objects: resources, overhead and offerings of one type that users declare."""

from collections.abc import Iterator, Mapping
from typing import Any

from wainwright.api.catalog_documents import InstanceType
from wainwright.api.karpenter.shared_fields import PRICE_LABEL
from wainwright.api.quantity import parse_quantity
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_warning
from wainwright.catalogue.instancetypes.derived_amount import MIB
from wainwright.catalogue.instancetypes.node_class_settings import ResourceOverride
from wainwright.catalogue.offerings.excluded_offerings import UsableZones
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOffering,
    PriceLayer,
    PriceStep,
    sort_offerings,
)
from wainwright.catalogue.offerings.node_overlays import parse_price
from wainwright.model.instance_type import UNLIMITED
from wainwright.model.labels import (
    INSTANCE_CPU,
    INSTANCE_MEMORY,
    RESERVATION_ID,
    RESERVED,
    normalize_label,
)
from wainwright.model.requirements import (
    NO_REQUIREMENTS,
    Requirements,
    parse_integer,
)
from wainwright.model.resources import (
    CPU,
    MEMORY,
    capacity_from_nano,
    format_quantity,
    request_from_nano,
)


def parse_resource_override(item: InstanceType) -> ResourceOverride:
    """The amounts of the object in whole units: overhead rounded up, the others down."""
    overhead = item.spec.overhead or {}
    return ResourceOverride(
        resources=_parse_amounts(item.spec.resources or {}),
        overhead={
            name: request_from_nano(name, _parse_nano(overhead[name])) for name in sorted(overhead)
        },
        allocatable=_parse_amounts(item.spec.allocatable or {}),
    )


def _parse_amounts(amounts: Mapping[str, int | str]) -> dict[str, int]:
    return {name: capacity_from_nano(name, _parse_nano(amounts[name])) for name in sorted(amounts)}


def _parse_nano(quantity: int | str) -> int:
    return parse_quantity(str(quantity)).nano


def too_large_overhead_warnings(
    item: InstanceType,
    override: ResourceOverride,
    allocatable: Mapping[str, int],
    without: Mapping[str, int],
) -> Iterator[ObjectDiagnostic]:
    """Warnings about overhead that leaves nothing, or that `spec.allocatable` makes void.

    `allocatable` is with the object's overhead, `without` is the same without it.
    """
    for name, amount in override.overhead.items():
        path, left = ("spec", "overhead", name), without.get(name, 0)
        if name in override.allocatable:
            message = f"changes nothing for pods: spec.allocatable states the {name} that is left"
            yield object_warning("InstanceType", item.metadata.name, path, message)
        elif allocatable.get(name, 0) <= 0 < left:
            message = (
                f"{format_quantity(name, amount)} of {name} is more than the type can spare: pods "
                f"could use {format_quantity(name, left)} without it, and no pod fits with it"
            )
            yield object_warning("InstanceType", item.metadata.name, path, message)


def too_large_allocatable_warnings(
    item: InstanceType, override: ResourceOverride, labels: Requirements
) -> Iterator[ObjectDiagnostic]:
    """Warnings about more cpu or memory than the type has by its labels."""
    for name, label, unit in ((CPU, INSTANCE_CPU, 1000), (MEMORY, INSTANCE_MEMORY, MIB)):
        number = parse_integer(labels.single_value(label) or "")
        if number is not None and override.allocatable.get(name, 0) > number * unit:
            message = f"is more than the {format_quantity(name, number * unit)} that the type has"
            path = ("spec", "allocatable", name)
            yield object_warning("InstanceType", item.metadata.name, path, message)


def apply_declared_offerings(
    item: InstanceType, offerings: tuple[LayeredOffering, ...], usable_zones: UsableZones
) -> tuple[tuple[LayeredOffering, ...], list[ObjectDiagnostic]]:
    """The offerings that the object declares, and the reserved ones of lower layers.

    A list of offerings in the object replaces all on-demand and spot offerings.
    """
    if item.spec.offerings is None:
        return offerings, []
    diagnostics: list[ObjectDiagnostic] = []
    declared: list[LayeredOffering] = []
    for index, offering in enumerate(item.spec.offerings):
        labels = usable_zones.with_known_labels(_declared_labels(offering))
        unusable = usable_zones.exclude(_offering_as_declared(item, index, labels))
        if unusable.is_excluded:
            declared.append(unusable)
            diagnostics.append(_unusable_zone_warning(item, index, unusable))
            continue
        new = list(_declared_offerings(item, index, labels, offerings))
        declared += new
        diagnostics += _declared_offering_warnings(item, index, new)
    declared_ids = {offering.reservation_id for offering in declared} - {None}
    kept = [
        offering
        for offering in offerings
        if offering.is_reserved and offering.reservation_id not in declared_ids
    ]
    return sort_offerings([*declared, *kept]), diagnostics


def _declared_labels(offering: Mapping[str, Any]) -> dict[str, str]:
    """The labels of the offering as text."""
    return {
        normalize_label(key): _label_text(value)
        for key, value in offering.items()
        if key != PRICE_LABEL
    }


def _label_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _declared_price(item: InstanceType, index: int) -> float | None:
    price = (item.spec.offerings or [])[index].get(PRICE_LABEL)
    return None if price is None else parse_price(str(price))


def _offering_as_declared(
    item: InstanceType, index: int, labels: dict[str, str]
) -> LayeredOffering:
    """The offering by itself, whatever it replaces."""
    step = _override_step(item, None, _declared_price(item, index), f"spec.offerings[{index}]")
    return _declared_offering(NO_REQUIREMENTS, labels, (step,))


def _declared_offerings(
    item: InstanceType, index: int, labels: dict[str, str], offerings: tuple[LayeredOffering, ...]
) -> Iterator[LayeredOffering]:
    price = _declared_price(item, index)
    replaced = [
        offering
        for offering in offerings
        if not offering.is_reserved and _matches_labels(offering, labels)
    ]
    how = f"spec.offerings[{index}]"
    if price is None:
        for offering in replaced:
            if offering.price is not None:
                step = _override_step(
                    item, offering.price, offering.price, f"{how}, which keeps the price"
                )
                yield _declared_offering(
                    offering.requirements, labels, (*offering.steps, step), offering.available
                )
    elif len(replaced) == 1:
        step = _override_step(item, replaced[0].price, price, how)
        yield _declared_offering(NO_REQUIREMENTS, labels, (*replaced[0].steps, step))
    else:
        step = _override_step(item, None, price, f"{how}, in place of {len(replaced)} offerings")
        yield _declared_offering(NO_REQUIREMENTS, labels, (step,))


def _matches_labels(offering: LayeredOffering, labels: Mapping[str, str]) -> bool:
    """Whether the labels are compatible with those of the offering."""
    return all(offering.requirements.allowed(key).admits(value) for key, value in labels.items())


def _override_step(
    item: InstanceType, before: float | None, after: float | None, how: str
) -> PriceStep:
    return PriceStep(
        layer=PriceLayer.INSTANCE_TYPE,
        source=item.metadata.name,
        before=before,
        after=after,
        how=how,
    )


def _declared_offering(
    requirements: Requirements,
    labels: dict[str, str],
    steps: tuple[PriceStep, ...],
    available: int = UNLIMITED,
) -> LayeredOffering:
    return LayeredOffering(
        requirements=requirements.narrow(Requirements.from_labels(labels)),
        price=steps[-1].after,
        available=available,
        reservation_id=labels.get(RESERVATION_ID),
        steps=steps,
    )


def _unusable_zone_warning(
    item: InstanceType, index: int, offering: LayeredOffering
) -> ObjectDiagnostic:
    message = f"this offering is not available: {offering.steps[-1].how}"
    return object_warning("InstanceType", item.metadata.name, ("spec", "offerings", index), message)


def _declared_offering_warnings(
    item: InstanceType, index: int, offerings: list[LayeredOffering]
) -> Iterator[ObjectDiagnostic]:
    path, name = ("spec", "offerings", index), item.metadata.name
    if not offerings:
        message = "no price is known for this offering, so that nothing is launched through it"
        yield object_warning("InstanceType", name, path, message, f"give it {PRICE_LABEL}")
    if any(offering.capacity_type == RESERVED for offering in offerings):
        message = "a reserved offering without a capacity reservation behind it has no end"
        hint = "list the reservation in a Cloud, and select it in the EC2NodeClass"
        yield object_warning("InstanceType", name, path, message, hint)
