"""The live catalog: what the account offers, kept up to date, as a source of catalogs.

Instance types, on-demand prices and spot prices are each refreshed every twelve hours. If that
fails, the known data stay in use, and that part is retried soon; until the first success the
built-in catalog is used.

Overlays, InstanceType objects, reservations, unavailable offerings and the settings of the class
work as they do offline. The memory of a node depends on the instance type and on the image, and no
API returns it before a node runs: the first node of each reports it, and from then on it replaces
the estimate, until the class boots another image.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from wainwright.aws.api.error_codes import is_access_denied
from wainwright.aws.api.services import AwsServices, Row
from wainwright.aws.instancetypes.account_offerings import (
    AccountOfferings,
    OfferingKey,
    RegionInstanceTypes,
    built_in_region,
    parse_region,
)
from wainwright.aws.instancetypes.pricing import PricingProvider, RegionPrices, SpotPrices
from wainwright.aws.nodeclass.status import ResolvedImage, select_image
from wainwright.catalogue.diagnostics import ObjectDiagnostic
from wainwright.catalogue.instancetypes.capacity import (
    ARM64_RESERVED_MIB,
    DerivedResources,
    NodeResources,
    derive_resources,
    node_resources_by_type,
    to_node_resources,
)
from wainwright.catalogue.instancetypes.derived_amount import MIB
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.instancetypes.node_class_settings import (
    NO_OVERRIDE,
    AmiFamilyTraits,
    Incompatibility,
    NodeClassSettings,
    ResourceOverride,
    find_incompatibility,
)
from wainwright.catalogue.offerings.layered_offering import BaseOfferings
from wainwright.clock import Clock
from wainwright.errors import AwsError, InvalidInputError, TemporarilyUnavailableError
from wainwright.model.requirements import Requirements
from wainwright.model.resources import MEMORY

DISCOVERED_CAPACITY_TTL: Final = 60 * 86_400.0  # seconds


class DiscoveredCapacity:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._memory: dict[tuple[str, str], tuple[int, float]] = {}
        self.version = 0
        """Changes whenever a recorded value changes; part of the cache key of catalogs."""

    def record(self, instance_type: str, image: str, memory: int) -> None:
        """Records the bytes of memory of a node; of several nodes the smallest counts."""
        if memory <= 0:
            return
        key = (instance_type, image)
        known = self._known(key)
        smallest = memory if known is None else min(known, memory)
        self._memory[key] = (smallest, self._clock.now() + DISCOVERED_CAPACITY_TTL)
        self.version += smallest != known

    def memory_by_type(
        self, type_requirements: Mapping[str, Requirements], images: Iterable[ResolvedImage]
    ) -> dict[str, int]:
        """The recorded memory of types with the image that the class boots on them."""
        class_images, types = tuple(images), {name for name, _ in self._memory}
        by_type: dict[str, int] = {}
        for name in sorted(types & type_requirements.keys()):
            image = select_image(class_images, type_requirements[name])
            memory = None if image is None else self._known((name, image.id))
            if memory is not None:
                by_type[name] = memory
        return by_type

    def _known(self, key: tuple[str, str]) -> int | None:
        memory, until = self._memory.get(key, (0, 0.0))
        return memory if until > self._clock.now() else None


REFRESH_INTERVAL: Final = 12 * 3600.0  # seconds
RETRY_INTERVAL: Final = 60.0

INSTANCE_TYPES, ON_DEMAND_PRICES, SPOT_PRICES = "instance types", "on-demand prices", "spot prices"


class AccountOfferingsProvider:
    def __init__(
        self,
        account: AwsServices,
        clock: Clock,
        region: str,
        *,
        price_list: bool = True,
        price_refresh: float = REFRESH_INTERVAL,
        modelled_prices: Collection[OfferingKey] = (),
    ) -> None:
        """Without the price list, on-demand prices are the built-in ones."""
        self._ec2 = account.ec2
        self._clock = clock
        self._region = region
        self._price_refresh = price_refresh
        self._modelled_prices = modelled_prices
        self._pricing = PricingProvider(account.ec2, account.prices, clock, region)
        self._due: dict[str, float] = dict.fromkeys(
            (INSTANCE_TYPES, ON_DEMAND_PRICES, SPOT_PRICES), 0.0
        )
        if not price_list:
            del self._due[ON_DEMAND_PRICES]
        self._region_types: RegionInstanceTypes | None = None
        self._on_demand: Mapping[str, float] | None = None
        self._spot: SpotPrices | None = None
        self._account_offerings: AccountOfferings | None = None
        self._is_current = False
        self.failures: dict[str, str] = {}
        """By part, why it is not up to date."""

    def account_offerings(self) -> AccountOfferings:
        """The current data; the same object until something changes, so that it can be cached by.

        TemporarilyUnavailableError in a region that neither EC2 has described yet nor the built-in
        catalog.
        """
        if self._account_offerings is None or not self._is_current:
            self._account_offerings = self._build_offerings(self._account_offerings)
            self._is_current = True
        return self._account_offerings

    def fetched_offerings(self) -> AccountOfferings:
        """The same, but never those of the built-in catalog, which may lack a type that EC2 has.

        TemporarilyUnavailableError as long as EC2 has not described its instance types.
        """
        if self._region_types is None:
            raise self._unknown_types_error()
        return self.account_offerings()

    def _build_offerings(self, previous: AccountOfferings | None) -> AccountOfferings:
        prices = RegionPrices(on_demand=self._on_demand, spot=self._spot)
        region_types = self._region_types or self._fallback()
        if previous is not None and previous.region_types == region_types:
            return previous.with_prices(prices)
        return AccountOfferings(self._region, region_types, prices, self._modelled_prices)

    @property
    def next_due(self) -> float:
        return min(self._due.values())

    @property
    def next_attempt(self) -> float:
        """When something that has just failed is to be tried again."""
        return min(self.next_due, self._clock.now() + RETRY_INTERVAL)

    async def refresh(self) -> bool:
        """Fetches the parts that are due; raises nothing, errors go to `failures`.

        Returns whether anything is other than before.
        """
        now = self._clock.now()
        fetchers: Mapping[str, Callable[[], Awaitable[bool]]] = {
            INSTANCE_TYPES: self._fetch_types,
            ON_DEMAND_PRICES: self._fetch_on_demand,
            SPOT_PRICES: self._fetch_spot,
        }
        due = [part for part, due_at in self._due.items() if due_at <= now]
        before = self._known()
        await asyncio.gather(*(self._refresh(part, fetchers[part]) for part in due))
        is_changed = self._known() != before
        if is_changed:
            self._is_current = False  # else catalogs that are cached by it stay as they are
        return is_changed

    def _known(self) -> tuple[object, ...]:
        return self._region_types, self._on_demand, self._spot

    async def _refresh(self, part: str, fetch: Callable[[], Awaitable[bool]]) -> None:
        try:
            fresh = await fetch()
            why = "" if fresh else "the answer was empty"
        except AwsError as error:
            why = error.message
        interval = REFRESH_INTERVAL if part == INSTANCE_TYPES else self._price_refresh
        self._due[part] = self._clock.now() + (RETRY_INTERVAL if why else interval)
        if why:
            self.failures[part] = why
        else:
            self.failures.pop(part, None)

    async def _fetch_types(self) -> bool:
        types, offered, zones = await asyncio.gather(
            self._ec2.describe_instance_types(),
            self._ec2.describe_instance_type_offerings(),
            self._zones(),
        )
        region_types = parse_region(types, offered, zones)
        if region_types.offered:
            self._region_types = region_types
        return bool(region_types.offered)

    async def _zones(self) -> list[Row]:
        """Only for their ids, which the subnets of a class have as well: optional."""
        try:
            return await self._ec2.describe_availability_zones()
        except AwsError as error:
            if is_access_denied(error):
                return []
            raise

    async def _fetch_on_demand(self) -> bool:
        prices = await self._pricing.on_demand()
        self._on_demand = prices or self._on_demand
        return bool(prices)

    async def _fetch_spot(self) -> bool:
        prices = await self._pricing.spot()
        self._spot = prices or self._spot
        return bool(prices)

    def _fallback(self) -> RegionInstanceTypes:
        try:
            return built_in_region(self._region)
        except InvalidInputError as error:
            raise self._unknown_types_error(error.hint) from error

    def _unknown_types_error(self, hint: str = "") -> TemporarilyUnavailableError:
        why = self.failures.get(INSTANCE_TYPES, "nobody has asked EC2 for them yet")
        message = f"the instance types of {self._region} are not known: {why}"
        return TemporarilyUnavailableError(message, hint, reason="NoInstanceTypes")


class AccountSource:
    """The account as the source of a class's catalog: in its zones, with what its nodes report."""

    is_document = False

    def __init__(
        self,
        account_offerings: AccountOfferings,
        zones: tuple[str, ...],
        discovered_memory: Mapping[str, int] | None = None,
    ) -> None:
        """`zones` are those with a subnet of the class, sorted; memory is in bytes, by type."""
        region_types = account_offerings.region_types
        self.region = account_offerings.region
        self.zones = {zone: region_types.zones.get(zone, "") for zone in zones}
        self.all_zones = frozenset(region_types.zones)
        self.base: BaseOfferings = account_offerings.offerings_in(zones)
        self.diagnostics: tuple[ObjectDiagnostic, ...] = ()
        self._account_offerings = account_offerings
        self._infos = region_types.instance_types
        self._discovered_memory = discovered_memory or {}

    @property
    def whole_region(self) -> "AccountSource":
        """In all zones: other classes have subnets in others of them."""
        account_offerings = self._account_offerings
        return AccountSource(account_offerings, tuple(account_offerings.region_types.zones))

    def type_requirements(self, traits: AmiFamilyTraits) -> Mapping[str, Requirements]:
        return self._account_offerings.type_requirements(traits)

    def find_incompatibility(
        self, name: str, settings: NodeClassSettings
    ) -> Incompatibility | None:
        return find_incompatibility(self._infos[name], settings)

    def node_resources(
        self, names: Iterable[str], settings: NodeClassSettings
    ) -> dict[str, NodeResources]:
        resources = node_resources_by_type({name: self._infos[name] for name in names}, settings)
        for name in self._discovered_memory.keys() & resources.keys():
            derived = self.derive_resources(name, settings, NO_OVERRIDE)
            resources[name] = to_node_resources(derived)
        return resources

    def derive_resources(
        self, name: str, settings: NodeClassSettings, override: ResourceOverride
    ) -> DerivedResources:
        """Discovered memory replaces the estimate, unless an object sets memory explicitly."""
        return derive_resources(
            self._infos[name], settings, self._with_discovered_memory(name, override)
        )

    def _with_discovered_memory(self, name: str, override: ResourceOverride) -> ResourceOverride:
        """It is expressed as VM overhead: the memory of the type less what its nodes have."""
        memory = self._discovered_memory.get(name)
        if memory is None or MEMORY in override.resources or MEMORY in override.overhead:
            return override
        vm_overhead = _advertised_memory(self._infos[name]) - memory
        return msgspec.structs.replace(
            override, overhead={**override.overhead, MEMORY: vm_overhead}
        )


def _advertised_memory(info: InstanceTypeInfo) -> int:
    """Bytes before VM overhead."""
    arm = ARM64_RESERVED_MIB if info.architecture == "arm64" else 0
    return (info.memory_mib - arm) * MIB
