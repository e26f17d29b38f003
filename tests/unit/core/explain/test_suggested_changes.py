"""Fixes: they serve all pods for which they are printed, or say how many of them."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.support.model_builders import (
    GIB,
    explained_plan,
    instance_type,
    label_requirement,
    offering,
)

from wainwright.core.explain.suggested_changes import admit_value, apply_to_pod, apply_to_pool
from wainwright.messages.suggestions import describe_suggestion
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.plan import ExplainedPlan, PackingPolicy, PlanOptions, UnschedulableGroup
from wainwright.model.pod import Pod
from wainwright.model.requirements import (
    ANY_VALUE,
    Requirements,
    ValueSet,
    between,
    none_of,
    one_of,
)
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.model.suggestions import AllowPodValue, EnlargeReservation, VerifiedSuggestion
from wainwright.model.taints import Taint

OFFERINGS = (offering(), offering(zone="zone-b", price=1.1))
CATALOGS = {"web": InstanceTypeIndex([instance_type(offerings=OFFERINGS)])}
WEB = Pool(name="web")
FULL = Pool(name="web", limits={"cpu": 2000})


def pods(*cpu: int, memory: int = GIB, wanted: Requirements | None = None) -> tuple[Pod, ...]:
    return tuple(
        Pod(
            namespace="d",
            name=str(number),
            requests={"cpu": each, "memory": memory},
            alternatives=(wanted or Requirements(),),
        )
        for number, each in enumerate(cpu)
    )


def planned(
    pool: Pool, waiting: Sequence[Pod], packing: PackingPolicy = PackingPolicy.FIRST_FIT
) -> ExplainedPlan:
    snapshot = Snapshot(pods=tuple(waiting), pools=(pool,))
    return explained_plan(snapshot, CATALOGS, PlanOptions(packing=packing))


def groups_by_suggestion(found: ExplainedPlan) -> dict[str, list[UnschedulableGroup]]:
    """The unschedulable groups by the text of their suggestion."""
    text: dict[str, list[UnschedulableGroup]] = {}
    for group in found.unschedulable:
        advice = group.suggestion
        text.setdefault(_text(advice), []).append(group)
    return text


def _text(advice: VerifiedSuggestion | None) -> str:
    return "" if advice is None else describe_suggestion(advice, with_total=False)


def only(found: ExplainedPlan) -> tuple[str, VerifiedSuggestion, set[str]]:
    [(text, groups)] = groups_by_suggestion(found).items()
    advice = groups[0].suggestion
    assert advice is not None
    return text, advice, {key for group in groups for key in group.pods}


def plan_with_changes(
    advice: VerifiedSuggestion, pool: Pool, waiting: Sequence[Pod], keys: set[str]
) -> ExplainedPlan:
    """The plan after the suggested changes."""
    changed = list(waiting)
    for change in advice.changes:
        pool = apply_to_pool(change, pool)
        changed = [apply_to_pod(change, each) if each.key in keys else each for each in changed]
    return planned(pool, changed)


def test_a_limit_is_raised_for_one_more_node() -> None:
    text, _, _ = only(planned(FULL, pods(1500, 1500)))
    assert (
        text == "raise limits.cpu from 2 to 4 in NodePool web: +$1.000/h for 1 m5.large (on-demand)"
    )


def test_a_limit_is_raised_for_all_pods_with_the_same_verdict() -> None:
    waiting = pods(1500, 1500, 1500, 1500)
    text, advice, keys = only(planned(FULL, waiting))
    assert (
        text == "raise limits.cpu from 2 to 8 in NodePool web: +$3.000/h for 3 m5.large (on-demand)"
    )
    assert plan_with_changes(advice, FULL, waiting, keys).unplaced == ()


def test_a_limit_is_raised_for_pods_of_different_sizes() -> None:
    waiting = pods(1900, 1800, 1700)
    text, advice, keys = only(planned(FULL, waiting))
    assert (
        text == "raise limits.cpu from 2 to 6 in NodePool web: +$2.000/h for 2 m5.large (on-demand)"
    )
    assert len(keys) == 2
    assert plan_with_changes(advice, FULL, waiting, keys).unplaced == ()


def test_a_suggestion_that_serves_only_some_pods_says_how_many() -> None:
    reserved = offering(capacity_type="reserved", available=2, reservation_id="cr-1", price=0.0)
    catalogs = {"web": InstanceTypeIndex([instance_type(offerings=(reserved,))])}
    waiting = pods(1500, 1500, 1500, wanted=label_requirement(ZONE, "In", "zone-b"))
    found = explained_plan(Snapshot(pods=waiting, pools=(WEB,)), catalogs)
    text, advice, _ = only(found)
    assert text == (
        "remove the pod's requirement on topology.kubernetes.io/zone: +$0/h for "
        "2 m5.large (reserved); schedules 2 of the 3 pods"
    )
    assert (advice.serves, advice.of) == (2, 3)


def test_several_limits_are_raised_at_once() -> None:
    full = replace(FULL, limits={"cpu": 2000, "memory": 8 * GIB, "nodes": 5})
    waiting = pods(1500, 1500)
    text, advice, keys = only(planned(full, waiting))
    assert text == (
        "raise limits.cpu from 2 to 4 and limits.memory from 8Gi to 16Gi in NodePool web: "
        "+$1.000/h for 1 m5.large (on-demand)"
    )
    assert plan_with_changes(advice, full, waiting, keys).unplaced == ()


def test_several_tolerations_are_suggested_at_once() -> None:
    tainted = replace(WEB, taints=(Taint(key="gpu", value="yes"), Taint(key="team", value="a")))
    waiting = pods(1500)
    text, advice, keys = only(planned(tainted, waiting))
    assert text == (
        "add a toleration to the pod for gpu=yes:NoSchedule and team=a:NoSchedule: +$1.000/h "
        "for 1 m5.large (on-demand)"
    )
    assert plan_with_changes(advice, tainted, waiting, keys).unplaced == ()


def test_several_requests_are_lowered_at_once() -> None:
    waiting = pods(3000, memory=20 * GIB)
    text, advice, keys = only(planned(WEB, waiting))
    assert (
        text
        == "request 8Gi memory (now 20Gi) and 2 cpu (now 3): +$1.000/h for 1 m5.large (on-demand)"
    )
    assert plan_with_changes(advice, WEB, waiting, keys).unplaced == ()


def test_changes_of_pod_and_pool_are_suggested_together() -> None:
    tainted = replace(FULL, taints=(Taint(key="gpu"),), in_use={"cpu": 2000})
    waiting = pods(1500)
    text, advice, keys = only(planned(tainted, waiting))
    assert text == (
        "add a toleration to the pod for gpu:NoSchedule, and raise limits.cpu from 2 to 4 "
        "in NodePool web: "
        "+$1.000/h for 1 m5.large (on-demand)"
    )
    assert plan_with_changes(advice, tainted, waiting, keys).unplaced == ()


def test_pods_of_different_sizes_with_the_same_verdict_get_a_common_maximum() -> None:
    waiting = pods(3000, 3100, 3200, wanted=label_requirement("team", "In", "a"))
    text, advice, keys = only(planned(WEB, waiting))
    assert text == (
        "remove the pod's requirement on team, and request no more than 2 cpu: "
        "+$3.000/h for 3 m5.large (on-demand)"
    )
    assert (advice.serves, advice.of) == (3, 3)
    assert plan_with_changes(advice, WEB, waiting, keys).unplaced == ()


def test_a_lower_request_is_suggested_without_the_runtime_overhead() -> None:
    [pod] = pods(2300)
    waiting = [replace(pod, overhead={"cpu": 500})]
    text, advice, keys = only(planned(WEB, waiting))
    assert text == "request 1500m cpu (now 1800m): +$1.000/h for 1 m5.large (on-demand)"
    assert plan_with_changes(advice, WEB, waiting, keys).unplaced == ()


def test_changes_that_make_another_pod_unschedulable_are_not_suggested() -> None:
    """Without its selector the large pod would go first, to the node that the small one needs."""
    [large] = pods(1900, wanted=label_requirement("team", "In", "a"))
    [small] = pods(1500, wanted=label_requirement("disk", "In", "ssd"))
    waiting = (large, replace(small, name="small"))
    room = {"cpu": 2000, "memory": 8 * GIB, "pods": 10}
    node = Node(name="n", labels={"disk": "ssd"}, allocatable=room, initialized=True)
    found = explained_plan(Snapshot(pods=waiting, pools=(WEB,), nodes=(node,)), CATALOGS)
    assert [group.pods for group in found.unschedulable] == [("d/0",)]
    assert found.unschedulable[0].suggestion is None


@pytest.mark.parametrize("packing", PackingPolicy)
def test_the_limit_is_raised_for_all_pods_if_others_would_use_it_up(
    packing: PackingPolicy,
) -> None:
    """A larger pod with another verdict would use the raised limit first."""
    catalogs = {"web": CATALOGS["web"], "arm": CATALOGS["web"]}
    small = pods(1500, 1500)
    [large] = pods(1900, wanted=label_requirement(ZONE, "In", "zone-a"))
    named = replace(large, name="large")
    other = Pool(
        name="arm", taints=(Taint(key="arm"),), requirements=label_requirement(ZONE, "In", "zone-b")
    )
    snapshot = Snapshot(pods=(*small, named), pools=(FULL, other))
    found = explained_plan(snapshot, catalogs, PlanOptions(packing=packing))
    for text, groups in groups_by_suggestion(found).items():
        assert "raise limits" in text or "tolerate" in text
        advice = groups[0].suggestion
        assert advice is not None
        assert advice.serves == advice.of == sum(len(group.pods) for group in groups)


def test_a_misspelt_value_of_a_pod_is_corrected() -> None:
    waiting = pods(1500, wanted=label_requirement(CAPACITY_TYPE, "In", "ondemand"))
    text, advice, keys = only(planned(WEB, waiting))
    assert text == (
        "change the pod's karpenter.sh/capacity-type from ondemand to on-demand: "
        "+$1.000/h for 1 m5.large (on-demand)"
    )
    assert plan_with_changes(advice, WEB, waiting, keys).unplaced == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            "zone-c",
            (
                "allow topology.kubernetes.io/zone=zone-a in NodePool web: +$1.000/h for "
                "1 m5.large (on-demand)"
            ),
        ),
        (
            "zonea",
            (
                "change topology.kubernetes.io/zone from zonea to zone-a in NodePool "
                "web: +$1.000/h for 1 m5.large (on-demand)"
            ),
        ),
    ],
)
def test_a_pool_requirement_that_nothing_matches_is_corrected_or_dropped(
    value: str, text: str
) -> None:
    wrong = replace(WEB, requirements=label_requirement(ZONE, "In", value))
    waiting = pods(1500)
    suggested, advice, keys = only(planned(wrong, waiting))
    assert suggested == text
    assert plan_with_changes(advice, wrong, waiting, keys).unplaced == ()


def test_with_very_many_verdicts_the_last_suggestions_are_tried_for_the_pod_alone() -> None:
    waiting = pods(*range(3000, 3200))
    text = groups_by_suggestion(planned(WEB, waiting))
    alone = [
        each
        for each in text
        if each.endswith("(checked for this pod alone; its price was not computed)")
    ]
    assert len(text) == 200
    assert 0 < len(alone) < 200


@pytest.mark.parametrize(
    ("allowed", "value", "expected"),
    [
        (one_of(["a"]), "b", one_of(["a", "b"])),
        (one_of(["a"]), "a", one_of(["a"])),
        (none_of(["a", "b"]), "a", none_of(["b"])),
        (none_of(["a"]), "a", ANY_VALUE),
        (between(4, None), "2", between(2, None)),
        (between(None, 4), "8", between(None, 8)),
        (between(2, 4), "8", between(2, 8)),
    ],
    ids=str,
)
def test_values_that_a_pool_allows_grow_by_one_value(
    allowed: ValueSet, value: str, expected: ValueSet
) -> None:
    assert admit_value(allowed, value) == expected


def test_a_pod_that_selects_a_full_reservation_may_use_on_demand_as_well() -> None:
    """One of three pods keeps the reserved instance; the plan with the change is what it says."""
    reserved = offering(capacity_type="reserved", reservation_id="cr-1", price=0.0, available=1)
    dearer = offering(zone="zone-b", price=3.0)
    index = InstanceTypeIndex([instance_type(offerings=(dearer, offering(), reserved))])
    selected = pods(1500, 1500, 1500, wanted=label_requirement(CAPACITY_TYPE, "In", "reserved"))
    snapshot = Snapshot(pods=selected, pools=(WEB,))
    [group] = explained_plan(snapshot, {"web": index}, PlanOptions()).unschedulable
    assert group.suggestion is not None
    [change] = group.suggestion.changes
    assert change == AllowPodValue(key=CAPACITY_TYPE, now="reserved", value="on-demand", pool="web")
    assert describe_suggestion(group.suggestion).startswith(
        "allow the pod on-demand as well (node affinity karpenter.sh/capacity-type In [reserved, "
        "on-demand] instead of reserved): +$2.000/h for 2 m5.large (on-demand)"
    )
    assert group.alternative is not None
    [enlarged] = group.alternative.changes
    assert isinstance(enlarged, EnlargeReservation)
    assert enlarged.billed == 1.0, "the cheapest on demand"
    changed = replace(snapshot, pods=tuple(apply_to_pod(change, pod) for pod in selected))
    applied = explained_plan(changed, {"web": index}, PlanOptions())
    assert (applied.unschedulable, applied.price) == ((), 2.0)
    assert [claim.launch.reservation_id for claim in applied.claims].count("cr-1") == 1


def test_a_pod_that_selects_other_capacity_is_left_as_it_is() -> None:
    change = AllowPodValue(key=CAPACITY_TYPE, now="reserved", value="on-demand", pool="web")
    for wanted in (Requirements(), label_requirement(CAPACITY_TYPE, "In", "spot", "reserved")):
        [pod] = pods(1000, wanted=wanted)
        assert apply_to_pod(change, pod) == pod
