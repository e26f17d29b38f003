"""Label selectors as the planner takes them, with what a pod adds to them of its own labels."""

from collections.abc import Iterable, Iterator, Mapping

from wainwright.api.builtin.check_labels import label_selector
from wainwright.api.builtin.selection import LabelSelector
from wainwright.model.selector import EVERYBODY, NOBODY, Clause, Selector


def selector(written: LabelSelector | None, added: Iterable[Clause] = ()) -> Selector | None:
    """Whom it selects: nobody where it is absent. None where it is none that Kubernetes takes.

    A clause added to an absent selector adds nothing.
    """
    if written is None:
        return NOBODY
    if any(True for _ in label_selector(written, ())):
        return None
    clauses = sorted({*_clauses(written), *added}, key=_order)
    return Selector(clauses=tuple(clauses)) if clauses else EVERYBODY


def like(
    labels: Mapping[str, str], keys: Iterable[str] | None, operator: str = "In"
) -> Iterator[Clause]:
    """The labels that a pod has of these keys, as clauses; keys that it lacks say nothing."""
    for key in keys or ():
        if key in labels:
            yield Clause(key=key, operator=operator, values=frozenset((labels[key],)))


def _clauses(written: LabelSelector) -> Iterator[Clause]:
    for key, value in (written.matchLabels or {}).items():
        yield Clause(key=key, values=frozenset((value,)))
    for each in written.matchExpressions or ():
        yield Clause(key=each.key, operator=each.operator, values=frozenset(each.values or ()))


def _order(clause: Clause) -> tuple[str, str, list[str]]:
    return clause.key, clause.operator, sorted(clause.values)
