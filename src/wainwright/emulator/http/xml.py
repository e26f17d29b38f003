"""XML answers of the query protocols. How each shape is written is worked out once."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from wainwright.emulator.http.scalars import text_of

Writer: TypeAlias = Callable[[Any], str]

DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
SPECIAL: Final = re.compile("[&<>\r\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
ILLEGAL: Final = "\ufffd"
"""Stands for what XML cannot say at all."""


def escaped(text: str) -> str:
    if SPECIAL.search(text) is None:
        return text
    return SPECIAL.sub(lambda found: ESCAPES.get(found[0], ILLEGAL), text)


def element(tag: str, inner: str) -> str:
    return f"<{tag}>{inner}</{tag}>"


class Xml:
    """Writes by the shapes of one service."""

    def __init__(self, *, ec2: bool) -> None:
        self._item = "item" if ec2 else "member"
        self._structures: dict[str, Writer] = {}

    def inside(self, shape: Any) -> Writer:
        """The value without its own element."""
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "list":
                return self._list(shape)
            case "map":
                return self._map(shape)
            case "string":
                return escaped
            case kind:
                form = shape.serialization.get("timestampFormat")
                return text_of(kind, form, "iso8601")

    def _member(self, shape: Any, name: str) -> Writer:
        """The value within its element; a flat list has one for each of its own."""
        tag = str(shape.serialization.get("name", name))
        if shape.serialization.get("flattened"):
            return self._flat(shape, tag)
        inner, begin, end = self.inside(shape), f"<{tag}>", f"</{tag}>"
        return lambda value: begin + inner(value) + end

    def _structure(self, shape: Any) -> Writer:
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        members: dict[str, Writer] = {}

        def write(value: Mapping[str, Any]) -> str:
            return "".join(
                [members[name](each) for name, each in value.items() if each is not None]
            )

        self._structures[shape.name] = write  # before its members, which may have it as theirs
        for name, member in shape.members.items():
            members[name] = self._member(member, name)
        return write

    def _list(self, shape: Any) -> Writer:
        tag = shape.member.serialization.get("name", self._item)
        one, begin, end = self.inside(shape.member), f"<{tag}>", f"</{tag}>"
        between = end + begin

        def write(value: Sequence[Any]) -> str:
            return begin + between.join(map(one, value)) + end if value else ""

        return write

    def _flat(self, shape: Any, tag: str) -> Writer:
        if shape.type_name == "map":
            pair = self._pair(shape)
            return lambda value: "".join(element(tag, pair(each)) for each in value.items())
        tag = str(shape.member.serialization.get("name", tag))
        one = self.inside(shape.member)
        return lambda value: "".join(element(tag, one(each)) for each in value)

    def _map(self, shape: Any) -> Writer:
        pair = self._pair(shape)
        return lambda value: "".join(element("entry", pair(each)) for each in value.items())

    def _pair(self, shape: Any) -> Writer:
        key = str(shape.key.serialization.get("name", "key"))
        name = str(shape.value.serialization.get("name", "value"))
        one = self.inside(shape.value)
        return lambda pair: element(key, escaped(pair[0])) + element(name, one(pair[1]))
