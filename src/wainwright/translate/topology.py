"""Label selectors, pod affinity and topology spread, with the default spread of kube-scheduler.

Whom a pod with a default spread is counted with is not written anywhere. kube-scheduler deduces it:
the labels of all services that select the pod, and the selector of what controls it. Where neither
says anything, the pod is not spread.
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
    written: LabelSelector | None, added: Iterable[SelectorRequirement] = ()
) -> PodSelector | None:
    """Whom it selects: nobody where it is absent. None where it is none that Kubernetes takes.

    A clause added to an absent selector adds nothing.
    """
    if written is None:
        return NO_PODS
    if any(True for _ in validate_label_selector(written, ())):
        return None
    clauses = sorted({*_selector_clauses(written), *added}, key=_clause_order)
    return PodSelector(match_expressions=tuple(clauses)) if clauses else ALL_PODS


def label_clauses(
    labels: Mapping[str, str], keys: Iterable[str] | None, operator: str = "In"
) -> Iterator[SelectorRequirement]:
    """The labels that a pod has of these keys, as clauses; keys that it lacks say nothing."""
    for key in keys or ():
        if key in labels:
            yield SelectorRequirement(key=key, operator=operator, values=frozenset((labels[key],)))


def _selector_clauses(written: LabelSelector) -> Iterator[SelectorRequirement]:
    for key, value in (written.matchLabels or {}).items():
        yield SelectorRequirement(key=key, values=frozenset((value,)))
    for each in written.matchExpressions or ():
        yield SelectorRequirement(
            key=each.key, operator=each.operator, values=frozenset(each.values or ())
        )


def _clause_order(clause: SelectorRequirement) -> tuple[str, str, list[str]]:
    return clause.key, clause.operator, sorted(clause.values)


NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The one label that the API server gives every namespace."""


class NamespaceIndex:
    """The namespaces of the input, and those that it only mentions, of which no more is known."""

    def __init__(self, written: Iterable[Namespace], mentioned: Iterable[str] = ()) -> None:
        self._written = written
        self._mentioned = mentioned
        self._selected: dict[PodSelector, frozenset[str]] = {}

    @cached_property
    def _labels(self) -> dict[str, dict[str, str]]:
        """By name; few pods select namespaces, so this is worked out when one does."""
        known: dict[str, dict[str, str]] = {name: {} for name in self._mentioned}
        known |= {each.metadata.name: each.metadata.labels or {} for each in self._written}
        return {name: {**own, NAMESPACE_NAME_LABEL: name} for name, own in known.items()}

    def meant(self, term: PodAffinityTerm, own: str) -> frozenset[str] | None:
        """The term's namespaces; None for all, the pod's own where the term names none."""
        listed = frozenset(term.namespaces or ())
        if term.namespaceSelector is None:
            return listed or frozenset((own,))
        wanted = translate_selector(term.namespaceSelector) or NO_PODS
        return None if wanted == ALL_PODS else listed | self._those(wanted)

    def _those(self, wanted: PodSelector) -> frozenset[str]:
        found = self._selected.get(wanted)
        if found is None:
            found = frozenset(name for name, own in self._labels.items() if wanted.selects(own))
            self._selected[wanted] = found
        return found


class PodAffinityTranslator:
    """Translates the terms of one pod; `namespace` and `labels` are its own."""

    def __init__(self, known: NamespaceIndex, namespace: str, labels: Mapping[str, str]) -> None:
        self._known = known
        self._namespace = namespace
        self._labels = labels

    def required(self, written: PodAffinity | None) -> tuple[AffinityTerm, ...]:
        """In the order written, each once."""
        terms = written.requiredDuringSchedulingIgnoredDuringExecution if written else None
        return tuple(dict.fromkeys(self._company(term) for term in terms or ()))

    def preferred(self, written: PodAffinity | None) -> tuple[WeightedAffinityTerm, ...]:
        """The heaviest first, equals in the order written."""
        terms = written.preferredDuringSchedulingIgnoredDuringExecution if written else None
        made = [
            WeightedAffinityTerm(weight=each.weight, term=self._company(each.podAffinityTerm))
            for each in terms or ()
        ]
        return tuple(sorted(made, key=lambda each: -each.weight))

    def _company(self, term: PodAffinityTerm) -> AffinityTerm:
        same = label_clauses(self._labels, term.matchLabelKeys)
        other = label_clauses(self._labels, term.mismatchLabelKeys, "NotIn")
        return AffinityTerm(
            key=normalize_label(term.topologyKey),
            selector=translate_selector(term.labelSelector, [*same, *other]) or NO_PODS,
            namespaces=self._known.meant(term, self._namespace),
        )


def translate_spreads(spec: PodSpec, labels: Mapping[str, str]) -> tuple[TopologySpread, ...]:
    """In the order written, each once; `labels` are the pod's own.

    A constraint whose selector makes no sense is left out: nobody can tell who is to be spread.
    """
    return tuple(dict.fromkeys(_translate_each_spread(spec, labels)))


def _translate_each_spread(spec: PodSpec, labels: Mapping[str, str]) -> Iterator[TopologySpread]:
    for written in spec.topologySpreadConstraints or ():
        selected = translate_selector(
            written.labelSelector, label_clauses(labels, written.matchLabelKeys)
        )
        if selected is not None:
            yield translate_spread(written, selected)


def translate_spread(
    written: TopologySpreadConstraint, selected: PodSelector, *, by_default: bool = False
) -> TopologySpread:
    return TopologySpread(
        key=normalize_label(written.topologyKey),
        selector=selected,
        max_skew=written.maxSkew,
        min_domains=written.minDomains,
        required=written.whenUnsatisfiable != "ScheduleAnyway",
        honor_affinity=written.nodeAffinityPolicy != "Ignore",
        honor_taints=written.nodeTaintsPolicy == "Honor",
        by_default=by_default,
    )


DefaultConstraints = tuple[TopologySpreadConstraint, ...]


SELECTING_CONTROLLERS: Final = frozenset(
    {("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")}
)
"""What kube-scheduler asks for its pods. Jobs and DaemonSets have no say."""

ControllerObject = Deployment | ReplicaSet | StatefulSet | ReplicationController
"""A Deployment is there for the pods that it lacks: we make them without a ReplicaSet between."""

DEFAULT_SELECTOR_KINDS: Final = (
    Service,
    Deployment,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
)
"""The kinds of which objects have to be known."""

ControllerKey = tuple[str, str, str, str]
"""apiVersion, kind, namespace and name."""

ServiceKey = tuple[str, str, str]
"""A namespace, and a label with its value that whoever a service selects must have."""

EMPTY_SELECTOR: Final = LabelSelector()


class DefaultSelectors:
    """Knows the services and controllers of the input."""

    def __init__(self, objects: Iterable[WireStruct]) -> None:
        self._services: dict[ServiceKey, list[Mapping[str, str]]] = defaultdict(list)
        self._controllers: dict[ControllerKey, ControllerObject] = {}
        for each in objects:
            if isinstance(each, Service) and each.spec.selector:
                anchor = (namespace_of(each.metadata), *min(each.spec.selector.items()))
                self._services[anchor].append(each.spec.selector)
            elif isinstance(each, ControllerObject):
                self._controllers[_controller_key(each)] = each

    def knows(self, space: str, owner: OwnerReference) -> bool:
        return _owner_key(space, owner) in self._controllers

    def of(
        self, space: str, labels: Mapping[str, str], owner: OwnerReference | None
    ) -> PodSelector | None:
        """Whom a pod with these labels belongs to; None where nothing tells."""
        merged = self._served(space, labels)
        made = None if owner is None else self._controllers.get(_owner_key(space, owner))
        if isinstance(made, ReplicationController):
            merged.update(made.spec.selected)
            return _merge_selectors(merged)
        return _merge_selectors(merged, made.spec.selector if made is not None else None)

    def _served(self, space: str, labels: Mapping[str, str]) -> dict[str, str]:
        """What all services together select that select these labels; they cannot disagree."""
        merged: dict[str, str] = {}
        for key, value in labels.items():
            for served in self._services.get((space, key, value), ()):
                if served.items() <= labels.items():
                    merged.update(served)
        return merged


def _merge_selectors(
    labels: Mapping[str, str], own: LabelSelector | None = None
) -> PodSelector | None:
    """Both must hold; where they contradict each other nobody is selected.

    A controller's selector that makes no sense says nothing, as for kube-scheduler.
    """
    clauses = list(label_clauses(labels, labels))
    found = translate_selector(own or EMPTY_SELECTOR, clauses) or translate_selector(
        EMPTY_SELECTOR, clauses
    )
    return None if found == ALL_PODS else found


def _controller_key(made: ControllerObject) -> ControllerKey:
    return made.apiVersion, made.kind, namespace_of(made.metadata), name_or_prefix(made.metadata)


def _owner_key(space: str, owner: OwnerReference) -> ControllerKey:
    return owner.apiVersion, owner.kind, space, owner.name


DefaultSpreadKey = tuple[str, tuple[str, str, str] | None, tuple[tuple[str, str], ...]]
"""All that a deduction depends on: namespace, controller and labels of the pod."""

NO_SPREADS: Final[tuple[TopologySpread, ...]] = ()


class DefaultSpreads:
    """Gives pods their default spreads; those of one workload are one object."""

    def __init__(
        self, constraints: DefaultConstraints, default_selectors: DefaultSelectors
    ) -> None:
        self._constraints = constraints
        self._kin = default_selectors
        self._known: dict[DefaultSpreadKey, tuple[TopologySpread, ...]] = {}
        self._made: dict[PodSelector, tuple[TopologySpread, ...]] = {}

    def spreads(self, pod: Pod) -> tuple[TopologySpread, ...]:
        if not self._apply(pod):
            return NO_SPREADS
        look = _default_spread_key(pod)
        found = self._known.get(look)
        if found is None:
            found = self._known[look] = self._deduced(pod)
        return found

    def unknown(self, pod: Pod) -> str | None:
        """The controller that has a say in whom the pod is spread with, and is not there."""
        owner = controller_of(pod.metadata) if self._apply(pod) else None
        if owner is None or (owner.apiVersion, owner.kind) not in SELECTING_CONTROLLERS:
            return None
        missing = not self._kin.knows(namespace_of(pod.metadata), owner)
        return f"{owner.kind} {owner.name}" if missing else None

    def _apply(self, pod: Pod) -> bool:
        return bool(self._constraints) and not pod.spec.topologySpreadConstraints

    def _deduced(self, pod: Pod) -> tuple[TopologySpread, ...]:
        space, labels = namespace_of(pod.metadata), pod.metadata.labels or {}
        selected = self._kin.of(space, labels, controller_of(pod.metadata))
        if selected is None:
            return NO_SPREADS
        return self._made.setdefault(selected, self._with(selected))

    def _with(self, selected: PodSelector) -> tuple[TopologySpread, ...]:
        made = (translate_spread(each, selected, by_default=True) for each in self._constraints)
        return tuple(dict.fromkeys(made))


def _default_spread_key(pod: Pod) -> DefaultSpreadKey:
    owner = controller_of(pod.metadata)
    own = None if owner is None else (owner.apiVersion, owner.kind, owner.name)
    return namespace_of(pod.metadata), own, tuple((pod.metadata.labels or {}).items())
