"""Virtual pods of capacity buffers: which nodes they still need."""

import msgspec
from tests.support.model_builders import (
    GENERAL,
    existing_node,
    instance_type,
    labelled_pods,
    offering,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.core.virtual_pods import plan_virtual_pods
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, RESERVED
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Node, Snapshot

RUNNING = labelled_pods(4, cpu=1000)
VIRTUAL = (msgspec.structs.replace(labelled_pods(1, cpu=1000)[0], name="virtual"),)
SPREAD = msgspec.structs.replace(VIRTUAL[0], constraints=spread_constraint())


def full_node(name: str, zone: str, *pods: Pod, capacity_type: str = ON_DEMAND) -> Node:
    node = existing_node(name, zone, *pods, cpu=1000 * len(pods))
    return msgspec.structs.replace(node, labels={**node.labels, CAPACITY_TYPE: capacity_type})


def test_pods_on_reserved_nodes_count_in_spreads_of_virtual_pods() -> None:
    """As the kube-scheduler counts them: a node elsewhere would have room that no pod may use."""
    nodes = (
        full_node("a", "zone-a", RUNNING[0]),
        full_node("b", "zone-b", RUNNING[1]),
        full_node("c", "zone-c", *RUNNING[2:], capacity_type=RESERVED),
    )
    snapshot = Snapshot(pools=(GENERAL,), nodes=nodes)
    catalogs = {GENERAL.name: InstanceTypeIndex([zonal_instance_type()])}
    made = plan_virtual_pods(snapshot, (SPREAD,), catalogs, DEFAULT_PLAN_OPTIONS)
    (claim,) = made.claims
    assert claim.launch.zone in ("zone-a", "zone-b")


def test_a_new_node_for_virtual_pods_is_never_reserved_even_if_its_pool_may_be() -> None:
    offerings = (
        offering(),
        offering(price=0.0, capacity_type=RESERVED, reservation_id="cr-1", available=3),
    )
    catalogs = {GENERAL.name: InstanceTypeIndex([instance_type(offerings=offerings)])}
    snapshot = Snapshot(pools=(GENERAL,))
    made = plan_virtual_pods(snapshot, VIRTUAL, catalogs, DEFAULT_PLAN_OPTIONS)
    (claim,) = made.claims
    assert claim.launch.capacity_type == ON_DEMAND
    assert claim.choices.capacity_types == (ON_DEMAND,)
    assert not claim.requirements.allowed(CAPACITY_TYPE).admits(RESERVED)
