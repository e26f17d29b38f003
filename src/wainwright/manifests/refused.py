"""The input as a whole is refused: with everything that must be mended."""

from typing import Final

from wainwright.errors import BadInput
from wainwright.manifests.problem import Problem, Report

SHOWN: Final = 10  # problems in one message; the report has all of them


class InputRefused(BadInput):
    """Something in the input must be mended first; the report says what."""

    def __init__(self, report: Report) -> None:
        things = "one thing" if len(report.errors) == 1 else f"{len(report.errors):,} things"
        super().__init__(f"{things} in the input must be mended first")
        self.report = report

    def __str__(self) -> str:
        """With file, line and remedy: all that a reader sees who has no command line."""
        errors = self.report.errors
        told = [f"{self.message}:", *map(_told, errors[:SHOWN])]
        if len(errors) > SHOWN:
            told.append(f"  and {len(errors) - SHOWN:,} more, in .report.errors")
        return "\n".join(told)


def _told(problem: Problem) -> str:
    field = f": {problem.path}" if problem.path else ""
    hint = f"\n    {problem.hint}" if problem.hint else ""
    return f"  {problem.where}{field}: {problem.sentence}{hint}"
