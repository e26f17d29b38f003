"""NodeOverlay and InstanceType objects: what users change about types and offerings.

NodeOverlays adjust prices and add capacity wherever their requirements match; of overlays with
equal weight that set the same field of the same thing the later one is void, as a whole. An
InstanceType object replaces resources, overhead and offerings of one type, and wins over overlays.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.shared_fields import PRICE_LABEL
from wainwright.api.quantity import parse_quantity
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_warning
from wainwright.catalogue.instancetypes.derived_amount import MIB, DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.node_class_settings import ResourceOverride
from wainwright.catalogue.offerings.excluded_offerings import UsableZones
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOffering,
    LayeredOfferings,
    PriceLayer,
    PriceStep,
    sort_offerings,
)
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
    Requirement,
    Requirements,
    ValueSet,
    parse_integer,
)
from wainwright.model.resources import (
    CPU,
    MEMORY,
    capacity_from_nano,
    format_quantity,
    request_from_nano,
)


class ParsedOverlay(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    weight: int
    """0 where the object has none: lower than every weight."""
    requirements: Requirements
    price: str | None = None
    adjustment: str | None = None
    capacity: dict[str, int]

    @property
    def sets_price(self) -> bool:
        return self.price is not None or self.adjustment is not None

    def price_step(self, offering: LayeredOffering) -> PriceStep | None:
        """The change of the offering's price; None where there is no price to adjust."""
        if self.price is not None:
            after, how = _parse_price(self.price), f"weight {self.weight}"
        elif self.adjustment is not None and offering.price is not None:
            after, how = adjust_price(offering.price, self.adjustment), self.adjustment
            how = f"{how}, weight {self.weight}"
        else:
            return None
        return PriceStep(
            layer=PriceLayer.OVERLAY, source=self.name, before=offering.price, after=after, how=how
        )


def parse_overlay(item: NodeOverlay) -> ParsedOverlay:
    spec = item.spec
    capacity = {
        name: parse_quantity(str(amount)).nano for name, amount in (spec.capacity or {}).items()
    }
    return ParsedOverlay(
        name=item.metadata.name,
        weight=spec.weight or 0,
        requirements=Requirements.from_entries(
            (each.key, each.operator, tuple(each.values or ()), None) for each in spec.requirements
        ),
        price=spec.price,
        adjustment=spec.priceAdjustment,
        capacity={name: capacity_from_nano(name, nano) for name, nano in sorted(capacity.items())},
    )


def sort_by_weight(overlays: list[ParsedOverlay]) -> list[ParsedOverlay]:
    """In the order of precedence: the highest weight first, equal weights in the order of names."""
    return sorted(overlays, key=lambda each: (-each.weight, each.name))


MAX_PRICE: Final = 1e9
"""USD per hour; what is stated to cost more costs this, so that prices can be compared."""


def _parse_price(text: str) -> float:
    return min(float(text), MAX_PRICE)


@lru_cache(maxsize=65536)  # decimals are slow, and zones share prices
def adjust_price(price: float, adjustment: str) -> float:
    """The adjusted price, computed in decimals, so that 0.1 + 0.2 is 0.3; never below zero."""
    before = Decimal(repr(price))
    if adjustment.endswith("%"):
        after = before * (100 + Decimal(adjustment[:-1])) / 100
    else:
        after = before + Decimal(adjustment)
    return max(0.0, min(float(after), MAX_PRICE))


MAX_OUTWEIGHED = 10
"""Overlays without effect that the history of a price names; of others only the number is said."""
OverlayTargets: TypeAlias = Mapping[str, tuple[int, ...]]
"""By type, the positions of the offerings that match; empty where a type has no offerings."""


class OfferingLayout(msgspec.Struct, frozen=True):
    """The labels of a type's offerings, by their position.

    Without the reserved ones, which never match: their price only makes them preferred, and is not
    what is paid.
    """

    labels: tuple[tuple[int, Requirements], ...]
    has_offerings: bool

    def matching_positions(
        self, wanted: Sequence[tuple[str, ValueSet]], unmet: Sequence[str]
    ) -> tuple[int, ...] | None:
        """The positions of the offerings that match; None where the type does not match.

        `unmet` are the labels of which the type itself has no wanted value. Labels of an offering
        take precedence over those of its type.
        """
        if not self.has_offerings:
            return None if unmet else ()
        return (
            tuple(
                position
                for position, labels in self.labels
                if all(key in labels for key in unmet)
                and all(
                    labels[key].allowed.is_compatible_with(allowed)
                    for key, allowed in wanted
                    if key in labels
                )
            )
            or None
        )


def _layout(
    offerings: tuple[LayeredOffering, ...], known: dict[object, OfferingLayout]
) -> OfferingLayout:
    """By identity: the offerings of a catalogue share the objects of their labels."""
    key = tuple([(id(each.requirements), each.is_reserved) for each in offerings])
    layout = known.get(key)
    if layout is None:
        labels = tuple(
            (position, each.requirements)
            for position, each in enumerate(offerings)
            if not each.is_reserved
        )
        layout = known[key] = OfferingLayout(labels, has_offerings=bool(offerings))
    return layout


class OverlayTargetIndex:
    """The types and offerings that overlays are matched against, and the labels that they have."""

    def __init__(
        self, type_requirements: Mapping[str, Requirements], offerings: LayeredOfferings
    ) -> None:
        self.type_requirements = type_requirements
        self.offerings = offerings
        layouts: dict[object, OfferingLayout] = {}
        self.layouts = {name: _layout(each, layouts) for name, each in offerings.items()}
        """The labels of each type's offerings; most types have the same zones and capacity types,
        so that they share a few layouts."""
        self.targets: dict[Requirements, OverlayTargets] = {}
        """What was found for the requirements of overlays, of which many are the same."""
        self.offering_keys = _label_keys(
            offering.requirements for each in offerings.values() for offering in each
        )
        self.keys = self.offering_keys | _label_keys(type_requirements[name] for name in offerings)


def _label_keys(requirements: Iterable[Requirements]) -> frozenset[str]:
    """Every label that any of the requirements has."""
    # Most have the same keys: the set of distinct tuples is small, and saves a large union.
    return frozenset(chain.from_iterable({tuple(each) for each in requirements}))


class OverlayMatch(msgspec.Struct, frozen=True, kw_only=True):
    """What an overlay matches: its offerings, and its requirements on the NodePool."""

    overlay: ParsedOverlay
    targets: OverlayTargets
    pool_requirements: tuple[Requirement, ...]
    """Requirements on labels that no type and no offering has, but a NodePool may have."""

    def admits(self, node_labels: Mapping[str, str]) -> bool:
        """Whether the overlay applies to nodes with these labels of their NodePool."""
        return all(
            each.allowed.admits(node_labels[each.key])
            if each.key in node_labels
            else each.allowed.admits_absence
            for each in self.pool_requirements
        )


def match_overlay(overlay: ParsedOverlay, index: OverlayTargetIndex) -> OverlayMatch:
    requirements, keys = overlay.requirements, index.keys
    targets = index.targets.get(requirements)
    if targets is None:
        targets = index.targets[requirements] = _find_targets(requirements, index)
    return OverlayMatch(
        overlay=overlay,
        targets=targets,
        pool_requirements=tuple(each for key, each in requirements.items() if key not in keys),
    )


def _find_targets(requirements: Requirements, index: OverlayTargetIndex) -> OverlayTargets:
    wanted = [(key, each.allowed) for key, each in requirements.items() if key in index.keys]
    # Labels that no offering has rule out most types before any of their offerings is looked at.
    by_type = [(key, allowed) for key, allowed in wanted if key not in index.offering_keys]
    by_offering = [(key, allowed) for key, allowed in wanted if key in index.offering_keys]
    known: dict[tuple[int, tuple[str, ...]], tuple[int, ...] | None] = {}
    targets = {}
    for name, layout in index.layouts.items():
        labels = index.type_requirements[name]
        if all(_is_compatible(allowed, labels, key) for key, allowed in by_type):
            unmet = tuple(
                key for key, allowed in by_offering if not _is_compatible(allowed, labels, key)
            )
            question = (id(layout), unmet)
            if question not in known:
                known[question] = layout.matching_positions(by_offering, unmet)
            positions = known[question]
            if positions is not None:
                targets[name] = positions
    return targets


def _is_compatible(allowed: ValueSet, requirements: Requirements, key: str) -> bool:
    requirement = requirements.get(key)
    return (
        allowed.admits_absence
        if requirement is None
        else requirement.allowed.is_compatible_with(allowed)
    )


def find_overlay_conflicts(
    overlay_matches: Sequence[OverlayMatch], scopes: Iterable[Mapping[str, str]]
) -> dict[str, ObjectDiagnostic]:
    """The overlays that are void, by name, and why.

    `overlay_matches` are in the order of precedence. Two of the same weight that set the same field
    of the same type or offering are ambiguous: the later one is void, as a whole.
    """
    all_scopes = list(scopes)
    conflicts: dict[str, ObjectDiagnostic] = {}
    valid: list[OverlayMatch] = []
    for later in overlay_matches:
        described = (
            (other, _describe_conflict(later, other))
            for other in valid
            if other.overlay.weight == later.overlay.weight
            and _share_pool(later, other, all_scopes)
        )
        other, conflict = next(((one, text) for one, text in described if text), (later, ""))
        if conflict:
            conflicts[later.overlay.name] = _conflict_warning(
                later.overlay, other.overlay, conflict
            )
        else:
            valid.append(later)
    return conflicts


def _share_pool(
    one: OverlayMatch, other: OverlayMatch, scopes: Iterable[Mapping[str, str]]
) -> bool:
    return any(one.admits(labels) and other.admits(labels) for labels in scopes)


def _describe_conflict(later: OverlayMatch, other: OverlayMatch) -> str:
    """The field that both set, as text; empty where there is none."""
    shared = [name for name in later.targets if name in other.targets]
    if later.overlay.sets_price and other.overlay.sets_price:
        for name in shared:
            if set(later.targets[name]) & set(other.targets[name]):
                return f"the price of {name}"
    theirs = other.overlay.capacity
    for resource, amount in later.overlay.capacity.items():
        if shared and theirs.get(resource, amount) != amount:
            return f"{resource} of {shared[0]}"
    return ""


def _conflict_warning(
    later: ParsedOverlay, other: ParsedOverlay, conflict: str
) -> ObjectDiagnostic:
    weight = f"of weight {later.weight}" if later.weight else "without weight"
    message = (
        f"conflicts with NodeOverlay {other.name}: both are {weight} and set {conflict}; "
        f"{later.name} is void, with everything it says"
    )
    hint = "give one of them another weight, or let them select different types"
    path = ("spec", "weight")
    return object_warning("NodeOverlay", later.name, path, message, hint, void="Conflict")


def apply_overlay_prices(
    offerings: LayeredOfferings, overlay_matches: Sequence[OverlayMatch]
) -> LayeredOfferings:
    """The offerings at the prices of overlays; of several `overlay_matches` the first wins."""
    by_position = _overlays_by_position(
        [each for each in overlay_matches if each.overlay.sets_price]
    )
    changed = {
        name: tuple(
            _apply_overlays(offering, overlays[position]) if position in overlays else offering
            for position, offering in enumerate(offerings[name])
        )
        for name, overlays in by_position.items()
    }
    return {**offerings, **changed} if changed else offerings


class _RankedOverlays(msgspec.Struct):
    """The overlays that price an offering: the first of them, and how many there are."""

    first: list[ParsedOverlay]
    count: int


_Matched: TypeAlias = tuple[tuple[int, ...], list[OverlayMatch]]
"""Positions of a type's offerings, and the overlays that match them."""


def _overlays_by_position(
    overlay_matches: Sequence[OverlayMatch],
) -> dict[str, dict[int, _RankedOverlays]]:
    """By type and position. Overlays with the same requirements match the same, and most types are
    matched alike: each of that is looked at once, however many there are.
    """
    shared: dict[int, list[OverlayMatch]] = {}
    for each in overlay_matches:
        shared.setdefault(id(each.targets), []).append(each)
    matched: dict[str, list[_Matched]] = {}
    for matches in shared.values():
        for name, positions in matches[0].targets.items():
            matched.setdefault(name, []).append((positions, matches))
    ranks = {id(each.overlay): rank for rank, each in enumerate(overlay_matches)}
    known: dict[object, dict[int, _RankedOverlays]] = {}
    by_type = {}
    for name, found in matched.items():
        key = tuple([(id(positions), id(matches)) for positions, matches in found])
        if key not in known:
            known[key] = _rank(found, ranks)
        by_type[name] = known[key]
    return by_type


def _rank(found: Sequence[_Matched], ranks: Mapping[int, int]) -> dict[int, _RankedOverlays]:
    by_position: dict[int, list[list[OverlayMatch]]] = {}
    for positions, matches in found:
        for position in positions:
            by_position.setdefault(position, []).append(matches)
    ranked = {}
    for position, groups in by_position.items():
        first = [each.overlay for matches in groups for each in matches[: MAX_OUTWEIGHED + 1]]
        first.sort(key=lambda overlay: ranks[id(overlay)])
        ranked[position] = _RankedOverlays(first[: MAX_OUTWEIGHED + 1], sum(map(len, groups)))
    return ranked


def _apply_overlays(offering: LayeredOffering, overlays: _RankedOverlays) -> LayeredOffering:
    winner, *others = overlays.first
    step = winner.price_step(offering)
    price = offering.price if step is None else step.after
    steps = () if step is None else (step,)
    named = tuple((each.name, each.weight) for each in others)
    outweighed = _outweighed_steps(winner.name, named, price, overlays.count)
    return msgspec.structs.replace(
        offering, price=price, steps=(*offering.steps, *steps, *outweighed)
    )


@lru_cache(maxsize=4096)  # zones share prices
def _outweighed_steps(
    winner: str, others: tuple[tuple[str, int], ...], price: float | None, count: int
) -> tuple[PriceStep, ...]:
    """Steps without a change, which show that these overlays match but have a lower weight."""
    said = [(name, f"weight {weight}: outweighed by {winner}") for name, weight in others]
    more = count - 1 - len(others)
    if more:
        said.append((f"and {more:,} more", f"outweighed by {winner}"))
    return tuple(
        PriceStep(layer=PriceLayer.OVERLAY, source=name, before=price, after=price, how=how)
        for name, how in said
    )


def overlay_capacity(
    overlay_matches: Sequence[OverlayMatch],
) -> dict[str, dict[str, DerivedAmount]]:
    """The capacity that overlays add to types; for each resource the first overlay wins."""
    by_type: dict[str, dict[str, DerivedAmount]] = {}
    for each in overlay_matches:
        for name in each.targets if each.overlay.capacity else ():
            capacity = by_type.setdefault(name, {})
            for resource, amount in each.overlay.capacity.items():
                inputs = {"overlay": each.overlay.name}
                capacity.setdefault(
                    resource, DerivedAmount(amount, DerivationRule.OVERLAID, inputs)
                )
    return by_type


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
    return None if price is None else _parse_price(str(price))


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
