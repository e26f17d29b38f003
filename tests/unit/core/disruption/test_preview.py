"""What disruption would do, until nothing is left to do."""

from typing import Any

import msgspec
import pytest
from tests.support.model_builders import instance_type, offering
from tests.unit.core.disruption.test_commands import WEB, node, types, with_budget

from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions
from wainwright.core.disruption.preview import DisruptionPreview, preview_disruption
from wainwright.model.disruption import (
    Condition,
    DisruptionBudget,
    NodeClaimState,
    PodDisruptionBudget,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, ZONE, ZONE_ID
from wainwright.model.plan import ClusterLimits, PlanOptions
from wainwright.model.pod import Pod, pod_selector
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import STATIC_POOL, Node, Pool, Snapshot
from wainwright.model.taints import NO_SCHEDULE, Taint


def preview(
    *nodes: Node, pool: Pool = WEB, steps: int = 1000, pending: tuple[Pod, ...] = (), **options: Any
) -> DisruptionPreview:
    snapshot = Snapshot(nodes=nodes, pools=(pool,), pods=pending, now=1000.0)
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex(types())})
    return preview_disruption(given, DisruptionOptions(**options), steps)


def fates(found: DisruptionPreview) -> dict[str, tuple[str, str]]:
    return {each.candidate.name: (each.fate.value, each.code) for each in found.outcomes}


def test_commands_follow_one_another_until_nothing_is_left() -> None:
    found = preview(node("a", "huge"), node("b", "huge", 900), node("c", "large", 3900))
    assert [command.method.value for command in found.commands] == ["emptiness", "single-node"]
    assert found.settled
    assert (round(found.price_before, 6), round(found.price_after, 6)) == (2.0, 0.5)
    assert fates(found) == {
        "a": ("removed", "empty"),
        "b": ("replaced", "underutilized"),
        "c": ("kept", "no-saving"),
    }


def test_the_second_look_at_what_it_leads_to_finds_nothing() -> None:
    found = preview(*(node(name, "large", 1200) for name in "abcdef"))
    again = preview_disruption(
        DisruptionInput(snapshot=found.after, catalogs={"web": InstanceTypeIndex(types())})
    )
    assert (again.commands, again.settled) == ((), True)


def test_the_number_of_steps_can_be_limited() -> None:
    found = preview(node("a", "huge"), node("b", "huge", 900), steps=1)
    assert (len(found.commands), found.settled) == (1, False)


def test_names_of_replacements_are_new() -> None:
    taints = (Taint(key="dedicated", effect=NO_SCHEDULE),)
    nodes = [node(name, "huge", 900, taints=taints) for name in ("web-1", "web-3")]
    found = preview(*nodes)
    names = [claim.name for command in found.commands for claim in command.replacements]
    assert len(names) == len(set(names)) >= 1
    assert not {"web-1", "web-3"}.intersection(names)


def test_what_blocks_holds_back_dollars() -> None:
    protected = node("a", "huge", 100, facts={"do_not_disrupt": True})
    full = node("b", "large", 3900, facts={"do_not_disrupt": True})
    found = preview(protected, full)
    assert fates(found) == {
        "a": ("blocked", "do-not-disrupt-pod"),
        "b": ("blocked", "do-not-disrupt-pod"),
    }
    held = [(each.kind.value, each.name, round(each.saving, 6)) for each in found.held]
    assert held == [("pod", "shop/a-0", 0.8), ("pod", "shop/b-0", 0.4)]


def test_nodes_that_go_or_start_anyway_hold_nothing_back() -> None:
    starting = NodeClaimState(name="c", conditions={"Initialized": Condition(status="False")})
    found = preview(
        node("a", "huge", deleting=True),
        node("b", "huge", initialized=False, claim=starting),
        node("c", "huge", annotations={"karpenter.sh/do-not-disrupt": "true"}),
    )
    assert {name: code for name, (_, code) in fates(found).items()} == {
        "a": "deleting",
        "b": "not-initialized",
        "c": "do-not-disrupt-node",
    }
    assert [(each.name, each.nodes, each.saving) for each in found.held] == [
        ("karpenter.sh/do-not-disrupt", 1, 0.8)
    ]


def test_a_budget_that_allows_nothing_holds_back_too() -> None:
    found = preview(node("a", "huge", 900), pool=with_budget(DisruptionBudget(nodes="0")))
    assert fates(found) == {"a": ("blocked", "budget")}
    assert [(each.kind.value, each.name) for each in found.held] == [("budget", "web")]


def test_an_expired_node_goes_without_a_command_and_its_pods_are_planned() -> None:
    claim = NodeClaimState(name="c", created=0.0, expire_after=500.0)
    found = preview(node("a", "small", 900, claim=claim))
    assert (found.commands, fates(found)) == ((), {"a": ("removed", "expired")})
    assert [each.labels[INSTANCE_TYPE] for each in found.after.nodes if not each.deleting] == [
        "small"
    ]
    assert round(found.price_after, 6) == 0.1  # of the new node alone


def test_a_pod_that_could_not_be_placed_again_keeps_its_node() -> None:
    found = preview(node("a", "large", 100), msgspec.structs.replace(node("b", "huge", 9000)))
    assert fates(found)["b"] == ("kept", "pods-would-be-pending")


def test_the_instance_of_a_removed_reserved_node_can_be_used_again() -> None:
    """A move to the small reservation frees the large one, which then takes the other's pods."""

    def reserved(name: str, cpu: int, price: float, free: int) -> Any:
        made = offering(
            capacity_type="reserved", price=price, available=free, reservation_id=f"cr-{name}"
        )
        return instance_type(
            name=name,
            capacity={"cpu": cpu, "memory": 2**36, "pods": 50},
            labels={INSTANCE_TYPE: name},
            offerings=(made,),
        )

    on_demand = instance_type(
        name="od",
        capacity={"cpu": 8000, "memory": 2**36, "pods": 50},
        labels={INSTANCE_TYPE: "od"},
        offerings=(offering(price=1.0),),
    )
    index = InstanceTypeIndex(
        [reserved("tiny", 1000, 1e-7, 1), reserved("big", 8000, 8e-7, 0), on_demand]
    )
    labels = {INSTANCE_TYPE: "big", CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-big"}
    held = node("a", "huge", 900, labels={ZONE: "zone-a", **labels}, reservation_id="cr-big")
    paid = node(
        "b", "huge", 7900, labels={INSTANCE_TYPE: "od", ZONE: "zone-a", CAPACITY_TYPE: "on-demand"}
    )
    snapshot = Snapshot(nodes=(held, paid), pools=(WEB,), now=0.0)
    found = preview_disruption(DisruptionInput(snapshot=snapshot, catalogs={"web": index}))
    ids = [claim.launch.reservation_id for c in found.commands for claim in c.replacements]
    assert sorted(str(each) for each in ids) == ["cr-big", "cr-tiny"]
    assert found.price_after < 1e-5


@pytest.mark.parametrize(("launched", "available"), [(True, 2), (False, 1)])
def test_only_a_launched_node_gives_its_reserved_instance_back(
    launched: bool, available: int
) -> None:
    """The count of a reservation knows nothing of a node that is planned only."""
    free = offering(capacity_type="reserved", price=1e-7, available=1, reservation_id="cr-1")
    made = instance_type(
        name="big",
        capacity={"cpu": 8000, "memory": 2**36, "pods": 50},
        labels={INSTANCE_TYPE: "big"},
        offerings=(free,),
    )
    labels = {INSTANCE_TYPE: "big", CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-1"}
    empty = node(
        "a",
        "huge",
        labels={ZONE: "zone-a", **labels},
        reservation_id="cr-1",
        launched=launched,
        initialized=True,
    )
    snapshot = Snapshot(nodes=(empty,), pools=(WEB,), now=0.0)
    catalogs = {"web": InstanceTypeIndex([made])}
    found = preview_disruption(DisruptionInput(snapshot=snapshot, catalogs=catalogs))
    assert len(found.commands) == 1
    assert found.catalogs["web"].types[0].offerings[0].available == available


def static_pool(**fields: Any) -> Pool:
    """A NodePool that keeps three nodes."""
    return msgspec.structs.replace(WEB, replicas=3, unusable=STATIC_POOL, **fields)


def drifted_node(name: str) -> Node:
    claim = NodeClaimState(name=name, conditions={"Drifted": Condition(status="True")})
    return node(name, "small", 500, claim=claim)


STATIC = PlanOptions(static_capacity=True)


def test_drifted_nodes_of_a_static_pool_are_replaced_by_its_template() -> None:
    nodes = [drifted_node("a"), drifted_node("b"), node("c", "small", 500)]
    found = preview(*nodes, pool=static_pool(), plan=STATIC)
    [command] = found.commands
    assert (command.method.value, command.reason.value) == ("static-drift", "Drifted")
    assert sorted(each.name for each in command.candidates) == ["a", "b"]
    assert len(command.replacements) == 2
    assert sorted(move.pod for move in command.moves()) == ["shop/a-0", "shop/b-0"]
    assert sum(each.pool == "web" for each in found.after.nodes) == 3
    assert fates(found)["c"] == ("blocked", "static-pool")


def test_static_drift_needs_its_gate_room_in_the_limit_and_the_budget() -> None:
    nodes = [drifted_node("a"), drifted_node("b"), node("c", "small", 500)]
    ungated = preview(*nodes, pool=static_pool())
    assert (ungated.commands, fates(ungated)["a"][1]) == ((), "static-pool")
    limited = preview(*nodes, pool=static_pool(limits={"nodes": 4}), plan=STATIC, steps=1)
    assert [len(command.candidates) for command in limited.commands] == [1]
    full = preview(*nodes, pool=static_pool(limits={"nodes": 3}), plan=STATIC)
    assert full.commands == ()
    budget = with_budget(DisruptionBudget(nodes="1")).disruption
    paced = preview(*nodes, pool=static_pool(disruption=budget), plan=STATIC, steps=1)
    assert [len(command.candidates) for command in paced.commands] == [1]


def test_static_drift_waits_while_there_are_too_many_nodes() -> None:
    nodes = [drifted_node(name) for name in "abcd"]
    assert preview(*nodes, pool=static_pool(), plan=STATIC).commands == ()


def test_empty_nodes_of_a_static_pool_stay() -> None:
    nodes = [node(name, "small") for name in "abc"]
    assert preview(*nodes, pool=static_pool(), plan=STATIC).commands == ()


def test_a_replacement_with_few_types_is_warned_of() -> None:
    found = preview(node("a", "huge", 900))
    [warning] = found.warnings
    [replacement] = found.commands[0].replacements
    assert (warning.code, warning.step, warning.count) == ("few-types", 1, 3)
    assert warning.node == replacement.name


def test_all_replicas_on_one_spot_node_are_warned_of() -> None:
    """Two replicas come together on the spot node; a third elsewhere would be a warning less."""
    spot = {INSTANCE_TYPE: "large", ZONE: "zone-a", CAPACITY_TYPE: "spot"}
    owned = {"owner": "ReplicaSet/web"}
    kept = {"karpenter.sh/do-not-disrupt": "true"}
    target = node("b", "large", 900, facts=owned, labels=spot, annotations=kept)
    found = preview(node("a", "large", 900, facts=owned), target)
    assert [(each.code, each.node, each.count, each.workload) for each in found.warnings] == [
        ("replicas-together", "b", 2, "shop/ReplicaSet/web")
    ]
    third = node("c", "large", 900, facts=owned, annotations=kept)
    assert preview(node("a", "large", 900, facts=owned), target, third).warnings == ()


def test_limits_of_the_cluster_are_the_reason_of_a_kept_node() -> None:
    """Its pod fits nowhere else, and no node may be added."""
    limited = PlanOptions(cluster_limits=ClusterLimits(nodes=1))
    assert fates(preview(node("a", "huge", 900), plan=limited))["a"] == ("kept", "limits")


def test_a_node_that_the_next_step_would_take_is_kept_with_its_reason() -> None:
    found = preview(node("a", "huge"), node("b", "huge", 900), steps=1)
    assert fates(found)["b"] == ("kept", "underutilized")


def test_a_replacement_has_a_value_of_every_label_that_its_pool_requires() -> None:
    """Else it would count as drifted at once, and be replaced for ever."""
    wanted = Requirements.from_entries(
        [
            ("example.com/row", "In", ("r1", "r2"), None),
            (ZONE_ID, "In", ("use1-az1", "use1-az2"), None),
        ]
    )
    kinds = [
        instance_type(
            name=name,
            capacity={"cpu": cpu, "memory": 2**36, "pods": 50},
            labels={INSTANCE_TYPE: name},
            offerings=(offering(price=price, labels={ZONE_ID: "use1-az1"}),),
        )
        for name, cpu, price in (("small", 1000, 0.1), ("huge", 8000, 0.8))
    ]
    labels = node("a", "huge").labels | {"example.com/row": "r2", ZONE_ID: "use1-az1"}
    snapshot = Snapshot(
        nodes=(node("a", "huge", 900, labels=labels),),
        pools=(msgspec.structs.replace(WEB, requirements=wanted),),
        now=1000.0,
    )
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex(kinds)})
    found = preview_disruption(given, steps=5)
    assert [command.method.value for command in found.commands] == ["single-node"]
    [after] = found.after.nodes
    assert (after.labels["example.com/row"], after.labels[ZONE_ID]) == ("r1", "use1-az1")


def test_a_pending_pod_is_not_healthy_for_its_budget_in_any_step() -> None:
    """The allowance is that of the input, in which the second pod does not run."""
    web = {"app": "web"}
    running = [msgspec.structs.replace(pod, labels=web) for pod in node("a", "huge", 900).pods]
    waiting = [msgspec.structs.replace(pod, labels=web) for pod in node("w", "huge", 7500).pods]
    budget = PodDisruptionBudget(
        namespace="shop", name="web", selector=pod_selector(web), min_available=1
    )
    snapshot = Snapshot(
        nodes=(node("a", "huge", pods=tuple(running)), node("b", "huge")),
        pools=(WEB,),
        pods=tuple(waiting),
        pod_disruption_budgets=(budget,),
        now=1000.0,
    )
    given = DisruptionInput(snapshot=snapshot, catalogs={"web": InstanceTypeIndex(types())})
    found = preview_disruption(given)
    assert found.commands == ()
    assert fates(found) == {"a": ("blocked", "pdb"), "b": ("blocked", "nominated")}


def test_a_budget_with_a_schedule_says_until_when_it_holds_back() -> None:
    night = DisruptionBudget(nodes="0", schedule="0 0 * * *", duration=8 * 3600.0)
    [outcome] = preview(node("a", "large"), pool=with_budget(night)).outcomes
    assert outcome.blocker is not None
    assert (outcome.code, outcome.blocker.until) == ("budget", 8 * 3600.0)
    always = preview(node("a", "large"), pool=with_budget(DisruptionBudget(nodes="0"))).outcomes
    assert [each.blocker.until for each in always if each.blocker is not None] == [None]
