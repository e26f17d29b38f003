"""Simulation: what would happen to the pods of some nodes if these were removed."""

from weakref import ref

import msgspec
import pytest
from tests.support.model_builders import (
    affinity_term,
    existing_node,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.core.plan import plan
from wainwright.core.removal_simulation import ClusterSimulator, RemovalSimulation
from wainwright.gc_pause import gc_paused
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import HOSTNAME, RESERVED, ZONE
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, ClusterLimits, PlanOptions
from wainwright.model.pod import (
    HostPort,
    Pod,
    PodConstraints,
    VolumeAttachment,
    VolumeProblem,
)
from wainwright.model.reasons import (
    InsufficientResource,
    LimitExceeded,
    NodeTerminating,
    OfferingsUnavailable,
)
from wainwright.model.snapshot import Node, Pool, Snapshot


def simulator(
    *nodes: Node, pools: tuple[Pool, ...] = (), options: PlanOptions = DEFAULT_PLAN_OPTIONS
) -> ClusterSimulator:
    index = InstanceTypeIndex([zonal_instance_type(cpu=2000)])
    snapshot = Snapshot(nodes=nodes, pools=pools)
    return ClusterSimulator(snapshot, {pool.name: index for pool in pools}, options)


def pods_by_node(result: RemovalSimulation) -> dict[str, tuple[str, ...]]:
    return {place.node: place.pods for place in result.placements}


GENERAL = (Pool(name="general"),)


def test_pods_go_to_existing_nodes_with_room() -> None:
    cluster = simulator(
        existing_node("a", "zone-a", *labelled_pods(2, cpu=400)),
        existing_node("b", "zone-a"),
        existing_node("c", "zone-a"),
    )
    result = cluster.remove_nodes(["a"])
    assert result.is_possible
    assert pods_by_node(result) == {"b": ("shop/web-0", "shop/web-1")}
    assert result.claims == ()


def test_as_many_new_nodes_as_needed_are_launched() -> None:
    cluster = simulator(
        existing_node("a", "zone-a", *labelled_pods(1, cpu=1500), cpu=2000),
        existing_node("b", "zone-a", *labelled_pods(1, "db", cpu=1500), cpu=2000),
        pools=GENERAL,
    )
    result = cluster.remove_nodes(["a"])
    assert [(each.name, each.pods) for each in result.claims] == [("general-1", ("shop/web-0",))]
    both = cluster.remove_nodes(["a", "b"])
    assert both.is_possible
    assert [each.pods for each in both.claims] == [("shop/db-0",), ("shop/web-0",)]


def test_limits_of_the_cluster_count_the_nodes_that_would_be_removed() -> None:
    """Two nodes stand and three are allowed: one replacement, and not a second beside it."""
    cluster = simulator(
        existing_node("a", "zone-a", *labelled_pods(1, cpu=1500), cpu=2000),
        existing_node("b", "zone-a", *labelled_pods(1, "db", cpu=1500), cpu=2000),
        pools=GENERAL,
        options=PlanOptions(cluster_limits=ClusterLimits(nodes=3)),
    )
    for _ in range(2):  # no simulation uses up the limit for the next
        assert cluster.remove_nodes(["a"]).is_possible
        both = cluster.remove_nodes(["a", "b"])
        assert [each.pods for each in both.claims] == [("shop/db-0",)]
        [group] = cluster.explain_removal(["a", "b"])
        [verdict] = group.pools
        assert isinstance(verdict.reason, LimitExceeded)
        assert (verdict.reason.of_cluster, verdict.reason.in_use) == (True, 3)


def test_limits_hold_for_the_new_nodes_together() -> None:
    """Two nodes with one pod each; the limit has room for one new node."""
    cluster = simulator(
        existing_node("a", "zone-a", *labelled_pods(1, cpu=1500), cpu=2000),
        existing_node("b", "zone-a", *labelled_pods(1, "db", cpu=1500), cpu=2000),
        pools=(Pool(name="general", limits={"cpu": 3000}),),
    )
    for _ in range(2):  # no simulation uses up the limit for the next
        both = cluster.remove_nodes(["a", "b"])
        assert [each.pods for each in both.claims] == [("shop/db-0",)]
        assert both.unplaced == ("shop/web-0",)
        assert cluster.remove_nodes(["a"]).is_possible


def many_limited_pools(
    options: PlanOptions = DEFAULT_PLAN_OPTIONS, *, in_use: int = 2000
) -> ClusterSimulator:
    """Forty NodePools with room for one node within their limit, which is in use, and a node of one
    pod each, which has no room for another; each costs a dollar more than the one before.
    """
    pools, nodes, catalogs = list[Pool](), list[Node](), dict[str, InstanceTypeIndex]()
    for number in range(40):
        name = f"pool-{number:02}"
        pools.append(Pool(name=name, limits={"cpu": 2000}, in_use={"cpu": in_use}))
        catalogs[name] = InstanceTypeIndex([zonal_instance_type(cpu=2000, price=1.0 + number)])
        pods = labelled_pods(1, name, cpu=1500)
        node = existing_node(f"node-{number:02}", "zone-a", *pods, cpu=2000)
        capacity = {"cpu": 2000}
        nodes.append(msgspec.structs.replace(node, pool=name, managed=True, capacity=capacity))
    return ClusterSimulator(Snapshot(nodes=tuple(nodes), pools=tuple(pools)), catalogs, options)


NODE_LIMITS = pytest.mark.parametrize(
    "options",
    [PlanOptions(), PlanOptions(cluster_limits=ClusterLimits(nodes=100))],
    ids=["no limit of the cluster", "100 nodes in the cluster"],
)


@NODE_LIMITS
def test_of_many_pools_at_their_limits_those_of_removed_nodes_have_room(
    options: PlanOptions,
) -> None:
    cluster = many_limited_pools(options)

    def pools_of_new_nodes(*names: str) -> list[str]:
        solution = cluster.solve_without(names)
        return sorted(each.pool for each in cluster.simulation_of(solution).claims)

    for _ in range(2):  # no simulation uses up the limit for the next
        assert pools_of_new_nodes("node-07") == ["pool-07"]
        assert pools_of_new_nodes("node-03", "node-30") == ["pool-03", "pool-30"]
    assert not cluster.remove_nodes(["node-07"]).claims


@NODE_LIMITS
def test_of_many_pools_the_next_one_takes_over_when_the_cheapest_is_at_its_limit(
    options: PlanOptions,
) -> None:
    cluster = many_limited_pools(options, in_use=0)
    for _ in range(2):
        result = cluster.remove_nodes(["node-07", "node-08", "node-09"])
        found = [(each.pool, each.round) for each in result.claims]
        assert found == [("pool-00", 1), ("pool-01", 1), ("pool-02", 1)]


def test_a_simulation_copies_only_the_pools_whose_limits_it_changes() -> None:
    """Hundreds of NodePools that were copied for every node made `consolidate` quadratic."""
    cluster = many_limited_pools()
    first, second = (cluster.solve_without([name]).state for name in ("node-07", "node-08"))
    both = zip(first.templates, second.templates, strict=True)
    copied = {one.pool.name for one, other in both if one is not other}
    assert copied == {"pool-07", "pool-08"}


def test_pending_pods_are_placed_as_well_and_take_room() -> None:
    nodes = (
        existing_node("a", "zone-a", *labelled_pods(1, cpu=600)),
        existing_node("b", "zone-a"),
    )
    pending = tuple(labelled_pods(1, "pending", cpu=700))
    quiet = ClusterSimulator(Snapshot(nodes=nodes), {})
    busy = ClusterSimulator(Snapshot(nodes=nodes, pods=pending), {})
    assert pods_by_node(quiet.remove_nodes(["a"])) == {"b": ("shop/web-0",)}
    result = busy.remove_nodes(["a"])
    assert pods_by_node(result) == {"b": ("shop/pending-0",)}
    assert result.unplaced == ("shop/web-0",)


def test_a_kept_node_says_why_its_pods_cannot_be_elsewhere() -> None:
    full = existing_node("b", "zone-a", *labelled_pods(1, "db", cpu=800))
    [pending] = labelled_pods(1, "pending", cpu=5000)
    nodes = (existing_node("a", "zone-a", *labelled_pods(2, cpu=700)), full)
    pools = (Pool(name="general", limits={"cpu": 1000}),)
    index = InstanceTypeIndex([zonal_instance_type(cpu=2000)])
    snapshot = Snapshot(nodes=nodes, pools=pools, pods=(pending,))
    cluster = ClusterSimulator(snapshot, {"general": index})
    kept = [each for each in cluster.remove_nodes(["a"]).unplaced if each != pending.key]
    [group] = cluster.explain_removal(["a"], kept)
    assert group.pods == ("shop/web-0", "shop/web-1")
    assert [each.reason for each in group.nodes] == [
        InsufficientResource(resource="cpu", short=500, node="b"),
        NodeTerminating(),
    ]
    [pool] = group.pools
    assert isinstance(pool.reason, LimitExceeded)
    assert (pool.reason.limit, pool.reason.needed) == (1000, 2000)
    assert [each.pods for each in cluster.explain_removal(["a"])] == [(pending.key,), group.pods]


def test_a_node_that_can_be_removed_has_no_reasons() -> None:
    cluster = simulator(
        existing_node("a", "zone-a", *labelled_pods(1)), existing_node("b", "zone-a")
    )
    assert cluster.explain_removal(["a"]) == ()


def test_new_nodes_come_from_the_pool_of_the_highest_weight_as_in_plans() -> None:
    """Otherwise consolidation would remove what provisioning launches."""
    pools = (Pool(name="cheap"), Pool(name="heavy", weight=50))
    catalogs = {
        pool.name: InstanceTypeIndex([instance_type(offerings=(offering(price=price),))])
        for pool, price in zip(pools, (0.1, 9.0), strict=True)
    }
    [pod] = labelled_pods(1)
    here = existing_node("a", "zone-a", pod)
    cluster = ClusterSimulator(Snapshot(nodes=(here,), pools=pools), catalogs)
    [claim] = cluster.remove_nodes(["a"]).claims
    [planned] = plan(Snapshot(pods=(pod,), pools=pools), catalogs).claims
    assert (claim.pool, planned.pool) == ("heavy", "heavy")


def test_removed_nodes_take_no_pods() -> None:
    cluster = simulator(
        existing_node("a", "zone-a", *labelled_pods(1)), existing_node("b", "zone-a"), pools=()
    )
    assert cluster.remove_nodes(["a"]).is_possible
    assert cluster.remove_nodes(["a", "b"]).unplaced == ("shop/web-0",)


def test_a_simulation_does_not_change_the_cluster() -> None:
    cluster = simulator(
        existing_node("a", "zone-a", *labelled_pods(1, cpu=900)), existing_node("b", "zone-a")
    )
    assert pods_by_node(cluster.remove_nodes(["a"])) == {"b": ("shop/web-0",)}
    assert pods_by_node(cluster.remove_nodes(["a"])) == {"b": ("shop/web-0",)}
    assert cluster.remove_nodes(["b"]) == RemovalSimulation()


def test_a_simulation_whose_result_nobody_keeps_is_freed_without_the_garbage_collector() -> None:
    """It is paused: with a cycle, a thousand nodes under spreads took 750 MB."""
    spread = spread_constraint(ZONE)
    cluster = simulator(
        existing_node("a", "zone-a", *labelled_pods(2, constraints=spread)), pools=GENERAL
    )
    with gc_paused():
        solution = cluster.solve_without(["a"])
        assert solution.drafts
        state, topology = ref(solution.state), ref(solution.state.topology)
        del solution
        assert (state(), topology()) == (None, None)


def test_pods_of_removed_nodes_are_no_longer_counted_there() -> None:
    """Two pods with anti-affinity: the one of the removed node needs a further node."""
    apart = PodConstraints(anti_affinity=(affinity_term(HOSTNAME),))
    first, second = labelled_pods(2, constraints=apart)
    cluster = simulator(
        existing_node("a", "zone-a", first),
        existing_node("b", "zone-a", second),
        existing_node("c", "zone-a"),
    )
    assert pods_by_node(cluster.remove_nodes(["a"])) == {"c": ("shop/web-0",)}
    assert cluster.remove_nodes(["a", "c"]).unplaced == ("shop/web-0",)


def test_the_only_pod_of_its_affinity_group_may_go_anywhere_again() -> None:
    near = PodConstraints(affinity=(affinity_term(),))
    cluster = simulator(
        existing_node("a", "zone-a", *labelled_pods(1, constraints=near)),
        existing_node("b", "zone-b"),
    )
    assert pods_by_node(cluster.remove_nodes(["a"])) == {"b": ("shop/web-0",)}


def test_a_zone_is_no_domain_after_its_last_node_is_removed() -> None:
    """One pod in each zone; with zone-b removed and nothing to launch there, zone-a takes both."""
    first, second = labelled_pods(2, constraints=spread_constraint())
    cluster = simulator(
        existing_node("a", "zone-a", first),
        existing_node("b", "zone-b", second),
        existing_node("c", "zone-a"),
    )
    assert pods_by_node(cluster.remove_nodes(["b"])) == {"a": ("shop/web-1",)}


def test_daemonset_and_terminating_pods_are_ignored() -> None:
    agent, leaving = (
        msgspec.structs.replace(labelled_pods(1, "agent")[0], daemonset=True),
        msgspec.structs.replace(labelled_pods(1, "leaving")[0], terminating=True),
    )
    assert not agent.is_rescheduled
    assert not leaving.is_rescheduled
    assert (
        simulator(existing_node("a", "zone-a", agent, leaving)).remove_nodes(["a"])
        == RemovalSimulation()
    )


@pytest.mark.parametrize(
    "stuck",
    [
        {"volume_problem": VolumeProblem(claim="data", why="is lost")},
        {"alternatives": ()},
        {"alternatives": (label_requirement(ZONE, "In", "nowhere"),)},
    ],
)
def test_a_pod_that_fits_nowhere_else_is_unplaced(stuck: dict[str, object]) -> None:
    (pod,) = labelled_pods(1)
    unplaceable: Pod = msgspec.structs.replace(pod, **stuck)
    cluster = simulator(
        existing_node("a", "zone-a", unplaceable), existing_node("b", "zone-a"), pools=GENERAL
    )
    assert cluster.remove_nodes(["a"]).unplaced == ("shop/web-0",)


def test_an_unknown_node_is_an_error() -> None:
    with pytest.raises(KeyError, match="ghost"):
        simulator(existing_node("a", "zone-a")).remove_nodes(["ghost"])


def test_on_demand_is_used_if_no_reserved_instance_is_available() -> None:
    reserved = offering(capacity_type=RESERVED, price=1e-7, available=1, reservation_id="cr-1")
    unavailable = msgspec.structs.replace(reserved, available=0)
    node = existing_node("a", "zone-a", *labelled_pods(1))
    for offered, expected in ((reserved, "cr-1"), (unavailable, None)):
        index = InstanceTypeIndex([instance_type(offerings=(offered, offering()))])
        cluster = ClusterSimulator(Snapshot(nodes=(node,), pools=GENERAL), {"general": index})
        [claim] = cluster.remove_nodes(["a"]).claims
        assert claim.launch.reservation_id == expected


def test_the_reserved_instance_of_a_removed_in_flight_node_is_available() -> None:
    reserved = offering(capacity_type=RESERVED, reservation_id="cr-1", available=1)
    index = InstanceTypeIndex([instance_type(name="only", offerings=(reserved,))])
    [pod] = labelled_pods(1)
    node = Node(name="a", launched=False, reservation_id="cr-1", pods=(pod,), pool="general")
    cluster = ClusterSimulator(Snapshot(nodes=(node,), pools=GENERAL), {"general": index})
    [claim] = cluster.remove_nodes(["a"]).claims
    assert claim.launch.reservation_id == "cr-1"


def test_that_instance_is_taken_in_the_reasons_of_pods_that_come_too_late() -> None:
    reserved = offering(capacity_type=RESERVED, reservation_id="cr-1", available=1)
    index = InstanceTypeIndex([instance_type(name="only", offerings=(reserved,))])
    first, second = labelled_pods(2, cpu=1500)
    node = Node(
        name="a", launched=False, reservation_id="cr-1", pods=(first, second), pool="general"
    )
    cluster = ClusterSimulator(Snapshot(nodes=(node,), pools=GENERAL), {"general": index})
    [group] = cluster.explain_removal(["a"])
    assert group.pods == (second.key,)
    reason = group.pools[0].reason
    assert isinstance(reason, OfferingsUnavailable)
    assert (reason.reservations, reason.users) == (("cr-1",), ("general-1",))


USED = {
    "a host port": PodConstraints(ports=(HostPort(port=80),)),
    "a volume": PodConstraints(attachments=(VolumeAttachment(driver="ebs", volume="v"),)),
}


@pytest.mark.parametrize("used", USED.values(), ids=USED)
def test_a_node_whose_pods_use_ports_or_volumes_is_compiled_anew(used: PodConstraints) -> None:
    plain = existing_node("a", "zone-a", *labelled_pods(2))
    cluster = simulator(plain, existing_node("b", "zone-a", *labelled_pods(1, constraints=used)))
    fewer = msgspec.structs.replace(plain, pods=plain.pods[:1])
    using = msgspec.structs.replace(plain, pods=labelled_pods(1, constraints=used))
    assert cluster.update(Snapshot(nodes=(using,)), [using]) is None
    assert cluster.update(Snapshot(nodes=(fewer,)), [fewer]) is not None
