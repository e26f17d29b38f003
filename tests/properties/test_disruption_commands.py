"""Every command of every preview keeps the rules, by a checker that shares no code with what
decides; and the cluster comes to rest.

`DISRUPTION_CLUSTERS=5000` looks at that many clusters (`make disruption-clusters`).
"""

import os
from random import Random

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.disruption_checker import (
    CheckedCluster,
    CheckedCommand,
    CheckedRules,
    check_sequence,
    count_moves,
)
from tests.support.random_inputs.disruptable import DisruptableCluster, random_disruptable_cluster
from tests.support.random_inputs.unconstrained import PlannerInput

from wainwright.core.disruption.commands import Command, Outcome
from wainwright.core.disruption.disruption_input import (
    LOOK_AHEAD_NODES,
    DisruptionInput,
    DisruptionOptions,
    ReplacementRules,
)
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.freeing_changes import ChangeFinder, RemovalTrial, without_rule
from wainwright.core.disruption.preview import DisruptionPreview, preview_disruption
from wainwright.model.disruption import MinimumSaving
from wainwright.model.labels import INSTANCE_TYPE
from wainwright.model.requirements import Requirements, parse_requirement
from wainwright.model.snapshot import NODES_LIMIT

CLUSTERS = int(os.environ.get("DISRUPTION_CLUSTERS", "250"))
SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller cluster
STEPS = 60


def options_for(seed: int, cluster: PlannerInput) -> DisruptionOptions:
    """Settings that differ from cluster to cluster."""
    rng = Random(f"options {seed}")
    return DisruptionOptions(
        plan=cluster.options,
        rules=ReplacementRules(
            spot_to_spot=rng.random() < 0.6, spot_to_spot_types=rng.choice((1, 2, 3))
        ),
        max_nodes=rng.choice((2, 100, 100)),
        minimum_saving=MinimumSaving(fraction=rng.choice((0.0, 0.0, 0.1))),
        ignore_budgets=rng.random() < 0.2,
        allow_split=rng.random() < 0.3,
        terminate_first_drift=rng.random() < 0.3,
        look_ahead=rng.choice((0, 0, 100, LOOK_AHEAD_NODES)),
    )


def disruption_input(made: DisruptableCluster, cluster: PlannerInput) -> DisruptionInput:
    return DisruptionInput(
        snapshot=cluster.snapshot, catalogs=cluster.catalogs, offered=made.offered
    )


def previewed(seed: int) -> tuple[DisruptableCluster, DisruptionOptions, DisruptionPreview]:
    made = random_disruptable_cluster(seed)
    options = options_for(seed, made.cluster)
    found = preview_disruption(disruption_input(made, made.cluster), options, STEPS)
    return made, options, found


@settings(max_examples=CLUSTERS, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_every_command_keeps_the_rules_and_the_end_is_at_rest(seed: int) -> None:
    made, options, found = previewed(seed)
    start = CheckedCluster.start(made.cluster, CheckedRules.of(options), made.offered)
    commands = [CheckedCommand.of(command) for command in found.commands]
    complaints, end = check_sequence(start, commands)
    assert complaints == []
    assert found.settled, "a cluster that does not come to rest"
    assert end.price == pytest.approx(found.price_after)
    assert end.removable_empty_nodes() == []
    if not start.nominated:  # once pending pods are bound, their nodes are as free as others
        again = preview_disruption(disruption_input(made, end.cluster), options, 1)
        assert again.commands == ()


@settings(max_examples=CLUSTERS // 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_what_a_command_says_of_itself_is_so(seed: int) -> None:
    made, options, found = previewed(seed)
    cluster = CheckedCluster.start(made.cluster, CheckedRules.of(options), made.offered)
    for command in found.commands:
        checked = CheckedCommand.of(command)
        prices = [cluster.price_of(cluster.nodes[name]) or 0.0 for name in checked.nodes]
        assert command.price_before == pytest.approx(sum(prices))
        assert len(checked.targets()) <= command.evictions
        moves = {(move.pod, move.target): move.source for move in command.moves()}
        assert moves.keys() == set(checked.targets())
        for (pod, _), source in moves.items():
            assert pod in {each.key for each in cluster.nodes[source].pods}
        cluster = cluster.after(checked)


@settings(max_examples=CLUSTERS // 5, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_deciding_anew_after_every_command_leads_nowhere_twice_and_comes_to_rest(seed: int) -> None:
    """As a control loop does it, which remembers no sequence."""
    made = random_disruptable_cluster(seed)
    options = options_for(seed, made.cluster)
    start = CheckedCluster.start(made.cluster, CheckedRules.of(options), made.offered)
    if start.nominated:  # of a later look nobody would know for whom a node was launched
        return
    cluster, commands = start, list[CheckedCommand]()
    for _ in range(STEPS):
        found = DisruptionPass(disruption_input(made, cluster.cluster), options).find_command()
        if found is None:
            break
        commands.append(CheckedCommand.of(found))
        assert cluster.complaints(commands[-1]) == []
        cluster = cluster.after(commands[-1])
    assert len(commands) < STEPS
    assert check_sequence(start, commands)[0] == []


@settings(max_examples=CLUSTERS // 5, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_looking_ahead_never_moves_more_pods_for_less(seed: int) -> None:
    made = random_disruptable_cluster(seed)
    options = options_for(seed, made.cluster)
    ahead, one_by_one = (
        preview_disruption(
            disruption_input(made, made.cluster), msgspec.structs.replace(options, look_ahead=nodes)
        )
        for nodes in (LOOK_AHEAD_NODES, 0)
    )
    moves, others = (
        count_moves(map(CheckedCommand.of, each.commands)) for each in (ahead, one_by_one)
    )
    repeated, of_others = moves.total() - len(moves), others.total() - len(others)
    assert (
        ahead.price_after <= one_by_one.price_after + 1e-9
        or moves.total() + repeated < others.total() + of_others
    )


@settings(max_examples=CLUSTERS // 5, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_what_was_simulated_before_does_not_change_what_a_removal_comes_to(seed: int) -> None:
    """A pass that has looked at everything and one that looks at this node alone agree."""
    made = random_disruptable_cluster(seed)
    options = options_for(seed, made.cluster)
    given_input = disruption_input(made, made.cluster)
    used = DisruptionPass(given_input, options)
    used.find_command()
    for number, candidate in enumerate(used.candidates[:4]):
        if not candidate.node.deleting:
            fresh = DisruptionPass(given_input, options)
            assert used.outcome(candidate) == fresh.outcome(fresh.candidates[number])


def test_the_clusters_are_not_all_alike() -> None:
    """Every method is used often, with and without a replacement, and much is blocked."""
    methods: dict[tuple[str, bool], int] = {}
    codes: set[str] = set()
    for seed in range(400):
        _, _, found = previewed(seed)
        codes |= {outcome.code for outcome in found.outcomes}
        for command in found.commands:
            kind = (command.method.value, bool(command.replacements))
            methods[kind] = methods.get(kind, 0) + 1
    assert {kind for kind, count in methods.items() if count >= 4} == {
        ("emptiness", False),
        ("drift", False),
        ("drift", True),
        ("multi-node", False),
        ("multi-node", True),
        ("single-node", False),
        ("single-node", True),
    }
    assert codes >= {
        "balanced-score",
        "budget",
        "consolidate-after",
        "deleting",
        "do-not-disrupt-node",
        "do-not-disrupt-pod",
        "expired",
        "min-saving",
        "min-values",
        "needs-several-nodes",
        "no-saving",
        "nominated",
        "not-initialized",
        "pdb",
        "pods-would-be-pending",
        "policy",
        "spot-to-spot",
        "static-pool",
        "unknown-price",
    }


@settings(max_examples=CLUSTERS // 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_what_a_rule_holds_back_could_be_saved_without_it(seed: int) -> None:
    """The checker accepts the removal in the cluster without the rules, at the saving that the
    verdict states; and a single rule has a change that frees the node.
    """
    made = random_disruptable_cluster(seed)
    cluster, options = with_rules(seed, made.cluster)
    found = preview_disruption(disruption_input(made, cluster), options, 0)
    finder = ChangeFinder(found.state, options)
    for outcome in found.outcomes:
        rules = [Outcome(each.code.text) for each in outcome.rules]
        if not rules:
            continue
        name, given_without, options_without = outcome.candidate.name, found.state, options
        for rule in rules:
            given_without, options_without = without_rule(
                rule, given_without, options_without
            ) or pytest.fail(f"{rule} is no rule")
        command = RemovalTrial(given_without, options_without).of(name)
        assert isinstance(command, Command)
        assert command.saving == pytest.approx(outcome.saving)
        changed = msgspec.structs.replace(cluster, snapshot=given_without.snapshot)
        start = CheckedCluster.start(changed, CheckedRules.of(options_without), made.offered)
        assert start.complaints(CheckedCommand.of(command)) == []
        if len(rules) == 1:
            change = finder.rule_change(outcome.candidate, rules[0])
            assert change is not None
            assert change.saving > 0


def with_rules(seed: int, cluster: PlannerInput) -> tuple[PlannerInput, DisruptionOptions]:
    """The cluster with rules that many nodes are kept by."""
    rng = Random(f"rules {seed}")
    several = parse_requirement(INSTANCE_TYPE, "Exists", min_values=rng.choice((2, 3, 4)))
    pools = tuple(
        msgspec.structs.replace(
            pool,
            requirements=pool.requirements.narrow(Requirements([several]))
            if rng.random() < 0.5
            else pool.requirements,
            limits={NODES_LIMIT: 1} if rng.random() < 0.4 else pool.limits,
            disruption=msgspec.structs.replace(
                pool.disruption,
                policy=rng.choice(("WhenEmptyOrUnderutilized",) * 3 + ("Balanced",)),
            ),
        )
        for pool in cluster.snapshot.pools
    )
    options = msgspec.structs.replace(
        options_for(seed, cluster),
        rules=ReplacementRules(spot_to_spot=rng.random() < 0.4, spot_to_spot_types=4),
        minimum_saving=MinimumSaving(fraction=rng.choice((0.0, 0.6))),
        look_ahead=0,
    )
    snapshot = msgspec.structs.replace(cluster.snapshot, pools=pools)
    return msgspec.structs.replace(cluster, snapshot=snapshot), options
