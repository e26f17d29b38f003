"""DaemonSet overhead: what daemonsets take from a node before any other pod has its share."""

from collections.abc import Iterable, Iterator, Sequence

from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import HOSTNAME, WELL_KNOWN_LABELS
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import DaemonSet
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS, Resources, add_resources
from wainwright.model.snapshot import Pool
from wainwright.model.taints import PREFER_NO_SCHEDULE, Taint, find_untolerated_taint

NO_RESOURCES: Resources = {}


def daemon_requests(daemonset: DaemonSet) -> Resources:
    """What one pod of it takes, its slot included."""
    return {**daemonset.requests, PODS: 1}


def daemon_alternatives(daemonset: DaemonSet) -> tuple[Requirements, ...]:
    """Its alternatives without the hostname, which only says on which node each pod belongs."""
    return tuple(each.without({HOSTNAME}) for each in daemonset.alternatives)


def is_repelled_by_taints(daemonset: DaemonSet, taints: Iterable[Taint]) -> bool:
    binding = (taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE)
    return find_untolerated_taint(binding, daemonset.tolerations) is not None


class DaemonSetOverhead:
    """The types of a catalogue in groups that run the same daemonsets of a pool."""

    __slots__ = ("groups",)

    def __init__(self, groups: list[tuple[BitSet, Resources]]) -> None:
        self.groups = groups

    def by_row(self, count: int) -> list[Resources]:
        found = [NO_RESOURCES] * count
        for rows, amounts in self.groups:
            for row in iter_bits(rows):
                found[row] = amounts
        return found

    def of(self, row: int) -> Resources:
        return next((amounts for rows, amounts in self.groups if rows >> row & 1), NO_RESOURCES)

    def least(self, rows: BitSet) -> dict[str, int]:
        """The smallest amount of each resource that any of the types gives up."""
        met = [amounts for group, amounts in self.groups if group & rows]
        if len(met) == 1:
            return dict(met[0])
        names = sorted({name for amounts in met for name in amounts})
        smallest = {name: min(amounts.get(name, 0) for amounts in met) for name in names}
        return {name: amount for name, amount in smallest.items() if amount}


def daemonset_overhead(
    pool: Pool,
    index: InstanceTypeIndex,
    daemonsets: Sequence[DaemonSet],
    closed: OfferingGroupSet = 0,
) -> DaemonSetOverhead:
    """What daemonsets take from nodes of the pool, which buys nothing in closed markets."""
    groups: list[tuple[BitSet, Resources]] = [(index.all_types, NO_RESOURCES)]
    for daemonset in sorted(daemonsets, key=lambda each: (each.namespace, each.name)):
        rows = types_running(pool, index, daemonset, closed)
        if rows:
            groups = list(_split(groups, rows, daemon_requests(daemonset)))
    return DaemonSetOverhead(groups)


def types_running(
    pool: Pool, index: InstanceTypeIndex, daemonset: DaemonSet, closed: OfferingGroupSet = 0
) -> BitSet:
    """The types on which the daemonset would run, sold where both pool and daemonset allow."""
    if is_repelled_by_taints(daemonset, pool.taints):
        return 0
    node, well_known = pool.node_requirements, WELL_KNOWN_LABELS | index.keys
    found = 0
    for wanted in daemon_alternatives(daemonset):
        if node.is_compatible(wanted, well_known):
            both = node.narrow(wanted)
            offering_groups = index.compatible_groups(both)
            found |= index.compatible_types(both) & index.available_in(
                offering_groups ^ (offering_groups & closed)
            )
    return found


def _split(
    groups: list[tuple[BitSet, Resources]], rows: BitSet, amounts: Resources
) -> Iterator[tuple[BitSet, Resources]]:
    for group, already in groups:
        running = group & rows
        if running:
            yield running, add_resources(already, amounts)
        if running != group:
            yield group ^ running, already
