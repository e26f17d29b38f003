"""Objects of core kinds, checked and read, each distinct part once.

Twenty thousand pods are mostly a few hundred specs. Every part is remembered by a digest of its
bytes: equal parts are checked once and share one struct.
"""

from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from wainwright.api.builtin import check_metadata, rules
from wainwright.api.builtin.fields import Shape
from wainwright.api.builtin.layout import Layout, Slot, layout
from wainwright.api.builtin.pod import Pod
from wainwright.api.fault import Fault, Path
from wainwright.api.wire import Metadata, Wire

NOT_ENCODABLE: Final = (OverflowError, ValueError, TypeError, RecursionError)

T = TypeVar("T")


class Read(msgspec.Struct, frozen=True, gc=False):
    """A part as read: its struct, what is wrong with it, and whether metadata matters to it."""

    value: Any
    faults: tuple[Fault, ...]
    depends_on_metadata: bool = False


class Reader:
    """Reads objects, and remembers the parts that it has seen; one for each run of a command."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, bytes], Read] = {}

    def read(self, value: dict[str, Any]) -> tuple[Wire, list[Fault]]:
        """The object and everything that is wrong with it.

        The value's apiVersion and kind must be those of a core kind. With an error among the
        faults, the object lacks whatever could not be read.
        """
        plan = layout(value["apiVersion"], value["kind"])
        metadata = _metadata(value.get("metadata"), plan)
        if not plan.slots:
            return _whole(value, plan, metadata)
        found = list(metadata.faults)
        made: dict[str, Any] = {"metadata": metadata.value}
        depends = False
        for slot in plan.slots:
            part = self._part(value.get(slot.name), slot, plan.kind)
            found.extend(part.faults)
            depends = depends or part.depends_on_metadata
            if slot.struct is not None:
                made[slot.name] = part.value
        found.extend(plan.fields.unknown(key, ()) for key in value if key not in plan.fields.fields)
        whole = plan.struct(**made)
        if depends and isinstance(whole, Pod):
            found.extend(_apart_from(found, list(rules.together(whole))))
        return whole, found

    def _part(self, value: Any, slot: Slot, kind: str) -> Read:
        try:
            packed = msgspec.msgpack.encode(value)
        except NOT_ENCODABLE:
            return _part(value, slot)
        key = (kind, slot.name, blake2b(packed, digest_size=16).digest())
        part = self._seen.get(key)
        if part is None:
            part = self._seen[key] = _part(value, slot)
        return part


def check(value: dict[str, Any]) -> list[Fault]:
    """Everything that is wrong with one object of a core kind."""
    return Reader().read(value)[1]


def decode(value: dict[str, Any]) -> Wire:
    """The object as a struct, unchecked; what cannot be read is left out."""
    plan = layout(value["apiVersion"], value["kind"])
    try:
        return msgspec.convert(value, plan.struct)
    except msgspec.ValidationError:
        return Reader().read(value)[0]


def _part(value: Any, slot: Slot) -> Read:
    found: list[Fault] = []
    if value is not None:
        slot.shape.look(value, (slot.name,), found)
    if slot.struct is None:
        return Read(None, tuple(found))
    made = _converted(value, slot.struct, slot.shape, found)
    if slot.check is not None:
        found.extend(_apart_from(found, list(slot.check(made, (slot.name,)))))
    return Read(made, tuple(found), rules.depends_on_metadata(made))


def _whole(value: dict[str, Any], plan: Layout, metadata: Read) -> tuple[Wire, list[Fault]]:
    rest = {key: item for key, item in value.items() if key != "metadata"}
    found: list[Fault] = []
    plan.fields.look(rest, (), found)
    made = _converted(rest, plan.struct, plan.fields, found)
    whole = msgspec.structs.replace(made, metadata=metadata.value)
    found.extend(_apart_from(found, list(rules.WHOLES[plan.kind](whole))))
    return whole, [*metadata.faults, *found]


def _metadata(value: Any, plan: Layout) -> Read:
    found: list[Fault] = []
    if value is not None:
        plan.metadata.look(value, check_metadata.METADATA, found)
    given = {} if value is None else value
    try:
        made = msgspec.convert(given, Metadata)
    except msgspec.ValidationError:
        given = plan.metadata.repaired(given) or {}
        made = msgspec.convert(check_metadata.with_whole_owners(given), Metadata)
    found.extend(_apart_from(found, list(check_metadata.faults(given, plan.kind))))
    return Read(made, tuple(found))


def _converted(value: Any, struct: type[T], shape: Shape, found: list[Fault]) -> T:
    """The struct; where some value does not fit, of the rest."""
    if value is None:
        return struct()
    if not any(not fault.warning for fault in found):
        try:
            return msgspec.convert(value, struct)
        except msgspec.ValidationError:
            pass  # a null where the struct has none: it means absent
    return msgspec.convert(shape.repaired(value) or {}, struct)


def _apart_from(found: list[Fault], later: list[Fault]) -> list[Fault]:
    """The later faults without those that only follow from a value that could not be read."""
    unread = [fault.path for fault in found if not fault.warning]
    if not unread or not later:
        return later
    return [fault for fault in later if not any(_follows(fault.path, path) for path in unread)]


def _follows(path: Path, cause: Path) -> bool:
    """Whether one place is within or around the other, or in the same entry of a list."""
    shorter = min(len(path), len(cause))
    beside = len(cause) > 1 and isinstance(cause[-2], int) and path[:-1] == cause[:-1]
    return beside or path[:shorter] == cause[:shorter]
