"""Problems of the input, with file and line, to be printed or written as JSON."""

from typing import Final

import msgspec

from wainwright.errors import InvalidInputError
from wainwright.messages.formatting import escape_unprintable, format_count


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One error or warning in one file."""

    file: str
    """Empty where the problem has no place of its own."""
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
        """file:line, as editors link it."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def sentence(self) -> str:
        """The found and the expected value, in one line."""
        if self.expected and self.message == f"expected {self.expected}":
            return f"found {self.found}, {self.message}"
        if self.message == self.expected:
            return f"found {self.found}: {self.message}"
        return self.message


class ProblemReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All problems: errors stop a command, warnings do not, notes are only to be known."""

    errors: list[Problem]
    warnings: list[Problem]
    notes: list[Problem] = []


def sort_problems(problems: list[Problem]) -> list[Problem]:
    """By file in input order, then by line."""
    files = {name: index for index, name in enumerate(dict.fromkeys(p.file for p in problems))}
    return sorted(problems, key=lambda p: (files[p.file], p.line or 0, p.document or 0))


MAX_SHOWN_PROBLEMS: Final = 10  # problems in one message; the report has all of them


class InvalidInput(InvalidInputError):
    """The input has errors; the report lists them."""

    def __init__(self, report: ProblemReport, *, undone: str = "planned") -> None:
        """`undone` is what the command would have done with an input without errors."""
        super().__init__(f"{format_count(len(report.errors), 'error')}; nothing {undone}")
        self.report = report

    def of_command(self, undone: str) -> "InvalidInput":
        """The same, said by a command that would have done something else with the input."""
        return InvalidInput(self.report, undone=undone)

    def __str__(self) -> str:
        """With file, line and hint, because library users see only this text."""
        errors = self.report.errors
        lines = [f"{self.message}:", *map(_format_problem, errors[:MAX_SHOWN_PROBLEMS])]
        if len(errors) > MAX_SHOWN_PROBLEMS:
            lines.append(f"  and {len(errors) - MAX_SHOWN_PROBLEMS:,} more, in .report.errors")
        return "\n".join(lines)


def _format_problem(problem: Problem) -> str:
    field = f": {problem.path}" if problem.path else ""
    hint = f"\n    {escape_unprintable(problem.hint)}" if problem.hint else ""
    return f"  {escape_unprintable(problem.where + field + ': ' + problem.sentence)}{hint}"
