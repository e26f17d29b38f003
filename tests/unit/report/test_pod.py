"""One pod of the input, found by what somebody writes for its name."""

import pytest

from wainwright.errors import Usage
from wainwright.report.pod import named, suggested

PODS = ["shop/web-0", "shop/web-1", "shop/cart-0", "other/web-0", "shop/whale"]


def test_a_name_without_namespace_will_do_where_it_is_clear() -> None:
    assert named(PODS, "whale") == "shop/whale"
    assert named(PODS, "shop/web-0") == "shop/web-0"


def test_a_name_that_several_pods_have_is_asked_back() -> None:
    with pytest.raises(Usage, match="several pods are called web-0") as refused:
        named(PODS, "web-0")
    assert refused.value.hint == "write one of other/web-0, shop/web-0"


def test_a_name_that_nobody_has_finds_nobody() -> None:
    assert named(PODS, "whales") is None


@pytest.mark.parametrize(
    ("name", "pod"),
    [
        ("wbe-1", "shop/web-1"),
        ("cart", "shop/cart-0"),
        ("whales", "shop/whale"),
        ("shop/whales", "shop/whale"),
        ("default/whale", "shop/whale"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion_with_or_without_namespace(name: str, pod: str) -> None:
    assert suggested(name, PODS) == f"did you mean {pod}?"


def test_a_name_like_no_other_gets_none() -> None:
    assert suggested("zzz", PODS) == ""
