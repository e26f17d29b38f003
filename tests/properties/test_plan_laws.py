"""Laws of plans, checked on the plan alone, independent of how it was computed."""

from collections import Counter
from functools import lru_cache

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.model_builders import explained_plan
from tests.support.processes import output_with_hash_seed
from tests.support.random_inputs.unconstrained import random_input, shuffle_input
from tests.support.reference_planner.offerings import (
    PoolCatalog,
    fits_on_node,
    hourly_cost,
    is_node_compatible,
    is_offering_compatible,
    is_ordinary_type,
    launch_capacity_type,
    schedulable_nodes,
    tolerating_soft_taints,
)
from tests.support.reference_planner.plan_checks import (
    PlannedCase,
    could_join,
    could_open_first,
    could_use,
    is_launch,
    is_relaxed,
    new_node_options,
    node_capacity,
    requests_on_claim,
    reserved_kinds,
    satisfies_min_values,
    types_always_within_limits,
)

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import SPOT
from wainwright.model.plan import Plan, PlannedLaunch, PlannedNodeClaim, RemainingOptions
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import Resources, add_resources, fits
from wainwright.model.taints import find_untolerated_taint

INPUTS = settings().max_examples ** 2 // 20  # 125, and 500 in long runs
SEEDS = st.integers(min_value=1, max_value=INPUTS)
CASES = SEEDS.map(lru_cache(maxsize=INPUTS)(PlannedCase))  # all laws look at the same plans
thorough = settings(max_examples=INPUTS)


@thorough
@given(case=CASES)
def test_law_11_every_pod_has_one_place_or_none(case: PlannedCase) -> None:
    assert [key for key, count in Counter(case.placed).items() if count > 1] == []
    assert set(case.placed) <= set(case.pods)
    assert list(case.plan.unplaced) == sorted(pod.key for pod in case.unplaced)
    explained = [key for group in case.plan.unschedulable for key in group.pods]
    assert sorted(explained) == list(case.plan.unplaced)


@thorough
@given(case=CASES)
def test_law_12_no_reservation_is_used_beyond_its_available_count(case: PlannedCase) -> None:
    assert all(count >= 0 for count in case.free_instances.values()), case.free_instances
    taken = Counter(claim.launch.reservation_id for claim in case.plan.claims)
    assert {use.id: use.used for use in case.plan.reservations if use.used} == {
        name: count for name, count in taken.items() if name is not None
    }
    for claim in case.plan.claims:
        pinned = claim.launch.reservation_id
        assert claim.choices.reservation_ids == (() if pinned is None else (pinned,))
    if not case.options.capacity_reservations:
        assert not taken.keys() - {None}


@thorough
@given(case=CASES)
def test_law_13_no_limit_is_exceeded_by_what_would_be_launched(case: PlannedCase) -> None:
    for catalog in case.pool_catalogs.values():
        bought: Resources = {}
        for claim in case.plan.claims:
            if claim.pool == catalog.pool.name:
                bought = add_resources(bought, node_capacity(case.launched(claim)))
        total = add_resources(bought, catalog.pool.in_use)
        over = {name for name, most in catalog.pool.limits.items() if total.get(name, 0) > most}
        assert not any(bought.get(name) for name in over)


@thorough
@given(case=CASES)
def test_law_14_a_claim_suits_its_pods_with_every_offering_left_to_it(case: PlannedCase) -> None:
    for claim in case.plan.claims:
        catalog, offers = case.pool_catalogs[claim.pool], case.offers(claim)
        assert {kind.name for kind, _ in offers} == set(claim.choices.instance_types)
        assert all(suits(catalog, kind, offering, catalog.node) for kind, offering in offers)
        for pod in case.pods_of(claim):
            assert not pod.unsupported
            assert (
                find_untolerated_taint(catalog.pool.taints, tolerating_soft_taints(pod).tolerations)
                is None
            )
            assert any(
                catalog.node.is_compatible(wanted, catalog.known)
                and all(suits(catalog, kind, offering, wanted) for kind, offering in offers)
                for wanted in pod.alternatives
            )
        for kind, offering in offers:
            assert fits(requests_on_claim(case, claim, kind, offering), kind.allocatable)


def suits(
    catalog: PoolCatalog, kind: InstanceType, offering: Offering, wanted: Requirements
) -> bool:
    """Whether a node launched in this way can have the labels; what the pool defines it has."""
    return catalog.admits(kind, wanted) and is_offering_compatible(kind, offering, wanted)


@thorough
@given(case=CASES)
def test_law_15_a_node_of_the_cluster_suits_the_pods_that_it_receives(case: PlannedCase) -> None:
    nodes = {node.name: node for node in case.snapshot.nodes}
    for placement in case.plan.placements:
        node, pods = nodes[placement.node], [case.pods[key] for key in placement.pods]
        assert not node.deleting
        for pod in pods:
            assert any(
                is_node_compatible(node, tolerating_soft_taints(pod), each)
                for each in pod.alternatives
            )
        assert fits_on_node(node, pods, case.snapshot.daemonsets)


@thorough
@given(case=CASES)
def test_law_16_min_values_hold_for_the_types_that_are_left(case: PlannedCase) -> None:
    for claim in case.plan.claims:
        catalog, held = case.pool_catalogs[claim.pool], claim.choices.reservation_ids
        kinds = reserved_kinds(case, claim) if held else case.kinds(claim)
        assert satisfies_min_values(catalog, claim.requirements, kinds, held)
        kept = {key: claim.requirements[key].min_values or 0 for key in catalog.minimums}
        lowered = {key for key, count in catalog.minimums.items() if kept[key] < count}
        assert lowered == set(claim.relaxed_min_values)
        assert is_relaxed(case) or held or not lowered
        counts = catalog.counts(claim.requirements, kinds, held)
        assert all(counts[key] < catalog.minimums[key] for key in lowered)
        assert not held or not any(kept[key] for key in lowered)


@thorough
@given(case=CASES)
def test_law_17_the_launch_is_the_best_of_what_is_left(case: PlannedCase) -> None:
    for claim in case.plan.claims:
        offers = case.offers(claim)
        chosen = [pair for pair in offers if is_launch(claim, *pair)]
        assert chosen
        assert is_among(claim.launch, claim.choices)
        assert claim.fees == case.launched(claim).fee
        reserved = [pair for pair in offers if pair[1].reservation_id is not None]
        assert bool(claim.launch.reservation_id) == bool(reserved)
        left = in_question(case, claim, reserved or offers)
        # Whoever joined in a later round may have asked for types that nobody had asked for before.
        last = claim.round == max(each.round for each in case.plan.claims)
        if last or all(is_ordinary_type(kind, NO_REQUIREMENTS) for kind, _ in offers):
            assert chosen[0] in left
            costs = [as_bought(claim, *pair) for pair in left]
            best = as_bought(claim, *chosen[0])
            assert not [other for other in costs if is_better(other, best, costs)]


def in_question(
    case: PlannedCase, claim: PlannedNodeClaim, offers: list[tuple[InstanceType, Offering]]
) -> list[tuple[InstanceType, Offering]]:
    """Without bare metal and accelerators, unless they are required or the only types."""
    ordinary = [pair for pair in offers if is_ordinary_type(pair[0], claim.requirements)]
    names = {kind.name for kind, _ in ordinary}
    kinds = [kind for kind in case.kinds(claim) if kind.name in names]
    needed = not claim.launch.reservation_id and not satisfies_min_values(
        case.pool_catalogs[claim.pool], claim.requirements, kinds, ()
    )
    return offers if needed else ordinary or offers


def is_among(launch: PlannedLaunch, choices: RemainingOptions) -> bool:
    """No zone is listed where neither the claim nor any offering names one."""
    return (
        launch.instance_type in choices.instance_types
        and (launch.zone in choices.zones or (launch.zone is None and not choices.zones))
        and launch.capacity_type in choices.capacity_types
        and (not launch.reservation_id or launch.reservation_id in choices.reservation_ids)
    )


def as_bought(
    claim: PlannedNodeClaim, kind: InstanceType, offering: Offering
) -> tuple[bool, float]:
    """Whether the claim would get spot capacity by it, and the cost."""
    return launch_capacity_type(kind, offering, claim.requirements) == SPOT, hourly_cost(
        kind, offering
    )


def is_better(
    other: tuple[bool, float], chosen: tuple[bool, float], costs: list[tuple[bool, float]]
) -> bool:
    """Spot is for those to whom it is not dearer than on-demand; of one kind the cheaper wins."""
    if other[0] is chosen[0]:
        return other[1] < chosen[1]
    cheapest = min(amount for spot, amount in costs if not spot)
    return other[1] <= cheapest if other[0] else cheapest < chosen[1]


@thorough
@given(case=CASES)
def test_law_18_a_claim_is_of_the_heaviest_pool_that_could_open_a_node(case: PlannedCase) -> None:
    for claim in case.plan.claims:
        weight = case.pool_catalogs[claim.pool].pool.weight
        for catalog in case.pool_catalogs.values():
            if catalog.pool.weight > weight:
                types = types_always_within_limits(case, catalog)
                able = [could_open_first(case, catalog, pod, types) for pod in case.pods_of(claim)]
                # Who opened the claim is not told; those who joined may have come from elsewhere.
                assert not all(able)
                assert not case.options.strict_weights or not any(able)


@thorough
@given(case=CASES)
def test_law_19_no_reserved_instance_is_wrongly_idle(case: PlannedCase) -> None:
    idle = {name for name, count in case.free_instances.items() if count > 0}
    if not case.options.capacity_reservations:
        return
    for pod in case.unplaced:
        for catalog in case.pool_catalogs.values():
            assert not could_use(case, catalog, pod, idle, None)
    for claim in case.plan.claims:
        if claim.launch.reservation_id is None:
            weight = case.pool_catalogs[claim.pool].pool.weight
            for catalog in case.pool_catalogs.values():
                for pod in case.pods_of(claim) if catalog.pool.weight >= weight else ():
                    assert not could_use(case, catalog, pod, idle, claim)


@thorough
@given(case=CASES)
def test_law_20_an_unschedulable_pod_fits_nowhere(case: PlannedCase) -> None:
    idle = {name for name, count in case.free_instances.items() if count > 0}
    idle = idle if case.options.capacity_reservations else set()
    received = {placement.node: placement.pods for placement in case.plan.placements}
    for pod in (pod for pod in case.unplaced if not pod.unsupported):
        for node in schedulable_nodes(case.snapshot.nodes):
            pods = [*(case.pods[key] for key in received.get(node.name, ())), pod]
            welcome = any(is_node_compatible(node, pod, wanted) for wanted in pod.alternatives)
            assert not welcome or not fits_on_node(node, pods, case.snapshot.daemonsets)
        for claim in case.plan.claims:
            assert not could_join(case, claim, pod), claim.name
        for catalog in case.pool_catalogs.values():
            assert not any(
                new_node_options(case, catalog, pod, case.within_limits(catalog), idle)
            ), catalog.pool.name


def as_bytes(made: Plan) -> bytes:
    """Claims as they come; reasons have sets in them, which only some encodings put in order."""
    claims = msgspec.json.encode(made.claims, enc_hook=Requirements.entries)
    return claims + msgspec.json.encode(made, enc_hook=Requirements.entries, order="deterministic")


@thorough
@given(case=CASES)
def test_law_2_the_same_input_gives_the_same_bytes(case: PlannedCase) -> None:
    again = explained_plan(case.snapshot, case.planner_input.catalogs, case.options)
    assert as_bytes(again) == as_bytes(case.plan)


@thorough
@given(seed=SEEDS, order=SEEDS)
def test_law_21_input_order_does_not_matter(seed: int, order: int) -> None:
    planner_input = random_input(seed)
    other = shuffle_input(planner_input, order)
    first = explained_plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    assert as_bytes(explained_plan(other.snapshot, other.catalogs, other.options)) == as_bytes(
        first
    )


PRINT_PLANS = """
import sys
from tests.properties.test_plan_laws import as_bytes, explained_plan, random_input
for world in map(random_input, range(40)):
    sys.stdout.buffer.write(as_bytes(explained_plan(world.snapshot, world.catalogs, world.options)))
"""


def test_law_2_another_hash_seed_gives_the_same_bytes() -> None:
    one, other = (output_with_hash_seed(PRINT_PLANS, seed) for seed in ("1", "2"))
    assert one == other != b""
