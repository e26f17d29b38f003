"""What is wrong with a value, and where in it: data, so that it can be tested and shown."""

from difflib import get_close_matches
from typing import Any

import msgspec

Step = str | int
Path = tuple[Step, ...]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong at one place."""

    path: Path
    message: str
    found: str = ""
    expected: str = ""
    hint: str = ""
    warning: bool = False


def field_path(path: Path) -> str:
    """spec.requirements[2].values, and labels["app.kubernetes.io/name"] where a key has dots."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() or step.replace("-", "").isidentifier():
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def shown(value: Any, limit: int = 60) -> str:
    """A value as the user wrote it, short enough for a sentence."""
    if isinstance(value, dict):
        return _cut("{" + ", ".join(map(str, value)) + "}", limit)
    if isinstance(value, list):
        return _cut("[" + ", ".join(shown(item, 20) for item in value[:10]) + "]", limit)
    if isinstance(value, str):
        return _cut(msgspec.json.encode(value).decode(), limit)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def meant(word: str, known: list[str]) -> str:
    """The known word that a misspelt one most resembles, or nothing."""
    lowered = {name.lower(): name for name in reversed(known)}
    close = get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else ""


def did_you_mean(word: str, known: list[str]) -> str:
    name = meant(word, known)
    return f"did you mean {name}?" if name else ""
