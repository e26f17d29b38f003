"""Forms: `Filter.1.Value.2=x` as a tree, and the tree as the parameters of an operation.

How each shape is read is worked out once, when it is first met.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from wainwright.emulator.http.misfit import Fault, Misfit
from wainwright.emulator.http.scalars import READ

Node: TypeAlias = "str | dict[str, Node]"
Reader: TypeAlias = Callable[[Any], Any]


def tree(pairs: Iterable[tuple[str, str]]) -> dict[str, Node]:
    """A name that is both a value and has members is refused."""
    root: dict[str, Node] = {}
    for name, value in pairs:
        *steps, last = name.split(".")
        branch = root
        for step in steps:
            inner = branch.setdefault(step, {})
            if isinstance(inner, str):
                raise Misfit(Fault.UNKNOWN).under(name)
            branch = inner
        if isinstance(branch.get(last), dict):
            raise Misfit(Fault.UNKNOWN).under(name)
        branch[last] = value
    return root


class Forms:
    """Reads trees by the shapes of one service. EC2 names members in its own way, and is strict."""

    def __init__(self, *, ec2: bool) -> None:
        self._ec2 = ec2
        self._structures: dict[str, Reader] = {}

    def reader(self, shape: Any) -> Reader:
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "list":
                return self._list(shape)
            case "map":
                return self._map(shape)
            case kind:
                return _scalar(READ.get(kind))

    def _structure(self, shape: Any) -> Reader:
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        made = _Structure(strict=self._ec2)
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
            inner = shape.member.serialization.get("name") if _flat(shape) else None
            return str(inner or written.get("name", name))
        if "queryName" in written:
            return str(written["queryName"])
        located = str(written.get("name", ""))
        return located[:1].upper() + located[1:] if located else name

    def _list(self, shape: Any) -> Reader:
        one = self.reader(shape.member)
        bare = self._ec2 or _flat(shape)
        inner = None if bare else shape.member.serialization.get("name", "member")

        def read(node: Node) -> list[Any]:
            if inner is not None and isinstance(node, dict):
                node = node.get(inner, {})
            return [_at(number, each, one) for number, each in _numbered(node)]

        return read

    def _map(self, shape: Any) -> Reader:
        key = shape.key.serialization.get("name", "key")
        value = shape.value.serialization.get("name", "value")
        one, flat = self.reader(shape.value), shape.serialization.get("flattened")

        def pair(node: Node) -> tuple[str, Any]:
            found = dict(_branches(node))
            if key not in found or value not in found:
                raise Misfit(Fault.VALUE, ", ".join(found), f"{key} and {value}")
            return str(found[key]), one(found[value])

        def read(node: Node) -> dict[str, Any]:
            if not flat and isinstance(node, dict):
                node = node.get("entry", {})
            return dict(_at(number, each, pair) for number, each in _numbered(node))

        return read


class _Structure:
    """How one structure is read: names on the wire to names in boto3, and how each goes on."""

    def __init__(self, *, strict: bool) -> None:
        self.members: dict[str, tuple[str, Reader]] = {}
        self.required: dict[str, str] = {}
        self._strict = strict

    def read(self, node: Node) -> dict[str, Any]:
        found: dict[str, Any] = {}
        members = self.members
        for step, inner in _branches(node):
            if step in members:
                name, reader = members[step]
                found[name] = _at(step, inner, reader)
            elif self._strict:
                raise Misfit(Fault.UNKNOWN).under(step)
        for name, step in self.required.items():
            if name not in found:
                raise Misfit(Fault.MISSING).under(step)
        return found


def _flat(shape: Any) -> bool:
    return shape.type_name == "list" and bool(shape.serialization.get("flattened"))


def _branches(node: Node) -> Iterable[tuple[str, Node]]:
    if isinstance(node, str):
        if node:
            raise Misfit(Fault.VALUE, node, "members")
        return ()
    return node.items()


def _numbered(node: Node) -> list[tuple[str, Node]]:
    """The members of a list in the order of their numbers, which may have gaps."""
    found = list(_branches(node))
    try:
        found.sort(key=lambda each: int(each[0]))
    except ValueError:
        wrong = next((step for step, _ in found if not step.isdecimal()), found[0][0])
        raise Misfit(Fault.UNKNOWN).under(wrong) from None
    return found


def _at(step: str, node: Node, read: Reader) -> Any:
    try:
        return read(node)
    except Misfit as misfit:
        raise misfit.under(step) from None


def _scalar(convert: Callable[[str], Any] | None) -> Reader:
    def read(node: Node) -> Any:
        if isinstance(node, dict):
            raise Misfit(Fault.UNKNOWN).under(next(iter(node)))
        return node if convert is None else convert(node)

    return read
