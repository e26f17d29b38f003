"""Explanations of placed pods are those of the plan, and suggestions have the effect that they
promise: in random inputs with many obstacles.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.model_builders import explained_plan
from tests.support.random_inputs.constrained import random_constrained_input
from tests.support.random_inputs.unconstrained import PlannerInput, random_input

from wainwright.core.explain.placed_pod import (
    PlacementDecision,
    explain_placement,
    launch_alternatives,
)
from wainwright.core.explain.suggested_changes import (
    apply_to_pod,
    apply_to_pool,
    enlarge_reservations,
)
from wainwright.core.explain.unschedulable import explain_unschedulable
from wainwright.core.plan import plan, solve_plan
from wainwright.model.plan import (
    ExplainedPlan,
    PackingPolicy,
    Plan,
    PlannedNodeClaim,
    UnschedulableGroup,
)
from wainwright.model.pod import EvictionFacts, Pod
from wainwright.model.reasons import LaunchesTakenByOtherPods
from wainwright.model.suggestions import SuggestedLaunch, VerifiedSuggestion

SEEDS = range(1, 41)
Maker = Callable[[int], PlannerInput]


def with_terms(maker: Maker) -> Maker:
    """The same inputs, where many pods have several alternatives."""

    def made(seed: int) -> PlannerInput:
        planner_input, rng = maker(seed), Random(seed)
        known = [each for pod in planner_input.snapshot.pods for each in pod.alternatives]
        known += [pool.requirements for pool in planner_input.snapshot.pools]

        def changed(pod: Pod) -> Pod:
            terms = tuple(rng.choices(known, k=rng.randint(1, 3)))
            return msgspec.structs.replace(pod, alternatives=terms)

        pods = tuple(changed(pod) for pod in planner_input.snapshot.pods)
        snapshot = msgspec.structs.replace(planner_input.snapshot, pods=pods)
        return msgspec.structs.replace(planner_input, snapshot=snapshot)

    return made


INPUTS: dict[str, Maker] = {
    "plain": random_input,
    "tied": random_constrained_input,
    "plain-terms": with_terms(random_input),
    "tied-terms": with_terms(random_constrained_input),
}


class ExplainedPod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod on a new node, and what decided on it."""

    seed: int
    planner_input: PlannerInput
    claim: PlannedNodeClaim
    pod: str
    found: PlacementDecision


@pytest.fixture(scope="module", params=list(INPUTS.values()), ids=list(INPUTS))
def explained(request: pytest.FixtureRequest) -> list[ExplainedPod]:
    return [each for seed in SEEDS for each in explained_pods(seed, request.param(seed))]


def explained_pods(seed: int, planner_input: PlannerInput) -> Iterator[ExplainedPod]:
    for claim in plan(planner_input.snapshot, planner_input.catalogs, planner_input.options).claims:
        for pod in claim.pods:
            found = explain_placement(
                planner_input.snapshot, planner_input.catalogs, planner_input.options, claim, pod
            )
            assert found is not None, (seed, pod)
            yield ExplainedPod(
                seed=seed, planner_input=planner_input, claim=claim, pod=pod, found=found
            )


def test_a_claim_that_is_not_in_the_plan_is_not_explained() -> None:
    planner_input = random_input(1)
    claim = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options).claims[0]
    other = msgspec.structs.replace(claim, pool="another")
    with pytest.raises(AssertionError, match="the same input gives the same plan"):
        explain_placement(
            planner_input.snapshot,
            planner_input.catalogs,
            planner_input.options,
            other,
            claim.pods[0],
        )


def test_each_node_was_opened_for_one_pod_and_joined_by_the_others_in_turn(
    explained: list[ExplainedPod],
) -> None:
    before: dict[tuple[int, str], list[int]] = {}
    for each in explained:
        assert {*each.found.joined, each.pod} <= set(each.claim.pods), (each.seed, each.pod)
        assert each.pod not in each.found.joined
        assert each.found.round >= each.claim.round
        before.setdefault((each.seed, each.claim.name), []).append(len(each.found.joined))
    for node, numbers in before.items():
        assert sorted(numbers) == list(range(len(numbers))), node


def test_every_earlier_pool_has_a_reason(explained: list[ExplainedPod]) -> None:
    for each in explained:
        found, weights = each.found, {p.name: p.weight for p in each.planner_input.snapshot.pools}
        heavier = {name for name in weights if weights[name] > weights[each.claim.pool]}
        reasons = {word.pool: word.reason for word in found.earlier_pools}
        assert heavier <= set(reasons), (each.seed, each.pod)
        if not found.joined or each.planner_input.options.strict_weights:
            assert all(reasons[name] for name in heavier), (each.seed, each.pod)
        if not (found.joined or found.has_topology or found.for_reservation):
            prices = {one.pool: one.price for one in found.equal_pools}
            could = [name for name, reason in reasons.items() if reason is None]
            assert found.price is not None
            assert all(prices[name] > found.price for name in could), (each.seed, each.pod)
            assert all(price >= found.price for price in prices.values()), (each.seed, each.pod)


def test_no_earlier_pool_has_launches_taken_by_other_pods_as_its_reason(
    explained: list[ExplainedPod],
) -> None:
    for each in explained:
        reasons = [word.reason for word in each.found.earlier_pools]
        assert not any(isinstance(reason, LaunchesTakenByOtherPods) for reason in reasons), (
            each.seed,
            each.pod,
        )


def test_every_existing_node_has_a_reason(explained: list[ExplainedPod]) -> None:
    for each in explained:
        without_pods = sum(one.nodes for one in each.found.nodes)
        assert without_pods == len(each.planner_input.snapshot.nodes), (each.seed, each.pod)


def test_the_cheapest_offering_is_launched(explained: list[ExplainedPod]) -> None:
    for each in explained:
        claim, planner_input = each.claim, each.planner_input
        pool = next(pool for pool in planner_input.snapshot.pools if pool.name == claim.pool)
        index = planner_input.catalogs[claim.pool]
        offered = launch_alternatives(claim, pool, index)
        fee = next(kind.fee for kind in index.types if kind.name == claim.launch.instance_type)
        prices = [one.usd for one in (offered.spot, offered.on_demand) if one is not None]
        if claim.launch.reservation_id is None:
            assert claim.launch.price + fee == pytest.approx(min(prices)), (each.seed, claim.name)


INPUTS_WITH_FIXES = {"plain": random_input, "tied": random_constrained_input}
FIX_SEEDS = range(1, 61)


def unschedulable_pods(found: Plan) -> set[str]:
    return set(found.unplaced)


def suggestions(found: ExplainedPlan) -> Iterator[tuple[VerifiedSuggestion, set[str]]]:
    """Every suggestion and alternative, with all pods that have it and the same verdict."""
    blocks: dict[UnschedulableGroup, set[str]] = {}
    for group in found.unschedulable:
        blocks.setdefault(replace(group, pods=()), set()).update(group.pods)
    for group, pods in blocks.items():
        for advice in (group.suggestion, group.alternative):
            if advice is not None:
                yield advice, pods


def with_owners(planner_input: PlannerInput) -> PlannerInput:
    """Equal pods belong to one Deployment, as replicas do; every pod has an owner."""
    owners: dict[object, EvictionFacts] = {}

    def owned(pod: Pod) -> Pod:
        spec = (pod.namespace, sorted(pod.requests.items()), pod.alternatives, pod.tolerations)
        template = repr((*spec, sorted(pod.labels.items()), pod.constraints))
        facts = EvictionFacts(owner=f"Deployment/{len(owners)}")
        return replace(pod, eviction=owners.setdefault(template, facts))

    pods = tuple(map(owned, planner_input.snapshot.pods))
    return replace(planner_input, snapshot=replace(planner_input.snapshot, pods=pods))


def plan_with_changes(
    planner_input: PlannerInput, advice: VerifiedSuggestion, keys: set[str]
) -> Plan:
    """A pod is changed in the template of its workload, and so are all others of the workload."""
    pods, pools = planner_input.snapshot.pods, planner_input.snapshot.pools
    owners = {pod.eviction.owner for pod in pods if pod.key in keys}
    for change in advice.changes:
        pods = tuple(
            apply_to_pod(change, pod) if pod.eviction.owner in owners else pod for pod in pods
        )
        pools = tuple(apply_to_pool(change, pool) for pool in pools)
    changed = replace(planner_input.snapshot, pods=pods, pools=pools)
    catalogs = enlarge_reservations(planner_input.catalogs, advice.changes)
    return plan(changed, catalogs, planner_input.options)


@pytest.mark.parametrize("packing", PackingPolicy)
@pytest.mark.parametrize("maker", INPUTS_WITH_FIXES.values(), ids=INPUTS_WITH_FIXES)
def test_law_29_a_suggestion_serves_its_pods_at_its_price_and_no_other_loses_its_place(
    maker: Callable[[int], PlannerInput], packing: PackingPolicy
) -> None:
    """Also where first-fit was the proof for a plan by cost, whose price is then a bound."""
    kinds: Counter[str] = Counter()
    for seed in FIX_SEEDS:
        planner_input = with_owners(maker(seed))
        planner_input = replace(
            planner_input, options=replace(planner_input.options, packing=packing)
        )
        found = explained_plan(
            planner_input.snapshot, planner_input.catalogs, planner_input.options
        )
        for advice, keys in suggestions(found):
            assert len(keys) == advice.of, (seed, advice)
            if advice.alone:
                continue
            made = plan_with_changes(planner_input, advice, keys)
            left = unschedulable_pods(made)
            assert len(keys - left) == advice.serves > 0, (seed, advice)
            assert left <= unschedulable_pods(found), (seed, advice)
            check_price(advice, made, found, seed)
            check_launches(advice, made, found, seed)
            kinds.update(type(change).__name__ for change in advice.changes)
    assert kinds.total() > len(FIX_SEEDS) // 6


def check_price(advice: VerifiedSuggestion, made: Plan, found: Plan, seed: int) -> None:
    assert advice.price_change is not None, (seed, advice)
    assert advice.total_price is not None, (seed, advice)
    total, before = made.price + made.fees, found.price + found.fees
    if advice.at_most:
        assert total - before <= advice.price_change + 1e-9, (seed, advice)
        assert total <= advice.total_price + 1e-9, (seed, advice)
    else:
        assert total - before == pytest.approx(advice.price_change, abs=1e-9), (seed, advice)
        assert total == pytest.approx(advice.total_price, abs=1e-9), (seed, advice)


def check_launches(advice: VerifiedSuggestion, made: Plan, found: Plan, seed: int) -> None:
    """The new nodes that it names are those that the plan has more, and those that it has no more;
    so the price is theirs."""
    if not advice.at_most:
        after, before = launches(made), launches(found)
        assert named(advice.launches) == after - before, (seed, advice)
        assert named(advice.replaces) == before - after, (seed, advice)


def launches(made: Plan) -> Counter[tuple[str, str]]:
    return Counter(
        (claim.launch.instance_type, claim.launch.capacity_type) for claim in made.claims
    )


def named(nodes: tuple[SuggestedLaunch, ...]) -> Counter[tuple[str, str]]:
    return Counter({(each.instance_type, each.capacity_type): each.count for each in nodes})


@pytest.mark.parametrize("maker", INPUTS.values(), ids=INPUTS)
def test_the_reasons_of_a_pod_do_not_depend_on_what_else_is_explained(maker: Maker) -> None:
    explained_pods = 0
    for seed in SEEDS:
        planner_input = maker(seed)
        first, second = (
            solve_plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
            for _ in range(2)
        )
        together = reasons_by_pod(explain_unschedulable(first))
        assert sorted(together) == list(first.plan.unplaced)
        for pod in reversed(second.plan.unplaced):  # in another order, one by one
            assert reasons_by_pod(explain_unschedulable(second, [pod])) == {pod: together[pod]}
        assert reasons_by_pod(explain_unschedulable(first)) == together
        explained_pods += len(together)
    assert explained_pods > len(SEEDS)


def reasons_by_pod(groups: tuple[UnschedulableGroup, ...]) -> dict[str, UnschedulableGroup]:
    return {pod: replace(group, pods=()) for group in groups for pod in group.pods}
