"""The live catalogue under the usual layers: the same rules on other goods."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.support.awsclasses import node_class

from wainwright.api.cloud import Cloud, CloudSpec, Reservation, Unavailable
from wainwright.api.overrides import InstanceType, NodeOverlay
from wainwright.aws.layering import Ground, LiveCatalogues
from wainwright.aws.market import Listing, Market, built_in, listing
from wainwright.aws.prices import Prices
from wainwright.catalogue import builtin
from wainwright.catalogue.built import Built
from wainwright.catalogue.layers import Catalogues
from wainwright.catalogue.supply import Scope, Supply

REGION = "us-west-2"
ZONES = ("us-west-2a", "us-west-2b")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 2**30
CLOUD = CloudSpec(
    region=REGION,
    capacityReservations=[
        Reservation(
            id="cr-1",
            instanceType="m5.large",
            availabilityZone="us-west-2a",
            total=3,
            available=2,
            tags={"team": "web"},
        )
    ],
    unavailable=[Unavailable(instanceType="c5.large", zone="us-west-2b", capacityType="spot")],
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


def live(market: Market, memory: dict[str, int] | None = None, **more: Any) -> Built:
    spec = more.pop("spec", {})
    supply = Supply(now=NOW, **{"cloud": Cloud(spec=CLOUD), **more})
    ground = Ground(market=market, zones=ZONES, memory=memory or {})
    return LiveCatalogues(supply, ground).of(Scope(node_class=node_class(**spec)))


@pytest.mark.parametrize("spec", CLASSES.values(), ids=CLASSES)
def test_on_the_built_in_list_it_is_the_built_in_catalogue(spec: dict[str, Any]) -> None:
    cloud = Cloud(spec=msgspec.structs.replace(CLOUD, zones=list(ZONES)))
    supply = Supply(now=NOW, cloud=cloud, **OVERRIDES)
    expected = Catalogues(supply).of(Scope(node_class=node_class(**spec)))
    found = live(Market(REGION, built_in(REGION)), spec=spec, **OVERRIDES)
    assert found.types == expected.types
    assert found.zones == expected.zones
    assert found.reservations == expected.reservations
    assert found.incompatible == expected.incompatible
    assert found.settings == expected.settings


def few(*names: str) -> Listing:
    whole = built_in(REGION)
    return Listing(
        machines={name: whole.machines[name] for name in names},
        zones=whole.zones,
        offered={name: whole.offered[name] for name in sorted(names)},
    )


def prices_of(built: Built, name: str) -> dict[tuple[str | None, str | None], float]:
    return {(each.zone, each.capacity_type): each.price for each in built.by_name[name].offerings}


def test_prices_of_the_day_take_the_place_of_the_built_in_ones() -> None:
    prices = Prices(on_demand={"m5.large": 1.0}, spot={("m5.large", "us-west-2a"): 0.5})
    found = live(Market(REGION, few("m5.large", "c5.large"), prices))
    assert prices_of(found, "m5.large") == {
        ("us-west-2a", "on-demand"): 1.0,
        ("us-west-2b", "on-demand"): 1.0,
        ("us-west-2a", "spot"): 0.5,
    }
    usual = prices_of(found, "c5.large")
    assert usual["us-west-2a", "on-demand"] == 0.085  # not on today's list
    assert ("us-west-2a", "spot") not in usual  # but spot is only sold where it has a price


def test_a_type_that_nobody_knew_can_be_bought() -> None:
    new = msgspec.structs.replace(builtin.machines()["m5.large"], name="m99.large", vcpus=4)
    known = few("m5.large")
    fresh = Listing(
        machines={**known.machines, "m99.large": new},
        zones=known.zones,
        offered={**known.offered, "m99.large": ("us-west-2a",)},
    )
    found = live(Market(REGION, fresh, Prices(on_demand={"m99.large": 0.2})))
    kind = found.by_name["m99.large"]
    assert kind.capacity["cpu"] == 4000
    assert kind.requirements.only("karpenter.k8s.aws/instance-generation") == "99"
    assert prices_of(found, "m99.large")["us-west-2a", "on-demand"] == 0.2


def test_zones_have_the_ids_of_the_account() -> None:
    types = few("m5.large")
    moved = Listing(
        machines=types.machines,
        zones={"us-west-2a": "usw2-az3", "us-west-2b": "usw2-az1"},
        offered={"m5.large": ZONES},
    )
    found = live(Market(REGION, moved))
    assert found.zones == {"us-west-2a": "usw2-az3", "us-west-2b": "usw2-az1"}
    ids = {
        each.requirements.only("topology.k8s.aws/zone-id")
        for each in found.by_name["m5.large"].offerings
        if each.zone == "us-west-2a"
    }
    assert ids == {"usw2-az3"}


@pytest.mark.parametrize("name", ["m5.large", "m6g.large"])
def test_memory_that_was_found_takes_the_place_of_the_estimate(name: str) -> None:
    market = Market(REGION, few("m5.large", "m6g.large"))
    plain, seen = live(market), live(market, {name: 7 * GIB})
    assert plain.by_name[name].capacity["memory"] != 7 * GIB
    kind = seen.by_name[name]
    assert kind.capacity["memory"] == 7 * GIB
    assert kind.overhead == plain.by_name[name].overhead
    assert kind.allocatable["memory"] == 7 * GIB - kind.overhead["memory"]
    other = {"m5.large": "m6g.large", "m6g.large": "m5.large"}[name]
    assert seen.by_name[other] == plain.by_name[other]


@pytest.mark.parametrize(
    "said", [{"overhead": {"memory": "1Gi"}}, {"resources": {"memory": "6Gi"}}]
)
def test_what_somebody_states_goes_before_what_was_found(said: dict[str, Any]) -> None:
    item = msgspec.convert({"metadata": {"name": "m5.large"}, "spec": said}, InstanceType)
    market = Market(REGION, few("m5.large"))
    found = live(market, {"m5.large": 5 * GIB}, instance_types=(item,))
    stated = live(market, instance_types=(item,))
    assert found.by_name["m5.large"].capacity == stated.by_name["m5.large"].capacity


def test_a_listing_is_what_three_answers_say_together() -> None:
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
    found = listing([row], offered, zones)
    assert found.offered == {"m5.large": ("us-west-2a", "us-west-2b")}
    assert found.zones == {"us-west-2a": "usw2-az1", "us-west-2b": ""}
