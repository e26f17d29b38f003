"""Each law about disruption is broken once, and holds where nothing breaks it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_simulation import (
    POOL,
    FinishedSimulation,
    Manifest,
    ScriptedController,
    managed_node,
    play,
    pod,
    scenario,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.cluster import Preconditions
from wainwright.errors import ConflictError
from wainwright.model.labels import INITIALIZED as INITIALIZED_LABEL
from wainwright.sim.disruption_laws import (
    CONSOLIDATION_SAVES,
    EVICTIONS_END_NODES,
    LAG,
    NO_TAINT_LEFT,
    NODE_HAS_CLAIM,
    NODEPOOL_BUDGETS_RESPECTED,
    NODES_ARE_DRAINED,
    REPLACEMENTS_COME_FIRST,
)

INITIALIZED = {
    "type": "Initialized",
    "status": "True",
    "reason": "Initialized",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def broken(finished: FinishedSimulation) -> dict[str, str]:
    return {each.law: each.message for each in finished.result.laws if not each.held}


async def set_conditions(controller: ScriptedController, name: str, *conditions: Any) -> None:
    status = {"status": {"conditions": list(conditions)}}
    await controller.cluster.patch_status(NodeClaim, name, status)


def disrupted(reason: str) -> dict[str, str]:
    return {**INITIALIZED, "type": "DisruptionReason", "reason": reason}


def carry_out(controller: ScriptedController, reason: str, *replacements: str) -> None:
    controller.process.reports.command_carried_out(
        reason=reason,
        method="single-node",
        candidates=["n1"],
        replacements=replacements,
        savings_per_hour=0.1,
    )


async def evict(controller: ScriptedController) -> None:
    await controller.wait_until(600)
    await controller.cluster.evict("a", "default")


def test_a_pod_is_evicted_and_its_node_stays() -> None:
    finished = play(scenario(managed_node("n1"), pod("a", nodeName="n1")), evict)

    assert broken(finished) == {EVICTIONS_END_NODES: "default/a was evicted, and its node n1 stays"}


def test_a_pod_is_evicted_from_a_node_that_goes() -> None:
    node = managed_node("n1")
    leaving = {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["karpenter.sh/termination"],
    }
    going = {**node, "metadata": {**node["metadata"], **leaving}}

    assert broken(play(scenario(going, pod("a", nodeName="n1")), evict)) == {}


def test_a_deletion_that_means_an_earlier_pod_of_the_name_has_no_effect() -> None:
    async def script(controller: ScriptedController) -> None:
        with pytest.raises(ConflictError):
            await controller.cluster.delete(
                Pod, "a", "default", preconditions=Preconditions(uid="another")
            )

    assert broken(play(scenario(managed_node("n1"), pod("a", nodeName="n1")), script)) == {}


@pytest.mark.parametrize("is_initialized", [False, True])
def test_a_command_is_carried_out_before_its_replacement_is_up(is_initialized: bool) -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-b")
        if is_initialized:
            await set_conditions(controller, "default-b", INITIALIZED)
        carry_out(controller, "Drifted", "default-b")

    found = broken(play(scenario(managed_node("n1")), script))

    message = "n1 is deleted, and its replacement default-b is not initialized"
    assert found == ({} if is_initialized else {REPLACEMENTS_COME_FIRST: message})


@pytest.mark.parametrize(
    ("instance_type", "is_broken"), [("m5.xlarge", True), ("m5.large", False), ("c5.large", False)]
)
def test_a_consolidation_costs_more_than_what_it_replaces(
    instance_type: str, is_broken: bool
) -> None:
    async def script(controller: ScriptedController) -> None:
        await set_conditions(controller, "n1", INITIALIZED, disrupted("Underutilized"))
        await controller.launch("default-b", instance_type=instance_type)
        await set_conditions(controller, "default-b", INITIALIZED)
        carry_out(controller, "Underutilized", "default-b")
        await set_conditions(controller, "n1", INITIALIZED)

    found = broken(play(scenario(managed_node("n1")), script))

    message = "what replaces n1 costs 0.096 an hour more, at the prices by which it was decided"
    assert found == ({CONSOLIDATION_SAVES: message} if is_broken else {})


DEAR: Manifest = {"instanceType": "m5.xlarge", "factor": 3}
CHEAP: Manifest = {"instanceType": "m5.xlarge", "factor": 0.4}


async def fetch_prices(controller: ScriptedController) -> None:
    call = controller.process.aws.call
    await call("ec2", "DescribeSpotPriceHistory", {})
    page: dict[str, Any] = {"ServiceCode": "AmazonEC2"}
    token = None
    while token or "NextToken" not in page:
        answer = await call("pricing", "GetProducts", page)
        token = answer.get("NextToken")
        if token is None:
            return
        page = {**page, "NextToken": token}


@pytest.mark.parametrize(
    ("price", "fetched", "at", "excess"),
    [
        (CHEAP, (0, 700), 1200, 0.0),
        (CHEAP, (0, 1100), 1200, 0.0),
        (CHEAP, (0,), 1200, 0.096),
        (CHEAP, (0, 400), 500, 0.096),
        (DEAR, (0, 700), 1200, 0.48),
        (DEAR, (0, 1100), 1200, 0.096),
        (DEAR, (), 1200, None),
    ],
    ids=[
        "cheap since it was fetched",
        "cheap, and maybe fetched too late",
        "cheap, and not fetched again",
        "before it is cheap",
        "dear since it was fetched",
        "dear, and maybe fetched too late",
        "never fetched",
    ],
)
def test_a_saving_is_judged_by_the_prices_that_may_have_been_known(
    price: Manifest, fetched: tuple[float, ...], at: float, excess: float | None
) -> None:
    """The price of the replacement changes after ten minutes."""

    async def script(controller: ScriptedController) -> None:
        for moment in fetched:
            await controller.wait_until(moment)
            await fetch_prices(controller)
        await controller.wait_until(at)
        await set_conditions(controller, "n1", INITIALIZED, disrupted("Underutilized"))
        await controller.launch("default-b", instance_type="m5.xlarge")
        await set_conditions(controller, "default-b", INITIALIZED)
        carry_out(controller, "Underutilized", "default-b")
        await set_conditions(controller, "n1", INITIALIZED)

    events = [{"at": "10m", "price": price}]
    found = broken(play(scenario(managed_node("n1"), events=events), script))

    message = (
        f"what replaces n1 costs {excess:.6g} an hour more, at the prices by which it was decided"
        if excess
        else ""
    )
    assert found == ({CONSOLIDATION_SAVES: message} if message else {})


@pytest.mark.parametrize("other", ["Drifted", "Empty"])
@pytest.mark.parametrize(("nodes", "is_broken"), [("1", True), ("60%", False), ("0", True)])
def test_more_nodes_are_disrupted_than_budgets_allow(
    nodes: str, is_broken: bool, other: str
) -> None:
    """A node counts whatever it is disrupted for."""

    async def script(controller: ScriptedController) -> None:
        for name, reason in (("n1", other), ("n2", "Drifted")):
            status = {"status": {"nodeName": name}}
            await controller.cluster.patch_status(NodeClaim, name, status)
            await set_conditions(controller, name, INITIALIZED, disrupted(reason))
        await controller.wait_until(60)
        for name in ("n1", "n2"):
            await set_conditions(controller, name, INITIALIZED)

    pool = {**POOL, "spec": {**POOL["spec"], "disruption": {"budgets": [{"nodes": nodes}]}}}
    found = broken(play(scenario(pool, managed_node("n1"), managed_node("n2")), script))

    assert (NODEPOOL_BUDGETS_RESPECTED in found) is is_broken
    assert found.keys() <= {NODEPOOL_BUDGETS_RESPECTED}


@pytest.mark.parametrize("came_up", [False, True])
def test_the_repair_of_a_node_that_never_came_up_uses_no_budget(came_up: bool) -> None:
    registered = {**INITIALIZED, "type": "Registered", "reason": "Registered"}
    before = [registered, INITIALIZED] if came_up else [registered]

    async def script(controller: ScriptedController) -> None:
        await controller.join("node-b", await controller.launch("default-b"))
        for claim, node in (("default-b", "node-b"), ("n1", "n1")):
            status = {"status": {"nodeName": node}}
            await controller.cluster.patch_status(NodeClaim, claim, status)
        await set_conditions(controller, "default-b", *before, disrupted("Unhealthy"))
        await set_conditions(controller, "n1", INITIALIZED, disrupted("Drifted"))
        await controller.wait_until(60)
        await set_conditions(controller, "default-b", *before)
        await set_conditions(controller, "n1", INITIALIZED)

    pool = {**POOL, "spec": {**POOL["spec"], "disruption": {"budgets": [{"nodes": "1"}]}}}
    found = broken(play(scenario(pool, managed_node("n1")), script))
    assert (NODEPOOL_BUDGETS_RESPECTED in found) is came_up


def test_a_node_counts_from_the_moment_when_it_says_that_it_is_initialized() -> None:
    """Its claim says so later, and much later where an answer is lost."""

    async def script(controller: ScriptedController) -> None:
        labels = {INITIALIZED_LABEL: "true"}
        await controller.cluster.patch(Node, "n3", {"metadata": {"labels": labels}})
        await set_conditions(controller, "n3", {**INITIALIZED, "type": "Launched"})
        await controller.wait_until(600)  # what was before is no longer counted
        for name in ("n1", "n2"):
            status = {"status": {"nodeName": name}}
            await controller.cluster.patch_status(NodeClaim, name, status)
            await set_conditions(controller, name, INITIALIZED, disrupted("Drifted"))
        await controller.wait_until(660)
        for name in ("n1", "n2", "n3"):
            await set_conditions(controller, name, INITIALIZED)

    pool = {**POOL, "spec": {**POOL["spec"], "disruption": {"budgets": [{"nodes": "50%"}]}}}
    nodes = [managed_node(name) for name in ("n1", "n2", "n3")]
    assert broken(play(scenario(pool, *nodes), script)) == {}


async def terminate(controller: ScriptedController) -> None:
    (instance,) = controller.world.account.services.instances.list_alive()
    await controller.terminate(instance.id)


@pytest.mark.parametrize(("at", "is_broken"), [(600.0, True), (60.0, False)])
def test_an_instance_ends_with_a_pod_that_it_has_run_for_long(at: float, is_broken: bool) -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(at)
        await terminate(controller)

    found = broken(play(scenario(managed_node("n1"), pod("a", nodeName="n1")), script))

    assert (NODES_ARE_DRAINED in found) is is_broken


async def leave_taint(controller: ScriptedController) -> None:
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    await controller.cluster.patch(Node, "n1", {"spec": {"taints": [taint]}})


async def leave_reason(controller: ScriptedController) -> None:
    await set_conditions(controller, "n1", INITIALIZED, disrupted("Drifted"))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (leave_taint, "Node n1 still has the taint karpenter.sh/disrupted"),
        (leave_reason, "NodeClaim n1 still has a DisruptionReason"),
    ],
)
def test_what_a_command_has_marked_is_left_behind(
    script: Callable[[ScriptedController], Awaitable[None]], message: str
) -> None:
    assert broken(play(scenario(managed_node("n1")), script)) == {NO_TAINT_LEFT: message}


def test_a_node_is_left_without_a_claim() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.join("lost", "i-0123456789abcdef0")

    found = broken(play(scenario(), script))

    assert found == {NODE_HAS_CLAIM: "no NodeClaim has the Node lost"}


def test_the_documented_lag_is_the_one_that_laws_allow() -> None:
    laws = Path("docs/internals/simulation.md").read_text("utf-8")
    lines = {line.split("`")[1]: line for line in laws.splitlines() if line.startswith("| `")}
    for law in (NODEPOOL_BUDGETS_RESPECTED, NODES_ARE_DRAINED):
        assert ("five minutes" in lines[law], LAG) == (True, 300.0)
