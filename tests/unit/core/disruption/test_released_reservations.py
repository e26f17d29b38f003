"""Drifted nodes in full reservations: what would happen if they gave their instances back first."""

from collections.abc import Collection
from typing import Any

import msgspec
from tests.support.model_builders import instance_type, offering
from tests.unit.core.disruption.test_commands import drifted_claim, node, pods

from wainwright.core.disruption.candidate_outcomes import ClosedNodes, RemovalEvaluator
from wainwright.core.disruption.cluster_changes import Catalogs, with_returned
from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.removal_simulation import ClusterSimulator, RemovalSimulation
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, RESERVATION_ID, ZONE
from wainwright.model.pod import DaemonSet
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot

RESERVED_ONLY = Requirements.from_entries([(CAPACITY_TYPE, "In", ("reserved",), None)])
TEAM = "example.com/team"
A = Pool(name="a", requirements=RESERVED_ONLY, labels={TEAM: "a"})
B = Pool(name="b", requirements=RESERVED_ONLY, labels={TEAM: "b"})


def reserved(name: str, zone: str = "zone-a", available: int = 0) -> Any:
    return offering(
        capacity_type="reserved",
        price=0.001,
        available=available,
        reservation_id=name,
        zone=zone,
    )


def catalog(*offerings: Any, cpu: int = 4000, name: str = "large") -> Any:
    return instance_type(
        name=name,
        capacity={"cpu": cpu, "memory": 2**36, "pods": 50},
        labels={INSTANCE_TYPE: name},
        offerings=offerings,
    )


def reserved_node(
    name: str, reservation: str, *cpus: int, pool: str = "a", zone: str = "zone-a", **fields: Any
) -> Node:
    labels = {
        INSTANCE_TYPE: "large",
        ZONE: zone,
        CAPACITY_TYPE: "reserved",
        RESERVATION_ID: reservation,
        HOSTNAME: name,
        TEAM: pool,
    }
    more = {"labels": labels, "pool": pool, "reservation_id": reservation} | fields
    return node(name, "large", *cpus, claim=drifted_claim(name), **more)


class Released:
    """What each node comes to, by one evaluator, and how often a cluster was compiled for it."""

    def __init__(self, snapshot: Snapshot, *types: Any) -> None:
        index = InstanceTypeIndex(types)
        self._catalogs = {pool.name: index for pool in snapshot.pools}
        self._snapshot, self.compiled = snapshot, list[Collection[str]]()
        given = DisruptionInput(snapshot=snapshot, catalogs=self._catalogs)
        self._candidates = {each.name: each for each in DisruptionPass(given).candidates}
        self._removals = RemovalEvaluator(
            self._compile,
            self._catalogs,
            DisruptionOptions(),
            lambda _: ClosedNodes(starting=0, unsettled=0),
            {},
        )

    def _compile(self, catalogs: Catalogs, withheld: Collection[str]) -> ClusterSimulator:
        self.compiled.append(withheld)
        return ClusterSimulator(self._snapshot, catalogs, withheld=withheld)

    def update(self, *changed: Node) -> None:
        """These nodes have other pods."""
        now = {each.name: each for each in (*self._snapshot.nodes, *changed)}
        self._snapshot = msgspec.structs.replace(self._snapshot, nodes=tuple(now.values()))
        assert self._removals.update(self._snapshot, changed, self._candidates.values())

    def on_a_fork(self, name: str) -> RemovalSimulation | None:
        return self._removals.simulate_released(self._candidates[name])

    def compiled_anew(self, name: str) -> RemovalSimulation:
        """In the catalogs in which this reservation has one instance more."""
        candidate = self._candidates[name]
        assert candidate.node.reservation_id is not None
        catalogs = with_returned(self._catalogs, {candidate.node.reservation_id: 1})
        simulator = ClusterSimulator(self._snapshot, catalogs)
        return simulator.simulation_of(simulator.solve_without([name]))


def test_the_cluster_is_compiled_once_for_all_full_reservations() -> None:
    nodes = tuple(reserved_node(f"n{n}", f"cr-{n % 3}", 3000) for n in range(9))
    kind = catalog(*(reserved(f"cr-{n}") for n in range(3)))
    asked = Released(Snapshot(nodes=nodes, pools=(A,), now=0.0), kind)
    for each in nodes:
        found = asked.on_a_fork(each.name)
        assert found is not None
        assert [claim.launch.reservation_id for claim in found.claims] == [each.reservation_id]
        assert found == asked.compiled_anew(each.name)
    assert asked.compiled == [(), frozenset({"cr-0", "cr-1", "cr-2"})]


def test_nothing_is_compiled_for_a_reservation_that_is_not_full() -> None:
    nodes = (reserved_node("one", "cr-1", 3000),)
    asked = Released(
        Snapshot(nodes=nodes, pools=(A,), now=0.0), catalog(reserved("cr-1", "zone-a", 1))
    )
    assert asked.on_a_fork("one") == asked.compiled_anew("one")
    assert asked.compiled == [()]


def test_an_instance_that_a_launch_under_way_will_need_is_not_released() -> None:
    nodes = (
        reserved_node("one", "cr-1", 3000),
        reserved_node("coming", "cr-1", launched=False, initialized=False, pods=pods("c", 3000)),
    )
    asked = Released(Snapshot(nodes=nodes, pools=(A,), now=0.0), catalog(reserved("cr-1")))
    assert asked.on_a_fork("one") is None


def test_one_release_leaves_the_reservations_of_the_next_as_they_were() -> None:
    nodes = (reserved_node("one", "cr-1", 3000, 3000), reserved_node("two", "cr-2", 3000))
    kind = catalog(reserved("cr-1"), reserved("cr-2"))
    asked = Released(Snapshot(nodes=nodes, pools=(A,), now=0.0), kind)
    for _ in range(2):
        assert asked.on_a_fork("one") is None  # two instances would be needed
        assert asked.on_a_fork("two") is not None


def test_a_daemonset_of_reserved_nodes_runs_only_where_its_reservation_is_released() -> None:
    """It would leave too little room on the small type, of which only another reservation is."""
    logger = DaemonSet(
        namespace="kube-system",
        name="logger",
        requests={"cpu": 900},
        alternatives=(Requirements.from_labels({CAPACITY_TYPE: "reserved"}),),
    )
    on_demand = offering(price=0.1, zone="zone-a")
    kinds = (
        catalog(reserved("cr-1"), cpu=500),
        catalog(reserved("cr-2"), on_demand, cpu=4000, name="other"),
    )
    either = msgspec.structs.replace(A, requirements=Requirements())
    nodes = (reserved_node("one", "cr-1", 3500), reserved_node("two", "cr-2", 100))
    snapshot = Snapshot(nodes=nodes, pools=(either,), daemonsets=(logger,), now=0.0)
    asked = Released(snapshot, *kinds)
    found = asked.on_a_fork("one")
    assert found == asked.compiled_anew("one")
    assert found is not None
    assert [claim.launch.capacity_type for claim in found.claims] == ["on-demand"]


def test_changed_pods_are_known_without_compiling_the_cluster_again() -> None:
    empty = node("two", "large", pool=None, managed=False)
    nodes = (reserved_node("one", "cr-1", 3000, 3000), empty)
    asked = Released(Snapshot(nodes=nodes, pools=(A,), now=0.0), catalog(reserved("cr-1")))
    before = asked.on_a_fork("one")
    assert before is not None
    assert [each.node for each in before.placements] == ["two"]
    asked.update(msgspec.structs.replace(empty, pods=pods("two", 3000)))
    assert asked.on_a_fork("one") is None
    asked.update(msgspec.structs.replace(empty, pods=()))
    assert asked.on_a_fork("one") == before == asked.compiled_anew("one")
    assert asked.compiled == [(), frozenset({"cr-1"})]
