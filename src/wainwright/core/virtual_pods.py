"""Virtual pods of capacity buffers: where they have room now, and which nodes they still need.

They come after all real pods, and take nothing from them. Room that exists counts wherever it is;
new nodes are never reserved ones, as a reservation is not filled in advance.
"""

from collections.abc import Mapping

import msgspec

from wainwright.core.disruption.cluster_changes import ClusterChanges
from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.core.plan import plan
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, RESERVED
from wainwright.model.plan import PlannedNodeClaim, PlanOptions
from wainwright.model.pod import EvictionFacts, Pod
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Snapshot
from wainwright.model.taints import DISRUPTED_TAINT, Toleration, TolerationOperator

NOT_RESERVED = Requirements.from_entries([(CAPACITY_TYPE, "NotIn", (RESERVED,), None)])
TOLERATES_DISRUPTION = Toleration(key=DISRUPTED_TAINT.key, operator=TolerationOperator.EXISTS)


class VirtualPodPlan(msgspec.Struct, frozen=True, kw_only=True):
    placements: Mapping[str, tuple[Pod, ...]]
    """By name of node or claim the virtual pods that have room there."""
    claims: tuple[PlannedNodeClaim, ...]
    """The nodes that the others need."""


def plan_virtual_pods(
    snapshot: Snapshot,
    pods: tuple[Pod, ...],
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
) -> VirtualPodPlan:
    """`snapshot` has the real pods, planned first; claims for them are not in the result.

    Reserved offerings are left out rather than ruled out by requirements of the pods: spreads would
    count no pods on reserved nodes then, and a node would be launched that has no room for them.
    """
    changes = ClusterChanges(snapshot.pools, catalogs)
    evicted = evict_from_deleting_nodes(snapshot).snapshot
    with_real = changes.after_plan(evicted, plan(evicted, catalogs, options))
    options = msgspec.structs.replace(options, static_capacity=False)
    asked = msgspec.structs.replace(with_real, pods=pods)
    existing = plan(msgspec.structs.replace(asked, pools=()), {}, options)
    by_key = {pod.key: pod for pod in pods}
    filled = changes.after_plan(asked, existing)
    rest = tuple(by_key[key] for key in existing.unplaced)
    options = msgspec.structs.replace(options, capacity_reservations=False)
    planned = plan(msgspec.structs.replace(filled, pods=rest), catalogs, options)
    return VirtualPodPlan(
        placements={
            each.node: tuple(by_key[key] for key in each.pods) for each in existing.placements
        },
        claims=tuple(map(_never_reserved, planned.claims)),
    )


def _never_reserved(claim: PlannedNodeClaim) -> PlannedNodeClaim:
    """Also where its NodePool allows it, and a reservation has room when it is launched."""
    requirements = claim.requirements.narrow(NOT_RESERVED)
    return msgspec.structs.replace(claim, requirements=requirements)


def keep_off_reservations(pod: Pod) -> Pod:
    narrowed = (alternative.narrow(NOT_RESERVED) for alternative in pod.alternatives)
    possible = tuple(each for each in narrowed if not each.allowed(CAPACITY_TYPE).is_empty)
    return msgspec.structs.replace(pod, alternatives=possible)


def pods_that_keep(node: Node, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """The virtual pods that keep the node from being removed, as disruption is to see them: they
    move wherever there is room, without asking anybody. A reserved node is not kept.
    """
    if node.labels.get(CAPACITY_TYPE) == RESERVED:
        return ()
    return tuple(
        msgspec.structs.replace(
            keep_off_reservations(pod),
            eviction=EvictionFacts(),
            virtual=True,
            tolerations=(*pod.tolerations, TOLERATES_DISRUPTION),
        )
        for pod in pods
    )
