"""Commands: which nodes go, what replaces them, where their pods go."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.support.model_builders import instance_type, offering, spread_constraint

from wainwright.core.disruption.candidates import DO_NOT_DISRUPT
from wainwright.core.disruption.commands import Command, Outcome
from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions, Method
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.model.disruption import (
    Condition,
    DisruptionBudget,
    MinimumSaving,
    NodeClaimState,
    NodePoolDisruption,
)
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    RESERVATION_ID,
    ZONE,
)
from wainwright.model.plan import ClusterLimits, PlanOptions
from wainwright.model.pod import EvictionFacts, HostPort, Pod, PodConstraints
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot

SIZES = {"small": (1000, 0.1), "medium": (2000, 0.2), "large": (4000, 0.4), "huge": (8000, 0.8)}
UNLIMITED_BUDGET = (DisruptionBudget(nodes="100%"),)
PROTECTED = {"do_not_disrupt": True}
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


@pytest.mark.parametrize("cpus", [(), (10,)])
def test_a_command_takes_at_most_a_hundred_nodes(cpus: tuple[int, ...]) -> None:
    keeper = node("keeper", "huge", 10, annotations={"karpenter.sh/do-not-disrupt": "true"})
    roomy = {"cpu": 8000, "memory": 2**40, "pods": 500}
    keeper = msgspec.structs.replace(keeper, allocatable=roomy)
    command = found(keeper, *(node(f"n{number:03}", "small", *cpus) for number in range(120)))
    assert len(command.candidates) == 100


@pytest.mark.parametrize(
    ("budget", "max_nodes", "waiting"),
    [("100%", 2, ["c", "d"]), ("3", 2, ["c"]), ("2", 2, []), ("100%", 3, ["d"]), ("100%", 4, [])],
)
@pytest.mark.parametrize("cpus", [(), (900,)])
def test_nodes_that_a_full_command_has_no_room_for_wait_as_far_as_budgets_allow(
    cpus: tuple[int, ...], budget: str, max_nodes: int, waiting: list[str]
) -> None:
    nodes = (
        *(node(name, "small", *(100 for _ in cpus)) for name in "abcd"),
        node("z", "huge", 1000, facts=PROTECTED),
    )
    snapshot = Snapshot(nodes=nodes, pools=(with_budget(DisruptionBudget(nodes=budget)),), now=0.0)
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex(types())})
    looked = DisruptionPass(given, DisruptionOptions(max_nodes=max_nodes))
    command = looked.find_command()
    assert command is not None
    assert [each.name for each in looked.waiting_for_room(command)] == waiting


def test_a_drifted_node_with_pods_does_not_wait_for_the_size_of_a_command() -> None:
    nodes = (
        node("a", "small", 900, claim=drifted_claim("a")),
        node("b", "small", 900, claim=drifted_claim("b")),
    )
    snapshot = Snapshot(nodes=nodes, pools=(WEB,), now=0.0)
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex(types())})
    looked = DisruptionPass(given, DisruptionOptions(max_nodes=1))
    command = looked.find_command()
    assert command is not None
    assert command.method is Method.DRIFT
    assert looked.waiting_for_room(command) == []


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


def test_a_large_set_does_not_hide_a_smaller_one_that_saves_more() -> None:
    nodes = (node("a", "small", 600), node("b", "small", 900), node("c", "huge", 1200))
    command = found(*nodes, methods=(Method.MULTI_NODE,))
    assert names(command) == ["a", "c"]
    assert [claim.launch.instance_type for claim in command.replacements] == ["medium"]


def test_several_nodes_become_one_at_once() -> None:
    command = found(*(node(name, "large", 1200) for name in "abc"))
    assert (command.method, names(command)) == (Method.MULTI_NODE, ["a", "b"])
    assert command.replacements == ()


def test_a_limit_of_nodes_above_all_that_can_be_counted_is_no_limit() -> None:
    command = found(*(node(name, "large", 1200) for name in "abc"), max_nodes=2**63)
    assert (command.method, names(command)) == (Method.MULTI_NODE, ["a", "b"])


def test_a_node_that_costs_nothing_is_not_emptied_for_it() -> None:
    free = instance_type(
        name="free",
        capacity={"cpu": 1000, "memory": 2**36, "pods": 50},
        labels={INSTANCE_TYPE: "free"},
        offerings=(offering(price=0.0),),
    )
    labels = {INSTANCE_TYPE: "free", ZONE: "zone-a", CAPACITY_TYPE: "on-demand"}
    nodes = node("a", "small", 100, labels=labels), node("b", "small", 500, facts=PROTECTED)
    snapshot = Snapshot(nodes=nodes, pools=(WEB,), now=0.0)
    catalogs = {"web": InstanceTypeIndex([*types(), free])}
    given = DisruptionInput(snapshot=snapshot, catalogs=catalogs)
    assert DisruptionPass(given).find_command() is None


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


def with_disruption(**fields: Any) -> Pool:
    disruption = NodePoolDisruption(budgets=UNLIMITED_BUDGET, **fields)
    return msgspec.structs.replace(WEB, disruption=disruption)


@pytest.mark.parametrize(
    ("minimum", "is_enough"),
    [
        (MinimumSaving(amount=0.69), True),
        (MinimumSaving(amount=0.71), False),
        (MinimumSaving(fraction=0.8), True),
        (MinimumSaving(fraction=0.9), False),
    ],
)
def test_a_move_must_save_as_much_as_the_setting_or_its_pool_says(
    minimum: MinimumSaving, is_enough: bool
) -> None:
    oversized = node("a", "huge", 900)  # 0.8 becomes 0.1
    assert (find(oversized, minimum_saving=minimum) is not None) is is_enough
    assert (find(oversized, pool=with_disruption(minimum_saving=minimum)) is not None) is is_enough


def test_what_a_pool_says_counts_before_the_setting() -> None:
    pool = with_disruption(minimum_saving=MinimumSaving(amount=0.1))
    assert find(node("a", "huge", 900), pool=pool, minimum_saving=MinimumSaving(amount=9.0))


def test_a_minimum_saving_does_not_keep_empty_or_drifted_nodes() -> None:
    minimum = MinimumSaving(amount=9.0)
    assert names(found(node("a", "small"), minimum_saving=minimum)) == ["a"]
    drifted = node("b", "small", 900, claim=drifted_claim("b"))
    assert found(drifted, minimum_saving=minimum).method is Method.DRIFT


def test_balanced_keeps_a_node_that_saves_little_for_what_it_disturbs() -> None:
    balanced = with_disruption(policy="Balanced")
    crowded = node("a", "large", *[100] * 19)  # 0.4 becomes 0.2, nearly all evictions of the pool
    full = [node(name, "huge", 7900) for name in "bcd"]
    assert find(crowded, *full) is not None
    assert find(crowded, *full, pool=balanced) is None
    assert find(crowded, *full, pool=balanced, balanced_k=50.0) is not None


def drifted_claim(name: str, **fields: Any) -> NodeClaimState:
    return NodeClaimState(name=name, conditions={"Drifted": Condition(status="True")}, **fields)


def test_a_node_may_be_split_only_where_that_is_allowed() -> None:
    """One 0.8 node with two pods of 1900 that exclude each other becomes two of 0.2."""
    port = PodConstraints(ports=(HostPort(port=80),))
    apart = tuple(msgspec.structs.replace(pod, constraints=port) for pod in pods("a", 1900, 1900))
    huge = node("a", "huge", pods=apart)
    assert find(huge) is None
    command = found(huge, allow_split=True)
    assert [claim.launch.instance_type for claim in command.replacements] == ["medium", "medium"]
    assert round(command.saving, 6) == 0.4
    assert sorted(move.target for move in command.moves()) == sorted(
        claim.name for claim in command.replacements
    )


def test_a_split_that_costs_as_much_is_none() -> None:
    port = PodConstraints(ports=(HostPort(port=80),))
    apart = tuple(msgspec.structs.replace(pod, constraints=port) for pod in pods("a", 1900, 1900))
    assert find(node("a", "large", pods=apart), allow_split=True) is None


def test_types_that_would_cost_as_much_together_are_not_left_to_a_split() -> None:
    """0.1 * 0.8 / 0.2 is a little more than 0.4, the price of the large type."""
    port = PodConstraints(ports=(HostPort(port=80),))
    apart = tuple(msgspec.structs.replace(pod, constraints=port) for pod in pods("a", 900, 900))
    command = found(node("a", "huge", pods=apart), allow_split=True)
    left = [claim.choices.instance_types for claim in command.replacements]
    assert left == [("medium", "small"), ("medium", "small")]


def test_pods_that_may_not_be_evicted_are_not_replaced_when_a_drifted_node_must_end() -> None:
    """With a termination grace period drift goes on; the protected pod ends with its node."""
    protected = pods("a", 1500, do_not_disrupt=True)
    others = pods("a2", 900)
    claim = drifted_claim("a", termination_grace_period=60.0)
    command = found(node("a", "large", pods=(*protected, *others), claim=claim))
    [replacement] = command.replacements
    assert (replacement.launch.instance_type, replacement.pods) == ("small", ("shop/a2-0",))
    unbounded = node("a", "large", pods=(*protected, *others), claim=drifted_claim("a"))
    assert find(unbounded) is None


def test_what_a_command_removes_does_not_count_against_the_limits_of_its_pool() -> None:
    limited = msgspec.structs.replace(WEB, limits={"cpu": 8000}, in_use={"cpu": 8000})
    command = found(node("a", "huge", 900), pool=limited)
    assert [claim.launch.instance_type for claim in command.replacements] == ["small"]


def test_limits_that_one_removal_gives_back_are_not_those_of_another() -> None:
    """Where a pod like this had no place before, because of the limit, it is tried again."""
    limited = msgspec.structs.replace(WEB, limits={"cpu": 8000}, in_use={"cpu": 8000})
    other = Pool(name="other", unusable="static")
    apart = PodConstraints(ports=(HostPort(port=80),))
    first, second = (
        tuple(msgspec.structs.replace(pod, constraints=apart) for pod in pods(name, 900))
        for name in "ab"
    )
    nodes = (node("a", "huge", pods=first), node("b", "small", pool="other", pods=second))
    snapshot = Snapshot(nodes=nodes, pools=(limited, other), now=1000.0)
    index = InstanceTypeIndex(types())
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": index, "other": index})
    looked = DisruptionPass(given)
    replaced, stuck = looked.candidates
    assert looked.outcome(stuck) is Outcome.LIMITS
    assert isinstance(looked.outcome(replaced), Command)


def test_limits_of_the_cluster_stop_a_replacement() -> None:
    limits = PlanOptions(cluster_limits=ClusterLimits(nodes=1))
    assert find(node("a", "huge", 900), plan=limits) is None


def reserved_input(available: int) -> DisruptionInput:
    """A drifted node in a reservation, of a pool that launches nothing else."""
    reserved = offering(
        capacity_type="reserved", price=0.001, available=available, reservation_id="cr-1"
    )
    kind = instance_type(
        name="large",
        capacity={"cpu": 4000, "memory": 2**36, "pods": 50},
        labels={INSTANCE_TYPE: "large"},
        offerings=(reserved,),
    )
    labels = {
        INSTANCE_TYPE: "large",
        ZONE: "zone-a",
        CAPACITY_TYPE: "reserved",
        RESERVATION_ID: "cr-1",
        HOSTNAME: "a",
    }
    only = node("a", "large", 900, labels=labels, reservation_id="cr-1", claim=drifted_claim("a"))
    snapshot = Snapshot(nodes=(only,), pools=(WEB,), now=1000.0)
    return DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex([kind])})


def test_a_drifted_node_in_a_full_reservation_goes_first_only_with_the_gate() -> None:
    full = DisruptionPass(reserved_input(0))
    assert full.find_command() is None
    [blocker] = full.other_blockers(full.candidates[0])
    assert (blocker.kind, blocker.name) == ("reservation", "cr-1")
    assert blocker.code.text == "pods-would-be-pending"
    gated = DisruptionPass(reserved_input(0), DisruptionOptions(terminate_first_drift=True))
    command = gated.find_command()
    assert command is not None
    assert command.terminate_first
    assert [claim.launch.reservation_id for claim in command.replacements] == ["cr-1"]


def test_with_room_in_the_reservation_the_replacement_comes_first() -> None:
    command = DisruptionPass(
        reserved_input(1), DisruptionOptions(terminate_first_drift=True)
    ).find_command()
    assert command is not None
    assert not command.terminate_first


def test_one_stuck_node_does_not_spoil_the_others() -> None:
    """The best-ranked node cannot go; the other eight still go at once."""
    stuck = node("stuck", "huge", 7900)
    small = [node(f"n{number}", "large", 400) for number in range(9)]
    command = found(stuck, *small)
    assert (command.method, len(command.candidates)) == (Method.MULTI_NODE, 8)
    assert command.replacements == ()


def test_nodes_that_cannot_go_alone_are_merged_into_one_larger_node() -> None:
    """Three pods that fit nowhere else share one new node, which is cheaper than their three."""
    cheap_huge = [
        *types(),
        instance_type(
            name="cheap-huge",
            capacity={"cpu": 8000, "memory": 2**36, "pods": 50},
            labels={INSTANCE_TYPE: "cheap-huge"},
            offerings=(offering(price=0.45),),
        ),
    ]
    nodes = [node(name, "medium", 1900) for name in "abc"]
    snapshot = Snapshot(nodes=tuple(nodes), pools=(WEB,), now=1000.0)
    catalogs = {"web": InstanceTypeIndex(cheap_huge)}
    command = DisruptionPass(DisruptionInput(snapshot=snapshot, catalogs=catalogs)).find_command()
    assert command is not None
    assert (command.method, names(command)) == (Method.MULTI_NODE, ["a", "b", "c"])
    assert [claim.launch.instance_type for claim in command.replacements] == ["cheap-huge"]


def test_the_set_that_saves_most_per_disruption_goes_before_one_that_saves_more() -> None:
    """Three nodes of each pool become one: 0.75 saved with 60 evictions, or 0.15 with three."""
    cheap = instance_type(
        name="cheap-huge",
        capacity={"cpu": 9000, "memory": 2**36, "pods": 100},
        labels={INSTANCE_TYPE: "cheap-huge"},
        offerings=(offering(price=0.45),),
    )
    crowded, calm = (msgspec.structs.replace(WEB, name=name, labels={"t": name}) for name in "ab")

    def of_pool(pool: Pool, made: Node) -> Node:
        only = (Requirements.from_labels(pool.labels),)
        moved = tuple(msgspec.structs.replace(pod, alternatives=only) for pod in made.pods)
        labels = {**made.labels, **pool.labels}
        return msgspec.structs.replace(made, pool=pool.name, labels=labels, pods=moved)

    nodes = [of_pool(crowded, node(f"a{n}", "large", *[140] * 20)) for n in range(3)]
    nodes += [of_pool(calm, node(f"b{n}", "medium", 1900)) for n in range(3)]
    index = InstanceTypeIndex([*types(), cheap])
    snapshot = Snapshot(nodes=tuple(nodes), pools=(crowded, calm), now=1000.0)
    given = DisruptionInput(snapshot=snapshot, catalogs={"a": index, "b": index})
    command = DisruptionPass(given).find_command()
    assert command is not None
    assert (command.method, names(command)) == (Method.MULTI_NODE, ["b0", "b1", "b2"])
    assert (round(command.saving, 6), command.evictions) == (0.15, 3)


def test_a_node_that_is_coming_up_counts_in_a_spread_although_nothing_moves_there() -> None:
    row, web = "example.com/row", {"app": "web"}

    def row_node(name: str, size: str, value: str, *cpus: int, **fields: Any) -> Node:
        made = node(name, size, *cpus, **fields)
        spread = [
            msgspec.structs.replace(pod, labels=web, constraints=spread_constraint(row))
            if pod.requests["cpu"] == 100
            else pod
            for pod in made.pods
        ]
        return msgspec.structs.replace(made, labels={**made.labels, row: value}, pods=tuple(spread))

    launched = NodeClaimState(name="c", conditions={"Launched": Condition(status="True")})
    coming = row_node("c", "large", "r1", initialized=False, claim=launched)
    staying = row_node("b", "large", "r2", 100, 900, annotations={DO_NOT_DISRUPT: "true"})
    # The large pod needs a new node, for which the domains are looked at once more.
    assert find(row_node("a", "huge", "r1", 3900, 100), staying, coming) is None


def spread_over_rows(*pods_by_row: int, **spread: Any) -> list[Node]:
    """A node for each row, with so many pods of 500; no NodePool launches nodes of rows."""
    row, web = "example.com/row", {"app": "web"}
    constraints = spread_constraint(row, **spread)
    made = [node(f"n{n}", "large", *[500] * count) for n, count in enumerate(pods_by_row)]
    return [
        msgspec.structs.replace(
            each,
            labels={**each.labels, row: each.name},
            pods=tuple(
                msgspec.structs.replace(pod, labels=web, constraints=constraints)
                for pod in each.pods
            ),
        )
        for each in made
    ]


@pytest.mark.parametrize("is_drifted", [False, True])
@pytest.mark.parametrize(
    ("counts", "spread", "goes"),
    [
        ((2, 2, 2), {}, False),
        ((2, 2, 2), {"max_skew": 2}, False),
        ((2, 2, 2), {"max_skew": 3}, True),
        ((0, 0, 1), {}, True),
        ((2, 2, 2), {"required": False}, True),
        ((2, 2, 2), {"honor_taints": True}, True),
    ],
)
def test_the_last_node_of_a_domain_stays_where_its_pods_would_wait_until_it_is_gone(
    counts: tuple[int, ...], spread: dict[str, Any], goes: bool, is_drifted: bool
) -> None:
    """The kube-scheduler counts its domain while it is drained, and the other domains are full."""
    nodes = spread_over_rows(*counts, **spread)
    claim = drifted_claim("n2") if is_drifted else None
    others = [msgspec.structs.replace(each, pods=each.pods) for each in nodes[:2]]
    last = msgspec.structs.replace(nodes[2], claim=claim)
    method = Method.DRIFT if is_drifted else Method.SINGLE_NODE
    given = DisruptionInput(
        snapshot=Snapshot(nodes=(*others, last), pools=(WEB,), now=1000.0),
        catalogs={"web": InstanceTypeIndex(types())},
    )
    looked = DisruptionPass(given, DisruptionOptions(methods=(method,)))
    candidate = looked.candidates[2]
    outcome = looked.outcome(candidate)
    if is_drifted:
        assert (looked.find_command() is not None) is goes
    elif not goes:
        assert outcome is Outcome.PODS_WOULD_BE_PENDING
    else:
        assert isinstance(outcome, Command)


def test_limits_are_the_reason_where_they_keep_the_last_node_of_a_zone() -> None:
    """Without them a new node could have its domain: then the spread itself asks for one."""
    rows = spread_over_rows(2, 2, 2)
    snapshot = Snapshot(nodes=tuple(rows), pools=(WEB,), now=1000.0)
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex(types())})
    limits = PlanOptions(cluster_limits=ClusterLimits(nodes=3))
    looked = DisruptionPass(given, DisruptionOptions(plan=limits))
    assert looked.outcome(looked.candidates[2]) is Outcome.LIMITS


def test_of_two_sets_that_are_equal_the_one_with_the_first_candidates_goes() -> None:
    """Pods of a and c need the same host port, so that either goes with b, for the same saving."""
    port = PodConstraints(ports=(HostPort(port=80, protocol="TCP", address=""),))
    a, b, c = (node(name, "small", 500) for name in "abc")
    nodes = [
        msgspec.structs.replace(
            each, pods=tuple(msgspec.structs.replace(pod, constraints=port) for pod in each.pods)
        )
        for each in (a, c)
    ]
    keeper = node("keeper", "huge", 10, annotations={DO_NOT_DISRUPT: "true"})
    command = found(keeper, b, *nodes, methods=(Method.MULTI_NODE,))
    assert (names(command), command.replacements) == (["a", "b"], ())


@pytest.mark.parametrize(
    ("is_virtual", "kept_room", "is_replaced"),
    [(True, 1500, False), (True, 1400, True), (False, 1500, True)],
    ids=["the buffer has room for it", "too little room", "room of a real pod"],
)
def test_no_reserved_node_is_launched_for_a_pod_that_may_take_the_room_of_a_buffer(
    is_virtual: bool, kept_room: int, is_replaced: bool
) -> None:
    """It would stay empty, and the buffer need a node as dear as the one that is gone."""
    keeper = node("keeper", "large", 4000 - kept_room, annotations={DO_NOT_DISRUPT: "true"})
    other = Pod(namespace="shop", name="other", requests={"cpu": kept_room}, virtual=is_virtual)
    keeper = msgspec.structs.replace(keeper, pods=(*keeper.pods, other))
    reserved = offering(price=0.0, capacity_type="reserved", reservation_id="cr-1", available=1)
    medium = msgspec.structs.replace(types()[1], offerings=(offering(price=0.2), reserved))
    snapshot = Snapshot(nodes=(keeper, node("a", "medium", 1500)), pools=(WEB,), now=1000.0)
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex([medium])})
    command = DisruptionPass(given, DisruptionOptions()).find_command()
    replaced = (
        [] if command is None else [each.launch.reservation_id for each in command.replacements]
    )
    assert replaced == (["cr-1"] if is_replaced else [])
