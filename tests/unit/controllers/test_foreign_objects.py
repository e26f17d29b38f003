"""Objects of node classes of another provider: no controller writes, evicts or ends anything."""

from typing import Any

import msgspec
import pytest
from tests.support.controlled_cluster import (
    ControlledCluster,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.clock import format_timestamp
from wainwright.controllers.settings import ControllerSettings

REFERENCE = {"group": "example.com", "kind": "Machines", "name": "default"}
HOUR = 3600.0


async def hand_over(cluster: ControlledCluster, kind: type[WireStruct], name: str) -> None:
    """The object belongs to another provider from now on, as one that was always theirs."""
    manifest = msgspec.to_builtins(await cluster.api.get(kind, name))
    spec = manifest["spec"]
    spec = spec["template"]["spec"] if kind is NodePool else spec
    spec |= {"nodeClassRef": REFERENCE, "expireAfter": "10m"}
    for part in ("labels", "annotations"):
        known = manifest["metadata"].get(part) or {}
        ours = [key for key in known if key.startswith(("karpenter.k8s.aws/", "wainwright.dev/"))]
        for key in ours:
            del known[key]
    cluster.api.load([msgspec.convert(manifest, kind, strict=False)])


async def written(cluster: ControlledCluster) -> list[Any]:
    kinds: tuple[type[Any], ...] = (NodePool, NodeClaim, Node, Pod)
    return [item for kind in kinds for item in (await cluster.api.list(kind)).items]


async def run_through_everything(cluster: ControlledCluster, *, foreign: bool) -> tuple[Any, Any]:
    """An empty node that is not Ready, of a claim that is too old, in a pool that would consolidate
    it; its instance is to be rebooted, and is ended by somebody in the end. Objects before and
    after."""
    await cluster.set_up(node_pool())
    cluster.start()
    await cluster.wait(5)
    await cluster.create(pending_pod())
    await cluster.wait(20)
    claim = await cluster.claim()
    node = await cluster.join(claim)
    await cluster.bind("web-0", node.metadata.name)
    await cluster.wait(60)
    await cluster.kill()
    if foreign:
        await hand_over(cluster, NodePool, "web")
        await hand_over(cluster, NodeClaim, claim.metadata.name)
    await cluster.api.delete(Pod, "web-0", "default")
    since = format_timestamp(cluster.clock.now())
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": since}
    await cluster.api.patch_status(Node, node.metadata.name, {"status": {"conditions": [unready]}})
    before = await written(cluster)
    (instance,) = cluster.instances()
    cluster.start()
    await cluster.wait(60)
    cluster.account.change({"interruptions": [{"instance": instance, "kind": "system-reboot"}]})
    await cluster.wait(HOUR)
    assert cluster.instances() == ([instance] if foreign else [])
    cluster.account.services.instances.terminate([instance])
    await cluster.wait(HOUR)
    return before, await written(cluster)


@pytest.mark.parametrize("foreign", [True, False])
def test_nothing_of_a_foreign_class_is_touched_whatever_happens_to_it(foreign: bool) -> None:
    """The same node of our own class is gone within the hour."""

    async def story(cluster: ControlledCluster) -> None:
        before, after = await run_through_everything(cluster, foreign=foreign)
        if foreign:
            assert after == before
        else:
            assert not any(isinstance(each, NodeClaim | Node) for each in after)

    run_cluster(story, settings=ControllerSettings(node_repair=True), instanceTypes=["m5.large"])
