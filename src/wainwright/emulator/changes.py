"""What can be changed while the emulator runs, in the fields of the Cloud kind and a few more.

    {"prices": [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.05}],
     "unavailable": [{"instanceType": "p5.*"}],
     "capacityReservations": [{"id": "cr-1", "instanceType": "m5.large", …}],
     "stock": [{"instanceType": "c5.*", "zone": "us-east-1a", "capacityType": "spot", "free": 3}],
     "faults": [{"operation": "CreateFleet", "code": "InternalError", "status": 500}],
     "throttling": true,
     "quota": {"onDemand": {"standard": 64}},
     "pace": {"boot": {"median": 30, "spread": 0.3}},
     "interruptions": [{"instance": "i-0…", "kind": "spot"}]}

Interruptions happen now. Any other list replaces the one before, but for capacity reservations: one
whose id is known is changed, any other is added, and those that are not named stay as they are.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from wainwright.api.cloud import Cloud, CloudPrice, Reservation, Unavailable
from wainwright.api.fault import did_you_mean, field_path
from wainwright.api.judge import judge
from wainwright.api.kinds import known
from wainwright.emulator import faults, throttle
from wainwright.emulator.ec2.lifecycle import Pace
from wainwright.emulator.ec2.quota import Limits
from wainwright.emulator.ec2.stock import StockRule
from wainwright.emulator.faults import Fault, Faults
from wainwright.emulator.mishaps import Mishap, befall, check
from wainwright.emulator.parts import Parts
from wainwright.emulator.throttle import Buckets, Limit
from wainwright.errors import BadInput

Value = TypeVar("Value")

OF_THE_CLOUD: Final = ("prices", "unavailable", "capacityReservations")
FIELDS: Final = (
    *OF_THE_CLOUD,
    "stock",
    "faults",
    "throttling",
    "quota",
    "pace",
    "interruptions",
)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A patch that has been read; None where nothing changes."""

    prices: list[CloudPrice] | None = None
    unavailable: list[Unavailable] | None = None
    reservations: list[Reservation] | None = None
    stock: list[StockRule] | None = None
    faults: list[Fault] | None = None
    throttling: list[Limit] | None = None
    """An empty list: nobody is throttled."""
    quota: Limits | None = None
    pace: Pace | None = None
    mishaps: list[Mishap] | None = None


def change(patch: Mapping[str, Any], region: str) -> Change:
    """Reads a patch whole, or says in BadInput what is wrong with it."""
    for name in patch:
        if name not in FIELDS:
            hint = did_you_mean(name, list(FIELDS)) or f"one of {', '.join(FIELDS)}"
            raise BadInput(f"{name} cannot be changed", hint)
    spec = _cloud({name: patch[name] for name in OF_THE_CLOUD if name in patch}, region).spec
    return Change(
        prices=spec.prices,
        unavailable=spec.unavailable,
        reservations=spec.capacityReservations,
        stock=_read(patch, "stock", list[StockRule]),
        faults=faults.rules(patch["faults"]) if "faults" in patch else None,
        throttling=(throttle.limits(patch["throttling"]) or []) if "throttling" in patch else None,
        quota=_read(patch, "quota", Limits),
        pace=_read(patch, "pace", Pace),
        mishaps=_read(patch, "interruptions", list[Mishap]),
    )


def apply(change: Change, parts: Parts, rules: Faults, buckets: Buckets) -> None:
    """Makes it so; nothing of it where a machine or zone is named that does not exist."""
    parts.reservations.check(change.reservations or ())
    for mishap in change.mishaps or ():
        check(mishap, parts)
    _given(change.reservations, parts.reservations.seed)
    _given(change.prices, parts.shop.set_prices)
    _given(change.unavailable, parts.shop.set_unavailable)
    _given(change.stock, parts.shop.set_stock)
    _given(change.faults, rules.replace)
    _given(change.throttling, buckets.replace)
    if change.quota is not None:
        parts.quota.state.limits = change.quota
    if change.pace is not None:
        parts.instances.state.pace = change.pace
    for mishap in change.mishaps or ():
        befall(mishap, parts)


def _given(value: Value | None, make: Callable[[Value], None]) -> None:
    if value is not None:
        make(value)


def _read(patch: Mapping[str, Any], name: str, kind: type[Value]) -> Value | None:
    if name not in patch:
        return None
    try:
        return msgspec.convert(patch[name], kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"{name}: {error}") from None


def _cloud(fields: Mapping[str, Any], region: str) -> Cloud:
    """Judged as a Cloud in a file is."""
    written: dict[str, Any] = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Cloud",
        "spec": {"region": region, **fields},
    }
    found = judge(known()[written["apiVersion"], "Cloud"], written)
    for fault in found:
        if not fault.warning:
            raise BadInput(f"{field_path(fault.path[1:])}: {fault.message}", fault.hint)
    return msgspec.convert(written, Cloud)
