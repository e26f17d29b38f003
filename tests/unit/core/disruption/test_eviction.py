"""Which pods are to be scheduled, and which of a node being deleted may be evicted."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.counted_work import function_calls
from tests.unit.translate.objects import Value, manifests, node, owned, pod, thing

from wainwright.core.disruption.eviction import (
    EvictionAllowance,
    budget_shortfall,
    desired_healthy,
    evict_from_deleting_nodes,
)
from wainwright.model.disruption import BlockingBudget, PodDisruptionBudget
from wainwright.model.pod import (
    ALL_PODS,
    NO_PODS,
    Pod,
    PodSelector,
    SelectorRequirement,
    pod_selector,
)
from wainwright.model.snapshot import Snapshot
from wainwright.translate.cluster_state import translate_snapshot

GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
ON_LEAVING = {"nodeName": "leaving"}
WEB = {"labels": {"app": "web"}}


def budget(name: str = "pdb", *, namespace: str = "shop", **spec: Any) -> Value:
    spec.setdefault("selector", {"matchLabels": {"app": "web"}})
    return thing(
        "policy/v1", "PodDisruptionBudget", name, metadata={"namespace": namespace}, spec=spec
    )


class Found(NamedTuple):
    to_schedule: tuple[Pod, ...]
    stuck: tuple[Pod, ...]
    staying: dict[str, tuple[Pod, ...]]


def sort(*objects: Value, **fields: Any) -> Found:
    """One pod with these budgets, while the node `leaving` is being deleted."""
    nodes = (node("n"), node("leaving", metadata=GONE))
    translated = translate_snapshot(manifests(*nodes, *objects, pod(**fields)))
    evictions = evict_from_deleting_nodes(translated.snapshot)
    staying = {each.name: each.pods for each in evictions.snapshot.nodes if each.pods}
    return Found(evictions.snapshot.pods, evictions.blocked, staying)


def is_placed(*budgets: Value, **fields: Any) -> bool:
    return bool(sort(*budgets, **fields).to_schedule)


def test_a_pod_without_a_node_is_scheduled() -> None:
    assert is_placed()
    assert is_placed(status={"phase": "Pending"})


@pytest.mark.parametrize(
    "fields",
    [
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {"metadata": GONE},
        {"spec": {"nodeName": "n"}},
        {"metadata": owned("DaemonSet")},
        {"metadata": owned("Node")},
    ],
)
def test_finished_terminating_bound_and_daemon_pods_are_not_scheduled(
    fields: dict[str, Any],
) -> None:
    assert not is_placed(**fields)


def test_a_gated_pod_waits() -> None:
    assert not is_placed(spec={"schedulingGates": [{"name": "later"}]})


def test_a_bound_pod_stays_on_its_node_also_while_it_terminates() -> None:
    found = sort(spec={"nodeName": "n"}, metadata=GONE)
    assert [each.name for each in found.staying["n"]] == ["a"]


def test_a_finished_pod_takes_no_resources() -> None:
    assert sort(spec={"nodeName": "n"}, status={"phase": "Succeeded"}).staying == {}


def test_pods_of_a_node_being_deleted_are_rescheduled_and_no_longer_on_it() -> None:
    found = sort(spec=ON_LEAVING, metadata=owned("ReplicaSet"), status={"phase": "Running"})
    assert (len(found.to_schedule), found.staying) == (1, {})


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": owned("DaemonSet")},
        {"metadata": owned("Node")},
        {"metadata": {**owned("ReplicaSet"), **GONE}},
        {"metadata": GONE},
        {"status": {"phase": "Failed"}},
    ],
)
def test_daemon_and_static_pods_of_a_node_being_deleted_end_with_it(fields: dict[str, Any]) -> None:
    assert not is_placed(spec=ON_LEAVING, **fields)


def test_a_terminating_stateful_pod_is_recreated() -> None:
    metadata = {**owned("StatefulSet", "db"), **GONE}
    assert is_placed(spec=ON_LEAVING, metadata=metadata)


def test_a_stateful_pod_whose_set_is_in_the_input_has_been_replaced_already() -> None:
    metadata = {**owned("StatefulSet", "db"), **GONE}
    template = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    stateful = thing(
        "apps/v1",
        "StatefulSet",
        "db",
        metadata={"namespace": "shop"},
        spec={"replicas": 0, "selector": {}, "template": template},
    )
    assert not is_placed(stateful, spec=ON_LEAVING, metadata=metadata)


@pytest.mark.parametrize(
    "spec",
    [
        {"maxUnavailable": 0},
        {"maxUnavailable": "0%"},
        {"minAvailable": "100%"},
    ],
)
def test_a_budget_that_never_allows_eviction_keeps_a_pod_on_its_node(spec: Value) -> None:
    found = sort(budget(**spec), spec=ON_LEAVING, metadata=WEB)
    assert (found.to_schedule, len(found.stuck), len(found.staying["leaving"])) == ((), 1, 1)


def test_two_budgets_for_one_pod_block_it_whatever_they_allow() -> None:
    two = (budget("a", maxUnavailable=1), budget("b", maxUnavailable=1))
    assert not is_placed(*two, spec=ON_LEAVING, metadata=WEB)


@pytest.mark.parametrize(
    "other",
    [
        budget(maxUnavailable=1),
        budget(minAvailable=3),
        budget(maxUnavailable=0, namespace="other"),
        budget(maxUnavailable=0, selector={"matchLabels": {"app": "db"}}),
        budget(maxUnavailable=0, selector=None),
    ],
)
def test_other_budgets_do_not(other: Value) -> None:
    assert is_placed(other, spec=ON_LEAVING, metadata=WEB)


def test_an_empty_selector_covers_the_whole_namespace() -> None:
    assert not is_placed(budget(maxUnavailable=0, selector={}), spec=ON_LEAVING)


def test_a_terminating_pod_ignores_budgets() -> None:
    metadata = {**owned("StatefulSet", "db"), **GONE, **WEB}
    two = (budget("a", maxUnavailable=0), budget("b", maxUnavailable=0))
    assert is_placed(*two, spec=ON_LEAVING, metadata=metadata)


@pytest.mark.parametrize(
    ("policy", "ready", "placed"),
    [
        ("AlwaysAllow", "False", True),
        ("AlwaysAllow", "True", False),
        ("IfHealthyBudget", "False", False),
        (None, "False", False),
    ],
)
def test_a_budget_may_let_unready_pods_go(policy: str | None, ready: str, placed: bool) -> None:
    blocking = budget(maxUnavailable=0, unhealthyPodEvictionPolicy=policy)
    scheduled = {"type": "PodScheduled", "status": "False"}
    status = {"conditions": [scheduled, {"type": "Ready", "status": ready}]}
    assert is_placed(blocking, spec=ON_LEAVING, metadata=WEB, status=status) is placed


@pytest.mark.parametrize(("value", "placed"), [("true", False), ("false", True), ("5m", True)])
def test_the_do_not_disrupt_annotation_keeps_a_pod_on_its_node(value: str, placed: bool) -> None:
    metadata = {"annotations": {"karpenter.sh/do-not-disrupt": value}}
    found = sort(spec=ON_LEAVING, metadata=metadata)
    assert (len(found.to_schedule), len(found.stuck)) == ((1, 0) if placed else (0, 1))
    assert len(sort(metadata=metadata).to_schedule) == 1


def test_a_pod_that_tolerates_the_disruption_taint_is_never_evicted_and_ignores_budgets() -> None:
    tolerating = {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]}
    other = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    blocking = budget(maxUnavailable=0)
    assert is_placed(blocking, spec={**ON_LEAVING, **tolerating}, metadata=WEB)
    assert not is_placed(blocking, spec={**ON_LEAVING, **other}, metadata=WEB)


def test_a_recreated_pod_is_no_longer_terminating() -> None:
    metadata = {**owned("StatefulSet", "db"), **GONE}
    [recreated] = sort(spec=ON_LEAVING, metadata=metadata).to_schedule
    assert not recreated.terminating


def test_a_second_time_changes_nothing() -> None:
    leaving = node("leaving", metadata=GONE)
    translated = translate_snapshot(manifests(leaving, pod(spec=ON_LEAVING)))
    once = evict_from_deleting_nodes(translated.snapshot).snapshot
    assert evict_from_deleting_nodes(once).snapshot == once
    assert [each.name for each in once.pods] == ["a"]


def stated_budget(**fields: Any) -> PodDisruptionBudget:
    return PodDisruptionBudget(namespace="shop", name="pdb", selector=ALL_PODS, **fields)


VALUES = st.one_of(st.integers(0, 12), st.integers(0, 100).map("{}%".format))


@given(data=st.data(), is_maximum=st.booleans(), value=VALUES, expected=st.integers(1, 12))
def test_each_change_that_a_blocking_budget_names_allows_one_eviction(
    data: st.DataObject, is_maximum: bool, value: int | str, expected: int
) -> None:
    field = "max_unavailable" if is_maximum else "min_available"
    healthy = data.draw(st.integers(1, expected))
    stated = stated_budget(healthy=healthy, expected=expected, **{field: value})
    assume(healthy - desired_healthy(stated, expected) < 1)
    found = budget_shortfall(stated)
    assert (found.value, found.healthy, found.expected) == (value, healthy, expected)
    assert found.allowing_value is not None
    changed = msgspec.structs.replace(stated, **{field: found.allowing_value})
    assert healthy - desired_healthy(changed, expected) == 1
    if found.healthy_needed is not None:
        assert healthy < found.healthy_needed <= expected
        assert found.healthy_needed - desired_healthy(stated, expected) == 1
    if found.replicas_needed is not None:
        count = found.replicas_needed
        assert count - desired_healthy(stated, count) >= 1
        assert count - 1 - desired_healthy(stated, count - 1) < 1


@pytest.mark.parametrize("text", [f"{'9' * 5000}%", "9" * 5000])
def test_an_amount_of_thousands_of_digits_is_more_than_all_pods(text: str) -> None:
    assert desired_healthy(stated_budget(min_available=text), 3) > 3
    assert desired_healthy(stated_budget(max_unavailable=text), 3) == 0


def test_of_a_budget_without_healthy_pods_no_value_is_named() -> None:
    assert (
        budget_shortfall(stated_budget(min_available=1, healthy=0, expected=2)) == BlockingBudget()
    )
    assert budget_shortfall(stated_budget(healthy=1, expected=1)) == BlockingBudget()


def budgets_of(count: int, labels: Callable[[int], dict[str, str]]) -> EvictionAllowance:
    budgets = tuple(
        PodDisruptionBudget(
            namespace="shop", name=f"pdb-{each}", selector=pod_selector(labels(each))
        )
        for each in range(count)
    )
    return EvictionAllowance(Snapshot(pod_disruption_budgets=budgets))


def test_the_work_for_a_pod_of_many_budgets_grows_as_they_do() -> None:
    """2,000 budgets of one pod took 15 s: each looked at all others again."""
    selected = Pod(namespace="shop", name="web", requests={}, labels={"app": "web"})

    def calls(count: int) -> int:
        allowance = budgets_of(count, lambda _: {"app": "web"})
        return function_calls(lambda: allowance.blocking(selected))

    assert calls(200) < 3 * calls(100)
    budgets = budgets_of(3, lambda _: {"app": "web"}).blocking(selected)
    assert [(each.name, why.is_shared) for each, why in budgets] == [
        ("pdb-0", True),
        ("pdb-1", True),
        ("pdb-2", True),
    ]


def test_a_pod_is_not_compared_with_budgets_of_other_labels() -> None:
    """1,000 workloads with a budget each were a million comparisons in every pass."""
    selected = Pod(namespace="shop", name="web", requests={}, labels={"app": "app-7", "a": "b"})
    few, many = (budgets_of(n, lambda each: {"app": f"app-{each}"}) for n in (10, 1000))
    assert function_calls(lambda: many.blocking(selected)) == function_calls(
        lambda: few.blocking(selected)
    )
    [(found, _)] = many.blocking(selected)
    assert found.name == "pdb-7"


def test_budgets_with_and_without_a_label_are_found_in_their_order() -> None:
    by_label, of_all = pod_selector({"app": "web"}), PodSelector()
    with_key = PodSelector(match_expressions=(SelectorRequirement(key="app", operator="Exists"),))
    budgets = tuple(
        PodDisruptionBudget(namespace="shop", name=f"pdb-{number}", selector=selector)
        for number, selector in enumerate((of_all, by_label, NO_PODS, with_key, by_label))
    )
    allowance = EvictionAllowance(Snapshot(pod_disruption_budgets=budgets))
    found = allowance.blocking(Pod(namespace="shop", name="a", requests={}, labels={"app": "web"}))
    assert [each.name for each, _ in found] == ["pdb-0", "pdb-1", "pdb-3", "pdb-4"]
    others = allowance.blocking(Pod(namespace="shop", name="b", requests={}, labels={"app": "x"}))
    assert [each.name for each, _ in others] == ["pdb-0", "pdb-3"]
