"""The algebra of requirements against its meaning, spelt out value by value."""

from functools import reduce
from operator import and_
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from wainwright.model.labels import ARCH
from wainwright.model.requirements import (
    ANY_VALUE,
    NO_VALUE,
    Operator,
    RequirementEntry,
    Requirements,
    ValueSet,
    find_contradictions,
    parse_value_set,
)

VALUES = ("a", "b", "-1", "0", "1", "2", "3", "5")
PADDED = ("-01", "00", "01", "02", "03", "05", "007")
OUTSIDE = ("-3", "-2", "4", "6", "7", "9223372036854775807", "99" * 20)
UNIVERSE = (*VALUES, *PADDED, *OUTSIDE, "", "c", "1.5", "+3")
"""Large enough that every set made of VALUES and small bounds has a member here, if it has any."""
COMPARISONS = ("Gt", "Lt", "Gte", "Lte")
KEYS = ("k", "l", "kubernetes.io/arch", "beta.kubernetes.io/arch")
LENIENT = ("NotIn", "DoesNotExist")


def combined(chosen: list[tuple[str, tuple[str, ...]]]) -> ValueSet:
    return reduce(and_, (parse_value_set(operator, values) for operator, values in chosen))


numbers = st.integers(-2, 6).map(str)
parts = st.one_of(
    st.tuples(st.sampled_from(("In", "NotIn")), st.lists(st.sampled_from(VALUES)).map(tuple)),
    st.tuples(st.sampled_from(("Exists", "DoesNotExist")), st.just(())),
    st.tuples(st.sampled_from(COMPARISONS), st.tuples(numbers)),
)
value_sets = st.lists(parts, min_size=1, max_size=4).map(combined)
entries = st.builds(
    lambda key, part, least: (key, part[0], part[1], least),
    st.sampled_from(KEYS),
    parts,
    st.none() | st.integers(1, 5),
)
requirements = st.lists(entries, max_size=5).map(Requirements.from_entries)

quick = settings(max_examples=100, deadline=None)


def means(operator: str, values: tuple[str, ...], value: str) -> bool:
    """Whether the value is admitted, by the plain reading of the operator."""
    if operator in COMPARISONS:
        return compares(operator, values[0], value)
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": True,
        "DoesNotExist": False,
    }[operator]


def compares(operator: str, bound: str, value: str) -> bool:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or abs(int(value)) >= 2**63:
        return False
    left, right = int(value), int(bound)
    return {"Gt": left > right, "Lt": left < right, "Gte": left >= right, "Lte": left <= right}[
        operator
    ]


@quick
@given(st.lists(parts, min_size=1, max_size=4))
def test_operators_together_admit_exactly_what_each_of_them_does(
    chosen: list[tuple[str, tuple[str, ...]]],
) -> None:
    expected = [v for v in UNIVERSE if all(means(*part, v) for part in chosen)]
    found = combined(chosen)
    assert [value for value in UNIVERSE if found.admits(value)] == expected


@quick
@given(st.lists(parts, min_size=1, max_size=4))
def test_operators_together_do_without_the_label_where_each_of_them_does(
    chosen: list[tuple[str, tuple[str, ...]]],
) -> None:
    found = combined(chosen)
    absence = all(is_fine_without(*part) for part in chosen)
    # Of what nothing satisfies DoesNotExist is made; `contradictions` tells the two apart.
    assert found.admits_absence is (absence or found.is_empty)


@quick
@given(value_sets, value_sets, value_sets)
def test_the_order_of_intersecting_does_not_matter(a: ValueSet, b: ValueSet, c: ValueSet) -> None:
    assert a & b == b & a
    assert (a & b) & c == a & (b & c)
    assert hash(a & b) == hash(b & a)


@quick
@given(value_sets)
def test_exists_only_requires_the_label_and_the_empty_set_leaves_nothing(a: ValueSet) -> None:
    assert a & a == a
    assert a & NO_VALUE == NO_VALUE
    assert a & ANY_VALUE == a or a.operator is Operator.NOT_IN
    assert [v for v in UNIVERSE if (a & ANY_VALUE).admits(v)] == [
        v for v in UNIVERSE if a.admits(v)
    ]
    assert (a & ANY_VALUE).admits_absence is a.is_empty


@quick
@given(value_sets, value_sets)
def test_sets_overlap_when_their_intersection_is_not_empty(a: ValueSet, b: ValueSet) -> None:
    assert a.intersects(b) is not (a & b).is_empty
    assert a.intersects(b) is b.intersects(a)
    assert a.is_compatible_with(b) is (a.intersects(b) or (a.admits_absence and b.admits_absence))


@quick
@given(value_sets)
def test_a_set_has_an_example_unless_it_is_empty(a: ValueSet) -> None:
    assert a.admits(a.any_value()) is not a.is_empty
    assert a.is_empty is not any(a.admits(value) for value in UNIVERSE)
    assert a.is_empty is (a.length == 0)


@quick
@given(value_sets)
def test_a_set_is_rebuilt_from_its_parts(a: ValueSet) -> None:
    assert combined(list(a.parts())) == a


@quick
@given(st.lists(entries, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_matter(
    chosen: list[RequirementEntry], random: Random
) -> None:
    shuffled = list(chosen)
    random.shuffle(shuffled)
    one, other = Requirements.from_entries(chosen), Requirements.from_entries(shuffled)
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == str(other)


@quick
@given(requirements)
def test_requirements_are_rebuilt_from_their_entries(one: Requirements) -> None:
    assert Requirements.from_entries(one.entries()) == one


@quick
@given(st.lists(entries, max_size=4), st.lists(entries, max_size=4))
def test_narrowing_is_the_same_as_requiring_everything_at_once(
    first: list[RequirementEntry], second: list[RequirementEntry]
) -> None:
    narrowed = Requirements.from_entries(first).narrow(Requirements.from_entries(second))
    assert narrowed == Requirements.from_entries([*first, *second])
    assert list(narrowed) == sorted(narrowed)


@quick
@given(st.lists(entries, min_size=1, max_size=5))
def test_the_largest_min_values_of_a_key_stands(chosen: list[RequirementEntry]) -> None:
    found = Requirements.from_entries(chosen)
    for key in found:
        asked = [least or 0 for name, _, _, least in chosen if name.removeprefix("beta.") == key]
        assert (found[key].min_values or 0) == max(asked)


@quick
@given(requirements, requirements, st.sets(st.sampled_from(("k", "l", ARCH))))
def test_a_conflict_is_found_exactly_where_the_plain_rules_see_one(
    offered: Requirements, wanted: Requirements, well_known: set[str]
) -> None:
    undefined = [key for key in wanted if is_undefined(key, offered, wanted, well_known)]
    clashing = [key for key in wanted if is_clashing(key, offered, wanted)]
    found = offered.find_conflict(wanted, well_known)
    assert (found.key if found else None) == next(iter(undefined + clashing), None)
    assert offered.is_compatible(wanted, well_known) is (found is None)


def is_undefined(
    key: str, offered: Requirements, wanted: Requirements, well_known: set[str]
) -> bool:
    lenient = wanted[key].allowed.operator in LENIENT
    return key not in offered and key not in well_known and not lenient


def is_clashing(key: str, offered: Requirements, wanted: Requirements) -> bool:
    if key not in offered:
        return False
    ours, theirs = offered[key].allowed, wanted[key].allowed
    lenient = ours.operator in LENIENT and theirs.operator in LENIENT
    return (ours & theirs).is_empty and not lenient


@quick
@given(st.lists(entries.filter(lambda entry: entry[0] == "k"), max_size=4))
def test_a_contradiction_is_what_neither_a_value_nor_absence_satisfies(
    chosen: list[RequirementEntry],
) -> None:
    some_value = any(all(means(op, asked, v) for _, op, asked, _ in chosen) for v in UNIVERSE)
    absence = all(is_fine_without(op, asked) for _, op, asked, _ in chosen)
    assert find_contradictions(chosen) == (() if some_value or absence else ("k",))


def is_fine_without(operator: str, values: tuple[str, ...]) -> bool:
    # Without values, In is another way to say DoesNotExist and NotIn one to say Exists.
    return operator == "DoesNotExist" or (operator, bool(values)) in (
        ("In", False),
        ("NotIn", True),
    )
