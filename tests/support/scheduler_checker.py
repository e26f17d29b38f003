"""The filters of a kube-scheduler, written as plainly as possible: every count is made anew.

Slow, and only for judging the simulated scheduler. Nothing here is used by it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from wainwright.api.kubernetes.cluster import Node, Taint
from wainwright.api.kubernetes.label_validation import selector_matches
from wainwright.api.kubernetes.meta import NodeSelectorRequirement, to_quantity
from wainwright.api.kubernetes.workloads import (
    Pod,
    PodAffinityTerm,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)

Labels = dict[str, str]


@dataclass
class CheckedCluster:
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    """Those on nodes, by name."""
    namespaces: dict[str, Labels] = field(default_factory=dict)

    def problem(self, pod: Pod, node: Node) -> str | None:
        """Why the pod must not be put on the node now; None if it may."""
        for name, is_broken in (
            ("unschedulable", node.spec.unschedulable),
            ("taints", not _tolerates_all(pod.spec, node)),
            ("node affinity", not _matches_node(pod.spec, node)),
            ("resources", not self._fits(pod, node)),
            ("ports", self._has_port_conflict(pod, node)),
            ("affinity", not self._meets_affinity(pod, node)),
            ("anti-affinity", self._meets_anti_affinity(pod, node)),
            ("others' anti-affinity", self._is_kept_away(pod, node)),
            ("spread", not self._keeps_skew(pod, node)),
        ):
            if is_broken:
                return name
        return None

    def _on(self, node: Node) -> list[Pod]:
        return [each for each in self.pods.values() if each.spec.nodeName == node.metadata.name]

    def _fits(self, pod: Pod, node: Node) -> bool:
        there = [*self._on(node), pod]
        offered = node.status.allocatable or {}
        if len(there) > to_quantity(offered.get("pods", 0)).units:
            return False
        names = {name for each in there for name in _requests(each)}
        return all(
            sum(_requests(each).get(name, 0) for each in there)
            <= to_quantity(offered.get(name, 0)).nano
            for name in names
            if _requests(pod).get(name, 0)
        )

    def _has_port_conflict(self, pod: Pod, node: Node) -> bool:
        taken = {port for each in self._on(node) for port in _ports(each)}
        return any(port in taken for port in _ports(pod))

    def _selected(self, term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
        return self._has_namespace(term, owner, other) and (
            term.labelSelector is not None
            and selector_matches(term.labelSelector, other.metadata.labels or {})
        )

    def _has_namespace(self, term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
        if not term.namespaces and term.namespaceSelector is None:
            return owner.metadata.namespace == other.metadata.namespace
        labels = self.namespaces.get(other.metadata.namespace, {})
        return other.metadata.namespace in (term.namespaces or ()) or (
            term.namespaceSelector is not None and selector_matches(term.namespaceSelector, labels)
        )

    def _together(self, node: Node, key: str) -> list[Pod]:
        """Pods in the node's domain."""
        value = _labels(node).get(key)
        if value is None:
            return []
        return [
            each
            for each in self.pods.values()
            if each.spec.nodeName in self.nodes
            and _labels(self.nodes[each.spec.nodeName]).get(key) == value
        ]

    def _meets_affinity(self, pod: Pod, node: Node) -> bool:
        terms = _terms(pod, "podAffinity")
        if not terms:
            return True
        if any(term.topologyKey not in _labels(node) for term in terms):
            return False

        def meets_all(other: Pod) -> bool:
            return all(self._selected(term, pod, other) for term in terms)

        if all(any(map(meets_all, self._together(node, term.topologyKey))) for term in terms):
            return True
        is_first = not any(
            meets_all(other)
            and any(term.topologyKey in _labels(self.nodes[other.spec.nodeName]) for term in terms)
            for other in self.pods.values()
            if other.spec.nodeName in self.nodes
        )
        return is_first and meets_all(pod)

    def _meets_anti_affinity(self, pod: Pod, node: Node) -> bool:
        return any(
            self._selected(term, pod, other)
            for term in _terms(pod, "podAntiAffinity")
            for other in self._together(node, term.topologyKey)
        )

    def _is_kept_away(self, pod: Pod, node: Node) -> bool:
        return any(
            self._selected(term, other, pod)
            for other in self.pods.values()
            for term in _terms(other, "podAntiAffinity")
            if other in self._together(node, term.topologyKey)
        )

    def _keeps_skew(self, pod: Pod, node: Node) -> bool:
        limits = [
            each
            for each in pod.spec.topologySpreadConstraints or ()
            if each.whenUnsatisfiable == "DoNotSchedule"
        ]
        return all(self._keeps(limit, limits, pod, node) for limit in limits)

    def _keeps(
        self,
        limit: TopologySpreadConstraint,
        limits: list[TopologySpreadConstraint],
        pod: Pod,
        node: Node,
    ) -> bool:
        if limit.topologyKey not in _labels(node):
            return False
        counts: dict[str, int] = {}
        for each in self.nodes.values():
            if self._takes_part(each, limit, limits, pod):
                domain = _labels(each)[limit.topologyKey]
                found = sum(
                    _is_spread(limit, pod, other)
                    for other in self._on(each)
                    if other.metadata.deletionTimestamp is None
                )
                counts[domain] = counts.get(domain, 0) + found
        least = min(counts.values(), default=0)
        if len(counts) < (limit.minDomains or 1):
            least = 0
        here = counts.get(_labels(node)[limit.topologyKey], 0)
        return here + _is_spread(limit, pod, pod) - least <= limit.maxSkew

    def _takes_part(
        self,
        node: Node,
        limit: TopologySpreadConstraint,
        limits: list[TopologySpreadConstraint],
        pod: Pod,
    ) -> bool:
        if any(each.topologyKey not in _labels(node) for each in limits):
            return False
        if limit.nodeAffinityPolicy != "Ignore" and not _matches_node(pod.spec, node):
            return False
        return limit.nodeTaintsPolicy != "Honor" or _tolerates_all(pod.spec, node)


def _labels(node: Node) -> Labels:
    return node.metadata.labels or {}


def _is_spread(limit: TopologySpreadConstraint, owner: Pod, other: Pod) -> bool:
    if limit.labelSelector is None or other.metadata.namespace != owner.metadata.namespace:
        return False
    own, found = owner.metadata.labels or {}, other.metadata.labels or {}
    same = all(found.get(key) == own[key] for key in limit.matchLabelKeys or () if key in own)
    return same and selector_matches(limit.labelSelector, found)


def _terms(pod: Pod, kind: str) -> list[PodAffinityTerm]:
    part = getattr(pod.spec.affinity, kind) if pod.spec.affinity is not None else None
    return list(part.requiredDuringSchedulingIgnoredDuringExecution or ()) if part else []


def _tolerates_all(spec: PodSpec, node: Node) -> bool:
    return all(
        any(_tolerates(each, taint) for each in spec.tolerations or ())
        for taint in node.spec.taints or ()
        if taint.effect != "PreferNoSchedule"
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value


def _matches_node(spec: PodSpec, node: Node) -> bool:
    labels = _labels(node)
    if any(labels.get(key) != value for key, value in (spec.nodeSelector or {}).items()):
        return False
    affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    if required is None:
        return True
    return any(
        all(_meets(each, labels) for each in term.matchExpressions or ())
        for term in required.nodeSelectorTerms or ()
    )


def _meets(requirement: NodeSelectorRequirement, labels: Labels) -> bool:
    found, values = labels.get(requirement.key), requirement.values or []
    answers = {
        "In": found in values,
        "NotIn": found not in values,
        "Exists": found is not None,
        "DoesNotExist": found is None,
    }
    return answers[requirement.operator]


def _requests(pod: Pod) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in pod.spec.containers or ():
        for name, amount in (container.resources.requests or {}).items():
            total[name] = total.get(name, 0) + to_quantity(amount).nano
    return total


def _ports(pod: Pod) -> Iterator[int]:
    for container in pod.spec.containers or ():
        yield from (port.hostPort for port in container.ports or ())
