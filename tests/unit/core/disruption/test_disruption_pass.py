"""Passes that go on from the one before: only what changed is looked at again."""

from typing import Any
from weakref import ref

import msgspec
import pytest
from tests.unit.core.disruption.test_commands import (
    WEB,
    node,
    pods,
    types,
    with_budget,
    with_disruption,
)

from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions
from wainwright.core.disruption.disruption_pass import DisruptionPass, FailedValidation
from wainwright.gc_pause import gc_paused
from wainwright.model.disruption import (
    Condition,
    DisruptionBudget,
    FailedStart,
    MinimumSaving,
    NodeClaimState,
    PodDisruptionBudget,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.pod import pod_selector
from wainwright.model.snapshot import Node, Pool, Snapshot

CATALOGS = {"web": InstanceTypeIndex(types())}
KEPT = node("b", "large", 3000, annotations={"karpenter.sh/do-not-disrupt": "true"})
NOTHING_SAVES_ENOUGH = DisruptionOptions(minimum_saving=MinimumSaving(fraction=2.0))


def look(
    snapshot: Snapshot,
    previous: DisruptionPass | None = None,
    options: DisruptionOptions = DisruptionOptions(),  # noqa: B008 - a frozen value
    **more: Any,
) -> DisruptionPass:
    given = DisruptionInput(snapshot=snapshot, catalogs=CATALOGS)
    current = DisruptionPass(given, options, previous, **more)
    current.find_command()
    return current


def at(now: float, *nodes: Node, pool: Pool = WEB, **fields: Any) -> Snapshot:
    return Snapshot(nodes=nodes, pools=(pool,), now=now, **fields)


def later(snapshot: Snapshot, now: float) -> Snapshot:
    return msgspec.structs.replace(snapshot, now=now)


def test_the_next_pass_sees_that_pods_have_gone() -> None:
    full, other = node("a", "medium", 1900), [node(f"n{n}", "huge", 7900) for n in range(10)]
    first = look(at(0.0, full, *other))
    assert first.find_command() is None
    emptier = msgspec.structs.replace(full, pods=pods("a", 900))
    second = look(at(1.0, emptier, *other), first)
    command = second.find_command()
    assert command is not None
    assert [each.name for each in command.candidates] == ["a"]


def test_room_elsewhere_frees_a_node_that_was_kept() -> None:
    small, other = node("a", "small", 900), [node(f"n{n}", "medium", 1900) for n in range(10)]
    first = look(at(0.0, small, *other))
    assert first.find_command() is None
    roomier = msgspec.structs.replace(other[0], pods=pods("n0", 1050))
    command = look(at(1.0, small, roomier, *other[1:]), first).find_command()
    assert command is not None
    assert ([each.name for each in command.candidates], command.replacements) == (["a"], ())


def test_a_pass_that_nobody_goes_on_from_is_freed_without_the_garbage_collector() -> None:
    """It is paused: each has a compiled cluster, and looking ahead makes dozens of passes."""
    with gc_paused():
        looked = look(at(0.0, node("a", "large", 100), node("b", "large", 100)))
        assert looked.find_command() is not None
        kept = ref(looked)
        del looked
        assert kept() is None


@pytest.mark.parametrize(("hour", "is_found"), [(1, False), (2, True)])
def test_a_budget_that_opens_ends_the_rest(hour: int, is_found: bool) -> None:
    closed = DisruptionBudget(nodes="0", schedule="0 0 * * *", duration=2 * 3600.0 - 60)
    snapshot = at(0.0, node("a", "large"), pool=with_budget(closed))
    first = look(snapshot)
    assert first.find_command() is None
    second = look(later(snapshot, hour * 3600.0), first)
    assert (second.find_command() is not None) is is_found


def test_a_protection_that_ends_ends_the_rest() -> None:
    protected = pods("a", 100, do_not_disrupt=600.0, started=0.0)
    snapshot = at(0.0, node("a", "large", pods=protected), KEPT)
    first = look(snapshot)
    assert first.find_command() is None
    assert look(later(snapshot, 599.0), first).find_command() is None
    assert look(later(snapshot, 601.0), first).find_command() is not None


def test_consolidate_after_ends_the_rest() -> None:
    settling = node("a", "large", claim=NodeClaimState(name="a", last_pod_event=0.0))
    snapshot = at(0.0, settling, pool=with_disruption(consolidate_after=300.0))
    first = look(snapshot)
    assert first.find_command() is None
    assert look(later(snapshot, 301.0), first).find_command() is not None


def test_a_destination_that_settles_ends_the_rest() -> None:
    claim = NodeClaimState(name="b", last_pod_event=0.0)
    fresh = node("b", "medium", 1000, claim=claim, annotations=KEPT.annotations)
    pool = with_disruption(consolidate_after=300.0)
    snapshot = at(0.0, node("a", "small", 900), fresh, pool=pool)
    first = look(snapshot)
    assert first.find_command() is None
    command = look(later(snapshot, 301.0), first).find_command()
    assert command is not None
    assert [move.target for move in command.moves()] == ["b"]


def test_what_a_disruption_costs_falls_with_the_remaining_lifetime() -> None:
    claim = NodeClaimState(name="a", created=0.0, expire_after=1000.0)
    snapshot = at(0.0, node("a", "medium", 1900, claim=claim))
    first = look(snapshot)
    [same] = look(later(snapshot, 5.0), first).candidates
    [later_one] = look(later(snapshot, 500.0), first).candidates
    assert same is first.candidates[0]
    assert (first.candidates[0].cost, later_one.cost) == (2.0, 1.5)


def test_another_status_of_a_pod_disruption_budget_is_noticed() -> None:
    labelled = tuple(msgspec.structs.replace(pod, labels={"app": "web"}) for pod in pods("a", 100))
    nodes = node("a", "large", pods=labelled), KEPT
    budget = PodDisruptionBudget(
        namespace="shop", name="web", selector=pod_selector({"app": "web"}), disruptions_allowed=0
    )
    first = look(at(0.0, *nodes, pod_disruption_budgets=(budget,)))
    assert first.find_command() is None
    allowed = msgspec.structs.replace(budget, disruptions_allowed=1)
    second = look(at(1.0, *nodes, pod_disruption_budgets=(allowed,)), first)
    assert second.find_command() is not None


def test_repetitions_are_bounded_and_the_next_pass_goes_on() -> None:
    nodes = [node(f"n{number:02}", "large", 900, 900) for number in range(20)]
    first = look(at(0.0, *nodes), options=NOTHING_SAVES_ENOUGH)
    assert first.is_complete
    nodes[0] = msgspec.structs.replace(nodes[0], pods=pods("n00", 900))
    snapshot = at(1.0, *nodes)
    passes = [first]
    options = msgspec.structs.replace(NOTHING_SAVES_ENOUGH, max_repetitions=8)
    for _ in range(3):
        passes.append(look(snapshot, passes[-1], options))
    assert [each.is_complete for each in passes] == [True, False, False, True]


def test_every_node_has_its_turn_while_pods_keep_going() -> None:
    """After the first change the last node could go, and every further one concerns all nodes."""
    others = [node(f"n{number:02}", "large", 2500, 50) for number in range(20)]
    last = node("z", "small", 100)
    going = (100, *[1] * 10)
    keeper = node("keeper", "huge", 7860, *going, annotations=KEPT.annotations)
    full = tuple(
        msgspec.structs.replace(each, allocatable={**each.allocatable, "cpu": 2560})
        for each in others
    )
    options = DisruptionOptions(max_repetitions=8)
    passes = [look(at(0.0, *full, last, keeper), options=options)]
    assert passes[0].find_command() is None
    while passes[-1].find_command() is None and len(passes) < 10:
        pods_left = (keeper.pods[0], *keeper.pods[1 + len(passes) :])
        changed = msgspec.structs.replace(keeper, pods=pods_left)
        passes.append(look(at(0.0, *full, last, changed), passes[-1], options))
    found = passes[-1].find_command()
    assert found is not None
    assert [each.name for each in found.candidates] == ["z"]
    assert len(passes) == 1 + 3  # eight of 21 nodes at a time


def test_nodes_that_a_budget_keeps_are_none_that_the_next_pass_goes_on_with() -> None:
    pool = with_budget(DisruptionBudget(nodes="0", schedule="@daily", duration=3600.0))
    nodes = [node(f"n{number:02}", "large", 900, 900) for number in range(20)]
    first = look(at(4000.0, *nodes, pool=pool), options=NOTHING_SAVES_ENOUGH)
    assert first.disruptable()
    nodes[0] = msgspec.structs.replace(nodes[0], pods=pods("n00", 900))
    closed = at(86_400.0, *nodes, pool=pool)
    second = look(closed, first, NOTHING_SAVES_ENOUGH)
    assert second.is_complete
    assert look(closed, second, NOTHING_SAVES_ENOUGH).is_at_rest


def test_a_paused_pool_replaces_no_drifted_node() -> None:
    drifted = NodeClaimState(name="a", conditions={"Drifted": Condition(status="True")})
    snapshot = at(0.0, node("a", "large", 900, claim=drifted))
    given = DisruptionInput(snapshot=snapshot, catalogs=CATALOGS)
    assert DisruptionPass(given).find_command() is not None
    paused = msgspec.structs.replace(given, paused=frozenset({"web"}))
    assert DisruptionPass(paused).find_command() is None


@pytest.mark.parametrize("kind", ["empty", "drifted", "underutilized"])
def test_a_node_of_which_a_command_could_not_be_begun_leaves_its_turn_to_others(kind: str) -> None:
    """Until then, and not longer: also where nothing else has changed."""
    cpus = () if kind == "empty" else (900,)
    claims = {
        name: NodeClaimState(
            name=name,
            conditions={"Drifted": Condition(status="True")} if kind == "drifted" else {},
        )
        for name in "ab"
    }
    nodes = [node(name, "large", *cpus, claim=claim) for name, claim in claims.items()]
    options = DisruptionOptions(max_nodes=1)
    given = DisruptionInput(snapshot=at(0.0, *nodes), catalogs=CATALOGS)
    first = DisruptionPass(given, options)
    waiting = FailedStart(name="a", until=60.0, message="refused")
    refused = msgspec.structs.replace(given, snapshot=at(10.0, *nodes), failed_starts=(waiting,))
    second = DisruptionPass(refused, options, first)
    third = DisruptionPass(
        msgspec.structs.replace(given, snapshot=at(60.0, *nodes)), options, second
    )
    found = [each.find_command() for each in (first, second, third)]
    assert [each.candidates[0].name for each in found if each is not None] == ["a", "b", "a"]
    assert second.next_change == 60.0


def test_con_15_a_command_holds_only_while_budgets_allow_all_its_nodes() -> None:
    nodes = [node(name, "huge", 900) for name in "abc"]
    command = look(at(0.0, *nodes)).find_command()
    assert command is not None
    assert len(command.candidates) > 1
    now = look(at(15.0, *nodes, pool=with_budget(DisruptionBudget(nodes="1"))))
    assert now.confirm(command) is FailedValidation.BUDGET


def test_con_15_a_command_takes_no_more_nodes_than_one_may_take_when_it_is_carried_out() -> None:
    """The breaker may leave less room than it did fifteen seconds before."""
    fewer = DisruptionOptions(max_nodes=2)
    full = [node(name, "huge", 900) for name in "abc"]
    command = look(at(0.0, *full)).find_command()
    assert command is not None
    assert [each.name for each in command.candidates] == ["a", "b", "c"]
    assert look(at(15.0, *full), options=fewer).confirm(command) is FailedValidation.BUDGET
    empty = [node(name, "huge") for name in "abc"]
    command = look(at(0.0, *empty)).find_command()
    assert command is not None
    kept = look(at(15.0, *empty), options=fewer).confirm(command)
    assert isinstance(kept, Command)
    assert [each.name for each in kept.candidates] == ["a", "b"]


def test_con_15_a_command_holds_only_while_all_its_types_can_be_launched() -> None:
    snapshot = at(0.0, node("a", "huge", 900))
    given = DisruptionInput(snapshot=snapshot, catalogs=CATALOGS)
    command = DisruptionPass(given).find_command()
    assert command is not None
    assert command.replacements[0].choices.instance_types == ("large", "medium", "small")
    assert isinstance(DisruptionPass(given).confirm(command), Command)
    fewer = InstanceTypeIndex([each for each in types() if each.name != "medium"])
    now = DisruptionPass(DisruptionInput(snapshot=snapshot, catalogs={"web": fewer}))
    assert now.confirm(command) is FailedValidation.COMMAND
