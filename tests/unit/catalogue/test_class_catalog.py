"""Whole catalogues: what NodePools and classes share, and what each layer changes."""

import pytest
from tests.support.catalogue_builders import (
    build_catalogue,
    catalog_inputs,
    catalog_object,
    cloud_object,
    instance_type_object,
    node_class_object,
    overlay_object,
)

from wainwright.catalogue.class_catalog import CatalogBuilder
from wainwright.catalogue.offerings.built_in_offerings import load_built_in_offerings
from wainwright.catalogue.region_catalog import CatalogScope, FeatureGates, SharedLayers
from wainwright.errors import InvalidInputError
from wainwright.model.instance_type import UNLIMITED
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import NODEPOOL, ZONE
from wainwright.model.requirements import Requirements

WEST = cloud_object(instanceTypes=["c5.large", "m5.xlarge"])


def test_us_east_1_has_every_type_with_all_its_offerings() -> None:
    made = build_catalogue()
    assert made.region == "us-east-1"
    assert len(made.types) == 1375
    assert [instance_type.name for instance_type in made.types] == sorted(made.by_name)
    assert len(made.unpriced) == 35
    assert made.diagnostics == ()
    assert made.fee == 0


def test_there_is_one_offering_for_each_zone_and_capacity_type() -> None:
    for instance_type in build_catalogue().types:
        offerings = [(each.zone, each.capacity_type) for each in instance_type.offerings]
        assert len(set(offerings)) == len(offerings)
        assert all(zone is not None for zone, _ in offerings)


def test_unchanged_types_share_their_offerings_with_all_classes() -> None:
    assert (
        build_catalogue().by_name["m5.large"].offerings
        is load_built_in_offerings("us-east-1").priced["m5.large"]
    )


def test_pools_of_one_class_share_one_catalogue() -> None:
    scopes = tuple(CatalogScope(node_class=node_class_object(), pool=name) for name in ("a", "b"))
    made = CatalogBuilder(catalog_inputs(cloud=WEST, scopes=scopes))
    assert made.build(scopes[0]) is made.build(scopes[1])


def test_an_overlay_for_one_pool_gives_it_a_catalogue_of_its_own() -> None:
    scopes = tuple(
        CatalogScope(node_class=node_class_object(), pool=name) for name in ("a", "b", "c")
    )
    only = overlay_object("only", (NODEPOOL, "In", ["a"]), price="0.5")
    made = CatalogBuilder(catalog_inputs(cloud=WEST, scopes=scopes, overlays=(only,)))
    assert made.build(scopes[0]) is not made.build(scopes[1])
    assert made.build(scopes[1]) is made.build(scopes[2])


def test_overlays_match_labels_of_the_pool_template() -> None:
    scope = CatalogScope(node_class=node_class_object(), pool="a", labels={"team": "web"})
    other = CatalogScope(node_class=node_class_object(), pool="b", labels={"team": "db"})
    webs = overlay_object("web", ("team", "In", ["web"]), price="0.5")
    inputs = catalog_inputs(cloud=WEST, scopes=(scope, other), overlays=(webs,))
    prices = [
        {
            offering.price
            for offering in CatalogBuilder(inputs).build(each).by_name["c5.large"].offerings
        }
        for each in (scope, other)
    ]
    assert prices[0] == {0.5}
    assert 0.5 not in prices[1]


def test_classes_with_different_settings_have_different_resources() -> None:
    scopes = tuple(
        CatalogScope(node_class=node_class_object(kubelet={"maxPods": pods})) for pods in (10, 20)
    )
    made = CatalogBuilder(catalog_inputs(cloud=WEST, scopes=scopes))
    found = [made.build(scope).by_name["c5.large"].capacity["pods"] for scope in scopes]
    assert found == [10, 20]


def test_the_index_has_every_label_of_the_catalogue() -> None:
    types = catalog_object(
        {
            "name": "rack",
            "capacity": {"cpu": "1"},
            "requirements": [{"key": "example.com/rack", "operator": "In", "values": ["r1"]}],
            "offerings": [{"labels": {"example.com/hall": "h1"}, "price": 1}],
        }
    )
    index: InstanceTypeIndex = build_catalogue(catalog=types).index
    assert {"example.com/rack", "example.com/hall"} <= index.keys


def test_a_region_other_than_that_of_the_catalog_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="the region us-east-1 was asked for"):
        build_catalogue(catalog=catalog_object(), region="us-east-1")


def test_an_offering_without_a_zone_stays_when_zones_are_limited() -> None:
    types = catalog_object(
        {
            "name": "rack",
            "capacity": {"cpu": "1"},
            "offerings": [
                {"labels": {"karpenter.sh/capacity-type": "on-demand"}, "price": 1},
                {"labels": {ZONE: "hall-a"}, "price": 2},
                {"labels": {ZONE: "hall-b"}, "price": 3},
            ],
        }
    )
    made = build_catalogue(catalog=types, cloud=cloud_object(region="dc-1", zones=["hall-a"]))
    assert [offering.price for offering in made.by_name["rack"].offerings] == [1, 2]


def test_a_zone_id_of_one_offering_is_that_of_the_zone() -> None:
    labels = {"karpenter.sh/capacity-type": "on-demand", ZONE: "hall-a"}
    types = catalog_object(
        {
            "name": "rack",
            "capacity": {"cpu": "1"},
            "offerings": [
                {"labels": labels | {"topology.k8s.aws/zone-id": "h1"}, "price": 1},
                {"labels": labels, "price": 2},
            ],
        }
    )
    assert SharedLayers(catalog_inputs(catalog=types)).region_catalog.zones == {"hall-a": "h1"}


def test_the_reservations_gate_leaves_other_offerings_of_a_catalog() -> None:
    reserved = {"labels": {"karpenter.sh/capacity-type": "reserved"}, "price": 1e-9, "available": 1}
    paid = {"labels": {"karpenter.sh/capacity-type": "spot"}, "price": 1}
    types = catalog_object(
        {"name": "rack", "capacity": {"cpu": "1"}, "offerings": [reserved, paid]}
    )
    off = build_catalogue(catalog=types, gates=FeatureGates(capacity_reservations=False))
    assert [offering.price for offering in off.by_name["rack"].offerings] == [1]
    assert len(build_catalogue(catalog=types).by_name["rack"].offerings) == 2


def test_windows_classes_have_windows_labels_and_no_arm_offerings() -> None:
    made = build_catalogue(CatalogScope(node_class=node_class_object(amiFamily="Windows2022")))
    assert made.by_name["m5.large"].requirements.single_value("kubernetes.io/os") == "windows"
    assert {offering.available for offering in made.by_name["m6g.large"].offerings} == {0}
    assert {offering.available for offering in made.by_name["m5.large"].offerings} == {UNLIMITED}


def test_declaring_a_reserved_offering_gives_a_warning() -> None:
    declaration = instance_type_object(
        "c5.large",
        offerings=[
            {
                "karpenter.sh/capacity-type": "reserved",
                "karpenter.k8s.aws/capacity-reservation-id": "cr-9",
                "karpenter.sh/price": 0.001,
            }
        ],
    )
    made = build_catalogue(cloud=WEST, instance_types=(declaration,))
    (offering,) = made.by_name["c5.large"].offerings
    assert offering.reservation_id == "cr-9"
    assert "has no end" in str(made.diagnostics[0])


def test_values_of_declared_offerings_become_label_text() -> None:
    odd = instance_type_object(
        "c5.large", offerings=[{"flag": True, "count": 3, "karpenter.sh/price": "1"}]
    )
    (offering,) = build_catalogue(cloud=WEST, instance_types=(odd,)).by_name["c5.large"].offerings
    assert offering.requirements == Requirements.from_labels({"flag": "true", "count": "3"})


def test_aliases_of_labels_are_normalized_in_declared_offerings() -> None:
    old = instance_type_object(
        "c5.large",
        offerings=[
            {
                "karpenter.sh/capacity-type": "on-demand",
                "failure-domain.beta.kubernetes.io/zone": "us-west-2b",
            }
        ],
    )
    (offering,) = build_catalogue(cloud=WEST, instance_types=(old,)).by_name["c5.large"].offerings
    assert (offering.zone, offering.price) == ("us-west-2b", 0.085)


def test_offerings_with_equal_labels_are_sorted_by_their_final_price() -> None:
    labels = {"karpenter.sh/capacity-type": "spot", ZONE: "hall-a"}
    twice = catalog_object(
        {
            "name": "rack",
            "capacity": {"cpu": "1"},
            "offerings": [
                {"labels": labels, "price": 1, "available": UNLIMITED},
                {"labels": labels, "price": 2, "available": 0},
            ],
        }
    )
    same = [{"instanceType": "rack", "capacityType": "spot", "price": 3}]
    made = build_catalogue(catalog=twice, cloud=cloud_object(region="dc-1", prices=same))
    assert [offering.available for offering in made.by_name["rack"].offerings] == [0, UNLIMITED]


RESERVED = cloud_object(
    instanceTypes=["c5.large", "m5.xlarge"],
    zones=["us-west-2a"],
    capacityReservations=[
        {
            "id": f"cr-{name[0]}",
            "instanceType": name,
            "availabilityZone": "us-west-2a",
            "total": 1,
        }
        for name in ("c5.large", "m5.xlarge")
    ],
)
SELECTING = node_class_object(capacityReservationSelectorTerms=[{"id": "cr-c"}, {"id": "cr-m"}])


def reserved_prices(builder: CatalogBuilder, scope: CatalogScope) -> dict[str, float]:
    return {
        each.reservation_id: each.price
        for instance_type in builder.build(scope).types
        for each in instance_type.offerings
        if each.reservation_id is not None
    }


def test_reserved_prices_keep_their_order_between_pools_with_different_prices() -> None:
    scopes = tuple(CatalogScope(node_class=SELECTING, pool=name) for name in ("a", "b"))
    dear = overlay_object(
        "dear",
        (NODEPOOL, "In", ["a"]),
        ("karpenter.sh/capacity-type", "In", ["spot"]),
        price="400",
    )
    made = CatalogBuilder(catalog_inputs(cloud=RESERVED, scopes=scopes, overlays=(dear,)))
    in_a, in_b = (reserved_prices(made, scope) for scope in scopes)
    assert in_a["cr-c"] < in_a["cr-m"]
    assert in_b["cr-c"] < in_a["cr-m"]
    assert in_a == in_b


def test_prices_of_a_class_that_is_not_in_force_change_no_reserved_price() -> None:
    scopes = tuple(CatalogScope(node_class=SELECTING, pool=name) for name in ("a", "b"))
    dear = overlay_object("dear", (NODEPOOL, "In", ["a"]), price="400")
    alone = CatalogBuilder(catalog_inputs(cloud=RESERVED, scopes=scopes[1:], overlays=(dear,)))
    plain = CatalogBuilder(catalog_inputs(cloud=RESERVED, scopes=scopes[1:]))
    assert reserved_prices(alone, scopes[1]) == reserved_prices(plain, scopes[1])
