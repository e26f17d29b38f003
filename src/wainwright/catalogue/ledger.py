"""The ledger of a type: for each way to buy it, the layers of its price from the bottom up."""

import msgspec

from wainwright.catalogue.built import Built
from wainwright.catalogue.lots import Layer, Lot, Step
from wainwright.catalogue.offerings import origin
from wainwright.model.labels import CAPACITY_TYPE, RESERVATION_LABELS, ZONE, ZONE_ID

TOLD_APART: frozenset[str] = RESERVATION_LABELS | {CAPACITY_TYPE, ZONE, ZONE_ID}


class Account(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Offerings of a type whose prices came about in the same way."""

    capacity_type: str | None
    """None where the offering leaves it open; so with the zones."""
    zones: tuple[str, ...]
    labels: dict[str, str]
    """What else the offering names."""
    reservation_id: str | None = msgspec.field(name="reservationID")
    available: int
    price: float | None
    """None where no layer gave one: it cannot be bought."""
    steps: tuple[Step, ...]
    """From the bottom up; the last one's price is the one in force."""


def accounts(built: Built, name: str) -> list[Account]:
    """Every lot of the type; zones with the same history stand together."""
    found: dict[tuple[object, ...], Account] = {}
    for lot in built.lots[name]:
        one = _account(built, name, lot)
        key = (
            one.capacity_type,
            tuple(one.labels.items()),
            one.reservation_id,
            one.available,
            one.price,
            tuple(
                (step.layer, step.source, step.before, step.after, step.how) for step in one.steps
            ),
        )
        same = found.get(key)
        zones = one.zones if same is None else (*same.zones, *one.zones)
        found[key] = msgspec.structs.replace(one, zones=zones)
    return sorted(found.values(), key=_rank)


def _account(built: Built, name: str, lot: Lot) -> Account:
    labels = {key: lot.requirements.only(key) for key in lot.requirements}
    return Account(
        capacity_type=lot.capacity_type,
        zones=() if lot.zone is None else (lot.zone,),
        labels={key: value or "" for key, value in labels.items() if key not in TOLD_APART},
        reservation_id=lot.reservation_id,
        available=lot.available,
        price=lot.price,
        steps=history(built, name, lot),
    )


def history(built: Built, name: str, lot: Lot) -> tuple[Step, ...]:
    """The steps of a lot with the one at the bottom, where it did not begin with an object."""
    if (
        lot.steps
        and lot.steps[0].before is None
        and lot.steps[0].layer
        in (
            Layer.INSTANCE_TYPE,
            Layer.RESERVATION,
        )
    ):
        return lot.steps
    if built.from_catalog:
        bottom = Step(layer=Layer.CATALOG, source=built.region, before=None, after=lot.base)
    else:
        bottom = origin(name, built.region, lot)
    return (bottom, *lot.steps)


def _rank(account: Account) -> tuple[str, tuple[str, ...], list[tuple[str, str]], str]:
    labels = sorted(account.labels.items())
    return account.capacity_type or "", account.zones, labels, account.reservation_id or ""
