"""Default topology spread constraints: those of a pod, but without a selector of their own."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from wainwright.api.builtin.affinity import TopologySpreadConstraint
from wainwright.api.builtin.check_labels import label_key
from wainwright.api.builtin.check_spread import spread
from wainwright.api.builtin.fields import ListOf, fields_of
from wainwright.api.fault import Fault, Path, shown

Constraints = tuple[TopologySpreadConstraint, ...]

NOT_HERE: Final = {
    "labelSelector": "a default constraint has no selector: it is deduced for each pod",
    "matchLabelKeys": "matchLabelKeys have no effect on a default constraint",
}
"""What pods may write and defaults may not, with the reason."""


def constraints(value: Any, path: Path, found: list[Fault]) -> Constraints:
    """The constraints of a list; whatever is wrong with them is added to the faults found."""
    shape, faults = ListOf(fields_of("core.v1.TopologySpreadConstraint")), list[Fault]()
    shape.look(value, path, faults)
    made = msgspec.convert(shape.repaired(value) or [], list[TopologySpreadConstraint])
    unread = {_entry(fault, path) for fault in faults}
    faults += [fault for fault in _rules(made, path) if _entry(fault, path) not in unread]
    # A field that is unknown here would be an intention that the plan leaves out.
    found.extend(msgspec.structs.replace(fault, warning=False) for fault in faults)
    return tuple(made)


def _entry(fault: Fault, path: Path) -> Path:
    return fault.path[: len(path) + 1]


def _rules(made: list[TopologySpreadConstraint], path: Path) -> Iterator[Fault]:
    for index, each in enumerate(made):
        yield from _forbidden(each, (*path, index))
        if each.topologyKey:
            yield from label_key(each.topologyKey, (*path, index, "topologyKey"))
    bare = [msgspec.structs.replace(each, labelSelector=None, matchLabelKeys=None) for each in made]
    yield from spread(bare, path)


def _forbidden(given: TopologySpreadConstraint, path: Path) -> Iterator[Fault]:
    for field, why in NOT_HERE.items():
        value = getattr(given, field)
        if value is not None:
            yield Fault(
                path=(*path, field),
                message=why,
                found=shown(msgspec.to_builtins(value)),
                expected=f"no {field}",
                hint=f"leave {field} out",
            )
