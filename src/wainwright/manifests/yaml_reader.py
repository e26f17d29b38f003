"""YAML text to plain values, with libyaml: one pass over its events, no recursion, nothing trusted.

Kubernetes reads manifests as JSON in YAML clothing, so keys become strings, merge keys are folded
in, and what JSON cannot say is refused. Reading is done without positions; only when something is
wrong is the one document read a second time, with the line of every value, because errors are rare
and lines cost time and memory.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import yaml
from yaml._yaml import CParser

from wainwright.api.field_error import FieldPath, PathStep
from wainwright.manifests.yaml_writer import NotJSONValue, YamlScalar, parse_plain_scalar


class LineMap(msgspec.Struct):
    """The line of a value and, where it has parts, of each part and of its key."""

    line: int
    parts: "dict[PathStep, LineMap]" = msgspec.field(default_factory=dict)
    key_line: int | None = None
    """Where a mapping entry's key stands; the value may begin lines below it."""


def line_at(marks: LineMap, path: Sequence[PathStep]) -> int:
    """The line of the value at the path, or of the nearest thing around it that exists."""
    for step in path:
        inner = marks.parts.get(step)
        if inner is None:
            break
        marks = inner
    return marks.line if marks.key_line is None else marks.key_line


MAX_DEPTH: Final = 100  # a pod is some twelve levels deep
MAX_EXPANSION: Final = 200_000  # values that aliases may add to one document

MERGE_KEY: Final = "<<"
STRING_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})


class UnreadableDocument(Exception):
    """The text is not a YAML or JSON document that can be used; where, what, and what to do."""

    def __init__(self, message: str, *, line: int, hint: str = "", path: FieldPath = ()) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint
        self.path = path


class ParsedDocument(msgspec.Struct, frozen=True):
    """One document of a stream: its value, and where it stands in the text."""

    value: Any
    start: int
    end: int
    line: int


class _OpenCollection(msgspec.Struct):
    """A mapping or sequence whose end has not been seen yet."""

    value: Any
    marks: LineMap | None
    size: int = 1
    key: str | None = None
    key_line: int = 0
    merges: "list[Any] | None" = None
    anchor: str | None = None


def parse_yaml(
    text: str, *, tracked: bool = False
) -> Iterator[tuple[ParsedDocument, LineMap | None]]:
    """Every document of the stream, in order; empty ones are left out."""
    parser = CParser(text)
    try:
        yield from _YamlReader(parser, tracked).read()
    except yaml.YAMLError as error:
        raise _yaml_error(error, text) from error
    finally:
        parser.dispose()


class _YamlReader:
    """Builds values out of events. Its state is one document's."""

    def __init__(self, parser: CParser, tracked: bool) -> None:
        self.parser = parser
        self.tracked = tracked
        self.stack: list[_OpenCollection] = []
        self.anchors: dict[str, tuple[Any, LineMap | None, int]] = {}
        self.expanded = 0
        self.known: dict[str, YamlScalar] = {}
        self.root: tuple[Any, LineMap | None] | None = None

    def read(self) -> Iterator[tuple[ParsedDocument, LineMap | None]]:
        start, line = 0, 1
        get_event: Callable[[], Any] = self.parser.get_event
        handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._mapping,
            yaml.SequenceStartEvent: self._sequence,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
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
                        ParsedDocument(self.root[0], start, _end_position(event), line),
                        self.root[1],
                    )
            elif type(event) is yaml.StreamEndEvent:
                return

    def _reset(self) -> None:
        self.stack.clear()
        self.anchors.clear()
        self.expanded = 0
        self.root = None

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        text = event.value
        if event.style or event.tag is not None:
            value = self._tagged(event)
        elif text in self.known:
            value = self.known[text]
        else:
            value = self.known[text] = self._plain(event)
        self._place(value, event, 1)

    def _plain(self, event: yaml.ScalarEvent) -> YamlScalar:
        try:
            return parse_plain_scalar(event.value)
        except NotJSONValue as error:
            raise UnreadableDocument(
                f"{event.value!r} is not a number that Kubernetes can store",
                line=_line(event),
                hint="write an ordinary number, or quote it if it is text",
            ) from error

    def _tagged(self, event: yaml.ScalarEvent) -> YamlScalar:
        tag = event.tag
        if tag is None or tag in STRING_TAGS:
            return str(event.value)
        if tag.startswith("tag:yaml.org,2002:") and tag.rpartition(":")[2] in (
            "int",
            "float",
            "bool",
            "null",
        ):
            return self._plain(event)
        raise UnreadableDocument(
            f"the tag {tag!r} is not allowed", line=_line(event), hint="remove the tag"
        )

    def _mapping(self, event: yaml.MappingStartEvent) -> None:
        self._open({}, event)

    def _sequence(self, event: yaml.SequenceStartEvent) -> None:
        self._open([], event)

    def _open(self, value: Any, event: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise UnreadableDocument(
                f"more than {MAX_DEPTH} levels of nesting",
                line=_line(event),
                hint="no manifest is that deep",
            )
        marks = LineMap(_line(event)) if self.tracked else None
        if self.stack and type(self.stack[-1].value) is dict and self.stack[-1].key is None:
            raise UnreadableDocument(
                "a mapping or list cannot be a key", line=_line(event), hint="use plain text as key"
            )
        self.stack.append(_OpenCollection(value, marks, anchor=event.anchor))

    def _end(self, event: Any) -> None:
        done = self.stack.pop()
        if done.merges:
            self._merge(done, event)
        if done.anchor is not None:
            self.anchors[done.anchor] = (done.value, done.marks, done.size)
        self._put(done.value, done.marks, done.size, event)

    def _merge(self, done: _OpenCollection, event: Any) -> None:
        """Fold `<<: *base` in: the mapping itself wins, then earlier bases over later ones."""
        for base in done.merges or ():
            for one in base if isinstance(base, list) else [base]:
                if not isinstance(one, dict):
                    raise UnreadableDocument(
                        "`<<` takes a mapping or a list of mappings", line=_line(event)
                    )
                for key, value in one.items():
                    done.value.setdefault(key, value)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise UnreadableDocument(
                f"the alias *{event.anchor} is not defined above", line=_line(event)
            )
        value, marks, size = self.anchors[event.anchor]
        self.expanded += size
        if self.expanded > MAX_EXPANSION:
            raise UnreadableDocument(
                f"aliases blow this document up to more than {MAX_EXPANSION:,} values",
                line=_line(event),
                hint="write the values out, or split the document",
            )
        self._put(value, marks, size, event)

    def _place(self, value: YamlScalar, event: yaml.ScalarEvent, size: int) -> None:
        if event.anchor is not None:
            self.anchors[event.anchor] = (
                value,
                LineMap(_line(event)) if self.tracked else None,
                size,
            )
        if self.stack and type(self.stack[-1].value) is dict and self.stack[-1].key is None:
            self._key(value, event)
        else:
            self._put(value, LineMap(_line(event)) if self.tracked else None, size, event)

    def _key(self, value: YamlScalar, event: yaml.ScalarEvent) -> None:
        top = self.stack[-1]
        top.key = key = value if type(value) is str else _key_text(value, event)
        if self.tracked:
            top.key_line = _line(event)
        if key in top.value and not (key == MERGE_KEY and not event.style):
            raise UnreadableDocument(
                f"the key {key!r} is there twice",
                line=_line(event),
                hint="keep one of them; YAML would silently drop the other",
                path=self._path(),
            )

    def _path(self) -> FieldPath:
        """Where we are: the keys and indices down to the value being read."""
        return tuple(
            entry.key if type(entry.value) is dict and entry.key is not None else len(entry.value)
            for entry in self.stack
        )

    def _put(self, value: Any, marks: LineMap | None, size: int, event: Any) -> None:
        if not self.stack:
            self.root = (value, marks)
            return
        top = self.stack[-1]
        top.size += size
        if type(top.value) is list:
            if top.marks is not None and marks is not None:
                top.marks.parts[len(top.value)] = marks
            top.value.append(value)
            return
        self._put_entry(top, value, marks, event)

    def _put_entry(
        self, top: _OpenCollection, value: Any, marks: LineMap | None, event: Any
    ) -> None:
        key, top.key = top.key, None
        if key is None:
            raise UnreadableDocument("an alias cannot be a key", line=_line(event))
        if key == MERGE_KEY:
            top.merges = [*(top.merges or []), value]
            return
        top.value[key] = value
        if top.marks is not None and marks is not None:
            top.marks.parts[key] = LineMap(marks.line, marks.parts, top.key_line)


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
