"""Explanations: numbers with their rules, prices with their layers."""

from tests.support.catalogue import (
    built,
    catalog,
    cloud,
    instance_type_object,
    node_class,
    overlay_object,
)

from wainwright.catalogue.explain import numbers, obstacle
from wainwright.catalogue.ledger import accounts
from wainwright.catalogue.lots import Layer
from wainwright.catalogue.supply import Scope

RACK = {
    "name": "rack",
    "capacity": {"cpu": "4", "memory": "8Gi", "hugepages-2Mi": "1Gi"},
    "overhead": {"cpu": "100m"},
    "offerings": [{"labels": {"karpenter.sh/capacity-type": "on-demand"}, "price": 1}],
}


def told(*args: object, **supply: object) -> dict[tuple[str, str], tuple[str, str]]:
    made = built(*args, **supply)  # type: ignore[arg-type]
    name = "rack" if made.from_catalog else "m5.xlarge"
    return {(each.resource, each.part): (each.amount, each.why) for each in numbers(made, name)}


def test_each_resource_ends_with_what_is_left() -> None:
    found = told()
    assert found["cpu", "capacity"] == ("4", "the type has 4 vCPUs")
    assert found["cpu", "kube-reserved"][0] == "-80m"
    assert found["cpu", "allocatable"] == ("3920m", "capacity less what is kept back")
    assert found["pods", "allocatable"] == ("58", "all of it")


def test_a_catalog_speaks_for_itself() -> None:
    found = told(catalog=catalog(RACK))
    assert found["cpu", "capacity"] == ("4", "the Catalog says so")
    assert found["cpu", "overhead"] == ("-100m", "the Catalog says so")


def test_huge_pages_are_said_to_come_out_of_memory() -> None:
    amount, why = told(catalog=catalog(RACK))["memory", "allocatable"]
    assert amount == "7Gi"
    assert why.endswith("and less hugepages-2Mi")


def test_objects_that_change_a_number_are_named() -> None:
    found = told(
        overlays=(overlay_object("cards", capacity={"example.com/card": "1"}),),
        instance_types=(instance_type_object("m5.xlarge", resources={"pods": "7"}),),
    )
    assert found["example.com/card", "capacity"] == ("1", "capacity of the NodeOverlay cards")
    assert found["pods", "capacity"] == ("7", "pods of the type's InstanceType object")


def test_a_machine_that_owes_memory_says_so() -> None:
    scope = Scope(node_class=node_class(kubelet={"kubeReserved": {"memory": "1Ti"}}))
    amount, why = told(scope)["memory", "allocatable"]
    assert amount.startswith("-")
    assert why.endswith("less than nothing, so that no pod fits")


def test_obstacles_are_told_apart() -> None:
    short = built(cloud=cloud(region="us-east-1", unavailable=[{"instanceType": "m5.large"}]))
    assert obstacle(short, "m5.large") == "m5.large is out of stock everywhere."
    assert obstacle(short, "m5.xlarge") == ""
    assert "has no price" in obstacle(short, "mac2.metal")
    assert "Amazon Linux 2023 does not run on" in obstacle(short, "a1.large")


def test_zones_with_one_history_stand_together() -> None:
    found = accounts(built(), "m5.xlarge")
    on_demand = [each for each in found if each.capacity_type == "on-demand"]
    assert [len(each.zones) for each in on_demand] == [5]
    spot = [each for each in found if each.capacity_type == "spot"]
    assert [len(each.zones) for each in spot] == [1] * 5
    assert all(each.steps[0].layer is Layer.SPOT_MODEL for each in spot)


def test_the_last_layer_has_the_price_in_force() -> None:
    made = built(
        cloud=cloud(prices=[{"instanceType": "c5.large", "capacityType": "spot", "price": 0.03}]),
        overlays=(
            overlay_object("heavy", priceAdjustment="-10%", weight=5),
            overlay_object("light", priceAdjustment="-50%", weight=1),
        ),
    )
    for account in accounts(made, "c5.large"):
        assert account.steps[-1].after == account.price
        assert account.steps[-1].how == "weight 1: outweighed by heavy"
        befores = [step.before for step in account.steps[1:]]
        assert befores == [step.after for step in account.steps[:-1]]
