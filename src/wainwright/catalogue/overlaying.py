"""Overlaying: prices and custom resources of the NodeOverlays in force, put on types and lots."""

from collections.abc import Sequence

from wainwright.catalogue.figure import Figure, Rule
from wainwright.catalogue.lots import Lot, Lots
from wainwright.catalogue.overlays import Overlay
from wainwright.catalogue.sites import Reach


def overlaid_lots(lots: Lots, reaches: Sequence[Reach]) -> Lots:
    """The lots at overlaid prices. `reaches` come in the order of winning, and the first wins."""
    pricing = [each for each in reaches if each.overlay.prices]
    meant: dict[str, dict[int, list[Overlay]]] = {}
    for each in pricing:
        for name, places in each.sites.items():
            of_type = meant.setdefault(name, {})
            for place in places:
                of_type.setdefault(place, []).append(each.overlay)
    changed = {
        name: tuple(_overlaid(lot, of_type.get(place, ())) for place, lot in enumerate(lots[name]))
        for name, of_type in meant.items()
    }
    return {**lots, **changed} if changed else lots


def _overlaid(lot: Lot, overlays: Sequence[Overlay]) -> Lot:
    if not overlays:
        return lot
    step = overlays[0].step(lot)
    after = lot if step is None else lot.repriced(step)
    for other in overlays[1:]:
        after = after.repriced(other.outweighed(after, overlays[0]))
    return after


def overlaid_capacity(reaches: Sequence[Reach]) -> dict[str, dict[str, Figure]]:
    """What overlays add to the capacity of types, resource by resource the winner's."""
    found: dict[str, dict[str, Figure]] = {}
    for each in reaches:
        for name in each.sites if each.overlay.capacity else ():
            of_type = found.setdefault(name, {})
            for resource, amount in each.overlay.capacity.items():
                by = {"overlay": each.overlay.name}
                of_type.setdefault(resource, Figure(amount, Rule.OVERLAID, by))
    return found
