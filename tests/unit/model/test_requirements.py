"""Requirements per key: how they combine, print, convert, and clash."""

import pytest
from tests.support.model import asking

from wainwright.model.labels import ARCH, INSTANCE_CPU, OS, WELL_KNOWN, ZONE
from wainwright.model.requirements import (
    NO_REQUIREMENTS,
    Conflict,
    Entry,
    Requirement,
    Requirements,
    contradictions,
)
from wainwright.model.values import ANYTHING, NOTHING, between, none_of, one_of


def test_labels_are_requirements_of_one_value_each() -> None:
    found = Requirements.from_labels({"b": "2", "a": "1"})
    assert list(found) == ["a", "b"]
    assert found.only("a") == "1"
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
def test_the_larger_min_values_stands(
    left: int | None, right: int | None, together: int | None
) -> None:
    found = asking("k", "Exists", min_values=left).narrow(asking("k", "In", "a", min_values=right))
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
def test_aliases_go_by_their_stable_name(alias: str, key: str) -> None:
    assert asking(alias, "In", "a") == asking(key, "In", "a")
    assert Requirements.from_labels({alias: "a"}) == Requirements.from_labels({key: "a"})
    assert Requirements([Requirement(key=alias, allowed=one_of("a"))]) == asking(key, "In", "a")


def test_an_alias_and_its_stable_name_are_one_key() -> None:
    found = Requirements.from_entries(
        [
            ("beta.kubernetes.io/arch", "In", ("amd64", "arm64"), None),
            (ARCH, "In", ("arm64",), None),
        ]
    )
    assert found.only(ARCH) == "arm64"


@pytest.mark.parametrize(
    ("wanted", "fine"),
    [
        (asking("k", "In", "a"), False),
        (asking("k", "Exists"), False),
        (asking("k", "Gt", "1"), False),
        (asking("k", "NotIn", "a"), True),
        (asking("k", "DoesNotExist"), True),
    ],
)
def test_a_key_that_is_not_defined_is_refused_unless_its_absence_is_fine(
    wanted: Requirements, fine: bool
) -> None:
    assert NO_REQUIREMENTS.compatible(wanted) is fine
    assert NO_REQUIREMENTS.compatible(wanted, well_known={"k"})


@pytest.mark.parametrize(
    ("wanted", "fine"),
    [
        (asking("k", "In", "a"), True),
        (asking("k", "NotIn", "a"), False),
        (asking("k", "Exists"), True),
        (asking("k", "DoesNotExist"), False),
        (asking("k", "In", "b"), False),
        (asking("k", "NotIn", "b"), True),
    ],
)
def test_a_key_that_a_pool_defines_must_overlap(wanted: Requirements, fine: bool) -> None:
    assert asking("k", "In", "a").compatible(wanted) is fine


def test_both_sides_may_be_content_without_the_label() -> None:
    assert asking("k", "DoesNotExist").compatible(asking("k", "NotIn", "a"))
    assert asking("k", "NotIn", "a").compatible(asking("k", "DoesNotExist"))
    assert not asking("k", "Exists").compatible(asking("k", "DoesNotExist"))


def test_who_needs_the_label_still_does_when_some_values_are_ruled_out() -> None:
    there = asking("k", "Exists").narrow(asking("k", "NotIn", "a"))
    assert not NO_REQUIREMENTS.compatible(there)
    assert not there.compatible(asking("k", "DoesNotExist"))
    assert there.compatible(asking("k", "NotIn", "b"))
    assert there.entries() == (("k", "NotIn", ("a",), None), ("k", "Exists", (), None))


def test_a_well_known_key_is_open_on_new_nodes_and_refused_on_standing_ones() -> None:
    assert NO_REQUIREMENTS.compatible(asking(ZONE, "In", "zone-a"), WELL_KNOWN)
    assert not NO_REQUIREMENTS.compatible(asking(ZONE, "In", "zone-a"))


def test_a_conflict_says_what_was_wanted_and_what_is_offered() -> None:
    offered = asking("a", "In", "1").narrow(asking("n", "Lte", "4"))
    wanted = asking("a", "In", "2").narrow(asking("n", "Gt", "4"))
    assert offered.conflict(wanted) == Conflict(key="a", wanted=one_of("2"), offered=one_of("1"))
    assert offered.conflict(asking("n", "Gt", "4")) == Conflict(
        key="n", wanted=between(5, None), offered=between(None, 4)
    )


def test_an_undefined_key_is_named_before_a_clash_of_values() -> None:
    wanted = asking("a", "In", "2").narrow(asking("z", "In", "1"))
    assert asking("a", "In", "1").conflict(wanted) == Conflict(
        key="z", wanted=one_of("1"), offered=None
    )


def test_narrowing_by_what_is_known_already_gives_the_same_object() -> None:
    pool = asking(ARCH, "In", "amd64").narrow(asking(ZONE, "In", "zone-a", "zone-b"))
    assert pool.narrow(NO_REQUIREMENTS) is pool
    assert pool.narrow(asking(ARCH, "In", "amd64", "arm64")) is pool
    assert pool.narrow(asking(ARCH, "Exists")) is pool


def test_narrowing_keeps_the_keys_in_order() -> None:
    assert list(asking("b").narrow(asking("c")).narrow(asking("a"))) == ["a", "b", "c"]


def test_a_key_of_which_nothing_is_asked_may_have_any_value() -> None:
    assert NO_REQUIREMENTS.allowed("k") == ANYTHING
    assert NO_REQUIREMENTS.only("k") is None
    assert asking("k", "In", "a", "b").only("k") is None
    assert asking("k", "DoesNotExist").only("k") is None


def test_requirements_print_in_the_order_of_keys_with_their_min_values() -> None:
    found = asking("z", "In", "b", "a", min_values=2).narrow(asking(INSTANCE_CPU, "Gt", "1"))
    assert str(found.narrow(asking(INSTANCE_CPU, "Lte", "8"))) == (
        "karpenter.k8s.aws/instance-cpu Exists >=2 <=8, z In [a b] minValues 2"
    )


def test_two_bounds_become_two_entries_that_both_carry_min_values() -> None:
    found = asking("k", "Gt", "1", min_values=3).narrow(asking("k", "Lt", "9"))
    assert found.entries() == (("k", "Gte", ("2",), 3), ("k", "Lte", ("8",), 3))


def test_keys_can_be_left_out() -> None:
    found = asking("a").narrow(asking("b")).without({"a", "c"})
    assert found == asking("b")


def test_equal_requirements_are_one_key_of_a_mapping() -> None:
    one = asking("a", "In", "1").narrow(asking("b", "In", "2"))
    other = asking("b", "In", "2").narrow(asking("a", "In", "1"))
    assert {one: "found"}[other] == "found"
    assert one != asking("a", "In", "1")
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
    entries: list[Entry], keys: tuple[str, ...]
) -> None:
    assert contradictions(entries) == keys


def test_what_nothing_has_in_common_is_as_if_the_label_must_be_absent() -> None:
    assert asking("k", "In", "a").narrow(asking("k", "In", "b")).allowed("k") == NOTHING
    assert asking("k", "NotIn", "a").narrow(asking("k", "NotIn", "b")).allowed("k") == none_of("ab")
