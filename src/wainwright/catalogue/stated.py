"""What a Catalog states: types whose capacity, overhead and prices are taken as they are."""

from collections.abc import Mapping

import msgspec

from wainwright.api.cloud import Catalog, CatalogOffering, CatalogType
from wainwright.api.quantity import parse
from wainwright.catalogue.figure import Figure, Rule
from wainwright.catalogue.lots import Lot, ordered
from wainwright.catalogue.overhead import Overhead
from wainwright.catalogue.settings import Override
from wainwright.catalogue.shapes import Shape
from wainwright.model.labels import RESERVATION_ID
from wainwright.model.requirements import Requirements
from wainwright.model.resources import offered, requested


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """A type as the Catalog has it."""

    requirements: Requirements
    capacity: Mapping[str, int]
    overhead: Mapping[str, int]
    lots: tuple[Lot, ...]

    def shape(self, override: Override) -> Shape:
        """With what an InstanceType object adds: resources merged, overhead on top."""
        stated = {name: Figure(amount, Rule.STATED) for name, amount in self.capacity.items()}
        declared = {
            name: Figure(amount, Rule.DECLARED) for name, amount in override.resources.items()
        }
        return Shape(
            capacity=stated | declared,
            overhead=Overhead(
                kube_reserved={},
                system_reserved={},
                eviction={},
                declared=_figures(override.overhead, Rule.DECLARED_OVERHEAD),
                stated=_figures(self.overhead, Rule.STATED),
            ),
        )


def stated(catalog: Catalog) -> dict[str, Stated]:
    """Every type of the Catalog, in the order of names."""
    return {
        each.name: Stated(
            requirements=_requirements(each),
            capacity={name: offered(name, nano) for name, nano in _nanos(each.capacity)},
            overhead={name: requested(name, nano) for name, nano in _nanos(each.overhead or {})},
            lots=ordered(map(_lot, each.offerings or ())),
        )
        for each in sorted(catalog.instanceTypes, key=lambda each: each.name)
    }


def _figures(amounts: Mapping[str, int], rule: Rule) -> dict[str, Figure]:
    return {name: Figure(amount, rule) for name, amount in amounts.items()}


def _nanos(quantities: Mapping[str, int | str]) -> list[tuple[str, int]]:
    return [(name, parse(str(amount)).nano) for name, amount in sorted(quantities.items())]


def _requirements(stated: CatalogType) -> Requirements:
    return Requirements.from_entries(
        (each.key, each.operator, tuple(each.values or ()), None)
        for each in stated.requirements or ()
    )


def _lot(offering: CatalogOffering) -> Lot:
    """A reservation may be named by the label that its nodes get as well."""
    return Lot(
        requirements=Requirements.from_labels(offering.labels),
        price=offering.price,
        available=offering.available,
        reservation_id=offering.reservationID or offering.labels.get(RESERVATION_ID),
    )
