"""Repair that replaces first: which nodes are due, in which order, and what stops it."""

from typing import Any

import msgspec
import pytest
from tests.unit.core.disruption.test_commands import WEB, node, types

from wainwright.core.disruption.budgets import DisruptionReason, evaluate_budgets
from wainwright.core.disruption.candidates import DO_NOT_DISRUPT
from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import (
    VOLUNTARY_METHODS,
    DisruptionInput,
    DisruptionOptions,
    Method,
)
from wainwright.core.disruption.disruption_pass import SLICE, DisruptionPass
from wainwright.core.disruption.repair import DO_NOT_REPAIR, RepairBlock, check_repair_policies
from wainwright.model.disruption import (
    Condition,
    DisruptionBudget,
    FailedStart,
    NodeClaimState,
    NodePoolDisruption,
    RepairPolicy,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import PlanOptions
from wainwright.model.pod import HostPort, Pod, PodConstraints
from wainwright.model.snapshot import STATIC_POOL, Node, Pool, Snapshot
from wainwright.model.taints import Taint

NOW = 100_000.0
NOT_READY = RepairPolicy(condition="Ready", status="False", toleration=600.0)
REPAIR = (Method.REPAIR,)


def sick(name: str, *cpus: int, size: str = "medium", for_: float = 900.0, **fields: Any) -> Node:
    """A node that has been NotReady for so many seconds."""
    kind = fields.pop("kind", "Ready")
    stated = Condition(status="False", since=NOW - for_, reason=fields.pop("reason", "Broken"))
    claim = fields.pop("claim", NodeClaimState(name=f"claim-{name}"))
    return node(name, size, *cpus, conditions={kind: stated}, claim=claim, **fields)


def well(count: int, *cpus: int, size: str = "medium") -> list[Node]:
    """Enough others for one sick node to be few."""
    return [node(f"w{number}", size, *cpus) for number in range(count)]


def look(*nodes: Node, pool: Pool = WEB, policies: Any = (NOT_READY,), **options: Any) -> Any:
    snapshot = Snapshot(nodes=nodes, pools=(pool,), now=NOW)
    given = DisruptionInput(
        snapshot=snapshot,
        catalogs={"web": InstanceTypeIndex(types())},
        repair_policies=tuple(policies),
    )
    return DisruptionPass(given, DisruptionOptions(methods=REPAIR, **options))


def repaired(*nodes: Node, **more: Any) -> list[str]:
    command = look(*nodes, **more).find_command()
    return [] if command is None else [each.name for each in command.candidates]


def blocks(*nodes: Node, **more: Any) -> dict[str, RepairBlock | None]:
    return {each.candidate.name: each.block for each in look(*nodes, **more).repairs.due}


def with_budgets(*budgets: DisruptionBudget, **fields: Any) -> Pool:
    return msgspec.structs.replace(WEB, disruption=NodePoolDisruption(budgets=budgets), **fields)


def test_h1_a_sick_node_is_replaced_by_a_simulation_of_all_its_pods() -> None:
    protected = {"do_not_disrupt": True}
    claim = NodeClaimState(name="claim-a", termination_grace_period=60.0)
    broken = sick("a", 1500, facts=protected, claim=claim)
    command = look(broken, *well(4, 1900)).find_command()
    assert isinstance(command, Command)
    assert (command.method, command.reason) == (Method.REPAIR, "Unhealthy")
    assert [claim.pods for claim in command.replacements] == [("shop/a-0",)], "blocked ones too"


@pytest.mark.parametrize(("limit", "expected"), [(13_000, []), (14_000, ["a"]), (None, ["a"])])
def test_a_node_that_needs_two_replacements_is_kept_where_they_may_be_beyond_a_limit(
    limit: int | None, expected: list[str]
) -> None:
    """The second is planned for when the first has become a medium one; it may become a large."""
    alone = PodConstraints(ports=(HostPort(port=80),))
    moved = (
        Pod(namespace="shop", name=name, requests={"cpu": 1500}, constraints=alone)
        for name in ("a-0", "a-1")
    )
    broken = sick("a", pods=tuple(moved))
    limits = {} if limit is None else {"cpu": limit}
    pool = msgspec.structs.replace(WEB, limits=limits, in_use={"cpu": 10_000})
    command = look(broken, *well(4, 1900), pool=pool).find_command()
    assert ([] if command is None else [each.name for each in command.candidates]) == expected
    assert command is None or len(command.replacements) == 2


def test_h1_an_empty_node_is_deleted_outright_and_one_goes_at_a_time() -> None:
    command = look(sick("a"), sick("b"), *well(10)).find_command()
    assert isinstance(command, Command)
    assert ([each.name for each in command.candidates], command.replacements) == (["a"], ())


def test_h2_do_not_disrupt_on_the_node_does_not_keep_it_and_do_not_repair_does() -> None:
    others = well(4)
    assert repaired(sick("a", annotations={DO_NOT_DISRUPT: "true"}), *others) == ["a"]
    kept = sick("a", annotations={DO_NOT_REPAIR: "true"})
    assert repaired(kept, *others) == []
    assert blocks(kept, *others) == {"a": RepairBlock.DO_NOT_REPAIR}
    assert repaired(sick("a", annotations={DO_NOT_REPAIR: "false"}), *others) == ["a"]


def test_h2_do_not_repair_is_reported_once_the_toleration_has_passed_and_before_all_else() -> None:
    annotations = {DO_NOT_REPAIR: "true"}
    assert blocks(sick("a", for_=599.0, annotations=annotations), *well(4)) == {}
    many = [sick(name, annotations=annotations) for name in "abc"]
    assert set(blocks(*many).values()) == {RepairBlock.DO_NOT_REPAIR}, "although there are many"


@pytest.mark.parametrize(
    ("bound", "grace", "expected"),
    [(None, None, None), (1200.0, 300.0, 300.0), (1200.0, None, 1200.0), (0.0, 300.0, 0.0)],
)
def test_h3_pods_stop_it_unless_the_drain_is_bounded(
    bound: float | None, grace: float | None, expected: float | None
) -> None:
    claim = NodeClaimState(name="claim-a", termination_grace_period=grace)
    broken = sick("a", 100, facts={"do_not_disrupt": True}, claim=claim)
    policy = msgspec.structs.replace(NOT_READY, drain_bound=bound)
    looked = look(broken, *well(4), policies=[policy])
    command = looked.find_command()
    if expected is None:
        assert command is None
        assert [each.block for each in looked.repairs.due] == [RepairBlock.BLOCKED]
    else:
        assert command is not None
        assert [each.drain_bound for each in command.candidates] == [expected]


def test_h4_budgets_pace_it_and_nodes_that_are_not_ready_do_not_use_them_up() -> None:
    one = with_budgets(DisruptionBudget(nodes="1"))
    assert repaired(sick("a"), sick("b"), *well(10), pool=one) == ["a"]
    going = node("gone", "medium", deleting=True)
    assert repaired(sick("a"), going, *well(10), pool=one) == [], "one is being deleted"
    pool, nodes = one, [sick("a"), *well(4)]
    for reason, allowed in ((DisruptionReason.UNHEALTHY, 1), (DisruptionReason.DRIFTED, 0)):
        assert evaluate_budgets(pool, nodes, reason, NOW).allowed == allowed


def test_h4_a_node_that_never_came_up_needs_no_budget_but_must_have_registered() -> None:
    none = with_budgets(DisruptionBudget(nodes="0"))
    claim = NodeClaimState(name="c", conditions={"Initialized": Condition(status="False")})
    starting = sick("a", claim=claim, initialized=False)
    assert repaired(starting, *well(4), pool=none) == ["a"]
    unregistered = (Taint(key="karpenter.sh/unregistered", effect="NoExecute"),)
    assert (
        repaired(msgspec.structs.replace(starting, taints=unregistered), *well(4), pool=none) == []
    )
    assert repaired(sick("a"), *well(4), pool=none) == []


@pytest.mark.parametrize(("unhealthy", "total", "is_stopped"), [(3, 10, True), (1, 3, False)])
def test_h5_more_than_a_fifth_of_a_pool_stops_it(
    unhealthy: int, total: int, is_stopped: bool
) -> None:
    """Those that are still tolerated count."""
    nodes = [sick(f"s{number}", for_=900.0 if not number else 60.0) for number in range(unhealthy)]
    found = blocks(*nodes, *well(total - unhealthy))
    assert found == {"s0": RepairBlock.TOO_MANY if is_stopped else None}


def test_h6_a_policy_for_a_reason_silences_the_fallback_also_while_it_waits() -> None:
    slow = RepairPolicy(condition="Ready", status="False", toleration=7200.0, reason="^Disk")
    others = well(9)
    assert repaired(sick("a", reason="DiskPressure"), *others, policies=[NOT_READY, slow]) == []
    assert repaired(sick("a", reason="Other"), *others, policies=[NOT_READY, slow]) == ["a"]


def test_h6_an_expression_is_found_anywhere_in_the_reason() -> None:
    slow = RepairPolicy(condition="Ready", status="False", toleration=7200.0, reason="Disk")
    broken = sick("a", reason="KubeletHasDiskPressure")
    assert repaired(broken, *well(9), policies=[NOT_READY, slow]) == []


def test_h5_claims_whose_node_has_not_joined_do_not_count() -> None:
    """Two of five are too many, and would not be among ten."""
    starting = [node(f"s{number}", "medium", joined=False) for number in range(5)]
    sick_nodes = [sick("a"), sick("b")]
    assert blocks(*sick_nodes, *well(3), *starting) == dict.fromkeys("ab", RepairBlock.TOO_MANY)
    assert blocks(*sick_nodes, *well(8)) == dict.fromkeys("ab")


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ([NOT_READY, NOT_READY], "2 policies without a reason"),
        ([msgspec.structs.replace(NOT_READY, reason="Disk")], "0 policies without a reason"),
        ([msgspec.structs.replace(NOT_READY, priority=101)], "not 0 to 100"),
        ([NOT_READY, msgspec.structs.replace(NOT_READY, reason="(")], "is not an expression"),
    ],
)
def test_h6_sets_that_cannot_be_meant_are_refused(policies: list[RepairPolicy], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_repair_policies(policies)


def test_h7_the_toleration_counts_from_the_transition_the_creation_or_the_last_reboot() -> None:
    others = well(9)
    assert repaired(sick("a", for_=601.0), *others) == ["a"]
    assert repaired(sick("a", for_=599.0), *others) == []
    assert repaired(sick("a", created=NOW - 300.0), *others) == []
    ended = Condition(status="False", since=NOW - 300.0)
    rebooted = NodeClaimState(name="c", conditions={"Rebooting": ended})
    assert repaired(sick("a", claim=rebooted, initialized=True), *others) == []


def test_h8_urgency_is_rank_of_priority_and_time_past_toleration() -> None:
    high = RepairPolicy(condition="Disk", status="False", toleration=0.0, priority=90)
    low = RepairPolicy(condition="Ready", status="False", toleration=0.0, priority=10)
    waited = sick("low", for_=5 * 1800.0)
    urgent = sick("high", for_=3 * 1800.0, kind="Disk")
    looked = look(waited, urgent, *well(18), policies=[high, low])
    assert [(each.candidate.name, each.urgency) for each in looked.repairs.due] == [
        ("low", 5.0),
        ("high", 4.0),
    ]
    assert [each.name for each in looked.find_command().candidates] == ["low"]


def test_h8_ties_go_by_disruption_cost_and_then_by_name() -> None:
    nodes = [sick("c"), sick("b"), sick("a", 100, 100)]
    found = look(*nodes, *well(18)).repairs.due
    assert [each.candidate.name for each in found] == ["b", "c", "a"]


def test_h9_claims_without_a_pool_are_left_alone() -> None:
    assert repaired(sick("a", pool="other", managed=True), *well(9)) == []


@pytest.mark.parametrize(
    ("replicas", "limit", "gate", "expected"),
    [
        (5, 6, False, (["a"], 1, False)),
        (5, 5, False, ([], 0, False)),
        (5, 5, True, (["a"], 0, True)),
        (4, 6, False, ([], 0, False)),
    ],
)
def test_h9_static_pools_replace_one_for_one_within_their_limit(
    replicas: int, limit: int, gate: bool, expected: tuple[list[str], int, bool]
) -> None:
    """At the limit only terminate-first helps; one that has too many nodes waits."""
    pool = with_budgets(
        DisruptionBudget(nodes="100%"),
        replicas=replicas,
        limits={"nodes": limit},
        unusable=STATIC_POOL,
    )
    options = {"plan": PlanOptions(static_capacity=True), "terminate_first_repair": gate}
    command = look(sick("a"), *well(4), pool=pool, **options).find_command()
    found: tuple[list[str], int, bool] = ([], 0, False)
    if command is not None:
        names = [each.name for each in command.candidates]
        found = (names, len(command.replacements), command.terminate_first)
    assert found == expected


def test_h11_a_node_that_is_rebooted_is_no_candidate_and_uses_up_every_budget() -> None:
    rebooting = Condition(status="True")
    stated = {"Rebooting": rebooting, "Initialized": Condition(status="True")}
    claim = NodeClaimState(name="c", conditions=stated)
    node_ = sick("a", claim=claim, initialized=True)
    assert repaired(node_, *well(9)) == []
    empty = node("e", "medium", claim=claim, initialized=True)
    snapshot = Snapshot(nodes=(empty,), pools=(WEB,), now=NOW)
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex(types())})
    assert DisruptionPass(given).find_command() is None
    one = with_budgets(DisruptionBudget(nodes="1"))
    for reason in DisruptionReason:
        assert evaluate_budgets(one, [empty, *well(3)], reason, NOW).allowed == 0


def test_h1_repair_does_not_wait_until_every_node_has_been_simulated() -> None:
    """It is the first method: the long part of a look is for savings."""
    others = well(3 * SLICE, 1500)
    methods = tuple(Method)
    snapshot = Snapshot(nodes=(sick("a", 900), *others), pools=(WEB,), now=NOW)
    given = DisruptionInput(
        snapshot=snapshot,
        catalogs={"web": InstanceTypeIndex(types())},
        repair_policies=(NOT_READY,),
    )
    looked = DisruptionPass(given, DisruptionOptions(methods=methods))
    assert len(list(looked.prepare())) == 0
    command = looked.find_command()
    assert command is not None
    assert command.method is Method.REPAIR
    voluntary = DisruptionPass(given, DisruptionOptions(methods=VOLUNTARY_METHODS))
    assert len(list(voluntary.prepare())) == 3


def test_a_repair_that_could_not_be_begun_lets_others_be_repaired_first() -> None:
    """Nothing keeps the node from being drained, so that nobody is told so."""
    snapshot = Snapshot(nodes=(sick("a", for_=9000.0), sick("b"), *well(9)), pools=(WEB,), now=NOW)
    given = DisruptionInput(
        snapshot=snapshot,
        catalogs={"web": InstanceTypeIndex(types())},
        repair_policies=(NOT_READY,),
        failed_starts=(FailedStart(name="a", until=NOW + 60.0, message="refused"),),
    )
    looked = DisruptionPass(given, DisruptionOptions(methods=REPAIR))
    command = looked.find_command()
    assert command is not None
    assert [each.name for each in command.candidates] == ["b"]
    assert [each.block for each in looked.repairs.due] == [None, None]


def test_paused_pools_are_repaired_and_not_disrupted_otherwise() -> None:
    snapshot = Snapshot(nodes=(sick("a"), *well(9, 1000)), pools=(WEB,), now=NOW)
    given = DisruptionInput(
        snapshot=snapshot,
        catalogs={"web": InstanceTypeIndex(types())},
        repair_policies=(NOT_READY,),
        paused=frozenset({"web"}),
    )
    looked = DisruptionPass(given, DisruptionOptions(methods=tuple(Method)))
    command = looked.find_command()
    assert command is not None
    assert command.method is Method.REPAIR
    assert DisruptionPass(given).find_command() is None
