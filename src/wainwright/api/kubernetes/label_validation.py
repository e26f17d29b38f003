"""Metadata of Kubernetes' own kinds: names, labels, annotations, owners; and selectors."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    broken_rule,
    duplicate_value,
    field_warning,
    invalid_value,
    missing_field,
    unsupported_value,
)
from wainwright.api.kubernetes.meta import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    TopologySelectorTerm,
)
from wainwright.api.validation import metadata_validation
from wainwright.api.validation.metadata_validation import EXPECTED_KEY, is_dns_subdomain
from wainwright.api.wire import EXPECTED_LABEL_KEY, EXPECTED_LABEL_VALUE

CLUSTER_SCOPED_KINDS: Final = frozenset(
    {
        "Node",
        "Namespace",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "PriorityClass",
        "RuntimeClass",
    }
)
"""Kinds whose objects are in no namespace."""


SET_OPERATORS: Final = ("In", "NotIn")
PRESENCE_OPERATORS: Final = ("Exists", "DoesNotExist")
COMPARISON_OPERATORS: Final = ("Gt", "Lt")
LABEL_OPERATORS: Final = (*SET_OPERATORS, *PRESENCE_OPERATORS)
NODE_OPERATORS: Final = (*LABEL_OPERATORS, *COMPARISON_OPERATORS)
WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
EXPECTED_NODE_NAME: Final = "the name of a node: lower case letters, digits, '-' and '.'"

is_label_key = lru_cache(maxsize=4096)(metadata_validation.is_label_key)
is_label_value = lru_cache(maxsize=4096)(metadata_validation.is_label_value)


def validate_label_key(
    key: str, path: FieldPath, expected: str = EXPECTED_LABEL_KEY
) -> Iterator[FieldError]:
    if not key:
        yield missing_field(path, expected)
    elif not is_label_key(key):
        yield invalid_value(path, key, expected)


def validate_labels(given: dict[str, str] | None, path: FieldPath) -> Iterator[FieldError]:
    """Keys and values of labels, or of a selector that lists them."""
    for key, value in (given or {}).items():
        if not is_label_key(key):
            yield invalid_value((*path, key), key, EXPECTED_LABEL_KEY)
        if not is_label_value(value):
            yield invalid_value((*path, key), value, EXPECTED_LABEL_VALUE)


def validate_label_keys(given: list[str] | None, path: FieldPath) -> Iterator[FieldError]:
    for index, key in enumerate(given or ()):
        yield from validate_label_key(key, (*path, index))


def validate_label_selector(
    selector: LabelSelector | None, path: FieldPath
) -> Iterator[FieldError]:
    if selector is None:
        return
    yield from validate_labels(selector.matchLabels, (*path, "matchLabels"))
    for index, requirement in enumerate(selector.matchExpressions or ()):
        yield from _validate_label_requirement(requirement, (*path, "matchExpressions", index))


def _validate_label_requirement(
    requirement: LabelSelectorRequirement, path: FieldPath
) -> Iterator[FieldError]:
    if requirement.operator not in LABEL_OPERATORS:
        yield unsupported_value((*path, "operator"), requirement.operator, LABEL_OPERATORS)
    yield from validate_label_key(requirement.key, (*path, "key"))
    yield from _validate_value_count(requirement, path)
    yield from _validate_label_values(requirement.values, (*path, "values"))


def _validate_label_values(values: list[str] | None, path: FieldPath) -> Iterator[FieldError]:
    for index, value in enumerate(values or ()):
        if not is_label_value(value):
            yield invalid_value((*path, index), value, EXPECTED_LABEL_VALUE)


def _validate_value_count(
    requirement: LabelSelectorRequirement | NodeSelectorRequirement, path: FieldPath
) -> Iterator[FieldError]:
    operator, values = requirement.operator, requirement.values or []
    if operator in SET_OPERATORS and not values:
        yield missing_field(
            (*path, "values"), "a list of values", f"the operator {operator} needs a value"
        )
    if operator in PRESENCE_OPERATORS and values:
        yield broken_rule(
            (*path, "values"), values, f"the operator {operator} takes no values", "no values"
        )


def validate_node_selector(selector: NodeSelector, path: FieldPath) -> Iterator[FieldError]:
    """The node selector of a pod or of a volume."""
    terms = selector.nodeSelectorTerms or []
    if not terms:
        yield missing_field(
            (*path, "nodeSelectorTerms"), "a list of terms", "at least one term is needed"
        )
    for index, term in enumerate(terms):
        yield from validate_node_selector_term(term, (*path, "nodeSelectorTerms", index))


def validate_node_selector_term(
    term: NodeSelectorTerm, path: FieldPath, *, preferred: bool = False
) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.matchExpressions or ()):
        place = (*path, "matchExpressions", index)
        yield from _validate_node_requirement(requirement, place)
        if not preferred:  # a preference for an impossible value is valid and never met
            yield from _validate_label_values(requirement.values, (*place, "values"))
    for index, requirement in enumerate(term.matchFields or ()):
        yield from _validate_node_field(requirement, (*path, "matchFields", index))


def _validate_node_requirement(
    requirement: NodeSelectorRequirement, path: FieldPath
) -> Iterator[FieldError]:
    if requirement.operator not in NODE_OPERATORS:
        yield unsupported_value((*path, "operator"), requirement.operator, NODE_OPERATORS)
    yield from validate_label_key(requirement.key, (*path, "key"))
    yield from _validate_value_count(requirement, path)
    if requirement.operator in COMPARISON_OPERATORS:
        yield from _validate_comparison(requirement, (*path, "values"))


def _validate_comparison(
    requirement: NodeSelectorRequirement, path: FieldPath
) -> Iterator[FieldError]:
    values = requirement.values or []
    if len(values) != 1:
        message = f"the operator {requirement.operator} needs exactly one value"
        yield broken_rule(path, values, message, "one whole number")
    elif not WHOLE_NUMBER.fullmatch(values[0]):
        yield field_warning(
            (*path, 0),
            values[0],
            f"the operator {requirement.operator} compares whole numbers; no node will match",
        )


def _validate_node_field(
    requirement: NodeSelectorRequirement, path: FieldPath
) -> Iterator[FieldError]:
    if requirement.key != "metadata.name":
        yield invalid_value(
            (*path, "key"), requirement.key, "metadata.name, the only field of a node here"
        )
        return
    if requirement.operator not in SET_OPERATORS:
        yield unsupported_value((*path, "operator"), requirement.operator, SET_OPERATORS)
    values = requirement.values or []
    if len(values) != 1:
        message = "a field of a node is compared with exactly one value"
        yield broken_rule((*path, "values"), values, message, "one name of a node")
    for index, value in enumerate(values):
        if not metadata_validation.is_dns_subdomain(value):
            yield invalid_value((*path, "values", index), value, EXPECTED_NODE_NAME)


def validate_topology_term(term: TopologySelectorTerm, path: FieldPath) -> Iterator[FieldError]:
    """The allowed topologies of a storage class: each key once, with distinct values."""
    keys: set[str] = set()
    for index, requirement in enumerate(term.matchLabelExpressions or ()):
        place = (*path, "matchLabelExpressions", index)
        yield from validate_label_key(requirement.key, (*place, "key"))
        if requirement.key in keys:
            yield duplicate_value((*place, "key"), requirement.key)
        keys.add(requirement.key)
        yield from _validate_distinct(requirement.values or [], (*place, "values"))


def _validate_distinct(values: list[str], path: FieldPath) -> Iterator[FieldError]:
    if not values:
        yield missing_field(path, "a list of values")
    for index, value in enumerate(values):
        if value in values[:index]:
            yield duplicate_value((*path, index), value)


def selector_matches(selector: LabelSelector, given: dict[str, str]) -> bool:
    """Whether labels match a valid selector."""
    for key, value in (selector.matchLabels or {}).items():
        if given.get(key) != value:
            return False
    return all(_requirement_matches(term, given) for term in selector.matchExpressions or ())


def _requirement_matches(requirement: LabelSelectorRequirement, given: dict[str, str]) -> bool:
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


METADATA_PATH: Final[FieldPath] = ("metadata",)
ENDS_TEXT: Final = "with a letter or digit at both ends"
EXPECTED_OBJECT_NAME: Final = (
    f"a name of at most 253 lower case letters, digits, '-' and '.', {ENDS_TEXT}"
)
EXPECTED_DNS_LABEL: Final = f"a name of at most 63 lower case letters, digits and '-', {ENDS_TEXT}"
EXPECTED_PATH_SEGMENT: Final = "a name without '/' and '%'"
ANNOTATIONS_LIMIT: Final = 256 * 1024
GENERATED_SUFFIX: Final = "x7k2p"  # the length of what the API server appends to generateName
MAX_GENERATE_NAME_LENGTH: Final = 63 - len(GENERATED_SUFFIX)
OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid")

is_object_name = lru_cache(maxsize=4096)(is_dns_subdomain)


def is_dns_label(name: str) -> bool:
    return len(name) <= 63 and "." not in name and is_object_name(name)


def is_path_segment(name: str) -> bool:
    return name not in (".", "..") and "/" not in name and "%" not in name


NAME_RULES: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "Namespace": (is_dns_label, EXPECTED_DNS_LABEL),
    "StatefulSet": (is_dns_label, EXPECTED_DNS_LABEL),
    "Service": (is_dns_label, EXPECTED_DNS_LABEL),
    "PodDisruptionBudget": (is_path_segment, EXPECTED_PATH_SEGMENT),
}
DEFAULT_NAME_RULE: Final = (is_dns_subdomain, EXPECTED_OBJECT_NAME)


def validate_object_metadata(value: dict[str, Any], kind: str) -> Iterator[FieldError]:
    """Field errors of metadata that has the right types and no nulls."""
    yield from _validate_name(value, *NAME_RULES.get(kind, DEFAULT_NAME_RULE))
    namespace = value.get("namespace")
    if namespace and kind not in CLUSTER_SCOPED_KINDS and not is_dns_label(namespace):
        yield invalid_value((*METADATA_PATH, "namespace"), namespace, EXPECTED_DNS_LABEL)
    if "labels" in value:
        yield from validate_labels(value["labels"], (*METADATA_PATH, "labels"))
    if "annotations" in value:
        yield from validate_annotations(value["annotations"], (*METADATA_PATH, "annotations"))
    if value.get("ownerReferences"):
        yield from _validate_owners(value["ownerReferences"], (*METADATA_PATH, "ownerReferences"))


def _validate_name(
    value: dict[str, Any], fits: Callable[[str], bool], expected: str
) -> Iterator[FieldError]:
    name, prefix = value.get("name"), value.get("generateName")
    if name:
        if not fits(name):
            yield invalid_value((*METADATA_PATH, "name"), name, expected)
    elif not prefix:
        yield missing_field((*METADATA_PATH, "name"), expected, "an object needs a name")
    elif not fits(prefix[:MAX_GENERATE_NAME_LENGTH] + GENERATED_SUFFIX):
        yield invalid_value(
            (*METADATA_PATH, "generateName"), prefix, f"the beginning of {expected}"
        )


def validate_annotations(given: dict[str, str] | None, path: FieldPath) -> Iterator[FieldError]:
    """Keys as those of labels, in either case; any values, up to a total size."""
    size = 0
    for key, value in (given or {}).items():
        size += len(key.encode(errors="replace")) + len(value.encode(errors="replace"))
        if not is_label_key(key.lower()):
            yield invalid_value((*path, key), key, EXPECTED_KEY)
    if size > ANNOTATIONS_LIMIT:
        yield invalid_value(path, given, f"at most 256 KiB in all, not {size:,} bytes")


def _validate_owners(given: list[dict[str, Any]], path: FieldPath) -> Iterator[FieldError]:
    controllers = 0
    for index, owner in enumerate(given):
        if owner in given[:index]:
            continue  # the API server removes such duplicates
        for field in OWNER_FIELDS:
            if not owner.get(field):
                yield missing_field((*path, index, field), "what identifies the owner")
        controllers += bool(owner.get("controller"))
        if controllers > 1 and owner.get("controller"):
            message = "only one owner can be the controller"
            yield broken_rule((*path, index, "controller"), True, message)


def without_incomplete_owners(value: dict[str, Any]) -> dict[str, Any]:
    """The metadata without incomplete owner references."""
    owners = value.get("ownerReferences")
    if not owners:
        return value
    is_whole = [owner for owner in owners if all(owner.get(field) for field in OWNER_FIELDS)]
    return {**value, "ownerReferences": is_whole}
