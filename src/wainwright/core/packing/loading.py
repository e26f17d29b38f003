"""Loading: pods that wait, put together into loads that are good for their price."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wainwright.core.packing.filling import Filler
from wainwright.core.packing.gauge import Gauge, gauge_for
from wainwright.core.packing.homes import Customer, Home, customers_of, reach, strangers
from wainwright.core.packing.lots import Fitting, Lot, amounts_of
from wainwright.core.packing.machines import Machine, on_sale, undominated
from wainwright.core.packing.mending import Mender
from wainwright.core.packing.yard import Load, Yard
from wainwright.core.templates import Template
from wainwright.core.wishes import PodClass
from wainwright.model.pod import Pod

CUSTOMERS: Final = 24  # kinds of pods, by what they ask for, that are packed; the rest is not
TOGETHER: Final = 1500  # lots that are packed at once; more are dealt out


class Waiting(NamedTuple):
    """Pods of one class that could be packed."""

    group: PodClass
    home: Home
    pods: list[Pod]


class Seed(NamedTuple):
    """Pods that are to be on one node."""

    machine: Machine
    members: list[tuple[Pod, Waiting]]
    rate: float
    """What the machine costs, as a multiple of what its pods cost at least."""


def seeds(
    waiting: Sequence[Waiting], templates: Sequence[Template], names: Sequence[str], looks: int
) -> list[Seed]:
    """The pods in loads, those of the highest weight first, then those best for their price.

    `looks` says how long to go on looking for better ones, in lots looked at.
    """
    customers = customers_of(((each.home, len(each.pods)) for each in waiting), CUSTOMERS)
    numbers = {customer: number for number, customer in enumerate(customers)}
    machines = _machines(customers, templates, sorted(names))
    kept = [each for each in waiting if each.home.customer in numbers]
    lots = [
        Lot(amounts_of(each.home.wish, names), len(each.pods), numbers[each.home.customer])
        for each in kept
    ]
    if not machines:
        return []
    gauge = gauge_for([lot.amounts for lot in lots], [machine.room for machine in machines])
    best = undominated(machines, gauge)
    kept, lots = _able(kept, lots, best, gauge)
    hands = -(-len(lots) // TOGETHER)
    found: list[Seed] = []
    for hand in range(hands):  # each gets large ones and small ones
        yard = Yard(lots[hand::hands], best, gauge)
        found += _dealt(kept[hand::hands], yard, loads(yard, looks // hands))
    return sorted(found, key=lambda seed: (-seed.machine.template.pool.weight, seed.rate))


def loads(yard: Yard, looks: int) -> list[Load]:
    """All lots of the yard, packed."""
    filler = Filler(yard)
    left = [lot.pods for lot in yard.lots]
    mender = Mender(filler, filler.loads(left, range(len(left))))
    mender.mend(looks)
    return mender.loads


def _machines(
    customers: Sequence[Customer], templates: Sequence[Template], resources: Sequence[str]
) -> list[Machine]:
    reaches = [reach(customer, templates, resources) for customer in customers]
    apart = {template.number: strangers(customers, template) for template in templates}
    return on_sale(templates, reaches, resources, apart)


def _able(
    waiting: Sequence[Waiting], lots: Sequence[Lot], machines: Sequence[Machine], gauge: Gauge
) -> tuple[list[Waiting], list[Lot]]:
    """Those for whom there is any machine; limits may have left none that is large enough."""
    fitting = Fitting(machines, gauge)
    able = [
        (each, lot) for each, lot in zip(waiting, lots, strict=True) if fitting.is_possible(lot)
    ]
    return [each for each, _ in able], [lot for _, lot in able]


def _dealt(waiting: Sequence[Waiting], yard: Yard, found: Sequence[Load]) -> list[Seed]:
    """The loads with their pods, each lot's in the order of the queue."""
    sources = [iter(each.pods) for each in waiting]
    return [
        Seed(
            yard.machines[load.machine],
            [
                (next(sources[lot]), waiting[lot])
                for lot, count in sorted(load.taken)
                for _ in range(count)
            ],
            load.price / load.floor if load.floor else 1.0,
        )
        for load in sorted(found, key=lambda load: load.taken)
    ]
