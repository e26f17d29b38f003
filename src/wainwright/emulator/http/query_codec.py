"""The query protocols: forms (`Filter.1.Value.2=x`) into the parameters of an operation, and
responses into XML. How each shape is read and written is worked out once, when it is first met.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from wainwright.emulator.http.wire_scalars import (
    SCALAR_PARSERS,
    ParameterError,
    ParameterErrorKind,
    scalar_formatter,
)

Node: TypeAlias = "str | dict[str, Node]"
FormReader: TypeAlias = Callable[[Any], Any]


def parse_form_tree(pairs: Iterable[tuple[str, str]]) -> dict[str, Node]:
    """A name that is both a value and has members is refused."""
    root: dict[str, Node] = {}
    for name, value in pairs:
        *steps, last = name.split(".")
        branch = root
        for step in steps:
            inner = branch.setdefault(step, {})
            if isinstance(inner, str):
                raise ParameterError(ParameterErrorKind.UNKNOWN).under(name)
            branch = inner
        if isinstance(branch.get(last), dict):
            raise ParameterError(ParameterErrorKind.UNKNOWN).under(name)
        branch[last] = value
    return root


class FormDecoder:
    """Reads trees by the shapes of one service. EC2 names members in its own way, and is strict."""

    def __init__(self, *, ec2: bool) -> None:
        self._ec2 = ec2
        self._structures: dict[str, FormReader] = {}

    def reader(self, shape: Any) -> FormReader:
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "list":
                return self._list(shape)
            case "map":
                return self._map(shape)
            case kind:
                return _scalar_reader(SCALAR_PARSERS.get(kind))

    def _structure(self, shape: Any) -> FormReader:
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        made = _StructureReader(strict=self._ec2)
        self._structures[shape.name] = made.read  # before its members, which may have it as theirs
        for name, member in shape.members.items():
            step = self._wire_name(member, name)
            made.members[step] = name, self.reader(member)
            if self._ec2 and name in shape.required_members:
                made.required[name] = step
        return made.read

    def _wire_name(self, shape: Any, name: str) -> str:
        written = shape.serialization
        if not self._ec2:
            inner = shape.member.serialization.get("name") if _is_flattened(shape) else None
            return str(inner or written.get("name", name))
        if "queryName" in written:
            return str(written["queryName"])
        located = str(written.get("name", ""))
        return located[:1].upper() + located[1:] if located else name

    def _list(self, shape: Any) -> FormReader:
        one = self.reader(shape.member)
        bare = self._ec2 or _is_flattened(shape)
        inner = None if bare else shape.member.serialization.get("name", "member")

        def read(node: Node) -> list[Any]:
            if inner is not None and isinstance(node, dict):
                node = node.get(inner, {})
            return [_read_at(number, each, one) for number, each in _numbered_members(node)]

        return read

    def _map(self, shape: Any) -> FormReader:
        key = shape.key.serialization.get("name", "key")
        value = shape.value.serialization.get("name", "value")
        one, flat = self.reader(shape.value), shape.serialization.get("flattened")

        def pair(node: Node) -> tuple[str, Any]:
            found = dict(_branches(node))
            if key not in found or value not in found:
                raise ParameterError(
                    ParameterErrorKind.VALUE, ", ".join(found), f"{key} and {value}"
                )
            return str(found[key]), one(found[value])

        def read(node: Node) -> dict[str, Any]:
            if not flat and isinstance(node, dict):
                node = node.get("entry", {})
            return dict(_read_at(number, each, pair) for number, each in _numbered_members(node))

        return read


class _StructureReader:
    """How one structure is read: names on the wire to names in boto3, and how each goes on."""

    def __init__(self, *, strict: bool) -> None:
        self.members: dict[str, tuple[str, FormReader]] = {}
        self.required: dict[str, str] = {}
        self._strict = strict

    def read(self, node: Node) -> dict[str, Any]:
        found: dict[str, Any] = {}
        members = self.members
        for step, inner in _branches(node):
            if step in members:
                name, reader = members[step]
                found[name] = _read_at(step, inner, reader)
            elif self._strict:
                raise ParameterError(ParameterErrorKind.UNKNOWN).under(step)
        for name, step in self.required.items():
            if name not in found:
                raise ParameterError(ParameterErrorKind.MISSING).under(step)
        return found


def _is_flattened(shape: Any) -> bool:
    return shape.type_name == "list" and bool(shape.serialization.get("flattened"))


def _branches(node: Node) -> Iterable[tuple[str, Node]]:
    if isinstance(node, str):
        if node:
            raise ParameterError(ParameterErrorKind.VALUE, node, "members")
        return ()
    return node.items()


def _numbered_members(node: Node) -> list[tuple[str, Node]]:
    """The members of a list in the order of their numbers, which may have gaps."""
    found = list(_branches(node))
    try:
        found.sort(key=lambda each: int(each[0]))
    except ValueError:
        wrong = next((step for step, _ in found if not step.isdecimal()), found[0][0])
        raise ParameterError(ParameterErrorKind.UNKNOWN).under(wrong) from None
    return found


def _read_at(step: str, node: Node, read: FormReader) -> Any:
    try:
        return read(node)
    except ParameterError as misfit:
        raise misfit.under(step) from None


def _scalar_reader(convert: Callable[[str], Any] | None) -> FormReader:
    def read(node: Node) -> Any:
        if isinstance(node, dict):
            raise ParameterError(ParameterErrorKind.UNKNOWN).under(next(iter(node)))
        return node if convert is None else convert(node)

    return read


XmlWriter: TypeAlias = Callable[[Any], str]

XML_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
XML_SPECIAL: Final = re.compile("[&<>\r\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
XML_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
XML_REPLACEMENT: Final = "\ufffd"
"""Stands for what XML cannot say at all."""


def escape_xml(text: str) -> str:
    if XML_SPECIAL.search(text) is None:
        return text
    return XML_SPECIAL.sub(lambda found: XML_ESCAPES.get(found[0], XML_REPLACEMENT), text)


def xml_element(tag: str, inner: str) -> str:
    return f"<{tag}>{inner}</{tag}>"


class XmlEncoder:
    """Writes by the shapes of one service."""

    def __init__(self, *, ec2: bool) -> None:
        self._item = "item" if ec2 else "member"
        self._structures: dict[str, XmlWriter] = {}

    def inside(self, shape: Any) -> XmlWriter:
        """The value without its own element."""
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "list":
                return self._list(shape)
            case "map":
                return self._map(shape)
            case "string":
                return escape_xml
            case kind:
                form = shape.serialization.get("timestampFormat")
                return scalar_formatter(kind, form, "iso8601")

    def _member(self, shape: Any, name: str) -> XmlWriter:
        """The value within its element; a flat list has one for each of its own."""
        tag = str(shape.serialization.get("name", name))
        if shape.serialization.get("flattened"):
            return self._flat(shape, tag)
        inner, begin, end = self.inside(shape), f"<{tag}>", f"</{tag}>"
        return lambda value: begin + inner(value) + end

    def _structure(self, shape: Any) -> XmlWriter:
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        members: dict[str, XmlWriter] = {}

        def write(value: Mapping[str, Any]) -> str:
            return "".join(
                [members[name](each) for name, each in value.items() if each is not None]
            )

        self._structures[shape.name] = write  # before its members, which may have it as theirs
        for name, member in shape.members.items():
            members[name] = self._member(member, name)
        return write

    def _list(self, shape: Any) -> XmlWriter:
        tag = shape.member.serialization.get("name", self._item)
        one, begin, end = self.inside(shape.member), f"<{tag}>", f"</{tag}>"
        between = end + begin

        def write(value: Sequence[Any]) -> str:
            return begin + between.join(map(one, value)) + end if value else ""

        return write

    def _flat(self, shape: Any, tag: str) -> XmlWriter:
        if shape.type_name == "map":
            pair = self._pair(shape)
            return lambda value: "".join(xml_element(tag, pair(each)) for each in value.items())
        tag = str(shape.member.serialization.get("name", tag))
        one = self.inside(shape.member)
        return lambda value: "".join(xml_element(tag, one(each)) for each in value)

    def _map(self, shape: Any) -> XmlWriter:
        pair = self._pair(shape)
        return lambda value: "".join(xml_element("entry", pair(each)) for each in value.items())

    def _pair(self, shape: Any) -> XmlWriter:
        key = str(shape.key.serialization.get("name", "key"))
        name = str(shape.value.serialization.get("name", "value"))
        one = self.inside(shape.value)
        return lambda pair: xml_element(key, escape_xml(pair[0])) + xml_element(name, one(pair[1]))
