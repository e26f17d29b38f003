"""Diagnostics: warnings and errors about objects of the input, with kind, name and field."""

from collections.abc import Sequence

import msgspec

from wainwright.api.field_error import FieldError, FieldPath, format_field_path
from wainwright.errors import InvalidInputError


class ObjectDiagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to know about one object; whoever has the files can add the line."""

    kind: str
    name: str
    fault: FieldError

    def __str__(self) -> str:
        place = format_field_path(self.fault.path)
        about = " ".join(word for word in (self.kind, self.name) if word)
        return (
            f"{about}: {place}: {self.fault.message}" if place else f"{about}: {self.fault.message}"
        )


class InvalidCatalogInput(InvalidInputError):
    """The catalogue cannot be built from this input; the remarks say what must be mended."""

    def __init__(self, remarks: Sequence[ObjectDiagnostic]) -> None:
        super().__init__("; ".join(map(str, remarks)), remarks[0].fault.hint)
        self.remarks = tuple(remarks)


def object_warning(
    kind: str, name: str, path: FieldPath, message: str, hint: str = ""
) -> ObjectDiagnostic:
    """Something that is probably not meant, and that changes no exit code."""
    fault = FieldError(path=path, message=message, hint=hint, warning=True)
    return ObjectDiagnostic(kind=kind, name=name, fault=fault)


def object_error(
    kind: str, name: str, path: FieldPath, message: str, hint: str = ""
) -> InvalidCatalogInput:
    """Something that must be mended before anything can be planned."""
    return InvalidCatalogInput(
        [
            ObjectDiagnostic(
                kind=kind, name=name, fault=FieldError(path=path, message=message, hint=hint)
            )
        ]
    )
