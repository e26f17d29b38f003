"""Tags, discovered capacity, and what is left over in the account (row ANC-6)."""

from typing import Any

from tests.support.controlled_cluster import (
    ControlledCluster,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.emulator.emulated_account import ApiCall
from wainwright.model.labels import INSTANCE_TYPE

TYPES = ["m5.large"]
TAGGED = "karpenter.k8s.aws/tagged"


class CallCount:
    """Calls of an operation from now on."""

    def __init__(self, cluster: ControlledCluster, operation: str) -> None:
        self.count = 0
        self._operation = operation
        cluster.account.on_call = self._note

    def _note(self, call: ApiCall) -> None:
        self.count += call.operation == self._operation


async def launched(cluster: ControlledCluster, **pod: Any) -> NodeClaim:
    types = {"key": INSTANCE_TYPE, "operator": "In", "values": TYPES}
    await cluster.set_up(node_pool(template={"spec": {"requirements": [types]}}))
    cluster.start()
    await cluster.wait(5)
    await cluster.create(pending_pod(**pod))
    await cluster.wait(10)
    return await cluster.claim()


def tags(cluster: ControlledCluster) -> dict[str, str]:
    (instance,) = cluster.account.services.instances.list_alive()
    return instance.tags


def test_anc_6_an_instance_is_tagged_once_its_node_has_joined() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await launched(cluster)
        calls = CallCount(cluster, "CreateTags")
        await cluster.wait(60)
        assert "Name" not in tags(cluster)
        node = await cluster.join(claim)
        await cluster.wait(5)
        assert tags(cluster).items() >= {
            ("Name", node.metadata.name),
            ("karpenter.sh/nodeclaim", claim.metadata.name),
            ("eks:eks-cluster-name", "wain"),
        }
        annotations = (await cluster.claim()).metadata.annotations or {}
        assert annotations[TAGGED] == "true"
        await cluster.kill()
        cluster.start()
        await cluster.wait(30)
        assert calls.count == 1

    run_cluster(story, instanceTypes=TYPES)


def test_anc_6_tagging_goes_on_after_it_has_failed() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await launched(cluster)
        fault = {"operation": "CreateTags", "code": "UnauthorizedOperation", "status": 403}
        cluster.account.change({"faults": [fault]})
        node = await cluster.join(claim)
        await cluster.wait(60)
        assert TAGGED not in ((await cluster.claim()).metadata.annotations or {})
        cluster.account.change({"faults": []})
        await cluster.wait(120)
        assert tags(cluster)["Name"] == node.metadata.name

    run_cluster(story, instanceTypes=TYPES)


async def memory_of_next_claim(cluster: ControlledCluster) -> Any:
    """What a new claim is expected to have, beside a node that is full."""
    known = {claim.metadata.name for claim in await cluster.claims()}
    await cluster.create(pending_pod("web-1", cpu="1500m"))
    await cluster.wait(10)
    (claim,) = [each for each in await cluster.claims() if each.metadata.name not in known]
    assert claim.status is not None
    return (claim.status.capacity or {})["memory"]


def test_the_memory_that_a_node_has_replaces_the_estimate_also_after_a_restart() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await launched(cluster, cpu="1500m")
        assert claim.status is not None
        estimate = (claim.status.capacity or {})["memory"]
        node = await cluster.join(claim, status={"capacity": {"memory": "7700Mi"}})
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(5)
        await cluster.kill()
        cluster.start()
        await cluster.wait(5)
        assert estimate != "7700Mi"
        assert await memory_of_next_claim(cluster) == "7700Mi"

    run_cluster(story, instanceTypes=TYPES)


def test_the_memory_of_a_node_that_is_not_initialized_does_not_count() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await launched(cluster, cpu="1500m")
        assert claim.status is not None
        node = await cluster.join(claim, ready=False, status={"capacity": {"memory": "7700Mi"}})
        await cluster.bind("web-0", node.metadata.name)
        await cluster.wait(5)
        assert await memory_of_next_claim(cluster) == (claim.status.capacity or {})["memory"]

    run_cluster(story, instanceTypes=TYPES)


def test_profiles_of_a_changed_role_are_removed_when_no_claim_uses_them() -> None:
    async def story(cluster: ControlledCluster) -> None:
        claim = await launched(cluster)
        node = await cluster.join(claim)
        await cluster.bind("web-0", node.metadata.name)
        profiles = cluster.account.services.iam.state.profiles
        (before,) = profiles
        role = "KarpenterNodeRole-other"
        policy = {"RoleName": role, "AssumeRolePolicyDocument": "{}"}
        cluster.account.answer("iam", "CreateRole", policy)
        await cluster.api.patch(EC2NodeClass, "default", {"spec": {"role": role}})
        await cluster.wait(4 * 3600)
        assert before in profiles
        assert len(profiles) == 2
        await cluster.api.delete(NodeClaim, claim.metadata.name)
        await cluster.wait(5)
        await cluster.stop_pods()
        await cluster.wait(3600)
        assert before not in profiles
        assert len(profiles) == 1

    run_cluster(story, instanceTypes=TYPES)
