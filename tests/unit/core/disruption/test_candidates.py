"""Candidates: what a node costs, and what keeps it from being disrupted."""

from typing import Any

import msgspec
import pytest
from tests.support.model_builders import instance_type, offering

from wainwright.core.disruption.candidates import (
    UNDONE_CONSOLIDATIONS,
    BlockerCode,
    BlockerKind,
    Candidate,
    CandidateContext,
    consolidated_again_at,
    find_candidates,
)
from wainwright.core.disruption.eviction import EvictionAllowance
from wainwright.model.disruption import (
    Condition,
    FailedStart,
    NodeClaimState,
    NodePoolDisruption,
    PodDisruptionBudget,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, ZONE
from wainwright.model.pod import ALL_PODS, EvictionFacts, Pod, pod_selector
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.model.taints import UNREGISTERED_TAINT

NOW = 1_000_000.0
INDEX = InstanceTypeIndex(
    [
        instance_type(
            offerings=(
                offering(zone="zone-a", price=1.0),
                offering(zone="zone-b", price=2.0),
                offering(zone="zone-a", capacity_type="spot", price=0.3, available=0),
                offering(
                    zone="zone-a", capacity_type="reserved", price=1e-7, reservation_id="cr-1"
                ),
                offering(
                    zone="zone-a", capacity_type="reserved", price=2e-7, reservation_id="cr-2"
                ),
            )
        ),
        instance_type(name="any.zone", offerings=(offering(zone=None, price=5.0),)),
    ]
)
CONTEXT = CandidateContext(catalogs={"web": INDEX})
READY = {"Initialized": Condition(status="True", since=NOW - 50)}


def pod(name: str = "a", *, labels: dict[str, str] | None = None, **facts: Any) -> Pod:
    return Pod(namespace="shop", name=name, labels=labels or {}, eviction=EvictionFacts(**facts))


def node(*pods: Pod, **fields: Any) -> Node:
    labels = {INSTANCE_TYPE: "m5.large", ZONE: "zone-a", CAPACITY_TYPE: "on-demand"}
    fields["labels"] = labels | fields.pop("labels", {})
    return Node(**{"name": "n", "pool": "web", "pods": pods} | fields)


def candidate(
    given: Node,
    *budgets: PodDisruptionBudget,
    context: CandidateContext = CONTEXT,
    disruption: NodePoolDisruption = NodePoolDisruption(),  # noqa: B008 - a frozen value
    **pool: Any,
) -> Candidate:
    snapshot = Snapshot(
        nodes=(given,),
        pools=(Pool(name="web", disruption=disruption, **pool),),
        pod_disruption_budgets=budgets,
        now=NOW,
    )
    [found] = find_candidates(snapshot, context)
    return found


def codes(found: Candidate) -> list[str]:
    return [each.code.text for each in found.blockers]


@pytest.mark.parametrize(
    ("labels", "price"),
    [
        ({}, 1.0),
        ({ZONE: "zone-b"}, 2.0),
        ({CAPACITY_TYPE: "spot"}, 0.3),
        ({CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-2"}, 2e-7),
        ({INSTANCE_TYPE: "any.zone", ZONE: "zone-q"}, 5.0),
    ],
)
def test_the_price_is_that_of_its_offering_available_or_not(
    labels: dict[str, str], price: float
) -> None:
    assert candidate(node(labels=labels)).price == price


@pytest.mark.parametrize(
    "labels",
    [
        {INSTANCE_TYPE: "other"},
        {ZONE: "zone-q"},
        {CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-9"},
    ],
)
def test_a_node_without_an_offering_has_no_price(labels: dict[str, str]) -> None:
    found = candidate(node(labels=labels))
    assert (found.price, codes(found)) == (0.0, ["unknown-price"])
    assert found.blockers_of_drift() == ()


def test_nothing_blocks_a_plain_node() -> None:
    found = candidate(node(pod()))
    assert (found.blockers, found.cost, found.saving_ratio) == ((), 2.0, 0.5)
    assert not found.is_empty


def test_pods_that_end_with_the_node_leave_it_empty() -> None:
    agent = msgspec.structs.replace(pod("agent"), daemonset=True)
    gone = msgspec.structs.replace(pod("gone"), terminating=True)
    assert candidate(node(agent, gone, pod("static", static=True))).is_empty
    assert not candidate(
        node(msgspec.structs.replace(pod(recreated=True), terminating=True))
    ).is_empty


def test_the_order_of_blockers() -> None:
    claim = NodeClaimState(
        name="c",
        created=NOW - 100,
        expire_after=100.0,
        conditions={"Initialized": Condition(status="False")},
    )
    given = node(
        pod(do_not_disrupt=True),
        deleting=True,
        initialized=False,
        claim=claim,
        labels={INSTANCE_TYPE: "other"},
        annotations={"karpenter.sh/do-not-disrupt": "true"},
    )
    blocking = PodDisruptionBudget(
        namespace="shop", name="pdb", selector=ALL_PODS, disruptions_allowed=0
    )
    context = msgspec.structs.replace(
        CONTEXT,
        nominated=frozenset({"n"}),
        failed_starts={"n": FailedStart(name="n", message="refused")},
    )
    disruption = NodePoolDisruption(policy="WhenEmpty", consolidate_after=1000.0)
    found = candidate(given, blocking, context=context, disruption=disruption, replicas=3)
    assert codes(found) == [
        "deleting",
        "not-initialized",
        "nominated",
        "expired",
        "static-pool",
        "do-not-disrupt-node",
        "cannot-begin",
        "do-not-disrupt-pod",
        "pdb",
        "consolidate-after",
        "policy",
        "unknown-price",
    ]


@pytest.mark.parametrize("status", ["True", "False"])
def test_a_node_that_is_rebooted_is_left_alone_until_it_is_back(status: str) -> None:
    stated = {**READY, "Rebooting": Condition(status=status)}
    claim = NodeClaimState(name="c", conditions=stated)
    found = candidate(node(initialized=True, claim=claim))
    assert codes(found) == (["not-initialized"] if status == "True" else [])


@pytest.mark.parametrize(
    ("protection", "started", "blocked", "until"),
    [
        (True, None, True, None),
        (False, None, False, None),
        (60.0, NOW - 59, True, NOW + 1),
        (60.0, NOW - 60, False, None),
        (60.0, None, True, None),
    ],
)
def test_a_pod_may_be_protected_for_a_while(
    protection: bool | float, started: float | None, blocked: bool, until: float | None
) -> None:
    found = candidate(node(pod(do_not_disrupt=protection, started=started)))
    assert codes(found) == (["do-not-disrupt-pod"] if blocked else [])
    assert [each.until for each in found.blockers] == ([until] if blocked else [])


def test_daemonset_and_static_pods_protect_their_node_and_terminating_ones_do_not() -> None:
    agent = msgspec.structs.replace(pod(do_not_disrupt=True), daemonset=True)
    gone = msgspec.structs.replace(pod(do_not_disrupt=True), terminating=True)
    assert codes(candidate(node(agent))) == ["do-not-disrupt-pod"]
    assert codes(candidate(node(pod(do_not_disrupt=True, static=True)))) == ["do-not-disrupt-pod"]
    assert codes(candidate(node(gone))) == []


def test_the_blocker_names_the_pod_or_the_budget() -> None:
    budget = PodDisruptionBudget(
        namespace="shop", name="pdb", selector=ALL_PODS, disruptions_allowed=0
    )
    found = candidate(node(pod(do_not_disrupt=True)), budget)
    assert [(each.kind, each.name) for each in found.blockers] == [
        (BlockerKind.POD, "shop/a"),
        (BlockerKind.PDB, "shop/pdb"),
    ]


WEB = pod_selector({"app": "web"})


@pytest.mark.parametrize(
    ("budget", "blocked"),
    [
        ({"disruptions_allowed": 1}, False),
        ({"disruptions_allowed": 0}, True),
        ({"min_available": 2}, True),
        ({"min_available": 1}, False),
        ({"min_available": "51%"}, True),
        ({"min_available": "50%"}, False),
        ({"max_unavailable": 0}, True),
        ({"max_unavailable": 1}, False),
        ({"max_unavailable": "0%"}, True),
        ({"max_unavailable": "1%"}, False),
        ({"min_available": 2, "namespace": "other"}, False),
        ({"min_available": 2, "selector": pod_selector({"app": "db"})}, False),
    ],
)
def test_budgets_block_by_their_status_or_else_by_the_pods(
    budget: dict[str, Any], blocked: bool
) -> None:
    given: dict[str, Any] = {"namespace": "shop", "name": "pdb", "selector": WEB} | budget
    pods = [pod(name, labels={"app": "web"}) for name in ("a", "b")]
    found = candidate(node(*pods), PodDisruptionBudget(**given))
    assert codes(found) == (["pdb", "pdb"] if blocked else [])


@pytest.mark.parametrize(
    ("ready", "terminating", "blocked"),
    [(True, False, False), (False, False, True), (True, True, True)],
)
def test_unready_and_terminating_pods_use_up_a_budget_without_a_status(
    ready: bool, terminating: bool, blocked: bool
) -> None:
    budget = PodDisruptionBudget(namespace="shop", name="pdb", selector=WEB, min_available=1)
    other = pod("b", labels={"app": "web"}, ready=ready)
    other = msgspec.structs.replace(other, terminating=terminating)
    found = candidate(node(pod("a", labels={"app": "web"}), other), budget)
    assert ("shop/a" in found.blocked_pods) is blocked


def test_pending_pods_are_expected_by_a_budget_without_a_status() -> None:
    """One may be missing, and that one is the replica that is still pending."""
    budget = PodDisruptionBudget(namespace="shop", name="pdb", selector=WEB, max_unavailable=1)
    running = [pod(name, labels={"app": "web"}) for name in ("a", "b")]
    pending = (pod("c", labels={"app": "web"}),)
    for waiting, allowed in (((), 1), (pending, 0)):
        snapshot = Snapshot(nodes=(node(*running),), pods=waiting, pod_disruption_budgets=(budget,))
        assert EvictionAllowance(snapshot).allowed(budget) == allowed


def test_two_budgets_on_one_pod_block_whatever_they_allow() -> None:
    two = [
        PodDisruptionBudget(namespace="shop", name=name, selector=ALL_PODS, disruptions_allowed=9)
        for name in ("one", "two")
    ]
    assert codes(candidate(node(pod()), *two)) == ["pdb", "pdb"]


def test_a_budget_may_let_unready_pods_go() -> None:
    budget = PodDisruptionBudget(
        namespace="shop",
        name="pdb",
        selector=ALL_PODS,
        disruptions_allowed=0,
        always_allows_unready=True,
    )
    assert codes(candidate(node(pod(ready=False)), budget)) == []
    assert codes(candidate(node(pod(ready=True)), budget)) == ["pdb"]


@pytest.mark.parametrize("policy", ["WhenEmpty", "WhenEmptyOrUnderutilized"])
@pytest.mark.parametrize("is_empty", [True, False])
def test_when_empty_is_for_empty_nodes(policy: str, is_empty: bool) -> None:
    pods = () if is_empty else (pod(),)
    found = candidate(node(*pods), disruption=NodePoolDisruption(policy=policy))
    assert codes(found) == (["policy"] if policy == "WhenEmpty" and not is_empty else [])


def test_never_consolidates_never_and_drift_does_not_care() -> None:
    found = candidate(node(), disruption=NodePoolDisruption(consolidate_after=None))
    assert codes(found) == ["policy"]
    assert found.blockers_of_drift() == ()


@pytest.mark.parametrize(
    ("claim", "waiting"),
    [
        ({"last_pod_event": NOW - 99, "conditions": READY}, True),
        ({"last_pod_event": NOW - 100, "conditions": READY}, False),
        ({"conditions": READY}, True),
        ({"conditions": READY | {"Consolidatable": Condition(status="True")}}, False),
        ({"conditions": READY | {"Consolidatable": Condition(status="False")}}, True),
        ({"created": NOW - 10}, True),
        ({}, False),
    ],
)
def test_a_node_is_left_alone_for_a_while_after_pods_came_or_went(
    claim: dict[str, Any], waiting: bool
) -> None:
    given = node(claim=NodeClaimState(**{"name": "c"} | claim))
    found = candidate(given, disruption=NodePoolDisruption(consolidate_after=100.0))
    assert codes(found) == (["consolidate-after"] if waiting else [])


@pytest.mark.parametrize(
    ("fields", "is_up"),
    [
        (
            {
                "claim": NodeClaimState(
                    name="c", conditions={"Initialized": Condition(status="False")}
                )
            },
            False,
        ),
        ({"claim": NodeClaimState(name="c")}, True),
        ({}, True),
        ({"taints": (UNREGISTERED_TAINT,)}, False),
        ({"conditions": {"Ready": Condition(status="False")}}, False),
        ({"conditions": {"Ready": Condition(status="True")}}, True),
        ({"launched": False}, False),
    ],
)
def test_a_node_without_conditions_counts_once_it_is_ready(
    fields: dict[str, Any], is_up: bool
) -> None:
    found = candidate(node(initialized=False, **fields))
    assert codes(found) == ([] if is_up else ["not-initialized"])


def test_with_a_grace_period_pods_do_not_block_drift() -> None:
    bounded = NodeClaimState(name="c", termination_grace_period=60.0)
    protected = pod(do_not_disrupt=True)
    assert candidate(node(protected, claim=bounded)).blockers_of_drift() == ()
    [only] = candidate(node(protected)).blockers_of_drift()
    assert only.code is BlockerCode.DO_NOT_DISRUPT_POD


def test_static_pools_are_for_drift_alone_and_only_with_their_gate() -> None:
    drifted = node(claim=NodeClaimState(name="c", conditions={"Drifted": Condition(status="True")}))
    gated = msgspec.structs.replace(CONTEXT, static_capacity=True)
    assert codes(candidate(drifted, replicas=1)) == ["static-pool"]
    assert codes(candidate(drifted, context=gated, replicas=1)) == []
    assert codes(candidate(node(), context=gated, replicas=1)) == ["static-pool"]


def test_a_node_of_an_unknown_pool_is_not_ours_and_unmanaged_nodes_are_left_out() -> None:
    assert codes(candidate(node(pool="other"))) == ["not-ours"]
    assert find_candidates(Snapshot(nodes=(node(managed=False),)), CONTEXT) == []


def test_the_time_after_consolidations_that_were_undone_doubles_and_is_bounded() -> None:
    def again_at(undone: int) -> float | None:
        annotations = {UNDONE_CONSOLIDATIONS: str(undone)}
        return consolidated_again_at(NodeClaimState(name="c", created=NOW, annotations=annotations))

    found = [again_at(undone) for undone in (0, 1, 2, 3, 10, 11, 12, 10**9)]
    hours = [None if each is None else (each - NOW) / 3600 for each in found]
    assert hours == [None, 1, 2, 4, 512, 1024, 1024, 1024]
