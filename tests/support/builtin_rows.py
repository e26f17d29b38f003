"""The table of objects of core kinds under tests/manifests/builtin, row by row."""

from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

FOLDER = Path(__file__).parents[1] / "manifests" / "builtin"


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    message: str


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One object and what is to be said of it."""

    name: str
    verdict: Literal["accepted", "refused"]
    object: dict[str, Any]
    errors: list[Expected] = []
    warnings: list[Expected] = []
    beyond: str = ""
    """Why an API server refuses what we accept; nothing where it does not."""


@cache
def rows() -> list[Row]:
    """Every row of every file, in order."""
    found: list[Row] = []
    for file in sorted(FOLDER.glob("*.yaml")):
        found.extend(msgspec.convert(yaml.safe_load(file.read_bytes()), list[Row]))
    return found
