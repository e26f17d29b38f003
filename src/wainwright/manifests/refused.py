"""The input as a whole is refused: with everything that must be mended."""

from wainwright.errors import BadInput
from wainwright.manifests.problem import Report


class InputRefused(BadInput):
    """Something in the input must be mended first; the report says what."""

    def __init__(self, report: Report) -> None:
        things = "one thing" if len(report.errors) == 1 else f"{len(report.errors):,} things"
        super().__init__(f"{things} in the input must be mended first")
        self.report = report
