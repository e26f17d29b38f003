"""Labels, and the selectors over labels and node fields, held to the API server's syntax."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from wainwright.api import metadata
from wainwright.api.builtin.selection import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    TopologySelectorTerm,
)
from wainwright.api.builtin.wording import among, broken, doubt, missing, twice, wrong
from wainwright.api.fault import Fault, Path
from wainwright.api.wire import A_LABEL_KEY, A_LABEL_VALUE

IN_SET: Final = ("In", "NotIn")
PRESENCE: Final = ("Exists", "DoesNotExist")
COMPARISON: Final = ("Gt", "Lt")
LABEL_OPERATORS: Final = (*IN_SET, *PRESENCE)
NODE_OPERATORS: Final = (*LABEL_OPERATORS, *COMPARISON)
WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
A_NODE_NAME: Final = "the name of a node: lower case letters, digits, '-' and '.'"

is_label_key = lru_cache(maxsize=4096)(metadata.is_label_key)
is_label_value = lru_cache(maxsize=4096)(metadata.is_label_value)


def label_key(key: str, path: Path, expected: str = A_LABEL_KEY) -> Iterator[Fault]:
    if not key:
        yield missing(path, expected)
    elif not is_label_key(key):
        yield wrong(path, key, expected)


def labels(given: dict[str, str] | None, path: Path) -> Iterator[Fault]:
    """Keys and values of labels, or of a selector that lists them."""
    for key, value in (given or {}).items():
        if not is_label_key(key):
            yield wrong((*path, key), key, A_LABEL_KEY)
        if not is_label_value(value):
            yield wrong((*path, key), value, A_LABEL_VALUE)


def label_keys(given: list[str] | None, path: Path) -> Iterator[Fault]:
    for index, key in enumerate(given or ()):
        yield from label_key(key, (*path, index))


def label_selector(selector: LabelSelector | None, path: Path) -> Iterator[Fault]:
    if selector is None:
        return
    yield from labels(selector.matchLabels, (*path, "matchLabels"))
    for index, requirement in enumerate(selector.matchExpressions or ()):
        yield from _label_requirement(requirement, (*path, "matchExpressions", index))


def _label_requirement(requirement: LabelSelectorRequirement, path: Path) -> Iterator[Fault]:
    if requirement.operator not in LABEL_OPERATORS:
        yield among((*path, "operator"), requirement.operator, LABEL_OPERATORS)
    yield from label_key(requirement.key, (*path, "key"))
    yield from _value_count(requirement, path)
    yield from _label_values(requirement.values, (*path, "values"))


def _label_values(values: list[str] | None, path: Path) -> Iterator[Fault]:
    for index, value in enumerate(values or ()):
        if not is_label_value(value):
            yield wrong((*path, index), value, A_LABEL_VALUE)


def _value_count(
    requirement: LabelSelectorRequirement | NodeSelectorRequirement, path: Path
) -> Iterator[Fault]:
    operator, values = requirement.operator, requirement.values or []
    if operator in IN_SET and not values:
        yield missing(
            (*path, "values"), "a list of values", f"the operator {operator} needs a value"
        )
    if operator in PRESENCE and values:
        yield broken(
            (*path, "values"), values, f"the operator {operator} takes no values", "no values"
        )


def node_selector(selector: NodeSelector, path: Path) -> Iterator[Fault]:
    """Terms that nodes must meet, of a pod or of a volume."""
    terms = selector.nodeSelectorTerms or []
    if not terms:
        yield missing(
            (*path, "nodeSelectorTerms"), "a list of terms", "at least one term is needed"
        )
    for index, term in enumerate(terms):
        yield from node_selector_term(term, (*path, "nodeSelectorTerms", index))


def node_selector_term(
    term: NodeSelectorTerm, path: Path, *, preferred: bool = False
) -> Iterator[Fault]:
    for index, requirement in enumerate(term.matchExpressions or ()):
        place = (*path, "matchExpressions", index)
        yield from _node_requirement(requirement, place)
        if not preferred:  # a preference for an impossible value is merely never met
            yield from _label_values(requirement.values, (*place, "values"))
    for index, requirement in enumerate(term.matchFields or ()):
        yield from _node_field(requirement, (*path, "matchFields", index))


def _node_requirement(requirement: NodeSelectorRequirement, path: Path) -> Iterator[Fault]:
    if requirement.operator not in NODE_OPERATORS:
        yield among((*path, "operator"), requirement.operator, NODE_OPERATORS)
    yield from label_key(requirement.key, (*path, "key"))
    yield from _value_count(requirement, path)
    if requirement.operator in COMPARISON:
        yield from _comparison(requirement, (*path, "values"))


def _comparison(requirement: NodeSelectorRequirement, path: Path) -> Iterator[Fault]:
    values = requirement.values or []
    if len(values) != 1:
        message = f"the operator {requirement.operator} needs exactly one value"
        yield broken(path, values, message, "one whole number")
    elif not WHOLE_NUMBER.fullmatch(values[0]):
        yield doubt(
            (*path, 0),
            values[0],
            f"the operator {requirement.operator} compares whole numbers; no node will match",
        )


def _node_field(requirement: NodeSelectorRequirement, path: Path) -> Iterator[Fault]:
    if requirement.key != "metadata.name":
        yield wrong((*path, "key"), requirement.key, "metadata.name, the only field of a node here")
        return
    if requirement.operator not in IN_SET:
        yield among((*path, "operator"), requirement.operator, IN_SET)
    values = requirement.values or []
    if len(values) != 1:
        message = "a field of a node is compared with exactly one value"
        yield broken((*path, "values"), values, message, "one name of a node")
    for index, value in enumerate(values):
        if not metadata.is_subdomain(value):
            yield wrong((*path, "values", index), value, A_NODE_NAME)


def topology_term(term: TopologySelectorTerm, path: Path) -> Iterator[Fault]:
    """Where volumes of a class may be made: each key once, each with different values."""
    keys: set[str] = set()
    for index, requirement in enumerate(term.matchLabelExpressions or ()):
        place = (*path, "matchLabelExpressions", index)
        yield from label_key(requirement.key, (*place, "key"))
        if requirement.key in keys:
            yield twice((*place, "key"), requirement.key)
        keys.add(requirement.key)
        yield from _different(requirement.values or [], (*place, "values"))


def _different(values: list[str], path: Path) -> Iterator[Fault]:
    if not values:
        yield missing(path, "a list of values")
    for index, value in enumerate(values):
        if value in values[:index]:
            yield twice((*path, index), value)


def selects(selector: LabelSelector, given: dict[str, str]) -> bool:
    """Whether labels meet a selector that is free of faults."""
    for key, value in (selector.matchLabels or {}).items():
        if given.get(key) != value:
            return False
    return all(_meets(one, given) for one in selector.matchExpressions or ())


def _meets(requirement: LabelSelectorRequirement, given: dict[str, str]) -> bool:
    present, values = requirement.key in given, requirement.values or []
    match requirement.operator:
        case "In":
            return present and given[requirement.key] in values
        case "NotIn":
            return not present or given[requirement.key] not in values
        case "Exists":
            return present
        case _:
            return not present
