"""Topology spread constraints, and label keys that repeat what a selector says already."""

from collections.abc import Iterator
from typing import Final

from wainwright.api.builtin.affinity import TopologySpreadConstraint
from wainwright.api.builtin.check_affinity import NO_SELECTOR, pod_affinities, terms
from wainwright.api.builtin.check_labels import label_keys, label_selector
from wainwright.api.builtin.pod import PodSpec
from wainwright.api.builtin.selection import LabelSelector
from wainwright.api.builtin.wording import among, broken, missing, wrong
from wainwright.api.fault import Fault, Path

ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
POLICIES: Final = ("Honor", "Ignore")
CONSTRAINTS: Final = "topologySpreadConstraints"


def spread(given: list[TopologySpreadConstraint] | None, path: Path) -> Iterator[Fault]:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(given or ()):
        place = (*path, index)
        yield from _constraint(constraint, place)
        kind = (constraint.topologyKey, constraint.whenUnsatisfiable)
        if kind in seen:
            message = "an earlier constraint has the same topologyKey and whenUnsatisfiable"
            yield broken(place, "{" + ", ".join(kind) + "}", message)
        seen.add(kind)


def _constraint(constraint: TopologySpreadConstraint, path: Path) -> Iterator[Fault]:
    if constraint.maxSkew < 1:
        yield wrong((*path, "maxSkew"), constraint.maxSkew, "1 or more")
    if not constraint.topologyKey:
        yield missing((*path, "topologyKey"), "the node label to spread over")
    if constraint.whenUnsatisfiable not in ACTIONS:
        yield among((*path, "whenUnsatisfiable"), constraint.whenUnsatisfiable, ACTIONS)
    elif constraint.minDomains is not None and constraint.whenUnsatisfiable != "DoNotSchedule":
        message = "minDomains is only for whenUnsatisfiable: DoNotSchedule"
        yield broken((*path, "minDomains"), constraint.minDomains, message)
    if constraint.minDomains is not None and constraint.minDomains < 1:
        yield wrong((*path, "minDomains"), constraint.minDomains, "1 or more")
    yield from _policies(constraint, path)
    yield from _selection(constraint, path)


def _policies(constraint: TopologySpreadConstraint, path: Path) -> Iterator[Fault]:
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = getattr(constraint, field)
        if policy is not None and policy not in POLICIES:
            yield among((*path, field), policy, POLICIES)


def _selection(constraint: TopologySpreadConstraint, path: Path) -> Iterator[Fault]:
    yield from label_selector(constraint.labelSelector, (*path, "labelSelector"))
    if constraint.matchLabelKeys and constraint.labelSelector is None:
        keys = constraint.matchLabelKeys
        yield broken((*path, "matchLabelKeys"), keys, NO_SELECTOR, "a labelSelector")
    else:
        yield from label_keys(constraint.matchLabelKeys, (*path, "matchLabelKeys"))


def uses_label_keys(spec: PodSpec) -> bool:
    return next(_label_keys(spec), None) is not None


def repeated_keys(spec: PodSpec, labels: dict[str, str], path: Path) -> Iterator[Fault]:
    """A pod's own labels are merged into the selector, which may then not have them already.

    What a pod read from a cluster has there is the result of that merge, and is no mistake.
    """
    for place, keys, selector in _label_keys(spec):
        named = set(selector.matchLabels or ())
        for one in selector.matchExpressions or ():
            if one.operator != "In" or one.values != [labels.get(one.key)]:
                named.add(one.key)
        for index, key in enumerate(keys):
            if key in named and key in labels:
                message = "this key is also in the labelSelector"
                yield broken((*path, *place, "matchLabelKeys", index), key, message)


def _label_keys(spec: PodSpec) -> Iterator[tuple[Path, list[str], LabelSelector]]:
    for index, constraint in enumerate(spec.topologySpreadConstraints or ()):
        if constraint.matchLabelKeys and constraint.labelSelector is not None:
            yield (CONSTRAINTS, index), constraint.matchLabelKeys, constraint.labelSelector
    for name, affinity in pod_affinities(spec.affinity) if spec.affinity else ():
        for place, term in terms(affinity):
            if term.matchLabelKeys and term.labelSelector is not None:
                yield ("affinity", name, *place), term.matchLabelKeys, term.labelSelector
