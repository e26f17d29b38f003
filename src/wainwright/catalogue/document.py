"""The Catalog kind, printed: the same catalogue always gives the same bytes."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.requirements import Entry
from wainwright.model.resources import Resources, quantity_text

HEAD: Final = '{\n  "apiVersion": "wainwright.dev/v1alpha1",\n  "kind": "Catalog",\n'


def document(region: str, types: Iterable[InstanceType]) -> str:
    """A Catalog with one line for each label, offering and set of resources, so that it diffs."""
    printed = ",\n".join(map(_type, sorted(types, key=lambda kind: kind.name)))
    inside = f"\n{printed}\n  " if printed else ""
    return f'{HEAD}  "region": {_line(region)},\n  "instanceTypes": [{inside}]\n}}\n'


def _type(kind: InstanceType) -> str:
    taken = kind.overhead
    left = {name: amount - taken.get(name, 0) for name, amount in kind.capacity.items()}
    fields = (
        f'"name": {_line(kind.name)}',
        f'"requirements": {_list(map(_requirement, kind.requirements.entries()))}',
        f'"capacity": {_line(_quantities(kind.capacity))}',
        f'"overhead": {_line(_quantities(taken))}',
        f'"allocatable": {_line(_quantities(left))}',
        f'"offerings": {_list(map(_offering, kind.offerings))}',
    )
    return "    {\n      " + ",\n      ".join(fields) + "\n    }"


def _requirement(entry: Entry) -> dict[str, Any]:
    key, operator, values, _ = entry
    return {"key": key, "operator": operator, **({"values": values} if values else {})}


def _quantities(amounts: Resources) -> dict[str, str]:
    return {name: quantity_text(name, amounts[name]) for name in sorted(amounts)}


def _offering(offering: Offering) -> dict[str, Any]:
    return {
        "labels": {key: offering.requirements.only(key) for key in offering.requirements},
        "price": offering.price,
        "available": offering.available,
        "reservationID": offering.reservation_id,
    }


def _list(items: Iterator[dict[str, Any]]) -> str:
    lines = ",\n        ".join(map(_line, items))
    return f"[\n        {lines}\n      ]" if lines else "[]"


def _line(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
