"""What can be changed while the emulator runs, in the fields of the Cloud kind and a few more.

    {"prices": [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.05}],
     "unavailable": [{"instanceType": "p5.*"}],
     "capacityReservations": [{"id": "cr-1", "instanceType": "m5.large", …}],
     "stock": [{"instanceType": "c5.*", "zone": "us-east-1a", "capacityType": "spot", "free": 3}],
     "faults": [{"operation": "CreateFleet", "code": "InternalError", "status": 500}],
     "throttling": true}

A list replaces the one before, but for capacity reservations: one whose id is known is changed, any
other is added, and those that are not named stay as they are.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.api.cloud import Cloud, CloudPrice, Reservation, Unavailable
from wainwright.api.fault import did_you_mean, field_path
from wainwright.api.judge import judge
from wainwright.api.kinds import known
from wainwright.emulator import faults, throttle
from wainwright.emulator.ec2.stock import StockRule
from wainwright.emulator.faults import Fault
from wainwright.emulator.throttle import Limit
from wainwright.errors import BadInput

OF_THE_CLOUD: Final = ("prices", "unavailable", "capacityReservations")
FIELDS: Final = (*OF_THE_CLOUD, "stock", "faults", "throttling")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A patch that has been read; None where nothing changes."""

    prices: list[CloudPrice] | None = None
    unavailable: list[Unavailable] | None = None
    reservations: list[Reservation] | None = None
    stock: list[StockRule] | None = None
    faults: list[Fault] | None = None
    throttling: list[Limit] | None = None
    """An empty list: nobody is throttled."""


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
        stock=stock(patch["stock"]) if "stock" in patch else None,
        faults=faults.rules(patch["faults"]) if "faults" in patch else None,
        throttling=(throttle.limits(patch["throttling"]) or []) if "throttling" in patch else None,
    )


def stock(given: Any) -> list[StockRule]:
    try:
        return msgspec.convert(given, list[StockRule])
    except msgspec.ValidationError as error:
        raise BadInput(f"stock: {error}") from None


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
