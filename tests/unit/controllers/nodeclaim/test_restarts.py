"""A process that dies between any two writes, and the next one that goes on from there.

Pods get their nodes, the claims are deleted, and the nodes drained. Whenever the process dies, in
the end there was one instance for each claim, and nothing is left. Between two reads nothing
changes outside of the process, so only writes count, to Kubernetes and to AWS.

`RESTART_STRIDE=1` tries every write, not only every seventh; `RESTARTS=3` lets so many processes
die one after the other, each at its n-th write.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from tests.support.claim_stories import KEEP_EMPTY_NODES, ObservedCluster, ObservedSeam
from tests.support.controlled_cluster import ControlledCluster, node_pool, pending_pod, run_cluster
from tests.support.launch_trial import CrashPoint

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.controllers.nodeclaim.node_registration import is_ready

READS = ("list", "get", "Describe", "Get", "List", "ReceiveMessage")
RESTARTS = int(os.environ.get("RESTARTS", "1"))
STRIDE = int(os.environ.get("RESTART_STRIDE", "7"))
RESTART_SECONDS = 5.0
PODS = ("web-0", "web-1")
TYPES = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}


class MortalProcesses:
    """The controllers of a cluster; so many of their processes die at their n-th write."""

    def __init__(self, cluster: ControlledCluster, steps: int) -> None:
        self._cluster, self._steps = cluster, steps
        self.deaths = 0

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            crash = CrashPoint(self._steps if self.deaths < RESTARTS else None)
            self._start(crash)
            await crash.dead.wait()
            self.deaths += 1
            await self._cluster.kill()
            await self._cluster.wait(RESTART_SECONDS)

    def _start(self, crash: CrashPoint) -> None:
        async def before(verb: str, kind: str, _: Mapping[str, Any]) -> None:
            is_write = not verb.startswith(READS) and kind != "Event"
            if is_write or crash.dead.is_set():
                await crash.step()

        cluster = self._cluster
        cluster.port = ObservedCluster(cluster.api, before)
        cluster.seam = ObservedSeam(cluster.account, before)
        cluster.start()


async def _play_others(cluster: ControlledCluster) -> None:
    """What kubelets and the scheduler do."""
    while True:
        await cluster.wait(1)
        await cluster.stop_pods()
        await _join_instances(cluster)
        await _bind_pods(cluster)


async def _join_instances(cluster: ControlledCluster) -> None:
    joined = {node.spec.providerID for node in await cluster.nodes()}
    for claim in await cluster.claims():
        instance = claim.status.providerID if claim.status else ""
        is_alive = instance.rpartition("/")[2] in cluster.instances()
        if is_alive and instance not in joined and not claim.metadata.deletionTimestamp:
            await cluster.join(claim)


async def _bind_pods(cluster: ControlledCluster) -> None:
    pods = await cluster.pods()
    used = {pod.spec.nodeName for pod in pods}
    free = [
        node.metadata.name
        for node in await cluster.nodes()
        if is_ready(node) and not node.spec.taints and node.metadata.name not in used
    ]
    pending = [pod for pod in pods if not pod.spec.nodeName and not pod.metadata.deletionTimestamp]
    for pod, node in zip(pending, free, strict=False):
        await cluster.bind(pod.metadata.name, node)


async def _pods_come_and_go(cluster: ControlledCluster) -> None:
    """Two pods, a node for each, and the end of both nodes."""
    await cluster.wait(10)
    await cluster.create(*(pending_pod(name, cpu="3") for name in PODS))
    await cluster.wait(400)
    claims = await cluster.claims()
    owned = [claim.status.providerID.rpartition("/")[2] for claim in claims if claim.status]
    assert len(claims) == len(PODS)
    assert sorted(owned) == sorted(cluster.instances())
    assert all(pod.spec.nodeName for pod in await cluster.pods())
    for claim in claims:
        await cluster.api.delete(NodeClaim, claim.metadata.name)
    await cluster.wait(400)
    assert await cluster.pods() == []
    assert await cluster.claims() == []
    assert await cluster.nodes() == []
    assert cluster.instances() == []


def _deaths(steps: int) -> int:
    """How many processes have died, if they do so at that write."""
    deaths = 0

    async def story(cluster: ControlledCluster) -> None:
        nonlocal deaths
        template = {"spec": {"requirements": [TYPES]}}
        await cluster.set_up(node_pool(template=template, disruption=KEEP_EMPTY_NODES))
        processes = MortalProcesses(cluster, steps)
        tasks = [
            asyncio.create_task(processes.run()),
            asyncio.create_task(_play_others(cluster)),
        ]
        await _pods_come_and_go(cluster)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        deaths = processes.deaths

    run_cluster(story)
    return deaths


def test_a_process_that_dies_at_any_write_leaks_no_instance() -> None:
    step = 1
    while _deaths(step):
        step += STRIDE
    assert step > 40  # else the process has done less than there is to do
