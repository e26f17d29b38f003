"""Which NodeClaims of a plan may be created now, where NodePools or the cluster have limits.

Within a round a plan counts a new node as the largest of its instance types, and when the round is
over as the one that would be launched. That is what a quiet cluster would come to, but until a
claim is launched nobody knows: EC2 may only have another of its types, or prices may change. So
claims of later rounds wait, unless limits leave room for them whatever those before them become.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from wainwright.core.cluster_usage import cluster_usage
from wainwright.core.scheduling.constraints.limits import price_units
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import PRICE_LIMIT, PlannedNodeClaim, PlanOptions, RemainingOptions
from wainwright.model.resources import Resources, largest_amounts
from wainwright.model.snapshot import NODES_LIMIT, Snapshot

Catalogs = Mapping[str, InstanceTypeIndex]


def claims_within_limits(
    claims: Sequence[PlannedNodeClaim],
    snapshot: Snapshot,
    catalogs: Catalogs,
    options: PlanOptions,
) -> tuple[PlannedNodeClaim, ...]:
    """Those that keep to all limits, in their order; `snapshot` is what they were planned with."""
    first = min((claim.round for claim in claims), default=0)
    if all(claim.round == first for claim in claims):
        return tuple(claims)
    room = _Room(snapshot, catalogs, options)
    return tuple(claim for claim in claims if room.take(claim, is_certain=claim.round == first))


class _Room:
    """What is left of the limits of the NodePools, and of the cluster."""

    def __init__(self, snapshot: Snapshot, catalogs: Catalogs, options: PlanOptions) -> None:
        self._pools = {
            pool.name: {
                name: limit - pool.in_use.get(name, 0) for name, limit in pool.limits.items()
            }
            for pool in snapshot.pools
        }
        limits = options.cluster_limits.amounts
        used = cluster_usage(snapshot, catalogs).amounts if limits else {}
        self._cluster = {name: limit - used.get(name, 0) for name, limit in limits.items()}
        by_index = {id(index): _types_by_name(index) for index in catalogs.values()}
        self._types = {name: by_index[id(index)] for name, index in catalogs.items()}
        self._known: dict[tuple[str, RemainingOptions], Resources] = {}
        """What claims may become at most: hundreds of a plan have the same choices."""

    def take(self, claim: PlannedNodeClaim, *, is_certain: bool) -> bool:
        """Counts the claim as the most that it may become, and whether it does; one that is not
        certain does not count where it might go beyond a limit.
        """
        limited = (self._pools[claim.pool], self._cluster)
        if not any(limited):
            return True
        most = self._most(claim)
        has_room = all(most.get(name, 0) <= left for name, left in _amounts(limited))
        if not (is_certain or has_room):
            return False
        for room in limited:
            for name in room:
                room[name] -= most.get(name, 0)
        return True

    def _most(self, claim: PlannedNodeClaim) -> Resources:
        key = claim.pool, claim.choices
        if key not in self._known:
            self._known[key] = self._most_of(*key)
        return self._known[key]

    def _most_of(self, pool: str, choices: RemainingOptions) -> Resources:
        known = self._types[pool]
        types = [known[name] for name in choices.instance_types if name in known]
        most = largest_amounts(each.capacity for each in types)
        prices = chain.from_iterable(_prices(each, choices) for each in types)
        highest = max(prices, default=0.0)
        return {**most, NODES_LIMIT: 1, PRICE_LIMIT: price_units(highest)}


def _amounts(limited: Iterable[Mapping[str, int]]) -> Iterator[tuple[str, int]]:
    return chain.from_iterable(room.items() for room in limited)


def _types_by_name(index: InstanceTypeIndex) -> dict[str, InstanceType]:
    return {each.name: each for each in index.types}


def _prices(kind: InstanceType, choices: RemainingOptions) -> Iterator[float]:
    """With fees, of what the claim may be launched with."""
    return (each.price + kind.fee for each in kind.offerings if _is_choice(each, choices))


def _is_choice(offering: Offering, choices: RemainingOptions) -> bool:
    """An offering that leaves zone or capacity type open is for every one."""
    is_zone = offering.zone is None or offering.zone in choices.zones
    is_kind = offering.capacity_type is None or offering.capacity_type in choices.capacity_types
    is_other = offering.reservation_id and offering.reservation_id not in choices.reservation_ids
    return is_zone and is_kind and not is_other
