"""Objects of an API server as wire structs, also where a part of them cannot be read."""

import re
from typing import Any, Final, TypeVar

import msgspec

from wainwright.api.api_resources import ApiResource
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS, decode_object
from wainwright.api.wire import ObjectMeta
from wainwright.cluster import ObjectT
from wainwright.errors import KubernetesError, ServerUnavailableError

MAX_REPAIRS: Final = 20
ERROR_PLACE: Final = re.compile(r"at `\$\.(.+)`$")
PATH_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


class MetadataOnly(msgspec.Struct, frozen=True):
    """All that may be read of a bookmark: its spec has nulls where the kind allows none."""

    metadata: ObjectMeta = ObjectMeta()


class UnreadableObject(KubernetesError):
    """An object that is there and says something that our structs have no place for."""

    def __init__(self, message: str, metadata: ObjectMeta) -> None:
        super().__init__(message)
        self.metadata = metadata


Decoded = TypeVar("Decoded")


def decode_json(body: bytes | msgspec.Raw, kind: type[Decoded]) -> Decoded:
    """A response, or a part of one; ServerUnavailableError for anything else, such as the page of
    a proxy that wants somebody to log in.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        begin = bytes(body)[:100].decode(errors="replace")
        message = f"an answer that is not of an API server: {error}: {begin!r}"
        raise ServerUnavailableError(message) from error


def decode_as(resource: ApiResource, kind: type[ObjectT], body: bytes | msgspec.Raw) -> ObjectT:
    """The object as its struct, without the parts that cannot be read and can be done without.

    Of a core kind and of a NodeClaim that is every part: it stands for a machine, and must not be
    taken for deleted. A NodePool or class without one of its requirements would be another one.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        header = {"apiVersion": resource.api_version, "kind": resource.kind}
        value = decode_json(body, dict[str, Any]) | header
        is_core = (resource.api_version, resource.kind) in KUBERNETES_KINDS
        found = decode_object(value) if is_core else _without_bad_parts(value, kind)
        if isinstance(found, kind):
            return found
        metadata = _safe_metadata(value.get("metadata"))
        text = f"{resource.qualified_plural} {metadata.name!r}: {error}"
        raise UnreadableObject(text, metadata) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return decode_json(body, kind)  # which says what came instead


def _safe_metadata(value: Any) -> ObjectMeta:
    given = value if isinstance(value, dict) else {}
    found = {key: given.get(key) for key in ("name", "namespace", "uid", "resourceVersion")}
    texts = {key: item for key, item in found.items() if isinstance(item, str)}
    return msgspec.convert(texts, ObjectMeta)


def _without_bad_parts(value: dict[str, Any], kind: type[ObjectT]) -> ObjectT | None:
    for _ in range(MAX_REPAIRS):
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            place = ERROR_PLACE.search(str(error))
            path = _path(place.group(1)) if place else []
            may_go = path[:1] == ["status"] or (len(path) > 1 and path[0] == "metadata")
            if not path or not (may_go or issubclass(kind, NodeClaim)):
                return None
            _remove(value, path)
    return None


def _path(text: str) -> list[str | int]:
    """The steps to the value; a key of a map is not named, so that the whole map goes."""
    path: list[str | int] = []
    for step in PATH_STEP.finditer(text):
        if step.group(0) == "[...]":
            break
        path.append(int(step.group(2)) if step.group(2) else step.group(1))
    return path


def _remove(value: Any, path: list[str | int]) -> None:
    for step in path[:-1]:
        value = value[step]
    del value[path[-1]]
