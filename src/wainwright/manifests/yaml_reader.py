"""YAML text to plain values, with libyaml: one pass over its events, no recursion, safe for
untrusted input.

Kubernetes converts manifests from YAML to JSON, so keys become strings, merge keys are merged, and
values that JSON cannot represent are rejected. Documents are read without positions; only a
document with a problem is read a second time, with the line of every value, because problems are
rare and lines cost time and memory.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import yaml
from yaml._yaml import CParser

from wainwright.api.field_error import FieldPath, PathStep
from wainwright.manifests.yaml_writer import NotJSONValue, YamlScalar, parse_plain_scalar


class LineMap(msgspec.Struct):
    """The line of a value and, for a mapping or list, of each entry and its key."""

    line: int
    parts: "dict[PathStep, LineMap]" = msgspec.field(default_factory=dict)
    key_line: int | None = None
    """The line of the entry's key; the value may begin on a later line."""


def line_at(line_map: LineMap, path: Sequence[PathStep]) -> int:
    """The line of the value at the path, or of its nearest existing parent."""
    for step in path:
        inner = line_map.parts.get(step)
        if inner is None:
            break
        line_map = inner
    return line_map.line if line_map.key_line is None else line_map.key_line


MAX_DEPTH: Final = 100  # a pod is about twelve levels deep
MAX_EXPANSION: Final = 200_000  # values that aliases may add to the documents of one file

MERGE_KEY: Final = "<<"
STRING_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})


class UnreadableDocument(Exception):
    """The text is no valid YAML or JSON document; has line, message and hint."""

    def __init__(self, message: str, *, line: int, hint: str = "", path: FieldPath = ()) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint
        self.path = path


class ParserLimitExceeded(UnreadableDocument):
    """It may be YAML or not: reading ended where it became too deep or too large."""


class DuplicateKey(msgspec.Struct, frozen=True):
    """A key that its mapping has already; the last one counts, as for an API server."""

    path: FieldPath
    line: int


class ParsedDocument(msgspec.Struct, frozen=True):
    """One document of a stream: its value and its position in the text."""

    value: Any
    start: int
    end: int
    line: int
    duplicate_keys: tuple[DuplicateKey, ...] = ()


class _OpenCollection(msgspec.Struct):
    """A mapping or sequence whose end event has not been read yet."""

    value: Any
    line_map: LineMap | None
    size: int = 1
    key: str | None = None
    key_line: int = 0
    merges: "list[Any] | None" = None
    anchor: str | None = None


def parse_yaml(
    text: str, *, with_lines: bool = False, max_expansion: int = MAX_EXPANSION
) -> Iterator[tuple[ParsedDocument, LineMap | None]]:
    """Every document of the stream, in order; empty ones are skipped."""
    parser = CParser(text)
    try:
        yield from _YamlReader(parser, with_lines, max_expansion).read()
    except yaml.YAMLError as error:
        raise _yaml_error(error, text) from error
    finally:
        parser.dispose()


class _YamlReader:
    """Builds values from events; its state is that of one document.

    Plain scalars are cached by text, because a few hundred of them make up most of a large file:
    a lookup saves matching the number patterns each time. The loop dispatches by event type
    through a dict, which is faster than a chain of isinstance checks for millions of events.
    """

    def __init__(self, parser: CParser, with_lines: bool, max_expansion: int) -> None:
        self.parser = parser
        self.with_lines = with_lines
        self.max_expansion = max_expansion
        self.stack: list[_OpenCollection] = []
        self.anchors: dict[str, tuple[Any, LineMap | None, int]] = {}
        self.duplicate_keys: list[DuplicateKey] = []
        self.expanded_values = 0
        self.plain_scalars: dict[str, YamlScalar] = {}
        self.root: tuple[Any, LineMap | None] | None = None

    def read(self) -> Iterator[tuple[ParsedDocument, LineMap | None]]:
        start, line = 0, 1
        get_event: Callable[[], Any] = self.parser.get_event
        handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._mapping,
            yaml.SequenceStartEvent: self._sequence,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
        }
        event: Any
        while True:
            event = get_event()
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
            elif type(event) is yaml.DocumentStartEvent:
                start, line = _start_position(event)
                self._reset()
            elif type(event) is yaml.DocumentEndEvent:
                if self.root is not None and self.root[0] is not None:
                    yield (
                        ParsedDocument(
                            self.root[0],
                            start,
                            _end_position(event),
                            line,
                            tuple(self.duplicate_keys),
                        ),
                        self.root[1],
                    )
            elif type(event) is yaml.StreamEndEvent:
                return

    def _reset(self) -> None:
        self.stack.clear()
        self.anchors.clear()
        self.duplicate_keys.clear()
        self.root = None

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        text = event.value
        if event.style or event.tag is not None:
            value = self._parse_tagged(event)
        elif text in self.plain_scalars:
            value = self.plain_scalars[text]
        else:
            value = self.plain_scalars[text] = self._parse_plain(event)
        self._add_scalar(value, event, 1)

    def _parse_plain(self, event: yaml.ScalarEvent) -> YamlScalar:
        try:
            return parse_plain_scalar(event.value)
        except NotJSONValue as error:
            raise UnreadableDocument(
                f"{event.value!r} is not a number that Kubernetes can store",
                line=_line(event),
                hint="write an ordinary number, or quote it if it is text",
            ) from error

    def _parse_tagged(self, event: yaml.ScalarEvent) -> YamlScalar:
        tag = event.tag
        if tag is None or tag in STRING_TAGS:
            return str(event.value)
        if tag.startswith("tag:yaml.org,2002:") and tag.rpartition(":")[2] in (
            "int",
            "float",
            "bool",
            "null",
        ):
            return self._parse_plain(event)
        raise UnreadableDocument(
            f"the tag {tag!r} is not allowed", line=_line(event), hint="remove the tag"
        )

    def _mapping(self, event: yaml.MappingStartEvent) -> None:
        self._open({}, event)

    def _sequence(self, event: yaml.SequenceStartEvent) -> None:
        self._open([], event)

    def _open(self, value: Any, event: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise ParserLimitExceeded(
                f"more than {MAX_DEPTH} levels of nesting",
                line=_line(event),
                hint="no manifest is that deep",
            )
        line_map = LineMap(_line(event)) if self.with_lines else None
        if self.stack and type(self.stack[-1].value) is dict and self.stack[-1].key is None:
            raise UnreadableDocument(
                "a mapping or list cannot be a key", line=_line(event), hint="use plain text as key"
            )
        self.stack.append(_OpenCollection(value, line_map, anchor=event.anchor))

    def _close(self, event: Any) -> None:
        closed = self.stack.pop()
        if closed.merges:
            self._merge(closed, event)
        if closed.anchor is not None:
            self.anchors[closed.anchor] = (closed.value, closed.line_map, closed.size)
        self._add_value(closed.value, closed.line_map, closed.size, event)

    def _merge(self, closed: _OpenCollection, event: Any) -> None:
        """Merge `<<: *base`: the mapping's own keys win, then earlier bases over later ones."""
        for base in closed.merges or ():
            for one in base if isinstance(base, list) else [base]:
                if not isinstance(one, dict):
                    raise UnreadableDocument(
                        "`<<` takes a mapping or a list of mappings", line=_line(event)
                    )
                for key, value in one.items():
                    closed.value.setdefault(key, value)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise UnreadableDocument(
                f"the alias *{event.anchor} is not defined above", line=_line(event)
            )
        value, line_map, size = self.anchors[event.anchor]
        self.expanded_values += size
        if self.expanded_values > self.max_expansion:
            raise ParserLimitExceeded(
                f"aliases blow this file up to more than {self.max_expansion:,} values",
                line=_line(event),
                hint="write the values out, or split the file",
            )
        self._add_value(value, line_map, size, event)

    def _add_scalar(self, value: YamlScalar, event: yaml.ScalarEvent, size: int) -> None:
        if event.anchor is not None:
            self.anchors[event.anchor] = (
                value,
                LineMap(_line(event)) if self.with_lines else None,
                size,
            )
        if self.stack and type(self.stack[-1].value) is dict and self.stack[-1].key is None:
            self._set_key(value, event)
        else:
            self._add_value(value, LineMap(_line(event)) if self.with_lines else None, size, event)

    def _set_key(self, value: YamlScalar, event: yaml.ScalarEvent) -> None:
        parent = self.stack[-1]
        parent.key = key = value if type(value) is str else _key_text(value, event)
        if self.with_lines:
            parent.key_line = _line(event)
        if key in parent.value and not (key == MERGE_KEY and not event.style):
            self.duplicate_keys.append(DuplicateKey(self._path(), _line(event)))

    def _path(self) -> FieldPath:
        """The keys and indices down to the value being read."""
        return tuple(
            entry.key if type(entry.value) is dict and entry.key is not None else len(entry.value)
            for entry in self.stack
        )

    def _add_value(self, value: Any, line_map: LineMap | None, size: int, event: Any) -> None:
        if not self.stack:
            self.root = (value, line_map)
            return
        parent = self.stack[-1]
        parent.size += size
        if type(parent.value) is list:
            if parent.line_map is not None and line_map is not None:
                parent.line_map.parts[len(parent.value)] = line_map
            parent.value.append(value)
            return
        self._add_entry(parent, value, line_map, event)

    def _add_entry(
        self, parent: _OpenCollection, value: Any, line_map: LineMap | None, event: Any
    ) -> None:
        key, parent.key = parent.key, None
        if key is None:
            raise UnreadableDocument("an alias cannot be a key", line=_line(event))
        if key == MERGE_KEY:
            parent.merges = [*(parent.merges or []), value]
            return
        parent.value[key] = value
        if parent.line_map is not None and line_map is not None:
            parent.line_map.parts[key] = LineMap(line_map.line, line_map.parts, parent.key_line)


def _key_text(value: YamlScalar, event: yaml.ScalarEvent) -> str:
    """Keys of JSON are strings: `8080:` and `true:` are read as Kubernetes reads them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise UnreadableDocument("a key is missing before ':'", line=_line(event))
    return str(value)


def _start_position(event: Any) -> tuple[int, int]:
    return int(event.start_mark.index), int(event.start_mark.line) + 1


def _end_position(event: Any) -> int:
    return int(event.end_mark.index)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _yaml_error(error: yaml.YAMLError, text: str) -> UnreadableDocument:
    if isinstance(error, yaml.reader.ReaderError):
        return UnreadableDocument(
            "a control character that YAML does not allow",
            line=text.count("\n", 0, error.position) + 1,
            hint="is this a text file?",
        )
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark is not None else 1
    problem = str(getattr(error, "problem", None) or error)
    return UnreadableDocument(
        f"not YAML: {problem}", line=line, hint=_yaml_hint(problem, text, line)
    )


def _yaml_hint(problem: str, text: str, line: int) -> str:
    around = "\n".join(text.split("\n")[max(0, line - 2) : line])
    if "\t" in around:
        return "there is a tab here; YAML is indented with spaces"
    if "mapping values are not allowed" in problem:
        return "two keys on one line, or a value with ': ' in it that needs quotes"
    if "did not find expected" in problem or "could not find expected" in problem:
        return "look at the indentation and brackets of this line and the one before"
    return ""
