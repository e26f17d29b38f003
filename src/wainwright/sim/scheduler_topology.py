"""What of a pod depends on other pods: affinity, anti-affinity and spread, for the scheduler.

A count is kept for each selector that some pod's constraints have, and follows every pod that comes
or goes; who asks for the first time pays for one look at all pods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from wainwright.api.kubernetes.cluster import Namespace
from wainwright.api.kubernetes.label_validation import selector_matches
from wainwright.api.kubernetes.meta import LabelSelector, LabelSelectorRequirement
from wainwright.api.kubernetes.workloads import (
    Affinity,
    Pod,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
)
from wainwright.sim.node_info import NodeInfo, PlacementNeeds, required_terms
from wainwright.sim.node_matching import (
    PREFER_NO_SCHEDULE,
    first_untolerated,
    matches_node_affinity,
    matches_term,
)

Labels: TypeAlias = Mapping[str, str]
PREFERENCE_WEIGHTS: Final = {"node": 2.0, "pod": 2.0, "spread": 2.0, "taint": 3.0}
"""Of scores between 0 and 100, as in the kube-scheduler's default profile."""
NO_SELECTOR: Final = LabelSelector(
    matchExpressions=[LabelSelectorRequirement(key="a", operator="In", values=[])]
)
"""An absent selector selects nothing."""


class PodTerm(NamedTuple):
    """Which pods a term selects: one of these namespaces, and this selector."""

    namespaces: tuple[str, ...]
    namespace_selector: LabelSelector | None
    selector: LabelSelector

    def matches(
        self, namespace: str, labels: Labels, namespace_labels: Callable[[str], Labels]
    ) -> bool:
        return self._has_namespace(namespace, namespace_labels) and selector_matches(
            self.selector, dict(labels)
        )

    def _has_namespace(self, name: str, namespace_labels: Callable[[str], Labels]) -> bool:
        if name in self.namespaces:
            return True
        selector = self.namespace_selector
        return selector is not None and selector_matches(selector, dict(namespace_labels(name)))


def affinity_term(term: PodAffinityTerm, namespace: str, labels: Labels) -> PodTerm:
    """The pods of a term that a pod of this namespace with these labels has."""
    own = () if term.namespaces or term.namespaceSelector is not None else (namespace,)
    selector = _with_label_keys(term.labelSelector, term.matchLabelKeys, labels, "In")
    selector = _with_label_keys(selector, term.mismatchLabelKeys, labels, "NotIn")
    return PodTerm(tuple(term.namespaces or own), term.namespaceSelector, selector)


def spread_term(constraint: TopologySpreadConstraint, namespace: str, labels: Labels) -> PodTerm:
    selector = _with_label_keys(constraint.labelSelector, constraint.matchLabelKeys, labels, "In")
    return PodTerm((namespace,), None, selector)


def _with_label_keys(
    selector: LabelSelector | None, keys: Iterable[str] | None, labels: Labels, operator: str
) -> LabelSelector:
    if selector is None:
        return NO_SELECTOR
    more = [
        LabelSelectorRequirement(key=key, operator=operator, values=[labels[key]])
        for key in keys or ()
        if key in labels
    ]
    if not more:
        return selector
    return msgspec.structs.replace(
        selector, matchExpressions=[*(selector.matchExpressions or ()), *more]
    )


class CountedPod(NamedTuple):
    """A pod on a node, as far as others' constraints see it."""

    namespace: str
    labels: Labels
    node: str
    is_deleting: bool
    spec: PodSpec


class NodeCounts:
    """How many pods on each node meet all of some terms, and those of them not being deleted."""

    def __init__(self, terms: tuple[PodTerm, ...]) -> None:
        self.terms = terms
        self.all: dict[str, int] = {}
        self.live: dict[str, int] = {}
        self.version = 0
        self.domains: list[DomainCounts] = []

    def add(self, node: str, sign: int, *, is_live: bool) -> None:
        self.version += 1
        self.all[node] = self.all.get(node, 0) + sign
        if is_live:
            self.live[node] = self.live.get(node, 0) + sign
        for each in self.domains:
            if is_live or not each.only_live:
                each.add(node, sign)


class Participation:
    """Which nodes a pod's spread constraint counts: those with the labels of all its constraints,
    and by default those that its node affinity admits, tainted or not.
    """

    def __init__(
        self, needs: PlacementNeeds, constraint: TopologySpreadConstraint, keys: tuple[str, ...]
    ) -> None:
        self._needs, self._keys = needs, keys
        self._honors_affinity = constraint.nodeAffinityPolicy != "Ignore"
        self._honors_taints = constraint.nodeTaintsPolicy == "Honor"
        self.key = (needs, keys, self._honors_affinity, self._honors_taints)

    def includes(self, info: NodeInfo) -> bool:
        spec, labels = self._needs.spec, info.labels
        if any(key not in labels for key in self._keys):
            return False
        if self._honors_affinity and not matches_node_affinity(spec, labels, info.name):
            return False
        return not (self._honors_taints and first_untolerated(info.taints, spec.tolerations))


class DomainCounts:
    """The counts summed by the values of a node label, over the nodes that take part."""

    def __init__(
        self,
        counts: NodeCounts,
        key: str,
        participation: Participation | None = None,
    ) -> None:
        self.key = key
        self.only_live = participation is not None
        """Spread does not count pods that are being deleted; affinity does."""
        self._participation = participation
        self._counts = counts
        self._domain_of: dict[str, str] = {}
        self._nodes: dict[str, int] = {}
        """How many nodes each domain has; one without nodes is none."""
        self.pods: dict[str, int] = {}
        self.total = 0
        self.version = 0
        self._minimum: int | None = None
        counts.domains.append(self)

    @property
    def counted_version(self) -> int:
        """Changes whenever a constraint on these counts may be judged differently."""
        return self._counts.version + self.version

    def add(self, node: str, sign: int) -> None:
        domain = self._domain_of.get(node)
        if domain is not None:
            self.pods[domain] += sign
            self.total += sign
            self._minimum = None

    def set_node(self, info: NodeInfo) -> None:
        """The node came, went, or has other labels or taints."""
        before, after = self._domain_of.get(info.name), self._domain(info)
        if before == after:
            return
        self.version += 1
        self._minimum = None
        source = self._counts.live if self.only_live else self._counts.all
        count = source.get(info.name, 0)
        if before is not None:
            self._leave(info.name, before, count)
        if after is not None:
            self._domain_of[info.name] = after
            self._nodes[after] = self._nodes.get(after, 0) + 1
            self.pods[after] = self.pods.get(after, 0) + count
            self.total += count

    def _leave(self, node: str, domain: str, count: int) -> None:
        del self._domain_of[node]
        self.pods[domain] -= count
        self.total -= count
        self._nodes[domain] -= 1
        if not self._nodes[domain]:
            del self._nodes[domain], self.pods[domain]

    def _domain(self, info: NodeInfo) -> str | None:
        if info.node is None:
            return None
        if self._participation is not None and not self._participation.includes(info):
            return None
        return info.labels.get(self.key)

    @property
    def minimum(self) -> int:
        """Kept until a count changes: every node that is judged needs it."""
        if self._minimum is None:
            self._minimum = min(self.pods.values(), default=0)
        return self._minimum


class _TermIndex:
    """Counts by one label that their selector requires, so that a pod is compared with few."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[NodeCounts]] = {}
        self._others: list[NodeCounts] = []

    def add(self, counts: NodeCounts) -> None:
        required = counts.terms[0].selector.matchLabels
        if required:
            self._by_label.setdefault(next(iter(required.items())), []).append(counts)
        else:
            self._others.append(counts)

    def candidates(self, labels: Labels) -> Iterator[NodeCounts]:
        if self._by_label:
            for item in labels.items():
                yield from self._by_label.get(item, ())
        yield from self._others


class TopologyCounts:
    """All counts, fed with every pod on a node and every change of a node."""

    def __init__(
        self,
        nodes: Mapping[str, NodeInfo],
        pods: Callable[[], Iterable[CountedPod]],
        namespaces: Mapping[str, Namespace],
    ) -> None:
        self._nodes, self._pods, self._namespaces = nodes, pods, namespaces
        self.generation = 0
        """Counts of an earlier one are no longer kept up."""
        self.clear()

    def clear(self) -> None:
        """Forgets all counts; whoever needs some asks again."""
        self.generation += 1
        self.anti_affinity_version = 0
        self._selected: dict[bytes, NodeCounts] = {}
        self._selected_index = _TermIndex()
        self._holders: dict[bytes, NodeCounts] = {}
        self._holders_index = _TermIndex()
        self._by_key: dict[tuple[object, ...], DomainCounts] = {}
        self._holder_domains: dict[int, DomainCounts] = {}
        for pod in self._pods():
            self._count_holder(pod, 1)

    def namespace_labels(self, name: str) -> Labels:
        found = self._namespaces.get(name)
        return {} if found is None else found.metadata.labels or {}

    def matches(self, term: PodTerm, namespace: str, labels: Labels) -> bool:
        return term.matches(namespace, labels, self.namespace_labels)

    def counts_of(self, terms: tuple[PodTerm, ...]) -> NodeCounts:
        """The pods that meet all of the terms."""
        key = msgspec.json.encode(terms)
        counts = self._selected.get(key)
        if counts is None:
            counts = self._selected[key] = NodeCounts(terms)
            self._selected_index.add(counts)
            for pod in self._pods():
                self._count_selected(counts, pod, 1)
        return counts

    def domains(
        self,
        counts: NodeCounts,
        key: str,
        participation: Participation | None = None,
    ) -> DomainCounts:
        """The counts by the values of the label, shared by all that ask for the same.

        With participation: as topology spread counts them.
        """
        shared_key = (id(counts), key, None if participation is None else participation.key)
        known = self._by_key.get(shared_key)
        if known is None:
            known = self._by_key[shared_key] = DomainCounts(counts, key, participation)
            for info in self._nodes.values():
                known.set_node(info)
        return known

    def set_node(self, info: NodeInfo) -> None:
        for each in self._by_key.values():
            each.set_node(info)

    def count_pod(self, pod: CountedPod, sign: int) -> None:
        for counts in self._selected_index.candidates(pod.labels):
            self._count_selected(counts, pod, sign)
        self._count_holder(pod, sign)

    def _count_selected(self, counts: NodeCounts, pod: CountedPod, sign: int) -> None:
        if all(self.matches(term, pod.namespace, pod.labels) for term in counts.terms):
            counts.add(pod.node, sign, is_live=not pod.is_deleting)

    def _count_holder(self, pod: CountedPod, sign: int) -> None:
        """Counts the pod as one whose anti-affinity keeps others away."""
        affinity = pod.spec.affinity
        if affinity is None or affinity.podAntiAffinity is None:
            return
        for term in required_terms(affinity.podAntiAffinity):
            counts = self._holder_counts(
                affinity_term(term, pod.namespace, pod.labels), term.topologyKey
            )
            counts.add(pod.node, sign, is_live=True)

    def _holder_counts(self, term: PodTerm, key: str) -> NodeCounts:
        encoded = msgspec.json.encode((term, key))
        counts = self._holders.get(encoded)
        if counts is None:
            counts = self._holders[encoded] = NodeCounts((term,))
            self._holders_index.add(counts)
            self._holder_domains[id(counts)] = self.domains(counts, key)
            self.anti_affinity_version += 1
        return counts

    def keeping_away(self, namespace: str, labels: Labels) -> list[DomainCounts]:
        """Where pods are whose anti-affinity keeps a pod with these labels away."""
        return [
            self._holder_domains[id(counts)]
            for counts in self._holders_index.candidates(labels)
            if self.matches(counts.terms[0], namespace, labels)
        ]


class SpreadLimit(NamedTuple):
    """A topology spread constraint of a group, with the counts that it goes by."""

    constraint: TopologySpreadConstraint
    domains: DomainCounts
    counts_itself: bool

    def misfit(self, info: NodeInfo) -> str | None:
        domain = info.labels.get(self.domains.key)
        if domain is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        skew = self.domains.pods.get(domain, 0) + self.counts_itself - self._minimum()
        if skew > self.constraint.maxSkew:
            return "node(s) didn't match pod topology spread constraints"
        return None

    def _minimum(self) -> int:
        if len(self.domains.pods) < (self.constraint.minDomains or 1):
            return 0
        return self.domains.minimum


class PodTopologyTerms:
    """What of a group depends on other pods. Made anew when the counts were forgotten."""

    def __init__(self, pod: Pod, needs: PlacementNeeds, topology: TopologyCounts) -> None:
        self._namespace, self._labels = pod.metadata.namespace, pod.metadata.labels or {}
        self._spec, self._needs, self._topology = pod.spec, needs, topology
        self.generation = topology.generation
        affinity = pod.spec.affinity or Affinity()
        self._affinity = self._all_terms(required_terms(affinity.podAffinity))
        self._anti_affinity = [
            domains
            for term in required_terms(affinity.podAntiAffinity)
            for domains in self._all_terms((term,))
        ]
        terms = [
            affinity_term(term, self._namespace, self._labels)
            for term in required_terms(affinity.podAffinity)
        ]
        self._is_own_affinity = bool(terms) and all(map(self._matches_itself, terms))
        self._spread = [*self._limits("DoNotSchedule")]
        self._soft_spread = [*self._limits("ScheduleAnyway")]
        self._preferred = [*self._preferred_domains(affinity)]
        self._keeping_away: list[DomainCounts] = []
        self._anti_version = -1
        self.has_preferences = bool(self._soft_spread or self._preferred or needs.preferred_terms)

    def _matches_itself(self, term: PodTerm) -> bool:
        return self._topology.matches(term, self._namespace, self._labels)

    def _all_terms(self, written: tuple[PodAffinityTerm, ...]) -> list[DomainCounts]:
        """A pod counts for affinity if it meets all terms together."""
        terms = tuple(affinity_term(each, self._namespace, self._labels) for each in written)
        if not terms:
            return []
        counts = self._topology.counts_of(terms)
        return [self._topology.domains(counts, each.topologyKey) for each in written]

    def _limits(self, kind: str) -> Iterator[SpreadLimit]:
        constraints = [
            each
            for each in self._spec.topologySpreadConstraints or ()
            if each.whenUnsatisfiable == kind
        ]
        keys = tuple(each.topologyKey for each in constraints)
        for each in constraints:
            term = spread_term(each, self._namespace, self._labels)
            domains = self._topology.domains(
                self._topology.counts_of((term,)),
                each.topologyKey,
                Participation(self._needs, each, keys),
            )
            yield SpreadLimit(each, domains, self._matches_itself(term))

    def _preferred_domains(self, affinity: Affinity) -> Iterator[tuple[int, DomainCounts]]:
        for sign, part in ((1, affinity.podAffinity), (-1, affinity.podAntiAffinity)):
            for each in part.preferredDuringSchedulingIgnoredDuringExecution or () if part else ():
                term = affinity_term(each.podAffinityTerm, self._namespace, self._labels)
                counts = self._topology.counts_of((term,))
                key = each.podAffinityTerm.topologyKey
                yield sign * each.weight, self._topology.domains(counts, key)

    def _anti_holders(self) -> list[DomainCounts]:
        if self._anti_version != self._topology.anti_affinity_version:
            self._anti_version = self._topology.anti_affinity_version
            self._keeping_away = self._topology.keeping_away(self._namespace, self._labels)
        return self._keeping_away

    @property
    def version(self) -> int:
        """Changes with every count that the required constraints go by."""
        return sum(
            each.counted_version
            for each in (
                *self._affinity,
                *self._anti_affinity,
                *(limit.domains for limit in self._spread),
                *self._anti_holders(),
            )
        )

    def misfit(self, info: NodeInfo) -> str | None:
        for limit in self._spread:
            found = limit.misfit(info)
            if found is not None:
                return found
        return self._affinity_misfit(info)

    def _affinity_misfit(self, info: NodeInfo) -> str | None:
        if self._affinity and not self._meets_affinity(info):
            return "node(s) didn't match pod affinity rules"
        if any(_has_pods(each, info) for each in self._anti_affinity):
            return "node(s) didn't match pod anti-affinity rules"
        if any(_has_pods(each, info) for each in self._anti_holders()):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
        return None

    def _meets_affinity(self, info: NodeInfo) -> bool:
        if any(each.key not in info.labels for each in self._affinity):
            return False
        if all(_has_pods(each, info) for each in self._affinity):
            return True
        # The first pod of a group that wants to be together may begin anywhere.
        return self._is_own_affinity and not any(each.total for each in self._affinity)

    def preference(self, candidates: list[tuple[float, NodeInfo]]) -> list[float]:
        """What is added to the score of each candidate."""
        totals = [0.0] * len(candidates)
        infos = [info for _, info in candidates]
        for kind, raw, is_reversed in (
            ("node", [self._node_preference(info) for info in infos], False),
            ("pod", [self._pod_preference(info) for info in infos], False),
            ("spread", [self._crowding(info) for info in infos], True),
            ("taint", [_soft_taints(info, self._spec) for info in infos], True),
        ):
            for index, value in enumerate(_normalized(raw, is_reversed=is_reversed)):
                totals[index] += PREFERENCE_WEIGHTS[kind] * value
        return totals

    def _node_preference(self, info: NodeInfo) -> float:
        return sum(
            each.weight
            for each in self._needs.preferred_terms
            if matches_term(each.preference, info.labels, info.name)
        )

    def _pod_preference(self, info: NodeInfo) -> float:
        return sum(
            weight * domains.pods.get(info.labels.get(domains.key, ""), 0)
            for weight, domains in self._preferred
        )

    def _crowding(self, info: NodeInfo) -> float:
        return sum(
            limit.domains.pods.get(info.labels.get(limit.domains.key, ""), 0)
            for limit in self._soft_spread
        )


def _has_pods(domains: DomainCounts, info: NodeInfo) -> bool:
    domain = info.labels.get(domains.key)
    return domain is not None and domains.pods.get(domain, 0) > 0


def _soft_taints(info: NodeInfo, spec: PodSpec) -> float:
    """How many taints of effect PreferNoSchedule the pod does not tolerate."""
    return sum(
        first_untolerated([taint], spec.tolerations, (PREFER_NO_SCHEDULE,)) is not None
        for taint in info.taints
    )


def _normalized(raw: list[float], *, is_reversed: bool) -> list[float]:
    """From 0 to 100; all the same where there is no difference."""
    low, high = min(raw), max(raw)
    if low == high:
        return [0.0] * len(raw)
    scaled = [100.0 * (each - low) / (high - low) for each in raw]
    return [100.0 - each for each in scaled] if is_reversed else scaled
