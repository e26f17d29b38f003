"""Recorded decisions without names: as `wain snapshot --redact`, for the input of a decision.

Names and label values become words, numbered in the order of what they stand for, so that whatever
is decided by the order of names is decided alike.
"""

from collections.abc import Iterator
from typing import Any, Final

from wainwright.kube.redaction import Redaction, collecting, pool_words
from wainwright.kube.snapshot import is_kept_annotation
from wainwright.model.snapshot import STATIC_POOL

Document = dict[str, Any]

NAMES: Final = frozenset({"name", "namespace", "pool", "node_class", "uid", "claim", "volume"})
NAME_LISTS: Final = frozenset({"claims", "namespaces", "nominated", "paused"})
FREE_TEXT: Final = {"message": "", "why": "is left out", "unusable": "it cannot be used"}
"""Sentences that may have names in them, and what takes their place."""


def redact_decision(document: Document) -> Document:
    """A saved input of a plan or consolidation, as JSON has it."""
    numeric = set(_compared_keys(document["snapshot"]))
    found: set[str] = set()
    _Redactor(Redaction(numeric, {}, collecting(found))).document(document)
    words = {text: f"r{number:06d}" for number, text in enumerate(sorted(found))}
    words |= pool_words(list(document["nodePools"].values()), words)
    return _Redactor(Redaction(numeric, {}, words.__getitem__)).document(document)


def _compared_keys(value: Any) -> Iterator[str]:
    """Labels whose values are compared as numbers: words would not do."""
    if isinstance(value, dict):
        allowed = value.get("allowed")
        if isinstance(allowed, dict) and (allowed.get("lower") or allowed.get("upper")) is not None:
            yield value["key"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _compared_keys(each)


class _Redactor:
    """Walks an input and renames what stands where names and label values stand."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._name, self._label = redaction.name, redaction.label

    def document(self, document: Document) -> Document:
        consolidation = document.get("consolidation")
        if consolidation is not None:
            consolidation = {**consolidation, "live": self._value("live", consolidation["live"])}
        return {
            **document,
            "snapshot": self._value("snapshot", document["snapshot"]),
            "nodePools": {
                self._name(name): self._redaction.item(manifest)
                for name, manifest in document["nodePools"].items()
            },
            "instanceTypesOf": {
                self._name(name): number for name, number in document["instanceTypesOf"].items()
            },
            "consolidation": consolidation,
        }

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return self._mapping(key, value)
        if isinstance(value, list):
            return [self._name(e) if key in NAME_LISTS else self._value(key, e) for e in value]
        return self._text(key, value) if isinstance(value, str) else value

    def _mapping(self, key: str, value: Document) -> Document:
        if key == "labels":
            return {name: self._label(name, text) for name, text in value.items()}
        if key == "annotations":
            return {name: text for name, text in value.items() if is_kept_annotation(name)}
        if "key" in value and ("values" in value or "value" in value or "allowed" in value):
            return self._requirement(value)
        return {name: self._value(name, each) for name, each in value.items()}

    def _requirement(self, value: Document) -> Document:
        """A requirement of a node or pod selector, a taint or a toleration."""
        changed, key = dict(value), value["key"]
        if isinstance(value.get("allowed"), dict):
            allowed = value["allowed"]
            values = sorted(self._label(key, each) for each in allowed["values"])
            changed["allowed"] = {**allowed, "values": values}
        if isinstance(value.get("values"), list):
            changed["values"] = sorted(self._label(key, each) for each in value["values"])
        if isinstance(value.get("value"), str):
            changed["value"] = self._label(key, value["value"])
        return changed

    def _text(self, key: str, value: str) -> str:
        if key in NAMES:
            return self._name(value)
        if key == "owner" and value:
            kind, _, name = value.partition("/")
            return f"{kind}/{self._name(name)}"
        if key in FREE_TEXT and value != STATIC_POOL:
            return FREE_TEXT[key]
        return self._redaction.text("", value) if key == "provider_id" else value
