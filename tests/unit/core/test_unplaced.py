"""Pods without a place: how far they got, what came nearest, and a fix that works."""

import msgspec
import pytest
from tests.support.model import GIB, asking, instance_type, offering

from wainwright.core.plan import plan
from wainwright.model.index import TypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE
from wainwright.model.options import MinValuesPolicy, Options
from wainwright.model.plan import Unschedulable
from wainwright.model.pod import Feature, Pod
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Snapshot
from wainwright.model.suggestion import (
    LowerMinValues,
    LowerRequest,
    RaiseLimit,
    Suggestion,
    Tolerate,
)
from wainwright.model.taints import Taint
from wainwright.report import words
from wainwright.report.advice import suggestion

SMALL = instance_type(name="m5.large", labels={INSTANCE_TYPE: "m5.large"})
LARGE = instance_type(
    name="m5.xlarge",
    labels={INSTANCE_TYPE: "m5.xlarge"},
    capacity={"cpu": 4000, "memory": 16 * GIB, "pods": 58},
    offerings=(offering(price=2.0),),
)
POOL = Pool(name="web")


def failed(pod: Pod, *pools: Pool, options: Options | None = None) -> Unschedulable:
    index = TypeIndex((SMALL, LARGE))
    snapshot = Snapshot(pods=(pod,), pools=pools)
    made = plan(snapshot, {pool.name: index for pool in pools}, options or Options())
    [group] = made.unschedulable
    return group


def pod(*wanted: Requirements, cpu: int = 100, memory: int = GIB) -> Pod:
    alternatives = wanted or (Requirements(),)
    requests = {"cpu": cpu, "memory": memory}
    return Pod(namespace="shop", name="a", requests=requests, alternatives=alternatives)


def fix(found: Unschedulable) -> Suggestion:
    """The only change that it takes."""
    assert found.suggestion is not None
    [change] = found.suggestion.changes
    return change


def said(found: Unschedulable) -> str:
    return "" if found.suggestion is None else suggestion(found.suggestion)


def test_a_pod_that_is_too_big_is_told_by_how_much() -> None:
    found = failed(pod(memory=20 * GIB), POOL)
    [verdict] = found.pools
    assert words.pool(verdict.reason) == (
        "needs 20Gi memory, the largest left offers 16Gi (m5.xlarge)"
    )
    assert verdict.nearest_miss is not None
    assert (verdict.nearest_miss.needed, verdict.nearest_miss.best) == (20 * GIB, 16 * GIB)
    assert verdict.funnel.requirements == 2
    assert verdict.funnel.resources == 0
    assert said(found) == "ask for 16Gi instead of 20Gi memory"


def test_the_nearest_type_is_the_one_that_lacks_least_in_its_worst_resource() -> None:
    found = failed(pod(cpu=5000, memory=15 * GIB), POOL)
    reason = found.pools[0].reason
    assert words.pool(reason) == "needs 5 cpu, the largest left offers 4 (m5.xlarge)"


def test_a_taint_is_named_and_tolerating_it_is_the_fix() -> None:
    tainted = msgspec.structs.replace(POOL, taints=(Taint(key="gpu", value="yes"),))
    found = failed(pod(), tainted)
    assert words.pool(found.pools[0].reason) == (
        "the pod does not tolerate the taint gpu=yes:NoSchedule"
    )
    assert isinstance(fix(found), Tolerate)


def test_a_misspelt_label_gets_the_one_that_was_meant() -> None:
    found = failed(pod(asking("zone", "In", "zone-a")), POOL)
    told = words.pool(found.pools[0].reason)
    assert told.endswith("did you mean topology.kubernetes.io/zone?")
    assert said(found) == "select topology.kubernetes.io/zone in place of zone"


def test_a_type_that_nobody_has_is_told_by_its_label() -> None:
    found = failed(pod(asking(INSTANCE_TYPE, "In", "p5.large")), POOL)
    assert words.pool(found.pools[0].reason) == (
        "no instance type has node.kubernetes.io/instance-type In [p5.large]"
    )


def test_what_nobody_sells_is_told_by_its_label() -> None:
    found = failed(pod(asking(CAPACITY_TYPE, "In", "spot")), POOL)
    assert words.pool(found.pools[0].reason) == (
        "the pod needs karpenter.sh/capacity-type In [spot], and only In [on-demand] is on offer, "
        "such as m5.large"
    )
    assert found.pools[0].funnel.resources == 2
    assert said(found) == "do not select karpenter.sh/capacity-type"


def test_too_little_choice_is_told_in_numbers() -> None:
    diverse = msgspec.structs.replace(
        POOL, requirements=asking(INSTANCE_TYPE, "Exists", min_values=3)
    )
    found = failed(pod(), diverse)
    assert words.pool(found.pools[0].reason) == (
        "minValues asks for 3 values of node.kubernetes.io/instance-type, and 2 are left"
    )
    assert isinstance(fix(found), LowerMinValues)


def test_under_best_effort_too_little_choice_is_no_obstacle() -> None:
    diverse = msgspec.structs.replace(
        POOL, requirements=asking(INSTANCE_TYPE, "Exists", min_values=3)
    )
    policy = Options(min_values_policy=MinValuesPolicy.BEST_EFFORT)
    found = failed(pod(memory=20 * GIB), diverse, options=policy)
    assert "needs 20Gi memory" in words.pool(found.pools[0].reason)


def test_a_limit_is_told_with_what_is_in_use_and_what_would_be_added() -> None:
    limited = msgspec.structs.replace(POOL, limits={"cpu": 3000}, in_use={"cpu": 2000})
    found = failed(pod(), limited)
    assert words.pool(found.pools[0].reason) == (
        "the limit of 3 cpu is reached: 2 in use, and m5.large would add 2"
    )
    assert fix(found) == RaiseLimit(resource="cpu", now=3000, to=4000, pool="web")


def test_a_pool_that_may_not_launch_says_why() -> None:
    static = msgspec.structs.replace(POOL, unusable="its capacity is static")
    found = failed(pod(), static)
    assert words.pool(found.pools[0].reason) == "it launches nothing: its capacity is static"


def test_without_any_pool_there_is_one_reason_and_no_verdict() -> None:
    found = failed(pod())
    assert words.pod(found.reason) == "there is no pool that could launch a node"
    assert found.pools == ()


def test_what_the_planner_cannot_honour_yet_is_refused_and_named() -> None:
    claiming = msgspec.structs.replace(pod(), unsupported=(Feature.RESOURCE_CLAIMS,))
    found = failed(claiming, POOL)
    assert words.pod(found.reason) == (
        "it uses resource claims, which the planner does not place yet"
    )


def test_terms_that_no_node_can_meet_are_told_with_and_without_labels() -> None:
    nowhere = msgspec.structs.replace(pod(), alternatives=(), contradictory=("zone",))
    assert words.pod(failed(nowhere, POOL).reason) == "it asks of zone what no node can have"
    empty = msgspec.structs.replace(nowhere, contradictory=())
    assert words.pod(failed(empty, POOL).reason) == "it asks what no node can have"


def test_pods_that_fail_alike_are_one_group() -> None:
    pods = tuple(
        msgspec.structs.replace(pod(memory=20 * GIB), name=name) for name in ("b", "a", "c")
    )
    made = plan(Snapshot(pods=pods, pools=(POOL,)), {"web": TypeIndex((SMALL, LARGE))})
    [group] = made.unschedulable
    assert group.pods == ("shop/a", "shop/b", "shop/c")


def test_the_alternative_that_came_nearest_is_explained() -> None:
    alternatives = (
        asking(INSTANCE_TYPE, "In", "p5.large"),
        asking(INSTANCE_TYPE, "In", "m5.large"),
    )
    found = failed(pod(*alternatives, memory=9 * GIB), POOL)
    assert "the largest left offers 8Gi (m5.large)" in words.pool(found.pools[0].reason)


@pytest.mark.parametrize("memory", [20 * GIB, 16 * GIB + 1])
def test_a_suggestion_works_when_it_is_followed(memory: int) -> None:
    change = fix(failed(pod(memory=memory), POOL))
    assert isinstance(change, LowerRequest)
    smaller = pod(memory=change.to)
    made = plan(Snapshot(pods=(smaller,), pools=(POOL,)), {"web": TypeIndex((SMALL, LARGE))})
    assert made.unschedulable == ()
