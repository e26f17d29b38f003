"""Annotations of claims: what was done so that there could be such a claim."""

from collections.abc import Iterable, Iterator
from typing import Final

from wainwright.catalogue.built import Built
from wainwright.catalogue.figure import Rule
from wainwright.catalogue.lots import Layer, Lot
from wainwright.model.plan import PlannedClaim

MIN_VALUES_RELAXED: Final = "karpenter.sh/nodeclaim-min-values-relaxed"
PRICE_OVERLAID: Final = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAID: Final = "karpenter.sh/capacity-overlay-applied"


def annotations(claim: PlannedClaim, built: Built, types: Iterable[str]) -> dict[str, str]:
    """By the instance types that are left to the claim."""
    kept = list(types)
    true = {
        MIN_VALUES_RELAXED: bool(claim.relaxed),
        PRICE_OVERLAID: any(map(_repriced, _lots(claim, built, kept))),
        CAPACITY_OVERLAID: any(_resized(built, name) for name in kept),
    }
    return {key: "true" for key, found in true.items() if found}


def _lots(claim: PlannedClaim, built: Built, types: Iterable[str]) -> Iterator[Lot]:
    """The ways to buy these types that the claim allows."""
    known, wanted = built.index.keys, claim.requirements
    return (
        lot
        for name in types
        for lot in built.lots[name]
        if lot.steps and wanted.compatible(lot.requirements, known)
    )


def _repriced(lot: Lot) -> bool:
    return any(step.layer is Layer.OVERLAY for step in lot.steps)


def _resized(built: Built, name: str) -> bool:
    figures = built.sizes[name].shape.capacity.values()
    return any(figure.rule is Rule.OVERLAID for figure in figures)
