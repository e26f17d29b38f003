"""What decided where a placed pod goes and what is bought for it, as sentences."""

from collections.abc import Iterator, Sequence

from wainwright.core.filled import filled
from wainwright.core.why.bargain import IN_ORDER, Bargain, bargain
from wainwright.core.why.decided import decided
from wainwright.core.why.decision import Decision, Word
from wainwright.model.labels import ON_DEMAND, RESERVED, SPOT
from wainwright.model.plan import PlannedClaim
from wainwright.model.pool import Pool
from wainwright.model.reason import LimitReached
from wainwright.model.refusal import WOULD_DO
from wainwright.model.snapshot import Snapshot
from wainwright.offline import Planned
from wainwright.report import words
from wainwright.report.grouped import some
from wainwright.report.money import hourly
from wainwright.report.numbers import counted, listed
from wainwright.report.refusals import refusal


def sentences(planned: Planned, claim: PlannedClaim, pod: str) -> list[str]:
    """From where it could not go to what is bought and what was given up."""
    prepared = planned.prepared
    indexes = {name: built.index for name, built in prepared.built.items()}
    options = prepared.conditions.options
    found = decided(prepared.snapshot, indexes, options, claim, pod)
    pools = {pool.name: pool for pool in prepared.snapshot.pools}
    pool = pools[claim.pool]
    offered = bargain(claim, pool, indexes[claim.pool])
    after = filled(prepared.snapshot, indexes, planned.plan.claims)
    return [
        *(_way(found, pool, after) if found is not None else [BY_COST]),
        *_bought(claim, offered, planned),
        *_given_up(planned, claim, pod),
    ]


BY_COST = "packed with others for the lowest price; pools are asked by weight all the same"


def _way(found: Decision, pool: Pool, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.nodes:
        would = any(isinstance(each.reason, WOULD_DO) for each in found.nodes)
        yield "it goes to no node of the input" if would else "no node of the input takes it"
        for each in found.nodes:
            yield f"  {counted(each.nodes, 'node')}: {refusal(each.reason)}"
    if found.joined:
        yield from _joined(found, pool)
    else:
        yield from _opened(found, pool, snapshot.pools)
    if found.round > 1:
        yield f"it found its place in round {found.round}: before, {_held(found)}"


def _joined(found: Decision, pool: Pool) -> Iterator[str]:
    since = "under way" if found.under_way else "planned"
    yield (
        f"the node was {since} for {some(found.joined)} and has room: "
        "it is filled before another is opened"
    )
    for word in found.earlier:
        if word.reason is None and word.weight > pool.weight:
            yield (
                f"{_named(word)} could have opened a node for it; "
                "with --strict-weights that goes first"
            )


def _opened(found: Decision, pool: Pool, pools: Sequence[Pool]) -> Iterator[str]:
    """Why no other pool did; `pools` are those after the plan."""
    if len(pools) == 1:
        yield f"opened for it by {pool.name}, the only pool"
        return
    weight = f" (weight {pool.weight})" if pool.weight else ""
    could = " that could" if found.earlier else ""
    yield f"opened for it by {pool.name}{weight}, the first pool by weight{could}"
    for word in found.earlier:
        said = _as_well(found) if word.reason is None else words.pool(word.reason)
        yield f"  {_named(word)}: {said}"
        if any(_at_its_worst(word, each) for each in pools):
            yield "    nodes planned in the same round counted as the largest type left to them"


def _at_its_worst(word: Word, after: Pool) -> bool:
    """Whether more counted against a limit then than the plan uses in the end."""
    reason = word.reason
    if word.pool != after.name or not isinstance(reason, LimitReached):
        return False
    return reason.in_use > after.in_use.get(reason.resource, 0)


def _as_well(found: Decision) -> str:
    """Why it was not a pool of the same weight that comes first in the order of these."""
    if found.for_slot:
        return "it could as well, but among pools of one weight a reserved slot goes first"
    return "it could as well, but where more pods are that it is kept from, or at more cost"


def _named(word: Word) -> str:
    return f"{word.pool} (weight {word.weight})" if word.weight else word.pool


def _held(found: Decision) -> str:
    """What may change between rounds, as far as it matters to the pod."""
    held = [
        *(["a slot of a reservation"] if found.slots else []),
        *(["room under a limit"] if found.limits else []),
    ]
    reasons = ["it was open where other pods would be"] if found.tied or not held else []
    reasons += [f"{' or '.join(held)} was held for others"] if held else []
    return ", or ".join(reasons)


def _bought(claim: PlannedClaim, offered: Bargain, planned: Planned) -> Iterator[str]:
    yield _types(claim, offered)
    if offered.unasked:
        number = f"{offered.unasked:,}"
        yield f"  beside {number} with accelerators or of bare metal, which nobody asks for"
    chosen = claim.launch.capacity_type
    if offered.allowed == (chosen,):
        only = offered.by_pool == (chosen,)
        yield f"{chosen}: {f'{claim.pool} allows' if only else 'its pods allow'} nothing else"
        return
    for kind in IN_ORDER[: IN_ORDER.index(chosen)] if chosen in IN_ORDER else ():
        yield f"not {kind}: {_missed(kind, claim, offered, planned)}"
    if chosen == RESERVED:
        yield f"reserved goes before {listed(offered.allowed[1:])}"
    if chosen == SPOT and ON_DEMAND in offered.allowed and offered.on_demand is not None:
        yield f"spot goes before on-demand, which would cost {hourly(offered.on_demand)}"


def _types(claim: PlannedClaim, offered: Bargain) -> str:
    slot = " with a slot" if claim.launch.reservation_id is not None else ""
    if offered.types == 1:
        return f"1 instance type{slot} is left that holds all its pods"
    return (
        f"{offered.types:,} instance types{slot} are left that hold all its pods; "
        "the cheapest is taken"
    )


def _missed(kind: str, claim: PlannedClaim, offered: Bargain, planned: Planned) -> str:
    if kind not in offered.by_pool:
        return f"{claim.pool} does not allow it"
    if kind not in offered.allowed:
        return "its pods do not allow it"
    if kind == RESERVED:
        return _no_slot(offered, planned)
    if offered.spot is None:
        return "none of these types can be had as spot now"
    return f"the cheapest costs {hourly(offered.spot)}, which is more than on demand"


def _no_slot(offered: Bargain, planned: Planned) -> str:
    if not planned.prepared.conditions.options.capacity_reservations:
        return "the feature gate CapacityReservations is off"
    if not offered.reservations:
        return "no reservation is selected that would do"
    names = set(offered.reservations)
    if any(use.left for use in planned.plan.reservations if use.id in names):
        return f"with a slot of {listed(offered.reservations)} limits or minValues do not hold"
    return f"{listed(offered.reservations)} had no slot left"


def _given_up(planned: Planned, claim: PlannedClaim, pod: str) -> Iterator[str]:
    for key in claim.relaxed:
        yield f"minValues of {key} are lowered to what there is"
    for each in planned.plan.relaxed:
        if pod in each.pods:
            yield from (f"given up: {words.preference(what)}" for what in each.given_up)
