"""JSON text to plain values; and, only when there is a problem, the line of each value.
The standard library's decoder calls back for every object, which finds duplicate keys: faster
decoders keep the last one without a word.
"""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, Final

from wainwright.manifests.yaml_reader import (
    MAX_DEPTH,
    DuplicateKey,
    LineMap,
    ParsedDocument,
    UnreadableDocument,
)
from wainwright.manifests.yaml_writer import to_integral

TOO_MANY_DIGITS: Final = "a number with thousands of digits"
SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
WHITESPACE: Final = re.compile(r"[ \t\n\r]*")
ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
OTHER_BYTES: Final = bytes(set(range(256)) - set(b'{}[]"'))
STRING_OF_BRACKETS: Final = re.compile(rb'"[^"]*"')


ONE_MANIFEST: Final = 10_000  # characters, about


class _DuplicateKeyFound(Exception):
    """Some object has a key twice."""


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _DuplicateKeyFound
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parse_float(text: str) -> int | float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is not a number that Kubernetes can store")
    return to_integral(value)


STRICT_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_constant=_refuse_constant, parse_float=_parse_float
)


LENIENT_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)
"""Takes the last of equal keys; it is used only after they were found."""


def parse_json(text: str) -> Iterator[ParsedDocument]:
    """Every JSON value of the text, in order: one or several, concatenated."""
    lines = LineIndex(text)
    may_have_surrogates = "\\" in text and SURROGATE_ESCAPE.search(text) is not None
    offset = _skip_whitespace(text, 0)
    line, counted = 1, 0
    while offset < len(text):
        line, counted = line + text.count("\n", counted, offset), offset
        duplicate_keys: tuple[DuplicateKey, ...] = ()
        try:
            value, end = _decode(text, offset, lines, STRICT_DECODER)
        except _DuplicateKeyFound:
            value, end = _decode(text, offset, lines, LENIENT_DECODER)
            duplicate_keys = tuple(_find_duplicate_keys(text, offset, lines))
        if _may_be_too_deep(text, offset, end) and _is_too_deep(text[offset:end]):
            raise _too_deep(line)
        if may_have_surrogates:
            value = _replace_surrogates(value)
        yield ParsedDocument(value, offset, end, line, duplicate_keys)
        offset = _skip_whitespace(text, end)


def _decode(
    text: str, offset: int, lines: "LineIndex", decoder: json.JSONDecoder
) -> tuple[Any, int]:
    try:
        return decoder.raw_decode(text, offset)
    except json.JSONDecodeError as error:
        raise UnreadableDocument(f"not JSON: {error.msg}", line=lines.line_at(error.pos)) from error
    except RecursionError as error:
        raise _too_deep(lines.line_at(offset)) from error
    except ValueError as error:
        message = TOO_MANY_DIGITS if "digits" in str(error) else f"not JSON: {error}"
        raise UnreadableDocument(message, line=lines.line_at(offset)) from error


def _too_deep(line: int) -> UnreadableDocument:
    message = f"more than {MAX_DEPTH} levels of nesting"
    return UnreadableDocument(message, line=line, hint="no manifest is that deep")


def _may_be_too_deep(text: str, start: int, end: int) -> bool:
    """Whether there are brackets enough: few manifests of a stream have, but every long list."""
    if end - start > ONE_MANIFEST:
        return True
    return text.count("{", start, end) + text.count("[", start, end) > MAX_DEPTH


def _is_too_deep(text: str) -> bool:
    """Whether a JSON value, known to be well-formed, has too many levels.

    Only its brackets are looked at, and each pass takes away the innermost of them: a twentieth of
    the time of a walk over the values.
    """
    levels = _brackets(text)
    for _ in range(MAX_DEPTH):
        levels = levels.replace(b"[]", b"")
        if not levels:
            return False
    return True


def _brackets(text: str) -> bytes:
    """Those outside strings, all of one kind."""
    data = text.encode("utf-8", "surrogatepass")
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    data = data.translate(ONE_KIND, OTHER_BYTES).replace(b'""', b"")
    return STRING_OF_BRACKETS.sub(b"", data) if b'"' in data else data


def _replace_surrogates(value: Any) -> Any:
    """Half a character becomes U+FFFD, as Kubernetes reads it."""
    if isinstance(value, str):
        return LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {
            _replace_surrogates(key): _replace_surrogates(inner) for key, inner in value.items()
        }
    return [_replace_surrogates(inner) for inner in value] if isinstance(value, list) else value


def _skip_whitespace(text: str, offset: int) -> int:
    match = WHITESPACE.match(text, offset)
    return match.end() if match is not None else offset


class LineIndex:
    """Offset to line number, by bisection: counting lines for each value would be quadratic. Only
    a file with a problem needs it.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self._text))]

    def line_at(self, offset: int) -> int:
        return bisect_right(self._starts, offset)


PLAIN_DECODER: Final = json.JSONDecoder()
KEY_PATTERN: Final = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*")[ \t\n\r]*:[ \t\n\r]*')
SEPARATOR_PATTERN: Final = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*")


def json_line_map(text: str, start: int) -> LineMap:
    """The line of every value in a document that is known to be well-formed JSON."""
    return _LineScanner(text, _line_index(text)).scan(start)


@lru_cache(maxsize=1)
def _line_index(text: str) -> LineIndex:
    """Of the file at hand: indexing it anew for each document with a problem would be quadratic."""
    return LineIndex(text)


class _LineScanner:
    """Scans well-formed JSON and records the line of each value."""

    def __init__(self, text: str, lines: LineIndex) -> None:
        self.text = text
        self.lines = lines

    def scan(self, start: int) -> LineMap:
        return self._scan_value(start)[0]

    def _scan_value(self, offset: int) -> tuple[LineMap, int]:
        line_map = LineMap(self.lines.line_at(offset))
        first_char = self.text[offset]
        if first_char == "{":
            return line_map, self._scan_entries(line_map, offset + 1)
        if first_char == "[":
            return line_map, self._scan_items(line_map, offset + 1)
        return line_map, PLAIN_DECODER.raw_decode(self.text, offset)[1]

    def _scan_entries(self, line_map: LineMap, offset: int) -> int:
        while (match := KEY_PATTERN.match(self.text, offset)) is not None:
            inner, end = self._scan_value(match.end())
            inner.key_line = self.lines.line_at(match.start(1))
            line_map.parts[PLAIN_DECODER.decode(match[1])] = inner
            offset, is_last = self._skip_separator(end)
            if is_last:
                return offset
        return _skip_whitespace(self.text, offset) + 1

    def _scan_items(self, line_map: LineMap, offset: int) -> int:
        offset = _skip_whitespace(self.text, offset)
        if self.text[offset] == "]":
            return offset + 1
        while True:
            line_map.parts[len(line_map.parts)], end = self._scan_value(offset)
            offset, is_last = self._skip_separator(end)
            if is_last:
                return offset

    def _skip_separator(self, offset: int) -> tuple[int, bool]:
        match = SEPARATOR_PATTERN.match(self.text, offset)
        assert match is not None  # the text has been decoded before
        return (match.end(), False) if match[1] == "," else (match.end(1), True)


def _find_duplicate_keys(text: str, start: int, lines: LineIndex) -> Iterator[DuplicateKey]:
    """Every key that its object has already, in one pass and without recursion.

    Keeps a frame for every open object or list; braces inside strings are skipped.
    """
    frames: list[tuple[set[str], list[Any]]] = []
    for match in TOKEN_PATTERN.finditer(text, start):
        token = match[0]
        if token in "{[":
            frames.append((set(), [0 if token == "[" else None]))
        elif token in "}]":
            frames.pop()
            if not frames:
                return
        elif token == ",":
            _next_index(frames[-1][1])
        elif match[1] is not None and _is_repeated(frames[-1], match[1]):
            path = tuple(step for _, [step] in frames)
            yield DuplicateKey(path, lines.line_at(match.start()))


def _next_index(step: list[Any]) -> None:
    if isinstance(step[0], int):
        step[0] += 1


def _is_repeated(frame: tuple[set[str], list[Any]], key: str) -> bool:
    keys, step = frame
    step[0] = name = PLAIN_DECODER.decode(key)
    if name in keys:
        return True
    keys.add(name)
    return False


TOKEN_PATTERN: Final = re.compile(r'("(?:[^"\\]|\\.)*")(?=[ \t\n\r]*:)|"(?:[^"\\]|\\.)*"|[{}\[\],]')
