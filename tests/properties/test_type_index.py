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
    lambda types: [replace(kind, name=f"m{number}") for number, kind in enumerate(types)]
)
wanted = some_of(entries(tuple(VALUES), OPERATORS))


def agree(has: ValueSet, asked: ValueSet) -> bool:
    lenient = has.operator in LENIENT and asked.operator in LENIENT
    return lenient or not (has & asked).is_empty


def label_of_type(kind: InstanceType, key: str, types: Sequence[InstanceType]) -> ValueSet | None:
    """What a type says of a label; None where it leaves it open."""
    if key in kind.requirements:
        return kind.requirements[key].allowed
    if key == INSTANCE_TYPE:
        return one_of([kind.name])
    if key in OFFERING_LABELS or any(key in each.requirements for each in kind.offerings):
        return None
    named = any(key in each.requirements for each in types)
    return NO_VALUE if named or key in INSTANCE_TYPE_LABELS else None


def label_of_offering(kind: InstanceType, each: Offering, key: str) -> ValueSet | None:
    """What an offering says of a label, or what is known of it all the same; None if nothing is."""
    own = kind.requirements.allowed(key)
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


def is_admitted(kind: InstanceType, asked: Requirements, types: Sequence[InstanceType]) -> bool:
    said = {key: label_of_type(kind, key, types) for key in asked}
    return all(has is None or agree(has, asked[key].allowed) for key, has in said.items())


def open_offers(kind: InstanceType, asked: Requirements) -> list[Offering]:
    """The available offerings of the type that agree with what is asked."""
    return [
        each
        for each in kind.offerings
        if each.available > 0
        and all(
            has is None or agree(has, asked[key].allowed)
            for key, has in ((key, label_of_offering(kind, each, key)) for key in asked)
        )
    ]


def chosen(index: InstanceTypeIndex, rows: int) -> list[str]:
    return [kind.name for kind in index.iter_types(rows)]


@quick
@given(catalogues, wanted)
def test_labels_admit_the_types_that_a_loop_would(
    types: list[InstanceType], asked: Requirements
) -> None:
    index = InstanceTypeIndex(types)
    expected = [kind.name for kind in index.types if is_admitted(kind, asked, types)]
    assert chosen(index, index.compatible_types(asked)) == expected
    assert chosen(index, index.compatible_types(asked)) == expected  # the remembered answer


@quick
@given(catalogues, wanted)
def test_the_types_offered_are_those_with_an_offering_that_a_loop_would_find(
    types: list[InstanceType], asked: Requirements
) -> None:
    index = InstanceTypeIndex(types)
    expected = [kind.name for kind in index.types if open_offers(kind, asked)]
    assert chosen(index, index.available_to(asked)) == expected
    assert chosen(index, index.available_to(asked)) == expected


def rank(kind: InstanceType, each: Offering) -> tuple[object, ...]:
    said = {key: label_of_offering(kind, each, key) for key in (ZONE, CAPACITY_TYPE)}
    said |= {key: found.allowed for key, found in each.requirements.items()}
    labels = [(key, sorted(values.values)) for key, values in sorted(said.items()) if values]
    return each.price + kind.fee, kind.name, labels, each.reservation_id or ""


@quick
@given(catalogues, wanted, st.integers(0, 31))
def test_the_cheapest_offering_is_the_one_that_a_loop_would_find(
    types: list[InstanceType], asked: Requirements, some: int
) -> None:
    index = InstanceTypeIndex(types)
    rows = some & index.all_types
    offers = [(kind, each) for kind in index.iter_types(rows) for each in open_offers(kind, asked)]
    found = index.cheapest(rows, asked)
    expected = min((rank(*offer) for offer in offers), default=None)
    assert (None if found is None else rank(*found)) == expected


@quick
@given(catalogues, amounts)
def test_requests_are_held_where_a_loop_would_fit_them(
    types: list[InstanceType], requests: Resources
) -> None:
    index = InstanceTypeIndex(types)
    expected = [kind.name for kind in index.types if fits(requests, kind.allocatable)]
    assert chosen(index, index.fitting(requests)) == expected


@quick
@given(catalogues, amounts, st.lists(amounts, min_size=5, max_size=5))
def test_overhead_counts_like_a_request_of_each_type(
    types: list[InstanceType], requests: Resources, overhead: list[Resources]
) -> None:
    index = InstanceTypeIndex(types)
    taken = overhead[: len(types)]
    expected = [
        kind.name
        for kind, own in zip(index.types, taken, strict=True)
        if fits(add_resources(requests, own), kind.allocatable)
    ]
    assert chosen(index, index.index_with_overhead(taken).fitting(requests)) == expected


@quick
@given(catalogues)
def test_rows_are_in_the_order_of_cost_and_name(types: list[InstanceType]) -> None:
    index = InstanceTypeIndex(types)
    floors = [(floor(kind), kind.name) for kind in index.types]
    assert floors == sorted(floors)
    assert sorted(kind.name for kind in index.types) == sorted(kind.name for kind in types)


def floor(kind: InstanceType) -> float:
    """What it costs at least whoever has no reservation."""
    bought = [each for each in kind.offerings if each.available > 0 and not each.reservation_id]
    return min((each.price + kind.fee for each in bought), default=inf)


def values_of(
    kind: InstanceType, key: str, asked: Requirements, wanted_of: ValueSet, zones: ValueSet | None
) -> set[str]:
    """The values of a label that a type still has, by the definition of `remaining_values`."""
    if any(zones or label_of_offering(kind, each, key) is not None for each in kind.offerings):
        sold = open_offers(kind, asked)
        said = [label_of_offering(kind, each, key) or zones or ANY_VALUE for each in sold]
    else:
        own = one_of([kind.name]) if key == INSTANCE_TYPE else NO_VALUE
        said = [kind.requirements[key].allowed if key in kind.requirements else own]
    listed = {value for each in said if not each.open for value in each.values}
    return {value for value in listed if wanted_of.admits(value)}


def zones_of(types: Sequence[InstanceType]) -> set[str]:
    """All that offerings name; one that names none is to be had in each of them."""
    said = [label_of_offering(kind, each, ZONE) for kind in types for each in kind.offerings]
    return {value for zones in said if zones is not None for value in zones.values}


@quick
@given(catalogues, wanted, st.integers(0, 31), st.sampled_from(sorted(VALUES)))
def test_the_values_left_are_those_that_a_loop_would_collect(
    types: list[InstanceType], asked: Requirements, some: int, key: str
) -> None:
    index = InstanceTypeIndex(types)
    rows, offering_groups = some & index.all_types, index.compatible_groups(asked)
    allowed = asked.allowed(key)
    zones = one_of(zones_of(types)) if key == ZONE and zones_of(types) else None
    each = [values_of(kind, key, asked, allowed, zones) for kind in index.iter_types(rows)]
    expected = sorted(set().union(*each))
    assert index.remaining_values(key, rows, offering_groups, allowed) == expected
    assert index.has_values(key, len(expected), rows, offering_groups, allowed)
    assert not index.has_values(key, len(expected) + 1, rows, offering_groups, allowed)


@quick
@given(catalogues, wanted, st.randoms(use_true_random=False))
def test_the_order_of_input_does_not_matter(
    types: list[InstanceType], asked: Requirements, random: Random
) -> None:
    shuffled = [
        replace(kind, offerings=tuple(random.sample(kind.offerings, len(kind.offerings))))
        for kind in random.sample(types, len(types))
    ]
    one, other = InstanceTypeIndex(types), InstanceTypeIndex(shuffled)
    assert one.offering_groups == other.offering_groups
    assert one.compatible_types(asked) == other.compatible_types(asked)
    assert one.compatible_groups(asked) == other.compatible_groups(asked)
    buys = [index.cheapest(index.all_types, asked) for index in (one, other)]
    assert len({buy and rank(*buy)[:2] for buy in buys}) == 1


SEEDS = st.integers(0, 10**6)
WANTED = (ANY_VALUE, one_of(["amd64", "c5", "m5", "large"]), none_of(["m5", "metal", "c5.large"]))


def an_index(seed: int) -> InstanceTypeIndex:
    types = random_input(seed).types
    return InstanceTypeIndex(types[min(types)])


@given(SEEDS, st.integers(1, 4), st.sampled_from(WANTED))
def test_witnesses_are_found_where_there_are_enough_values(
    seed: int, count: int, wanted: ValueSet
) -> None:
    index, rng = an_index(seed), Random(seed)
    rows = rng.getrandbits(len(index.types))
    for key in (INSTANCE_TYPE, INSTANCE_FAMILY, INSTANCE_SIZE, ARCH):
        found = index.witnesses(key, count, rows, wanted)
        assert (found is not None) == index.has_values(key, count, rows, 0, wanted)
        if found is not None:
            assert found & rows == found
            assert index.has_values(key, count, found, 0, wanted)


@given(SEEDS)
def test_the_largest_amount_is_found_without_looking_at_each(seed: int) -> None:
    index, rng = an_index(seed), Random(seed)
    rows = rng.getrandbits(len(index.types))
    for name in ("cpu", "memory", "pods", "nvidia.com/gpu", "unknown"):
        amounts = [
            kind.allocatable[name] for kind in index.iter_types(rows) if name in kind.allocatable
        ]
        assert largest_amount(index.allocatable_index.amounts(name), rows) == max(
            amounts, default=-1
        )


@given(SEEDS)
def test_the_chosen_offering_is_the_cheapest_of_all(seed: int) -> None:
    index, rng = an_index(seed), Random(seed)
    rows, offering_groups = (
        rng.getrandbits(len(index.types)),
        rng.getrandbits(len(index.offering_groups)),
    )
    offers = [
        (hourly_cost(index.types[row], offering), index.types[row].name, offering_group)
        for row, offering_group, offering in index.available_offerings(rows, offering_groups)
    ]
    found = index.find_cheapest(rows, offering_groups)
    kind = found and index.types[found[0]]
    chosen = found and kind and (hourly_cost(kind, found[2]), kind.name, found[1])
    assert chosen == min(offers, default=None)


CHANGES = ("same", "price", "count", "reservation", "fewer", "another")
FIELDS = ("requirements", "capacity", "overhead", "fee")


@st.composite
def changed(draw: st.DrawFn, kind: InstanceType) -> InstanceType:
    """What becomes of a type: nothing, other prices or counts, other offerings, or one field."""
    how = draw(st.sampled_from((*CHANGES, *FIELDS)))
    if how in FIELDS:
        return replace(kind, **{how: getattr(draw(types_but_for_names), how)})
    if how == "fewer":
        return replace(kind, offerings=kind.offerings[1:])
    if how == "another":
        return replace(kind, offerings=(draw(offerings), *kind.offerings))
    if how == "same" or not kind.offerings:
        return kind
    one = draw(st.integers(0, len(kind.offerings) - 1))
    after = [
        draw(changed_offering(how, each)) if how != "reservation" or number == one else each
        for number, each in enumerate(kind.offerings)
    ]
    return replace(kind, offerings=tuple(after))


@st.composite
def changed_offering(draw: st.DrawFn, how: str, each: Offering) -> Offering:
    if how == "price":
        return replace(each, price=draw(st.sampled_from((each.price, 0.05, 0.25))))
    if how == "count":
        return replace(each, available=draw(st.sampled_from((each.available, 0, 2, UNLIMITED))))
    return replace(each, reservation_id=draw(st.sampled_from((None, "cr-1", "cr-2"))))


SIZES = st.sampled_from(("large", "metal"))


@st.composite
def histories(draw: st.DrawFn) -> list[list[InstanceType]]:
    """A catalogue, and what it is after each of a few changes; now and then a type goes."""
    first = draw(catalogues)
    history = [[replace(kind, name=f"{kind.name}.{draw(SIZES)}") for kind in first]]
    for _ in range(draw(st.integers(1, 4))):
        types = [draw(changed(kind)) for kind in history[-1]]
        if types and draw(st.sampled_from((False, False, False, True))):
            types.pop(draw(st.integers(0, len(types) - 1)))
        history.append(draw(st.permutations(types)))
    return history


def most_available(index: InstanceTypeIndex, number: int, groups: int) -> object:
    """Of the reserved offerings of one type, if it has any in these groups."""
    reserved = groups & index.reserved_groups
    if not index.available_in(reserved) >> number & 1:
        return None
    return index.most_available(number, reserved, len)


def answers(index: InstanceTypeIndex, asked: Requirements, requests: Resources) -> list[object]:
    """What an index says to every question that the planner has."""
    groups = index.compatible_groups(asked)
    rows = index.compatible_types(asked)
    return [
        (index.types, index.name_order, index.keys, index.zones, index.groups_without_zone),
        (index.offering_groups, index.metal, index.accelerated, rows, groups),
        (index.available_in(groups), index.fitting(requests), index.spot_groups(ANY_VALUE)),
        index.capacity_index.fitting(requests),
        index.index_with_overhead([requests] * len(index.types)).fitting({"cpu": 1}),
        (index.find_cheapest(index.all_types, groups), index.find_cheapest(rows, groups)),
        [most_available(index, number, groups) for number in range(len(index.types))],
        list(index.available_offerings(index.all_types, groups)),
        [
            (
                index.remaining_values(key, rows, groups, asked.allowed(key)),
                index.groups_by_value(key),
                index.witnesses(key, 2, rows, ANY_VALUE),
                index.varies_by_offering(key),
            )
            for key in VALUES
        ],
    ]


@settings(max_examples=400, deadline=None)
@given(histories(), st.lists(wanted, min_size=2, max_size=2), amounts, st.booleans())
def test_an_index_made_of_the_previous_one_equals_one_made_from_nothing(
    history: list[list[InstanceType]],
    asked: list[Requirements],
    requests: Resources,
    with_zones: bool,
) -> None:
    index: InstanceTypeIndex | None = None
    for number, types in enumerate(history):
        zones = ("a", "z") if with_zones and number % 3 == 0 else ("a",)
        index = InstanceTypeIndex(types, zones=zones, previous=index)
        fresh = InstanceTypeIndex(types, zones=zones)
        for each in asked[: 1 + number % 2]:  # the second label only later: compiled when asked for
            assert answers(index, each, requests) == answers(fresh, each, requests)
