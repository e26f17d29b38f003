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


def listed(wanted: TypeFilter = TypeFilter(), order: SortOrder = SortOrder.NAME) -> dict[str, int]:  # noqa: B008
    return {each.name: len(each.offerings) for each in list_instance_types(INDEX, wanted, order)}


def test_without_a_filter_all_types_are_listed_even_without_offerings() -> None:
    assert listed() == {"nothing": 0, "plain": 2, "reserved": 1, "spot": 1}


def test_an_offering_without_a_zone_matches_every_zone() -> None:
    assert listed(TypeFilter(zones=("zone-b",))) == {"plain": 1}


def test_filtering_by_capacity_type_leaves_out_types_without_it() -> None:
    assert listed(TypeFilter(capacity_types=("spot", "reserved"))) == {"reserved": 1, "spot": 1}


def test_requiring_a_reservation_leaves_out_other_offerings() -> None:
    requirements = label_requirement(RESERVATION_ID, "In", "cr-1")
    assert listed(TypeFilter(requirements=requirements)) == {"reserved": 1}
    assert listed(TypeFilter(requirements=label_requirement(RESERVATION_ID, "In", "cr-2"))) == {}
    assert "reserved" not in listed(
        TypeFilter(requirements=label_requirement(RESERVATION_ID, "DoesNotExist"))
    )


def test_an_unknown_label_narrows_nothing() -> None:
    assert listed(TypeFilter(requirements=label_requirement("example.com/team", "In", "web"))) == {
        "plain": 2,
        "reserved": 1,
        "spot": 1,
    }


def test_sorted_by_price_types_without_a_price_come_last() -> None:
    assert list(listed(order=SortOrder.PRICE)) == ["reserved", "spot", "plain", "nothing"]


def test_nominal_sizes_are_the_advertised_ones() -> None:
    labelled = instance_type(labels={INSTANCE_CPU: "4", INSTANCE_MEMORY: "16384"})
    assert (nominal_cpu(labelled), nominal_memory(labelled)) == (4000, 16 * GIB)
    assert (nominal_cpu(PLAIN), nominal_memory(PLAIN)) == (2000, 8 * GIB)


def test_an_available_offering_is_preferred_to_a_cheaper_unavailable_one() -> None:
    unavailable, available = offering(price=1.0, available=0), offering(price=2.0)
    assert cheapest_offering([unavailable, available]) is available
    assert cheapest_offering([unavailable]) is unavailable
    assert cheapest_offering([]) is None


RACK = {
    "name": "rack",
    "capacity": {"cpu": "4", "memory": "8Gi", "hugepages-2Mi": "1Gi"},
    "overhead": {"cpu": "100m"},
    "offerings": [{"labels": {"karpenter.sh/capacity-type": "on-demand"}, "price": 1}],
}


def explained(*args: object, **supply: object) -> dict[tuple[str, str], tuple[str, str]]:
    catalog = build_catalogue(*args, **supply)  # type: ignore[arg-type]
    name = "rack" if catalog.from_catalog else "m5.xlarge"
    return {
        (each.resource, each.part): (each.amount, each.why)
        for each in explain_resources(catalog, name)
    }


def test_each_resource_is_explained_from_capacity_to_allocatable() -> None:
    found = explained()
    assert found["cpu", "capacity"] == ("4", "the type has 4 vCPUs")
    assert found["cpu", "kube-reserved"][0] == "-80m"
    assert found["cpu", "allocatable"] == ("3920m", "capacity less what is kept back")
    assert found["pods", "allocatable"] == ("58", "all of it")


def test_amounts_of_a_catalog_are_explained_by_it() -> None:
    found = explained(catalog=catalog_object(RACK))
    assert found["cpu", "capacity"] == ("4", "the Catalog says so")
    assert found["cpu", "overhead"] == ("-100m", "the Catalog says so")


def test_huge_pages_are_part_of_the_explanation_of_memory() -> None:
    amount, why = explained(catalog=catalog_object(RACK))["memory", "allocatable"]
    assert amount == "7Gi"
    assert why.endswith("and less hugepages-2Mi")


def test_objects_that_change_an_amount_are_named() -> None:
    found = explained(
        overlays=(overlay_object("cards", capacity={"example.com/card": "1"}),),
        instance_types=(instance_type_object("m5.xlarge", resources={"pods": "7"}),),
    )
    assert found["example.com/card", "capacity"] == ("1", "capacity of the NodeOverlay cards")
    assert found["pods", "capacity"] == ("7", "pods of the type's InstanceType object")


def test_a_negative_allocatable_amount_is_explained() -> None:
    scope = CatalogScope(node_class=node_class_object(kubelet={"kubeReserved": {"memory": "1Ti"}}))
    amount, why = explained(scope)["memory", "allocatable"]
    assert amount.startswith("-")
    assert why.endswith("less than nothing, so that no pod fits")


def test_each_reason_of_unavailability_has_its_own_sentence() -> None:
    short = build_catalogue(
        cloud=cloud_object(region="us-east-1", unavailable=[{"instanceType": "m5.large"}])
    )
    assert explain_unavailability(short, "m5.large") == "m5.large is out of stock everywhere."
    assert explain_unavailability(short, "m5.xlarge") == ""
    assert "has no price" in explain_unavailability(short, "mac2.metal")
    assert "Amazon Linux 2023 does not run on" in explain_unavailability(short, "a1.large")


def test_zones_with_the_same_price_history_are_merged() -> None:
    found = price_histories(build_catalogue(), "m5.xlarge")
    on_demand = [each for each in found if each.capacity_type == "on-demand"]
    assert [len(each.zones) for each in on_demand] == [5]
    spot = [each for each in found if each.capacity_type == "spot"]
    assert [len(each.zones) for each in spot] == [1] * 5
    assert all(each.steps[0].layer is PriceLayer.SPOT_MODEL for each in spot)


def test_the_last_layer_has_the_price_in_force() -> None:
    catalog = build_catalogue(
        cloud=cloud_object(
            prices=[{"instanceType": "c5.large", "capacityType": "spot", "price": 0.03}]
        ),
        overlays=(
            overlay_object("heavy", priceAdjustment="-10%", weight=5),
            overlay_object("light", priceAdjustment="-50%", weight=1),
        ),
    )
    for history in price_histories(catalog, "c5.large"):
        assert history.steps[-1].after == history.price
        assert history.steps[-1].how == "weight 1: outweighed by heavy"
        befores = [step.before for step in history.steps[1:]]
        assert befores == [step.after for step in history.steps[:-1]]
