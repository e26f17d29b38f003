"""The compiled catalogue: order of rows, and each of its questions by example."""

from tests.support.model_builders import GIB, instance_type, label_requirement, offering

from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CPU,
    INSTANCE_GPU_COUNT,
    INSTANCE_TENANCY,
    INSTANCE_TYPE,
    RESERVATION_ID,
    RESERVATION_TYPE,
    ZONE,
)
from wainwright.model.requirements import ANY_VALUE, NO_REQUIREMENTS, Requirements

SMALL = instance_type(
    name="small",
    labels={ARCH: "amd64", INSTANCE_CPU: "2"},
    capacity={"cpu": 2000, "memory": 4 * GIB},
    offerings=(
        offering(zone="zone-a", price=0.10),
        offering(zone="zone-a", capacity_type="spot", price=0.04),
        offering(zone="zone-b", price=0.10),
    ),
)
ARM = instance_type(
    name="arm",
    labels={ARCH: "arm64", INSTANCE_CPU: "4"},
    capacity={"cpu": 4000, "memory": 4 * GIB},
    offerings=(
        offering(zone="zone-a", price=0.08, available=0),
        offering(zone="zone-b", price=0.15),
    ),
)
GPU = instance_type(
    name="gpu",
    labels={ARCH: "amd64", INSTANCE_CPU: "16", INSTANCE_GPU_COUNT: "1"},
    capacity={"cpu": 16000, "memory": 64 * GIB, "nvidia.com/gpu": 1},
    offerings=(offering(zone=None, price=0.90),),
)
CATALOGUE = InstanceTypeIndex([GPU, SMALL, ARM])


def names(rows: int, index: InstanceTypeIndex = CATALOGUE) -> list[str]:
    return [kind.name for kind in index.iter_types(rows)]


def test_rows_are_in_the_order_of_the_cheapest_offering_that_can_be_had() -> None:
    assert names(CATALOGUE.all_types) == ["small", "arm", "gpu"]


def test_types_of_the_same_price_are_in_the_order_of_names_and_unsold_ones_last() -> None:
    index = InstanceTypeIndex(
        [
            instance_type(name="a-unsold", offerings=(offering(price=0.01, available=0),)),
            instance_type(name="b"),
            instance_type(name="a"),
        ]
    )
    assert names(index.all_types, index) == ["a", "b", "a-unsold"]


def test_labels_admit_types() -> None:
    assert names(CATALOGUE.compatible_types(label_requirement(ARCH, "In", "amd64"))) == [
        "small",
        "gpu",
    ]
    assert names(CATALOGUE.compatible_types(label_requirement(ARCH, "NotIn", "amd64"))) == ["arm"]
    assert names(CATALOGUE.compatible_types(label_requirement(INSTANCE_CPU, "Gt", "2"))) == [
        "arm",
        "gpu",
    ]
    assert names(
        CATALOGUE.compatible_types(label_requirement(INSTANCE_TYPE, "In", "arm", "gone"))
    ) == ["arm"]
    assert names(CATALOGUE.compatible_types(NO_REQUIREMENTS)) == ["small", "arm", "gpu"]


def test_a_type_without_a_label_that_others_have_admits_only_its_absence() -> None:
    assert names(CATALOGUE.compatible_types(label_requirement(INSTANCE_GPU_COUNT, "Exists"))) == [
        "gpu"
    ]
    assert names(CATALOGUE.compatible_types(label_requirement(INSTANCE_GPU_COUNT, "Gte", "1"))) == [
        "gpu"
    ]
    assert names(
        CATALOGUE.compatible_types(label_requirement(INSTANCE_GPU_COUNT, "NotIn", "1"))
    ) == [
        "small",
        "arm",
    ]
    assert names(
        CATALOGUE.compatible_types(label_requirement(INSTANCE_GPU_COUNT, "DoesNotExist"))
    ) == [
        "small",
        "arm",
    ]


def test_a_type_without_a_label_is_refused_by_who_needs_it_whatever_else_he_rules_out() -> None:
    needing = label_requirement(INSTANCE_GPU_COUNT, "Exists").narrow(
        label_requirement(INSTANCE_GPU_COUNT, "NotIn", "8")
    )
    assert names(CATALOGUE.compatible_types(needing)) == ["gpu"]


def test_fees_count_in_the_order_of_rows() -> None:
    index = InstanceTypeIndex(
        [
            instance_type(name="a", offerings=(offering(price=0.2),), fee=0.2),
            instance_type(name="b", offerings=(offering(price=0.3),)),
        ]
    )
    assert names(index.all_types, index) == ["b", "a"]


def test_a_label_that_types_are_described_by_is_absent_even_if_none_has_it() -> None:
    index = InstanceTypeIndex([SMALL, ARM])
    assert (
        names(index.compatible_types(label_requirement(INSTANCE_GPU_COUNT, "Gt", "0")), index) == []
    )
    assert (
        index.compatible_types(label_requirement(INSTANCE_GPU_COUNT, "DoesNotExist"))
        == index.all_types
    )


def test_a_label_that_nobody_names_narrows_nothing() -> None:
    for operator in ("Exists", "DoesNotExist"):
        assert (
            CATALOGUE.compatible_types(label_requirement("team", operator)) == CATALOGUE.all_types
        )
    assert CATALOGUE.compatible_types(label_requirement("team", "In", "web")) == CATALOGUE.all_types


def test_zone_and_capacity_type_are_left_to_the_offerings() -> None:
    assert (
        CATALOGUE.compatible_types(label_requirement(ZONE, "In", "zone-b")) == CATALOGUE.all_types
    )
    assert names(CATALOGUE.available_to(label_requirement(ZONE, "In", "zone-b"))) == [
        "small",
        "arm",
        "gpu",
    ]
    assert names(CATALOGUE.available_to(label_requirement(CAPACITY_TYPE, "In", "spot"))) == [
        "small"
    ]


def test_an_offering_without_a_zone_is_for_any_zone() -> None:
    assert names(CATALOGUE.available_to(label_requirement(ZONE, "In", "zone-z"))) == ["gpu"]


def test_an_offering_that_cannot_be_had_offers_nothing() -> None:
    assert names(CATALOGUE.available_to(label_requirement(ZONE, "In", "zone-a"))) == [
        "small",
        "gpu",
    ]


def test_zone_and_capacity_type_must_come_from_the_same_offering() -> None:
    spot_in_b = label_requirement(ZONE, "In", "zone-b").narrow(
        label_requirement(CAPACITY_TYPE, "In", "spot")
    )
    assert names(CATALOGUE.available_to(spot_in_b)) == []


def test_a_type_with_several_values_is_admitted_by_each() -> None:
    either = instance_type(
        name="either",
        requirements=label_requirement(INSTANCE_TENANCY, "In", "default", "dedicated"),
    )
    index = InstanceTypeIndex(
        [either, instance_type(name="one", labels={INSTANCE_TENANCY: "default"})]
    )
    assert names(
        index.compatible_types(label_requirement(INSTANCE_TENANCY, "In", "dedicated")), index
    ) == ["either"]
    assert names(
        index.compatible_types(label_requirement(INSTANCE_TENANCY, "NotIn", "default")), index
    ) == ["either"]


def test_a_type_loses_its_place_when_all_of_its_several_values_are_refused() -> None:
    either = instance_type(
        requirements=label_requirement(INSTANCE_TENANCY, "In", "default", "dedicated")
    )
    index = InstanceTypeIndex([either])
    assert (
        index.compatible_types(label_requirement(INSTANCE_TENANCY, "NotIn", "default", "dedicated"))
        == 0
    )


def test_a_type_that_excludes_values_may_as_well_lack_the_label() -> None:
    index = InstanceTypeIndex(
        [instance_type(requirements=label_requirement(ARCH, "NotIn", "arm64"))]
    )
    assert index.compatible_types(label_requirement(ARCH, "DoesNotExist")) == index.all_types
    assert index.compatible_types(label_requirement(ARCH, "In", "amd64")) == index.all_types
    assert index.compatible_types(label_requirement(ARCH, "In", "arm64")) == 0


def test_a_type_without_a_zone_is_for_any_zone_even_if_others_name_theirs() -> None:
    pinned = instance_type(name="pinned", labels={ZONE: "zone-a"})
    index = InstanceTypeIndex(
        [pinned, instance_type(name="roams", offerings=(offering(zone=None),))]
    )
    assert names(index.compatible_types(label_requirement(ZONE, "In", "zone-b")), index) == [
        "roams"
    ]


def reserved(count: int = 2) -> InstanceType:
    return instance_type(
        name="reserved",
        offerings=(
            offering(price=0.2),
            offering(capacity_type="reserved", price=1e-9, available=count, reservation_id="cr-1"),
        ),
    )


def test_only_the_reserved_offering_has_a_reservation_id() -> None:
    index = InstanceTypeIndex([reserved()])
    only = index.cheapest(index.all_types, label_requirement(RESERVATION_ID, "In", "cr-1"))
    none = index.cheapest(index.all_types, label_requirement(RESERVATION_ID, "DoesNotExist"))
    assert only is not None
    assert none is not None
    assert only[1].reservation_id == "cr-1"
    assert none[1].reservation_id is None
    assert index.cheapest(index.all_types, label_requirement(RESERVATION_ID, "In", "cr-2")) is None
    assert index.cheapest(index.all_types, label_requirement(RESERVATION_TYPE, "Exists")) is None


def test_markets_carry_the_count_of_their_reservation() -> None:
    index = InstanceTypeIndex([reserved(count=2), instance_type(name="other")])
    counts = {
        offering_group.reservation_id: offering_group.available
        for offering_group in index.offering_groups
    }
    assert counts == {None: 4294967295, "cr-1": 2}


def test_a_full_reservation_is_listed_but_not_sold() -> None:
    index = InstanceTypeIndex([reserved(count=0)])
    (full,) = [
        offering_group for offering_group in index.offering_groups if offering_group.reservation_id
    ]
    assert (full.offered_types, full.available_types, full.available) == (1, 0, 0)


def test_requests_are_held_by_types_with_room() -> None:
    assert names(CATALOGUE.fitting({"cpu": 2000})) == ["small", "arm", "gpu"]
    assert names(CATALOGUE.fitting({"cpu": 2001})) == ["arm", "gpu"]
    assert names(CATALOGUE.fitting({"cpu": 2001, "memory": 5 * GIB})) == ["gpu"]
    assert names(CATALOGUE.fitting({"nvidia.com/gpu": 1})) == ["gpu"]
    assert names(CATALOGUE.fitting({"nvidia.com/gpu": 0})) == ["small", "arm", "gpu"]
    assert names(CATALOGUE.fitting({"amd.com/gpu": 1})) == []
    assert names(CATALOGUE.fitting({"cpu": 16001})) == []


def test_a_type_whose_overhead_exceeds_it_holds_nothing() -> None:
    index = InstanceTypeIndex(
        [instance_type(capacity={"cpu": 1, "memory": 1}, overhead={"memory": 2})]
    )
    assert index.fitting({}) == 0


def test_overhead_per_type_is_taken_off_before_requests() -> None:
    thresholds = CATALOGUE.index_with_overhead([{"cpu": 500}, {}, {"example.com/device": 1}])
    assert names(thresholds.fitting({"cpu": 1500})) == ["small", "arm"]
    assert names(thresholds.fitting({"cpu": 1501})) == ["arm"]


def test_the_cheapest_offering_is_that_of_the_kind_asked_for() -> None:
    def bought(requirements: Requirements) -> tuple[str, float] | None:
        found = CATALOGUE.cheapest(CATALOGUE.all_types, requirements)
        return None if found is None else (found[0].name, found[1].price)

    assert bought(NO_REQUIREMENTS) == ("small", 0.04)
    assert bought(label_requirement(CAPACITY_TYPE, "In", "on-demand")) == ("small", 0.10)
    assert bought(label_requirement(ZONE, "In", "zone-z")) == ("gpu", 0.90)
    assert bought(label_requirement(CAPACITY_TYPE, "In", "reserved")) is None
    assert CATALOGUE.cheapest(0, NO_REQUIREMENTS) is None


def test_equal_prices_go_to_the_first_name_although_its_row_is_later() -> None:
    spot = label_requirement(CAPACITY_TYPE, "In", "spot")
    first = instance_type(name="a", offerings=(offering(capacity_type="spot", price=0.5),))
    later = instance_type(
        name="b", offerings=(offering(price=0.1), offering(capacity_type="spot", price=0.5))
    )
    index = InstanceTypeIndex([first, later])
    found = index.cheapest(index.all_types, spot)
    assert names(index.all_types, index) == ["b", "a"]
    assert found is not None
    assert found[0].name == "a"


def test_rows_of_one_name_may_differ_in_what_they_hold() -> None:
    plain = instance_type(name="m", capacity={"cpu": 1}, offerings=(offering(zone="zone-a"),))
    more = instance_type(name="m", capacity={"cpu": 2}, offerings=(offering(zone="zone-b"),))
    index = InstanceTypeIndex([plain, more])
    assert index.compatible_types(label_requirement(INSTANCE_TYPE, "In", "m")) == index.all_types
    assert index.remaining_values(INSTANCE_TYPE, index.all_types, 0b11) == ["m"]
    assert (
        index.fitting({"cpu": 2}) & index.available_to(label_requirement(ZONE, "In", "zone-a")) == 0
    )


def test_values_left_are_those_of_the_types_and_markets_left() -> None:
    everywhere = CATALOGUE.compatible_groups(NO_REQUIREMENTS)
    on_demand = CATALOGUE.compatible_groups(label_requirement(CAPACITY_TYPE, "In", "on-demand"))
    arm = CATALOGUE.compatible_types(label_requirement(ARCH, "In", "arm64"))
    everything = CATALOGUE.all_types
    assert CATALOGUE.remaining_values(ZONE, everything, everywhere) == ["zone-a", "zone-b"]
    assert CATALOGUE.remaining_values(ZONE, arm, everywhere) == ["zone-b"]
    assert CATALOGUE.remaining_values(CAPACITY_TYPE, everything, everywhere) == [
        "on-demand",
        "spot",
    ]
    assert CATALOGUE.remaining_values(CAPACITY_TYPE, everything, on_demand) == ["on-demand"]
    assert CATALOGUE.remaining_values(ARCH, everything, everywhere) == ["amd64", "arm64"]
    assert CATALOGUE.remaining_values("team", everything, everywhere) == []


def test_min_values_can_be_asked_without_counting_all() -> None:
    everywhere = CATALOGUE.compatible_groups(NO_REQUIREMENTS)
    for key, count in ((INSTANCE_TYPE, 3), (ARCH, 2), (ZONE, 2), ("team", 0)):
        rows = CATALOGUE.all_types
        assert CATALOGUE.has_values(key, count, rows, everywhere, ANY_VALUE)
        assert not CATALOGUE.has_values(key, count + 1, rows, everywhere, ANY_VALUE)


def test_the_labels_of_a_catalogue_are_known() -> None:
    custom = instance_type(labels={"example.com/a": "1"}, offerings=(offering(labels={"b": "2"}),))
    assert InstanceTypeIndex([custom]).keys >= {
        "example.com/a",
        "b",
        ZONE,
        CAPACITY_TYPE,
        INSTANCE_TYPE,
    }
    assert "team" not in CATALOGUE.keys
    assert INSTANCE_TENANCY not in CATALOGUE.keys


def test_an_empty_catalogue_has_no_answers() -> None:
    index = InstanceTypeIndex([])
    assert (
        index.all_types == index.compatible_types(label_requirement(ARCH)) == index.fitting({}) == 0
    )
    assert index.cheapest(0, NO_REQUIREMENTS) is None
