"""Which nodes a pod's selectors, affinities and tolerations admit, by the rules of Kubernetes.

Written on the wire types and apart from the planner, so that a mistake there is not repeated here.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.api.kubernetes.cluster import Taint
from wainwright.api.kubernetes.meta import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    TopologySelectorTerm,
)
from wainwright.api.kubernetes.workloads import PodSpec, Toleration

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
SCHEDULING_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)
NAME_FIELD: Final = "metadata.name"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


def first_untolerated(
    taints: Iterable[Taint] | None,
    tolerations: Iterable[Toleration] | None,
    effects: tuple[str, ...] = SCHEDULING_EFFECTS,
) -> Taint | None:
    """The first taint of these effects that keeps the pod away."""
    accepted = list(tolerations or ())
    for taint in taints or ():
        if taint.effect in effects and not any(tolerates(each, taint) for each in accepted):
            return taint
    return None


def matches_node_affinity(spec: PodSpec, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node with these labels passes the pod's nodeSelector and required affinity."""
    for key, value in (spec.nodeSelector or {}).items():
        if labels.get(key) != value:
            return False
    required = required_node_selector(spec)
    return required is None or matches_node_selector(required, labels, name)


def required_node_selector(spec: PodSpec) -> NodeSelector | None:
    affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
    return None if affinity is None else affinity.requiredDuringSchedulingIgnoredDuringExecution


def matches_node_selector(selector: NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    return any(matches_term(term, labels, name) for term in selector.nodeSelectorTerms or ())


def matches_term(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.matchExpressions and not term.matchFields:
        return False
    return all(
        _matches_requirement(each, labels.get(each.key)) for each in term.matchExpressions or ()
    ) and all(
        each.key == NAME_FIELD and _matches_requirement(each, name)
        for each in term.matchFields or ()
    )


def _matches_requirement(requirement: NodeSelectorRequirement, found: str | None) -> bool:
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return found is not None and found in values
        case "NotIn":
            return found is None or found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case operator:
            return _compares(found, values, is_greater=operator == "Gt")


def _compares(found: str | None, values: list[str], *, is_greater: bool) -> bool:
    try:
        number, bound = int(found or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if is_greater else number < bound


def named_nodes(spec: PodSpec) -> list[str] | None:
    """The only nodes that the pod can be on, where every term of its affinity names some.

    A daemon's pod names its node: looking at that one saves looking at all.
    """
    required = required_node_selector(spec)
    if required is None or not required.nodeSelectorTerms:
        return None
    names: dict[str, None] = {}
    for term in required.nodeSelectorTerms:
        fields = [each for each in term.matchFields or () if each.operator == "In"]
        if not fields:
            return None
        names.update(dict.fromkeys(fields[0].values or ()))
    return list(names)


def matches_topologies(
    terms: Iterable[TopologySelectorTerm] | None, labels: Mapping[str, str]
) -> bool:
    """Whether a storage class makes volumes for nodes with these labels."""
    given = list(terms or ())
    return not given or any(
        all(
            labels.get(each.key) in (each.values or ()) for each in term.matchLabelExpressions or ()
        )
        for term in given
    )
