"""Loading: pods that wait, put together into loads that are good for their price."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wainwright.core.packing.filling import Filler
from wainwright.core.packing.growth import amounts_of, gauge_for
from wainwright.core.packing.homes import Customer, Home, customers_of, reach, strangers
from wainwright.core.packing.lots import Lot
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


def seeds(
    waiting: Sequence[Waiting], templates: Sequence[Template], names: Sequence[str], looks: int
) -> list[Seed]:
    """The pods in loads, best ones first; `looks` says how long to go on looking for better."""
    found = customers_of(((each.home, len(each.pods)) for each in waiting), CUSTOMERS)
    numbers = {customer: number for number, customer in enumerate(found)}
    machines = _machines(found, templates, sorted(names))
    kept = [each for each in waiting if Customer(each.home.wish.ask, each.home.weight) in numbers]
    lots = [
        Lot(
            amounts_of(each.home.wish, names),
            len(each.pods),
            numbers[Customer(each.home.wish.ask, each.home.weight)],
        )
        for each in kept
    ]
    return _seeds(kept, lots, machines, looks)


def _machines(
    customers: Sequence[Customer], templates: Sequence[Template], resources: Sequence[str]
) -> list[Machine]:
    reaches = [reach(customer, templates, resources) for customer in customers]
    apart = {template.number: strangers(customers, template) for template in templates}
    return on_sale(templates, reaches, resources, apart)


def _seeds(
    waiting: Sequence[Waiting], lots: Sequence[Lot], machines: Sequence[Machine], looks: int
) -> list[Seed]:
    if not machines:
        return []
    gauge = gauge_for([lot.amounts for lot in lots], [machine.room for machine in machines])
    best = undominated(machines, gauge)
    rooms = [(gauge.packed(machine.room), machine.takers) for machine in best]
    able = [
        number
        for number, lot in enumerate(lots)
        if any(
            takers >> lot.customer & 1 and gauge.holds(room, gauge.packed(lot.amounts))
            for room, takers in rooms
        )
    ]
    if not able:
        return []
    yard = Yard([lots[number] for number in able], best, gauge)
    return _dealt([waiting[number] for number in able], yard, loads(yard, looks))


def loads(yard: Yard, looks: int) -> list[Load]:
    """All lots of the yard, packed; looks are counted in lots."""
    filler = Filler(yard)
    left = [lot.pods for lot in yard.lots]
    order = sorted(range(len(left)), key=lambda lot: -filler.valuation.values[lot])
    hands = -(-len(order) // TOGETHER)
    found: list[Load] = []
    for hand in range(hands):  # each gets large ones and small ones
        found += filler.loads(left, sorted(order[hand::hands]))
    mender = Mender(filler, found)
    mender.mend(looks)
    return mender.loads


def _dealt(waiting: Sequence[Waiting], yard: Yard, found: Sequence[Load]) -> list[Seed]:
    """The loads with their pods, highest weight first, then those that are best for their price."""
    sources = [iter(each.pods) for each in waiting]
    machines = yard.machines
    order = sorted(
        found,
        key=lambda load: (
            -machines[load.machine].template.pool.weight,
            load.price / load.floor if load.floor else 0.0,
            load.taken,
        ),
    )
    return [
        Seed(
            machines[load.machine],
            [
                (next(sources[lot]), waiting[lot])
                for lot, count in sorted(load.taken)
                for _ in range(count)
            ],
        )
        for load in order
    ]
