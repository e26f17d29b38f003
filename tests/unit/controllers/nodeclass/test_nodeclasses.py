"""EC2NodeClasses: what they select, their hashes, and their end (rows ANC-1, ANC-4, ANC-5)."""

from collections.abc import Mapping
from typing import Any

from tests.support.claim_stories import ObservedCluster
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    node_pool,
    run_cluster,
)

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.errors import ObjectNotFoundError

HASH = "karpenter.k8s.aws/ec2nodeclass-hash"
VERSION = "karpenter.k8s.aws/ec2nodeclass-hash-version"
PARTS = (
    "AMIsReady",
    "SubnetsReady",
    "SecurityGroupsReady",
    "InstanceProfileReady",
    "CapacityReservationsReady",
    "ValidationSucceeded",
)
NEVER = {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}


async def _class(cluster: ControlledCluster) -> EC2NodeClass:
    return await cluster.api.get(EC2NodeClass, "default")


def test_anc_1_the_status_has_what_the_class_selects_and_a_condition_for_each_part() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        found = await _class(cluster)
        assert {conditions(found)[part][0] for part in (*PARTS, "Ready")} == {"True"}
        status = found.status
        assert status is not None
        assert status.amis
        assert status.securityGroups
        assert len({each.zone for each in status.subnets or ()}) > 1
        assert found.metadata.finalizers == ["karpenter.k8s.aws/termination"]

    run_cluster(story)


def test_the_finalizer_of_a_new_class_comes_with_its_hash_before_anything_is_created_for_it() -> (
    None
):
    async def story(cluster: ControlledCluster) -> None:
        patches, calls = list[Mapping[str, Any]](), list[str]()

        def before(verb: str, kind: str, details: Mapping[str, Any]) -> None:
            if (verb, kind) == ("patch", "EC2NodeClass"):
                patches.append(details["patch"]["metadata"])
                assert "CreateInstanceProfile" not in calls

        cluster.port = ObservedCluster(cluster.api, before)
        cluster.account.on_call = lambda call: calls.append(call.operation)
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        assert "CreateInstanceProfile" in calls
        [patch] = patches
        assert patch["finalizers"] == ["karpenter.k8s.aws/termination"]
        assert len(patch["annotations"]) == 2

    run_cluster(story)


def test_anc_1_validation_waits_for_all_parts_and_a_change_is_seen_at_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(5)
        await cluster.change_class({"subnetSelectorTerms": [{"tags": {"no": "such"}}]})
        await cluster.wait(5)
        found = conditions(await _class(cluster))
        assert found["SubnetsReady"][0] == found["Ready"][0] == "False"
        assert found["ValidationSucceeded"][0] != "True"
        assert found["AMIsReady"][0] == "True"

    run_cluster(story)


def test_anc_1_what_the_account_gains_later_is_found_without_a_change_of_the_class() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        await cluster.change_class({"subnetSelectorTerms": [{"tags": {"team": "shop"}}]})
        cluster.start()
        await cluster.wait(30)
        assert conditions(await _class(cluster))["SubnetsReady"][0] == "False"
        subnet = (await _subnets(cluster))[0]
        await cluster.account.call(
            "ec2",
            "CreateTags",
            {"Resources": [subnet], "Tags": [{"Key": "team", "Value": "shop"}]},
        )
        await cluster.wait(180)
        assert conditions(await _class(cluster))["Ready"][0] == "True"

    run_cluster(story)


async def _subnets(cluster: ControlledCluster) -> list[str]:
    answer = await cluster.account.call("ec2", "DescribeSubnets", {})
    return [each["SubnetId"] for each in answer["Subnets"]]


def test_anc_4_a_deleted_class_waits_for_its_claims_and_leaves_nothing_behind() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.add_node()
        await cluster.wait(5)
        claim = await cluster.claim()
        templates = "DescribeLaunchTemplates"
        assert (await cluster.account.call("ec2", templates, {}))["LaunchTemplates"]
        await cluster.api.delete(EC2NodeClass, "default")
        await cluster.wait(700)
        waiting = await cluster.events("WaitingOnNodeClaimTermination")
        assert len(waiting) == 2
        assert claim.metadata.name in waiting[0].message
        assert (await _class(cluster)).metadata.deletionTimestamp
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(60)
        assert await cluster.claims() == []
        assert await _is_gone(cluster)
        assert not (await cluster.account.call("ec2", templates, {}))["LaunchTemplates"]
        profiles = await cluster.account.call("iam", "ListInstanceProfiles", {})
        assert not profiles["InstanceProfiles"]

    run_cluster(story)


def test_anc_4_a_deleted_class_that_nobody_uses_is_gone_at_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        cluster.start()
        await cluster.wait(30)
        await cluster.api.delete(EC2NodeClass, "default")
        await cluster.wait(2)
        assert await _is_gone(cluster)

    run_cluster(story)


async def _is_gone(cluster: ControlledCluster) -> bool:
    try:
        await _class(cluster)
    except ObjectNotFoundError:
        return True
    return False


def test_anc_5_hashes_of_another_version_are_taken_over_and_drifted_claims_keep_theirs() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption=NEVER))
        cluster.start()
        for number in range(2):
            await cluster.add_node(f"web-{number}", cpu="30")
        await cluster.wait(10)
        await cluster.kill()
        old, drifted = sorted(each.metadata.name for each in await cluster.claims())
        for name in (old, drifted):
            await cluster.api.patch(NodeClaim, name, _annotations("123", "v6"))
        await cluster.set_condition(drifted, "Drifted")
        await cluster.api.patch(EC2NodeClass, "default", _annotations("123", "v6"))
        cluster.start()
        await cluster.wait(10)
        current = (await _class(cluster)).metadata.annotations or {}
        assert current[VERSION] == "wain-1"
        assert await _hashes(cluster) == {
            old: (current[HASH], "wain-1"),
            drifted: ("123", "wain-1"),
        }

    run_cluster(story)


def test_anc_5_a_changed_class_of_our_version_does_not_touch_its_claims() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(node_pool(disruption=NEVER))
        cluster.start()
        await cluster.add_node()
        await cluster.wait(10)
        before = await _hashes(cluster)
        await cluster.change_class({"tags": {"team": "shop"}})
        await cluster.wait(30)
        current = (await _class(cluster)).metadata.annotations or {}
        assert await _hashes(cluster) == before
        assert current[HASH] not in [found for found, _ in before.values()]

    run_cluster(story)


def _annotations(found: str, version: str) -> dict[str, dict[str, dict[str, str]]]:
    return {"metadata": {"annotations": {HASH: found, VERSION: version}}}


async def _hashes(cluster: ControlledCluster) -> dict[str, tuple[str | None, str | None]]:
    claims = {
        each.metadata.name: each.metadata.annotations or {} for each in await cluster.claims()
    }
    return {name: (found.get(HASH), found.get(VERSION)) for name, found in claims.items()}
