"""DaemonSets: one more pod on every node that their template fits."""

from collections.abc import Iterable
from math import inf

from wainwright.api.builtin.pod import Pod, PodSpec
from wainwright.api.builtin.workloads import DaemonSet
from wainwright.manifests.expand import namespace
from wainwright.manifests.translate.affinity import Places
from wainwright.manifests.translate.moments import seconds
from wainwright.manifests.translate.pods import Pods
from wainwright.manifests.translate.ports import host_ports
from wainwright.manifests.translate.runtimes import Runtimes
from wainwright.manifests.translate.sorting import is_done
from wainwright.manifests.translate.taints import OF_DAEMONS, ON_THE_NODES_NETWORK, tolerations
from wainwright.model import pod as model
from wainwright.model.labels import HOSTNAME
from wainwright.model.taints import Toleration

Name = tuple[str, str]
"""Namespace and name."""


class DaemonSets:
    """Translates DaemonSets beside the pods that they have already."""

    def __init__(self, pods: Pods, runtimes: Runtimes, live: Iterable[Pod]) -> None:
        self._pods = pods
        self._runtimes = runtimes
        # A DaemonSet gives each of its pods the name of a node, which says nothing of the others.
        self._places = Places({}, without={HOSTNAME})
        self._live = _youngest(live)

    def daemonset(self, written: DaemonSet) -> model.DaemonSet:
        name = (namespace(written.metadata), written.metadata.name)
        spec = written.spec.template.spec
        selectors = (spec.nodeSelector, self._runtimes.of(spec).selector)
        wanted = self._places.wanted(selectors, spec.affinity)
        # What admission made of the template (defaults, autoscalers) only a live pod can tell.
        shown = self._live.get(name) or Pod(spec=spec)
        return model.DaemonSet(
            namespace=name[0],
            name=name[1],
            requests=self._pods.shape(shown).requests,
            alternatives=wanted.alternatives,
            tolerations=self._tolerations(spec),
            ports=host_ports(spec),
        )

    def _tolerations(self, spec: PodSpec) -> tuple[Toleration, ...]:
        own = tolerations([*(spec.tolerations or ()), *self._runtimes.of(spec).tolerations])
        given = (*OF_DAEMONS, ON_THE_NODES_NETWORK) if spec.hostNetwork else OF_DAEMONS
        return tuple(dict.fromkeys((*own, *given)))


def _youngest(live: Iterable[Pod]) -> dict[Name, Pod]:
    found: dict[Name, Pod] = {}
    for pod in live:
        for owner in pod.metadata.ownerReferences or ():
            if owner.kind == "DaemonSet" and not is_done(pod):
                name = (namespace(pod.metadata), owner.name)
                found[name] = max(found.get(name, pod), pod, key=_age)
    return found


def _age(pod: Pod) -> tuple[float, str]:
    created = seconds(pod.metadata.creationTimestamp)
    return -inf if created is None else created, pod.metadata.name
