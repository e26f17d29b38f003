"""Listing the types of a catalogue, and explaining one of them."""

from tests.support.catalogue_builders import (
    build_catalogue,
    catalog_object,
    cloud_object,
    instance_type_object,
    node_class_object,
    overlay_object,
)
from tests.support.model_builders import GIB, instance_type, label_requirement, offering

from wainwright.catalogue.offerings.layered_offering import PriceLayer
from wainwright.catalogue.queries import (
    SortOrder,
    TypeFilter,
    cheapest_offering,
    explain_resources,
    explain_unavailability,
    list_instance_types,
    nominal_cpu,
    nominal_memory,
    price_histories,
)
from wainwright.catalogue.region_catalog import CatalogScope
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import INSTANCE_CPU, INSTANCE_MEMORY, RESERVATION_ID

PLAIN = instance_type(name="plain", offerings=(offering(price=2.0), offering(zone=None, price=3.0)))
SPOT = instance_type(name="spot", offerings=(offering(capacity_type="spot", price=1.0),))
RESERVED = instance_type(
    name="reserved",
    offerings=(offering(capacity_type="reserved", price=1e-9, reservation_id="cr-1", available=2),),
)
NOTHING = instance_type(name="nothing", offerings=())
INDEX = InstanceTypeIndex([PLAIN, SPOT, RESERVED, NOTHING])


def found(wanted: TypeFilter = TypeFilter(), order: SortOrder = SortOrder.NAME) -> dict[str, int]:  # noqa: B008
    return {kind.name: len(kind.offerings) for kind in list_instance_types(INDEX, wanted, order)}


def test_nothing_asked_is_everything_with_types_that_cannot_be_bought() -> None:
    assert found() == {"nothing": 0, "plain": 2, "reserved": 1, "spot": 1}


def test_an_offering_for_any_zone_is_for_this_one_too() -> None:
    assert found(TypeFilter(zones=("zone-b",))) == {"plain": 1}


def test_asking_for_a_market_leaves_out_who_is_not_in_it() -> None:
    assert found(TypeFilter(capacity_types=("spot", "reserved"))) == {"reserved": 1, "spot": 1}


def test_who_asks_for_a_reservation_gets_no_other_offering() -> None:
    asked = label_requirement(RESERVATION_ID, "In", "cr-1")
    assert found(TypeFilter(requirements=asked)) == {"reserved": 1}
    assert found(TypeFilter(requirements=label_requirement(RESERVATION_ID, "In", "cr-2"))) == {}
    assert "reserved" not in found(
        TypeFilter(requirements=label_requirement(RESERVATION_ID, "DoesNotExist"))
    )


def test_a_label_that_nobody_knows_narrows_nothing() -> None:
    assert found(TypeFilter(requirements=label_requirement("example.com/team", "In", "web"))) == {
        "plain": 2,
        "reserved": 1,
        "spot": 1,
    }


def test_the_cheapest_comes_first_and_what_has_no_price_last() -> None:
    assert list(found(order=SortOrder.PRICE)) == ["reserved", "spot", "plain", "nothing"]


def test_sizes_are_those_of_the_machine_as_it_is_sold() -> None:
    sold = instance_type(labels={INSTANCE_CPU: "4", INSTANCE_MEMORY: "16384"})
    assert (nominal_cpu(sold), nominal_memory(sold)) == (4000, 16 * GIB)
    assert (nominal_cpu(PLAIN), nominal_memory(PLAIN)) == (2000, 8 * GIB)


def test_what_is_in_stock_goes_before_what_is_cheap() -> None:
    gone, dear = offering(price=1.0, available=0), offering(price=2.0)
    assert cheapest_offering([gone, dear]) is dear
    assert cheapest_offering([gone]) is gone
    assert cheapest_offering([]) is None


RACK = {
    "name": "rack",
    "capacity": {"cpu": "4", "memory": "8Gi", "hugepages-2Mi": "1Gi"},
    "overhead": {"cpu": "100m"},
    "offerings": [{"labels": {"karpenter.sh/capacity-type": "on-demand"}, "price": 1}],
}


def told(*args: object, **supply: object) -> dict[tuple[str, str], tuple[str, str]]:
    made = build_catalogue(*args, **supply)  # type: ignore[arg-type]
    name = "rack" if made.from_catalog else "m5.xlarge"
    return {
        (each.resource, each.part): (each.amount, each.why)
        for each in explain_resources(made, name)
    }


def test_each_resource_ends_with_what_is_left() -> None:
    found = told()
    assert found["cpu", "capacity"] == ("4", "the type has 4 vCPUs")
    assert found["cpu", "kube-reserved"][0] == "-80m"
    assert found["cpu", "allocatable"] == ("3920m", "capacity less what is kept back")
    assert found["pods", "allocatable"] == ("58", "all of it")


def test_a_catalog_speaks_for_itself() -> None:
    found = told(catalog=catalog_object(RACK))
    assert found["cpu", "capacity"] == ("4", "the Catalog says so")
    assert found["cpu", "overhead"] == ("-100m", "the Catalog says so")


def test_huge_pages_are_said_to_come_out_of_memory() -> None:
    amount, why = told(catalog=catalog_object(RACK))["memory", "allocatable"]
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
    scope = CatalogScope(node_class=node_class_object(kubelet={"kubeReserved": {"memory": "1Ti"}}))
    amount, why = told(scope)["memory", "allocatable"]
    assert amount.startswith("-")
    assert why.endswith("less than nothing, so that no pod fits")


def test_obstacles_are_told_apart() -> None:
    short = build_catalogue(
        cloud=cloud_object(region="us-east-1", unavailable=[{"instanceType": "m5.large"}])
    )
    assert explain_unavailability(short, "m5.large") == "m5.large is out of stock everywhere."
    assert explain_unavailability(short, "m5.xlarge") == ""
    assert "has no price" in explain_unavailability(short, "mac2.metal")
    assert "Amazon Linux 2023 does not run on" in explain_unavailability(short, "a1.large")


def test_zones_with_one_history_stand_together() -> None:
    found = price_histories(build_catalogue(), "m5.xlarge")
    on_demand = [each for each in found if each.capacity_type == "on-demand"]
    assert [len(each.zones) for each in on_demand] == [5]
    spot = [each for each in found if each.capacity_type == "spot"]
    assert [len(each.zones) for each in spot] == [1] * 5
    assert all(each.steps[0].layer is PriceLayer.SPOT_MODEL for each in spot)


def test_the_last_layer_has_the_price_in_force() -> None:
    made = build_catalogue(
        cloud=cloud_object(
            prices=[{"instanceType": "c5.large", "capacityType": "spot", "price": 0.03}]
        ),
        overlays=(
            overlay_object("heavy", priceAdjustment="-10%", weight=5),
            overlay_object("light", priceAdjustment="-50%", weight=1),
        ),
    )
    for account in price_histories(made, "c5.large"):
        assert account.steps[-1].after == account.price
        assert account.steps[-1].how == "weight 1: outweighed by heavy"
        befores = [step.before for step in account.steps[1:]]
        assert befores == [step.after for step in account.steps[:-1]]
