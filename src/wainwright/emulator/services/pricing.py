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

from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.offerings import built_in_offerings
from wainwright.emulator.api_conventions import require_text, to_datetime
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import ServicePagination
from wainwright.errors import AwsError

INVALID_PARAMETER: Final = "InvalidParameterException"
SERVICE_CODE: Final = "AmazonEC2"
ON_DEMAND_TERM, HOURLY_RATE = "JRTCKXETXF", "6YS6EN2CT7"  # how the price list names term and rate
PRODUCT_PAGINATION: Final = ServicePagination(
    size="MaxResults",
    token="NextToken",
    maximum=100,
    otherwise=100,
    bad_size=INVALID_PARAMETER,
    bad_token="InvalidNextTokenException",
)
COMMON_ATTRIBUTES: Final = {
    "servicecode": SERVICE_CODE,
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "licenseModel": "No License required",
    "operation": "RunInstances",
    "locationType": "AWS Region",
}
"""What all products have in common."""
FILTER_MATCHERS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "TERM_MATCH": lambda has, asked: has == asked,
    "EQUALS": lambda has, asked: has == asked,
    "CONTAINS": lambda has, asked: asked in has,
    "ANY_OF": lambda has, asked: has in asked.split(","),
    "NONE_OF": lambda has, asked: has not in asked.split(","),
}


class PriceSource(Protocol):
    """Where the prices come from."""

    def on_demand(self, region: str) -> Mapping[str, float]:
        """Dollars per hour of every type that is sold in the region; none in unknown regions."""
        ...


class BuiltinPrices:
    """The built-in price table."""

    def on_demand(self, region: str) -> Mapping[str, float]:
        return _builtin_prices(region)


class PricingState(msgspec.Struct):
    """Nothing: the prices are the book's."""


class PriceListProduct(msgspec.Struct, frozen=True):
    """What is sold, without its price; attributes by their names and by these in small letters."""

    sku: str
    family: str
    attributes: dict[str, str]
    lowered: dict[str, str]


class Pricing:
    name = "pricing"

    def __init__(self, context: AccountContext, price_source: PriceSource | None = None) -> None:
        self.state = PricingState()
        self._context = context
        self._price_source = price_source or BuiltinPrices()

    def operations(self) -> Mapping[str, OperationHandler]:
        return {"GetProducts": self.get_products}

    def get_products(self, params: Params) -> Response:
        if require_text(params, "ServiceCode", refused=INVALID_PARAMETER) != SERVICE_CODE:
            raise AwsError("NotFoundException", "Only the prices of AmazonEC2 are known here.")
        filters = [_parse_filter(each) for each in params.get("Filters") or ()]
        region = self._region(filters)
        priced = self._price_source.on_demand(region)
        found = [
            product
            for kind in sorted(priced)
            for product in list_products(kind, region)
            if all(wanted.admits(product) for wanted in filters)
        ]
        rows, token = PRODUCT_PAGINATION.cut(found, params)
        answer: Response = {
            "FormatVersion": "aws_v1",
            "PriceList": [
                self._entry(product, priced[product.attributes["instanceType"]], region)
                for product in rows
            ],
        }
        return answer if token is None else answer | {"NextToken": token}

    def _region(self, filters: list["ProductFilter"]) -> str:
        named = (each.value for each in filters if each.field == "regioncode" and each.exact)
        return next(named, self._context.region)

    def _entry(self, product: PriceListProduct, price: float, region: str) -> str:
        """One line of the price list: JSON within the JSON."""
        sku, since = product.sku, f"{to_datetime(self._context.now()):%Y-%m-01T00:00:00Z}"
        currency = "CNY" if region.startswith("cn-") else "USD"
        term, rate = f"{sku}.{ON_DEMAND_TERM}", f"{sku}.{ON_DEMAND_TERM}.{HOURLY_RATE}"
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
            "offerTermCode": ON_DEMAND_TERM,
            "termAttributes": {},
            "priceDimensions": {rate: dimension},
        }
        entry = {
            "product": {
                "sku": sku,
                "productFamily": product.family,
                "attributes": product.attributes,
            },
            "serviceCode": SERVICE_CODE,
            "terms": {"OnDemand": {term: offer}},
            "version": "1",
            "publicationDate": since,
        }
        return msgspec.json.encode(entry).decode()


class ProductFilter(msgspec.Struct, frozen=True):
    field: str
    """In small letters: clients write serviceCode where the list has servicecode."""
    value: str
    type: str

    @property
    def exact(self) -> bool:
        return self.type in ("TERM_MATCH", "EQUALS")

    def admits(self, product: PriceListProduct) -> bool:
        has = product.lowered.get(self.field)
        return has is not None and FILTER_MATCHERS[self.type](has, self.value)


FILTER_FIELDS: Final = frozenset(
    name.lower()
    for name in (
        *COMMON_ATTRIBUTES,
        "productFamily",
        "sku",
        "regionCode",
        "tenancy",
        "instanceType",
    )
) | {"instancefamily", "vcpu", "memory", "usagetype"}


def _parse_filter(given: Mapping[str, Any]) -> ProductFilter:
    kind = require_text(given, "Type", refused=INVALID_PARAMETER)
    field = require_text(given, "Field", refused=INVALID_PARAMETER).lower()
    if kind not in FILTER_MATCHERS:
        raise AwsError(
            INVALID_PARAMETER, f"Filter type {kind!r} is none of {', '.join(FILTER_MATCHERS)}."
        )
    if field not in FILTER_FIELDS:
        raise AwsError(INVALID_PARAMETER, f"The field {given['Field']!r} cannot be filtered by.")
    return ProductFilter(field, require_text(given, "Value", refused=INVALID_PARAMETER), kind)


@lru_cache(maxsize=8192)
def list_products(kind: str, region: str) -> tuple[PriceListProduct, ...]:
    """How the type is sold in the region."""
    machine = instance_type_info.built_in_instance_types().get(kind)
    if machine is not None and machine.is_bare_metal:
        family = "Compute Instance (bare metal)"
        return tuple(
            _make_product(kind, machine, region, family, at) for at in ("Shared", "Dedicated")
        )
    return (_make_product(kind, machine, region, "Compute Instance", "Shared"),)


def _make_product(
    kind: str, machine: InstanceTypeInfo | None, region: str, family: str, tenancy: str
) -> PriceListProduct:
    usage = "BoxUsage" if tenancy == "Shared" else "DedicatedUsage"
    sku = blake2b(f"{region} {kind} {tenancy}".encode(), digest_size=8).hexdigest().upper()
    attributes = COMMON_ATTRIBUTES | {
        "regionCode": region,
        "location": region,
        "tenancy": tenancy,
        "instanceType": kind,
        "instanceFamily": kind.partition(".")[0],
        "usagetype": f"{usage}:{kind}",
        **({} if machine is None else _size_attributes(machine)),
    }
    lowered = {name.lower(): value for name, value in attributes.items()}
    return PriceListProduct(
        sku, family, attributes, lowered | {"productfamily": family, "sku": sku}
    )


def _size_attributes(machine: InstanceTypeInfo) -> dict[str, str]:
    return {"vcpu": str(machine.vcpus), "memory": f"{machine.memory_mib / 1024:g} GiB"}


@lru_cache(maxsize=64)
def _builtin_prices(region: str) -> Mapping[str, float]:
    if region not in regions.region_names():
        return {}
    return dict(_iter_prices(region))


def _iter_prices(region: str) -> Iterator[tuple[str, float]]:
    for kind in regions.load_region(region).offered:
        price = built_in_offerings.on_demand_list_price(kind, region)
        if price is not None:
            yield kind, price.usd
