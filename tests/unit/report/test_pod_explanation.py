"""Finding a pod of the input by name."""

import pytest

from wainwright.errors import UsageError
from wainwright.report.pod_explanation import find_pod, suggest_pod_name

PODS = ["shop/web-0", "shop/web-1", "shop/cart-0", "other/web-0", "shop/whale"]


def test_a_name_without_namespace_will_do_where_it_is_clear() -> None:
    assert find_pod(PODS, "whale") == "shop/whale"
    assert find_pod(PODS, "shop/web-0") == "shop/web-0"


def test_a_name_that_several_pods_have_is_asked_back() -> None:
    with pytest.raises(UsageError, match="several pods are called web-0") as refused:
        find_pod(PODS, "web-0")
    assert refused.value.hint == "write one of other/web-0, shop/web-0"


def test_an_unknown_name_finds_no_pod() -> None:
    assert find_pod(PODS, "whales") is None


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
    assert suggest_pod_name(name, PODS) == f"did you mean {pod}?"


def test_a_name_like_no_other_gets_none() -> None:
    assert suggest_pod_name("zzz", PODS) == ""
