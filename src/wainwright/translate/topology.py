"""Label selectors, pod affinity and topology spread, with the default spread of kube-scheduler.

A default spread has no selector of its own. kube-scheduler deduces it from the selectors of all
services that select the pod and from the selector of the pod's controller. Where there is neither,
the pod is not spread.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from wainwright.api.kubernetes.cluster import Namespace, Service
from wainwright.api.kubernetes.label_validation import validate_label_selector
from wainwright.api.kubernetes.meta import LabelSelector
from wainwright.api.kubernetes.workloads import (
    Deployment,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    TopologySpreadConstraint,
)
from wainwright.api.wire import OwnerReference, WireStruct
from wainwright.model.labels import normalize_label
from wainwright.model.pod import (
    ALL_PODS,
    NO_PODS,
    AffinityTerm,
    PodSelector,
    SelectorRequirement,
    TopologySpread,
    WeightedAffinityTerm,
)
from wainwright.translate.object_metadata import controller_of, name_or_prefix, namespace_of


def translate_selector(
    selector: LabelSelector | None, added: Iterable[SelectorRequirement] = ()
) -> PodSelector | None:
    """The selector; no pods where it is absent, None where it is invalid.
    Clauses added to an absent selector have no effect.
    """
    if selector is None:
        return NO_PODS
    if any(True for _ in validate_label_selector(selector, ())):
        return None
    clauses = sorted({*_selector_clauses(selector), *added}, key=_clause_order)
    return PodSelector(match_expressions=tuple(clauses)) if clauses else ALL_PODS


def label_clauses(
    labels: Mapping[str, str], keys: Iterable[str] | None, operator: str = "In"
) -> Iterator[SelectorRequirement]:
    """Clauses on the pod's values of these label keys; keys that the pod lacks are ignored."""
    for key in keys or ():
        if key in labels:
            yield SelectorRequirement(key=key, operator=operator, values=frozenset((labels[key],)))


def _selector_clauses(selector: LabelSelector) -> Iterator[SelectorRequirement]:
    for key, value in (selector.matchLabels or {}).items():
        yield SelectorRequirement(key=key, values=frozenset((value,)))
    for each in selector.matchExpressions or ():
        yield SelectorRequirement(
            key=each.key, operator=each.operator, values=frozenset(each.values or ())
        )


def _clause_order(clause: SelectorRequirement) -> tuple[str, str, list[str]]:
    return clause.key, clause.operator, sorted(clause.values)


NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label that the API server sets on every namespace."""


class NamespaceIndex:
    """The namespaces of the input, and those that pods only mention, whose labels are unknown."""

    def __init__(
        self, namespaces: Iterable[Namespace], mentioned_names: Iterable[str] = ()
    ) -> None:
        self._namespaces = namespaces
        self._mentioned_names = mentioned_names
        self._selected: dict[PodSelector, frozenset[str]] = {}

    @cached_property
    def _labels(self) -> dict[str, dict[str, str]]:
        """By name; computed on first use, because few pods select namespaces."""
        known: dict[str, dict[str, str]] = {name: {} for name in self._mentioned_names}
        known |= {each.metadata.name: each.metadata.labels or {} for each in self._namespaces}
        return {name: {**labels, NAMESPACE_NAME_LABEL: name} for name, labels in known.items()}

    @property
    def is_selected_from(self) -> bool:
        """Whether any term has selected namespaces by their labels."""
        return bool(self._selected)

    def namespaces_of(self, term: PodAffinityTerm, own_namespace: str) -> frozenset[str] | None:
        """The term's namespaces; None for all, the pod's own where the term lists none."""
        names = frozenset(term.namespaces or ())
        if term.namespaceSelector is None:
            return names or frozenset((own_namespace,))
        selector = translate_selector(term.namespaceSelector) or NO_PODS
        return None if selector == ALL_PODS else names | self._select(selector)

    def _select(self, selector: PodSelector) -> frozenset[str]:
        names = self._selected.get(selector)
        if names is None:
            names = frozenset(
                name for name, labels in self._labels.items() if selector.selects(labels)
            )
            self._selected[selector] = names
        return names


class PodAffinityTranslator:
    """Translates the terms of one pod; `namespace` and `labels` are the pod's."""

    def __init__(
        self, namespace_index: NamespaceIndex, namespace: str, labels: Mapping[str, str]
    ) -> None:
        self._namespace_index = namespace_index
        self._namespace = namespace
        self._labels = labels

    def required(self, affinity: PodAffinity | None) -> tuple[AffinityTerm, ...]:
        """In the order written, each once."""
        terms = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
        return tuple(dict.fromkeys(self._translate_term(term) for term in terms or ()))

    def preferred(self, affinity: PodAffinity | None) -> tuple[WeightedAffinityTerm, ...]:
        """Sorted by weight, highest first, equal weights in the order written."""
        terms = affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity else None
        weighted = [
            WeightedAffinityTerm(
                weight=each.weight, term=self._translate_term(each.podAffinityTerm)
            )
            for each in terms or ()
        ]
        return tuple(sorted(weighted, key=lambda each: -each.weight))

    def _translate_term(self, term: PodAffinityTerm) -> AffinityTerm:
        same = label_clauses(self._labels, term.matchLabelKeys)
        other = label_clauses(self._labels, term.mismatchLabelKeys, "NotIn")
        return AffinityTerm(
            key=normalize_label(term.topologyKey),
            selector=translate_selector(term.labelSelector, [*same, *other]) or NO_PODS,
            namespaces=self._namespace_index.namespaces_of(term, self._namespace),
        )


def translate_spreads(spec: PodSpec, labels: Mapping[str, str]) -> tuple[TopologySpread, ...]:
    """In the order written, each once; `labels` are the pod's.
    A constraint with an invalid selector is left out: the pods to count are unknown.
    """
    return tuple(dict.fromkeys(_translate_each_spread(spec, labels)))


def _translate_each_spread(spec: PodSpec, labels: Mapping[str, str]) -> Iterator[TopologySpread]:
    for constraint in spec.topologySpreadConstraints or ():
        selector = translate_selector(
            constraint.labelSelector, label_clauses(labels, constraint.matchLabelKeys)
        )
        if selector is not None:
            yield translate_spread(constraint, selector)


def translate_spread(
    constraint: TopologySpreadConstraint, selector: PodSelector, *, by_default: bool = False
) -> TopologySpread:
    return TopologySpread(
        key=normalize_label(constraint.topologyKey),
        selector=selector,
        max_skew=constraint.maxSkew,
        min_domains=constraint.minDomains,
        required=constraint.whenUnsatisfiable != "ScheduleAnyway",
        honor_affinity=constraint.nodeAffinityPolicy != "Ignore",
        honor_taints=constraint.nodeTaintsPolicy == "Honor",
        by_default=by_default,
    )


DefaultConstraints = tuple[TopologySpreadConstraint, ...]


SELECTING_CONTROLLERS: Final = frozenset(
    {("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")}
)
"""Controllers whose selector kube-scheduler uses; not those of Jobs and DaemonSets."""

ControllerObject = Deployment | ReplicaSet | StatefulSet | ReplicationController
"""Includes Deployment, because its missing pods are expanded without a ReplicaSet."""

DEFAULT_SELECTOR_KINDS: Final = (
    Service,
    Deployment,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
)
"""The kinds from which default selectors are deduced."""

ControllerKey = tuple[str, str, str, str]
"""apiVersion, kind, namespace and name."""

ServiceKey = tuple[str, str, str]
"""A namespace, and one label with its value that every pod of the service must have."""

EMPTY_SELECTOR: Final = LabelSelector()


class DefaultSelectors:
    """Deduces the selector of default spreads from the services and controllers of the input.

    Services are indexed by one label of their selector: a lookup by the pod's own labels saves
    matching every pod with every service.
    """

    def __init__(self, objects: Iterable[WireStruct]) -> None:
        self._services: dict[ServiceKey, list[Mapping[str, str]]] = defaultdict(list)
        self._controllers: dict[ControllerKey, ControllerObject] = {}
        for each in objects:
            if isinstance(each, Service) and each.spec.selector:
                anchor = (namespace_of(each.metadata), *min(each.spec.selector.items()))
                self._services[anchor].append(each.spec.selector)
            elif isinstance(each, ControllerObject):
                self._controllers[_controller_key(each)] = each

    def has_controller(self, namespace: str, owner: OwnerReference) -> bool:
        return _owner_key(namespace, owner) in self._controllers

    def selector_for(
        self, namespace: str, labels: Mapping[str, str], owner: OwnerReference | None
    ) -> PodSelector | None:
        """The deduced selector of a pod with these labels; None where there is none."""
        merged = self._service_labels(namespace, labels)
        controller = None if owner is None else self._controllers.get(_owner_key(namespace, owner))
        if isinstance(controller, ReplicationController):
            merged.update(controller.spec.selected)
            return _merge_selectors(merged)
        return _merge_selectors(
            merged, controller.spec.selector if controller is not None else None
        )

    def _service_labels(self, namespace: str, labels: Mapping[str, str]) -> dict[str, str]:
        """The merged selectors of all services that select these labels; they cannot conflict."""
        merged: dict[str, str] = {}
        for key, value in labels.items():
            for selector in self._services.get((namespace, key, value), ()):
                if selector.items() <= labels.items():
                    merged.update(selector)
        return merged


def _merge_selectors(
    labels: Mapping[str, str], controller_selector: LabelSelector | None = None
) -> PodSelector | None:
    """Both must match; where they contradict each other no pod is selected.
    An invalid selector of a controller is ignored, as kube-scheduler does.
    """
    clauses = list(label_clauses(labels, labels))
    selector = translate_selector(
        controller_selector or EMPTY_SELECTOR, clauses
    ) or translate_selector(EMPTY_SELECTOR, clauses)
    return None if selector == ALL_PODS else selector


def _controller_key(controller: ControllerObject) -> ControllerKey:
    return (
        controller.apiVersion,
        controller.kind,
        namespace_of(controller.metadata),
        name_or_prefix(controller.metadata),
    )


def _owner_key(namespace: str, owner: OwnerReference) -> ControllerKey:
    return owner.apiVersion, owner.kind, namespace, owner.name


DefaultSpreadKey = tuple[str, tuple[str, str, str] | None, tuple[tuple[str, str], ...]]
"""What the default spreads depend on: namespace, controller and labels of the pod."""

NO_SPREADS: Final[tuple[TopologySpread, ...]] = ()


class DefaultSpreads:
    """The default spreads of pods; pods of one workload share one object.

    Cached by namespace, controller and labels, so that the services are searched once for a
    workload and not for each of its pods.
    """

    def __init__(
        self, constraints: DefaultConstraints, default_selectors: DefaultSelectors
    ) -> None:
        self._constraints = constraints
        self._default_selectors = default_selectors
        self._cached: dict[DefaultSpreadKey, tuple[TopologySpread, ...]] = {}
        self._by_selector: dict[PodSelector, tuple[TopologySpread, ...]] = {}

    def spreads(self, pod: Pod) -> tuple[TopologySpread, ...]:
        if not self._applies_to(pod):
            return NO_SPREADS
        key = _default_spread_key(pod)
        spreads = self._cached.get(key)
        if spreads is None:
            spreads = self._cached[key] = self._deduce(pod)
        return spreads

    def missing_controller(self, pod: Pod) -> str | None:
        """The pod's controller where its selector is needed and it is not in the input."""
        owner = controller_of(pod.metadata) if self._applies_to(pod) else None
        if owner is None or (owner.apiVersion, owner.kind) not in SELECTING_CONTROLLERS:
            return None
        is_missing = not self._default_selectors.has_controller(namespace_of(pod.metadata), owner)
        return f"{owner.kind} {owner.name}" if is_missing else None

    def _applies_to(self, pod: Pod) -> bool:
        return bool(self._constraints) and not pod.spec.topologySpreadConstraints

    def _deduce(self, pod: Pod) -> tuple[TopologySpread, ...]:
        namespace, labels = namespace_of(pod.metadata), pod.metadata.labels or {}
        selector = self._default_selectors.selector_for(
            namespace, labels, controller_of(pod.metadata)
        )
        if selector is None:
            return NO_SPREADS
        return self._by_selector.setdefault(selector, self._spreads_for(selector))

    def _spreads_for(self, selector: PodSelector) -> tuple[TopologySpread, ...]:
        spreads = (translate_spread(each, selector, by_default=True) for each in self._constraints)
        return tuple(dict.fromkeys(spreads))


def _default_spread_key(pod: Pod) -> DefaultSpreadKey:
    owner = controller_of(pod.metadata)
    owner_key = None if owner is None else (owner.apiVersion, owner.kind, owner.name)
    return namespace_of(pod.metadata), owner_key, tuple((pod.metadata.labels or {}).items())
