"""Mappings that are worked out entry by entry."""

import pytest

from wainwright.catalogue.lazily import Lazily


def test_an_entry_is_made_once_and_only_when_it_is_asked_for() -> None:
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name.upper()

    found = Lazily(["a", "b"], make)
    assert (len(found), list(found), "a" in found, "c" in found) == (2, ["a", "b"], True, False)
    assert made == []
    assert found["b"] is found["b"]
    assert made == ["b"]
    assert dict(found) == {"a": "A", "b": "B"}


def test_there_is_nothing_under_other_names() -> None:
    with pytest.raises(KeyError):
        Lazily(["a"], str.upper)["b"]
