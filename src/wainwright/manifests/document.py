"""One object of the input and the way back to its place in the file."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from wainwright.manifests import jsontext, yamltext
from wainwright.manifests.files import Source
from wainwright.manifests.marks import Marks, Path, line_of
from wainwright.manifests.yamltext import Text


class Place:
    """A document of a file; its lines are worked out when first asked for."""

    def __init__(self, source: Source, text: Text, number: int, *, is_json: bool) -> None:
        self.source = source
        self.text = text
        self.number = number
        self.is_json = is_json

    @cached_property
    def marks(self) -> Marks:
        if self.is_json:
            return jsontext.marks(self.source.text, self.text.start)
        own = self.source.text[self.text.start : self.text.end]
        _, marks = next(yamltext.documents(own, tracked=True))
        assert marks is not None  # it was asked for
        return marks

    def line(self, path: Path) -> int:
        offset = 0 if self.is_json else self.text.line - 1
        return line_of(self.marks, path) + offset


class Document:
    """One object: a document of its own, or an item of a List."""

    __slots__ = ("base", "place", "value")

    def __init__(self, place: Place, value: Any, base: Path = ()) -> None:
        self.place = place
        self.value = value
        self.base = base

    @property
    def file(self) -> str:
        return self.place.source.name

    def line(self, path: Path) -> int:
        return self.place.line((*self.base, *path))


def documents(source: Source) -> Iterator[Place]:
    """The documents of a file, in order; raises yamltext.Unreadable at the first that is none."""
    is_json = source.is_json
    if is_json and not source.name.endswith(".json"):
        is_json = _is_really_json(source.text)
    texts = jsontext.documents(source.text) if is_json else _yaml(source.text)
    for number, text in enumerate(texts, start=1):
        yield Place(source, text, number, is_json=is_json)


def _yaml(text: str) -> Iterator[Text]:
    for one, _ in yamltext.documents(text):
        yield one


def _is_really_json(text: str) -> bool:
    """Text that begins with a brace may still be YAML in flow style."""
    try:
        return all(True for _ in jsontext.documents(text))
    except yamltext.Unreadable as error:
        return "twice" in error.message


def objects(place: Place) -> Iterator[Document]:
    """The objects of a document: itself, or the items of a List, with their kind filled in."""
    value = place.text.value
    if not isinstance(value, dict) or not _is_list(value):
        yield Document(place, value)
        return
    kind = value["kind"].removesuffix("List")
    for index, item in enumerate(value.get("items") or []):
        if isinstance(item, dict) and kind and "kind" not in item:
            item = {"apiVersion": value.get("apiVersion"), "kind": kind, **item}  # noqa: PLW2901
        yield Document(place, item, ("items", index))


def _is_list(value: dict[str, Any]) -> bool:
    kind = value.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(value.get("items"), list)
