"""NodeOverlay objects: prices adjusted and capacity added wherever their requirements match.

Of overlays with equal weight that set the same field of the same thing the later one is void, as a
whole. InstanceType objects win over overlays (`instance_type_overrides.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Final, TypeAlias

import msgspec

from wainwright.api.catalog_documents import NodeOverlay
from wainwright.api.quantity import parse_quantity
from wainwright.catalogue.diagnostics import ObjectDiagnostic, object_warning
from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.offerings.layered_offering import (
    LayeredOffering,
    LayeredOfferings,
    PriceLayer,
    PriceStep,
)
from wainwright.model.requirements import (
    Requirement,
    Requirements,
    ValueSet,
)
from wainwright.model.resources import (
    capacity_from_nano,
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
            after, how = parse_price(self.price), f"weight {self.weight}"
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


def parse_price(text: str) -> float:
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
