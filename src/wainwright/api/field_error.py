"""Validation errors as data: the path of a field, what was found, what was expected.
A FieldError with `warning` set is about a value that the API server accepts. There is a constructor
for each sort of error, so that the same mistake has the same text everywhere.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Final

import msgspec

UNKNOWN_FIELD: Final = "unknown field"
MAX_SWAPPED: Final = 100
"""Letters of a word in which two may be swapped: longer text is no misspelt word."""
MAX_HINTED_WORDS: Final = 100
"""Of one list: whoever has more unknown words than this does not read on for the next hint."""
PathStep = str | int
FieldPath = tuple[PathStep, ...]


class FieldError(msgspec.Struct, frozen=True, kw_only=True):
    """One error at one path of an object."""

    path: FieldPath
    message: str
    found: str = ""
    expected: str = ""
    hint: str = ""
    warning: bool = False
    pruned: bool = False
    """An unknown field: an API server drops it, and only strict validation refuses the object."""
    placeholder: bool = False
    """The value is to be filled in by somebody."""

    @property
    def is_unknown_field(self) -> bool:
        return self.message == UNKNOWN_FIELD

    @property
    def is_accepted(self) -> bool:
        """Whether an API server takes the object in spite of it."""
        return self.warning or self.pruned


def format_field_path(path: FieldPath) -> str:
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


def format_value(value: Any, limit: int = 60) -> str:
    """A value as the user wrote it, truncated for use in a sentence."""
    if isinstance(value, dict):
        return _truncate("{" + ", ".join(map(str, value)) + "}", limit)
    if isinstance(value, list):
        return _truncate(
            "[" + ", ".join(format_value(item, 20) for item in value[:10]) + "]", limit
        )
    if isinstance(value, str):
        return _truncate(msgspec.json.encode(value).decode(), limit)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def closest_match(word: str, known: list[str]) -> str:
    """The known word that is most similar to a misspelt one; empty if none is similar."""
    lowered = {name.lower(): name for name in reversed(known)}
    swapped = (each for each in _adjacent_swaps(word.lower()) if each in lowered)
    close = next(swapped, None) or next(
        iter(get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)), None
    )
    return lowered[close] if close else ""


def _adjacent_swaps(word: str) -> Iterator[str]:
    """The usual typo, which counts as two mistakes where letters are compared in place: us-esat-1
    is us-east-1 rather than us-west-1."""
    for place in range(min(len(word), MAX_SWAPPED) - 1):
        yield f"{word[:place]}{word[place + 1]}{word[place]}{word[place + 2 :]}"


def did_you_mean(word: str, known: list[str]) -> str:
    name = closest_match(word, known)
    return f"did you mean {name}?" if name else ""


class WordHints:
    """`did_you_mean` for the words of one input, of which thousands may be unknown: comparing one
    with every instance type takes milliseconds.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self._known = list(known)
        self._found: dict[str, str] = {}

    def did_you_mean(self, word: str) -> str:
        """Empty if no word is similar, and from the limit on."""
        if word not in self._found and len(self._found) < MAX_HINTED_WORDS:
            self._found[word] = did_you_mean(word, self._known)
        return self._found.get(word, "")


def invalid_value(path: FieldPath, value: Any, expected: str, hint: str = "") -> FieldError:
    return FieldError(
        path=path,
        message=f"expected {expected}",
        found=format_value(value),
        expected=expected,
        hint=hint,
    )


def missing_field(
    path: FieldPath, expected: str, message: str = "required field is missing"
) -> FieldError:
    return FieldError(path=path, message=message, found="nothing", expected=expected)


def unsupported_value(path: FieldPath, value: str, allowed: tuple[str, ...]) -> FieldError:
    """The value is not one of those allowed, or is missing."""
    expected = f"one of {', '.join(allowed)}"
    if not value:
        return missing_field(path, expected)
    return invalid_value(path, value, expected, did_you_mean(value, list(allowed)))


def unknown_field(path: FieldPath, key: str, hint: str) -> FieldError:
    return FieldError(
        path=path,
        message=UNKNOWN_FIELD,
        found=key,
        expected="a field that is known",
        hint=hint,
        pruned=True,
    )


def broken_rule(path: FieldPath, value: Any, message: str, expected: str = "") -> FieldError:
    """A rule between fields is violated; the message is the rule."""
    return FieldError(
        path=path, message=message, found=format_value(value), expected=expected or message
    )


def duplicate_value(path: FieldPath, value: Any) -> FieldError:
    message = f"{format_value(value)} is there already"
    return broken_rule(path, value, message, "an entry that is not there yet")


def field_warning(path: FieldPath, value: Any, message: str, hint: str = "") -> FieldError:
    """A value that the API server accepts, but that has no useful effect."""
    return FieldError(
        path=path, message=message, found=format_value(value), hint=hint, warning=True
    )
