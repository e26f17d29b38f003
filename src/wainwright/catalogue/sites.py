"""Sites: which types and lots an overlay is about, and where two overlays clash."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import msgspec

from wainwright.catalogue.lots import Lot, Lots
from wainwright.catalogue.overlays import Overlay
from wainwright.catalogue.remarks import Remark, warning
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.values import ValueSet

Sites: TypeAlias = Mapping[str, tuple[int, ...]]
"""By type, the positions of the lots that are meant; none where a type has no lots at all."""


class Ground:
    """Types and lots that overlays can be about, and the labels that they name."""

    def __init__(self, described: Mapping[str, Requirements], lots: Lots) -> None:
        self.described = described
        self.lots = lots
        self.of_lots = _keys(lot.requirements for each in lots.values() for lot in each)
        self.keys = self.of_lots | _keys(described[name] for name in lots)


def _keys(rows: Iterable[Requirements]) -> frozenset[str]:
    """Every label that some row names; most rows name the same."""
    return frozenset(chain.from_iterable({tuple(row) for row in rows}))


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How far an overlay reaches: the sites it means, and what it asks of the pool."""

    overlay: Overlay
    sites: Sites
    of_pool: tuple[Requirement, ...]
    """On labels that no type and no lot has, so that only a pool can."""

    def admits(self, stated: Mapping[str, str]) -> bool:
        """Whether nodes with these labels of their pool are meant."""
        return all(
            each.allowed.admits(stated[each.key])
            if each.key in stated
            else each.allowed.admits_absence
            for each in self.of_pool
        )


def reach(overlay: Overlay, ground: Ground) -> Reach:
    asked, keys = overlay.requirements, ground.keys
    wanted = [(key, each.allowed) for key, each in asked.items() if key in keys]
    of_types = [(key, allowed) for key, allowed in wanted if key not in ground.of_lots]
    found = {}
    for name, lots in ground.lots.items():
        described = ground.described[name]
        if all(_agrees(allowed, described, key) for key, allowed in of_types):
            places = _places(wanted, described, lots)
            if places is not None:
                found[name] = places
    return Reach(
        overlay=overlay,
        sites=found,
        of_pool=tuple(each for key, each in asked.items() if key not in keys),
    )


def _places(
    wanted: Sequence[tuple[str, ValueSet]], described: Requirements, lots: tuple[Lot, ...]
) -> tuple[int, ...] | None:
    """The lots of one type that are meant; None where the type is not.

    What a lot says goes before what its type says. A reserved lot is never meant: its price is a
    way to prefer it, and not what anybody pays.
    """
    unmet = [(key, allowed) for key, allowed in wanted if not _agrees(allowed, described, key)]
    if not lots:
        return None if unmet else ()
    met = tuple(
        position
        for position, lot in enumerate(lots)
        if not lot.reserved and _lot_agrees(lot, wanted, unmet)
    )
    return met or None


def _agrees(allowed: ValueSet, described: Requirements, key: str) -> bool:
    found = described.get(key)
    return allowed.admits_absence if found is None else found.allowed.agrees_with(allowed)


def _lot_agrees(
    lot: Lot, wanted: Sequence[tuple[str, ValueSet]], unmet: Sequence[tuple[str, ValueSet]]
) -> bool:
    said = lot.requirements
    if any(key not in said for key, _ in unmet):
        return False
    return all(said[key].allowed.agrees_with(allowed) for key, allowed in wanted if key in said)


def conflicts(reaches: Sequence[Reach], scopes: Iterable[Mapping[str, str]]) -> dict[str, Remark]:
    """The overlays that are void, by name, and why.

    `reaches` come in the order of winning. Two of the same weight that set the same field of the
    same thing leave it open which is meant: the later one is void, with all that it says.
    """
    everywhere = list(scopes)
    void: dict[str, Remark] = {}
    standing: list[Reach] = []
    for later in reaches:
        clashes = (
            (other, _clash(later, other))
            for other in standing
            if other.overlay.weight == later.overlay.weight and _meet(later, other, everywhere)
        )
        other, clash = next(((one, what) for one, what in clashes if what), (later, ""))
        if clash:
            void[later.overlay.name] = _conflict(later.overlay, other.overlay, clash)
        else:
            standing.append(later)
    return void


def _meet(one: Reach, other: Reach, scopes: Iterable[Mapping[str, str]]) -> bool:
    return any(one.admits(stated) and other.admits(stated) for stated in scopes)


def _clash(later: Reach, other: Reach) -> str:
    """What both set, in words; empty where they keep out of each other's way."""
    shared = [name for name in later.sites if name in other.sites]
    if later.overlay.prices and other.overlay.prices:
        for name in shared:
            if set(later.sites[name]) & set(other.sites[name]):
                return f"the price of {name}"
    theirs = other.overlay.capacity
    for resource, amount in later.overlay.capacity.items():
        if shared and theirs.get(resource, amount) != amount:
            return f"{resource} of {shared[0]}"
    return ""


def _conflict(later: Overlay, other: Overlay, clash: str) -> Remark:
    weight = f"of weight {later.weight}" if later.weight else "without weight"
    message = (
        f"conflicts with NodeOverlay {other.name}: both are {weight} and set {clash}; "
        f"{later.name} is void, with everything it says"
    )
    hint = "give one of them another weight, or let them select different types"
    return warning("NodeOverlay", later.name, ("spec", "weight"), message, hint)
