"""The launch choice: which offering is launched, and which types a launch request lists."""

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


def type_named(name: str, *offerings: Offering, **more: Any) -> InstanceType:
    family, _, size = name.partition(".")
    labels = {INSTANCE_TYPE: name, INSTANCE_FAMILY: family, INSTANCE_SIZE: size}
    return instance_type(name=name, labels=labels, offerings=offerings, **more)


def reserved(name: str, price: float = 1e-7, *, zone: str = "zone-a") -> Offering:
    return offering(
        capacity_type=RESERVED, reservation_id=name, price=price, available=5, zone=zone
    )


def options(
    *types: InstanceType,
    requires: Requirements = NO_REQUIREMENTS,
    min_values: tuple[tuple[str, int], ...] = (),
) -> LaunchOptions:
    """All types and offerings, with every reservation held."""
    index = InstanceTypeIndex(types)
    offering_groups, held = index.compatible_groups(requires), reserved_offerings(index)
    return LaunchOptions(
        index=index,
        types=index.all_types,
        offering_groups=offering_groups ^ held,
        held=held,
        requirements=requires,
        min_values=min_values,
    )


def chosen(
    launch_options: LaunchOptions, available: Mapping[str, int] | None = None
) -> tuple[str, float, str | None]:
    choice = choose_offering(launch_options, lambda name: (available or {}).get(name, 1))
    return (
        launch_options.index.types[choice.type_number].name,
        choice.offering.price,
        choice.offering.reservation_id,
    )


def test_reserved_comes_before_other_capacity_types() -> None:
    launch_options = options(type_named("m5.large", offering(price=0.01), reserved("cr-1", 0.5)))
    assert chosen(launch_options) == ("m5.large", 0.5, "cr-1")


def test_the_cheapest_reservation_is_used() -> None:
    launch_options = options(
        type_named("m5.large", reserved("cr-1", 2e-7)),
        type_named("m5.xlarge", reserved("cr-2", 1e-7)),
    )
    assert chosen(launch_options)[2] == "cr-2"


def test_of_equal_reservations_the_one_with_the_most_available_instances_is_used() -> None:
    launch_options = options(
        type_named("m5.large", reserved("cr-1"), reserved("cr-2"), reserved("cr-0"))
    )
    assert chosen(launch_options, {"cr-0": 1, "cr-1": 2, "cr-2": 3})[2] == "cr-2"
    assert chosen(launch_options, {"cr-0": 1, "cr-1": 1, "cr-2": 1})[2] == "cr-0"


def test_spot_comes_before_on_demand() -> None:
    spot = offering(capacity_type=SPOT, price=0.2)
    assert chosen(options(type_named("m5.large", spot, offering(price=0.3))))[1] == 0.2


def test_spot_at_the_same_price_comes_before_on_demand() -> None:
    launch_options = options(
        type_named("a.large", offering(price=0.2)), type_named("b.large", spot_at(0.2))
    )
    assert chosen(launch_options)[0] == "b.large"


def test_spot_that_costs_more_than_on_demand_is_not_used() -> None:
    launch_options = options(type_named("m5.large", spot_at(0.4), offering(price=0.3)))
    assert chosen(launch_options)[1] == 0.3


def spot_at(price: float) -> Offering:
    return offering(capacity_type=SPOT, price=price)


def test_fees_count_in_the_choice() -> None:
    launch_options = options(
        type_named("a.large", offering(price=0.30), fee=0.2),
        type_named("b.large", offering(price=0.40)),
        type_named("c.large", spot_at(0.35), fee=0.1),
    )
    assert chosen(launch_options)[0] == "b.large"
    assert [each.name for each in truncate_types(launch_options, 60) or ()] == [
        "b.large",
        "c.large",
        "a.large",
    ]
    assert [each.name for each in truncate_types(launch_candidates(launch_options), 60) or ()] == [
        "b.large",
        "a.large",
    ]


def test_fees_count_when_spot_is_compared_with_on_demand() -> None:
    launch_options = options(
        type_named("a.large", spot_at(0.25), offering(price=0.3), fee=0.1),
        type_named("b.large", spot_at(0.4)),
    )
    assert chosen(launch_options)[:2] == ("a.large", 0.25)
    assert [each.name for each in truncate_types(launch_candidates(launch_options), 60) or ()] == [
        "a.large",
        "b.large",
    ]


def test_metal_is_left_out_if_there_are_other_types() -> None:
    metal = type_named("m5.metal", offering(price=0.1))
    assert chosen(options(metal, type_named("m5.large", offering(price=0.9))))[0] == "m5.large"
    assert chosen(options(metal))[0] == "m5.metal"


def test_metal_named_by_requirements_is_not_left_out() -> None:
    types = (
        type_named("m5.metal", offering(price=0.1)),
        type_named("m5.large", offering(price=0.9)),
    )
    named = label_requirement(INSTANCE_SIZE, "In", "metal", "large")
    assert chosen(options(*types, requires=named))[0] == "m5.metal"
    assert (
        chosen(options(*types, requires=label_requirement(INSTANCE_SIZE, "Exists")))[0]
        == "m5.large"
    )


def test_accelerators_are_left_out_unless_requirements_name_them() -> None:
    types = (
        type_named("g4.large", offering(price=0.1), capacity=GPU),
        type_named("m5.large", offering(price=0.9)),
    )
    assert chosen(options(*types))[0] == "m5.large"
    requires = label_requirement(INSTANCE_FAMILY, "In", "g4", "m5")
    assert chosen(options(*types, requires=requires))[0] == "g4.large"


def test_reserved_metal_is_used() -> None:
    launch_options = options(
        type_named("m5.metal", reserved("cr-1")), type_named("m5.large", offering(price=0.1))
    )
    assert chosen(launch_options)[2] == "cr-1"


def test_metal_is_kept_if_min_values_need_it() -> None:
    types = (
        type_named("m5.metal", offering(price=0.1)),
        type_named("m5.large", offering(price=0.9)),
    )
    assert chosen(options(*types, min_values=((INSTANCE_TYPE, 2),)))[0] == "m5.metal"


def test_a_launch_request_has_one_capacity_type_and_costs_no_more_than_on_demand() -> None:
    launch_options = options(
        type_named("a.large", spot_at(0.1), offering(price=0.3)),
        type_named("b.large", spot_at(0.4)),
        type_named("c.large", offering(price=0.3)),
    )
    listed = truncate_types(launch_candidates(launch_options), 60)
    assert listed is not None
    assert [each.name for each in listed] == ["a.large"]


def test_spot_types_that_cost_more_are_listed_where_min_values_need_them() -> None:
    types = (
        type_named("a.large", spot_at(0.1), offering(price=0.3)),
        type_named("b.large", spot_at(0.4)),
        type_named("c.large", offering(price=0.3)),
    )
    listed = truncate_types(
        launch_candidates(options(*types, min_values=((INSTANCE_TYPE, 2),))), 60
    )
    assert listed is not None
    assert [each.name for each in listed] == ["a.large", "b.large"]


def test_a_reserved_launch_lists_only_reserved_types() -> None:
    launch_options = options(
        type_named("a.large", reserved("cr-1")), type_named("b.large", offering(price=0.1))
    )
    listed = truncate_types(launch_candidates(launch_options), 60)
    assert listed is not None
    assert [each.name for each in listed] == ["a.large"]


def many_types(count: int) -> list[InstanceType]:
    return [
        type_named(f"f{number // 10}.s{number:03}", offering(price=1.0 + number))
        for number in range(count)
    ]


def test_types_are_truncated_to_the_cheapest() -> None:
    listed = truncate_types(options(*many_types(100)), 60)
    assert listed is not None
    assert [each.name for each in listed] == [each.name for each in many_types(60)]


def test_truncation_keeps_min_values_with_the_cheapest_types() -> None:
    listed = truncate_types(options(*many_types(100), min_values=((INSTANCE_FAMILY, 8),)), 60)
    assert listed is not None
    assert len(listed) == 60
    assert {each.name.partition(".")[0] for each in listed} == {f"f{n}" for n in range(8)}
    assert listed[-2].name == "f6.s060"
    assert listed[-1].name == "f7.s070"


def test_truncation_keeps_several_min_values_with_types_that_serve_all_of_them() -> None:
    """The cheapest 60 types are of 6 families, and the cheapest of each family are 20 more."""
    wanted = ((INSTANCE_FAMILY, 20), (INSTANCE_TYPE, 60))
    listed = truncate_types(options(*many_types(300), min_values=wanted), 60)
    assert listed is not None
    assert len(listed) == 60
    assert len({each.name.partition(".")[0] for each in listed}) == 20


def test_truncation_fails_if_even_all_types_do_not_meet_min_values() -> None:
    assert (
        truncate_types(options(*many_types(100), min_values=((INSTANCE_FAMILY, 11),)), 60) is None
    )


def test_truncation_fails_if_so_few_types_cannot_meet_min_values() -> None:
    assert truncate_types(options(*many_types(100), min_values=((INSTANCE_TYPE, 61),)), 60) is None


def test_an_offering_without_a_zone_is_launched_in_the_first_allowed_zone() -> None:
    anywhere = type_named("m5.large", offering(zone=None, price=0.5))
    elsewhere = type_named("m5.xlarge", offering(zone="zone-q"), offering(zone="zone-r"))
    assert zone(options(anywhere)) is None
    assert zone(options(anywhere, elsewhere)) == "zone-q"
    assert zone(options(anywhere, requires=label_requirement(ZONE, "In", "y", "x"))) == "x"
    assert (
        zone(options(anywhere, elsewhere, requires=label_requirement(ZONE, "In", "a", "zone-r")))
        == "zone-r"
    )
    assert (
        zone(options(anywhere, elsewhere, requires=label_requirement(ZONE, "NotIn", "zone-q")))
        == "zone-r"
    )
    assert zone(options(anywhere, elsewhere, requires=label_requirement(ZONE, "In", "z"))) == "z"


def zone(launch_options: LaunchOptions) -> str | None:
    return zone_of(launch_options, choose_offering(launch_options, lambda _: 1))


def test_zones_of_the_catalogue_are_used_for_offerings_without_a_zone() -> None:
    anywhere = type_named("m5.large", offering(zone=None))
    index = InstanceTypeIndex([anywhere], zones=["zone-b", "zone-a"])
    pods = (Pod(namespace="d", name="a", requests={"cpu": 100}),)
    [claim] = plan(Snapshot(pods=pods, pools=(Pool(name="p"),)), {"p": index}).claims
    assert claim.choices.zones == ("zone-a", "zone-b")
    assert claim.launch.zone == "zone-a"


def test_requirements_of_a_type_limit_the_zones_of_its_offerings() -> None:
    pinned = type_named(
        "m5.large", offering(zone=None), requirements=label_requirement(ZONE, "In", "b", "c")
    )
    elsewhere = type_named("m5.xlarge", offering(zone="a", price=2.0))
    assert zone(options(pinned, elsewhere)) == "b"
    assert zone(options(pinned, elsewhere, requires=label_requirement(ZONE, "NotIn", "b"))) == "c"


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        (NO_REQUIREMENTS, "on-demand"),
        (label_requirement(CAPACITY_TYPE, "In", "spot", "on-demand", "reserved"), "on-demand"),
        (label_requirement(CAPACITY_TYPE, "NotIn", "spot"), "on-demand"),
        (label_requirement(CAPACITY_TYPE, "In", "spot", "reserved"), "spot"),
        (label_requirement(CAPACITY_TYPE, "NotIn", "on-demand"), "spot"),
    ],
)
def test_an_offering_without_a_capacity_type_is_launched_on_demand_if_allowed(
    requires: Requirements, expected: str
) -> None:
    launch_options = options(
        type_named("m5.large", offering(capacity_type=None)), requires=requires
    )
    assert (
        capacity_type_of(launch_options, choose_offering(launch_options, lambda _: 1)) == expected
    )


@pytest.mark.parametrize("requires", [("In", "reserved"), ("NotIn", "on-demand", "spot")])
def test_an_offering_without_a_capacity_type_is_not_reserved(
    requires: tuple[str, ...],
) -> None:
    launch_options = options(
        type_named("m5.large", offering(capacity_type=None)),
        requires=label_requirement(CAPACITY_TYPE, *requires),
    )
    assert launch_options.offering_groups == 0


def test_a_reservation_without_a_capacity_type_is_reserved() -> None:
    no_capacity_type = offering(capacity_type=None, reservation_id="cr-1", available=1)
    for allowed, offering_groups in (("reserved", 1), ("on-demand", 0)):
        requires = label_requirement(CAPACITY_TYPE, "In", allowed)
        assert (
            InstanceTypeIndex([type_named("m5.large", no_capacity_type)]).compatible_groups(
                requires
            )
            == offering_groups
        )


def test_an_offering_without_a_capacity_type_counts_as_spot_if_only_spot_is_allowed() -> None:
    either = type_named("b.large", offering(capacity_type=None, price=0.2))
    launch_options = options(
        type_named("a.large", spot_at(0.3)),
        either,
        requires=label_requirement(CAPACITY_TYPE, "In", "spot"),
    )
    assert chosen(launch_options)[0] == "b.large"
    assert [each.name for each in truncate_types(launch_candidates(launch_options), 60) or ()] == [
        "b.large",
        "a.large",
    ]


UNUSUAL = (
    type_named("a.large", offering(zone=None, capacity_type=None, price=0.3)),
    type_named("b.large", offering(zone="zone-b", capacity_type="spot", price=0.5)),
    type_named("c.large", offering(zone="zone-c", price=0.4)),
    type_named(
        "d.large", offering(zone=None, capacity_type=None, available=1, reservation_id="cr-1")
    ),
)


@pytest.mark.parametrize(
    ("requires", "zones", "capacity_types"),
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
def test_the_launch_is_among_the_options_of_the_claim(
    requires: Requirements, zones: tuple[str, ...], capacity_types: tuple[str, ...]
) -> None:
    pods = (Pod(namespace="d", name="a", requests={"cpu": 100}, alternatives=(requires,)),)
    [claim] = plan(
        Snapshot(pods=pods, pools=(Pool(name="p"),)), {"p": InstanceTypeIndex(UNUSUAL)}
    ).claims
    assert claim.choices.zones == zones
    assert claim.choices.capacity_types == capacity_types
    assert (claim.launch.zone, claim.launch.capacity_type) == (zones[0], capacity_types[0])


def test_a_planned_claim_can_be_launched_as_planned() -> None:
    types = (
        type_named(
            "m5.large", offering(price=0.1), reserved("cr-1"), reserved("cr-2", zone="zone-b")
        ),
        type_named("m5.xlarge", offering(price=0.2)),
    )
    index = InstanceTypeIndex(types)
    pool = Pool(name="p", requirements=label_requirement(INSTANCE_TYPE, "Exists", min_values=2))
    pods = (Pod(namespace="d", name="a", requests={"cpu": 100}),)
    [claim] = plan(Snapshot(pods=pods, pools=(pool,)), {"p": index}).claims
    of_claim = options_of_claim(claim, index)
    assert chosen(of_claim) == ("m5.large", claim.launch.price, claim.launch.reservation_id)
    assert [each.name for each in truncate_types(of_claim, 600) or ()] == ["m5.large", "m5.xlarge"]
    assert [each.name for each in truncate_types(launch_candidates(of_claim), 60) or ()] == [
        "m5.large"
    ]
    assert of_claim.min_values == ()
