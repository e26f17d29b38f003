"""Which pods a drain evicts, deletes or waits for: rows T5 to T7, TRM-2, TRM-3, TRM-5, TRM-6."""

from typing import Any

import pytest
from tests.support.controlled_cluster import pending_pod

from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import format_timestamp
from wainwright.controllers.node.drain import DrainStep, drain_step, is_left_alone, seconds_to

NOW = 1_767_225_600.0
DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1"}
STATIC = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "2"}


def _pod(name: str = "web-0", *, grace: int = 30, **more: Any) -> Pod:
    spec = {"terminationGracePeriodSeconds": grace, **more.pop("spec", {})}
    metadata = {"uid": f"uid-{name}", "creationTimestamp": format_timestamp(NOW), **more}
    return pending_pod(name, metadata=metadata, spec=spec)


def _names(pods: tuple[Pod, ...]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def _step(*pods: Pod, at: float = 0.0, deadline: float | None = None) -> DrainStep:
    """`at` and `deadline` in seconds from the beginning of the drain."""
    return drain_step(pods, NOW + at, None if deadline is None else NOW + deadline)


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "karpenter.sh/disrupted", "operator": "Exists"},
        {"key": "karpenter.sh/disrupted", "operator": "Equal", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ],
)
def test_trm_2_pods_that_tolerate_the_taint_end_with_the_node(toleration: dict[str, str]) -> None:
    step = _step(_pod(spec={"tolerations": [toleration]}))
    assert step.is_drained


def test_trm_2_static_and_finished_pods_are_not_evicted() -> None:
    finished = pending_pod("done", status={"phase": "Succeeded"})
    assert _step(_pod(ownerReferences=[STATIC]), finished).is_drained


def test_trm_2_pods_that_tolerate_unschedulable_and_pods_without_an_owner_are_evicted() -> None:
    tolerated = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    step = _step(_pod("a", spec={"tolerations": [tolerated]}), _pod("b"))
    assert _names(step.evict) == ["a", "b"]


def test_trm_3_tiers_go_one_after_the_other() -> None:
    critical = {"priorityClassName": "system-cluster-critical"}
    tiers = [
        _pod("web"),
        _pod("agent", ownerReferences=[DAEMON]),
        _pod("dns", spec=critical),
        _pod("proxy", spec=critical, ownerReferences=[DAEMON]),
    ]
    while tiers:
        assert _names(_step(*reversed(tiers)).evict) == [tiers[0].metadata.name]
        leaving = _pod(tiers[0].metadata.name, deletionTimestamp=format_timestamp(NOW + 30))
        if len(tiers) == 4:
            assert _names(_step(leaving, *tiers[1:]).evict) == []  # it is still there
        tiers.pop(0)


def test_trm_5_a_pod_that_does_not_end_is_not_waited_for() -> None:
    stuck = _pod(deletionTimestamp=format_timestamp(NOW + 30))
    assert not _step(stuck, at=89).is_drained
    assert _step(stuck, at=89).next_due == NOW + 91
    assert _step(stuck, at=91).is_drained
    assert is_left_alone(stuck, NOW + 91)


def test_t5_a_protected_pod_is_not_evicted_and_the_drain_waits_for_it() -> None:
    protected = _pod("a", annotations={"karpenter.sh/do-not-disrupt": "true"})
    for_a_while = _pod("b", annotations={"karpenter.sh/do-not-disrupt": "10m"})
    step = _step(protected, for_a_while)
    assert (_names(step.evict), _names(step.waiting)) == ([], ["a", "b"])
    assert step.next_due == NOW + 600
    assert _names(_step(protected, for_a_while, at=600).evict) == ["b"]


def test_t5_a_protected_pod_is_deleted_at_the_deadline_less_its_grace_period() -> None:
    protected = _pod(annotations={"karpenter.sh/do-not-disrupt": "true"}, grace=60)
    assert _step(protected, at=239, deadline=300).delete == ()
    assert _step(protected, deadline=300).next_due == NOW + 240
    assert _names(_step(protected, at=240, deadline=300).delete) == ["web-0"]


def test_t6_a_pod_whose_grace_period_fills_the_time_is_deleted_at_once() -> None:
    assert _names(_step(_pod(grace=300), at=10, deadline=300).delete) == ["web-0"]


def test_trm_6_t6_a_pod_with_a_shorter_grace_period_is_evicted_until_it_is_time() -> None:
    pod = _pod(grace=60)
    early, late = _step(pod, at=90, deadline=300), _step(pod, at=265, deadline=300)
    assert (_names(early.evict), _names(early.delete)) == (["web-0"], [])
    assert (_names(late.evict), _names(late.delete)) == ([], ["web-0"])


def test_t6_tiers_do_not_hold_back_what_is_overdue() -> None:
    slow = _pod("slow", grace=600, spec={"priorityClassName": "system-node-critical"})
    step = _step(_pod("quick", grace=30), slow, deadline=300)
    assert (_names(step.evict), _names(step.delete)) == (["quick"], ["slow"])


def test_t6_the_end_of_a_terminating_pod_is_brought_forward() -> None:
    leaving = _pod(grace=6000, deletionTimestamp=format_timestamp(NOW + 6000))
    assert _names(_step(leaving, at=90, deadline=300).delete) == ["web-0"]
    assert seconds_to(NOW + 300, NOW + 90) == 210
    in_time = _pod(deletionTimestamp=format_timestamp(NOW + 300))
    assert _step(in_time, at=90, deadline=300).delete == ()


@pytest.mark.parametrize(("left", "seconds"), [(210.9, 210), (1.5, 1), (0.2, 1), (-60.0, 1)])
def test_t7_the_grace_period_is_whole_seconds_and_never_none(left: float, seconds: int) -> None:
    assert seconds_to(NOW + left, NOW) == seconds


def test_t7_a_pod_that_ends_within_a_second_is_not_deleted_again() -> None:
    leaving = _pod(deletionTimestamp=format_timestamp(NOW + 401))
    assert _step(leaving, at=400, deadline=300).delete == ()


def test_t11_volumes_of_a_finished_pod_are_waited_for() -> None:
    assert not is_left_alone(pending_pod("done", status={"phase": "Succeeded"}), NOW)
    assert is_left_alone(_pod(ownerReferences=[STATIC]), NOW)
