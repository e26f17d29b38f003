"""Each law is broken once, and holds where nothing breaks it."""

from typing import Any

import pytest
from tests.support.scripted_simulation import (
    POOL,
    A,
    FinishedSimulation,
    ScriptedController,
    cloud,
    managed_node,
    play,
    pod,
    reservation,
    scenario,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node, PodDisruptionBudget
from wainwright.api.kubernetes.workloads import Pod
from wainwright.model.simulation import LawResult
from wainwright.sim.laws import (
    BUDGETS_RESPECTED,
    CLAIM_HAS_INSTANCE,
    INSTANCE_HAS_CLAIM,
    LAWS,
    LIMITS_NOT_EXCEEDED,
    ONE_INSTANCE_PER_CLAIM,
    PLACEABLE_PODS_RUN,
    QUIET_STAYS_QUIET,
    RESERVATION_NOT_EXCEEDED,
)

BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "a"}}},
}


def broken(finished: FinishedSimulation) -> list[LawResult]:
    laws = finished.result.laws
    assert tuple(each.law for each in laws) == LAWS
    return [each for each in laws if not each.held]


def only_broken(finished: FinishedSimulation, law: str) -> LawResult:
    (found,) = broken(finished)
    assert found.law == law
    return found


async def lively(controller: ScriptedController) -> None:
    """A life that breaks no law."""
    instance = await controller.launch("default-a")
    await controller.join("node-a", instance)
    await controller.wait_until(600)
    await controller.delete_claim("default-a")
    await controller.cluster.delete(Node, "node-a")
    await controller.terminate(instance)
    await controller.launch("default-b")


def test_all_laws_hold_where_nothing_is_wrong() -> None:
    finished = play(scenario(POOL), lively)

    assert broken(finished) == []
    assert finished.result.is_success


@pytest.mark.parametrize("end", [{"duration": "1h"}, {"until": "quiet"}])
def test_an_instance_without_a_claim(end: dict[str, Any]) -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a", create_claim=False)

    found = only_broken(play(scenario(**end), script), INSTANCE_HAS_CLAIM)

    assert "no NodeClaim has the instance i-" in found.message


def test_a_claim_without_an_instance() -> None:
    async def script(controller: ScriptedController) -> None:
        instance = await controller.launch("default-a")
        await controller.wait_until(60)
        await controller.terminate(instance)

    found = only_broken(play(scenario(), script), CLAIM_HAS_INSTANCE)

    assert found.message == "NodeClaim default-a has no instance"


def test_a_second_instance_of_a_claim() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a")
        await controller.start_instance("default-a")

    found = only_broken(play(scenario(), script), ONE_INSTANCE_PER_CLAIM)

    assert found.message.endswith("is a second instance of default-a")


def test_claims_and_instances_are_not_judged_before_the_world_is_quiet() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(3300)
        await controller.launch("default-a", create_claim=False)

    assert broken(play(scenario(), script)) == []


def test_a_reservation_that_is_exceeded() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("a", instance_type="c5.large", reservation_id="cr-1")
        await controller.wait_until(600)
        # No request can do this: EC2 would have to forget what is used.
        reservations = controller.world.account.services.reservations
        reserved = reservations.state.reservations["cr-1"]
        reserved.total = 0
        reservations.lifecycle.notify(reserved)
        reserved.total = 0
        await controller.wait_until(700)
        reserved.total = 5
        reservations.lifecycle.notify(reserved)

    finished = play(scenario(cloud(capacityReservations=[reservation(total=1)])), script)

    found = only_broken(finished, RESERVATION_NOT_EXCEEDED)
    assert found.at == 600.0
    assert found.message == "cr-1 has 0 instances and 1 run in it"


def limited(**limits: str) -> dict[str, Any]:
    return {**POOL, "spec": {**POOL["spec"], "limits": limits}}


def test_a_launch_beyond_the_limits_of_a_pool() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a")
        await controller.wait_until(60)
        await controller.launch("default-b")

    found = only_broken(play(scenario(limited(cpu="3")), script), LIMITS_NOT_EXCEEDED)

    assert found.at == 60.0
    assert "takes cpu to 4, and the limit is 3" in found.message


def test_what_has_come_up_for_a_command_that_was_given_up_makes_no_launch_too_many() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a")
        await controller.launch("default-b")
        annotations = {"wainwright.dev/replaces": "default-a"}
        change = {"metadata": {"annotations": annotations}}
        await controller.cluster.patch(NodeClaim, "default-b", change)
        up = {"type": "Initialized", "status": "True", "reason": "Initialized"}
        at = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"status": {"conditions": [{**up, **at}]}}
        await controller.cluster.patch_status(NodeClaim, "default-b", status)
        await controller.wait_until(60)
        await controller.launch("default-c")
        await controller.wait_until(120)
        await controller.launch("default-d")

    found = only_broken(play(scenario(limited(cpu="5")), script), LIMITS_NOT_EXCEEDED)

    assert found.at == 120.0
    assert "takes cpu to 6, and the limit is 5" in found.message


def test_nodes_that_go_make_room_for_their_replacements() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a")
        condition = {
            "type": "DisruptionReason",
            "status": "True",
            "reason": "Drifted",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"status": {"conditions": [condition]}}
        await controller.cluster.patch_status(NodeClaim, "default-a", status)
        await controller.wait_until(60)
        await controller.launch("default-b")
        await controller.wait_until(120)
        none: list[Any] = []
        given_up = {"status": {"conditions": none}}
        await controller.cluster.patch_status(NodeClaim, "default-a", given_up)

    assert broken(play(scenario(limited(cpu="3")), script)) == []


@pytest.mark.parametrize("joins", [False, True])
def test_limits_count_what_a_node_offers_once_it_has_joined(joins: bool) -> None:
    async def script(controller: ScriptedController) -> None:
        first = await controller.launch("default-a", instance_type="m5.xlarge")
        capacity = {"status": {"capacity": {"cpu": "4"}}}
        await controller.cluster.patch_status(NodeClaim, "default-a", capacity)
        if joins:
            await controller.join("node-a", first)  # with two
        await controller.wait_until(60)
        await controller.launch("default-b")

    found = broken(play(scenario(limited(cpu="5")), script))
    assert [each.law for each in found] == ([] if joins else [LIMITS_NOT_EXCEEDED])


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"cpu": 3}, "the cluster has cpu 4, and its limit is 3"),
        ({"nodes": 1}, "the cluster has nodes 2, and its limit is 1"),
        ({"pricePerHour": 0.1}, "the cluster costs 0.192 an hour, and its limit is 0.1"),
    ],
)
def test_a_launch_beyond_the_limits_of_the_cluster(limits: dict[str, Any], message: str) -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a")
        await controller.launch("default-b")

    finished = play(scenario(settings={"clusterLimits": limits}), script)

    assert only_broken(finished, LIMITS_NOT_EXCEEDED).message == message


def guarded(claim_annotations: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """A node that is being drained."""
    node = managed_node("n1")
    metadata = {
        **node["metadata"],
        "annotations": claim_annotations or {},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["karpenter.sh/termination"],
    }
    return [{**node, "metadata": metadata}, dict(pod("a", nodeName="n1")), BUDGET]


async def delete_pod(controller: ScriptedController) -> None:
    await controller.wait_until(600)
    await controller.cluster.delete(Pod, "a", "default")


def test_a_pod_that_is_deleted_against_its_budget() -> None:
    found = only_broken(play(scenario(*guarded()), delete_pod), BUDGETS_RESPECTED)

    assert found.at == 600.0
    assert "default/a was deleted, and the budget web allows no disruption" in found.message


def test_a_pod_without_an_exhausted_budget_may_be_deleted() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.cluster.patch_status(
            PodDisruptionBudget, "web", {"status": {"disruptionsAllowed": 1}}, "default"
        )
        await delete_pod(controller)

    assert broken(play(scenario(*guarded()), script)) == []


@pytest.mark.parametrize(
    ("deadline", "is_broken"), [("2026-01-01T00:10:30Z", False), ("2026-01-01T00:20:00Z", True)]
)
def test_the_deadline_of_a_grace_period_goes_before_budgets(deadline: str, is_broken: bool) -> None:
    annotations = {"karpenter.sh/nodeclaim-termination-timestamp": deadline}

    finished = play(scenario(*guarded(annotations)), delete_pod)

    assert bool(broken(finished)) == is_broken


def test_repair_goes_before_budgets() -> None:
    async def script(controller: ScriptedController) -> None:
        controller.process.reports.claim_disrupted("n1", "unhealthy")
        await delete_pod(controller)

    assert broken(play(scenario(*guarded()), script)) == []


def test_a_pod_that_waits_although_a_plan_could_place_it() -> None:
    found = only_broken(play(scenario(pod("a"))), PLACEABLE_PODS_RUN)

    assert found.message == "default/a still waits, and a plan places it"


def _paused(text: str) -> dict[str, Any]:
    return {
        **POOL,
        "metadata": {"name": "default", "annotations": {"wainwright.dev/pause": text}},
    }


@pytest.mark.parametrize(
    ("manifests", "settings"),
    [
        ([pod("a", nodeSelector={"disk": "none"})], {}),
        ([pod("a")], {"pause": "provisioning"}),
        (
            [pod("a"), _paused("all")],
            {},
        ),
        ([pod("a"), _paused("yes")], {}),
        ([pod("a"), cloud(unavailable=[{"instanceType": "*"}])], {}),
    ],
)
def test_pods_that_cannot_be_placed_or_may_not_be_break_no_law(
    manifests: list[dict[str, Any]], settings: dict[str, Any]
) -> None:
    assert broken(play(scenario(*manifests, settings=settings))) == []


def test_a_world_that_moves_again_by_itself() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(1000)
        await controller.cluster.patch(Pod, "a", {"metadata": {"labels": {"b": "c"}}}, "default")

    finished = play(scenario(managed_node("n1"), pod("a", nodeName="n1"), until="quiet"), script)

    found = only_broken(finished, QUIET_STAYS_QUIET)
    assert finished.result.finish == "2026-01-01T00:10:00Z"
    assert "Pod/default/a changed after nothing had for ten minutes" in found.message


def test_a_node_that_expires_disturbs_a_quiet_world() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(1000)
        controller.process.reports.claim_disrupted("n1", "expired")
        await controller.cluster.patch(NodeClaim, "n1", {"metadata": {"labels": {"b": "c"}}})

    assert broken(play(scenario(managed_node("n1"), until="quiet"), script)) == []


@pytest.mark.parametrize(("undone", "is_broken"), [("1", False), ("2", True), ("", True)])
def test_the_end_of_a_consolidation_backoff_disturbs_a_quiet_world(
    undone: str, is_broken: bool
) -> None:
    """Launched three quarters of an hour before, in the place of one that was needed."""

    async def script(controller: ScriptedController) -> None:
        annotations = {"wainwright.dev/undone-consolidations": undone}
        await controller.cluster.patch(NodeClaim, "n1", {"metadata": {"annotations": annotations}})
        await controller.wait_until(1000)
        await controller.cluster.patch(Node, "n1", {"metadata": {"labels": {"b": "c"}}})

    node = managed_node("n1")
    node["metadata"]["creationTimestamp"] = "2025-12-31T23:15:00Z"
    finished = play(scenario(node, until="quiet"), script)

    assert bool(broken(finished)) is is_broken


def test_the_end_of_a_reservation_disturbs_a_quiet_world() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.wait_until(1001)
        await controller.cluster.patch(Pod, "a", {"metadata": {"labels": {"b": "c"}}}, "default")

    ending = reservation(endTime="2026-01-01T00:16:40Z")
    manifests = (managed_node("n1"), pod("a", nodeName="n1"))
    finished = play(
        scenario(*manifests, cloud(capacityReservations=[ending]), until="quiet"), script
    )

    assert broken(finished) == []


def test_nothing_is_said_of_a_world_whose_calls_fail() -> None:
    async def script(controller: ScriptedController) -> None:
        await controller.launch("default-a", create_claim=False, zone=A)

    fault = {"operation": "TerminateInstances", "share": 1}
    finished = play(scenario(events=[{"at": "1m", "fail": fault}]), script)

    assert broken(finished) == []
