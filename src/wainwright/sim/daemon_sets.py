"""DaemonSets of a simulated cluster."""

from typing import Final

import msgspec

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.meta import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from wainwright.api.kubernetes.workloads import (
    Affinity,
    DaemonSet,
    NodeAffinity,
    Pod,
    PodSpec,
    Toleration,
)
from wainwright.controllers.runtime import Key
from wainwright.sim.informers import (
    Informers,
    KeyedWorker,
    key_of,
)
from wainwright.sim.node_info import is_finished
from wainwright.sim.node_matching import (
    NAME_FIELD,
    NO_EXECUTE,
    NO_SCHEDULE,
    first_untolerated,
    matches_node_affinity,
    named_nodes,
    required_node_selector,
)
from wainwright.sim.owned_pods import REVISION_LABEL, OwnedPodTemplate, PodControl, revision_of


def _daemon_toleration(key: str, effect: str) -> Toleration:
    return Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect=effect)


DAEMON_TOLERATIONS: Final = (
    _daemon_toleration("not-ready", NO_EXECUTE),
    _daemon_toleration("unreachable", NO_EXECUTE),
    _daemon_toleration("disk-pressure", NO_SCHEDULE),
    _daemon_toleration("memory-pressure", NO_SCHEDULE),
    _daemon_toleration("pid-pressure", NO_SCHEDULE),
    _daemon_toleration("unschedulable", NO_SCHEDULE),
)
HOST_NETWORK_TOLERATION: Final = _daemon_toleration("network-unavailable", NO_SCHEDULE)
NODE_SEPARATOR: Final = "@"


class DaemonPods:
    """DaemonSets: one pod on each node that the template fits."""

    def __init__(self, control: PodControl, informers: Informers) -> None:
        self._control = control
        self._sets = informers.of(DaemonSet)
        self._nodes, self._pods = informers.of(Node), informers.of(Pod)
        self._worker = KeyedWorker(informers.clock, self._work)
        self._by_node: dict[tuple[Key, str], dict[Key, None]] = {}
        """The pods of a set for one node."""
        self._specs: dict[tuple[Key, str], tuple[str, PodSpec]] = {}
        self._first_revision: dict[Key, str] = {}
        self._sets.add_handler(self._set_changed)
        self._nodes.add_handler(self._node_changed)

    async def run(self) -> None:
        await self._worker.run()

    def _set_changed(self, before: DaemonSet | None, after: DaemonSet | None) -> None:
        if after is None:
            if before is not None:
                self._first_revision.pop(key_of(before), None)
            return
        if before is None or before.spec is not after.spec:
            for node in self._nodes.objects:
                self._worker.add(f"{key_of(after)}{NODE_SEPARATOR}{node}")

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        node = after if after is not None else before
        assert node is not None
        is_same = (
            before is not None
            and after is not None
            and before.spec == after.spec
            and before.metadata.labels == after.metadata.labels
        )
        for key in self._sets.objects if not is_same else ():
            if after is None:
                self._specs.pop((key, node.metadata.name), None)
            self._worker.add(f"{key}{NODE_SEPARATOR}{node.metadata.name}")

    def pod_changed(self, set_key: Key, pod: Pod | None) -> None:
        if pod is None:
            return
        node = _target_node(pod)
        pods = self._by_node.setdefault((set_key, node), {})
        key = key_of(pod)
        current = self._pods.objects.get(key)
        if current is None:
            pods.pop(key, None)
            if not pods:
                del self._by_node[set_key, node]
        else:
            pods[key] = None
        if current is None or is_finished(current):
            self._worker.add(f"{set_key}{NODE_SEPARATOR}{node}")

    async def _work(self, work_key: str) -> None:
        set_key, _, node_name = work_key.partition(NODE_SEPARATOR)
        daemon_set = self._sets.objects.get(set_key)
        node = self._nodes.objects.get(node_name)
        if daemon_set is None or daemon_set.metadata.deletionTimestamp is not None:
            return
        pods = [
            (key, self._pods.objects[key])
            for key in self._by_node.get((set_key, node_name), ())
            if key in self._pods.objects
        ]
        template = self._control.template_of(daemon_set, REVISION_LABEL)
        if node is None or not _may_run(daemon_set, node, (NO_EXECUTE,)):
            await self._delete([key for key, _ in pods])
        elif not pods and _may_run(daemon_set, node, (NO_SCHEDULE, NO_EXECUTE)):
            spec = self._spec_for(set_key, template, node_name)
            await self._control.create_numbered_pod(daemon_set, template, spec)
        else:
            await self._replace(daemon_set, template, pods)

    async def _replace(
        self, daemon_set: DaemonSet, template: OwnedPodTemplate, pods: list[tuple[Key, Pod]]
    ) -> None:
        """Removes what has ended or is of an earlier template; the node is looked at again then."""
        strategy = daemon_set.spec.updateStrategy
        keeps_old = strategy is not None and strategy.type == "OnDelete"
        first = self._first_revision.setdefault(key_of(daemon_set), template.revision)
        await self._delete(
            [
                key
                for key, pod in pods
                if is_finished(pod)
                or (not keeps_old and (revision_of(pod) or first) != template.revision)
            ]
        )

    async def _delete(self, keys: list[Key]) -> None:
        for key in keys:
            await self._control.delete_pod(key)

    def _spec_for(self, set_key: Key, template: OwnedPodTemplate, node: str) -> PodSpec:
        """The template for one node, made once: the API server knows a spec by its identity."""
        known = self._specs.get((set_key, node))
        if known is not None and known[0] == template.revision:
            return known[1]
        spec = daemon_spec(template.spec, node)
        self._specs[set_key, node] = (template.revision, spec)
        return spec


def _target_node(pod: Pod) -> str:
    return pod.spec.nodeName or next(iter(named_nodes(pod.spec) or ()), "")


def _may_run(daemon_set: DaemonSet, node: Node, effects: tuple[str, ...]) -> bool:
    spec = daemon_set.spec.template.spec
    labels = node.metadata.labels or {}
    if not matches_node_affinity(spec, labels, node.metadata.name):
        return False
    return first_untolerated(node.spec.taints, _daemon_tolerations(spec), effects) is None


def _daemon_tolerations(spec: PodSpec) -> list[Toleration]:
    network = [HOST_NETWORK_TOLERATION] if spec.hostNetwork else []
    return [*(spec.tolerations or ()), *DAEMON_TOLERATIONS, *network]


def daemon_spec(spec: PodSpec, node: str) -> PodSpec:
    """The template with what binds the pod to its node and keeps it there."""
    named = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=[node])
    required = required_node_selector(spec)
    terms = required.nodeSelectorTerms or [] if required is not None else [NodeSelectorTerm()]
    selector = NodeSelector(
        nodeSelectorTerms=[msgspec.structs.replace(term, matchFields=[named]) for term in terms]
    )
    affinity = spec.affinity or Affinity()
    node_affinity = msgspec.structs.replace(
        affinity.nodeAffinity or NodeAffinity(),
        requiredDuringSchedulingIgnoredDuringExecution=selector,
    )
    return msgspec.structs.replace(
        spec,
        affinity=msgspec.structs.replace(affinity, nodeAffinity=node_affinity),
        tolerations=_daemon_tolerations(spec),
    )
