"""Affinity of pods to nodes and to other pods, held to the API server's rules."""

from collections.abc import Iterator
from typing import Final

from wainwright.api.builtin.affinity import Affinity, NodeAffinity, PodAffinity, PodAffinityTerm
from wainwright.api.builtin.check_labels import (
    label_key,
    label_keys,
    label_selector,
    node_selector,
    node_selector_term,
)
from wainwright.api.builtin.check_metadata import A_LABEL_NAME, is_label_name
from wainwright.api.builtin.wording import broken, missing, wrong
from wainwright.api.fault import Fault, Path

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
NO_SELECTOR: Final = "label keys say something only beside a labelSelector"


def affinity(given: Affinity | None, path: Path) -> Iterator[Fault]:
    if given is None:
        return
    if given.nodeAffinity is not None:
        yield from _node_affinity(given.nodeAffinity, (*path, "nodeAffinity"))
    for name, one in pod_affinities(given):
        yield from _pod_affinity(one, (*path, name))


def pod_affinities(given: Affinity) -> Iterator[tuple[str, PodAffinity]]:
    if given.podAffinity is not None:
        yield "podAffinity", given.podAffinity
    if given.podAntiAffinity is not None:
        yield "podAntiAffinity", given.podAntiAffinity


def terms(given: PodAffinity) -> Iterator[tuple[Path, PodAffinityTerm]]:
    """Every term of an affinity, required or preferred, and where it is."""
    for index, term in enumerate(given.requiredDuringSchedulingIgnoredDuringExecution or ()):
        yield (REQUIRED, index), term
    for index, weighted in enumerate(given.preferredDuringSchedulingIgnoredDuringExecution or ()):
        yield (PREFERRED, index, "podAffinityTerm"), weighted.podAffinityTerm


def _node_affinity(given: NodeAffinity, path: Path) -> Iterator[Fault]:
    if given.requiredDuringSchedulingIgnoredDuringExecution is not None:
        required = given.requiredDuringSchedulingIgnoredDuringExecution
        yield from node_selector(required, (*path, REQUIRED))
    for index, term in enumerate(given.preferredDuringSchedulingIgnoredDuringExecution or ()):
        place = (*path, PREFERRED, index)
        yield from _weight(term.weight, place)
        yield from node_selector_term(term.preference, (*place, "preference"), preferred=True)


def _pod_affinity(given: PodAffinity, path: Path) -> Iterator[Fault]:
    for index, weighted in enumerate(given.preferredDuringSchedulingIgnoredDuringExecution or ()):
        yield from _weight(weighted.weight, (*path, PREFERRED, index))
    for place, term in terms(given):
        yield from _term(term, (*path, *place))


def _weight(weight: int, path: Path) -> Iterator[Fault]:
    if not 1 <= weight <= 100:
        yield wrong((*path, "weight"), weight, "a weight from 1 to 100")


def _term(term: PodAffinityTerm, path: Path) -> Iterator[Fault]:
    if not term.topologyKey:
        yield missing((*path, "topologyKey"), "the node label that says what counts as near")
    else:
        yield from label_key(term.topologyKey, (*path, "topologyKey"))
    yield from label_selector(term.labelSelector, (*path, "labelSelector"))
    yield from label_selector(term.namespaceSelector, (*path, "namespaceSelector"))
    for index, name in enumerate(term.namespaces or ()):
        if not is_label_name(name):
            yield wrong((*path, "namespaces", index), name, A_LABEL_NAME)
    yield from _label_keys(term, path)


def _label_keys(term: PodAffinityTerm, path: Path) -> Iterator[Fault]:
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = getattr(term, field)
        if keys and term.labelSelector is None:
            yield broken((*path, field), keys, NO_SELECTOR, "a labelSelector")
        else:
            yield from label_keys(keys, (*path, field))
    for index, key in enumerate(term.matchLabelKeys or ()):
        if key in (term.mismatchLabelKeys or ()):
            message = "this key is also in mismatchLabelKeys"
            yield broken((*path, "matchLabelKeys", index), key, message)
