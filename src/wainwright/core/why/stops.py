"""Stops: what ends a pod's way with a pool, whoever asks."""

from collections.abc import Mapping

from wainwright.core.templates import Template
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.index import TypeIndex
from wainwright.model.markets import Markets
from wainwright.model.pool import NODES
from wainwright.model.reason import LimitReached, TooFewValues
from wainwright.model.requirements import Requirements


def open_markets(index: TypeIndex, wanted: Requirements, free: Mapping[str, int]) -> Markets:
    """Where one may buy, without the reservations that have no slot free."""
    found = index.markets_admitted_by(wanted)
    for number in row_numbers(found):
        name = index.markets[number].reservation_id
        if name is not None and not free.get(name):
            found ^= 1 << number
    return found


def too_few(
    template: Template, wanted: Requirements, rows: Rows, markets: Markets
) -> TooFewValues | None:
    """The first of the pool's minValues that these types, bought there, do not keep."""
    for key, count in template.minimums:
        found = template.index.values_left(key, rows, markets, wanted.allowed(key))
        if len(found) < count:
            return TooFewValues(key=key, needed=count, found=len(found))
    return None


def added(template: Template, row: int, name: str) -> int:
    """What one more machine of the type counts against a limit."""
    return 1 if name == NODES else template.index.types[row].capacity.get(name, 0)


def broken(template: Template, row: int) -> list[str]:
    """The limits that one more machine of the type would break."""
    left = template.limits.left
    return [name for name in left if added(template, row, name) > left[name]]


def limit_reached(template: Template, row: int, name: str) -> LimitReached:
    return LimitReached(
        resource=name,
        limit=template.pool.limits[name],
        in_use=template.pool.in_use.get(name, 0),
        needed=added(template, row, name),
        instance_type=template.index.types[row].name,
    )
