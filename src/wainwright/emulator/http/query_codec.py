"""The query protocols: forms (`Filter.1.Value.2=x`) into the parameters of an operation, and
responses into XML. The reader and writer of each shape are built once, at its first use.
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

FormValue: TypeAlias = "str | dict[str, FormValue]"
FormReader: TypeAlias = Callable[[Any], Any]


def parse_form_tree(pairs: Iterable[tuple[str, str]]) -> dict[str, FormValue]:
    """The nested form values; a name that has both a value and members is an error."""
    root: dict[str, FormValue] = {}
    for name, value in pairs:
        *steps, last = name.split(".")
        branch = root
        for step in steps:
            inner = branch.setdefault(step, {})
            if isinstance(inner, str):
                raise ParameterError(ParameterErrorKind.UNKNOWN).nested_in(name)
            branch = inner
        if isinstance(branch.get(last), dict):
            raise ParameterError(ParameterErrorKind.UNKNOWN).nested_in(name)
        branch[last] = value
    return root


class FormDecoder:
    """Decodes form values by the shapes of one service. EC2 has its own member names, and rejects
    unknown ones."""

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
        cached = self._structures.get(shape.name)
        if cached is not None:
            return cached
        structure = _StructureReader(strict=self._ec2)
        self._structures[shape.name] = structure.read  # before its members: shapes may be recursive
        for name, member in shape.members.items():
            step = self._wire_name(member, name)
            structure.members[step] = name, self.reader(member)
            if self._ec2 and name in shape.required_members:
                structure.required[name] = step
        return structure.read

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
        read_member = self.reader(shape.member)
        unnamed = self._ec2 or _is_flattened(shape)
        member_name = None if unnamed else shape.member.serialization.get("name", "member")

        def read(form_value: FormValue) -> list[Any]:
            if member_name is not None and isinstance(form_value, dict):
                form_value = form_value.get(member_name, {})
            return [
                _read_at(number, each, read_member)
                for number, each in _numbered_members(form_value)
            ]

        return read

    def _map(self, shape: Any) -> FormReader:
        key = shape.key.serialization.get("name", "key")
        value = shape.value.serialization.get("name", "value")
        read_value, flattened = self.reader(shape.value), shape.serialization.get("flattened")

        def pair(form_value: FormValue) -> tuple[str, Any]:
            entry = dict(_branches(form_value))
            if key not in entry or value not in entry:
                raise ParameterError(
                    ParameterErrorKind.VALUE, ", ".join(entry), f"{key} and {value}"
                )
            return str(entry[key]), read_value(entry[value])

        def read(form_value: FormValue) -> dict[str, Any]:
            if not flattened and isinstance(form_value, dict):
                form_value = form_value.get("entry", {})
            return dict(
                _read_at(number, each, pair) for number, each in _numbered_members(form_value)
            )

        return read


class _StructureReader:
    """Reads one structure: wire names to names in boto3, with the reader of each member."""

    def __init__(self, *, strict: bool) -> None:
        self.members: dict[str, tuple[str, FormReader]] = {}
        self.required: dict[str, str] = {}
        self._strict = strict

    def read(self, form_value: FormValue) -> dict[str, Any]:
        params: dict[str, Any] = {}
        members = self.members
        for step, inner in _branches(form_value):
            if step in members:
                name, reader = members[step]
                params[name] = _read_at(step, inner, reader)
            elif self._strict:
                raise ParameterError(ParameterErrorKind.UNKNOWN).nested_in(step)
        for name, step in self.required.items():
            if name not in params:
                raise ParameterError(ParameterErrorKind.MISSING).nested_in(step)
        return params


def _is_flattened(shape: Any) -> bool:
    return shape.type_name == "list" and bool(shape.serialization.get("flattened"))


def _branches(form_value: FormValue) -> Iterable[tuple[str, FormValue]]:
    if isinstance(form_value, str):
        if form_value:
            raise ParameterError(ParameterErrorKind.VALUE, form_value, "members")
        return ()
    return form_value.items()


def _numbered_members(form_value: FormValue) -> list[tuple[str, FormValue]]:
    """List members in the order of their indexes, which may have gaps."""
    members = list(_branches(form_value))
    try:
        members.sort(key=lambda each: int(each[0]))
    except ValueError:
        invalid = next((step for step, _ in members if not step.isdecimal()), members[0][0])
        raise ParameterError(ParameterErrorKind.UNKNOWN).nested_in(invalid) from None
    return members


def _read_at(step: str, form_value: FormValue, read: FormReader) -> Any:
    try:
        return read(form_value)
    except ParameterError as error:
        raise error.nested_in(step) from None


def _scalar_reader(convert: Callable[[str], Any] | None) -> FormReader:
    def read(form_value: FormValue) -> Any:
        if isinstance(form_value, dict):
            raise ParameterError(ParameterErrorKind.UNKNOWN).nested_in(next(iter(form_value)))
        return form_value if convert is None else convert(form_value)

    return read


XmlWriter: TypeAlias = Callable[[Any], str]

XML_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
XML_SPECIAL: Final = re.compile("[&<>\r\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
XML_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
XML_REPLACEMENT: Final = "\ufffd"
"""Replaces characters that XML cannot represent."""


def escape_xml(text: str) -> str:
    # Most texts need no escaping: a search is cheaper than a substitution with a callback.
    if XML_SPECIAL.search(text) is None:
        return text
    return XML_SPECIAL.sub(lambda match: XML_ESCAPES.get(match[0], XML_REPLACEMENT), text)


def xml_element(tag: str, inner: str) -> str:
    return f"<{tag}>{inner}</{tag}>"


class XmlEncoder:
    """Encodes responses by the shapes of one service; writers are built once per shape."""

    def __init__(self, *, ec2: bool) -> None:
        self._item = "item" if ec2 else "member"
        self._structures: dict[str, XmlWriter] = {}

    def content_writer(self, shape: Any) -> XmlWriter:
        """Writes the value without its own element."""
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

    def _member_writer(self, shape: Any, name: str) -> XmlWriter:
        """Writes the value in its element; a flattened list has one element per member."""
        tag = str(shape.serialization.get("name", name))
        if shape.serialization.get("flattened"):
            return self._flattened_writer(shape, tag)
        inner, begin, end = self.content_writer(shape), f"<{tag}>", f"</{tag}>"
        return lambda value: begin + inner(value) + end

    def _structure(self, shape: Any) -> XmlWriter:
        cached = self._structures.get(shape.name)
        if cached is not None:
            return cached
        members: dict[str, XmlWriter] = {}

        def write(value: Mapping[str, Any]) -> str:
            return "".join(
                [members[name](each) for name, each in value.items() if each is not None]
            )

        self._structures[shape.name] = write  # before its members: shapes may be recursive
        for name, member in shape.members.items():
            members[name] = self._member_writer(member, name)
        return write

    def _list(self, shape: Any) -> XmlWriter:
        tag = shape.member.serialization.get("name", self._item)
        write_member, begin, end = self.content_writer(shape.member), f"<{tag}>", f"</{tag}>"
        separator = end + begin

        def write(value: Sequence[Any]) -> str:
            return begin + separator.join(map(write_member, value)) + end if value else ""

        return write

    def _flattened_writer(self, shape: Any, tag: str) -> XmlWriter:
        if shape.type_name == "map":
            write_pair = self._pair_writer(shape)
            return lambda value: "".join(
                xml_element(tag, write_pair(each)) for each in value.items()
            )
        tag = str(shape.member.serialization.get("name", tag))
        write_member = self.content_writer(shape.member)
        return lambda value: "".join(xml_element(tag, write_member(each)) for each in value)

    def _map(self, shape: Any) -> XmlWriter:
        write_pair = self._pair_writer(shape)
        return lambda value: "".join(
            xml_element("entry", write_pair(each)) for each in value.items()
        )

    def _pair_writer(self, shape: Any) -> XmlWriter:
        key = str(shape.key.serialization.get("name", "key"))
        name = str(shape.value.serialization.get("name", "value"))
        write_value = self.content_writer(shape.value)
        return lambda pair: (
            xml_element(key, escape_xml(pair[0])) + xml_element(name, write_value(pair[1]))
        )
