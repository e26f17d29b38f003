"""Recorded decisions without names: as `wain snapshot --redact`, for the input of a decision.

Names and label values become words, numbered in the order of what they stand for, so that whatever
is decided by the order of names is decided alike.
"""

from collections.abc import Iterator
from typing import Any, Final

from wainwright.kube.redaction import Redaction, collecting, pool_words
from wainwright.model.snapshot import STATIC_POOL

Document = dict[str, Any]

NAMES: Final = frozenset(
    {"name", "namespace", "pool", "node_class", "uid", "claim", "volume", "storage_class"}
)
NAME_LISTS: Final = frozenset({"claims", "namespaces", "nominated", "paused"})
FREE_TEXT: Final = {"message": "", "why": "is left out", "unusable": "it cannot be used"}
"""Sentences that may have names in them, and what takes their place."""
OF_FILES: Final[Document] = {
    **{key: [] for key in ("fileNotes", "otherNotes", "inputNotes", "warnings")},
    "overlays": {},
    "classes": {},
}
"""What only inputs have that were made from files; they name them."""
FIELDS_OF_THE_WIRE: Final = {
    "address": "hostIP",
    "condition": "type",
    "image": "imageID",
    "provider_id": "providerID",
    "reason": "reason",
}
"""Those that a snapshot has as well, under its name for them."""


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
        if "key" in value and any(map(_is_bounded, (value, *value.get("sides", ())))):
            yield value["key"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _compared_keys(each)


def _is_bounded(value: Document) -> bool:
    allowed = value.get("allowed")
    bounds = (allowed.get("lower"), allowed.get("upper")) if isinstance(allowed, dict) else ()
    return any(each is not None for each in bounds)


class _Redactor:
    """Walks an input and renames what stands where names and label values stand."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._name, self._label = redaction.name, redaction.label

    def document(self, document: Document) -> Document:
        consolidation = document.get("consolidation")
        if consolidation is not None:
            live = self._value("live", consolidation["live"])
            consolidation = {**consolidation, "live": live, "offered": {}}
        return {
            **document,
            **OF_FILES,
            "snapshot": self._value("snapshot", document["snapshot"]),
            "nodePools": {
                self._name(name): self._redaction.item(manifest)
                for name, manifest in document["nodePools"].items()
            },
            "instanceTypes": self.types(document["instanceTypes"]),
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
            return self._redaction.labels(value)
        if key == "annotations":
            return self._redaction.annotations(value)
        if key == "conditions":
            return {
                self._text("condition", name): self._value("", each) for name, each in value.items()
            }
        if "key" in value and not value.keys().isdisjoint(("values", "value", "allowed", "sides")):
            return self._requirement(value)
        return {name: self._value(name, each) for name, each in value.items()}

    def types(self, value: Any) -> Any:
        """Instance types with the labels that are not the cloud's; their names are."""
        if isinstance(value, list):
            return [self.types(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "key" in value and "allowed" in value:
            return self._requirement(value)
        return {name: self.types(each) for name, each in value.items()}

    def _requirement(self, value: Document) -> Document:
        """A requirement of a node or pod selector, a taint or a toleration, or what of them
        contradicts one another.
        """
        changed, key = dict(value), value["key"]
        if isinstance(value.get("allowed"), dict):
            changed["allowed"] = self._allowed(key, value["allowed"])
        if isinstance(value.get("sides"), list):
            changed["sides"] = [
                {**each, "allowed": self._allowed(key, each["allowed"])} for each in value["sides"]
            ]
        if isinstance(value.get("values"), list):
            changed["values"] = sorted(self._label(key, each) for each in value["values"])
        if isinstance(value.get("value"), str):
            changed["value"] = self._label(key, value["value"])
        return changed

    def _allowed(self, key: str, allowed: Document) -> Document:
        return {**allowed, "values": sorted(self._label(key, each) for each in allowed["values"])}

    def _text(self, key: str, value: str) -> str:
        if key in NAMES:
            return self._name(value)
        if key == "owner" and value:
            kind, _, name = value.partition("/")
            return f"{kind}/{self._name(name)}"
        if key in FREE_TEXT and value != STATIC_POOL:
            return FREE_TEXT[key]
        known = FIELDS_OF_THE_WIRE.get(key)
        return value if known is None else self._redaction.text(known, value)
