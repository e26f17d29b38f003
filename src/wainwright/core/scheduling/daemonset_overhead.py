"""DaemonSet overhead: the resources that daemonsets use on a node before any other pod."""

from collections.abc import Iterator, Sequence

from wainwright.core.scheduling.constraints.taint_toleration import admits_without_preferences
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import HOSTNAME, well_known_labels
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import DaemonSet
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS, Resources, add_resources
from wainwright.model.snapshot import Pool

NO_RESOURCES: Resources = {}


def daemon_requests(daemonset: DaemonSet) -> Resources:
    """What one pod of it requests, with one of the resource `pods`."""
    return {**daemonset.requests, PODS: 1}


def daemon_alternatives(daemonset: DaemonSet) -> tuple[Requirements, ...]:
    """Its alternatives without the hostname, which only pins each pod to its node."""
    return tuple(each.without({HOSTNAME}) for each in daemonset.alternatives)


class DaemonSetOverhead:
    """The types of a catalogue, grouped by the daemonsets of a pool that run on them."""

    __slots__ = ("_running", "groups")

    def __init__(
        self,
        groups: list[tuple[BitSet, Resources]],
        running: Sequence[tuple[DaemonSet, BitSet]] = (),
    ) -> None:
        self.groups = groups
        self._running = running

    def by_type(self, count: int) -> list[Resources]:
        by_type = [NO_RESOURCES] * count
        for types, amounts in self.groups:
            for type_number in iter_bits(types):
                by_type[type_number] = amounts
        return by_type

    def of(self, type_number: int) -> Resources:
        return next(
            (amounts for types, amounts in self.groups if types >> type_number & 1), NO_RESOURCES
        )

    def running_on(self, type_number: int) -> list[DaemonSet]:
        """The daemonsets that would run on a node of the type, in the order of names."""
        return [daemonset for daemonset, types in self._running if types >> type_number & 1]

    def smallest(self, types: BitSet) -> dict[str, int]:
        """The smallest amount of each resource that daemonsets use on any of the types."""
        overheads = [amounts for group, amounts in self.groups if group & types]
        if len(overheads) == 1:
            return dict(overheads[0])
        names = sorted({name for amounts in overheads for name in amounts})
        smallest = {name: min(amounts.get(name, 0) for amounts in overheads) for name in names}
        return {name: amount for name, amount in smallest.items() if amount}


def daemonset_overhead(
    pool: Pool,
    index: InstanceTypeIndex,
    daemonsets: Sequence[DaemonSet],
    disabled_groups: OfferingGroupSet = 0,
) -> DaemonSetOverhead:
    """The overhead on nodes of the pool, which launches nothing in disabled groups."""
    groups: list[tuple[BitSet, Resources]] = [(index.all_types, NO_RESOURCES)]
    running: list[tuple[DaemonSet, BitSet]] = []
    for daemonset in sorted(daemonsets, key=lambda each: (each.namespace, each.name)):
        types = types_running(pool, index, daemonset, disabled_groups)
        if types:
            groups = list(_split(groups, types, daemon_requests(daemonset)))
            running.append((daemonset, types))
    return DaemonSetOverhead(groups, running)


def types_running(
    pool: Pool,
    index: InstanceTypeIndex,
    daemonset: DaemonSet,
    disabled_groups: OfferingGroupSet = 0,
) -> BitSet:
    """The types on which the daemonset would run, available where pool and daemonset allow."""
    if not admits_without_preferences(pool.taints, daemonset.tolerations):
        return 0
    node, well_known = pool.node_requirements, well_known_labels(index.keys)
    types = 0
    for alternative in daemon_alternatives(daemonset):
        if node.is_compatible(alternative, well_known):
            combined = node.narrow(alternative)
            offering_groups = index.compatible_groups(combined)
            types |= index.compatible_types(combined) & index.available_in(
                offering_groups ^ (offering_groups & disabled_groups)
            )
    return types


def _split(
    groups: list[tuple[BitSet, Resources]], types: BitSet, amounts: Resources
) -> Iterator[tuple[BitSet, Resources]]:
    for group, amounts_before in groups:
        running = group & types
        if running:
            yield running, add_resources(amounts_before, amounts)
        if running != group:
            yield group ^ running, amounts_before
