"""The compiled catalogue, and shortcuts of the planner, against the plain loops over instance types
and offerings.
"""

from collections.abc import Sequence
from math import inf
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.random_inputs.unconstrained import random_input
from tests.support.reference_planner.offerings import hourly_cost

from wainwright.model.bitset import largest_amount
from wainwright.model.instance_type import UNLIMITED, InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_GPU_COUNT,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    INSTANCE_TYPE_LABELS,
    OFFERING_LABELS,
    RESERVATION_ID,
    RESERVATION_LABELS,
    RESERVATION_TYPE,
    ZONE,
)
from wainwright.model.requirements import (
    ANY_VALUE,
    NO_VALUE,
    RequirementEntry,
    Requirements,
    ValueSet,
    none_of,
    one_of,
)
from wainwright.model.resources import Resources, add_resources, fits

LENIENT = ("NotIn", "DoesNotExist")
VALUES = {
    ARCH: ("amd64", "arm64"),
    INSTANCE_CPU: ("2", "4", "16"),
    INSTANCE_GPU_COUNT: ("1", "8"),
    INSTANCE_TYPE: ("m1", "m2", "m3"),
    "example.com/tier": ("gold", "tin"),
    "example.com/unknown": ("x",),
    ZONE: ("a", "b"),
    CAPACITY_TYPE: ("spot", "on-demand", "reserved"),
    RESERVATION_ID: ("cr-1", "cr-2"),
    RESERVATION_TYPE: ("default",),
}
TYPE_KEYS = (ARCH, INSTANCE_CPU, "example.com/tier", ZONE, CAPACITY_TYPE, INSTANCE_GPU_COUNT)
OPERATORS_OF_TYPES = ("In", "In", "In", "DoesNotExist", "Exists", "NotIn", "Lte")
OPERATORS = ("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lte")
OFFERING_LABEL_SETS = [
    {ZONE: zone, CAPACITY_TYPE: capacity_type, **further}
    for zone in (None, "a", "b")
    for capacity_type in (None, "spot", "on-demand", "reserved")
    for further in (
        {},
        {"example.com/tier": "gold"},
        {ARCH: "arm64"},
        {RESERVATION_TYPE: "default"},
    )
]

quick = settings(max_examples=120, deadline=None)


def entries(keys: Sequence[str], operators: Sequence[str]) -> list[RequirementEntry]:
    """Every operator on every key, with one value and with all of them where it takes several."""
    return [
        (key, operator, values, None)
        for key in keys
        for operator in operators
        for values in {
            "In": (VALUES[key][:1], VALUES[key]),
            "NotIn": (VALUES[key][:1], VALUES[key]),
            "Gt": (("1",), ("3",)),
            "Lte": (("2",), ("8",)),
        }.get(operator, ((),))
    ]


def some_of(chosen: list[RequirementEntry]) -> st.SearchStrategy[Requirements]:
    return st.lists(st.sampled_from(chosen), max_size=3).map(Requirements.from_entries)


offerings = st.builds(
    Offering,
    requirements=st.sampled_from(
        [
            Requirements.from_labels({key: value for key, value in each.items() if value})
            for each in OFFERING_LABEL_SETS
        ]
    ),
    price=st.sampled_from((0.1, 0.2, 0.3)),
    available=st.sampled_from((UNLIMITED, 0, 1, 3)),
    reservation_id=st.sampled_from((None, None, "cr-1", "cr-2")),
)
amounts = st.fixed_dictionaries(
    {}, optional={name: st.integers(0, 4) for name in ("cpu", "memory", "gpu")}
)
types_but_for_names = st.builds(
    InstanceType,
    name=st.just(""),
    requirements=some_of(entries(TYPE_KEYS, OPERATORS_OF_TYPES)),
    capacity=amounts,
    overhead=st.just({}) | amounts,
    offerings=st.lists(offerings, max_size=4).map(tuple),
    fee=st.sampled_from((0.0, 0.0, 0.15)),
)
catalogues = st.lists(types_but_for_names, max_size=5).map(
    lambda types: [replace(itype, name=f"m{number}") for number, itype in enumerate(types)]
)
wanted = some_of(entries(tuple(VALUES), OPERATORS))


def agree(has: ValueSet, wanted_labels: ValueSet) -> bool:
    lenient = has.operator in LENIENT and wanted_labels.operator in LENIENT
    return lenient or not (has & wanted_labels).is_empty


def label_of_type(itype: InstanceType, key: str, types: Sequence[InstanceType]) -> ValueSet | None:
    """What a type says of a label; None where it leaves it open."""
    if key in itype.requirements:
        return itype.requirements[key].allowed
    if key == INSTANCE_TYPE:
        return one_of([itype.name])
    if key in OFFERING_LABELS or any(key in each.requirements for each in itype.offerings):
        return None
    named = any(key in each.requirements for each in types)
    return NO_VALUE if named or key in INSTANCE_TYPE_LABELS else None


def label_of_offering(itype: InstanceType, each: Offering, key: str) -> ValueSet | None:
    """What an offering says of a label, or what is known of it all the same; None if nothing is."""
    own = itype.requirements.allowed(key)
    if key in each.requirements:
        return each.requirements[key].allowed
    if key == ZONE:
        return None if own.open else own
    if key == CAPACITY_TYPE:
        usual = one_of(["on-demand", "spot"] if each.reservation_id is None else ["reserved"])
        return usual & own if usual.intersects(own) else usual
    if key == RESERVATION_ID and each.reservation_id is not None:
        return one_of([each.reservation_id])
    return NO_VALUE if key in RESERVATION_LABELS else None


def is_admitted(
    itype: InstanceType, wanted_labels: Requirements, types: Sequence[InstanceType]
) -> bool:
    labels_found = {key: label_of_type(itype, key, types) for key in wanted_labels}
    return all(
        has is None or agree(has, wanted_labels[key].allowed) for key, has in labels_found.items()
    )


def matching_offerings(itype: InstanceType, wanted_labels: Requirements) -> list[Offering]:
    """The available offerings of the type that are compatible with the requirements."""
    return [
        each
        for each in itype.offerings
        if each.available > 0
        and all(
            has is None or agree(has, wanted_labels[key].allowed)
            for key, has in ((key, label_of_offering(itype, each, key)) for key in wanted_labels)
        )
    ]


def chosen(index: InstanceTypeIndex, subset: int) -> list[str]:
    return [itype.name for itype in index.iter_types(subset)]


@quick
@given(catalogues, wanted)
def test_compatible_types_are_those_that_a_loop_finds(
    types: list[InstanceType], wanted_labels: Requirements
) -> None:
    index = InstanceTypeIndex(types)
    expected = [itype.name for itype in index.types if is_admitted(itype, wanted_labels, types)]
    assert chosen(index, index.compatible_types(wanted_labels)) == expected
    assert chosen(index, index.compatible_types(wanted_labels)) == expected  # from the cache


@quick
@given(catalogues, wanted)
def test_available_types_are_those_that_a_loop_finds(
    types: list[InstanceType], wanted_labels: Requirements
) -> None:
    index = InstanceTypeIndex(types)
    expected = [itype.name for itype in index.types if matching_offerings(itype, wanted_labels)]
    assert chosen(index, index.available_to(wanted_labels)) == expected
    assert chosen(index, index.available_to(wanted_labels)) == expected


def rank(itype: InstanceType, each: Offering) -> tuple[object, ...]:
    labels_found = {key: label_of_offering(itype, each, key) for key in (ZONE, CAPACITY_TYPE)}
    labels_found |= {key: found.allowed for key, found in each.requirements.items()}
    labels = [
        (key, sorted(values.values)) for key, values in sorted(labels_found.items()) if values
    ]
    return each.price + itype.fee, itype.name, labels, each.reservation_id or ""


@quick
@given(catalogues, wanted, st.integers(0, 31))
def test_the_cheapest_offering_is_the_one_that_a_loop_finds(
    types: list[InstanceType], wanted_labels: Requirements, some: int
) -> None:
    index = InstanceTypeIndex(types)
    subset = some & index.all_types
    offers = [
        (itype, each)
        for itype in index.iter_types(subset)
        for each in matching_offerings(itype, wanted_labels)
    ]
    found = index.cheapest(subset, wanted_labels)
    expected = min((rank(*offer) for offer in offers), default=None)
    assert (None if found is None else rank(*found)) == expected


@quick
@given(catalogues, amounts)
def test_fitting_types_are_those_that_a_loop_finds(
    types: list[InstanceType], requests: Resources
) -> None:
    index = InstanceTypeIndex(types)
    expected = [itype.name for itype in index.types if fits(requests, itype.allocatable)]
    assert chosen(index, index.fitting(requests)) == expected


@quick
@given(catalogues, amounts, st.lists(amounts, min_size=5, max_size=5))
def test_overhead_per_type_counts_like_a_request(
    types: list[InstanceType], requests: Resources, overhead: list[Resources]
) -> None:
    index = InstanceTypeIndex(types)
    taken = overhead[: len(types)]
    expected = [
        itype.name
        for itype, own in zip(index.types, taken, strict=True)
        if fits(add_resources(requests, own), itype.allocatable)
    ]
    assert chosen(index, index.index_with_overhead(taken).fitting(requests)) == expected


@quick
@given(catalogues)
def test_types_are_sorted_by_cost_and_name(types: list[InstanceType]) -> None:
    index = InstanceTypeIndex(types)
    costs = [(lowest_cost(itype), itype.name) for itype in index.types]
    assert costs == sorted(costs)
    assert sorted(itype.name for itype in index.types) == sorted(itype.name for itype in types)


def lowest_cost(itype: InstanceType) -> float:
    """The lowest cost without a reservation."""
    bought = [each for each in itype.offerings if each.available > 0 and not each.reservation_id]
    return min((each.price + itype.fee for each in bought), default=inf)


def values_of(
    itype: InstanceType,
    key: str,
    wanted_labels: Requirements,
    wanted_of: ValueSet,
    zones: ValueSet | None,
) -> set[str]:
    """The values of a label that a type still has, by the definition of `remaining_values`."""
    if any(zones or label_of_offering(itype, each, key) is not None for each in itype.offerings):
        offerings_found = matching_offerings(itype, wanted_labels)
        labels_found = [
            label_of_offering(itype, each, key) or zones or ANY_VALUE for each in offerings_found
        ]
    else:
        own = one_of([itype.name]) if key == INSTANCE_TYPE else NO_VALUE
        labels_found = [itype.requirements[key].allowed if key in itype.requirements else own]
    listed = {value for each in labels_found if not each.open for value in each.values}
    return {value for value in listed if wanted_of.admits(value)}


def zones_of(types: Sequence[InstanceType]) -> set[str]:
    """All that offerings name; one that names none is to be had in each of them."""
    labels_found = [
        label_of_offering(itype, each, ZONE) for itype in types for each in itype.offerings
    ]
    return {value for zones in labels_found if zones is not None for value in zones.values}


@quick
@given(catalogues, wanted, st.integers(0, 31), st.sampled_from(sorted(VALUES)))
def test_remaining_values_are_those_that_a_loop_collects(
    types: list[InstanceType], wanted_labels: Requirements, some: int, key: str
) -> None:
    index = InstanceTypeIndex(types)
    subset, offering_groups = some & index.all_types, index.compatible_groups(wanted_labels)
    allowed = wanted_labels.allowed(key)
    zones = one_of(zones_of(types)) if key == ZONE and zones_of(types) else None
    each = [
        values_of(itype, key, wanted_labels, allowed, zones) for itype in index.iter_types(subset)
    ]
    expected = sorted(set().union(*each))
    assert index.remaining_values(key, subset, offering_groups, allowed) == expected
    assert index.has_values(key, len(expected), subset, offering_groups, allowed)
    assert not index.has_values(key, len(expected) + 1, subset, offering_groups, allowed)


@quick
@given(catalogues, wanted, st.randoms(use_true_random=False))
def test_the_order_of_input_does_not_matter(
    types: list[InstanceType], wanted_labels: Requirements, random: Random
) -> None:
    shuffled = [
        replace(itype, offerings=tuple(random.sample(itype.offerings, len(itype.offerings))))
        for itype in random.sample(types, len(types))
    ]
    one, other = InstanceTypeIndex(types), InstanceTypeIndex(shuffled)
    assert one.offering_groups == other.offering_groups
    assert one.compatible_types(wanted_labels) == other.compatible_types(wanted_labels)
    assert one.compatible_groups(wanted_labels) == other.compatible_groups(wanted_labels)
    cheapest = [index.cheapest(index.all_types, wanted_labels) for index in (one, other)]
    assert len({offering_found and rank(*offering_found)[:2] for offering_found in cheapest}) == 1


SEEDS = st.integers(0, 10**6)
WANTED = (ANY_VALUE, one_of(["amd64", "c5", "m5", "large"]), none_of(["m5", "metal", "c5.large"]))


def an_index(seed: int) -> InstanceTypeIndex:
    types = random_input(seed).types
    return InstanceTypeIndex(types[min(types)])


@given(SEEDS, st.integers(1, 4), st.sampled_from(WANTED))
def test_witnesses_are_found_where_there_are_enough_values(
    seed: int, count: int, wanted: ValueSet
) -> None:
    index, random = an_index(seed), Random(seed)
    subset = random.getrandbits(len(index.types))
    for key in (INSTANCE_TYPE, INSTANCE_FAMILY, INSTANCE_SIZE, ARCH):
        found = index.witnesses(key, count, subset, wanted)
        assert (found is not None) == index.has_values(key, count, subset, 0, wanted)
        if found is not None:
            assert found & subset == found
            assert index.has_values(key, count, found, 0, wanted)


@given(SEEDS)
def test_the_largest_amount_is_the_maximum_over_all_types(seed: int) -> None:
    index, random = an_index(seed), Random(seed)
    subset = random.getrandbits(len(index.types))
    for name in ("cpu", "memory", "pods", "nvidia.com/gpu", "unknown"):
        amounts = [
            itype.allocatable[name]
            for itype in index.iter_types(subset)
            if name in itype.allocatable
        ]
        assert largest_amount(index.allocatable_index.amounts(name), subset) == max(
            amounts, default=-1
        )


@given(SEEDS)
def test_find_cheapest_returns_the_cheapest_of_all_available_offerings(seed: int) -> None:
    index, random = an_index(seed), Random(seed)
    subset, offering_groups = (
        random.getrandbits(len(index.types)),
        random.getrandbits(len(index.offering_groups)),
    )
    offers = [
        (hourly_cost(index.types[row], offering), index.types[row].name, offering_group)
        for row, offering_group, offering in index.available_offerings(subset, offering_groups)
    ]
    found = index.find_cheapest(subset, offering_groups)
    itype = found and index.types[found[0]]
    chosen = found and itype and (hourly_cost(itype, found[2]), itype.name, found[1])
    assert chosen == min(offers, default=None)
