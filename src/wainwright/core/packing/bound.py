"""The lower bound: what no plan for the same pods can be cheaper than.

Every pod may be on any machine that one of its alternatives allows, at the best price that it can
be had for, and machines can be cut to measure; nodes of the cluster and slots of reservations are
used as far as they go. Who may be with whom, limits and minValues are left out of account.
"""

from collections.abc import Sequence
from typing import Final

from wainwright.core.packing.asked import Wants, placed_lots
from wainwright.core.packing.gauge import gauge_for
from wainwright.core.packing.linear import Prices, Supply, highest_prices, shadow_prices, worth
from wainwright.core.packing.lots import Groups, Lot
from wainwright.core.packing.machines import Machine, on_sale, undominated
from wainwright.core.packing.standing import Slots, Spare, slots, spare
from wainwright.core.solve import Solution
from wainwright.core.templates import Template
from wainwright.model.columns import union
from wainwright.model.labels import INSTANCE_FAMILY, INSTANCE_SIZE, INSTANCE_TYPE
from wainwright.model.requirements import Requirements

NAMES: Final = (INSTANCE_TYPE, INSTANCE_SIZE, INSTANCE_FAMILY)
CERTAIN: Final = 1 - 1e-9  # so that errors of rounding never make it too high


def lower_bound(solution: Solution) -> float:
    """USD per hour with fees, for the pods that have a place."""
    wanted, lots = placed_lots(solution)
    machines = _machines(solution, wanted)
    if not lots or not machines:
        return 0.0
    gauge = gauge_for([lot.amounts for lot in lots], [machine.room for machine in machines])
    best = undominated(machines, gauge)
    groups = Groups(lots, best, gauge)
    supplies = groups.supplies(best)
    joint = _by_group(wanted, lots, groups)
    there = spare(solution, joint), slots(solution, joint)
    as_if_bought = [Supply(each.price, each.room, each.takers) for each in there[1]]
    prices = [
        shadow_prices(_left(groups.demands, *there), supplies),
        shadow_prices(_left(groups.demands, there[0], ()), supplies + as_if_bought),
    ]
    return max(_bound(groups.demands, each, supplies, there) for each in prices)


def _machines(solution: Solution, wanted: Sequence[Wants]) -> list[Machine]:
    """All that could be launched; whole machines and accelerators only where they might be."""
    resources, reaches = sorted(solution.classes.resources), [each.reach for each in wanted]
    asks = solution.classes.asks.values()
    everywhere = solution.placing.topology is not None  # others may leave pods but one zone
    everywhere |= any(_names_types(ask.requirements) for ask in asks)
    blurred, found = union(each.blurred for each in wanted), []
    for template in solution.placing.templates:
        exotic = everywhere or blurred >> template.number & 1 or _is_choosy(template)
        found += on_sale([template], reaches, resources, exotic=bool(exotic))
    return found


def _is_choosy(template: Template) -> bool:
    """Whether the pool may leave a claim nothing but whole machines or accelerators."""
    named = _names_types(template.base.requirements)
    return named or bool(template.minimums or template.pool.limits)


def _names_types(requirements: Requirements) -> bool:
    """Whether somebody may have asked for whole machines or accelerators by name."""
    return any(not requirements.allowed(key).open for key in NAMES)


def _by_group(wanted: Sequence[Wants], lots: Sequence[Lot], groups: Groups) -> list[Wants]:
    """What the lots of each group want between them."""
    found: list[Wants | None] = [None] * len(groups.demands)
    for lot, group in zip(lots, groups.of_lot, strict=True):
        mine = wanted[lot.customer].of_size(lot.amounts)
        other = found[group]
        found[group] = mine if other is None else other.with_those_of(mine)
    return [each for each in found if each is not None]


def _left(
    demands: Sequence[Sequence[int]], room: Sequence[Spare], reserved: Sequence[Slots]
) -> list[list[int]]:
    """What has to be bought if all that there is already were used; only to find good prices."""
    left = [list(own) for own in demands]
    there = [(each.takers, each.room, 1) for each in room]
    there += [(each.takers, each.room, each.free) for each in reserved]
    for takers, amounts, count in there:
        mine = [own for group, own in enumerate(left) if takers >> group & 1]
        for resource, amount in enumerate(amounts):
            total = sum(own[resource] for own in mine)
            used = min(total, amount * count)
            for own in mine:
                own[resource] -= own[resource] * used // total if total else 0
    return left


def _bound(
    demands: Sequence[Sequence[int]],
    prices: Prices,
    supplies: Sequence[Supply],
    there: tuple[Sequence[Spare], Sequence[Slots]],
) -> float:
    """Holds for any prices, once they are so low that no machine is worth more than it costs."""
    rates = [
        min(1.0, supply.price / value)
        for supply in supplies
        if (value := worth(supply.room, highest_prices(prices, supply.takers)))
    ]
    scale = min(rates, default=0.0)
    fair = [[scale * price for price in own] for own in prices]
    total = sum(worth(own, price) for own, price in zip(demands, fair, strict=True))
    total -= sum(worth(each.room, highest_prices(fair, each.takers)) for each in there[0])
    for each in there[1]:
        gain = worth(each.room, highest_prices(fair, each.takers)) - each.price
        total -= each.free * max(0.0, gain)
    return max(0.0, total) * CERTAIN
