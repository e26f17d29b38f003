"""What the pods of a cluster cost at least, however they are arranged on nodes of its NodePools.

The bound of packing by cost for the cluster as if its nodes did not stand yet. What it may use is
all that an arrangement could use: offerings that nodes have today although nobody could launch them
now, and the instances of reservations that nodes occupy.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from wainwright.core.disruption.cluster_changes import types_by_name
from wainwright.core.packing.lower_bound import lower_bound
from wainwright.core.plan import prepare_snapshot, solve_with_fallbacks
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import INSTANCE_TYPE, INSTANCE_TYPE_LABELS
from wainwright.model.plan import ClusterLimits, PlanOptions, PreferencePolicy
from wainwright.model.pod import DaemonSet
from wainwright.model.snapshot import Node, Snapshot, find_offering

Catalogs = Mapping[str, InstanceTypeIndex]


def cluster_lower_bound(
    snapshot: Snapshot, catalogs: Catalogs, options: PlanOptions
) -> float | None:
    """USD per hour, without fees; None where no NodePool could launch anything.

    Nodes that do not count in the price of the cluster stand as they are, with room for others:
    those of nobody, of static NodePools, and those whose price is not known.
    """
    if not any(index.types for index in catalogs.values()):
        return None
    finder = _OfferingsInUse(snapshot, catalogs)
    standing = tuple(node for node in snapshot.nodes if finder.offering(node) is None)
    released = [node for node in snapshot.nodes if finder.offering(node) is not None]
    moved = [pod for node in released for pod in node.pods if pod.is_rescheduled]
    pools = tuple(msgspec.structs.replace(pool, in_use={}) for pool in snapshot.pools)
    emptied = msgspec.structs.replace(
        snapshot,
        nodes=standing,
        pools=pools,
        pods=(*snapshot.pods, *moved),
        daemonsets=tuple(filter(_depends_on_type, snapshot.daemonsets)),
    )
    # Pods on nodes may have given up preferences.
    lenient = msgspec.structs.replace(
        options, cluster_limits=ClusterLimits(), preference_policy=PreferencePolicy.IGNORE
    )
    offered = finder.with_offerings_in_use(released)
    solution = solve_with_fallbacks(
        lambda strategy: prepare_snapshot(emptied, offered, lenient, strategy)
    )
    # Nodes may be of types that no plan would launch for these pods.
    return lower_bound(solution, all_types=True)


def _depends_on_type(daemonset: DaemonSet) -> bool:
    """Whether the instance type decides if it runs on a node. Others are on some nodes of a type
    and not on others, so that they may take nothing from the room of pods.
    """
    return all(key in INSTANCE_TYPE_LABELS for terms in daemonset.alternatives for key in terms)


class _OfferingsInUse:
    """Which offerings the nodes of a cluster are paid by, and catalogs that still have them."""

    def __init__(self, snapshot: Snapshot, catalogs: Catalogs) -> None:
        self._catalogs = catalogs
        self._static = {pool.name for pool in snapshot.pools if pool.replicas is not None}
        self._types = types_by_name(catalogs)

    def offering(self, node: Node) -> Offering | None:
        """None for a node that does not count in the price of the cluster."""
        pool = node.pool or ""
        if not node.managed or pool in self._static:
            return None
        found = self._types.get(pool, {}).get(node.labels.get(INSTANCE_TYPE, ""))
        return None if found is None else find_offering(node, found.offerings)

    def with_offerings_in_use(self, nodes: Iterable[Node]) -> dict[str, InstanceTypeIndex]:
        returned: Counter[str] = Counter()
        used: dict[str, set[int]] = defaultdict(set)
        for node in nodes:
            offering = self.offering(node)
            if offering is not None and offering.reservation_id is None:
                used[node.pool or ""].add(id(offering))
            elif offering is not None and node.launched:
                returned[offering.reservation_id or ""] += 1
        # Most NodePools share a catalogue and launch the same: one index for all of them, or
        # hundreds of NodePools would need as many of a thousand types.
        changed: dict[tuple[int, frozenset[int]], InstanceTypeIndex] = {}
        found = {}
        for name, index in self._catalogs.items():
            key = (id(index), frozenset(used[name]))
            if key not in changed:
                changed[key] = _changed_index(index, used[name], returned)
            found[name] = changed[key]
        return found


def _changed_index(
    index: InstanceTypeIndex, used: set[int], returned: Counter[str]
) -> InstanceTypeIndex:
    def changed(offering: Offering) -> Offering:
        if offering.reservation_id is not None:
            count = offering.available + returned[offering.reservation_id]
            return msgspec.structs.replace(offering, available=count)
        if id(offering) in used and not offering.available:
            return msgspec.structs.replace(offering, available=UNLIMITED)
        return offering

    def is_changed(each: InstanceType) -> bool:
        return bool(each.fee) or any(
            id(offering) in used or offering.reservation_id in returned
            for offering in each.offerings
        )

    types = [
        msgspec.structs.replace(each, fee=0.0, offerings=tuple(map(changed, each.offerings)))
        if is_changed(each)
        else each
        for each in index.types
    ]
    return InstanceTypeIndex(types, zones=index.zones, previous=index)
