"""Mappings and lists of a configuration, taken apart with an eye on what does not belong there."""

from collections.abc import Collection, Iterator
from typing import Any

from wainwright.api.builtin.wording import wrong
from wainwright.api.fault import Fault, Path, did_you_mean

Mapping = dict[str, Any]


class Parts:
    """Reads parts of a value and gathers what is wrong with them."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def mapping(
        self, value: Any, path: Path, known: Collection[str], *, open_ended: bool = False
    ) -> Mapping:
        """The mapping; an empty one where there is none.

        Where it is open-ended, fields that resemble no known one are left to newer schedulers.
        """
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.faults.append(wrong(path, value, "a mapping"))
            return {}
        for key in value:
            if key not in known:
                self.faults.append(_unknown(key, path, known, open_ended=open_ended))
        return value

    def entries(self, value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
        """The entries of a list, each with its place."""
        if value is None:
            return
        if not isinstance(value, list):
            advice = "begin each entry with '- '" if isinstance(value, dict) else ""
            self.faults.append(wrong(path, value, "a list", advice))
            return
        yield from (((*path, index), entry) for index, entry in enumerate(value))


def _unknown(key: str, path: Path, known: Collection[str], *, open_ended: bool) -> Fault:
    hint = did_you_mean(key, sorted(known))
    return Fault(
        path=(*path, key),
        message="unknown field",
        found=key,
        expected=f"one of {', '.join(sorted(known))}",
        hint=hint,
        warning=open_ended and not hint,
    )
