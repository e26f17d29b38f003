"""The live catalog: what the account offers, kept up to date, under the usual layers of a catalog.

Instance types, on-demand prices and spot prices are each refreshed every twelve hours. Where that
fails, what is known goes on being used, and that part is asked for again soon; until it was there
once, the built-in catalog stands in.

Overlays, InstanceType objects, reservations, unavailable offerings and the rules of the class work
as they do offline. How much memory a node has depends on the type and on the image, and no API says
it before a node runs: the first node of each says it, and from then on it takes the place of the
estimate, until the class boots another image.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import Final

import msgspec

from wainwright.aws.api.error_codes import is_access_denied
from wainwright.aws.api.seam import Row
from wainwright.aws.api.services import AwsServices
from wainwright.aws.instancetypes.account_offerings import (
    AccountOfferings,
    RegionInstanceTypes,
    built_in_region,
    parse_region,
)
from wainwright.aws.instancetypes.pricing import PricingProvider, RegionPrices, SpotPrices
from wainwright.aws.nodeclass.status import ResolvedImage, select_image
from wainwright.catalogue.class_catalog import CatalogBuilder
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
from wainwright.catalogue.offerings.built_in_offerings import BuiltInOfferings
from wainwright.catalogue.offerings.layered_offering import LayeredOfferings
from wainwright.catalogue.offerings.overrides import parse_resource_override
from wainwright.catalogue.region_catalog import (
    CatalogInputs,
    PoolOfferings,
    RegionCatalog,
    SharedLayers,
)
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
        """Another number whenever something else is known than before."""

    def record_discovered_capacity(self, instance_type: str, image: str, memory: int) -> None:
        """A node has so many bytes; of several that differ the smallest counts."""
        if memory <= 0:
            return
        key = (instance_type, image)
        known = self._known(key)
        least = memory if known is None else min(known, memory)
        self._memory[key] = (least, self._clock.now() + DISCOVERED_CAPACITY_TTL)
        self.version += least != known

    def of(
        self, kinds: Mapping[str, Requirements], images: Iterable[ResolvedImage]
    ) -> dict[str, int]:
        """By type, where its nodes with the image that the class boots on it are known."""
        listed, types = tuple(images), {name for name, _ in self._memory}
        found: dict[str, int] = {}
        for name in sorted(types & kinds.keys()):
            image = select_image(listed, kinds[name])
            memory = None if image is None else self._known((name, image.id))
            if memory is not None:
                found[name] = memory
        return found

    def _known(self, key: tuple[str, str]) -> int | None:
        memory, until = self._memory.get(key, (0, 0.0))
        return memory if until > self._clock.now() else None


REFRESH_INTERVAL: Final = 12 * 3600.0  # seconds
RETRY_INTERVAL: Final = 60.0

INSTANCE_TYPES, ON_DEMAND_PRICES, SPOT_PRICES = "instance types", "on-demand prices", "spot prices"


class AccountOfferingsProvider:
    def __init__(
        self, account: AwsServices, clock: Clock, region: str, *, price_list: bool = True
    ) -> None:
        """Without a way to the price list on-demand prices are the built-in ones."""
        self._ec2 = account.ec2
        self._clock = clock
        self._region = region
        self._book = PricingProvider(account.ec2, account.prices, clock, region)
        self._due: dict[str, float] = dict.fromkeys(
            (INSTANCE_TYPES, ON_DEMAND_PRICES, SPOT_PRICES), 0.0
        )
        if not price_list:
            del self._due[ON_DEMAND_PRICES]
        self._region_types: RegionInstanceTypes | None = None
        self._on_demand: Mapping[str, float] | None = None
        self._spot: SpotPrices | None = None
        self._account_offerings: AccountOfferings | None = None
        self.failures: dict[str, str] = {}
        """By part, why it is not up to date."""

    def account_offerings(self) -> AccountOfferings:
        """What is known at this moment; the same object until something changes.

        TemporarilyUnavailableError in a region that neither EC2 has described yet nor the built-in
        catalog.
        """
        if self._account_offerings is None:
            prices = RegionPrices(on_demand=self._on_demand, spot=self._spot)
            self._account_offerings = AccountOfferings(
                self._region, self._region_types or self._fallback(), prices
            )
        return self._account_offerings

    async def refresh(self) -> None:
        """Asks for what is due; nothing is raised, `failures` tells."""
        now = self._clock.now()
        asks: Mapping[str, Callable[[], Awaitable[bool]]] = {
            INSTANCE_TYPES: self._ask_types,
            ON_DEMAND_PRICES: self._ask_on_demand,
            SPOT_PRICES: self._ask_spot,
        }
        due = [part for part, moment in self._due.items() if moment <= now]
        await asyncio.gather(*(self._refresh(part, asks[part]) for part in due))

    async def _refresh(self, part: str, ask: Callable[[], Awaitable[bool]]) -> None:
        try:
            fresh = await ask()
            why = "" if fresh else "the answer was empty"
        except AwsError as error:
            why = error.message
        self._due[part] = self._clock.now() + (RETRY_INTERVAL if why else REFRESH_INTERVAL)
        if why:
            self.failures[part] = why
        else:
            self.failures.pop(part, None)
            self._account_offerings = None

    async def _ask_types(self) -> bool:
        types, offered, zones = await asyncio.gather(
            self._ec2.describe_instance_types(),
            self._ec2.describe_instance_type_offerings(),
            self._zones(),
        )
        found = parse_region(types, offered, zones)
        if found.offered:
            self._region_types = found
        return bool(found.offered)

    async def _zones(self) -> list[Row]:
        """Only for their ids, which the subnets of a class state as well."""
        try:
            return await self._ec2.describe_availability_zones()
        except AwsError as error:
            if is_access_denied(error):
                return []
            raise

    async def _ask_on_demand(self) -> bool:
        found = await self._book.on_demand()
        self._on_demand = found or self._on_demand
        return bool(found)

    async def _ask_spot(self) -> bool:
        found = await self._book.spot()
        self._spot = found or self._spot
        return bool(found)

    def _fallback(self) -> RegionInstanceTypes:
        try:
            return built_in_region(self._region)
        except InvalidInputError as error:
            why = self.failures.get(INSTANCE_TYPES, "nobody has asked EC2 for them yet")
            message = f"the instance types of {self._region} are not known: {why}"
            raise TemporarilyUnavailableError(
                message, error.hint, reason="NoInstanceTypes"
            ) from error


class LiveCatalogInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What the layers lie on, for one class."""

    account_offerings: AccountOfferings
    zones: tuple[str, ...]
    """Where the class has subnets, in order."""
    memory: Mapping[str, int] = {}
    """Bytes that nodes were found to have, by type."""

    @property
    def base(self) -> BuiltInOfferings:
        return self.account_offerings.base(self.zones)

    def machine(self, name: str) -> InstanceTypeInfo:
        return self.account_offerings.region_types.machines[name]

    def seen(self, name: str, own: ResourceOverride = NO_OVERRIDE) -> ResourceOverride:
        """With the memory that was found, unless somebody has stated it.

        It goes in as what the virtual machine keeps: the type's memory less what its nodes have.
        """
        found = self.memory.get(name)
        if found is None or MEMORY in own.resources or MEMORY in own.overhead:
            return own
        kept = _advertised_memory(self.machine(name)) - found
        return msgspec.structs.replace(own, overhead={**own.overhead, MEMORY: kept})


def _advertised_memory(machine: InstanceTypeInfo) -> int:
    """Bytes before the virtual machine has taken its share."""
    arm = ARM64_RESERVED_MIB if machine.architecture == "arm64" else 0
    return (machine.memory_mib - arm) * MIB


class LiveBaseCatalog(SharedLayers):
    """Everything that does not depend on the class's rules."""

    def __init__(self, supply: CatalogInputs, live_inputs: LiveCatalogInputs) -> None:
        super().__init__(supply)
        self._live_inputs = live_inputs

    @cached_property
    def region_catalog(self) -> RegionCatalog:
        listed = self._live_inputs.account_offerings.region_types.zones
        return RegionCatalog(
            region=self._live_inputs.account_offerings.region,
            zones={zone: listed.get(zone, "") for zone in self._live_inputs.zones},
            all_zones=frozenset(listed),
            offerings=self._live_inputs.base.offerings,
            catalog_types=None,
        )

    def type_requirements(self, traits: AmiFamilyTraits) -> Mapping[str, Requirements]:
        return self._live_inputs.account_offerings.described(traits)


class LiveCatalogBuilder(CatalogBuilder):
    """The catalogues of all pools that share a class."""

    def __init__(self, supply: CatalogInputs, live_inputs: LiveCatalogInputs) -> None:
        super().__init__(supply)
        self._shared_layers = LiveBaseCatalog(supply, live_inputs)
        self._live_inputs = live_inputs
        self._known: list[tuple[NodeClassSettings, dict[str, NodeResources]]] = []

    def _incompatible(
        self, settings: NodeClassSettings | None, lots: LayeredOfferings
    ) -> dict[str, Incompatibility]:
        found = {
            name: find_incompatibility(
                self._live_inputs.machine(name), settings or NodeClassSettings()
            )
            for name in lots
        }
        return {name: why for name, why in found.items() if why is not None}

    def _class_resources(self, settings: NodeClassSettings | None) -> dict[str, NodeResources]:
        settings, names = settings or NodeClassSettings(), self._live_inputs.base.offerings
        for known, found in self._known:
            if known == settings:
                return found
        made = node_resources_by_type(
            {name: self._live_inputs.machine(name) for name in names}, settings
        )
        for name in self._live_inputs.memory.keys() & made.keys():
            seen = self._live_inputs.seen(name)
            made[name] = to_node_resources(
                derive_resources(self._live_inputs.machine(name), settings, seen)
            )
        self._known.append((settings, made))
        return made

    def _overridden_resources(
        self, name: str, settings: NodeClassSettings | None, pool_offerings: PoolOfferings
    ) -> NodeResources:
        """An InstanceType object wins over an overlay by resource, and both over real nodes."""
        item = self._shared_layers.declarations.get(name)
        own = NO_OVERRIDE if item is None else parse_resource_override(item)
        machine, seen = self._live_inputs.machine(name), self._live_inputs.seen(name, own)
        made = derive_resources(machine, settings or NodeClassSettings(), seen)
        overlaid = pool_offerings.overlay_capacity.get(name, {})
        added = {key: overlaid[key] for key in overlaid if key not in own.resources}
        return to_node_resources(
            DerivedResources(capacity={**made.capacity, **added}, overhead=made.overhead)
        )

    def _built_in_offerings(self) -> BuiltInOfferings | None:
        return self._live_inputs.base
