"""Diagnostics: warnings and errors about objects of the input, with kind, name and field."""

from collections.abc import Sequence

import msgspec

from wainwright.api.field_error import FieldError, FieldPath, format_field_path
from wainwright.errors import InvalidInputError


class ObjectDiagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """A warning or error about one object; the caller that has the files can add the line."""

    kind: str
    name: str
    field_error: FieldError
    void: str = ""
    """Why the object is not in effect, as the reason of a condition; empty where it is."""

    @property
    def description(self) -> str:
        """The field and what is to be known about it."""
        path, message = format_field_path(self.field_error.path), self.field_error.message
        return f"{path}: {message}" if path else message

    def __str__(self) -> str:
        subject = " ".join(word for word in (self.kind, self.name) if word)
        return f"{subject}: {self.description}"


class InvalidCatalogInput(InvalidInputError):
    """The catalogue cannot be built from this input; the diagnostics say what must be fixed."""

    def __init__(self, diagnostics: Sequence[ObjectDiagnostic]) -> None:
        super().__init__("; ".join(map(str, diagnostics)), diagnostics[0].field_error.hint)
        self.diagnostics = tuple(diagnostics)


def object_warning(
    kind: str, name: str, path: FieldPath, message: str, hint: str = "", *, void: str = ""
) -> ObjectDiagnostic:
    """A warning about something that is probably a mistake; it does not change the exit code."""
    field_error = FieldError(path=path, message=message, hint=hint, warning=True)
    return ObjectDiagnostic(kind=kind, name=name, field_error=field_error, void=void)


def object_error(
    kind: str, name: str, path: FieldPath, message: str, hint: str = ""
) -> InvalidCatalogInput:
    """An error that must be fixed before anything can be planned."""
    field_error = FieldError(path=path, message=message, hint=hint)
    return InvalidCatalogInput([ObjectDiagnostic(kind=kind, name=name, field_error=field_error)])
