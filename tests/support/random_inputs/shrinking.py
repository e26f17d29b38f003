"""Shrinks an input that fails, and prints it in a few lines."""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, Final

import msgspec
from tests.support.random_inputs.unconstrained import PlannerInput

from wainwright.model.instance_type import Offering
from wainwright.model.requirements import Requirements

KEPT_FIELDS: Final = frozenset(
    {"name", "price", "available", "max_skew", "weight", "match_expressions", "values"}
)
"""Fields that identify a value and are not removed."""


def shrink_input(
    planner_input: PlannerInput, is_wrong: Callable[[PlannerInput], bool], most: int = 5000
) -> PlannerInput:
    """Removes parts one at a time, as long as the input still fails."""
    tries = 0
    while tries < most:
        for smaller in islice(chain(_fewer_types(planner_input), _smaller(planner_input)), most):
            tries += 1
            if _is_valid(smaller) and is_wrong(smaller):
                planner_input = smaller
                break
        else:
            return planner_input
    return planner_input


def _is_valid(planner_input: PlannerInput) -> bool:
    return set(planner_input.types) >= {pool.name for pool in planner_input.snapshot.pools}


def _fewer_types(planner_input: PlannerInput) -> Iterator[PlannerInput]:
    """Without a type in any pool, or without a catalog that no pool uses."""
    pools = {pool.name for pool in planner_input.snapshot.pools}
    if set(planner_input.types) - pools:
        types = {name: kinds for name, kinds in planner_input.types.items() if name in pools}
        yield msgspec.structs.replace(planner_input, types=types)
    for gone in sorted({kind.name for kinds in planner_input.types.values() for kind in kinds}):
        types = {
            n: tuple(k for k in kinds if k.name != gone) for n, kinds in planner_input.types.items()
        }
        yield msgspec.structs.replace(planner_input, types=types)


def _smaller(value: Any) -> Iterator[Any]:
    """The value with one part removed; large parts first."""
    if isinstance(value, Requirements):
        yield from (value.without({key}) for key in value)
    elif isinstance(value, msgspec.Struct):
        yield from _smaller_struct(value)
    elif isinstance(value, dict):
        yield from ({k: v for k, v in value.items() if k != key} for key in value)
        for key in value:
            yield from ({**value, key: less} for less in _smaller(value[key]))
    elif isinstance(value, tuple) and value:
        numbers = range(len(value))
        yield from ((*value[:number], *value[number + 1 :]) for number in numbers)
        for number in numbers:
            head, tail = value[:number], value[number + 1 :]
            yield from ((*head, less, *tail) for less in _smaller(value[number]))


def _smaller_struct(value: msgspec.Struct) -> Iterator[Any]:
    if isinstance(value, Offering):
        return  # an offering without its labels is an odd one
    fields = [field for field in msgspec.structs.fields(value) if field.name not in KEPT_FIELDS]
    for field in fields:
        default = _default(field)
        if default is not msgspec.NODEFAULT and getattr(value, field.name) != default:
            yield msgspec.structs.replace(value, **{field.name: default})
    for field in fields:
        for less in _smaller(getattr(value, field.name)):
            yield msgspec.structs.replace(value, **{field.name: less})


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def describe_input(value: Any, indent: str = "") -> str:
    """As source text: only fields that differ from the defaults."""
    if isinstance(value, Requirements):
        return f"<{value}>"
    if isinstance(value, tuple):
        inner = indent + "  "
        return "(" + ",".join(f"\n{inner}{describe_input(each, inner)}" for each in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {describe_input(v, indent)}" for k, v in value.items()) + "}"
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    said = [
        f"{field.name}={describe_input(getattr(value, field.name), indent)}"
        for field in msgspec.structs.fields(value)
        if getattr(value, field.name) != _default(field)
    ]
    return f"{type(value).__name__}({', '.join(said)})"
