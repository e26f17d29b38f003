"""Tables of manifests: comments on the lines of a document state the expected errors.

    weight: 101  # error spec.weight: expected from 1 to 100

`# warning path: message` is for a valid but doubtful line; `# error(offline)` for one that only
offline validation rejects, as no schema can express it. A document without comments is valid.
"""

import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

TESTS: Final = Path(__file__).parent.parent
FIELD: Final = r"""(?:\["[^"]*"\]|[^\s"])+"""
MARK: Final = re.compile(
    rf"# (error\(offline\)|error|warning) ({FIELD}): (.*?)(?=  # (?:error|warn)|$)"
)


class ExpectedProblem(msgspec.Struct, frozen=True, order=True):
    """The expectation of a comment."""

    line: int
    word: str
    path: str
    message: str


class ManifestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One document of a table."""

    name: str
    text: str
    expected: list[ExpectedProblem]

    @property
    def words(self) -> set[str]:
        return {one.word for one in self.expected}

    @property
    def accepted(self) -> bool:
        """Whether an API server accepts it: errors of offline validation do not count."""
        return "error" not in self.words


@cache
def manifest_rows(folder: str) -> list[ManifestRow]:
    """Every document of every file in a folder of tests/manifests."""
    found = sorted((TESTS / "manifests" / folder).glob("*.yaml"))
    return [row for path in found for row in _rows_of_file(path)]


def _rows_of_file(path: Path) -> list[ManifestRow]:
    made = []
    for text in path.read_text(encoding="utf-8").split("---\n"):
        title = text.partition("\n")[0].removeprefix("# ")
        made.append(ManifestRow(name=f"{path.stem}: {title}", text=text, expected=_expected(text)))
    return made


def _expected(text: str) -> list[ExpectedProblem]:
    return sorted(
        ExpectedProblem(number, word, path, message)
        for number, line in enumerate(text.split("\n"), start=1)
        for word, path, message in MARK.findall(line)
    )


class ObjectChange(msgspec.Struct, frozen=True, kw_only=True):
    """An object, a change to it, and the expected response of an API server."""

    name: str
    old: dict[str, Any]
    change: dict[str, Any]
    errors: list[dict[str, str]] = []

    @property
    def new(self) -> dict[str, Any]:
        made = deepcopy(self.old)
        for path, value in self.change.items():
            *inner, last = path.split(".")
            place = made
            for step in inner:
                place = place[step]
            if value is None:
                del place[last]
            else:
                place[last] = value
        return made


@cache
def object_changes() -> list[ObjectChange]:
    text = (TESTS / "manifests" / "changes" / "rules.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), list[ObjectChange])
