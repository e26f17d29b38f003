"""Which other pods a pod wants near it, or far from it."""

from collections.abc import Mapping

from wainwright.api.builtin.affinity import PodAffinity, PodAffinityTerm
from wainwright.manifests.translate.namespaces import Namespaces
from wainwright.manifests.translate.selectors import like, selector
from wainwright.model.labels import normalised
from wainwright.model.selector import NOBODY
from wainwright.model.topology import Company, Preferred


class Neighbours:
    """Translates the terms of one pod; `namespace` and `labels` are its own."""

    def __init__(self, known: Namespaces, namespace: str, labels: Mapping[str, str]) -> None:
        self._known = known
        self._namespace = namespace
        self._labels = labels

    def required(self, written: PodAffinity | None) -> tuple[Company, ...]:
        """In the order written, each once."""
        terms = written.requiredDuringSchedulingIgnoredDuringExecution if written else None
        return tuple(dict.fromkeys(self._company(term) for term in terms or ()))

    def preferred(self, written: PodAffinity | None) -> tuple[Preferred, ...]:
        """The heaviest first, equals in the order written."""
        terms = written.preferredDuringSchedulingIgnoredDuringExecution if written else None
        made = [
            Preferred(weight=each.weight, term=self._company(each.podAffinityTerm))
            for each in terms or ()
        ]
        return tuple(sorted(made, key=lambda each: -each.weight))

    def _company(self, term: PodAffinityTerm) -> Company:
        same = like(self._labels, term.matchLabelKeys)
        other = like(self._labels, term.mismatchLabelKeys, "NotIn")
        return Company(
            key=normalised(term.topologyKey),
            selector=selector(term.labelSelector, [*same, *other]) or NOBODY,
            namespaces=self._known.meant(term, self._namespace),
        )
