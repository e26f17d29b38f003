"""The order of the pod queue, and which pods are of one class."""

from wainwright.core.scheduling.pod_classes import PodClasses
from wainwright.core.scheduling.queue import build_queue
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements


def pod(name: str, **more: object) -> Pod:
    return Pod(namespace="d", name=name, **more)  # type: ignore[arg-type]


def order(*pods: Pod) -> list[str]:
    return [each.name for batch in build_queue(PodClasses(pods).all) for each in batch.pods]


def test_more_cpu_comes_first_and_then_more_memory() -> None:
    small = pod("small", requests={"cpu": 100, "memory": 9})
    wide = pod("wide", requests={"cpu": 200, "memory": 5})
    narrow = pod("narrow", requests={"cpu": 200, "memory": 1})
    nothing = pod("nothing")
    assert order(nothing, small, narrow, wide) == ["wide", "narrow", "small", "nothing"]


def test_of_equal_pods_the_oldest_comes_first_and_those_without_a_creation_time_last() -> None:
    pods = [pod("undated"), pod("young", created=9.0), pod("old", created=1.0)]
    assert order(*pods) == ["old", "young", "undated"]


def test_of_equal_age_pods_are_sorted_by_uid_namespace_and_name() -> None:
    assert order(pod("a", uid="2"), pod("b", uid="1")) == ["b", "a"]
    assert order(pod("b"), pod("a"), Pod(namespace="c", name="z")) == ["z", "a", "b"]


def test_pods_with_equal_requests_are_one_class_however_they_are_written() -> None:
    one = pod("a", requests={"cpu": 1, "memory": 2, "gpu": 0})
    other = pod("b", requests={"memory": 2, "cpu": 1})
    assert len(PodClasses([one, other]).all) == 1


def test_pods_with_different_node_requirements_are_different_classes() -> None:
    plain, selective = pod("a"), pod("b", alternatives=(Requirements.from_labels({"disk": "ssd"}),))
    assert len(PodClasses([plain, selective]).all) == 2


def test_every_pod_counts_once_against_the_pod_limit_whatever_it_requests() -> None:
    classes = PodClasses([pod("a", requests={"pods": 7})])
    assert classes.resources == ["pods"]
    assert [pod_reqs.amounts for pod_reqs in classes.pod_requirements] == [((0, 1),)]
