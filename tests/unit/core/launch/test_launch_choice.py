"""The launch choice: which offering is bought, and which types may stand in for it."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.model_builders import GIB, instance_type, label_requirement, offering

from wainwright.core.launch.instance_type_truncation import truncate_types
from wainwright.core.launch.launch_choice import (
    LaunchOptions,
    capacity_type_of,
    choose_offering,
    launch_candidates,
    options_of_claim,
    zone_of,
)
from wainwright.core.plan import plan
from wainwright.core.scheduling.reservation_manager import reserved_offerings
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.pod import Pod
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import Pool, Snapshot

GPU = {"cpu": 4000, "memory": 16 * GIB, "pods": 29, "nvidia.com/gpu": 1}


def kind(name: str, *offerings: Offering, **more: Any) -> InstanceType:
    family, _, size = name.partition(".")
    labels = {INSTANCE_TYPE: name, INSTANCE_FAMILY: family, INSTANCE_SIZE: size}
    return instance_type(name=name, labels=labels, offerings=offerings, **more)


def slot(name: str, price: float = 1e-7, *, zone: str = "zone-a") -> Offering:
    return offering(
        capacity_type=RESERVED, reservation_id=name, price=price, available=5, zone=zone
    )


def left(
    *types: InstanceType,
    asked: Requirements = NO_REQUIREMENTS,
    minimums: tuple[tuple[str, int], ...] = (),
) -> LaunchOptions:
    """Everything that is on sale, every reservation held."""
    index = InstanceTypeIndex(types)
    offering_groups, held = index.compatible_groups(asked), reserved_offerings(index)
    return LaunchOptions(
        index=index,
        rows=index.all_types,
        offering_groups=offering_groups ^ held,
        held=held,
        requirements=asked,
        minimums=minimums,
    )


def bought(
    what: LaunchOptions, free: Mapping[str, int] | None = None
) -> tuple[str, float, str | None]:
    buy = choose_offering(what, lambda name: (free or {}).get(name, 1))
    return what.index.types[buy.row].name, buy.offering.price, buy.offering.reservation_id


def test_a_slot_comes_before_anything_else() -> None:
    what = left(kind("m5.large", offering(price=0.01), slot("cr-1", 0.5)))
    assert bought(what) == ("m5.large", 0.5, "cr-1")


def test_of_several_slots_the_cheapest_is_taken() -> None:
    what = left(kind("m5.large", slot("cr-1", 2e-7)), kind("m5.xlarge", slot("cr-2", 1e-7)))
    assert bought(what)[2] == "cr-2"


def test_of_equal_reservations_the_one_with_more_slots_is_taken() -> None:
    what = left(kind("m5.large", slot("cr-1"), slot("cr-2"), slot("cr-0")))
    assert bought(what, {"cr-0": 1, "cr-1": 2, "cr-2": 3})[2] == "cr-2"
    assert bought(what, {"cr-0": 1, "cr-1": 1, "cr-2": 1})[2] == "cr-0"


def test_spot_comes_before_on_demand() -> None:
    spot = offering(capacity_type=SPOT, price=0.2)
    assert bought(left(kind("m5.large", spot, offering(price=0.3))))[1] == 0.2


def test_spot_at_the_same_price_comes_before_on_demand() -> None:
    what = left(kind("a.large", offering(price=0.2)), kind("b.large", spot_at(0.2)))
    assert bought(what)[0] == "b.large"


def test_spot_that_is_dearer_than_on_demand_is_left_alone() -> None:
    what = left(kind("m5.large", spot_at(0.4), offering(price=0.3)))
    assert bought(what)[1] == 0.3


def spot_at(price: float) -> Offering:
    return offering(capacity_type=SPOT, price=price)


def test_fees_count_in_the_choice() -> None:
    what = left(
        kind("a.large", offering(price=0.30), fee=0.2),
        kind("b.large", offering(price=0.40)),
        kind("c.large", spot_at(0.35), fee=0.1),
    )
    assert bought(what)[0] == "b.large"
    assert [each.name for each in truncate_types(what, 60) or ()] == [
        "b.large",
        "c.large",
        "a.large",
    ]
    assert [each.name for each in truncate_types(launch_candidates(what), 60) or ()] == [
        "b.large",
        "a.large",
    ]


def test_spot_is_as_dear_as_it_is_with_its_fees() -> None:
    what = left(
        kind("a.large", spot_at(0.25), offering(price=0.3), fee=0.1), kind("b.large", spot_at(0.4))
    )
    assert bought(what)[:2] == ("a.large", 0.25)
    assert [each.name for each in truncate_types(launch_candidates(what), 60) or ()] == [
        "a.large",
        "b.large",
    ]


def test_metal_is_left_out_while_there_is_something_else() -> None:
    metal = kind("m5.metal", offering(price=0.1))
    assert bought(left(metal, kind("m5.large", offering(price=0.9))))[0] == "m5.large"
    assert bought(left(metal))[0] == "m5.metal"


def test_metal_that_somebody_named_is_not_left_out() -> None:
    types = (kind("m5.metal", offering(price=0.1)), kind("m5.large", offering(price=0.9)))
    named = label_requirement(INSTANCE_SIZE, "In", "metal", "large")
    assert bought(left(*types, asked=named))[0] == "m5.metal"
    assert bought(left(*types, asked=label_requirement(INSTANCE_SIZE, "Exists")))[0] == "m5.large"


def test_accelerators_are_left_out_unless_asked_for() -> None:
    types = (
        kind("g4.large", offering(price=0.1), capacity=GPU),
        kind("m5.large", offering(price=0.9)),
    )
    assert bought(left(*types))[0] == "m5.large"
    asked = label_requirement(INSTANCE_FAMILY, "In", "g4", "m5")
    assert bought(left(*types, asked=asked))[0] == "g4.large"


def test_a_reserved_machine_of_metal_is_used_as_somebody_selected_it() -> None:
    what = left(kind("m5.metal", slot("cr-1")), kind("m5.large", offering(price=0.1)))
    assert bought(what)[2] == "cr-1"


def test_metal_stays_where_min_values_need_it() -> None:
    types = (kind("m5.metal", offering(price=0.1)), kind("m5.large", offering(price=0.9)))
    assert bought(left(*types, minimums=((INSTANCE_TYPE, 2),)))[0] == "m5.metal"


def test_a_launch_list_is_of_one_kind_and_not_dearer_than_on_demand() -> None:
    what = left(
        kind("a.large", spot_at(0.1), offering(price=0.3)),
        kind("b.large", spot_at(0.4)),
        kind("c.large", offering(price=0.3)),
    )
    listed = truncate_types(launch_candidates(what), 60)
    assert listed is not None
    assert [each.name for each in listed] == ["a.large"]


def test_a_reserved_launch_lists_only_types_with_slots() -> None:
    what = left(kind("a.large", slot("cr-1")), kind("b.large", offering(price=0.1)))
    listed = truncate_types(launch_candidates(what), 60)
    assert listed is not None
    assert [each.name for each in listed] == ["a.large"]


def many(count: int) -> list[InstanceType]:
    return [
        kind(f"f{number // 10}.s{number:03}", offering(price=1.0 + number))
        for number in range(count)
    ]


def test_the_list_is_cut_to_the_cheapest() -> None:
    listed = truncate_types(left(*many(100)), 60)
    assert listed is not None
    assert [each.name for each in listed] == [each.name for each in many(60)]


def test_cutting_keeps_min_values_by_the_cheapest_types_that_do() -> None:
    listed = truncate_types(left(*many(100), minimums=((INSTANCE_FAMILY, 8),)), 60)
    assert listed is not None
    assert len(listed) == 60
    assert {each.name.partition(".")[0] for each in listed} == {f"f{n}" for n in range(8)}
    assert listed[-2].name == "f6.s060"
    assert listed[-1].name == "f7.s070"


def test_cutting_keeps_several_min_values_with_types_that_serve_all_of_them() -> None:
    """The cheapest 60 types are of 6 families, and the cheapest of each family are 20 more."""
    wanted = ((INSTANCE_FAMILY, 20), (INSTANCE_TYPE, 60))
    listed = truncate_types(left(*many(300), minimums=wanted), 60)
    assert listed is not None
    assert len(listed) == 60
    assert len({each.name.partition(".")[0] for each in listed}) == 20


def test_cutting_fails_where_not_even_all_types_would_do() -> None:
    assert truncate_types(left(*many(100), minimums=((INSTANCE_FAMILY, 11),)), 60) is None


def test_cutting_fails_where_so_few_types_cannot_keep_min_values() -> None:
    assert truncate_types(left(*many(100), minimums=((INSTANCE_TYPE, 61),)), 60) is None


def test_an_offering_of_any_zone_is_launched_in_the_first_that_is_allowed() -> None:
    anywhere = kind("m5.large", offering(zone=None, price=0.5))
    elsewhere = kind("m5.xlarge", offering(zone="zone-q"), offering(zone="zone-r"))
    assert zone(left(anywhere)) is None
    assert zone(left(anywhere, elsewhere)) == "zone-q"
    assert zone(left(anywhere, asked=label_requirement(ZONE, "In", "y", "x"))) == "x"
    assert (
        zone(left(anywhere, elsewhere, asked=label_requirement(ZONE, "In", "a", "zone-r")))
        == "zone-r"
    )
    assert (
        zone(left(anywhere, elsewhere, asked=label_requirement(ZONE, "NotIn", "zone-q")))
        == "zone-r"
    )
    assert zone(left(anywhere, elsewhere, asked=label_requirement(ZONE, "In", "z"))) == "z"


def zone(what: LaunchOptions) -> str | None:
    return zone_of(what, choose_offering(what, lambda _: 1))


def test_zones_that_no_offering_names_may_be_known_all_the_same() -> None:
    anywhere = kind("m5.large", offering(zone=None))
    index = InstanceTypeIndex([anywhere], zones=["zone-b", "zone-a"])
    pods = (Pod(namespace="d", name="a", requests={"cpu": 100}),)
    [claim] = plan(Snapshot(pods=pods, pools=(Pool(name="p"),)), {"p": index}).claims
    assert claim.choices.zones == ("zone-a", "zone-b")
    assert claim.launch.zone == "zone-a"


def test_a_type_may_say_in_which_zone_its_offerings_are() -> None:
    pinned = kind(
        "m5.large", offering(zone=None), requirements=label_requirement(ZONE, "In", "b", "c")
    )
    elsewhere = kind("m5.xlarge", offering(zone="a", price=2.0))
    assert zone(left(pinned, elsewhere)) == "b"
    assert zone(left(pinned, elsewhere, asked=label_requirement(ZONE, "NotIn", "b"))) == "c"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (NO_REQUIREMENTS, "on-demand"),
        (label_requirement(CAPACITY_TYPE, "In", "spot", "on-demand", "reserved"), "on-demand"),
        (label_requirement(CAPACITY_TYPE, "NotIn", "spot"), "on-demand"),
        (label_requirement(CAPACITY_TYPE, "In", "spot", "reserved"), "spot"),
        (label_requirement(CAPACITY_TYPE, "NotIn", "on-demand"), "spot"),
    ],
)
def test_an_offering_of_any_capacity_type_is_bought_on_demand_where_that_may_be(
    asked: Requirements, expected: str
) -> None:
    what = left(kind("m5.large", offering(capacity_type=None)), asked=asked)
    assert capacity_type_of(what, choose_offering(what, lambda _: 1)) == expected


@pytest.mark.parametrize("asked", [("In", "reserved"), ("NotIn", "on-demand", "spot")])
def test_an_offering_of_any_capacity_type_is_no_slot_of_a_reservation(
    asked: tuple[str, ...],
) -> None:
    what = left(
        kind("m5.large", offering(capacity_type=None)),
        asked=label_requirement(CAPACITY_TYPE, *asked),
    )
    assert what.offering_groups == 0


def test_a_reservation_without_a_capacity_type_is_reserved() -> None:
    unsaid = offering(capacity_type=None, reservation_id="cr-1", available=1)
    for allowed, offering_groups in (("reserved", 1), ("on-demand", 0)):
        asked = label_requirement(CAPACITY_TYPE, "In", allowed)
        assert (
            InstanceTypeIndex([kind("m5.large", unsaid)]).compatible_groups(asked)
            == offering_groups
        )


def test_what_can_be_bought_either_way_competes_as_spot_with_those_who_may_only_have_spot() -> None:
    either = kind("b.large", offering(capacity_type=None, price=0.2))
    what = left(
        kind("a.large", spot_at(0.3)), either, asked=label_requirement(CAPACITY_TYPE, "In", "spot")
    )
    assert bought(what)[0] == "b.large"
    assert [each.name for each in truncate_types(launch_candidates(what), 60) or ()] == [
        "b.large",
        "a.large",
    ]


ODD = (
    kind("a.large", offering(zone=None, capacity_type=None, price=0.3)),
    kind("b.large", offering(zone="zone-b", capacity_type="spot", price=0.5)),
    kind("c.large", offering(zone="zone-c", price=0.4)),
    kind("d.large", offering(zone=None, capacity_type=None, available=1, reservation_id="cr-1")),
)


@pytest.mark.parametrize(
    ("asked", "zones", "capacity_types"),
    [
        (NO_REQUIREMENTS, ("zone-b", "zone-c"), ("reserved",)),
        (
            label_requirement(CAPACITY_TYPE, "NotIn", "reserved"),
            ("zone-b", "zone-c"),
            ("on-demand", "spot"),
        ),
        (label_requirement(CAPACITY_TYPE, "In", "spot"), ("zone-b", "zone-c"), ("spot",)),
        (label_requirement(CAPACITY_TYPE, "In", "on-demand"), ("zone-b", "zone-c"), ("on-demand",)),
        (label_requirement(ZONE, "In", "zone-c", "a"), ("zone-c",), ("reserved",)),
        (label_requirement(ZONE, "In", "z"), ("z",), ("reserved",)),
    ],
)
def test_what_is_launched_is_among_what_the_claim_may_choose(
    asked: Requirements, zones: tuple[str, ...], capacity_types: tuple[str, ...]
) -> None:
    pods = (Pod(namespace="d", name="a", requests={"cpu": 100}, alternatives=(asked,)),)
    [claim] = plan(
        Snapshot(pods=pods, pools=(Pool(name="p"),)), {"p": InstanceTypeIndex(ODD)}
    ).claims
    assert claim.choices.zones == zones
    assert claim.choices.capacity_types == capacity_types
    assert (claim.launch.zone, claim.launch.capacity_type) == (zones[0], capacity_types[0])


def test_a_claim_of_a_plan_can_be_launched_as_it_was_planned() -> None:
    types = (
        kind("m5.large", offering(price=0.1), slot("cr-1"), slot("cr-2", zone="zone-b")),
        kind("m5.xlarge", offering(price=0.2)),
    )
    index = InstanceTypeIndex(types)
    pool = Pool(name="p", requirements=label_requirement(INSTANCE_TYPE, "Exists", min_values=2))
    pods = (Pod(namespace="d", name="a", requests={"cpu": 100}),)
    [claim] = plan(Snapshot(pods=pods, pools=(pool,)), {"p": index}).claims
    again = options_of_claim(claim, index)
    assert bought(again) == ("m5.large", claim.launch.price, claim.launch.reservation_id)
    assert [each.name for each in truncate_types(again, 600) or ()] == ["m5.large", "m5.xlarge"]
    assert [each.name for each in truncate_types(launch_candidates(again), 60) or ()] == [
        "m5.large"
    ]
    assert truncate_types(again, 1) is None
