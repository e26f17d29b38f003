"""Events that people wait for: of consolidation, of do-not-disrupt, of NodePools that can launch
nothing, and of accounts that may not use spot. Others are tested where what they tell of happens;
`docs/internals/events.md` lists all of them.
"""

from typing import Any

import msgspec
import pytest
from tests.support.claim_stories import FOREIGN_REF, initialized, node_claim
from tests.support.controlled_cluster import (
    ControlledCluster,
    node_pool,
    pending_pod,
    run_cluster,
)
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.clock import format_timestamp
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.settings import EmulatorSettings
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE

TYPES = ["m5.large", "m5.xlarge"]
ON_DEMAND = {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def pool(policy: str = "WhenEmptyOrUnderutilized") -> NodePool:
    disruption = {
        "consolidateAfter": "0s",
        "consolidationPolicy": policy,
        "budgets": [{"nodes": "100%"}],
    }
    return node_pool(template={"spec": {"requirements": [ON_DEMAND]}}, disruption=disruption)


async def messages(cluster: ControlledCluster, reason: str) -> dict[str, list[str]]:
    """By kind of the objects, the messages."""
    found: dict[str, list[str]] = {}
    for event in await cluster.events(reason):
        found.setdefault(event.involvedObject.kind, []).append(event.message)
    return found


# Consolidation


async def nearly_empty_nodes(cluster: ControlledCluster, *names: str, policy: str) -> list[Node]:
    """Large nodes with a small pod each, which consolidation begins to look at now."""
    never = {"spec": {"disruption": {"consolidateAfter": "Never"}}}
    await cluster.set_up(pool(policy))
    await cluster.api.patch(NodePool, "web", never)
    cluster.start()
    await cluster.wait(5)
    nodes = []
    for name in names:
        await cluster.create_pod(f"big-{name}", cpu="2900m")
        nodes.append(await cluster.add_node(name, cpu="800m"))
        await cluster.bind(f"big-{name}", nodes[-1].metadata.name)
    for name in names:
        await cluster.api.delete(Pod, f"big-{name}", "default", grace_period=0)
    await cluster.api.patch(NodePool, "web", {"spec": {"disruption": {"consolidateAfter": "0s"}}})
    await cluster.wait(12)
    return nodes


def test_consolidation_candidate_says_what_would_be_done_before_it_is() -> None:
    async def story(cluster: ControlledCluster) -> None:
        (node,) = await nearly_empty_nodes(cluster, "web-0", policy="WhenEmptyOrUnderutilized")
        name = node.metadata.name
        expected = f"Consolidation candidate: replace: [{name}] -> [1 replacement] "
        found = await messages(cluster, "ConsolidationCandidate")
        assert found.keys() == {"Node", "NodeClaim"}
        assert all(text.startswith(expected) for (text,) in found.values())
        assert await messages(cluster, "DisruptionLaunching") == {}, "it has still to be validated"
        await cluster.wait(60)
        assert await messages(cluster, "ConsolidationCandidate") == found, "once, not at every look"
        assert await messages(cluster, "ConsolidationRejected") == {}
        assert await messages(cluster, "ConsolidationApproved") == {}, "only Balanced has scores"

    run_cluster(story, instanceTypes=TYPES)


def test_consolidation_candidate_is_not_said_of_empty_nodes() -> None:
    """They go in any case, and say so."""

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(pool())
        cluster.start()
        await cluster.wait(5)
        await cluster.add_node()
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(60)
        assert await cluster.claims() == []
        assert await messages(cluster, "ConsolidationCandidate") == {}

    run_cluster(story, instanceTypes=TYPES)


def test_consolidation_rejected_says_why_a_command_was_not_carried_out() -> None:
    async def story(cluster: ControlledCluster) -> None:
        (node,) = await nearly_empty_nodes(cluster, "web-0", policy="WhenEmptyOrUnderutilized")
        assert await messages(cluster, "ConsolidationCandidate") != {}
        protected = {"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}}
        await cluster.api.patch(Pod, "web-0", protected, "default")
        await cluster.wait(30)
        found = await messages(cluster, "ConsolidationRejected")
        assert found.keys() == {"Node", "NodeClaim"}
        (message,) = found["Node"]
        assert message.startswith(f"Consolidation rejected: replace: [{node.metadata.name}] -> ")
        assert message.endswith("a node is gone or blocked by now, or has got other pods")
        assert await messages(cluster, "DisruptionLaunching") == {}

    run_cluster(story, instanceTypes=TYPES)


@pytest.mark.parametrize(
    ("names", "about", "score"),
    [
        # An m5.xlarge of $0.192 becomes an m5.large of $0.096, all of the NodePool is disturbed.
        (["web-0"], {"Node", "NodeClaim"}, "score 0.50 >= threshold 0.50"),
        # Two of them become one m5.large.
        (["web-0", "web-1"], {"NodePool"}, "score 0.75 >= threshold 0.50"),
    ],
)
def test_consolidation_approved_has_the_score_of_the_policy_balanced(
    names: list[str], about: set[str], score: str
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await nearly_empty_nodes(cluster, *names, policy="Balanced")
        found = await messages(cluster, "ConsolidationApproved")
        assert found.keys() == about
        share = f"{float(score.split()[1]):.1%}"
        expected = f"{score} (k: 2, savings {share}, disruption 100.0%)"
        assert all(texts == [expected] for texts in found.values())
        scraped, labels = ScrapedMetrics(cluster.metrics), {"decision": "approved"}
        labels |= {"nodepool": "web", "policy": "Balanced"}
        assert scraped.value("karpenter_consolidation_moves_total", **labels) == 1
        total = scraped.value("karpenter_consolidation_score_sum", **labels)
        assert f"score {total:.2f} " in expected

    run_cluster(story, instanceTypes=TYPES)


def test_a_move_that_the_policy_balanced_rejects_is_counted_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        options = cluster.settings.disruption_options
        strict = msgspec.structs.replace(options, balanced_k=1.5)
        cluster.settings = msgspec.structs.replace(cluster.settings, disruption_options=strict)
        await nearly_empty_nodes(cluster, "web-0", policy="Balanced")
        await cluster.wait(120)
        moves = ScrapedMetrics(cluster.metrics)
        labels = {"decision": "rejected", "nodepool": "web", "policy": "Balanced"}
        assert moves.value("karpenter_consolidation_moves_total", **labels) == 1
        assert not moves.values("karpenter_consolidation_moves_total", decision="approved")

    run_cluster(story, instanceTypes=TYPES)


# NodePools


async def _messages_about_pool(cluster: ControlledCluster, made: NodePool) -> list[str]:
    await cluster.set_up(made, node_pool("other"))
    cluster.start()
    await cluster.create_pod()
    await cluster.wait(40)
    events = await cluster.events("NoCompatibleInstanceTypes")
    assert all(each.involvedObject.kind == "NodePool" for each in events)
    return [f"{each.involvedObject.name}: {each.message}" for each in events]


FILTERED_OUT = "web: NodePool requirements filtered out all compatible available instance types: "


@pytest.mark.parametrize(
    ("requirement", "why"),
    [
        (
            {"key": INSTANCE_TYPE, "operator": "In", "values": ["m99.large"]},
            "no instance type in the catalogue has node.kubernetes.io/instance-type m99.large, "
            "which the NodePool requires",
        ),
        (
            {"key": ZONE, "operator": "In", "values": ["us-east-1z"]},
            "the NodePool requires topology.kubernetes.io/zone us-east-1z",
        ),
        (
            {
                "key": INSTANCE_TYPE,
                "operator": "In",
                "values": ["m5.large", "m5.xlarge", "m5.2xlarge"],
                "minValues": 3,
            },
            "minValues requires 3 values of node.kubernetes.io/instance-type",
        ),
    ],
    ids=["type", "zone", "min-values"],
)
def test_no_compatible_instance_types_is_said_once_of_a_pool_that_can_launch_nothing(
    requirement: dict[str, Any], why: str
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        made = node_pool(template={"spec": {"requirements": [requirement]}})
        (text,) = await _messages_about_pool(cluster, made)
        assert text.startswith(FILTERED_OUT)
        assert why in text
        await cluster.create_pod("web-1", cpu="3")
        await cluster.wait(40)
        assert len(await cluster.events("NoCompatibleInstanceTypes")) == 1
        assert len(await cluster.claims()) >= 1, "the other NodePool launches"

    run_cluster(story, instanceTypes=TYPES)


def test_no_compatible_instance_types_is_not_said_of_a_pool_at_its_limit() -> None:
    async def story(cluster: ControlledCluster) -> None:
        limited = node_pool(limits={"nodes": "0"}, template={"spec": {"requirements": [ON_DEMAND]}})
        assert await _messages_about_pool(cluster, limited) == []

    run_cluster(story, instanceTypes=TYPES)


# Accounts


def test_spot_service_linked_role_creation_failure_is_said_of_the_claim_with_what_to_do() -> None:
    async def story(cluster: ControlledCluster) -> None:
        gone = {"RoleName": "AWSServiceRoleForEC2Spot"}
        cluster.account.answer("iam", "DeleteServiceLinkedRole", gone)
        spot = {"key": CAPACITY_TYPE, "operator": "In", "values": ["spot"]}
        await cluster.set_up(node_pool(template={"spec": {"requirements": [spot]}}))
        cluster.start()
        await cluster.wait(5)
        await cluster.create_pod()
        await cluster.wait(20)
        found = await messages(cluster, "SpotServiceLinkedRoleCreationFailure")
        assert found.keys() == {"NodeClaim"}
        assert "create the service-linked role spot.amazonaws.com" in found["NodeClaim"][0]
        assert (await messages(cluster, "InsufficientCapacityError")).keys() == {"NodeClaim", "Pod"}

    run_cluster(story, emulator=EmulatorSettings(quota=QuotaLimits(spotRole=False)))


# do-not-disrupt on pods


async def protected_pod(
    cluster: ControlledCluster, value: str, name: str = "web-0", claim: NodeClaim | None = None
) -> float:
    """When the pod, which is on a node of its own, was started."""
    await cluster.set_up(node_pool(disruption={"consolidateAfter": "Never"}))
    cluster.start()
    await cluster.wait(5)
    _, node = await initialized(cluster, claim)
    await cluster.create_pod(name, metadata={"annotations": {DO_NOT_DISRUPT: value}})
    await cluster.bind(name, node.metadata.name)
    await cluster.wait(10)
    running = {"phase": "Running", "startTime": format_timestamp(cluster.clock.now())}
    await cluster.api.patch_status(Pod, name, {"status": running}, "default")
    started = cluster.clock.now()
    await cluster.wait(5)
    return started


DO_NOT_DISRUPT_EVENTS = (
    "InvalidDoNotDisruptAnnotation",
    "DoNotDisruptUntil",
    "DoNotDisruptGracePeriodElapsed",
)


async def pod_events(cluster: ControlledCluster) -> list[str]:
    return [
        f"{reason}: {event.message}"
        for reason in DO_NOT_DISRUPT_EVENTS
        for event in await cluster.events(reason)
        if event.involvedObject.kind == "Pod"
    ]


def test_do_not_disrupt_until_and_its_grace_period_elapsed_are_said_once_each() -> None:
    async def story(cluster: ControlledCluster) -> None:
        end = format_timestamp(await protected_pod(cluster, "30m") + 1800)
        until = f"DoNotDisruptUntil: The {DO_NOT_DISRUPT} grace period will elapse at {end}"
        assert await pod_events(cluster) == [until]
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await cluster.api.patch_status(Pod, "web-0", ready, "default")
        await cluster.wait(1780)
        assert await pod_events(cluster) == [until], "other changes of the pod are no news"
        await cluster.wait(3600)
        assert await pod_events(cluster) == [
            until,
            f"DoNotDisruptGracePeriodElapsed: The {DO_NOT_DISRUPT} grace period has elapsed, pod "
            "is now disruptable",
        ]

    run_cluster(story)


@pytest.mark.parametrize("value", ["yes", "false", "", "0s", "-5m", "Never"])
def test_invalid_do_not_disrupt_annotation_names_the_value_that_means_nothing(value: str) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await protected_pod(cluster, value)
        assert await pod_events(cluster) == [
            f"InvalidDoNotDisruptAnnotation: Invalid {DO_NOT_DISRUPT} annotation: {value!r} is "
            "neither true nor a duration such as 30m, ignoring annotation"
        ]

    run_cluster(story)


def test_do_not_disrupt_without_an_end_or_on_nodes_of_others_is_not_commented_on() -> None:
    async def for_ever(cluster: ControlledCluster) -> None:
        await protected_pod(cluster, "true")
        assert await pod_events(cluster) == []

    async def elsewhere(cluster: ControlledCluster) -> None:
        await protected_pod(cluster, "30m")
        await cluster.create(node_claim("foreign", nodeClassRef=FOREIGN_REF))
        status = {"status": {"providerID": "aws:///us-east-1a/i-foreign"}}
        await cluster.api.patch_status(NodeClaim, "foreign", status)
        await cluster.join(await cluster.api.get(NodeClaim, "foreign"))
        await cluster.create(
            pending_pod("theirs", metadata={"annotations": {DO_NOT_DISRUPT: "maybe"}})
        )
        await cluster.bind("theirs", "node-foreign")
        await cluster.wait(60)
        assert await cluster.events("InvalidDoNotDisruptAnnotation") == []

    run_cluster(for_ever)
    run_cluster(elsewhere)


def test_do_not_disrupt_of_a_pod_that_ends_before_its_time_is_not_said_to_elapse() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await protected_pod(cluster, "30m")
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(3600)
        assert [each.partition(":")[0] for each in await pod_events(cluster)] == [
            "DoNotDisruptUntil"
        ]

    run_cluster(story)
