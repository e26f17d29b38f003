"""Instance types asked the obvious way: loops over labels and offerings, nothing remembered."""

from collections.abc import Iterable, Sequence

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    DECIDED_BY_OFFERING,
    DESCRIBED_BY_TYPES,
    HOSTNAME,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    RESERVATION_ID,
    RESERVATION_LABELS,
    WELL_KNOWN,
)
from wainwright.model.pod import DaemonSet
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, add
from wainwright.model.taints import PREFER_NO_SCHEDULE, untolerated
from wainwright.model.values import ANYTHING, NOTHING, ValueSet, one_of


class SlowCatalog:
    """What one pool can buy."""

    def __init__(self, types: Sequence[InstanceType]) -> None:
        self.types = sorted(types, key=lambda kind: kind.name)
        named = {key for kind in types for key in kind.requirements} | {INSTANCE_TYPE}
        traded = {key for kind in types for each in kind.offerings for key in each.requirements}
        markets = RESERVATION_LABELS if any(kind.offerings for kind in types) else frozenset()
        self.well_known = WELL_KNOWN | named | traded | markets

    def admits(self, kind: InstanceType, asked: Requirements) -> bool:
        return all(
            has is None or has.agrees_with(asked[key].allowed)
            for key in asked
            for has in [self._label(kind, key)]
        )

    def _label(self, kind: InstanceType, key: str) -> ValueSet | None:
        """What the type says of a label; None where it leaves it open."""
        if key in kind.requirements:
            return kind.requirements[key].allowed
        if key == INSTANCE_TYPE:
            return one_of([kind.name])
        if key in DECIDED_BY_OFFERING or any(key in each.requirements for each in kind.offerings):
            return None
        named = any(key in each.requirements for each in self.types)
        return NOTHING if named or key in DESCRIBED_BY_TYPES else None

    def values(
        self, key: str, kinds: Iterable[InstanceType], asked: Requirements, held: Iterable[str]
    ) -> set[str]:
        """The allowed values of a label that these types have between them."""
        found: set[str] = set()
        for kind in kinds:
            if any(_label_of(each, key) is not None for each in kind.offerings):
                said = [_label_of(each, key) or ANYTHING for each in offers(kind, asked, held)]
            else:
                own = one_of([kind.name]) if key == INSTANCE_TYPE else NOTHING
                said = [kind.requirements[key].allowed if key in kind.requirements else own]
            found |= {value for each in said if not each.open for value in each.values}
        return {value for value in found if asked.allowed(key).admits(value)}


def _label_of(offering: Offering, key: str) -> ValueSet | None:
    if key in offering.requirements:
        return offering.requirements[key].allowed
    if key == RESERVATION_ID and offering.reservation_id is not None:
        return one_of([offering.reservation_id])
    return NOTHING if key in RESERVATION_LABELS else None


def offers(kind: InstanceType, asked: Requirements, held: Iterable[str]) -> list[Offering]:
    """Offerings that can be had and agree; reserved ones only of the reservations named."""
    held = set(held)
    return [
        each
        for each in kind.offerings
        if each.available > 0
        and (each.reservation_id is None or each.reservation_id in held)
        and all(
            has is None or has.agrees_with(asked[key].allowed)
            for key in asked
            for has in [_label_of(each, key)]
        )
    ]


def overhead(
    pool: Pool, catalog: SlowCatalog, kind: InstanceType, daemonsets: Iterable[DaemonSet]
) -> Resources:
    total: Resources = {}
    for daemonset in daemonsets:
        if runs_on(pool, catalog, kind, daemonset):
            total = add(total, {**daemonset.requests, "pods": 1})
    return total


def runs_on(pool: Pool, catalog: SlowCatalog, kind: InstanceType, daemonset: DaemonSet) -> bool:
    taints = [taint for taint in pool.taints if taint.effect != PREFER_NO_SCHEDULE]
    if untolerated(taints, daemonset.tolerations) is not None:
        return False
    node = pool.node_requirements
    every_id = {each.reservation_id or "" for each in kind.offerings}
    for wanted in (each.without({HOSTNAME}) for each in daemonset.alternatives):
        both = node.narrow(wanted)
        if (
            node.compatible(wanted, catalog.well_known)
            and catalog.admits(kind, both)
            and offers(kind, both, every_id)
        ):
            return True
    return False


def is_exotic(kind: InstanceType, asked: Requirements) -> bool:
    """Metal or accelerated, and not asked for by name."""
    size = asked.get(INSTANCE_SIZE)
    family = asked.get(INSTANCE_FAMILY)
    named = asked.get(INSTANCE_TYPE)
    by_name = named is not None and not named.allowed.open
    metal = kind.name.partition(".")[2].startswith("metal")
    accelerated = kind.capacity.get("nvidia.com/gpu", 0) > 0
    metal = metal and not by_name and (size is None or size.allowed.open)
    accelerated = accelerated and not by_name and (family is None or family.allowed.open)
    return metal or accelerated


def market_rank(offering: Offering) -> tuple[list[tuple[str, list[str]]], str]:
    labels = [(key, sorted(found.allowed.values)) for key, found in offering.requirements.items()]
    return labels, offering.reservation_id or ""


def capacity_type(offering: Offering) -> str:
    return offering.requirements.only(CAPACITY_TYPE) or "on-demand"
