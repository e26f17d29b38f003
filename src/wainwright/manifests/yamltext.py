"""YAML text to plain values, with libyaml: one pass over its events, no recursion, nothing trusted.

Kubernetes reads manifests as JSON in YAML clothing, so keys become strings, merge keys are folded
in, and what JSON cannot say is refused. Reading is done without positions; only when something is
wrong is the one document read a second time, with the line of every value, because errors are rare
and lines cost time and memory.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import yaml
from yaml._yaml import CParser

from wainwright.manifests.marks import Marks, Path
from wainwright.manifests.scalars import NotJSON, Scalar, plain

MAX_DEPTH: Final = 100  # a pod is some twelve levels deep
MAX_EXPANSION: Final = 200_000  # values that aliases may add to one document

MERGE: Final = "<<"
STRING_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})


class Unreadable(Exception):
    """The text is not a YAML or JSON document that can be used; where, what, and what to do."""

    def __init__(self, message: str, *, line: int, hint: str = "", path: Path = ()) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.hint = hint
        self.path = path


class Text(msgspec.Struct, frozen=True):
    """One document of a stream: its value, and where it stands in the text."""

    value: Any
    start: int
    end: int
    line: int


class _Open(msgspec.Struct):
    """A mapping or sequence whose end has not been seen yet."""

    value: Any
    marks: Marks | None
    size: int = 1
    key: str | None = None
    key_line: int = 0
    merges: "list[Any] | None" = None
    anchor: str | None = None


def documents(text: str, *, tracked: bool = False) -> Iterator[tuple[Text, Marks | None]]:
    """Every document of the stream, in order; empty ones are left out."""
    parser = CParser(text)
    try:
        yield from _Reader(parser, tracked).read()
    except yaml.YAMLError as error:
        raise _refused(error, text) from error
    finally:
        parser.dispose()


class _Reader:
    """Builds values out of events. Its state is one document's."""

    def __init__(self, parser: CParser, tracked: bool) -> None:
        self.parser = parser
        self.tracked = tracked
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, Marks | None, int]] = {}
        self.expanded = 0
        self.known: dict[str, Scalar] = {}
        self.root: tuple[Any, Marks | None] | None = None

    def read(self) -> Iterator[tuple[Text, Marks | None]]:
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
                start, line = _start(event)
                self._reset()
            elif type(event) is yaml.DocumentEndEvent:
                if self.root is not None and self.root[0] is not None:
                    yield Text(self.root[0], start, _end(event), line), self.root[1]
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

    def _plain(self, event: yaml.ScalarEvent) -> Scalar:
        try:
            return plain(event.value)
        except NotJSON as error:
            raise Unreadable(
                f"{event.value!r} is not a number that Kubernetes can store",
                line=_line(event),
                hint="write an ordinary number, or quote it if it is text",
            ) from error

    def _tagged(self, event: yaml.ScalarEvent) -> Scalar:
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
        raise Unreadable(
            f"the tag {tag!r} is not allowed", line=_line(event), hint="remove the tag"
        )

    def _mapping(self, event: yaml.MappingStartEvent) -> None:
        self._open({}, event)

    def _sequence(self, event: yaml.SequenceStartEvent) -> None:
        self._open([], event)

    def _open(self, value: Any, event: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise Unreadable(
                f"more than {MAX_DEPTH} levels of nesting",
                line=_line(event),
                hint="no manifest is that deep",
            )
        marks = Marks(_line(event)) if self.tracked else None
        if self.stack and type(self.stack[-1].value) is dict and self.stack[-1].key is None:
            raise Unreadable(
                "a mapping or list cannot be a key", line=_line(event), hint="use plain text as key"
            )
        self.stack.append(_Open(value, marks, anchor=event.anchor))

    def _end(self, event: Any) -> None:
        done = self.stack.pop()
        if done.merges:
            self._merge(done, event)
        if done.anchor is not None:
            self.anchors[done.anchor] = (done.value, done.marks, done.size)
        self._put(done.value, done.marks, done.size, event)

    def _merge(self, done: _Open, event: Any) -> None:
        """Fold `<<: *base` in: the mapping itself wins, then earlier bases over later ones."""
        for base in done.merges or ():
            for one in base if isinstance(base, list) else [base]:
                if not isinstance(one, dict):
                    raise Unreadable(
                        "`<<` takes a mapping or a list of mappings", line=_line(event)
                    )
                for key, value in one.items():
                    done.value.setdefault(key, value)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise Unreadable(f"the alias *{event.anchor} is not defined above", line=_line(event))
        value, marks, size = self.anchors[event.anchor]
        self.expanded += size
        if self.expanded > MAX_EXPANSION:
            raise Unreadable(
                f"aliases blow this document up to more than {MAX_EXPANSION:,} values",
                line=_line(event),
                hint="write the values out, or split the document",
            )
        self._put(value, marks, size, event)

    def _place(self, value: Scalar, event: yaml.ScalarEvent, size: int) -> None:
        if event.anchor is not None:
            self.anchors[event.anchor] = (
                value,
                Marks(_line(event)) if self.tracked else None,
                size,
            )
        if self.stack and type(self.stack[-1].value) is dict and self.stack[-1].key is None:
            self._key(value, event)
        else:
            self._put(value, Marks(_line(event)) if self.tracked else None, size, event)

    def _key(self, value: Scalar, event: yaml.ScalarEvent) -> None:
        top = self.stack[-1]
        top.key = key = value if type(value) is str else _key_text(value, event)
        if self.tracked:
            top.key_line = _line(event)
        if key in top.value and not (key == MERGE and not event.style):
            raise Unreadable(
                f"the key {key!r} is there twice",
                line=_line(event),
                hint="keep one of them; YAML would silently drop the other",
                path=self._path(),
            )

    def _path(self) -> Path:
        """Where we are: the keys and indices down to the value being read."""
        return tuple(
            entry.key if type(entry.value) is dict and entry.key is not None else len(entry.value)
            for entry in self.stack
        )

    def _put(self, value: Any, marks: Marks | None, size: int, event: Any) -> None:
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

    def _put_entry(self, top: _Open, value: Any, marks: Marks | None, event: Any) -> None:
        key, top.key = top.key, None
        if key is None:
            raise Unreadable("an alias cannot be a key", line=_line(event))
        if key == MERGE:
            top.merges = [*(top.merges or []), value]
            return
        top.value[key] = value
        if top.marks is not None and marks is not None:
            top.marks.parts[key] = Marks(marks.line, marks.parts, top.key_line)


def _key_text(value: Scalar, event: yaml.ScalarEvent) -> str:
    """Keys of JSON are strings: `8080:` and `true:` are read as Kubernetes reads them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise Unreadable("a key is missing before ':'", line=_line(event))
    return str(value)


def _start(event: Any) -> tuple[int, int]:
    return int(event.start_mark.index), int(event.start_mark.line) + 1


def _end(event: Any) -> int:
    return int(event.end_mark.index)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _refused(error: yaml.YAMLError, text: str) -> Unreadable:
    if isinstance(error, yaml.reader.ReaderError):
        return Unreadable(
            "a control character that YAML does not allow",
            line=text.count("\n", 0, error.position) + 1,
            hint="is this a text file?",
        )
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark is not None else 1
    problem = str(getattr(error, "problem", None) or error)
    return Unreadable(f"not YAML: {problem}", line=line, hint=_hint(problem, text, line))


def _hint(problem: str, text: str, line: int) -> str:
    around = "\n".join(text.split("\n")[max(0, line - 2) : line])
    if "\t" in around:
        return "there is a tab here; YAML is indented with spaces"
    if "mapping values are not allowed" in problem:
        return "two keys on one line, or a value with ': ' in it that needs quotes"
    if "did not find expected" in problem or "could not find expected" in problem:
        return "look at the indentation and brackets of this line and the one before"
    return ""
