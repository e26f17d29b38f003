"""Nodes that stand: which come first, what is free on them, and whom they take."""

from tests.support.model_builders import GIB, label_requirement

from wainwright.core.plan import plan
from wainwright.model.plan import Plan
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Snapshot
from wainwright.model.taints import Taint, Toleration, TolerationOperator

ROOM = {"cpu": 2000, "memory": 4 * GIB, "pods": 10}
STARTING = Taint(key="example.com/starting")
NOT_READY = Taint(key="node.kubernetes.io/not-ready")


def pod(name: str = "a", cpu: int = 1000, wanted: Requirements | None = None) -> Pod:
    alternatives = (Requirements() if wanted is None else wanted,)
    return Pod(namespace="d", name=name, requests={"cpu": cpu}, alternatives=alternatives)


def planned(*pods: Pod, nodes: tuple[Node, ...], daemonsets: tuple[DaemonSet, ...] = ()) -> Plan:
    return plan(Snapshot(pods=pods, nodes=nodes, daemonsets=daemonsets), {})


def homes(made: Plan) -> dict[str, tuple[str, ...]]:
    return {each.node: each.pods for each in made.placements}


def test_initialized_nodes_come_before_those_under_way_and_then_by_name() -> None:
    nodes = (
        Node(name="a", allocatable=ROOM, initialized=False),
        Node(name="c", allocatable=ROOM),
        Node(name="b", allocatable=ROOM),
    )
    made = planned(pod("p1", 1500), pod("p2", 1400), pod("p3", 1300), nodes=nodes)
    assert homes(made) == {"b": ("d/p1",), "c": ("d/p2",), "a": ("d/p3",)}


def test_a_node_being_deleted_takes_nobody() -> None:
    made = planned(pod(), nodes=(Node(name="a", allocatable=ROOM, deleting=True),))
    assert made.scheduled == 0


def test_what_runs_there_takes_room_and_a_slot() -> None:
    running = Pod(namespace="d", name="run", requests={"cpu": 1500})
    full = Node(name="a", allocatable=ROOM, pods=(running,))
    crowded = Node(name="b", allocatable=ROOM | {"pods": 1}, pods=(pod("run-2", 1),))
    assert planned(pod(), nodes=(full, crowded)).scheduled == 0
    assert homes(planned(pod(cpu=500), nodes=(full, crowded))) == {"a": ("d/a",)}


def test_daemonsets_still_to_come_keep_their_room() -> None:
    agent = DaemonSet(namespace="kube-system", name="agent", requests={"cpu": 1500})
    assert planned(pod(), nodes=(Node(name="a", allocatable=ROOM),)).scheduled == 1
    assert (
        planned(pod(), nodes=(Node(name="a", allocatable=ROOM),), daemonsets=(agent,)).scheduled
        == 0
    )


def test_a_daemonset_that_runs_already_is_not_counted_twice() -> None:
    agent = DaemonSet(namespace="kube-system", name="agent", requests={"cpu": 1000})
    running = Pod(namespace="kube-system", name="agent-x", requests={"cpu": 1000}, daemonset=True)
    node = Node(name="a", allocatable=ROOM, pods=(running,))
    assert planned(pod(), nodes=(node,), daemonsets=(agent,)).scheduled == 1


def test_a_daemonset_is_not_awaited_on_nodes_that_it_does_not_fit() -> None:
    agent = DaemonSet(
        namespace="kube-system",
        name="agent",
        requests={"cpu": 1500},
        alternatives=(label_requirement("disk", "In", "ssd"),),
    )
    plain, fitting = (
        Node(name="a", allocatable=ROOM),
        Node(name="b", allocatable=ROOM, labels={"disk": "ssd"}),
    )
    assert planned(pod(), nodes=(plain,), daemonsets=(agent,)).scheduled == 1
    assert planned(pod(), nodes=(fitting,), daemonsets=(agent,)).scheduled == 0


def test_labels_of_a_node_that_stands_are_all_it_has() -> None:
    node = Node(name="a", allocatable=ROOM, labels={"beta.kubernetes.io/arch": "amd64"})
    assert planned(
        pod(wanted=label_requirement("kubernetes.io/arch", "In", "amd64")), nodes=(node,)
    ).scheduled
    assert not planned(
        pod(wanted=label_requirement("topology.kubernetes.io/zone")), nodes=(node,)
    ).scheduled
    assert planned(pod(wanted=label_requirement("disk", "NotIn", "hdd")), nodes=(node,)).scheduled


def test_startup_and_ephemeral_taints_count_only_once_the_node_is_initialized() -> None:
    young = Node(
        name="a",
        allocatable=ROOM,
        taints=(STARTING, NOT_READY),
        startup_taints=(STARTING,),
        initialized=False,
    )
    assert planned(pod(), nodes=(young,)).scheduled == 1
    grown = Node(name="a", allocatable=ROOM, taints=(STARTING,), startup_taints=(STARTING,))
    assert planned(pod(), nodes=(grown,)).scheduled == 0
    foreign = Node(
        name="a", allocatable=ROOM, taints=(NOT_READY,), managed=False, initialized=False
    )
    assert planned(pod(), nodes=(foreign,)).scheduled == 0


def test_a_tolerated_taint_is_no_obstacle() -> None:
    node = Node(name="a", allocatable=ROOM, taints=(Taint(key="team", value="x"),))
    tolerant = Pod(
        namespace="d",
        name="a",
        tolerations=(Toleration(key="team", operator=TolerationOperator.EXISTS),),
    )
    assert planned(tolerant, nodes=(node,)).scheduled == 1
    assert planned(pod(), nodes=(node,)).scheduled == 0


def test_a_resource_that_is_overdrawn_does_not_keep_off_pods_that_do_not_ask_for_it() -> None:
    hog = Pod(namespace="d", name="hog", requests={"memory": 8 * GIB})
    node = Node(name="a", allocatable=ROOM, pods=(hog,))
    assert planned(pod(), nodes=(node,)).scheduled == 1
