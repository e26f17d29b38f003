"""One pod of a plan: found by its name, told as a story."""

from typing import Any

import pytest

from wainwright.errors import Usage
from wainwright.report.pod import has_place, lines, named

PLAN: dict[str, Any] = {
    "nodeClaims": [
        {
            "name": "web-1",
            "nodePool": "web",
            "instanceType": "c5.large",
            "zone": "us-west-2a",
            "capacityType": "reserved",
            "reservationID": "cr-1",
            "pricePerHour": 1e-12,
            "round": 2,
            "options": {"instanceTypes": ["c5.large"]},
            "relaxed": [],
            "pods": ["shop/web-0", "shop/web-1"],
        }
    ],
    "existingNodes": [{"name": "node-a", "pods": ["shop/cart-0", "other/web-0"]}],
    "unschedulable": [
        {
            "pod": "shop/whale",
            "reason": "no pool can launch a node for it",
            "suggestion": "ask for less",
            "pools": [
                {
                    "nodePool": "web",
                    "reason": "needs 9k",
                    "funnel": {
                        "types": 10,
                        "requirements": 5,
                        "resources": 0,
                        "offerings": 0,
                        "minValues": 0,
                        "limits": 0,
                    },
                }
            ],
            "nodes": [{"nodes": 312, "reason": "too little memory, best 1Gi short (node-a)"}],
        }
    ],
}


def test_a_name_without_namespace_will_do_where_it_is_clear() -> None:
    assert named(PLAN, "whale") == "shop/whale"
    assert named(PLAN, "shop/web-0") == "shop/web-0"


def test_a_name_that_several_pods_have_is_asked_back() -> None:
    with pytest.raises(Usage, match="several pods are called web-0"):
        named(PLAN, "web-0")


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(Usage) as refused:
        named(PLAN, "shop/whales")
    assert refused.value.hint == "did you mean shop/whale?"


def test_a_placed_pod_is_told_where_and_why() -> None:
    told = "\n".join(lines(PLAN, "web-1"))
    assert "shop/web-1 goes to web-1, a new node of web, beside another pod" in told
    assert "reserved from cr-1" in told
    assert "round 2" in told
    assert has_place(PLAN, "web-1")


def test_a_pod_on_a_node_of_the_input_is_told_so() -> None:
    assert lines(PLAN, "cart-0") == [
        "shop/cart-0 goes to node-a, which is there already and has room"
    ]


def test_a_pod_without_a_place_shows_the_funnel_and_the_fix() -> None:
    told = lines(PLAN, "whale")
    assert told[0] == "shop/whale has no place: no pool can launch a node for it"
    assert "         5 after requirements" in told
    assert told[-2] == "  312 nodes: too little memory, best 1Gi short (node-a)"
    assert told[-1] == "  try: ask for less"
    assert not has_place(PLAN, "whale")
