"""Existing nodes: their order, what is free on them, and which pods they take."""

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


def pod(name: str = "a", cpu: int = 1000, requires: Requirements | None = None) -> Pod:
    alternatives = (Requirements() if requires is None else requires,)
    return Pod(namespace="d", name=name, requests={"cpu": cpu}, alternatives=alternatives)


def planned(*pods: Pod, nodes: tuple[Node, ...], daemonsets: tuple[DaemonSet, ...] = ()) -> Plan:
    return plan(Snapshot(pods=pods, nodes=nodes, daemonsets=daemonsets), {})


def pods_by_node(result: Plan) -> dict[str, tuple[str, ...]]:
    return {each.node: each.pods for each in result.placements}


def test_initialized_nodes_come_before_in_flight_ones_and_then_by_name() -> None:
    nodes = (
        Node(name="a", allocatable=ROOM, initialized=False),
        Node(name="c", allocatable=ROOM),
        Node(name="b", allocatable=ROOM),
    )
    result = planned(pod("p1", 1500), pod("p2", 1400), pod("p3", 1300), nodes=nodes)
    assert pods_by_node(result) == {"b": ("d/p1",), "c": ("d/p2",), "a": ("d/p3",)}


def test_a_node_being_deleted_takes_no_pods() -> None:
    result = planned(pod(), nodes=(Node(name="a", allocatable=ROOM, deleting=True),))
    assert result.scheduled == 0


def test_running_pods_use_resources_and_the_pod_limit() -> None:
    running = Pod(namespace="d", name="run", requests={"cpu": 1500})
    full = Node(name="a", allocatable=ROOM, pods=(running,))
    at_pod_limit = Node(name="b", allocatable=ROOM | {"pods": 1}, pods=(pod("run-2", 1),))
    assert planned(pod(), nodes=(full, at_pod_limit)).scheduled == 0
    assert pods_by_node(planned(pod(cpu=500), nodes=(full, at_pod_limit))) == {"a": ("d/a",)}


def test_resources_of_daemonset_pods_still_to_come_are_kept_free() -> None:
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


def test_a_daemonset_keeps_nothing_free_on_incompatible_nodes() -> None:
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


def test_an_existing_node_has_only_its_actual_labels() -> None:
    node = Node(name="a", allocatable=ROOM, labels={"beta.kubernetes.io/arch": "amd64"})
    assert planned(
        pod(requires=label_requirement("kubernetes.io/arch", "In", "amd64")), nodes=(node,)
    ).scheduled
    assert not planned(
        pod(requires=label_requirement("topology.kubernetes.io/zone")), nodes=(node,)
    ).scheduled
    assert planned(pod(requires=label_requirement("disk", "NotIn", "hdd")), nodes=(node,)).scheduled


def test_startup_and_ephemeral_taints_count_only_once_the_node_is_initialized() -> None:
    uninitialized = Node(
        name="a",
        allocatable=ROOM,
        taints=(STARTING, NOT_READY),
        startup_taints=(STARTING,),
        initialized=False,
    )
    assert planned(pod(), nodes=(uninitialized,)).scheduled == 1
    initialized = Node(name="a", allocatable=ROOM, taints=(STARTING,), startup_taints=(STARTING,))
    assert planned(pod(), nodes=(initialized,)).scheduled == 0
    unmanaged = Node(
        name="a", allocatable=ROOM, taints=(NOT_READY,), managed=False, initialized=False
    )
    assert planned(pod(), nodes=(unmanaged,)).scheduled == 0


def test_a_tolerated_taint_is_no_obstacle() -> None:
    node = Node(name="a", allocatable=ROOM, taints=(Taint(key="team", value="x"),))
    tolerant = Pod(
        namespace="d",
        name="a",
        tolerations=(Toleration(key="team", operator=TolerationOperator.EXISTS),),
    )
    assert planned(tolerant, nodes=(node,)).scheduled == 1
    assert planned(pod(), nodes=(node,)).scheduled == 0


def test_an_overcommitted_resource_does_not_exclude_pods_that_do_not_request_it() -> None:
    large = Pod(namespace="d", name="hog", requests={"memory": 8 * GIB})
    node = Node(name="a", allocatable=ROOM, pods=(large,))
    assert planned(pod(), nodes=(node,)).scheduled == 1
