"""Whether an object would be accepted, judged as an API server with our CRDs judges a create.

That is: strict about unknown fields, defaults first, then the schema, then the rules in CEL. The
status of an object cannot be created by its author, so its mistakes are only warned of.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from wainwright.api import cel, metadata, structural
from wainwright.api.crd import root_schema
from wainwright.api.fault import Fault, Path
from wainwright.api.kinds import Family, Kind
from wainwright.api.quick import is_fine
from wainwright.api.schema import Schema
from wainwright.api.sense import doubts

LONG_FORMS: Final[dict[tuple[str, Path], str]] = {
    ("NodePool", ("spec", "requirements")): "write them under spec.template.spec.requirements",
    ("NodePool", ("spec", "template")): "a pool needs spec.template.spec with nodeClassRef and "
    "requirements",
    ("NodePool", ("spec", "template", "spec", "nodeClassRef")): "write nodeClassRef: "
    "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}",
    ("NodePool", ("spec", "template", "spec", "requirements")): "write requirements: [] where "
    "every node will do",
    ("NodePool", ("spec", "limits", "resources")): "write the resources directly under limits",
    ("NodePool", ("spec", "template", "spec", "kubelet")): "kubelet settings belong to the class: "
    "spec.kubelet of the EC2NodeClass",
    ("NodePool", ("spec", "disruption", "expireAfter")): "write it as "
    "spec.template.spec.expireAfter",
    ("EC2NodeClass", ("spec", "subnetSelectorTerms")): "write subnetSelectorTerms: "
    "[{tags: {karpenter.sh/discovery: my-cluster}}]",
    ("EC2NodeClass", ("spec", "securityGroupSelectorTerms")): "write securityGroupSelectorTerms: "
    "[{tags: {karpenter.sh/discovery: my-cluster}}]",
    ("EC2NodeClass", ("spec", "amiSelectorTerms")): "write amiSelectorTerms: "
    "[{alias: al2023@latest}]",
}
"""Offline commands take short forms; an API server wants these spelt out."""


def judge(kind: Kind, value: dict[str, Any], old: dict[str, Any] | None = None) -> list[Fault]:
    """All that is wrong with an object of one of our kinds; `old` is what it would replace."""
    root = root_schema(kind.type)
    found = list(_metadata_faults(kind, value))
    if old is not None or not is_fine(kind.type, value):
        found.extend(structural.unknown_fields(value, root))
        found.extend(_schema_faults(value, root, old))
    if not any(fault for fault in found if not fault.warning):
        found.extend(doubts(kind.name, structural.defaulted(value, root)))
    return [_with_long_form(kind, fault) for fault in found]


def _metadata_faults(kind: Kind, value: dict[str, Any]) -> Iterator[Fault]:
    given = value.get("metadata")
    if kind.family is Family.OFFLINE and not given:
        return
    for fault in metadata.faults(given or {}, namespaced=False):
        yield msgspec.structs.replace(fault, path=("metadata", *fault.path))


def _schema_faults(value: dict[str, Any], root: Schema, old: Any) -> Iterator[Fault]:
    body = {key: item for key, item in value.items() if key not in ("metadata", "status")}
    before = cel.ABSENT if old is None else structural.defaulted(old, root)
    yield from structural.faults(structural.defaulted(body, root), root, (), before)
    status = value.get("status")
    if status is not None:
        yield from _status_doubts(status, root["properties"].get("status", {}))


def _status_doubts(status: Any, schema: Schema) -> Iterator[Fault]:
    for fault in structural.faults(structural.defaulted(status, schema), schema, ("status",)):
        yield msgspec.structs.replace(fault, warning=True)


def _with_long_form(kind: Kind, fault: Fault) -> Fault:
    hint = LONG_FORMS.get((kind.name, fault.path))
    is_rule = fault.message == fault.expected
    return fault if hint is None or is_rule else msgspec.structs.replace(fault, hint=hint)


def completed(kind: Kind, value: dict[str, Any]) -> dict[str, Any]:
    """The object with every default filled in: what the API server would store."""
    made: dict[str, Any] = structural.defaulted(value, root_schema(kind.type))
    return made
