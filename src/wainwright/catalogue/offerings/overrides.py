"""NodeOverlay and InstanceType objects: what users put in place of what the cloud says.

NodeOverlays adjust prices and add capacity wherever their requirements match; of overlays with
equal weight that set the same field of the same thing the later one is void, as a whole. An
InstanceType object replaces resources, overhead and offerings of one type, and wins over overlays.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.shared_fields import PRICE_LABEL
from wainwright.api.quantity import parse_quantity
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_warning
from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.node_class_settings import ResourceOverride
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOffering,
    LayeredOfferings,
    PriceLayer,
    PriceStep,
    sort_offerings,
)
from wainwright.model.instance_type import UNLIMITED
from wainwright.model.labels import RESERVATION_ID, RESERVED, ZONE, ZONE_ID, normalize_label
from wainwright.model.requirements import NO_REQUIREMENTS, Requirement, Requirements, ValueSet
from wainwright.model.resources import capacity_from_nano, request_from_nano


class ParsedOverlay(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    weight: int
    """0 where the object has none: below all that have one."""
    requirements: Requirements
    price: str | None = None
    adjustment: str | None = None
    capacity: dict[str, int]

    @property
    def prices(self) -> bool:
        return self.price is not None or self.adjustment is not None

    def step(self, offering: LayeredOffering) -> PriceStep | None:
        """What it does to the price; nothing where there is no price to adjust."""
        if self.price is not None:
            after, how = float(self.price), f"weight {self.weight}"
        elif self.adjustment is not None and offering.price is not None:
            after, how = adjust_price(offering.price, self.adjustment), self.adjustment
            how = f"{how}, weight {self.weight}"
        else:
            return None
        return PriceStep(
            layer=PriceLayer.OVERLAY, source=self.name, before=offering.price, after=after, how=how
        )

    def outweighed(self, offering: LayeredOffering, winner: "ParsedOverlay") -> PriceStep:
        """On the record that it would have changed the price, too."""
        how = f"weight {self.weight}: outweighed by {winner.name}"
        return PriceStep(
            layer=PriceLayer.OVERLAY,
            source=self.name,
            before=offering.price,
            after=offering.price,
            how=how,
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
    """Who wins comes first: the heavier, and of equal weight the first in the alphabet."""
    return sorted(overlays, key=lambda each: (-each.weight, each.name))


@lru_cache(maxsize=65536)
def adjust_price(price: float, adjustment: str) -> float:
    """The price with the adjustment, in decimals as people reckon, and never below zero."""
    before = Decimal(repr(price))
    if adjustment.endswith("%"):
        after = before * (100 + Decimal(adjustment[:-1])) / 100
    else:
        after = before + Decimal(adjustment)
    return max(0.0, float(after))


OverlayTargets: TypeAlias = Mapping[str, tuple[int, ...]]
"""By type, the positions of the offerings that match; empty where a type has no offerings."""


class OverlayTargetIndex:
    """Types and offerings that overlays can be about, and the labels that they name."""

    def __init__(self, described: Mapping[str, Requirements], offerings: LayeredOfferings) -> None:
        self.described = described
        self.offerings = offerings
        self.offering_keys = _label_keys(
            offering.requirements for each in offerings.values() for offering in each
        )
        self.keys = self.offering_keys | _label_keys(described[name] for name in offerings)


def _label_keys(rows: Iterable[Requirements]) -> frozenset[str]:
    """Every label that some row names; most rows name the same."""
    return frozenset(chain.from_iterable({tuple(row) for row in rows}))


class OverlayMatch(msgspec.Struct, frozen=True, kw_only=True):
    """How far an overlay reaches: the offerings it means, and what it asks of the pool."""

    overlay: ParsedOverlay
    targets: OverlayTargets
    pool_requirements: tuple[Requirement, ...]
    """On labels that no type and no offering has, so that only a pool can."""

    def admits(self, stated: Mapping[str, str]) -> bool:
        """Whether nodes with these labels of their pool are meant."""
        return all(
            each.allowed.admits(stated[each.key])
            if each.key in stated
            else each.allowed.admits_absence
            for each in self.pool_requirements
        )


def match_overlay(overlay: ParsedOverlay, ground: OverlayTargetIndex) -> OverlayMatch:
    asked, keys = overlay.requirements, ground.keys
    wanted = [(key, each.allowed) for key, each in asked.items() if key in keys]
    of_types = [(key, allowed) for key, allowed in wanted if key not in ground.offering_keys]
    found = {}
    for name, offerings in ground.offerings.items():
        described = ground.described[name]
        if all(_is_compatible(allowed, described, key) for key, allowed in of_types):
            places = _matching_positions(wanted, described, offerings)
            if places is not None:
                found[name] = places
    return OverlayMatch(
        overlay=overlay,
        targets=found,
        pool_requirements=tuple(each for key, each in asked.items() if key not in keys),
    )


def _matching_positions(
    wanted: Sequence[tuple[str, ValueSet]],
    described: Requirements,
    offerings: tuple[LayeredOffering, ...],
) -> tuple[int, ...] | None:
    """The offerings of one type that are meant; None where the type is not.

    What an offering says goes before what its type says. A reserved offering never matches: its
    price is a way to prefer it, and not what anybody pays.
    """
    unmet = [
        (key, allowed) for key, allowed in wanted if not _is_compatible(allowed, described, key)
    ]
    if not offerings:
        return None if unmet else ()
    met = tuple(
        position
        for position, offering in enumerate(offerings)
        if not offering.reserved and _is_offering_compatible(offering, wanted, unmet)
    )
    return met or None


def _is_compatible(allowed: ValueSet, described: Requirements, key: str) -> bool:
    found = described.get(key)
    return allowed.admits_absence if found is None else found.allowed.is_compatible_with(allowed)


def _is_offering_compatible(
    offering: LayeredOffering,
    wanted: Sequence[tuple[str, ValueSet]],
    unmet: Sequence[tuple[str, ValueSet]],
) -> bool:
    said = offering.requirements
    if any(key not in said for key, _ in unmet):
        return False
    return all(
        said[key].allowed.is_compatible_with(allowed) for key, allowed in wanted if key in said
    )


def find_overlay_conflicts(
    overlay_matches: Sequence[OverlayMatch], scopes: Iterable[Mapping[str, str]]
) -> dict[str, ObjectDiagnostic]:
    """The overlays that are void, by name, and why.

    `overlay_matches` come in the order of precedence. Two of the same weight that set the same
    field of the same thing leave it open which is meant: the later one is void, as a whole.
    """
    everywhere = list(scopes)
    void: dict[str, ObjectDiagnostic] = {}
    standing: list[OverlayMatch] = []
    for later in overlay_matches:
        clashes = (
            (other, _describe_clash(later, other))
            for other in standing
            if other.overlay.weight == later.overlay.weight
            and _share_pool(later, other, everywhere)
        )
        other, clash = next(((one, what) for one, what in clashes if what), (later, ""))
        if clash:
            void[later.overlay.name] = _conflict_warning(later.overlay, other.overlay, clash)
        else:
            standing.append(later)
    return void


def _share_pool(
    one: OverlayMatch, other: OverlayMatch, scopes: Iterable[Mapping[str, str]]
) -> bool:
    return any(one.admits(stated) and other.admits(stated) for stated in scopes)


def _describe_clash(later: OverlayMatch, other: OverlayMatch) -> str:
    """What both set, in words; empty where they keep out of each other's way."""
    shared = [name for name in later.targets if name in other.targets]
    if later.overlay.prices and other.overlay.prices:
        for name in shared:
            if set(later.targets[name]) & set(other.targets[name]):
                return f"the price of {name}"
    theirs = other.overlay.capacity
    for resource, amount in later.overlay.capacity.items():
        if shared and theirs.get(resource, amount) != amount:
            return f"{resource} of {shared[0]}"
    return ""


def _conflict_warning(later: ParsedOverlay, other: ParsedOverlay, clash: str) -> ObjectDiagnostic:
    weight = f"of weight {later.weight}" if later.weight else "without weight"
    message = (
        f"conflicts with NodeOverlay {other.name}: both are {weight} and set {clash}; "
        f"{later.name} is void, with everything it says"
    )
    hint = "give one of them another weight, or let them select different types"
    return object_warning("NodeOverlay", later.name, ("spec", "weight"), message, hint)


def apply_overlay_prices(
    offerings: LayeredOfferings, overlay_matches: Sequence[OverlayMatch]
) -> LayeredOfferings:
    """The offerings at overlaid prices; of several `overlay_matches` the first wins."""
    pricing = [each for each in overlay_matches if each.overlay.prices]
    meant: dict[str, dict[int, list[ParsedOverlay]]] = {}
    for each in pricing:
        for name, places in each.targets.items():
            of_type = meant.setdefault(name, {})
            for place in places:
                of_type.setdefault(place, []).append(each.overlay)
    changed = {
        name: tuple(
            _apply_overlays(offering, of_type.get(place, ()))
            for place, offering in enumerate(offerings[name])
        )
        for name, of_type in meant.items()
    }
    return {**offerings, **changed} if changed else offerings


def _apply_overlays(
    offering: LayeredOffering, overlays: Sequence[ParsedOverlay]
) -> LayeredOffering:
    if not overlays:
        return offering
    step = overlays[0].step(offering)
    after = offering if step is None else offering.repriced(step)
    for other in overlays[1:]:
        after = after.repriced(other.outweighed(after, overlays[0]))
    return after


def overlay_capacity(
    overlay_matches: Sequence[OverlayMatch],
) -> dict[str, dict[str, DerivedAmount]]:
    """What overlays add to the capacity of types, resource by resource the winner's."""
    found: dict[str, dict[str, DerivedAmount]] = {}
    for each in overlay_matches:
        for name in each.targets if each.overlay.capacity else ():
            of_type = found.setdefault(name, {})
            for resource, amount in each.overlay.capacity.items():
                by = {"overlay": each.overlay.name}
                of_type.setdefault(resource, DerivedAmount(amount, DerivationRule.OVERLAID, by))
    return found


def parse_resource_override(item: InstanceType) -> ResourceOverride:
    """Its resources and overhead, in whole units: what there is rounds down, what is taken up."""
    resources, overhead = item.spec.resources or {}, item.spec.overhead or {}
    return ResourceOverride(
        resources={
            name: capacity_from_nano(name, _parse_nano(resources[name]))
            for name in sorted(resources)
        },
        overhead={
            name: request_from_nano(name, _parse_nano(overhead[name])) for name in sorted(overhead)
        },
    )


def _parse_nano(quantity: int | str) -> int:
    return parse_quantity(str(quantity)).nano


def apply_declared_offerings(
    item: InstanceType, offerings: tuple[LayeredOffering, ...], zones: Mapping[str, str]
) -> tuple[tuple[LayeredOffering, ...], list[ObjectDiagnostic]]:
    """The offerings that the object declares, and the reserved ones that were there.

    They replace everything else as a whole: who lists offerings owns the list.
    """
    if item.spec.offerings is None:
        return offerings, []
    remarks: list[ObjectDiagnostic] = []
    made: list[LayeredOffering] = []
    for index, offering in enumerate(item.spec.offerings):
        found = list(_declared_offerings(item, index, _declared_labels(offering, zones), offerings))
        made += found
        remarks += _declared_offering_warnings(item, index, found)
    named = {offering.reservation_id for offering in made} - {None}
    kept = [
        offering
        for offering in offerings
        if offering.reserved and offering.reservation_id not in named
    ]
    return sort_offerings([*made, *kept]), remarks


def _declared_labels(offering: Mapping[str, Any], zones: Mapping[str, str]) -> dict[str, str]:
    """Its labels as text; a zone implies its id."""
    labels = {
        normalize_label(key): _label_text(value)
        for key, value in offering.items()
        if key != PRICE_LABEL
    }
    known = zones.get(labels.get(ZONE, ""), "")
    return {ZONE_ID: known, **labels} if known else labels


def _label_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _declared_offerings(
    item: InstanceType, index: int, labels: dict[str, str], offerings: tuple[LayeredOffering, ...]
) -> Iterator[LayeredOffering]:
    given = (item.spec.offerings or [])[index].get(PRICE_LABEL)
    meant = [
        offering
        for offering in offerings
        if not offering.reserved and _matches_labels(offering, labels)
    ]
    how = f"spec.offerings[{index}]"
    if given is None:
        for offering in meant:
            if offering.price is not None:
                step = _override_step(
                    item, offering.price, offering.price, f"{how}, which keeps the price"
                )
                yield _declared_offering(
                    offering.requirements, labels, (*offering.steps, step), offering.available
                )
    elif len(meant) == 1:
        step = _override_step(item, meant[0].price, float(str(given)), how)
        yield _declared_offering(NO_REQUIREMENTS, labels, (*meant[0].steps, step))
    else:
        step = _override_step(
            item, None, float(str(given)), f"{how}, in place of {len(meant)} offerings"
        )
        yield _declared_offering(NO_REQUIREMENTS, labels, (step,))


def _matches_labels(offering: LayeredOffering, labels: Mapping[str, str]) -> bool:
    """Whether the labels say nothing that the offering contradicts."""
    return all(offering.requirements.allowed(key).admits(value) for key, value in labels.items())


def _override_step(item: InstanceType, before: float | None, after: float, how: str) -> PriceStep:
    return PriceStep(
        layer=PriceLayer.INSTANCE_TYPE,
        source=item.metadata.name,
        before=before,
        after=after,
        how=how,
    )


def _declared_offering(
    basis: Requirements,
    labels: dict[str, str],
    steps: tuple[PriceStep, ...],
    available: int = UNLIMITED,
) -> LayeredOffering:
    return LayeredOffering(
        requirements=basis.narrow(Requirements.from_labels(labels)),
        price=steps[-1].after,
        available=available,
        reservation_id=labels.get(RESERVATION_ID),
        steps=steps,
    )


def _declared_offering_warnings(
    item: InstanceType, index: int, made: list[LayeredOffering]
) -> Iterator[ObjectDiagnostic]:
    path, name = ("spec", "offerings", index), item.metadata.name
    if not made:
        message = "no price is known for this offering, so that nothing can be bought through it"
        yield object_warning("InstanceType", name, path, message, f"give it {PRICE_LABEL}")
    if any(offering.capacity_type == RESERVED for offering in made):
        message = "a reserved offering without a capacity reservation behind it has no end"
        hint = "list the reservation in a Cloud, and select it in the EC2NodeClass"
        yield object_warning("InstanceType", name, path, message, hint)
