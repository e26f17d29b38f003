"""Fixes: they serve all pods for which they are printed, or say how many of them."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.support.model_builders import GIB, instance_type, label_requirement, offering

from wainwright.core.explain.suggested_changes import apply_to_pod, apply_to_pool
from wainwright.core.plan import plan
from wainwright.messages.suggestions import describe_suggestion
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.plan import PackingPolicy, Plan, PlanOptions, UnschedulableGroup
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.model.suggestions import VerifiedSuggestion
from wainwright.model.taints import Taint

SOLD = (offering(), offering(zone="zone-b", price=1.1))
CATALOGS = {"web": InstanceTypeIndex([instance_type(offerings=SOLD)])}
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


def made(
    pool: Pool, asking_for: Sequence[Pod], packing: PackingPolicy = PackingPolicy.FIRST_FIT
) -> Plan:
    snapshot = Snapshot(pods=tuple(asking_for), pools=(pool,))
    return plan(snapshot, CATALOGS, PlanOptions(packing=packing))


def blocks(found: Plan) -> dict[str, list[UnschedulableGroup]]:
    """What is suggested, and to whom."""
    told: dict[str, list[UnschedulableGroup]] = {}
    for group in found.unschedulable:
        advice = group.suggestion
        told.setdefault("" if advice is None else describe_suggestion(advice), []).append(group)
    return told


def only(found: Plan) -> tuple[str, VerifiedSuggestion, set[str]]:
    [(told, groups)] = blocks(found).items()
    advice = groups[0].suggestion
    assert advice is not None
    return told, advice, {key for group in groups for key in group.pods}


def followed(advice: VerifiedSuggestion, pool: Pool, given: Sequence[Pod], keys: set[str]) -> Plan:
    """The plan of somebody who does what was suggested."""
    changed = list(given)
    for change in advice.changes:
        pool = apply_to_pool(change, pool)
        changed = [apply_to_pod(change, each) if each.key in keys else each for each in changed]
    return made(pool, changed)


def test_a_limit_is_raised_for_one_more_node() -> None:
    told, _, _ = only(made(FULL, pods(1500, 1500)))
    assert told == "raise the limit of pool web to 4 instead of 2 cpu"


def test_a_limit_is_raised_for_all_that_fail_alike() -> None:
    given = pods(1500, 1500, 1500, 1500)
    told, advice, keys = only(made(FULL, given))
    assert told == "raise the limit of pool web to 8 instead of 2 cpu"
    assert followed(advice, FULL, given, keys).unschedulable == ()


def test_also_for_those_of_other_sizes() -> None:
    given = pods(1900, 1800, 1700)
    told, advice, keys = only(made(FULL, given))
    assert told == "raise the limit of pool web to 6 instead of 2 cpu"
    assert len(keys) == 2
    assert followed(advice, FULL, given, keys).unschedulable == ()


def test_what_serves_only_some_says_how_many() -> None:
    reserved = offering(capacity_type="reserved", available=2, reservation_id="cr-1", price=0.0)
    catalogs = {"web": InstanceTypeIndex([instance_type(offerings=(reserved,))])}
    given = pods(1500, 1500, 1500, wanted=label_requirement(ZONE, "In", "zone-b"))
    found = plan(Snapshot(pods=given, pools=(WEB,)), catalogs)
    told, advice, _ = only(found)
    assert (
        told == "do not select topology.kubernetes.io/zone (serves 2 of the 3 pods that fail alike)"
    )
    assert (advice.serves, advice.of) == (2, 3)


def test_several_limits_are_raised_at_once() -> None:
    full = replace(FULL, limits={"cpu": 2000, "memory": 8 * GIB, "nodes": 5})
    given = pods(1500, 1500)
    told, advice, keys = only(made(full, given))
    assert told == (
        "raise the limit of pool web to 4 instead of 2 cpu and 16Gi instead of 8Gi memory"
    )
    assert followed(advice, full, given, keys).unschedulable == ()


def test_several_taints_are_tolerated_at_once() -> None:
    tainted = replace(WEB, taints=(Taint(key="gpu", value="yes"), Taint(key="team", value="a")))
    given = pods(1500)
    told, advice, keys = only(made(tainted, given))
    assert told == "let the pod tolerate gpu=yes:NoSchedule and team=a:NoSchedule"
    assert followed(advice, tainted, given, keys).unschedulable == ()


def test_several_requests_are_lowered_at_once() -> None:
    given = pods(3000, memory=20 * GIB)
    told, advice, keys = only(made(WEB, given))
    assert told == "ask for 8Gi instead of 20Gi memory and 2 instead of 3 cpu"
    assert followed(advice, WEB, given, keys).unschedulable == ()


def test_changes_of_pod_and_pool_go_together() -> None:
    tainted = replace(FULL, taints=(Taint(key="gpu"),), in_use={"cpu": 2000})
    given = pods(1500)
    told, advice, keys = only(made(tainted, given))
    assert told == (
        "let the pod tolerate gpu:NoSchedule, and raise the limit of pool web to 4 instead of 2 cpu"
    )
    assert followed(advice, tainted, given, keys).unschedulable == ()


def test_pods_of_several_sizes_that_fail_alike_are_told_what_all_can_do() -> None:
    given = pods(3000, 3100, 3200, wanted=label_requirement("team", "In", "a"))
    told, advice, keys = only(made(WEB, given))
    assert told == "do not select team, and ask for no more than 2 cpu"
    assert (advice.serves, advice.of) == (3, 3)
    assert followed(advice, WEB, given, keys).unschedulable == ()


def test_what_the_runtime_adds_is_not_what_the_user_writes() -> None:
    [pod] = pods(2300)
    given = [replace(pod, overhead={"cpu": 500})]
    told, advice, keys = only(made(WEB, given))
    assert told == "ask for 1500m instead of 1800m cpu"
    assert followed(advice, WEB, given, keys).unschedulable == ()


def test_a_fix_by_which_others_lose_their_place_is_none() -> None:
    """Without its selector the large pod would go first, to the node that the small one needs."""
    [large] = pods(1900, wanted=label_requirement("team", "In", "a"))
    [small] = pods(1500, wanted=label_requirement("disk", "In", "ssd"))
    given = (large, replace(small, name="small"))
    room = {"cpu": 2000, "memory": 8 * GIB, "pods": 10}
    node = Node(name="n", labels={"disk": "ssd"}, allocatable=room, initialized=True)
    found = plan(Snapshot(pods=given, pools=(WEB,), nodes=(node,)), CATALOGS)
    assert [group.pods for group in found.unschedulable] == [("d/0",)]
    assert found.unschedulable[0].suggestion is None


@pytest.mark.parametrize("packing", PackingPolicy)
def test_the_limit_is_raised_by_what_everybody_needs_if_others_would_take_it(
    packing: PackingPolicy,
) -> None:
    """Pods that fail in another way take what was meant for these, as they are larger."""
    catalogs = {"web": CATALOGS["web"], "arm": CATALOGS["web"]}
    small = pods(1500, 1500)
    [large] = pods(1900, wanted=label_requirement(ZONE, "In", "zone-a"))
    named = replace(large, name="large")
    other = Pool(
        name="arm", taints=(Taint(key="arm"),), requirements=label_requirement(ZONE, "In", "zone-b")
    )
    snapshot = Snapshot(pods=(*small, named), pools=(FULL, other))
    found = plan(snapshot, catalogs, PlanOptions(packing=packing))
    for told, groups in blocks(found).items():
        assert "raise the limit" in told or "tolerate" in told
        advice = groups[0].suggestion
        assert advice is not None
        assert advice.serves == advice.of == sum(len(group.pods) for group in groups)


def test_a_misspelt_value_is_put_right() -> None:
    given = pods(1500, wanted=label_requirement(CAPACITY_TYPE, "In", "ondemand"))
    told, advice, keys = only(made(WEB, given))
    assert told == "select karpenter.sh/capacity-type on-demand in place of ondemand"
    assert followed(advice, WEB, given, keys).unschedulable == ()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("zone-c", "in pool web do not require topology.kubernetes.io/zone"),
        ("zonea", "in pool web require topology.kubernetes.io/zone zone-a in place of zonea"),
    ],
)
def test_a_pool_that_asks_for_the_impossible_is_put_right(value: str, told: str) -> None:
    wrong = replace(WEB, requirements=label_requirement(ZONE, "In", value))
    given = pods(1500)
    said, advice, keys = only(made(wrong, given))
    assert said == told
    assert followed(advice, wrong, given, keys).unschedulable == ()


def test_with_very_many_failures_the_rest_is_tried_for_the_pod_alone() -> None:
    given = pods(*range(3000, 3200))
    told = blocks(made(WEB, given))
    alone = [said for said in told if said.endswith("(tried for this pod alone)")]
    assert len(told) == 200
    assert 0 < len(alone) < 200
