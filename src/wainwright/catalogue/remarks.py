"""Remarks: what the catalogue has to say about an object of the input, as data with its place."""

from collections.abc import Sequence

import msgspec

from wainwright.api.fault import Fault, Path, field_path
from wainwright.errors import BadInput


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to know about one object; whoever has the files can add the line."""

    kind: str
    name: str
    fault: Fault

    def __str__(self) -> str:
        place = field_path(self.fault.path)
        about = " ".join(word for word in (self.kind, self.name) if word)
        return (
            f"{about}: {place}: {self.fault.message}" if place else f"{about}: {self.fault.message}"
        )


class Refused(BadInput):
    """The catalogue cannot be built from this input; the remarks say what must be mended."""

    def __init__(self, remarks: Sequence[Remark]) -> None:
        super().__init__("; ".join(map(str, remarks)), remarks[0].fault.hint)
        self.remarks = tuple(remarks)


def warning(kind: str, name: str, path: Path, message: str, hint: str = "") -> Remark:
    """Something that is probably not meant, and that changes no exit code."""
    fault = Fault(path=path, message=message, hint=hint, warning=True)
    return Remark(kind=kind, name=name, fault=fault)


def refusal(kind: str, name: str, path: Path, message: str, hint: str = "") -> Refused:
    """Something that must be mended before anything can be planned."""
    return Refused(
        [Remark(kind=kind, name=name, fault=Fault(path=path, message=message, hint=hint))]
    )
