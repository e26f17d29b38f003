"""Pricing: GetProducts for on-demand instances, in the format of the price list.

Every instance type of the region is one product with shared tenancy; bare metal is also one with
dedicated tenancy at the same price, where some clients look for it. The region comes from the
filter `regionCode`, as one endpoint serves all regions. The list has only Linux without software,
used and on demand: filters for anything else match nothing.
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
    size_param="MaxResults",
    token_param="NextToken",
    max_size=100,
    default_size=100,
    invalid_size_code=INVALID_PARAMETER,
    invalid_token_code="InvalidNextTokenException",
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
"""Attributes of all products."""
FILTER_MATCHERS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "TERM_MATCH": lambda actual, expected: actual == expected,
    "EQUALS": lambda actual, expected: actual == expected,
    "CONTAINS": lambda actual, expected: expected in actual,
    "ANY_OF": lambda actual, expected: actual in expected.split(","),
    "NONE_OF": lambda actual, expected: actual not in expected.split(","),
}


class PriceSource(Protocol):
    """Where the prices come from."""

    def on_demand(self, region: str) -> Mapping[str, float]:
        """USD per hour of every instance type in the region; empty for unknown regions."""
        ...


class BuiltinPrices:
    """The built-in price table."""

    def on_demand(self, region: str) -> Mapping[str, float]:
        return _builtin_prices(region)


class PricingState(msgspec.Struct):
    """Empty: prices come from the price source."""


class PriceListProduct(msgspec.Struct, frozen=True):
    """A product without its price.

    Attributes are stored by lower-case name as well, as filters ignore case: lowering names for
    every filter of every request would be slow.
    """

    sku: str
    family: str
    attributes: dict[str, str]
    attributes_by_lower_name: dict[str, str]


class Pricing:
    name = "pricing"

    def __init__(self, context: AccountContext, price_source: PriceSource | None = None) -> None:
        self.state = PricingState()
        self._context = context
        self._price_source = price_source or BuiltinPrices()

    def operations(self) -> Mapping[str, OperationHandler]:
        return {"GetProducts": self.get_products}

    def get_products(self, params: Params) -> Response:
        if require_text(params, "ServiceCode", error_code=INVALID_PARAMETER) != SERVICE_CODE:
            raise AwsError("NotFoundException", "Only the prices of AmazonEC2 are known here.")
        filters = [_parse_filter(each) for each in params.get("Filters") or ()]
        region = self._region(filters)
        prices = self._price_source.on_demand(region)
        matching = [
            product
            for instance_type in sorted(prices)
            for product in list_products(instance_type, region)
            if all(product_filter.matches(product) for product_filter in filters)
        ]
        rows, token = PRODUCT_PAGINATION.paginate(matching, params)
        response: Response = {
            "FormatVersion": "aws_v1",
            "PriceList": [
                self._entry(product, prices[product.attributes["instanceType"]], region)
                for product in rows
            ],
        }
        return response if token is None else response | {"NextToken": token}

    def _region(self, filters: list["ProductFilter"]) -> str:
        region_codes = (each.value for each in filters if each.field == "regioncode" and each.exact)
        return next(region_codes, self._context.region)

    def _entry(self, product: PriceListProduct, price: float, region: str) -> str:
        """One entry of the price list: JSON as a string."""
        sku, since = product.sku, f"{to_datetime(self._context.now()):%Y-%m-01T00:00:00Z}"
        currency = "CNY" if region.startswith("cn-") else "USD"
        term, rate = f"{sku}.{ON_DEMAND_TERM}", f"{sku}.{ON_DEMAND_TERM}.{HOURLY_RATE}"
        instance_type = product.attributes["instanceType"]
        dimension = {
            "unit": "Hrs",
            "beginRange": "0",
            "endRange": "Inf",
            "description": f"${price:f} per On Demand Linux {instance_type} Instance Hour",
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
    """In lower case: clients write serviceCode where the list has servicecode."""
    value: str
    type: str

    @property
    def exact(self) -> bool:
        return self.type in ("TERM_MATCH", "EQUALS")

    def matches(self, product: PriceListProduct) -> bool:
        value = product.attributes_by_lower_name.get(self.field)
        return value is not None and FILTER_MATCHERS[self.type](value, self.value)


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


def _parse_filter(raw: Mapping[str, Any]) -> ProductFilter:
    kind = require_text(raw, "Type", error_code=INVALID_PARAMETER)
    field = require_text(raw, "Field", error_code=INVALID_PARAMETER).lower()
    if kind not in FILTER_MATCHERS:
        raise AwsError(
            INVALID_PARAMETER, f"Filter type {kind!r} is not one of {', '.join(FILTER_MATCHERS)}."
        )
    if field not in FILTER_FIELDS:
        raise AwsError(INVALID_PARAMETER, f"The field {raw['Field']!r} cannot be filtered by.")
    return ProductFilter(field, require_text(raw, "Value", error_code=INVALID_PARAMETER), kind)


@lru_cache(maxsize=8192)
def list_products(instance_type: str, region: str) -> tuple[PriceListProduct, ...]:
    """The products of the instance type; cached, as every request reads all of them."""
    type_info = instance_type_info.built_in_instance_types().get(instance_type)
    if type_info is not None and type_info.is_bare_metal:
        family = "Compute Instance (bare metal)"
        return tuple(
            _make_product(instance_type, type_info, region, family, tenancy)
            for tenancy in ("Shared", "Dedicated")
        )
    return (_make_product(instance_type, type_info, region, "Compute Instance", "Shared"),)


def _make_product(
    instance_type: str, type_info: InstanceTypeInfo | None, region: str, family: str, tenancy: str
) -> PriceListProduct:
    usage = "BoxUsage" if tenancy == "Shared" else "DedicatedUsage"
    sku = blake2b(f"{region} {instance_type} {tenancy}".encode(), digest_size=8).hexdigest().upper()
    attributes = COMMON_ATTRIBUTES | {
        "regionCode": region,
        "location": region,
        "tenancy": tenancy,
        "instanceType": instance_type,
        "instanceFamily": instance_type.partition(".")[0],
        "usagetype": f"{usage}:{instance_type}",
        **({} if type_info is None else _size_attributes(type_info)),
    }
    lowered = {name.lower(): value for name, value in attributes.items()}
    return PriceListProduct(
        sku, family, attributes, lowered | {"productfamily": family, "sku": sku}
    )


def _size_attributes(type_info: InstanceTypeInfo) -> dict[str, str]:
    return {"vcpu": str(type_info.vcpus), "memory": f"{type_info.memory_mib / 1024:g} GiB"}


@lru_cache(maxsize=64)
def _builtin_prices(region: str) -> Mapping[str, float]:
    """Cached, as every page of the price list reads all prices of the region."""
    if region not in regions.region_names():
        return {}
    return dict(_iter_prices(region))


def _iter_prices(region: str) -> Iterator[tuple[str, float]]:
    for instance_type in regions.load_region(region).offered:
        price = built_in_offerings.on_demand_list_price(instance_type, region)
        if price is not None:
            yield instance_type, price.usd
