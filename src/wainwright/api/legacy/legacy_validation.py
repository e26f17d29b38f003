"""The legacy kinds, and validation of their objects before the conversion."""

from typing import Any, Final

import msgspec

from wainwright.api.field_error import FieldError
from wainwright.api.legacy.v1alpha5 import AWSNodeTemplate, Provisioner
from wainwright.api.legacy.v1beta1 import EC2NodeClassV1Beta1, NodeClaimV1Beta1, NodePoolV1Beta1
from wainwright.api.validation import metadata_validation, schema_validation
from wainwright.api.wire import WireStruct, object_schema

LEGACY_KINDS: Final[dict[tuple[str, str], type[WireStruct]]] = {
    ("karpenter.sh/v1alpha5", "Provisioner"): Provisioner,
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"): AWSNodeTemplate,
    ("karpenter.sh/v1beta1", "NodePool"): NodePoolV1Beta1,
    ("karpenter.sh/v1beta1", "NodeClaim"): NodeClaimV1Beta1,
    ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"): EC2NodeClassV1Beta1,
}
"""By apiVersion and kind."""


TOO_DEEP: Final = FieldError(path=(), message="nested too deeply to be a manifest")


def legacy_kind(document: Any) -> type[WireStruct] | None:
    """The legacy type of the document, if it has one."""
    if not isinstance(document, dict):
        return None
    version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return None
    return LEGACY_KINDS.get((version, kind))


def validate_legacy_object(document: dict[str, Any]) -> list[FieldError]:
    """The field errors of a legacy document; a valid one can be converted."""
    kind = legacy_kind(document)
    if kind is None:
        return []
    try:
        return _legacy_errors(document, kind)
    except RecursionError:
        return [TOO_DEEP]


def _legacy_errors(document: dict[str, Any], kind: type[WireStruct]) -> list[FieldError]:
    root = object_schema(kind)
    body = {key: item for key, item in document.items() if key != "metadata"}
    return [
        *_legacy_metadata_errors(document.get("metadata")),
        *schema_validation.find_unknown_fields(body, root),
        *schema_validation.validate_schema(schema_validation.apply_defaults(body, root), root),
    ]


def _legacy_metadata_errors(source: Any) -> list[FieldError]:
    found = metadata_validation.validate_metadata(
        {} if source is None else source, namespaced=False
    )
    return [
        msgspec.structs.replace(field_error, path=("metadata", *field_error.path))
        for field_error in found
        if not _is_tolerated(field_error, source)
    ]


def _is_tolerated(field_error: FieldError, source: Any) -> bool:
    """A missing name is allowed, as it can be added later; a namespace had no meaning."""
    if field_error.path == ("name",):
        return not source or source.get("name") in (None, "")
    return field_error.path == ("namespace",)


def without_nulls(document: dict[str, Any]) -> dict[str, Any]:
    """A copy of a legacy document without nulls, which only has the fields that were set."""
    kind = legacy_kind(document)
    assert kind is not None  # called for legacy documents only
    made: dict[str, Any] = schema_validation.apply_defaults(document, object_schema(kind))
    made["metadata"] = {
        key: item for key, item in (document.get("metadata") or {}).items() if item is not None
    }
    return made
