"""Overrides: what an InstanceType object puts in place of what the cloud says of one type."""

from collections.abc import Iterator, Mapping
from typing import Any

from wainwright.api.names import PRICE
from wainwright.api.overrides import InstanceType
from wainwright.api.quantity import parse
from wainwright.catalogue.lots import Layer, Lot, Step, ordered
from wainwright.catalogue.remarks import Remark, warning
from wainwright.catalogue.settings import Override
from wainwright.model.instance_type import UNLIMITED
from wainwright.model.labels import RESERVATION_ID, RESERVED, ZONE, ZONE_ID, normalised
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.resources import offered, requested


def override(item: InstanceType) -> Override:
    """Its resources and overhead, in whole units: what there is rounds down, what is taken up."""
    resources, overhead = item.spec.resources or {}, item.spec.overhead or {}
    return Override(
        resources={name: offered(name, _nano(resources[name])) for name in sorted(resources)},
        overhead={name: requested(name, _nano(overhead[name])) for name in sorted(overhead)},
    )


def _nano(quantity: int | str) -> int:
    return parse(str(quantity)).nano


def declared(
    item: InstanceType, lots: tuple[Lot, ...], zones: Mapping[str, str]
) -> tuple[tuple[Lot, ...], list[Remark]]:
    """The lots that the object declares, and the reserved ones that were there.

    They replace everything else as a whole: who lists offerings owns the list.
    """
    if item.spec.offerings is None:
        return lots, []
    remarks: list[Remark] = []
    made: list[Lot] = []
    for index, offering in enumerate(item.spec.offerings):
        found = list(_declared(item, index, _labels(offering, zones), lots))
        made += found
        remarks += _doubts(item, index, found)
    named = {lot.reservation_id for lot in made} - {None}
    kept = [lot for lot in lots if lot.reserved and lot.reservation_id not in named]
    return ordered([*made, *kept]), remarks


def _labels(offering: Mapping[str, Any], zones: Mapping[str, str]) -> dict[str, str]:
    """Its labels as text; a zone implies its id."""
    labels = {normalised(key): _text(value) for key, value in offering.items() if key != PRICE}
    known = zones.get(labels.get(ZONE, ""), "")
    return {ZONE_ID: known, **labels} if known else labels


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _declared(
    item: InstanceType, index: int, labels: dict[str, str], lots: tuple[Lot, ...]
) -> Iterator[Lot]:
    given = (item.spec.offerings or [])[index].get(PRICE)
    meant = [lot for lot in lots if not lot.reserved and _meant(lot, labels)]
    how = f"spec.offerings[{index}]"
    if given is None:
        for lot in meant:
            if lot.price is not None:
                step = _step(item, lot.price, lot.price, f"{how}, which keeps the price")
                yield _lot(lot.requirements, labels, (*lot.steps, step), lot.available)
    elif len(meant) == 1:
        step = _step(item, meant[0].price, float(str(given)), how)
        yield _lot(NO_REQUIREMENTS, labels, (*meant[0].steps, step))
    else:
        step = _step(item, None, float(str(given)), f"{how}, in place of {len(meant)} offerings")
        yield _lot(NO_REQUIREMENTS, labels, (step,))


def _meant(lot: Lot, labels: Mapping[str, str]) -> bool:
    """Whether the labels say nothing that the lot contradicts."""
    return all(lot.requirements.allowed(key).admits(value) for key, value in labels.items())


def _step(item: InstanceType, before: float | None, after: float, how: str) -> Step:
    return Step(
        layer=Layer.INSTANCE_TYPE,
        source=item.metadata.name,
        before=before,
        after=after,
        how=how,
    )


def _lot(
    basis: Requirements,
    labels: dict[str, str],
    steps: tuple[Step, ...],
    available: int = UNLIMITED,
) -> Lot:
    return Lot(
        requirements=basis.narrow(Requirements.from_labels(labels)),
        price=steps[-1].after,
        available=available,
        reservation_id=labels.get(RESERVATION_ID),
        steps=steps,
    )


def _doubts(item: InstanceType, index: int, made: list[Lot]) -> Iterator[Remark]:
    path, name = ("spec", "offerings", index), item.metadata.name
    if not made:
        message = "no price is known for this offering, so that nothing can be bought through it"
        yield warning("InstanceType", name, path, message, f"give it {PRICE}")
    if any(lot.capacity_type == RESERVED for lot in made):
        message = "a reserved offering without a capacity reservation behind it has no end"
        hint = "list the reservation in a Cloud, and select it in the EC2NodeClass"
        yield warning("InstanceType", name, path, message, hint)
