"""Value sets of one label, and requirements on the labels of a node."""

import pytest
from tests.support.model_builders import label_requirement

from wainwright.model.labels import ARCH, INSTANCE_CPU, OS, WELL_KNOWN_LABELS, ZONE
from wainwright.model.requirements import (
    ANY_VALUE,
    MAX_INTEGER,
    MIN_INTEGER,
    NO_REQUIREMENTS,
    NO_VALUE,
    Operator,
    Requirement,
    RequirementConflict,
    RequirementEntry,
    Requirements,
    ValueSet,
    between,
    find_contradictions,
    none_of,
    one_of,
    parse_integer,
    parse_value_set,
)


@pytest.mark.parametrize(
    ("operator", "values", "admitted", "refused"),
    [
        ("In", ("a", "b"), ["a", "b"], ["c", ""]),
        ("NotIn", ("a",), ["b", "", "7"], ["a"]),
        ("Exists", (), ["a", "", "7"], []),
        ("DoesNotExist", (), [], ["a", "", "7"]),
        ("Gt", ("5",), ["6", "100", "006"], ["5", "4", "a", "", "+6", "6.0", " 6", "٦"]),
        ("Lt", ("5",), ["4", "0", "-3"], ["5", "6", "a", ""]),
        ("Gte", ("5",), ["5", "6"], ["4", "a"]),
        ("Lte", ("5",), ["5", "-7"], ["6", "a"]),
    ],
)
def test_each_operator_admits_its_values(
    operator: str, values: tuple[str, ...], admitted: list[str], refused: list[str]
) -> None:
    found = parse_value_set(operator, values)
    assert [value for value in admitted + refused if found.admits(value)] == admitted


@pytest.mark.parametrize(
    ("left", "right", "together"),
    [
        (one_of("ab"), one_of("bc"), one_of("b")),
        (one_of("ab"), one_of("cd"), NO_VALUE),
        (one_of("ab"), none_of("b"), one_of("a")),
        (one_of("a"), none_of("a"), NO_VALUE),
        (none_of("a"), none_of("b"), none_of("ab")),
        (one_of("a"), ANY_VALUE, one_of("a")),
        (none_of("a") & ANY_VALUE, ANY_VALUE, none_of("a") & ANY_VALUE),
        (none_of("a") & ANY_VALUE, none_of("b"), none_of("ab") & ANY_VALUE),
        (none_of("a") & ANY_VALUE, one_of("ab"), one_of("b")),
        (none_of("a") & ANY_VALUE, NO_VALUE, NO_VALUE),
        (none_of(["5"]) & ANY_VALUE, between(2, 8), none_of(["5"]) & between(2, 8)),
        (between(2, 8), ANY_VALUE, between(2, 8)),
        (one_of("a"), NO_VALUE, NO_VALUE),
        (none_of("a"), NO_VALUE, NO_VALUE),
        (ANY_VALUE, NO_VALUE, NO_VALUE),
        (between(2, None), NO_VALUE, NO_VALUE),
        (one_of(["1", "5", "9", "a"]), between(2, 8), one_of(["5"])),
        (between(2, None), between(None, 8), between(2, 8)),
        (between(2, 9), between(4, None), between(4, 9)),
        (between(5, None), between(None, 4), NO_VALUE),
        (between(5, None), between(None, 5), between(5, 5)),
    ],
)
def test_the_intersection_admits_what_both_sets_admit(
    left: ValueSet, right: ValueSet, together: ValueSet
) -> None:
    assert left & right == together
    assert right & left == together


def test_a_finite_set_has_no_bounds() -> None:
    found = one_of(["1", "5"]) & between(2, 8)
    assert not found.is_bounded
    assert found & one_of(["5"]) == one_of(["5"])


def test_different_spellings_of_a_bound_are_the_same_set() -> None:
    assert parse_value_set("Gt", ("5",)) == parse_value_set("Gte", ("6",))
    assert parse_value_set("Lt", ("5",)) == parse_value_set("Lte", ("4",))
    assert parse_value_set("Gt", ("5",)) & parse_value_set("Gte", ("6",)) == between(6, None)


def test_nothing_is_greater_than_the_largest_integer() -> None:
    assert parse_value_set("Gt", (str(MAX_INTEGER),)) == NO_VALUE
    assert parse_value_set("Lt", (str(MIN_INTEGER),)) == NO_VALUE
    assert parse_value_set("Gte", (str(MAX_INTEGER),)).admits(str(MAX_INTEGER))
    assert parse_value_set("Gte", (str(MAX_INTEGER + 1),)) == NO_VALUE


def test_bounds_beyond_every_integer_admit_nothing() -> None:
    assert between(MAX_INTEGER + 1, 10**30) == NO_VALUE
    assert between(-(10**30), MIN_INTEGER - 1) == NO_VALUE
    assert not between(MAX_INTEGER, None).intersects(between(None, -(10**30)))


@pytest.mark.parametrize("values", [(), ("a",), ("1", "2")])
def test_a_bound_that_is_not_one_integer_admits_nothing(values: tuple[str, ...]) -> None:
    assert parse_value_set("Gt", values) == NO_VALUE


def test_in_of_no_values_admits_nothing_and_not_in_of_none_anything() -> None:
    assert parse_value_set("In") == NO_VALUE
    assert parse_value_set("NotIn") == ANY_VALUE


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(ValueError, match="Near"):
        parse_value_set("Near", ("a",))


@pytest.mark.parametrize(
    ("found", "operator"),
    [
        (one_of("a"), Operator.IN),
        (none_of("a"), Operator.NOT_IN),
        (none_of("a") & ANY_VALUE, Operator.EXISTS),
        (ANY_VALUE, Operator.EXISTS),
        (NO_VALUE, Operator.DOES_NOT_EXIST),
        (between(2, None), Operator.EXISTS),
        (between(None, 2), Operator.EXISTS),
        (between(2, 8) & none_of(["5"]), Operator.EXISTS),
    ],
)
def test_a_set_has_the_operator_closest_to_it(found: ValueSet, operator: Operator) -> None:
    assert found.operator is operator
    assert found.admits_absence is (operator in (Operator.NOT_IN, Operator.DOES_NOT_EXIST))


def test_exists_with_not_in_still_requires_the_label() -> None:
    required = none_of("a") & ANY_VALUE
    assert required != none_of("a")
    assert not required.admits_absence
    assert not required.is_compatible_with(NO_VALUE)
    assert required.is_compatible_with(none_of("b"))
    assert not (required & none_of("b")).admits_absence


def test_an_open_set_counts_as_the_largest_integer_less_its_exclusions() -> None:
    assert ANY_VALUE.length == MAX_INTEGER
    assert none_of("ab").length == MAX_INTEGER - 2
    assert between(2, 8).length == MAX_INTEGER
    assert one_of("ab").length == 2
    assert NO_VALUE.length == 0


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (one_of("cab"), "a"),
        (NO_VALUE, ""),
        (ANY_VALUE, "0"),
        (none_of(["0", "1"]), "2"),
        (between(5, None), "5"),
        (between(None, 5), "0"),
        (between(None, -5), "-5"),
        (between(2, 3) & none_of(["2"]), "3"),
        (between(2, 3) & none_of(["2", "3"]), "02"),
        (between(-3, -3) & none_of(["-3"]), "-03"),
        (between(-(10**30), None), str(MIN_INTEGER)),
        (between(None, 10**30), "0"),
    ],
)
def test_any_value_is_admitted_and_always_the_same(found: ValueSet, value: str) -> None:
    assert found.any_value() == value
    assert found.is_empty or found.admits(value)


def test_exclusions_outside_the_bounds_are_dropped() -> None:
    assert none_of(["a", "1", "5"]) & between(2, 8) == none_of(["5"]) & between(2, 8)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (one_of("ba"), "In [a b]"),
        (none_of("a"), "NotIn [a]"),
        (ANY_VALUE, "Exists"),
        (none_of("a") & ANY_VALUE, "Exists NotIn [a]"),
        (NO_VALUE, "DoesNotExist"),
        (between(2, 8), "Exists >=2 <=8"),
        (between(2, None), "Exists >=2"),
        (between(None, 8) & none_of(["5"]), "Exists NotIn [5] <=8"),
        (one_of("abcde"), "In [a b c d e]"),
        (one_of("abcdefgh"), "In [a b c d e and 3 others]"),
    ],
)
def test_a_set_prints_as_operator_values_and_bounds(found: ValueSet, text: str) -> None:
    assert str(found) == text


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        (between(2, 8), (("Gte", ("2",)), ("Lte", ("8",)))),
        (between(2, 8) & none_of(["5"]), (("NotIn", ("5",)), ("Gte", ("2",)), ("Lte", ("8",)))),
        (ANY_VALUE, (("Exists", ()),)),
        (none_of("a"), (("NotIn", ("a",)),)),
        (none_of("a") & ANY_VALUE, (("NotIn", ("a",)), ("Exists", ()))),
        (NO_VALUE, (("DoesNotExist", ()),)),
        (one_of("ba"), (("In", ("a", "b")),)),
    ],
)
def test_a_set_is_split_into_operators_with_values(
    found: ValueSet, parts: tuple[tuple[str, tuple[str, ...]], ...]
) -> None:
    assert found.parts() == parts


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("-12", -12),
        ("007", 7),
        ("+7", None),
        ("1_000", None),
        ("7.0", None),
        ("", None),
        ("٧", None),
        (str(MAX_INTEGER), MAX_INTEGER),
        (str(MAX_INTEGER + 1), None),
        ("9" * 5000, None),
    ],
)
def test_only_plain_decimal_numbers_of_64_bits_are_integers(text: str, number: int | None) -> None:
    assert parse_integer(text) == number


def test_two_sets_are_compatible_when_neither_requires_the_label() -> None:
    assert NO_VALUE.is_compatible_with(none_of("a"))
    assert none_of("a").is_compatible_with(NO_VALUE)
    assert NO_VALUE.is_compatible_with(NO_VALUE)
    assert not NO_VALUE.is_compatible_with(ANY_VALUE)
    assert not one_of("a").is_compatible_with(NO_VALUE)
    assert not NO_VALUE.is_compatible_with(between(2, 8) & none_of(["5"]))


def test_labels_are_requirements_of_one_value_each() -> None:
    found = Requirements.from_labels({"b": "2", "a": "1"})
    assert list(found) == ["a", "b"]
    assert found.single_value("a") == "1"
    assert found.entries() == (("a", "In", ("1",), None), ("b", "In", ("2",), None))


def test_several_requirements_on_one_key_are_intersected() -> None:
    found = Requirements.from_entries(
        [("k", "In", ("a", "b"), None), ("k", "NotIn", ("b",), None), ("k", "Exists", (), None)]
    )
    assert found.allowed("k") == one_of("a")


@pytest.mark.parametrize(
    ("left", "right", "together"),
    [(None, None, None), (3, None, 3), (None, 3, 3), (2, 3, 3), (3, 2, 3)],
)
def test_the_larger_min_values_is_kept(
    left: int | None, right: int | None, together: int | None
) -> None:
    found = label_requirement("k", "Exists", min_values=left).narrow(
        label_requirement("k", "In", "a", min_values=right)
    )
    assert found["k"].min_values == together


@pytest.mark.parametrize(
    ("alias", "key"),
    [
        ("failure-domain.beta.kubernetes.io/zone", ZONE),
        ("topology.ebs.csi.aws.com/zone", ZONE),
        ("beta.kubernetes.io/arch", ARCH),
        ("beta.kubernetes.io/os", OS),
    ],
)
def test_an_alias_is_replaced_by_its_stable_name(alias: str, key: str) -> None:
    assert label_requirement(alias, "In", "a") == label_requirement(key, "In", "a")
    assert Requirements.from_labels({alias: "a"}) == Requirements.from_labels({key: "a"})
    assert Requirements([Requirement(key=alias, allowed=one_of("a"))]) == label_requirement(
        key, "In", "a"
    )


def test_an_alias_and_its_stable_name_are_one_key() -> None:
    found = Requirements.from_entries(
        [
            ("beta.kubernetes.io/arch", "In", ("amd64", "arm64"), None),
            (ARCH, "In", ("arm64",), None),
        ]
    )
    assert found.single_value(ARCH) == "arm64"


@pytest.mark.parametrize(
    ("wanted", "fine"),
    [
        (label_requirement("k", "In", "a"), False),
        (label_requirement("k", "Exists"), False),
        (label_requirement("k", "Gt", "1"), False),
        (label_requirement("k", "NotIn", "a"), True),
        (label_requirement("k", "DoesNotExist"), True),
    ],
)
def test_an_undefined_key_is_incompatible_unless_its_absence_is_admitted(
    wanted: Requirements, fine: bool
) -> None:
    assert NO_REQUIREMENTS.is_compatible(wanted) is fine
    assert NO_REQUIREMENTS.is_compatible(wanted, well_known={"k"})


@pytest.mark.parametrize(
    ("wanted", "fine"),
    [
        (label_requirement("k", "In", "a"), True),
        (label_requirement("k", "NotIn", "a"), False),
        (label_requirement("k", "Exists"), True),
        (label_requirement("k", "DoesNotExist"), False),
        (label_requirement("k", "In", "b"), False),
        (label_requirement("k", "NotIn", "b"), True),
    ],
)
def test_the_values_of_a_defined_key_must_intersect(wanted: Requirements, fine: bool) -> None:
    assert label_requirement("k", "In", "a").is_compatible(wanted) is fine


def test_both_sides_may_admit_the_absence_of_the_label() -> None:
    assert label_requirement("k", "DoesNotExist").is_compatible(
        label_requirement("k", "NotIn", "a")
    )
    assert label_requirement("k", "NotIn", "a").is_compatible(
        label_requirement("k", "DoesNotExist")
    )
    assert not label_requirement("k", "Exists").is_compatible(
        label_requirement("k", "DoesNotExist")
    )


def test_narrowing_exists_by_not_in_still_requires_the_label() -> None:
    required = label_requirement("k", "Exists").narrow(label_requirement("k", "NotIn", "a"))
    assert not NO_REQUIREMENTS.is_compatible(required)
    assert not required.is_compatible(label_requirement("k", "DoesNotExist"))
    assert required.is_compatible(label_requirement("k", "NotIn", "b"))
    assert required.entries() == (("k", "NotIn", ("a",), None), ("k", "Exists", (), None))


def test_a_well_known_key_is_compatible_with_new_nodes_and_not_with_existing_ones() -> None:
    assert NO_REQUIREMENTS.is_compatible(label_requirement(ZONE, "In", "zone-a"), WELL_KNOWN_LABELS)
    assert not NO_REQUIREMENTS.is_compatible(label_requirement(ZONE, "In", "zone-a"))


def test_a_conflict_has_the_wanted_and_the_offered_values() -> None:
    offered = label_requirement("a", "In", "1").narrow(label_requirement("n", "Lte", "4"))
    wanted = label_requirement("a", "In", "2").narrow(label_requirement("n", "Gt", "4"))
    assert offered.find_conflict(wanted) == RequirementConflict(
        key="a", wanted=one_of("2"), offered=one_of("1")
    )
    assert offered.find_conflict(label_requirement("n", "Gt", "4")) == RequirementConflict(
        key="n", wanted=between(5, None), offered=between(None, 4)
    )


def test_an_undefined_key_is_reported_before_conflicting_values() -> None:
    wanted = label_requirement("a", "In", "2").narrow(label_requirement("z", "In", "1"))
    assert label_requirement("a", "In", "1").find_conflict(wanted) == RequirementConflict(
        key="z", wanted=one_of("1"), offered=None
    )


def test_narrowing_without_a_change_returns_the_same_object() -> None:
    pool = label_requirement(ARCH, "In", "amd64").narrow(
        label_requirement(ZONE, "In", "zone-a", "zone-b")
    )
    assert pool.narrow(NO_REQUIREMENTS) is pool
    assert pool.narrow(label_requirement(ARCH, "In", "amd64", "arm64")) is pool
    assert pool.narrow(label_requirement(ARCH, "Exists")) is pool


def test_narrowing_keeps_the_keys_in_order() -> None:
    assert list(
        label_requirement("b").narrow(label_requirement("c")).narrow(label_requirement("a"))
    ) == ["a", "b", "c"]


def test_a_key_without_a_requirement_may_have_any_value() -> None:
    assert NO_REQUIREMENTS.allowed("k") == ANY_VALUE
    assert NO_REQUIREMENTS.single_value("k") is None
    assert label_requirement("k", "In", "a", "b").single_value("k") is None
    assert label_requirement("k", "DoesNotExist").single_value("k") is None


def test_requirements_print_in_the_order_of_keys_with_their_min_values() -> None:
    found = label_requirement("z", "In", "b", "a", min_values=2).narrow(
        label_requirement(INSTANCE_CPU, "Gt", "1")
    )
    assert str(found.narrow(label_requirement(INSTANCE_CPU, "Lte", "8"))) == (
        "karpenter.k8s.aws/instance-cpu Exists >=2 <=8, z In [a b] minValues 2"
    )


def test_two_bounds_are_two_entries_which_both_have_min_values() -> None:
    found = label_requirement("k", "Gt", "1", min_values=3).narrow(
        label_requirement("k", "Lt", "9")
    )
    assert found.entries() == (("k", "Gte", ("2",), 3), ("k", "Lte", ("8",), 3))


def test_keys_can_be_left_out() -> None:
    found = label_requirement("a").narrow(label_requirement("b")).without({"a", "c"})
    assert found == label_requirement("b")


def test_equal_requirements_are_equal_as_keys_of_a_mapping() -> None:
    one = label_requirement("a", "In", "1").narrow(label_requirement("b", "In", "2"))
    other = label_requirement("b", "In", "2").narrow(label_requirement("a", "In", "1"))
    assert {one: "found"}[other] == "found"
    assert one != label_requirement("a", "In", "1")
    assert one != "a In [1], b In [2]"


@pytest.mark.parametrize(
    ("entries", "keys"),
    [
        ([("k", "In", ("a",), None), ("k", "In", ("b",), None)], ("k",)),
        ([("k", "In", ("a",), None), ("k", "DoesNotExist", (), None)], ("k",)),
        ([("k", "Exists", (), None), ("k", "DoesNotExist", (), None)], ("k",)),
        ([("k", "Gt", ("5",), None), ("k", "Lt", ("5",), None)], ("k",)),
        ([("k", "NotIn", ("a",), None), ("k", "DoesNotExist", (), None)], ()),
        ([("k", "DoesNotExist", (), None)], ()),
        ([("k", "In", ("a",), None), ("l", "In", ("b",), None)], ()),
    ],
)
def test_entries_that_no_node_can_satisfy_are_found(
    entries: list[RequirementEntry], keys: tuple[str, ...]
) -> None:
    assert find_contradictions(entries) == keys


def test_an_empty_intersection_is_the_same_as_does_not_exist() -> None:
    assert (
        label_requirement("k", "In", "a").narrow(label_requirement("k", "In", "b")).allowed("k")
        == NO_VALUE
    )
    assert label_requirement("k", "NotIn", "a").narrow(
        label_requirement("k", "NotIn", "b")
    ).allowed("k") == none_of("ab")
