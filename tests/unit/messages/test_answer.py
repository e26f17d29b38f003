"""The answer for unschedulable pods: the cause, other NodePools by name or by count, the fix."""

from typing import Any

import pytest

from wainwright.messages.suggestions import describe_suggestion
from wainwright.messages.unschedulable_answer import answer_for
from wainwright.model.plan import UnschedulableGroup
from wainwright.model.reasons import (
    DomainCount,
    Funnel,
    HostPortsTaken,
    LabelConflict,
    LimitExceeded,
    LimitUsage,
    MinValuesUnsatisfied,
    NoCompatiblePool,
    NoMatchingOffering,
    OfferingsUnavailable,
    PodAntiAffinityUnsatisfied,
    PoolReason,
    PoolVerdict,
    TopologySpreadUnsatisfied,
    TopologyUnsatisfied,
    UntoleratedTaint,
)
from wainwright.model.requirements import none_of, one_of
from wainwright.model.suggestions import (
    AnyFix,
    ChangePodRequirement,
    DropPodRequirement,
    EnlargeReservation,
    SuggestedLaunch,
    VerifiedSuggestion,
)
from wainwright.model.taints import Taint

FUNNEL = Funnel(types=1, requirements=1, resources=1, offerings=1, min_values=1, limits=0)
GPU = UntoleratedTaint(taint=Taint(key="nvidia.com/gpu"))
CPU = LimitExceeded(resource="cpu", limit=8000, in_use=8000, needed=4000, instance_type="m5.xlarge")
MEMORY = LimitUsage(resource="memory", limit=32 << 30, in_use=28 << 30, needed=14 << 30)
NODES = LimitUsage(resource="nodes", limit=5, in_use=5, needed=1, of_cluster=True)
TYPO = NoMatchingOffering(
    key="zone",
    wanted=one_of(["wset-2a"]),
    offered=one_of(["west-2a"]),
    instance_type="m5.large",
    meant="west-2a",
)


def group(*reasons: PoolReason, **fields: Any) -> UnschedulableGroup:
    """The first is that of the nearest pool, p0; the others are p1, p2 …"""
    pools = [
        PoolVerdict(pool=f"p{number}", reason=reason, funnel=FUNNEL)
        for number, reason in enumerate(reasons)
    ]
    given: dict[str, Any] = {"reason": NoCompatiblePool(), "nearest_pool": "p0"} | fields
    return UnschedulableGroup(pods=("shop/a",), pools=tuple(pools), **given)


def suggestion(*changes: AnyFix, **fields: Any) -> VerifiedSuggestion:
    return VerifiedSuggestion(changes=changes, serves=1, of=1, **fields)


@pytest.mark.parametrize(
    ("others", "line"),
    [
        ((), None),
        ((GPU,), "other NodePool: p1 (taint nvidia.com/gpu:NoSchedule)"),
        (
            (CPU, LabelConflict(key="team", wanted=one_of(["a"]), offered=None)),
            "other NodePools: p1 (limit cpu), p2 (no label team)",
        ),
        (
            (
                LabelConflict(key="zone", wanted=one_of(["c"]), offered=one_of(["b", "a"])),
                MinValuesUnsatisfied(key="family", needed=3, found=1),
                OfferingsUnavailable(instance_type="m5.large"),
            ),
            "other NodePools: p1 (allows zone a, b), p2 (minValues family), "
            "p3 (no capacity for m5.large)",
        ),
        ((HostPortsTaken(ports=(80,)),), "other NodePool: p1 (host port)"),
        ((GPU, GPU, CPU, GPU), "4 other NodePools: 3 taint, 1 limit"),
    ],
)
def test_other_pools_have_names_where_they_are_few(
    others: tuple[PoolReason, ...], line: str | None
) -> None:
    assert answer_for(group(CPU, *others)).other_pools == line


def test_pools_that_were_not_examined_are_counted() -> None:
    answer = answer_for(group(CPU, GPU, unexplained_pools=7))
    assert answer.other_pools == "8 other NodePools: 7 not examined, 1 taint"


@pytest.mark.parametrize(
    ("others", "cause"),
    [
        ((), "its limit of 8 cpu is reached: 8 in use, and one more m5.xlarge adds 4"),
        (
            (MEMORY,),
            "its limits of 8 cpu and 32Gi memory are reached: one more m5.xlarge adds 4 cpu to the "
            "8 in use and 14Gi memory to the 28Gi in use",
        ),
        (
            (NODES,),
            "its limit of 8 cpu and the cluster's limit of 5 nodes are reached: one more m5.xlarge "
            "adds 4 cpu to the 8 in use and 1 node to the 5 in use",
        ),
    ],
)
def test_every_limit_that_one_more_node_exceeds_is_named(
    others: tuple[LimitUsage, ...], cause: str
) -> None:
    reason = LimitExceeded(
        resource="cpu",
        limit=8000,
        in_use=8000,
        needed=4000,
        instance_type="m5.xlarge",
        others=others,
    )
    assert answer_for(group(reason)).cause == f"NodePool p0: {cause}"


def test_a_correction_is_said_once() -> None:
    corrected = suggestion(ChangePodRequirement(key="zone", now="wset-2a", to="west-2a", pool="p0"))
    dropped = suggestion(DropPodRequirement(key="zone", pool="p0"))
    assert "did you mean" not in answer_for(group(TYPO, suggestion=corrected)).cause
    for other in (None, dropped):
        assert answer_for(group(TYPO, suggestion=other)).cause.endswith("did you mean west-2a?")


SPREAD = TopologySpreadUnsatisfied(
    key="zone",
    max_skew=1,
    counts=(DomainCount(domain="a", pods=1), DomainCount(domain="c", pods=0)),
    allowed_domains=("c",),
)
ELSEWHERE = LabelConflict(key="zone", wanted=one_of(["c"]), offered=one_of(["a"]), by_topology=True)


@pytest.mark.parametrize(
    ("other", "is_only_taint", "says_so"),
    [(ELSEWHERE, True, True), (ELSEWHERE, False, False), (CPU, True, False)],
)
def test_a_domain_that_only_a_tainted_pool_has_is_said_to_be_there_only(
    other: PoolReason, is_only_taint: bool, says_so: bool
) -> None:
    given = group(GPU, other, reason=TopologyUnsatisfied(by=(SPREAD,)))
    nearest = PoolVerdict(pool="p0", reason=GPU, funnel=FUNNEL, is_only_taint=is_only_taint)
    given = UnschedulableGroup(
        pods=given.pods, reason=given.reason, nearest_pool="p0", pools=(nearest, given.pools[1])
    )
    cause = answer_for(given).cause
    assert ("only c is allowed, which only NodePool p0 offers" in cause) is says_so
    assert cause.endswith("the pod does not tolerate its taint nvidia.com/gpu:NoSchedule")


LARGER = EnlargeReservation(
    reservation="cr-1", by=2, now=2, pool="p0", billed=0.085, modelled_bill=True
)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            LARGER,
            "enlarge capacity reservation cr-1 from 2 to 4 instances: +~$0.170/h on the EC2 bill "
            "(2 × ~$0.085/h, used or not), +$0/h in the plan, which counts reserved instances as "
            "paid for; the plan then costs $0.500/h",
        ),
        (
            EnlargeReservation(reservation="cr-1", by=1, pool="p0"),
            "enlarge capacity reservation cr-1 by 1 instance: EC2 bills the added instances, used "
            "or not, +$0/h in the plan, which counts reserved instances as paid for; the plan then "
            "costs $0.500/h",
        ),
    ],
)
def test_what_is_billed_is_not_what_the_plan_counts(change: EnlargeReservation, text: str) -> None:
    reserved = SuggestedLaunch(count=1, instance_type="c5.large", capacity_type="reserved")
    given = suggestion(change, price_change=1e-8, total_price=0.5, launches=(reserved,))
    assert describe_suggestion(given) == text


@pytest.mark.parametrize("at_most", [True, False])
def test_the_total_of_the_plan_after_the_change_is_said_where_there_is_a_plan(
    at_most: bool,
) -> None:
    drop = DropPodRequirement(key="zone", pool="p0")
    given = suggestion(
        drop, price_change=0.1, total_price=1.5, modelled_price=True, at_most=at_most
    )
    bound = "at most " if at_most else ""
    change = f"remove the pod's requirement on zone: {bound}+~$0.100/h on existing nodes"
    assert describe_suggestion(given) == f"{change}; the plan then costs {bound}~$1.500/h"
    assert describe_suggestion(given, with_total=False) == change


def nodes(count: int, name: str) -> tuple[SuggestedLaunch, ...]:
    return (SuggestedLaunch(count=count, instance_type=name, capacity_type="on-demand"),)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"launches": nodes(1, "m5.xlarge")}, "for 1 m5.xlarge (on-demand)"),
        (
            {"launches": nodes(1, "m5.xlarge"), "replaces": nodes(2, "m5.large")},
            "for 1 m5.xlarge (on-demand) instead of 2 m5.large (on-demand)",
        ),
        ({"replaces": nodes(1, "m5.large")}, "without 1 m5.large (on-demand)"),
        ({"planned_nodes": 2}, "on 2 nodes that the plan already has"),
        ({}, "on existing nodes"),
    ],
)
def test_the_nodes_of_a_fix_are_those_that_its_price_is_for(
    fields: dict[str, Any], text: str
) -> None:
    drop = DropPodRequirement(key="zone", pool="p0")
    given = suggestion(drop, price_change=0.1, **fields)
    assert describe_suggestion(given) == f"remove the pod's requirement on zone: +$0.100/h {text}"


EXCLUDED = TopologyUnsatisfied(
    by=(PodAntiAffinityUnsatisfied(key="zone", pods="app=db", taken=("a",), theirs=True),)
)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (
            LabelConflict(
                key="zone", wanted=none_of(["a"]), offered=one_of(["a"]), by_topology=True
            ),
            "NodePool p0 allows only a",
        ),
        (
            NoMatchingOffering(
                key="zone",
                wanted=none_of(["a"]),
                offered=one_of(["a"]),
                instance_type="m5.large",
                by_topology=True,
            ),
            "NodePool p0: m5.large is available only with a",
        ),
    ],
)
def test_requirements_that_constraints_between_pods_come_to_are_not_shown(
    reason: PoolReason, text: str
) -> None:
    assert answer_for(group(reason, reason=EXCLUDED)).cause == (
        "pods in a have required anti-affinity by zone to app=db, which this pod matches. " + text
    )
