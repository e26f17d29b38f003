"""The cluster after a plan, or after nodes were removed: what counts against limits."""

import msgspec
from tests.support.model_builders import GENERAL, ZONES, existing_node, labelled_pods
from tests.support.model_builders import zonal_instance_type as zonal

from wainwright.core.disruption.cluster_changes import ClusterChanges
from wainwright.core.plan import plan
from wainwright.core.virtual_pods import plan_virtual_pods
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Node, Pool, Snapshot

CATALOGS = {"general": InstanceTypeIndex([zonal(cpu=4000)])}


def of_pool(name: str, cpu: int) -> Node:
    node = existing_node(name, ZONES[0], cpu=0)
    return msgspec.structs.replace(node, pool="general", capacity={"cpu": cpu})


def pool(in_use: int, limit: int = 18000) -> Pool:
    return msgspec.structs.replace(
        GENERAL, limits={"cpu": limit}, in_use={"cpu": in_use, "nodes": 2}
    )


def cluster(*pods: Pod, in_use: int) -> Snapshot:
    """Two nodes of six cores together: one is a claim whose launch has failed, and which may become
    a larger one, so that limits count more."""
    nodes = of_pool("a", 2000), of_pool("b", 4000)
    return Snapshot(pods=pods, pools=(pool(in_use),), nodes=nodes)


def test_new_nodes_are_added_to_what_limits_count_already() -> None:
    snapshot = cluster(*labelled_pods(2, cpu=3000), in_use=10000)
    made = plan(snapshot, CATALOGS, DEFAULT_PLAN_OPTIONS)
    (after,) = ClusterChanges(snapshot.pools, CATALOGS).after_plan(snapshot, made).pools
    assert (after.in_use["cpu"], after.in_use["nodes"]) == (18000, 4)


def test_nodes_that_go_are_taken_off_what_limits_count() -> None:
    snapshot = cluster(in_use=10000)
    changes = ClusterChanges(snapshot.pools, CATALOGS)
    (after,) = changes.after_removal(snapshot, ["b"], (), ()).pools
    assert after.in_use == {"cpu": 6000, "nodes": 1}
    (last,) = changes.after_removal(cluster(in_use=6000), ["a", "b"], (), ()).pools
    assert last.in_use == {}


def test_virtual_pods_get_no_node_beyond_what_limits_count_already() -> None:
    virtual = labelled_pods(3, cpu=3000)
    made = plan_virtual_pods(cluster(in_use=14000), virtual, CATALOGS, DEFAULT_PLAN_OPTIONS)
    assert len(made.claims) == 1, "of 18 cores 14 may be in use, though nodes have six"
