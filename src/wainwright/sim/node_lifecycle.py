"""The node lifecycle controller of a simulated cluster, and its neighbours in the same process.

What kube-controller-manager does to nodes and to the pods on them: a node whose kubelet falls
silent is Unknown after 40 s; taints follow the Ready condition; pods that do not tolerate a
NoExecute taint are deleted, after as long as they tolerate it; pods of a deleted Node go with it.

A Node whose instance is gone is not deleted here. The cloud controller manager of a cluster on EC2
would do it; here finding such nodes is the job of our own controllers, and somebody faster would
hide that they do not.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.kubernetes.cluster import Node, NodeCondition, Taint
from wainwright.api.kubernetes.workloads import Pod, PodCondition
from wainwright.clock import format_timestamp
from wainwright.cluster import Preconditions
from wainwright.controllers.runtime import Key
from wainwright.sim.evictions import with_condition
from wainwright.sim.informers import (
    Informers,
    KeyedWorker,
    PodsByNode,
    earliest,
    key_of,
    split_key,
)
from wainwright.sim.node_matching import NO_EXECUTE, NO_SCHEDULE, tolerates

GRACE_SECONDS: Final = 40.0
"""Without a sign of life from a kubelet."""
TAINT_SECONDS: Final = 0.01
"""From a changed condition to the taints that follow it."""
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
TAINTS_BY_STATUS: Final = {
    "True": (),
    "False": ((NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)),
    "Unknown": ((UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)),
}
OWN_KEYS: Final = (NOT_READY, UNREACHABLE, UNSCHEDULABLE)


class AnsweringKubelets(Protocol):
    """Who knows whether the kubelets of nodes answer."""

    def on_silence(self, handler: Callable[[str], None]) -> None:
        """Calls it with the name of a node whose kubelet falls silent, or answers again."""
        ...

    def silent_since(self, node: str) -> float | None:
        """None while it answers."""
        ...


class NodeLifecycle:
    """Conditions and taints of nodes."""

    def __init__(self, informers: Informers, kubelets: AnsweringKubelets) -> None:
        self._cluster, self._clock, self._kubelets = informers.cluster, informers.clock, kubelets
        self._nodes = informers.of(Node)
        self._worker = KeyedWorker(self._clock, self._work)
        self._taints_at: dict[str, float] = {}
        kubelets.on_silence(self._worker.add)
        self._nodes.add_handler(self._changed)

    @property
    def next_due(self) -> float | None:
        return self._worker.next_due

    async def run(self) -> None:
        await self._worker.run()

    def _changed(self, before: Node | None, after: Node | None) -> None:
        if after is None:
            if before is not None:
                self._taints_at.pop(before.metadata.name, None)
                self._worker.forget(before.metadata.name)
        elif before is None or before.status is not after.status or before.spec != after.spec:
            self._worker.add(after.metadata.name)

    async def _work(self, name: str) -> None:
        node = self._nodes.objects.get(name)
        if node is None:
            return
        silent = self._kubelets.silent_since(name)
        if silent is not None and _ready_status(node) != "Unknown":
            if silent + GRACE_SECONDS > self._clock.now():
                self._worker.add_at(name, silent + GRACE_SECONDS)
            else:
                node = await self._mark_unknown(node)
        await self._set_taints(name, node)

    async def _mark_unknown(self, node: Node) -> Node:
        now = format_timestamp(self._clock.now())
        conditions = [
            NodeCondition(
                type=each.type,
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                lastTransitionTime=now,
            )
            for each in node.status.conditions or [NodeCondition(type="Ready")]
        ]
        status = {"conditions": [msgspec.to_builtins(each) for each in conditions]}
        changed = await self._cluster.patch_status(Node, node.metadata.name, {"status": status})
        self._nodes.observe(changed)
        return changed

    async def _set_taints(self, name: str, node: Node) -> None:
        wanted = wanted_taints(node, format_timestamp(self._clock.now()))
        if wanted is None:
            self._taints_at.pop(name, None)
            return
        due = self._taints_at.setdefault(name, self._clock.now() + TAINT_SECONDS)
        if due > self._clock.now():
            self._worker.add_at(name, due)
            return
        del self._taints_at[name]
        patch: dict[str, Any] = {
            "metadata": {"resourceVersion": node.metadata.resourceVersion},
            "spec": {"taints": [msgspec.to_builtins(each) for each in wanted] or None},
        }
        self._nodes.observe(await self._cluster.patch(Node, name, patch))


def _ready_status(node: Node) -> str:
    for each in node.status.conditions or ():
        if each.type == "Ready":
            return each.status
    return ""


def wanted_taints(node: Node, now: str) -> list[Taint] | None:
    """The node's taints with those that follow from its Ready condition and from being cordoned;
    None where it has them already.
    """
    status = _ready_status(node)
    if status not in TAINTS_BY_STATUS:
        return None  # a Node without conditions is one whose kubelet is played by somebody else
    own = [*TAINTS_BY_STATUS[status]]
    if node.spec.unschedulable:
        own.append((UNSCHEDULABLE, NO_SCHEDULE))
    present = node.spec.taints or []
    kept = [each for each in present if each.key not in OWN_KEYS or (each.key, each.effect) in own]
    there = [(each.key, each.effect) for each in kept]
    missing = [
        Taint(key=key, effect=effect, timeAdded=now if effect == NO_EXECUTE else None)
        for key, effect in own
        if (key, effect) not in there
    ]
    wanted = [*kept, *missing]
    return None if wanted == present else wanted


class TaintEviction:
    """Deletes pods that a NoExecute taint drives away."""

    def __init__(self, informers: Informers, pods_by_node: PodsByNode) -> None:
        self._cluster, self._clock = informers.cluster, informers.clock
        self._nodes, self._pods = informers.of(Node), informers.of(Pod)
        self._by_node = pods_by_node
        self._worker = KeyedWorker(self._clock, self._work)
        self._driven_since: dict[Key, float] = {}
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)

    @property
    def next_due(self) -> float | None:
        return self._worker.next_due

    async def run(self) -> None:
        await self._worker.run()

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is not None and _evicting_taints(before) != _evicting_taints(after):
            for key in self._by_node.on(after.metadata.name):
                self._worker.add(key)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._driven_since.pop(key_of(before), None)
                self._worker.forget(key_of(before))
        elif after.spec.nodeName and (before is None or not before.spec.nodeName):
            node = self._nodes.objects.get(after.spec.nodeName)
            if _evicting_taints(node):
                self._worker.add(key_of(after))

    async def _work(self, key: Key) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or pod.metadata.deletionTimestamp is not None:
            return
        stays = _tolerated_seconds(
            pod, _evicting_taints(self._nodes.objects.get(pod.spec.nodeName))
        )
        if stays is None:
            self._driven_since.pop(key, None)
            self._worker.forget(key)
            return
        due = self._driven_since.setdefault(key, self._clock.now()) + stays
        if due > self._clock.now():
            self._worker.add_at(key, due)
            return
        await self._delete(key, pod)

    async def _delete(self, key: Key, pod: Pod) -> None:
        condition = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="DeletionByTaintManager",
            message="Taint manager: deleting due to NoExecute taint",
            lastTransitionTime=format_timestamp(self._clock.now()),
        )
        conditions = msgspec.to_builtins(with_condition(pod, condition).status.conditions)
        namespace, name = split_key(key)
        patch = {"status": {"conditions": conditions}}
        self._pods.observe(await self._cluster.patch_status(Pod, name, patch, namespace))
        await self._cluster.delete(
            Pod, name, namespace, preconditions=Preconditions(uid=pod.metadata.uid)
        )


def _evicting_taints(node: Node | None) -> list[Taint]:
    taints = node.spec.taints or () if node is not None else ()
    return [each for each in taints if each.effect == NO_EXECUTE]


def _tolerated_seconds(pod: Pod, taints: list[Taint]) -> float | None:
    """How long the pod may stay; None: for good."""
    shortest: float | None = None
    for taint in taints:
        matching = [each for each in pod.spec.tolerations or () if tolerates(each, taint)]
        if not matching:
            return 0.0
        limits = [
            float(max(0, each.tolerationSeconds))
            for each in matching
            if each.tolerationSeconds is not None
        ]
        shortest = earliest(shortest, min(limits, default=None))
    return shortest


REMEMBERED_SECONDS: Final = 3600.0
"""So late no pod is bound to a node that is gone."""


class PodGarbageCollector:
    """Removes the pods of a Node that was deleted: no kubelet is left to do it.

    A real one waits for 40 s and looks every 20 s; here they go with their Node.
    """

    def __init__(self, informers: Informers, pods_by_node: PodsByNode) -> None:
        self._cluster = informers.cluster
        self._nodes, self._pods = informers.of(Node), informers.of(Pod)
        self._by_node = pods_by_node
        self._clock = informers.clock
        self._gone: dict[str, float] = {}
        """Nodes that were there within the last hour, and when they went; a pod on a node that
        nobody has ever seen is left alone."""
        self._worker = KeyedWorker(informers.clock, self._work)
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)

    @property
    def next_due(self) -> float | None:
        return self._worker.next_due

    async def run(self) -> None:
        await self._worker.run()

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is not None:
            self._gone.pop(after.metadata.name, None)
        elif before is not None:
            self._remember(before.metadata.name)
            for key in self._by_node.on(before.metadata.name):
                self._worker.add(key)

    def _remember(self, node: str) -> None:
        now = self._clock.now()
        self._gone.pop(node, None)
        self._gone[node] = now
        while now - self._gone[oldest := next(iter(self._gone))] > REMEMBERED_SECONDS:
            del self._gone[oldest]

    def _pod_changed(self, _before: Pod | None, after: Pod | None) -> None:
        if after is not None and after.spec.nodeName in self._gone:
            self._worker.add(key_of(after))

    async def _work(self, key: Key) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or pod.spec.nodeName in self._nodes.objects:
            return
        namespace, name = split_key(key)
        await self._cluster.delete(
            Pod,
            name,
            namespace,
            preconditions=Preconditions(uid=pod.metadata.uid),
            grace_period=0,
        )
