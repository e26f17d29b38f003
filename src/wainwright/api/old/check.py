"""What is wrong with an old document, found by the schema of its kind before it is converted."""

from typing import Any, Final

import msgspec

from wainwright.api import metadata, structural
from wainwright.api.crd import root_schema
from wainwright.api.fault import Fault
from wainwright.api.old import OLD_KINDS
from wainwright.api.wire import Wire

TOO_DEEP: Final = Fault(path=(), message="nested too deeply to be a manifest")


def old_kind(document: Any) -> type[Wire] | None:
    """The old type that the document is of, if it is of one."""
    if not isinstance(document, dict):
        return None
    version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return None
    return OLD_KINDS.get((version, kind))


def old_faults(document: dict[str, Any]) -> list[Fault]:
    """All that is wrong with a document of an old kind; what is right can be converted."""
    kind = old_kind(document)
    if kind is None:
        return []
    try:
        return _faults(document, kind)
    except RecursionError:
        return [TOO_DEEP]


def _faults(document: dict[str, Any], kind: type[Wire]) -> list[Fault]:
    root = root_schema(kind)
    body = {key: item for key, item in document.items() if key != "metadata"}
    return [
        *_metadata_faults(document.get("metadata")),
        *structural.unknown_fields(body, root),
        *structural.faults(structural.defaulted(body, root), root),
    ]


def _metadata_faults(given: Any) -> list[Fault]:
    found = metadata.faults({} if given is None else given, namespaced=False)
    return [
        msgspec.structs.replace(fault, path=("metadata", *fault.path))
        for fault in found
        if not _is_tolerated(fault, given)
    ]


def _is_tolerated(fault: Fault, given: Any) -> bool:
    """A pool without a name can be named later; a namespace never meant anything here."""
    if fault.path == ("name",):
        return not given or given.get("name") in (None, "")
    return fault.path == ("namespace",)


def written(document: dict[str, Any]) -> dict[str, Any]:
    """A copy of an old document without its nulls: what its author really set."""
    kind = old_kind(document)
    assert kind is not None  # asked of old documents only
    made: dict[str, Any] = structural.defaulted(document, root_schema(kind))
    made["metadata"] = {
        key: item for key, item in (document.get("metadata") or {}).items() if item is not None
    }
    return made
