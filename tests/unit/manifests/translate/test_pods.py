"""A pod with everything that decides where it can go."""

import pytest
from tests.support.model import asking
from tests.unit.manifests.translate.objects import (
    Value,
    container,
    owned,
    pods,
    thing,
    typed_pod,
)

from wainwright.api.builtin.pod import Pod as WrittenPod
from wainwright.manifests.translate.moments import seconds
from wainwright.model.pod import Pod

SANDBOX = thing(
    "node.k8s.io/v1",
    "RuntimeClass",
    "sandbox",
    handler="h",
    overhead={"podFixed": {"cpu": "250m"}},
    scheduling={"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox"}]},
)


def priority_class(name: str, value: int, *, default: bool = False) -> Value:
    made = thing("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
    return {**made, "globalDefault": default}


def translated(written: WrittenPod, *around: Value) -> Pod:
    return pods(*around).pod(written)


def priority(spec: Value, *around: Value) -> int:
    return translated(typed_pod(spec=spec), *around).priority


def test_a_pod_keeps_its_identity() -> None:
    metadata = {"uid": "7", "labels": {"a": "b"}, "creationTimestamp": "1970-01-01T00:01:00Z"}
    found = translated(typed_pod("web", metadata=metadata))
    assert (found.key, found.uid, found.created, found.labels) == ("shop/web", "7", 60, {"a": "b"})


def test_no_namespace_is_the_default_one() -> None:
    assert translated(typed_pod("web", metadata={"namespace": ""})).key == "default/web"


def test_a_pod_of_a_daemonset_is_known_by_its_owner() -> None:
    assert translated(typed_pod(metadata=owned("DaemonSet"))).daemonset
    assert not translated(typed_pod(metadata=owned("ReplicaSet"))).daemonset


def test_a_runtime_class_adds_overhead_selector_and_tolerations() -> None:
    spec = {"containers": [container(cpu="1")], "runtimeClassName": "sandbox"}
    found = translated(typed_pod(spec=spec), SANDBOX)
    assert found.requests == {"cpu": 1250}
    assert found.alternatives == (asking("sandbox", "In", "yes"),)
    assert [toleration.key for toleration in found.tolerations] == ["sandbox"]


def test_a_pod_cannot_contradict_its_runtime_class() -> None:
    spec = {"runtimeClassName": "sandbox", "nodeSelector": {"sandbox": "no"}}
    found = translated(typed_pod(spec=spec), SANDBOX)
    assert (found.alternatives, found.contradictory) == ((), ("sandbox",))


def test_priority_is_the_pods_own_before_that_of_its_class() -> None:
    high = priority_class("high", 1000)
    assert priority({"priority": 5, "priorityClassName": "high"}, high) == 5
    assert priority({"priorityClassName": "high"}, high) == 1000
    assert priority({"priorityClassName": "missing"}, high) == 0


def test_a_pod_without_priority_has_the_default_one() -> None:
    defaults = (priority_class("b", 20, default=True), priority_class("a", 10, default=True))
    assert priority({}, *defaults) == 10
    assert priority({}) == 0


def test_classes_that_every_cluster_has_need_not_be_in_the_input() -> None:
    assert priority({"priorityClassName": "system-node-critical"}) == 2_000_001_000


def test_pods_of_equal_spec_share_all_that_follows_from_it() -> None:
    translating = pods()
    spec = {"containers": [container(cpu="1")], "nodeSelector": {"a": "b"}}
    one = translating.pod(typed_pod("a", spec=spec))
    other = translating.pod(typed_pod("b", spec=spec))
    assert one.requests is other.requests
    assert one.alternatives is other.alternatives
    assert one.tolerations is other.tolerations


def test_the_name_of_a_volume_or_node_does_not_keep_pods_apart() -> None:
    translating = pods()
    there = {"nodeName": "n-1", "volumes": [{"name": "token-x", "projected": {}}]}
    one, other = translating.pod(typed_pod(spec=there)), translating.pod(typed_pod("b"))
    assert one.requests is other.requests


def test_only_a_pod_that_stays_is_terminating() -> None:
    gone = typed_pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert pods().pod(gone, stays=True).terminating
    assert not pods().pod(gone).terminating
    assert not pods().pod(typed_pod(), stays=True).terminating


def test_a_pod_that_was_resized_on_its_node_counts_as_it_is_there() -> None:
    larger = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    status = {"containerStatuses": larger}
    spec = {"containers": [container(cpu="1")]}
    bound = typed_pod(spec={**spec, "nodeName": "n"}, status=status)
    assert translated(bound).requests == {"cpu": 2000}
    assert translated(typed_pod(spec=spec, status=status)).requests == {"cpu": 1000}


def test_amounts_beyond_all_bounds_are_still_told_apart() -> None:
    translating = pods()
    asked = [{"name": "c", "resources": {"requests": {"memory": 2**70}}}]
    found = translating.pod(typed_pod(spec={"containers": asked}))
    assert found.requests == {"memory": 2**70}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T01:00:01+01:00", 1.0),
        ("1970-01-01T00:00:00.250000Z", 0.25),
        ("1970-01-01T00:00:01", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_moments_are_read_alike_on_every_machine(
    written: str | None, expected: float | None
) -> None:
    assert seconds(written) == expected
