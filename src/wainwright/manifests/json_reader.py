"""JSON text to plain values, quickly; and, only when something is wrong, the line of each value.

The standard library's scanner calls us for every object, which is what finds duplicate keys:
faster decoders silently keep the last one.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final

from wainwright.api.field_error import FieldPath
from wainwright.manifests.yaml_reader import MAX_DEPTH, LineMap, ParsedDocument, UnreadableDocument
from wainwright.manifests.yaml_writer import to_integral

WHITESPACE: Final = re.compile(r"[ \t\n\r]*")


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _DuplicateKey(_first_repeated([key for key, _ in pairs]))
    return made


def _first_repeated(keys: list[str]) -> str:
    return next(key for index, key in enumerate(keys) if key in keys[:index])


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parse_float(text: str) -> int | float:
    return to_integral(float(text))


STRICT_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_constant=_refuse_constant, parse_float=_parse_float
)


def parse_json(text: str) -> Iterator[ParsedDocument]:
    """Every JSON value of the text, in order: one, or several one after the other."""
    lines = LineIndex(text)
    at = _skip_whitespace(text, 0)
    while at < len(text):
        value, end = _decode(text, at, lines)
        yield ParsedDocument(value, at, end, lines.at(at))
        at = _skip_whitespace(text, end)


def _decode(text: str, at: int, lines: "LineIndex") -> tuple[Any, int]:
    try:
        return STRICT_DECODER.raw_decode(text, at)
    except _DuplicateKey as error:
        raise _duplicate_key_error(text, at, lines, error.key) from error
    except json.JSONDecodeError as error:
        raise UnreadableDocument(f"not JSON: {error.msg}", line=lines.at(error.pos)) from error
    except RecursionError as error:
        raise UnreadableDocument(
            f"more than {MAX_DEPTH} levels of nesting",
            line=lines.at(at),
            hint="no manifest is that deep",
        ) from error
    except ValueError as error:
        raise UnreadableDocument(f"not JSON: {error}", line=lines.at(at)) from error


def _skip_whitespace(text: str, at: int) -> int:
    match = WHITESPACE.match(text, at)
    return match.end() if match is not None else at


class LineIndex:
    """Offset to line number, by bisection."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def at(self, offset: int) -> int:
        return bisect_right(self.starts, offset)


PLAIN_DECODER: Final = json.JSONDecoder()
KEY_PATTERN: Final = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*")[ \t\n\r]*:[ \t\n\r]*')
SEPARATOR_PATTERN: Final = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*")


def json_line_map(text: str, start: int) -> LineMap:
    """The line of every value in a document that is known to be well-formed JSON."""
    return _LineScanner(text, LineIndex(text)).marks(start)


class _LineScanner:
    """Walks well-formed JSON, noting where each part begins."""

    def __init__(self, text: str, lines: LineIndex) -> None:
        self.text = text
        self.lines = lines

    def marks(self, start: int) -> LineMap:
        return self._value(start)[0]

    def _value(self, at: int) -> tuple[LineMap, int]:
        here = LineMap(self.lines.at(at))
        opening = self.text[at]
        if opening == "{":
            return here, self._entries(here, at + 1)
        if opening == "[":
            return here, self._items(here, at + 1)
        return here, PLAIN_DECODER.raw_decode(self.text, at)[1]

    def _entries(self, here: LineMap, at: int) -> int:
        while (match := KEY_PATTERN.match(self.text, at)) is not None:
            inner, end = self._value(match.end())
            inner.key_line = self.lines.at(match.start(1))
            here.parts[PLAIN_DECODER.decode(match[1])] = inner
            at, closed = self._next(end)
            if closed:
                return at
        return _skip_whitespace(self.text, at) + 1

    def _items(self, here: LineMap, at: int) -> int:
        at = _skip_whitespace(self.text, at)
        if self.text[at] == "]":
            return at + 1
        while True:
            here.parts[len(here.parts)], end = self._value(at)
            at, closed = self._next(end)
            if closed:
                return at

    def _next(self, at: int) -> tuple[int, bool]:
        match = SEPARATOR_PATTERN.match(self.text, at)
        assert match is not None  # the text has been decoded before
        return (match.end(), False) if match[1] == "," else (match.end(1), True)


def _duplicate_key_error(text: str, start: int, lines: LineIndex, key: str) -> UnreadableDocument:
    """Find the second appearance of a key that the decoder met twice in one object."""
    found = _DuplicateKeyFinder(text, lines, key).find(start)
    line, path = found if found is not None else (lines.at(start), ())
    return UnreadableDocument(
        f"the key {key!r} is there twice",
        line=line,
        hint="keep one of them; JSON readers would silently drop the other",
        path=path,
    )


class _DuplicateKeyFinder:
    """Looks for the first object that has the key twice, without recursion into Python's limit."""

    def __init__(self, text: str, lines: LineIndex, key: str) -> None:
        self.text = text
        self.lines = lines
        self.key = key

    def find(self, start: int) -> tuple[int, FieldPath] | None:
        """Every object is a frame of its keys; braces inside strings do not count."""
        frames: list[tuple[set[str], list[Any]]] = []
        for match in TOKEN_PATTERN.finditer(self.text, start):
            token = match[0]
            if token in "{[":
                frames.append((set(), [0 if token == "[" else None]))
            elif token in "}]":
                frames.pop()
                if not frames:
                    return None
            elif token == ",":
                self._step(frames[-1][1])
            elif match[1] is not None and frames and self._repeats(frames[-1], match):
                return self.lines.at(match.start()), tuple(step for _, [step] in frames)
        return None

    def _step(self, step: list[Any]) -> None:
        if isinstance(step[0], int):
            step[0] += 1

    def _repeats(self, frame: tuple[set[str], list[Any]], match: "re.Match[str]") -> bool:
        keys, step = frame
        name = PLAIN_DECODER.decode(match[1])
        step[0] = name
        if name in keys and name == self.key:
            return True
        keys.add(name)
        return False


TOKEN_PATTERN: Final = re.compile(r'("(?:[^"\\]|\\.)*")(?=[ \t\n\r]*:)|"(?:[^"\\]|\\.)*"|[{}\[\],]')
