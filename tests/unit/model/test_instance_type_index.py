"""The index of instance types: the order of types, and each query by example."""

from msgspec.structs import replace
from tests.support.model_builders import GIB, instance_type, label_requirement, offering

from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
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


def names(types: int, index: InstanceTypeIndex = CATALOGUE) -> list[str]:
    return [each.name for each in index.iter_types(types)]


def test_types_are_sorted_by_their_cheapest_available_offering() -> None:
    assert names(CATALOGUE.all_types) == ["small", "arm", "gpu"]


def test_types_of_equal_price_are_sorted_by_name_and_unavailable_types_come_last() -> None:
    index = InstanceTypeIndex(
        [
            instance_type(name="a-unsold", offerings=(offering(price=0.01, available=0),)),
            instance_type(name="b"),
            instance_type(name="a"),
        ]
    )
    assert names(index.all_types, index) == ["a", "b", "a-unsold"]


def test_requirements_match_types_by_their_labels() -> None:
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


def test_a_type_without_a_label_that_others_have_matches_only_its_absence() -> None:
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


def test_exists_with_not_in_excludes_a_type_without_the_label() -> None:
    needing = label_requirement(INSTANCE_GPU_COUNT, "Exists").narrow(
        label_requirement(INSTANCE_GPU_COUNT, "NotIn", "8")
    )
    assert names(CATALOGUE.compatible_types(needing)) == ["gpu"]


def test_fees_count_in_the_order_of_types() -> None:
    index = InstanceTypeIndex(
        [
            instance_type(name="a", offerings=(offering(price=0.2),), fee=0.2),
            instance_type(name="b", offerings=(offering(price=0.3),)),
        ]
    )
    assert names(index.all_types, index) == ["b", "a"]


def test_a_label_of_instance_types_counts_as_absent_even_if_no_type_has_it() -> None:
    index = InstanceTypeIndex([SMALL, ARM])
    assert (
        names(index.compatible_types(label_requirement(INSTANCE_GPU_COUNT, "Gt", "0")), index) == []
    )
    assert (
        index.compatible_types(label_requirement(INSTANCE_GPU_COUNT, "DoesNotExist"))
        == index.all_types
    )


def test_a_label_that_no_type_and_no_offering_has_narrows_nothing() -> None:
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


def test_an_unavailable_offering_does_not_make_its_type_available() -> None:
    assert names(CATALOGUE.available_to(label_requirement(ZONE, "In", "zone-a"))) == [
        "small",
        "gpu",
    ]


def test_zone_and_capacity_type_must_come_from_the_same_offering() -> None:
    spot_in_b = label_requirement(ZONE, "In", "zone-b").narrow(
        label_requirement(CAPACITY_TYPE, "In", "spot")
    )
    assert names(CATALOGUE.available_to(spot_in_b)) == []


def test_a_type_with_several_values_matches_each_of_them() -> None:
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


def test_a_type_with_several_values_does_not_match_when_all_are_excluded() -> None:
    either = instance_type(
        requirements=label_requirement(INSTANCE_TENANCY, "In", "default", "dedicated")
    )
    index = InstanceTypeIndex([either])
    assert (
        index.compatible_types(label_requirement(INSTANCE_TENANCY, "NotIn", "default", "dedicated"))
        == 0
    )


def test_a_type_that_only_excludes_values_matches_the_absence_of_the_label() -> None:
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


def test_offering_groups_have_the_count_of_their_reservation() -> None:
    index = InstanceTypeIndex([reserved(count=2), instance_type(name="other")])
    counts = {
        offering_group.reservation_id: offering_group.available
        for offering_group in index.offering_groups
    }
    assert counts == {None: 4294967295, "cr-1": 2}


def test_a_full_reservation_is_offered_but_not_available() -> None:
    index = InstanceTypeIndex([reserved(count=0)])
    (full,) = [
        offering_group for offering_group in index.offering_groups if offering_group.reservation_id
    ]
    assert (full.offered_types, full.available_types, full.available) == (1, 0, 0)


def test_requests_fit_on_types_with_enough_allocatable_resources() -> None:
    assert names(CATALOGUE.fitting({"cpu": 2000})) == ["small", "arm", "gpu"]
    assert names(CATALOGUE.fitting({"cpu": 2001})) == ["arm", "gpu"]
    assert names(CATALOGUE.fitting({"cpu": 2001, "memory": 5 * GIB})) == ["gpu"]
    assert names(CATALOGUE.fitting({"nvidia.com/gpu": 1})) == ["gpu"]
    assert names(CATALOGUE.fitting({"nvidia.com/gpu": 0})) == ["small", "arm", "gpu"]
    assert names(CATALOGUE.fitting({"amd.com/gpu": 1})) == []
    assert names(CATALOGUE.fitting({"cpu": 16001})) == []


def test_nothing_fits_on_a_type_whose_overhead_exceeds_its_capacity() -> None:
    index = InstanceTypeIndex(
        [instance_type(capacity={"cpu": 1, "memory": 1}, overhead={"memory": 2})]
    )
    assert index.fitting({}) == 0


def test_overhead_per_type_is_subtracted_from_allocatable() -> None:
    with_overhead = CATALOGUE.index_with_overhead([{"cpu": 500}, {}, {"example.com/device": 1}])
    assert names(with_overhead.fitting({"cpu": 1500})) == ["small", "arm"]
    assert names(with_overhead.fitting({"cpu": 1501})) == ["arm"]


def test_the_cheapest_offering_is_compatible_with_the_requirements() -> None:
    def cheapest(requirements: Requirements) -> tuple[str, float] | None:
        result = CATALOGUE.cheapest(CATALOGUE.all_types, requirements)
        return None if result is None else (result[0].name, result[1].price)

    assert cheapest(NO_REQUIREMENTS) == ("small", 0.04)
    assert cheapest(label_requirement(CAPACITY_TYPE, "In", "on-demand")) == ("small", 0.10)
    assert cheapest(label_requirement(ZONE, "In", "zone-z")) == ("gpu", 0.90)
    assert cheapest(label_requirement(CAPACITY_TYPE, "In", "reserved")) is None
    assert CATALOGUE.cheapest(0, NO_REQUIREMENTS) is None


def test_of_equal_prices_the_first_name_wins_although_its_type_comes_later() -> None:
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


def test_types_of_one_name_may_differ_in_capacity_and_offerings() -> None:
    plain = instance_type(name="m", capacity={"cpu": 1}, offerings=(offering(zone="zone-a"),))
    more = instance_type(name="m", capacity={"cpu": 2}, offerings=(offering(zone="zone-b"),))
    index = InstanceTypeIndex([plain, more])
    assert index.compatible_types(label_requirement(INSTANCE_TYPE, "In", "m")) == index.all_types
    assert index.remaining_values(INSTANCE_TYPE, index.all_types, 0b11) == ["m"]
    assert (
        index.fitting({"cpu": 2}) & index.available_to(label_requirement(ZONE, "In", "zone-a")) == 0
    )


def test_remaining_values_are_those_of_the_remaining_types_and_groups() -> None:
    all_groups = CATALOGUE.compatible_groups(NO_REQUIREMENTS)
    on_demand = CATALOGUE.compatible_groups(label_requirement(CAPACITY_TYPE, "In", "on-demand"))
    arm = CATALOGUE.compatible_types(label_requirement(ARCH, "In", "arm64"))
    everything = CATALOGUE.all_types
    assert CATALOGUE.remaining_values(ZONE, everything, all_groups) == ["zone-a", "zone-b"]
    assert CATALOGUE.remaining_values(ZONE, arm, all_groups) == ["zone-b"]
    assert CATALOGUE.remaining_values(CAPACITY_TYPE, everything, all_groups) == [
        "on-demand",
        "spot",
    ]
    assert CATALOGUE.remaining_values(CAPACITY_TYPE, everything, on_demand) == ["on-demand"]
    assert CATALOGUE.remaining_values(ARCH, everything, all_groups) == ["amd64", "arm64"]
    assert CATALOGUE.remaining_values("team", everything, all_groups) == []


def test_has_values_agrees_with_the_number_of_remaining_values() -> None:
    all_groups = CATALOGUE.compatible_groups(NO_REQUIREMENTS)
    for key, count in ((INSTANCE_TYPE, 3), (ARCH, 2), (ZONE, 2), ("team", 0)):
        types = CATALOGUE.all_types
        assert CATALOGUE.has_values(key, count, types, all_groups, ANY_VALUE)
        assert not CATALOGUE.has_values(key, count + 1, types, all_groups, ANY_VALUE)


def test_values_of_offerings_count_only_in_the_groups_that_are_left() -> None:
    index = InstanceTypeIndex(
        [instance_type(offerings=(offering(zone="zone-a"), offering(zone="zone-b")))]
    )
    in_one_zone = index.compatible_groups(label_requirement(ZONE, "In", "zone-b"))
    assert index.has_values(ZONE, 1, index.all_types, in_one_zone, ANY_VALUE)
    assert not index.has_values(ZONE, 2, index.all_types, in_one_zone, ANY_VALUE)


def test_the_keys_are_the_labels_of_types_and_offerings() -> None:
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


def test_an_index_without_types_matches_nothing() -> None:
    index = InstanceTypeIndex([])
    assert (
        index.all_types == index.compatible_types(label_requirement(ARCH)) == index.fitting({}) == 0
    )
    assert index.cheapest(0, NO_REQUIREMENTS) is None


def times_price(factor: float, each: InstanceType) -> InstanceType:
    offerings = tuple(replace(one, price=one.price * factor) for one in each.offerings)
    return replace(each, offerings=offerings)


def test_other_prices_in_the_same_order_compile_no_labels_and_resources_again() -> None:
    later = InstanceTypeIndex(
        [times_price(2, each) for each in (GPU, SMALL, ARM)], previous=CATALOGUE
    )
    assert names(later.all_types, later) == ["small", "arm", "gpu"]
    assert later.allocatable_index is CATALOGUE.allocatable_index
    cheapest = later.cheapest(later.all_types, NO_REQUIREMENTS)
    assert cheapest is not None
    assert cheapest[1].price == 0.08


def test_other_prices_in_another_order_number_the_types_anew() -> None:
    index = CATALOGUE
    index.compatible_types(label_requirement(ARCH, "In", "arm64"))
    later = InstanceTypeIndex([times_price(100, SMALL), GPU, ARM], previous=index)
    assert names(later.all_types, later) == ["arm", "gpu", "small"]
    assert names(later.compatible_types(label_requirement(ARCH, "In", "arm64")), later) == ["arm"]
    assert names(later.fitting({"nvidia.com/gpu": 1}), later) == ["gpu"]
    assert names(later.accelerated, later) == ["gpu"]


def test_a_changed_count_compiles_no_labels_and_resources_again() -> None:
    first = InstanceTypeIndex([reserved(count=2), instance_type(name="other")])
    later = InstanceTypeIndex([reserved(count=1), instance_type(name="other")], previous=first)
    assert later.allocatable_index is first.allocatable_index
    assert {group.available for group in first.offering_groups} - {UNLIMITED} == {2}
    assert {group.available for group in later.offering_groups} - {UNLIMITED} == {1}


def test_an_index_of_other_types_takes_nothing_over() -> None:
    first = InstanceTypeIndex([instance_type(name="a", capacity={"cpu": 1000})])
    later = InstanceTypeIndex([instance_type(name="a", capacity={"cpu": 2000})], previous=first)
    assert later.fitting({"cpu": 2000}) == 1
    assert later.capacity_index.fitting({"cpu": 2000}) == 1


def test_a_label_that_offerings_of_other_types_name_now_is_compiled_again() -> None:
    gold = replace(offering(), requirements=Requirements.from_labels({"tier": "gold", ZONE: "z"}))
    plain = replace(offering(), requirements=Requirements.from_labels({ZONE: "z"}))
    has_label = instance_type(name="c", labels={"tier": "tin"})

    def types(of_a: Offering, of_b: Offering) -> list[InstanceType]:
        a, b = (
            instance_type(name="a", offerings=(of_a,)),
            instance_type(name="b", offerings=(of_b,)),
        )
        return [a, b, has_label]

    wanted = label_requirement("tier", "In", "gold")
    first = InstanceTypeIndex(types(gold, plain))
    assert names(first.compatible_types(wanted), first) == ["a"]
    later = InstanceTypeIndex(types(plain, gold), previous=first)
    assert names(later.compatible_types(wanted), later) == ["b"]
