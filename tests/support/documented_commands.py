"""The command lines of README, docs and runbooks, and how each of them is run by a test.

Every line belongs to one of four: run offline in `tests/scenarios/test_docs.py`, run against a real
kube-apiserver in `tests/integration/test_documented_commands.py`, run by another test, or not run
at all, which is listed here with the reason.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PROGRAMS: Final = "wain|kubectl|helm|aws|make|sh|export|envsubst|docker|pip"
BLOCK_LINE: Final = re.compile(rf"^ *(?:\$ )?(?:\.venv/bin/)?((?:{PROGRAMS}) .*)$")
INLINE: Final = re.compile(r"`((?:kubectl|helm|aws|wain) [^`]+)`")
COMMENT: Final = re.compile(r"(?: {2,}|\s+#).*$")


class Runner(StrEnum):
    OFFLINE = "offline"
    CLUSTER = "cluster"
    ELSEWHERE = "elsewhere"
    NOBODY = "nobody"


class DocumentedCommand(NamedTuple):
    page: str
    line: str

    @property
    def runner(self) -> Runner:
        if any(self.matches(page, start) for page, start in ELSEWHERE):
            return Runner.ELSEWHERE
        if any(self.matches(page, start) for page, start in NOT_RUN):
            return Runner.NOBODY
        is_ours = self.line.startswith("wain ") and "|" not in self.line
        needs_cluster = "--from-cluster" in self.line or self.line.startswith("wain snapshot")
        return Runner.OFFLINE if is_ours and not needs_cluster else Runner.CLUSTER

    def matches(self, page: str, start: str) -> bool:
        return self.page.startswith(page) and self.line.startswith(start)


ELSEWHERE: Final = {
    ("README.md", "make demo"): "scripts/update_readme.py --check runs its command",
    ("docs/emulator.md", ""): "scripts/update_emulator_docs.py, tests/integration/test_aws_cli.py",
    ("docs/operating.md", "wain run"): "tests/integration/test_run.py",
    ("docs/serve.md", "wain serve"): "does not end by itself: tests of the command and its server",
    ("docs/tasks/plan-a-change-in-ci.md", "sh examples/ci"): "tests/scenarios/test_docs.py",
    ("docs/tasks/try-the-emulator.md", ""): "the same lines as in docs/emulator.md",
}
"""By page and beginning of the line: what else runs it."""

NOT_RUN: Final = {
    ("", "make "): "targets are compared with the Makefile; most run the tests themselves",
    ("docs/operating.md", "export AWS_PARTITION"): "only sets variables for the next two lines",
    (
        "docs/operating.md",
        "envsubst",
    ): "needs gettext; test_iam_policy.py reads the file",
    (
        "docs/operating.md",
        "kubectl -n kube-system port-forward",
    ): "needs a kubelet; tests/unit/operator/test_verdicts.py asks for /verdicts",
    (
        "docs/operating.md",
        "kubectl -n kube-system get lease",
    ): "needs a leader; tests/integration/test_leader_election.py reads its lease",
    (
        "docs/operating.md",
        "kubectl -n kube-system cp",
    ): "needs a kubelet; tests/unit/operator/test_flight_recorder.py reads such folders",
    ("docs/operating.md", "aws iam create-policy"): "needs an AWS account",
    ("docs/from-a-cluster.md", "aws ec2 describe"): "needs an AWS account",
    ("docs/top.md", "wain top --demo"): "simulates a day; test_top.py plays a short scenario",
    ("docs/runbooks", "aws "): "needs an AWS account with the instance",
    ("docs/runbooks", "kubectl -n NAMESPACE logs"): "needs a kubelet that runs the controller",
    ("docs/runbooks", "kubectl delete pod"): "names no pod",
    ("docs/runbooks", "helm "): "an abbreviated line: `helm upgrade`, `helm get manifest`",
}
"""By page and beginning of the line: why nothing runs it."""


def documented_commands() -> list[DocumentedCommand]:
    """Those of code blocks, and in runbooks those within sentences."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    found = [
        DocumentedCommand(path.relative_to(ROOT).as_posix(), line)
        for path in pages
        if path.parent.name not in ("internals", "adr")
        for line in _lines(path)
    ]
    return list(dict.fromkeys(found))


def _lines(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    for line in _block_lines(text):
        if found := BLOCK_LINE.match(line):
            yield COMMENT.sub("", found[1]) if line.startswith(" ") else found[1]
    if path.parent.name == "runbooks":
        yield from (found[1] for found in INLINE.finditer(text) if "…" not in found[1])


def _block_lines(text: str) -> Iterator[str]:
    """The lines of code blocks in no language or sh; one that goes on below is one line."""
    fence, begun = "", ""
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fence = "" if fence else line.strip()
        elif fence in ("```", "```sh") or (not fence and line.startswith("    ")):
            whole = f"{begun} {line.strip()}" if begun else line
            begun = whole.removesuffix("\\").rstrip() if whole.endswith("\\") else ""
            if not begun:
                yield whole
