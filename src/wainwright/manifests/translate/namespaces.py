"""Of which namespaces a term about other pods speaks."""

from collections.abc import Iterable
from functools import cached_property
from typing import Final

from wainwright.api.builtin.affinity import PodAffinityTerm
from wainwright.api.builtin.node import Namespace
from wainwright.manifests.translate.selectors import selector
from wainwright.model.selector import EVERYBODY, NOBODY, Selector

NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The one label that the API server gives every namespace."""


class Namespaces:
    """The namespaces of the input, and those that it only mentions, of which no more is known."""

    def __init__(self, written: Iterable[Namespace], mentioned: Iterable[str] = ()) -> None:
        self._written = written
        self._mentioned = mentioned
        self._selected: dict[Selector, frozenset[str]] = {}

    @cached_property
    def _labels(self) -> dict[str, dict[str, str]]:
        """By name; few pods select namespaces, so this is worked out when one does."""
        known: dict[str, dict[str, str]] = {name: {} for name in self._mentioned}
        known |= {each.metadata.name: each.metadata.labels or {} for each in self._written}
        return {name: {**own, NAME_LABEL: name} for name, own in known.items()}

    def meant(self, term: PodAffinityTerm, own: str) -> frozenset[str] | None:
        """The term's namespaces; None for all, the pod's own where the term names none."""
        listed = frozenset(term.namespaces or ())
        if term.namespaceSelector is None:
            return listed or frozenset((own,))
        wanted = selector(term.namespaceSelector) or NOBODY
        return None if wanted == EVERYBODY else listed | self._those(wanted)

    def _those(self, wanted: Selector) -> frozenset[str]:
        found = self._selected.get(wanted)
        if found is None:
            found = frozenset(name for name, own in self._labels.items() if wanted.selects(own))
            self._selected[wanted] = found
        return found
