"""Pricing: GetProducts for on-demand instances, in the very shape of the price list.

Every type of the region is one product on shared hardware; bare metal is also one on dedicated
hardware at the same price, which is where some clients look for it. The region comes from the
filter `regionCode`, as one endpoint serves all regions. Nothing but Linux without software, used
and on demand, is on the list: whoever filters for something else finds nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from wainwright.catalogue import builtin, prices, regions
from wainwright.catalogue.machine import Machine
from wainwright.emulator.services.pages import Paging
from wainwright.emulator.services.requests import text
from wainwright.emulator.times import moment
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

INVALID: Final = "InvalidParameterException"
SERVICE: Final = "AmazonEC2"
ON_DEMAND, HOURLY = "JRTCKXETXF", "6YS6EN2CT7"  # how the price list names term and rate
PAGING: Final = Paging(
    size="MaxResults",
    token="NextToken",
    most=100,
    otherwise=100,
    bad_size=INVALID,
    bad_token="InvalidNextTokenException",
)
SAME: Final = {
    "servicecode": SERVICE,
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "licenseModel": "No License required",
    "operation": "RunInstances",
    "locationType": "AWS Region",
}
"""What all products have in common."""
MATCHES: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "TERM_MATCH": lambda has, asked: has == asked,
    "EQUALS": lambda has, asked: has == asked,
    "CONTAINS": lambda has, asked: asked in has,
    "ANY_OF": lambda has, asked: has in asked.split(","),
    "NONE_OF": lambda has, asked: has not in asked.split(","),
}


class Book(Protocol):
    """Where the prices come from."""

    def on_demand(self, region: str) -> Mapping[str, float]:
        """Dollars per hour of every type that is sold in the region; none in unknown regions."""
        ...


class ListPrices:
    """The built-in price table."""

    def on_demand(self, region: str) -> Mapping[str, float]:
        return _listed(region)


class PricingState(msgspec.Struct):
    """Nothing: the prices are the book's."""


class Product(msgspec.Struct, frozen=True):
    """What is sold, without its price; attributes by their names and by these in small letters."""

    sku: str
    family: str
    attributes: dict[str, str]
    lowered: dict[str, str]


class Pricing:
    name = "pricing"

    def __init__(self, world: World, book: Book | None = None) -> None:
        self.state = PricingState()
        self._world = world
        self._book = book or ListPrices()

    def operations(self) -> Mapping[str, Handler]:
        return {"GetProducts": self.get_products}

    def get_products(self, params: Params) -> Answer:
        if text(params, "ServiceCode", refused=INVALID) != SERVICE:
            raise AwsError("NotFoundException", "Only the prices of AmazonEC2 are known here.")
        filters = [_filter(each) for each in params.get("Filters") or ()]
        region = self._region(filters)
        priced = self._book.on_demand(region)
        found = [
            product
            for kind in sorted(priced)
            for product in products(kind, region)
            if all(wanted.admits(product) for wanted in filters)
        ]
        rows, token = PAGING.cut(found, params)
        answer: Answer = {
            "FormatVersion": "aws_v1",
            "PriceList": [
                self._entry(product, priced[product.attributes["instanceType"]], region)
                for product in rows
            ],
        }
        return answer if token is None else answer | {"NextToken": token}

    def _region(self, filters: list["Filter"]) -> str:
        named = (each.value for each in filters if each.field == "regioncode" and each.exact)
        return next(named, self._world.region)

    def _entry(self, product: Product, price: float, region: str) -> str:
        """One line of the price list: JSON within the JSON."""
        sku, since = product.sku, f"{moment(self._world.now()):%Y-%m-01T00:00:00Z}"
        currency = "CNY" if region.startswith("cn-") else "USD"
        term, rate = f"{sku}.{ON_DEMAND}", f"{sku}.{ON_DEMAND}.{HOURLY}"
        kind = product.attributes["instanceType"]
        dimension = {
            "unit": "Hrs",
            "beginRange": "0",
            "endRange": "Inf",
            "description": f"${price:f} per On Demand Linux {kind} Instance Hour",
            "appliesTo": [],
            "rateCode": rate,
            "pricePerUnit": {currency: f"{price:.10f}"},
        }
        offer = {
            "sku": sku,
            "effectiveDate": since,
            "offerTermCode": ON_DEMAND,
            "termAttributes": {},
            "priceDimensions": {rate: dimension},
        }
        entry = {
            "product": {
                "sku": sku,
                "productFamily": product.family,
                "attributes": product.attributes,
            },
            "serviceCode": SERVICE,
            "terms": {"OnDemand": {term: offer}},
            "version": "1",
            "publicationDate": since,
        }
        return msgspec.json.encode(entry).decode()


class Filter(msgspec.Struct, frozen=True):
    field: str
    """In small letters: clients write serviceCode where the list has servicecode."""
    value: str
    type: str

    @property
    def exact(self) -> bool:
        return self.type in ("TERM_MATCH", "EQUALS")

    def admits(self, product: Product) -> bool:
        has = product.lowered.get(self.field)
        return has is not None and MATCHES[self.type](has, self.value)


KNOWN: Final = frozenset(
    name.lower()
    for name in (*SAME, "productFamily", "sku", "regionCode", "tenancy", "instanceType")
) | {"instancefamily", "vcpu", "memory", "usagetype"}


def _filter(given: Mapping[str, Any]) -> Filter:
    kind = text(given, "Type", refused=INVALID)
    field = text(given, "Field", refused=INVALID).lower()
    if kind not in MATCHES:
        raise AwsError(INVALID, f"Filter type {kind!r} is none of {', '.join(MATCHES)}.")
    if field not in KNOWN:
        raise AwsError(INVALID, f"The field {given['Field']!r} cannot be filtered by.")
    return Filter(field, text(given, "Value", refused=INVALID), kind)


@lru_cache(maxsize=8192)
def products(kind: str, region: str) -> tuple[Product, ...]:
    """How the type is sold in the region."""
    machine = builtin.machines().get(kind)
    if machine is not None and machine.bare_metal:
        family = "Compute Instance (bare metal)"
        return tuple(_product(kind, machine, region, family, at) for at in ("Shared", "Dedicated"))
    return (_product(kind, machine, region, "Compute Instance", "Shared"),)


def _product(kind: str, machine: Machine | None, region: str, family: str, tenancy: str) -> Product:
    usage = "BoxUsage" if tenancy == "Shared" else "DedicatedUsage"
    sku = blake2b(f"{region} {kind} {tenancy}".encode(), digest_size=8).hexdigest().upper()
    attributes = SAME | {
        "regionCode": region,
        "location": region,
        "tenancy": tenancy,
        "instanceType": kind,
        "instanceFamily": kind.partition(".")[0],
        "usagetype": f"{usage}:{kind}",
        **({} if machine is None else _size(machine)),
    }
    lowered = {name.lower(): value for name, value in attributes.items()}
    return Product(sku, family, attributes, lowered | {"productfamily": family, "sku": sku})


def _size(machine: Machine) -> dict[str, str]:
    return {"vcpu": str(machine.vcpus), "memory": f"{machine.memory_mib / 1024:g} GiB"}


@lru_cache(maxsize=64)
def _listed(region: str) -> Mapping[str, float]:
    if region not in regions.names():
        return {}
    return dict(_priced(region))


def _priced(region: str) -> Iterator[tuple[str, float]]:
    for kind in regions.region(region).offered:
        price = prices.on_demand(kind, region)
        if price is not None:
            yield kind, price.usd
