"""The live catalog: refreshed, under the usual layers, with discovered memory."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import ResolverBench, discovered_node_class, run_in_virtual_time
from tests.support.catalogue_builders import catalog_inputs
from tests.support.emulator_accounts import ManualClock

from wainwright.api.catalog_documents import (
    Cloud,
    CloudReservation,
    CloudSpec,
    InstanceType,
    NodeOverlay,
    UnavailableOffering,
)
from wainwright.aws.instancetypes.account_offerings import (
    AccountOfferings,
    RegionInstanceTypes,
    built_in_region,
    parse_region,
)
from wainwright.aws.instancetypes.live_catalog import (
    AccountOfferingsProvider,
    AccountSource,
    DiscoveredCapacity,
)
from wainwright.aws.instancetypes.pricing import RegionPrices
from wainwright.aws.nodeclass.status import ResolvedImage
from wainwright.catalogue.class_catalog import CatalogBuilder, NodeClassCatalog
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.offerings.capacity_state import stated_capacity
from wainwright.catalogue.region_catalog import CatalogInputs, CatalogScope
from wainwright.clock import VirtualClock
from wainwright.emulator.faults import FaultRule
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import TemporarilyUnavailableError
from wainwright.model.requirements import Requirements

HOUR = 3600.0


def broken(operation: str, times: int | None = None, **more: Any) -> EmulatorSettings:
    fault = FaultRule(operation=operation, times=times, **{"code": "InternalError", **more})
    return EmulatorSettings(faults=(fault,))


def run(test: Any, settings: EmulatorSettings | None = None, **more: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        bench = ResolverBench(clock, settings=settings)
        await test(bench, AccountOfferingsProvider(bench.aws, clock, "us-east-1", **more))

    run_in_virtual_time(main)


def test_the_catalog_has_the_offerings_of_the_account() -> None:
    async def test(_: ResolverBench, live: AccountOfferingsProvider) -> None:
        await live.refresh()
        account_offerings = live.account_offerings()
        assert set(account_offerings.region_types.instance_types) == {
            "m5.large",
            "m6g.large",
            "g4dn.xlarge",
        }
        assert account_offerings.region_types.zones["us-east-1a"].startswith("use1-az")
        assert account_offerings.prices.on_demand
        assert account_offerings.prices.spot
        assert not live.failures

    run(test)


def test_the_catalog_is_refreshed_every_twelve_hours() -> None:
    async def test(bench: ResolverBench, live: AccountOfferingsProvider) -> None:
        await live.refresh()
        first = live.account_offerings()
        await bench.clock.sleep(12 * HOUR - 1)
        await live.refresh()
        assert live.account_offerings() is first
        assert bench.count("DescribeSpotPriceHistory") == 1
        await bench.clock.sleep(1)
        assert not await live.refresh()
        assert live.account_offerings() is first  # so that catalogs made of it stay
        assert bench.count("DescribeInstanceTypeOfferings") == 2
        assert bench.count("DescribeSpotPriceHistory") == 2

    run(test)


def test_prices_that_have_changed_make_another_catalog() -> None:
    async def test(bench: ResolverBench, live: AccountOfferingsProvider) -> None:
        await live.refresh()
        first = live.account_offerings()
        price = {"instanceType": "m5.large", "capacityType": "on-demand", "price": 9.0}
        bench.cloud.change({"prices": [price]})
        await bench.clock.sleep(12 * HOUR)
        assert await live.refresh()
        assert live.account_offerings() is not first
        assert live.account_offerings().on_demand_price("m5.large") == 9.0

    run(test)


def test_the_built_in_catalog_is_used_until_the_first_refresh() -> None:
    async def test(_: ResolverBench, live: AccountOfferingsProvider) -> None:
        assert len(live.account_offerings().region_types.instance_types) > 1000
        await live.refresh()
        assert set(live.failures) == {"instance types"}
        account_offerings = live.account_offerings()
        assert len(account_offerings.region_types.instance_types) > 1000
        assert account_offerings.prices.on_demand  # these were fetched

    run(test, broken("DescribeInstanceTypes"))


def test_only_the_failed_part_is_retried_soon() -> None:
    async def test(bench: ResolverBench, live: AccountOfferingsProvider) -> None:
        await live.refresh()
        assert "InternalError" in live.failures["spot prices"]
        assert live.account_offerings().prices.spot is None
        await bench.clock.sleep(60)
        await live.refresh()
        assert live.account_offerings().prices.spot
        assert not live.failures
        assert bench.count("DescribeInstanceTypes") == 1

    run(test, broken("DescribeSpotPriceHistory", times=1))


def test_old_prices_stay_if_a_refresh_fails() -> None:
    async def test(bench: ResolverBench, live: AccountOfferingsProvider) -> None:
        await live.refresh()
        before = live.account_offerings().prices
        await bench.clock.sleep(12 * HOUR)
        bench.cloud.change({"faults": [{"operation": "GetProducts", "code": "InternalError"}]})
        await live.refresh()
        assert live.failures
        assert live.account_offerings().prices.on_demand == before.on_demand

    run(test)


def test_without_access_the_price_list_is_not_called() -> None:
    async def test(bench: ResolverBench, live: AccountOfferingsProvider) -> None:
        await live.refresh()
        assert bench.count("GetProducts") == 0
        assert live.account_offerings().on_demand_price("m5.large") == 0.096
        assert live.account_offerings().prices.spot

    run(test, price_list=False)


def test_missing_zone_ids_are_not_a_failure() -> None:
    async def test(_: ResolverBench, live: AccountOfferingsProvider) -> None:
        await live.refresh()
        assert not live.failures
        assert set(live.account_offerings().region_types.zones.values()) == {""}

    run(test, broken("DescribeAvailabilityZones", code="UnauthorizedOperation", status=403))


def test_an_unknown_region_must_be_described_first() -> None:
    async def main(clock: VirtualClock) -> None:
        bench = ResolverBench(clock)
        live = AccountOfferingsProvider(bench.aws, clock, "mars-north-1")
        with pytest.raises(TemporarilyUnavailableError, match="mars-north-1"):
            live.account_offerings()
        await live.refresh()
        assert live.account_offerings().region_types.offered

    run_in_virtual_time(main)


REGION = "us-west-2"
ZONES = ("us-west-2a", "us-west-2b")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 2**30
CLOUD = CloudSpec(
    region=REGION,
    capacityReservations=[
        CloudReservation(
            id="cr-1",
            instanceType="m5.large",
            availabilityZone="us-west-2a",
            total=3,
            available=2,
            tags={"team": "web"},
        )
    ],
    unavailable=[
        UnavailableOffering(instanceType="c5.large", zone="us-west-2b", capacityType="spot")
    ],
)
OVERRIDES: dict[str, Any] = {
    "instance_types": (
        msgspec.convert(
            {
                "metadata": {"name": "m5.xlarge"},
                "spec": {"overhead": {"memory": "200Mi"}, "resources": {"example.com/fpga": "2"}},
            },
            InstanceType,
        ),
    ),
    "overlays": (
        msgspec.convert(
            {
                "metadata": {"name": "discount"},
                "spec": {
                    "requirements": [
                        {
                            "key": "karpenter.k8s.aws/instance-family",
                            "operator": "In",
                            "values": ["m5"],
                        }
                    ],
                    "priceAdjustment": "-10%",
                },
            },
            NodeOverlay,
        ),
    ),
}
CLASSES = {
    "plain": {},
    "reserving": {"capacityReservationSelectorTerms": [{"tags": {"team": "web"}}]},
    "bottlerocket": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
    "windows": {"amiSelectorTerms": [{"alias": "windows2022@latest"}]},
    "few pods": {"kubelet": {"maxPods": 20, "kubeReserved": {"cpu": "1"}}},
}


def live(
    account_offerings: AccountOfferings, memory: dict[str, int] | None = None, **more: Any
) -> NodeClassCatalog:
    spec, zones = more.pop("spec", {}), more.pop("zones", ZONES)
    inputs = CatalogInputs(
        source=AccountSource(account_offerings, zones, memory),
        capacity=stated_capacity(Cloud(spec=CLOUD), NOW),
        **more,
    )
    return CatalogBuilder(inputs).build(CatalogScope(node_class=discovered_node_class(**spec)))


@pytest.mark.parametrize("spec", CLASSES.values(), ids=CLASSES)
def test_with_built_in_types_it_equals_the_built_in_catalog(spec: dict[str, Any]) -> None:
    cloud = Cloud(spec=msgspec.structs.replace(CLOUD, zones=list(ZONES)))
    inputs = catalog_inputs(cloud=cloud, **OVERRIDES)
    expected = CatalogBuilder(inputs).build(CatalogScope(node_class=discovered_node_class(**spec)))
    found = live(AccountOfferings(REGION, built_in_region(REGION)), spec=spec, **OVERRIDES)
    assert found.types == expected.types
    assert found.zones == expected.zones
    assert found.reservations == expected.reservations
    assert found.incompatible == expected.incompatible
    assert found.settings == expected.settings


def few(*names: str) -> RegionInstanceTypes:
    whole = built_in_region(REGION)
    return RegionInstanceTypes(
        instance_types={name: whole.instance_types[name] for name in names},
        zones=whole.zones,
        offered={name: whole.offered[name] for name in sorted(names)},
    )


def prices_of(built: NodeClassCatalog, name: str) -> dict[tuple[str | None, str | None], float]:
    return {(each.zone, each.capacity_type): each.price for each in built.by_name[name].offerings}


def test_current_prices_replace_the_built_in_ones() -> None:
    prices = RegionPrices(on_demand={"m5.large": 1.0}, spot={("m5.large", "us-west-2a"): 0.5})
    found = live(AccountOfferings(REGION, few("m5.large", "c5.large"), prices))
    assert prices_of(found, "m5.large") == {
        ("us-west-2a", "on-demand"): 1.0,
        ("us-west-2b", "on-demand"): 1.0,
        ("us-west-2a", "spot"): 0.5,
    }
    usual = prices_of(found, "c5.large")
    assert usual["us-west-2a", "on-demand"] == 0.085  # not in the current price list
    assert ("us-west-2a", "spot") not in usual  # but spot is only offered where it has a price


def test_an_offering_without_a_price_exists_but_cannot_be_launched() -> None:
    prices = RegionPrices(on_demand={"m5.large": 1.0}, spot={("m5.large", "us-west-2a"): 0.5})
    source = AccountSource(AccountOfferings(REGION, few("m5.large"), prices), ZONES)
    inputs = CatalogInputs(source=source, capacity=stated_capacity(None, NOW))
    scope = CatalogScope(node_class=discovered_node_class())
    existing = CatalogBuilder(inputs).existing_offerings(scope)["m5.large"]
    assert ("us-west-2b", "spot") in {(each.zone, each.capacity_type) for each in existing}
    assert ("us-west-2b", "spot") not in prices_of(CatalogBuilder(inputs).build(scope), "m5.large")


def test_a_type_missing_in_the_built_in_catalog_can_be_launched() -> None:
    new = msgspec.structs.replace(
        instance_type_info.built_in_instance_types()["m5.large"], name="m99.large", vcpus=4
    )
    known = few("m5.large")
    fresh = RegionInstanceTypes(
        instance_types={**known.instance_types, "m99.large": new},
        zones=known.zones,
        offered={**known.offered, "m99.large": ("us-west-2a",)},
    )
    found = live(AccountOfferings(REGION, fresh, RegionPrices(on_demand={"m99.large": 0.2})))
    kind = found.by_name["m99.large"]
    assert kind.capacity["cpu"] == 4000
    assert kind.requirements.single_value("karpenter.k8s.aws/instance-generation") == "99"
    assert prices_of(found, "m99.large")["us-west-2a", "on-demand"] == 0.2


def test_zones_have_the_ids_of_the_account() -> None:
    types = few("m5.large")
    moved = RegionInstanceTypes(
        instance_types=types.instance_types,
        zones={"us-west-2a": "usw2-az3", "us-west-2b": "usw2-az1"},
        offered={"m5.large": ZONES},
    )
    found = live(AccountOfferings(REGION, moved))
    assert found.zones == {"us-west-2a": "usw2-az3", "us-west-2b": "usw2-az1"}
    ids = {
        each.requirements.single_value("topology.k8s.aws/zone-id")
        for each in found.by_name["m5.large"].offerings
        if each.zone == "us-west-2a"
    }
    assert ids == {"usw2-az3"}


@pytest.mark.parametrize("name", ["m5.large", "m6g.large"])
def test_discovered_memory_replaces_the_estimate(name: str) -> None:
    account_offerings = AccountOfferings(REGION, few("m5.large", "m6g.large"))
    plain, seen = live(account_offerings), live(account_offerings, {name: 7 * GIB})
    assert plain.by_name[name].capacity["memory"] != 7 * GIB
    kind = seen.by_name[name]
    assert kind.capacity["memory"] == 7 * GIB
    assert kind.overhead == plain.by_name[name].overhead
    assert kind.allocatable["memory"] == 7 * GIB - kind.overhead["memory"]
    other = {"m5.large": "m6g.large", "m6g.large": "m5.large"}[name]
    assert seen.by_name[other] == plain.by_name[other]


@pytest.mark.parametrize(
    "spec", [{"overhead": {"memory": "1Gi"}}, {"resources": {"memory": "6Gi"}}]
)
def test_explicit_memory_takes_precedence_over_discovered_memory(spec: dict[str, Any]) -> None:
    item = msgspec.convert({"metadata": {"name": "m5.large"}, "spec": spec}, InstanceType)
    account_offerings = AccountOfferings(REGION, few("m5.large"))
    found = live(account_offerings, {"m5.large": 5 * GIB}, instance_types=(item,))
    stated = live(account_offerings, instance_types=(item,))
    assert found.by_name["m5.large"].capacity == stated.by_name["m5.large"].capacity


def test_stated_allocatable_takes_precedence_over_discovered_memory() -> None:
    spec = {"allocatable": {"memory": "5Gi", "cpu": "1"}}
    item = msgspec.convert({"metadata": {"name": "m5.large"}, "spec": spec}, InstanceType)
    account_offerings = AccountOfferings(REGION, few("m5.large"))
    found = live(account_offerings, {"m5.large": 6 * GIB}, instance_types=(item,))
    kind = found.by_name["m5.large"]
    assert (kind.allocatable["memory"], kind.allocatable["cpu"]) == (5 * GIB, 1000)
    assert kind.capacity["memory"] == 6 * GIB


def test_a_region_is_parsed_from_three_responses() -> None:
    zones = [{"ZoneName": "us-west-2a", "ZoneId": "usw2-az1"}]
    offered = [
        {"InstanceType": "m5.large", "Location": "us-west-2b"},
        {"InstanceType": "m5.large", "Location": "us-west-2a"},
        {"InstanceType": "unheard.of", "Location": "us-west-2a"},
    ]
    row = {
        "InstanceType": "m5.large",
        "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 8192},
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "NetworkInfo": {
            "NetworkCards": [{"MaximumNetworkInterfaces": 3}],
            "MaximumNetworkInterfaces": 3,
            "Ipv4AddressesPerInterface": 10,
        },
    }
    found = parse_region([row], offered, zones)
    assert found.offered == {"m5.large": ("us-west-2a", "us-west-2b")}
    assert found.zones == {"us-west-2a": "usw2-az1", "us-west-2b": ""}


LARGE, XLARGE = "m5.large", "m5.xlarge"
TYPE_REQUIREMENTS = {
    name: Requirements.from_labels({"kubernetes.io/arch": "amd64", "type": name})
    for name in (LARGE, XLARGE)
}


def image(name: str, arch: str = "amd64") -> ResolvedImage:
    labels = Requirements.from_labels({"kubernetes.io/arch": arch})
    return ResolvedImage(id=name, name=name, requirements=labels)


def test_discovered_memory_is_per_type_and_image() -> None:
    found = DiscoveredCapacity(ManualClock())
    found.record(LARGE, "ami-1", 7_000)
    assert found.memory_by_type(TYPE_REQUIREMENTS, [image("ami-1")]) == {LARGE: 7_000}
    assert found.memory_by_type(TYPE_REQUIREMENTS, [image("ami-2"), image("ami-1")]) == {}
    assert found.memory_by_type(TYPE_REQUIREMENTS, [image("ami-9", "arm64"), image("ami-1")]) == {
        LARGE: 7_000
    }


def test_the_smallest_discovered_memory_is_used() -> None:
    found = DiscoveredCapacity(ManualClock())
    for memory in (7_000, 6_900, 7_100):
        found.record(LARGE, "ami-1", memory)
    assert found.memory_by_type(TYPE_REQUIREMENTS, [image("ami-1")]) == {LARGE: 6_900}


def test_a_node_without_memory_is_ignored() -> None:
    found = DiscoveredCapacity(ManualClock())
    found.record(LARGE, "ami-1", 0)
    assert found.memory_by_type(TYPE_REQUIREMENTS, [image("ami-1")]) == {}
    assert found.version == 0


def test_the_version_changes_only_with_the_value() -> None:
    found = DiscoveredCapacity(ManualClock())
    found.record(LARGE, "ami-1", 7_000)
    first = found.version
    found.record(LARGE, "ami-1", 7_000)
    found.record(LARGE, "ami-1", 8_000)
    assert found.version == first
    found.record(LARGE, "ami-1", 6_000)
    assert found.version != first


def test_discovered_memory_expires_after_two_months() -> None:
    clock = ManualClock()
    found = DiscoveredCapacity(clock)
    found.record(LARGE, "ami-1", 7_000)
    clock.time += 60 * 86_400
    assert found.memory_by_type(TYPE_REQUIREMENTS, [image("ami-1")]) == {}
    found.record(LARGE, "ami-1", 7_500)
    assert found.memory_by_type(TYPE_REQUIREMENTS, [image("ami-1")]) == {LARGE: 7_500}


def reserved_price(built: NodeClassCatalog) -> float:
    return next(each.price for each in built.by_name["m5.large"].offerings if each.reservation_id)


def test_reserved_prices_do_not_depend_on_the_zones_of_the_class() -> None:
    spot = {("m5.large", "us-west-2a"): 0.5, ("c5.large", "us-west-2c"): 0.01}
    prices = RegionPrices(on_demand={"m5.large": 1.0, "c5.large": 4.0}, spot=spot)
    account_offerings = AccountOfferings(REGION, few("m5.large", "c5.large"), prices)
    found = [
        reserved_price(live(account_offerings, zones=zones, spec=CLASSES["reserving"]))
        for zones in (ZONES, (*ZONES, "us-west-2c"))
    ]
    assert found == [pytest.approx(1.0 / (4.0 / 0.01) / 1e6)] * 2


def test_an_offering_in_a_zone_without_a_subnet_of_the_class_is_not_available() -> None:
    declared = msgspec.convert(
        {
            "metadata": {"name": "m5.large"},
            "spec": {
                "offerings": [
                    {"topology.kubernetes.io/zone": zone, "karpenter.sh/price": price}
                    for zone, price in (("us-west-2a", 2), ("us-west-2c", 1), ("us-west-2z", 1))
                ]
            },
        },
        InstanceType,
    )
    account_offerings = AccountOfferings(REGION, few("m5.large"))
    found = live(account_offerings, instance_types=(declared,))
    assert prices_of(found, "m5.large") == {("us-west-2a", None): 2}
    about_the_object = [each for each in found.diagnostics if each.kind == "InstanceType"]
    assert list(map(str, about_the_object)) == [
        "InstanceType m5.large: spec.offerings[1]: this offering is not available: "
        "the class has no subnet with free addresses in us-west-2c",
        "InstanceType m5.large: spec.offerings[2]: this offering is not available: "
        "us-west-2 has no zone us-west-2z",
    ]
