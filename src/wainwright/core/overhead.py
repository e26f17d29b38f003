"""Overhead: what daemonsets take from a node before any pod has its share."""

from collections.abc import Iterable, Iterator, Sequence

from wainwright.model.columns import Rows, row_numbers
from wainwright.model.index import TypeIndex
from wainwright.model.labels import HOSTNAME, WELL_KNOWN
from wainwright.model.markets import Markets
from wainwright.model.pod import DaemonSet
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS, Resources, add
from wainwright.model.taints import PREFER_NO_SCHEDULE, Taint, untolerated

NONE: Resources = {}


def taken(daemonset: DaemonSet) -> Resources:
    """What one pod of it takes, its slot included."""
    return {**daemonset.requests, PODS: 1}


def asked(daemonset: DaemonSet) -> tuple[Requirements, ...]:
    """Its alternatives without the hostname, which only says on which node each pod belongs."""
    return tuple(each.without({HOSTNAME}) for each in daemonset.alternatives)


def is_kept_off(daemonset: DaemonSet, taints: Iterable[Taint]) -> bool:
    binding = (taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE)
    return untolerated(binding, daemonset.tolerations) is not None


class Overhead:
    """The types of a catalogue in groups that run the same daemonsets of a pool."""

    __slots__ = ("groups",)

    def __init__(self, groups: list[tuple[Rows, Resources]]) -> None:
        self.groups = groups

    def by_row(self, count: int) -> list[Resources]:
        found = [NONE] * count
        for rows, amounts in self.groups:
            for row in row_numbers(rows):
                found[row] = amounts
        return found

    def of(self, row: int) -> Resources:
        return next((amounts for rows, amounts in self.groups if rows >> row & 1), NONE)

    def least(self, rows: Rows) -> dict[str, int]:
        """The smallest amount of each resource that any of the types gives up."""
        met = [amounts for group, amounts in self.groups if group & rows]
        if len(met) == 1:
            return dict(met[0])
        names = sorted({name for amounts in met for name in amounts})
        smallest = {name: min(amounts.get(name, 0) for amounts in met) for name in names}
        return {name: amount for name, amount in smallest.items() if amount}


def overhead(
    pool: Pool, index: TypeIndex, daemonsets: Sequence[DaemonSet], closed: Markets = 0
) -> Overhead:
    """What daemonsets take from nodes of the pool, which buys nothing in closed markets."""
    groups: list[tuple[Rows, Resources]] = [(index.everything, NONE)]
    for daemonset in sorted(daemonsets, key=lambda each: (each.namespace, each.name)):
        rows = running(pool, index, daemonset, closed)
        if rows:
            groups = list(_split(groups, rows, taken(daemonset)))
    return Overhead(groups)


def running(pool: Pool, index: TypeIndex, daemonset: DaemonSet, closed: Markets = 0) -> Rows:
    """The types on which the daemonset would run, sold where both pool and daemonset allow."""
    if is_kept_off(daemonset, pool.taints):
        return 0
    node, well_known = pool.node_requirements, WELL_KNOWN | index.keys
    found = 0
    for wanted in asked(daemonset):
        if node.compatible(wanted, well_known):
            both = node.narrow(wanted)
            markets = index.markets_admitted_by(both)
            found |= index.admitted_by(both) & index.sold_in(markets ^ (markets & closed))
    return found


def _split(
    groups: list[tuple[Rows, Resources]], rows: Rows, amounts: Resources
) -> Iterator[tuple[Rows, Resources]]:
    for group, already in groups:
        running = group & rows
        if running:
            yield running, add(already, amounts)
        if running != group:
            yield group ^ running, already
