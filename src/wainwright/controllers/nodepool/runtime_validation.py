"""What an API server with other, or older, rules may have let through."""

from collections.abc import Iterator

from wainwright.api.field_error import FieldError, format_field_path
from wainwright.api.kinds import known_kinds
from wainwright.api.validation.object_validation import validate_object
from wainwright.api.wire import WireStruct, to_manifest


def validation_problems(obj: WireStruct) -> Iterator[str]:
    """Each violation of the rules of the object's kind, with the field and what was found."""
    manifest = to_manifest(obj)
    manifest.pop("status", None)
    for error in validate_object(known_kinds()[manifest["apiVersion"], manifest["kind"]], manifest):
        if not error.is_accepted:
            yield _sentence(error)


def _sentence(error: FieldError) -> str:
    found = f", found {error.found}" if error.found else ""
    return f"{format_field_path(error.path)}: {error.message}{found}"
