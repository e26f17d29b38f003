"""What is wrong with the input, with the place to look at, ready to be shown or written as JSON."""

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, or doubtful, in one file."""

    file: str
    line: int | None = None
    document: int | None = None
    """Which document of the file, counted from 1."""
    path: str = ""
    found: str = ""
    expected: str = ""
    message: str
    hint: str = ""

    @property
    def where(self) -> str:
        """File and line, as editors jump there."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def sentence(self) -> str:
        """What was found and what was expected, in one line."""
        if self.expected and self.message == f"expected {self.expected}":
            return f"found {self.found}, {self.message}"
        if self.message == self.expected:
            return f"found {self.found}: {self.message}"
        return self.message


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found: errors stop a command, warnings do not."""

    errors: list[Problem]
    warnings: list[Problem]


def in_order(problems: list[Problem]) -> list[Problem]:
    """By file as given, then by line, so that one can walk through the files."""
    files = {name: index for index, name in enumerate(dict.fromkeys(p.file for p in problems))}
    return sorted(problems, key=lambda p: (files[p.file], p.line or 0, p.document or 0))
