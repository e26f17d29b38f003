"""Commands: which nodes go, what replaces them, where their pods go."""

from collections.abc import Sequence
from typing import Any

import msgspec
from tests.support.model_builders import instance_type, offering

from wainwright.core.disruption.commands import (
    Command,
    DisruptionInput,
    DisruptionOptions,
    DisruptionPass,
    Method,
)
from wainwright.model.disruption import (
    Condition,
    DisruptionBudget,
    NodeClaimState,
    NodePoolDisruption,
)
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from wainwright.model.pod import EvictionFacts, Pod
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot

SIZES = {"small": (1000, 0.1), "medium": (2000, 0.2), "large": (4000, 0.4), "huge": (8000, 0.8)}
UNLIMITED_BUDGET = (DisruptionBudget(nodes="100%"),)
WEB = Pool(name="web", disruption=NodePoolDisruption(budgets=UNLIMITED_BUDGET))


def types() -> list[InstanceType]:
    return [
        instance_type(
            name=name,
            capacity={"cpu": cpu, "memory": 2**36, "pods": 50},
            labels={INSTANCE_TYPE: name},
            offerings=(offering(price=price),),
        )
        for name, (cpu, price) in SIZES.items()
    ]


def pods(node: str, *cpus: int, **facts: Any) -> tuple[Pod, ...]:
    return tuple(
        Pod(
            namespace="shop",
            name=f"{node}-{number}",
            requests={"cpu": cpu},
            eviction=EvictionFacts(**facts),
        )
        for number, cpu in enumerate(cpus)
    )


def node(
    name: str, size: str, *cpus: int, facts: dict[str, Any] | None = None, **fields: Any
) -> Node:
    capacity = {"cpu": SIZES[size][0], "memory": 2**36, "pods": 50}
    labels = {INSTANCE_TYPE: size, ZONE: "zone-a", CAPACITY_TYPE: "on-demand", HOSTNAME: name}
    return Node(
        **{
            "name": name,
            "pool": "web",
            "labels": labels,
            "allocatable": capacity,
            "capacity": capacity,
            "pods": pods(name, *cpus, **facts or {}),
        }
        | fields
    )


def find(
    *nodes: Node,
    pool: Pool = WEB,
    pending: Sequence[Pod] = (),
    methods: tuple[Method, ...] = tuple(Method),
    **options: Any,
) -> Command | None:
    snapshot = Snapshot(nodes=nodes, pools=(pool,), pods=tuple(pending), now=1000.0)
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex(types())})
    return DisruptionPass(given, DisruptionOptions(methods=methods, **options)).find_command()


def found(*nodes: Node, **more: Any) -> Command:
    command = find(*nodes, **more)
    assert command is not None
    return command


def names(command: Command) -> list[str]:
    return sorted(candidate.name for candidate in command.candidates)


def with_budget(*budgets: DisruptionBudget) -> Pool:
    return msgspec.structs.replace(WEB, disruption=NodePoolDisruption(budgets=budgets))


def test_empty_nodes_go_together_and_first() -> None:
    command = found(node("a", "huge"), node("b", "small"), node("c", "large", 100))
    assert (command.method, command.reason) == (Method.EMPTINESS, "Empty")
    assert names(command) == ["a", "b"]
    assert (round(command.saving, 6), command.evictions) == (0.9, 0)


def test_an_empty_node_that_a_pending_pod_will_use_stays() -> None:
    waiting = pods("waiting", 3900)
    assert find(node("a", "large"), pending=waiting) is None


def test_a_node_whose_pods_fit_elsewhere_is_deleted() -> None:
    command = found(node("a", "large", 100), node("b", "large", 3000))
    assert (names(command), command.replacements) == (["a"], ())
    [move] = command.moves()
    assert (move.pod, move.source, move.target) == ("shop/a-0", "a", "b")


def test_a_node_that_is_too_large_is_replaced_by_a_cheaper_one() -> None:
    command = found(node("a", "huge", 900))
    [replacement] = command.replacements
    assert (command.method, replacement.launch.instance_type) == (Method.SINGLE_NODE, "small")
    assert round(command.saving, 6) == 0.7
    [move] = command.moves()
    assert move.target == replacement.name


def test_several_nodes_become_one_at_once() -> None:
    command = found(*(node(name, "large", 1200) for name in "abc"))
    assert (command.method, names(command)) == (Method.MULTI_NODE, ["a", "b"])
    assert command.replacements == ()


def test_a_full_node_is_kept() -> None:
    assert find(node("a", "small", 900), node("b", "medium", 1900)) is None


def test_a_node_whose_pods_need_two_nodes_is_kept_unless_it_has_drifted() -> None:
    condition = {"Drifted": Condition(status="True")}
    cpus = (3900, 3900)
    consolidation = (Method.MULTI_NODE, Method.SINGLE_NODE)
    assert find(node("a", "huge", *cpus), pool=_without("huge"), methods=consolidation) is None
    drifted = node("a", "huge", *cpus, claim=NodeClaimState(name="a", conditions=condition))
    command = found(drifted, pool=_without("huge"))
    assert (command.method, len(command.replacements)) == (Method.DRIFT, 2)
    assert sorted(each.launch.instance_type for each in command.replacements) == ["large", "large"]


def _without(name: str) -> Pool:
    required = Requirements.from_entries([(INSTANCE_TYPE, "NotIn", (name,), None)])
    return msgspec.structs.replace(WEB, requirements=required)


def test_empty_drifted_nodes_go_together_before_others() -> None:
    def claim(since: float) -> NodeClaimState:
        conditions = {"Drifted": Condition(status="True", since=since)}
        return NodeClaimState(name="c", conditions=conditions)

    nodes = [node("a", "small", 900, claim=claim(1.0)), node("b", "small", claim=claim(2.0))]
    nodes.append(node("c", "small", claim=claim(3.0)))
    command = found(*nodes, methods=(Method.DRIFT,))
    assert names(command) == ["b", "c"]
    full = [node("a", "small", 900, claim=claim(2.0)), node("b", "small", 900, claim=claim(1.0))]
    assert names(found(*full, methods=(Method.DRIFT,))) == ["b"]


def test_budgets_limit_a_command() -> None:
    nodes = [node(name, "small") for name in "abcd"]
    assert names(found(*nodes, pool=with_budget(DisruptionBudget(nodes="2")))) == ["a", "b"]
    assert find(*nodes, pool=with_budget(DisruptionBudget(nodes="0"))) is None
    ignored = found(*nodes, pool=with_budget(DisruptionBudget(nodes="0")), ignore_budgets=True)
    assert len(ignored.candidates) == 4


def test_an_immovable_node_does_not_use_up_the_budget() -> None:
    """The most expensive node cannot go; with a budget of one the next one does."""
    nodes = (node("a", "huge", 7900), node("b", "large", 100), node("c", "large", 2000))
    command = found(*nodes, pool=with_budget(DisruptionBudget(nodes="1")))
    assert names(command) == ["b"]


def test_a_blocked_node_stays_and_takes_pods() -> None:
    protected = node("a", "large", 100, facts={"do_not_disrupt": True})
    command = found(protected, node("b", "large", 100))
    assert names(command) == ["b"]
    assert [move.target for move in command.moves()] == ["a"]


def test_pods_are_not_moved_to_a_node_that_is_still_starting() -> None:
    starting = node(
        "a",
        "large",
        initialized=False,
        claim=NodeClaimState(name="a", conditions={"Initialized": Condition(status="False")}),
    )
    command = found(starting, node("b", "huge", 900))
    assert [each.launch.instance_type for each in command.replacements] == ["small"]


def test_a_pending_pod_elsewhere_keeps_no_node() -> None:
    waiting = pods("waiting", 7900)
    command = found(node("a", "large", 100), node("b", "large", 3000), pending=waiting)
    assert names(command) == ["a"]
