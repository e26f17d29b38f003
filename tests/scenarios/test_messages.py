"""What users read in fifteen situations, word for word: each message alone says what is wrong, what
to change and what that costs. `make messages` writes the texts anew; look at the difference.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from wainwright.cli.main import wain

FOLDER = Path(__file__).parent / "messages"
SITUATIONS = sorted(FOLDER.glob("*.yaml"))
NOW = "2026-01-31T12:00:00Z"
MAX_ANSWER_LINES = 5


class Situation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input, and the command whose output is kept in a file of the same name."""

    why: str
    run: str
    given: list[dict[str, Any]]


def output_of(path: Path, folder: Path) -> str:
    situation = msgspec.convert(yaml.load(path.read_text("utf-8"), yaml.CSafeLoader), Situation)
    file = folder / "given.json"
    file.write_bytes(msgspec.json.encode({"kind": "List", "items": situation.given}))
    arguments = [*situation.run.split(), str(file), "--now", NOW, "--quiet"]
    result = CliRunner().invoke(wain, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return f"$ wain {situation.run}\n{result.stdout}"


@pytest.mark.parametrize("path", SITUATIONS, ids=lambda path: path.stem)
def test_the_message_is_word_for_word_as_it_was_read(path: Path, tmp_path: Path) -> None:
    golden, text = path.with_suffix(".txt"), output_of(path, tmp_path)
    if os.environ.get("UPDATE_MESSAGES"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")
