"""Overlays: what they reach, and the arithmetic of their prices."""

import pytest
from tests.support.catalogue_builders import layered_offering, overlay_object
from tests.support.model_builders import label_requirement

from wainwright.catalogue.offerings.overrides import (
    OverlayMatch,
    OverlayTargetIndex,
    adjust_price,
    match_overlay,
    parse_overlay,
)
from wainwright.model.labels import CAPACITY_TYPE, NODEPOOL, ZONE
from wainwright.model.requirements import Requirements

SMALL = Requirements.from_labels({"size": "small"})
EITHER = label_requirement("size", "In", "small", "large")


@pytest.mark.parametrize(
    ("price", "adjustment", "after"),
    [
        (0.085, "-10%", 0.0765),
        (0.1, "+20%", 0.12),
        (0.3, "-0.1", 0.2),
        (0.1, "+.2", 0.3),
        (0.1, "-0.2", 0.0),
        (5.0, "-100%", 0.0),
        (0.0, "+50%", 0.0),
        (407.68, "-12.5%", 356.72),
    ],
)
def test_prices_are_adjusted_in_decimals_and_never_below_zero(
    price: float, adjustment: str, after: float
) -> None:
    assert adjust_price(price, adjustment) == after


def reached(*requirements: tuple[str, str, tuple[str, ...]]) -> OverlayMatch:
    ground = OverlayTargetIndex(
        type_requirements={"s": SMALL, "e": EITHER, "none": SMALL},
        offerings={
            "s": (
                layered_offering(zone="zone-a"),
                layered_offering(zone="zone-b"),
                layered_offering(zone=None),
            ),
            "e": (
                layered_offering(labels={"size": "large"}),
                layered_offering(capacity_type="reserved", reservation_id="cr-1"),
            ),
            "none": (),
        },
    )
    return match_overlay(parse_overlay(overlay_object("o", *requirements)), ground)


def test_nothing_asked_reaches_everything_but_reservations() -> None:
    assert reached().targets == {"s": (0, 1, 2), "e": (0,), "none": ()}


def test_a_zone_is_not_meant_by_a_lot_that_leaves_it_open() -> None:
    assert reached((ZONE, "In", ("zone-a",))).targets == {"s": (0,), "e": (0,)}
    assert reached((ZONE, "NotIn", ("zone-a",))).targets == {"s": (1, 2), "none": ()}


def test_what_a_lot_says_goes_before_what_its_type_says() -> None:
    assert reached(("size", "In", ("small",))).targets == {"s": (0, 1, 2), "none": ()}
    assert reached(("size", "In", ("large",))).targets == {"e": (0,)}


def test_a_label_that_nobody_names_is_the_pools_affair() -> None:
    found = reached(("team", "In", ("web",)), (CAPACITY_TYPE, "In", ("on-demand",)))
    assert "s" in found.targets
    assert found.admits({"team": "web"})
    assert not found.admits({"team": "db"})
    assert not found.admits({})


def test_a_pool_can_be_left_out_by_name() -> None:
    found = reached((NODEPOOL, "NotIn", ("web",)))
    assert found.admits({NODEPOOL: "db"})
    assert found.admits({})
    assert not found.admits({NODEPOOL: "web"})
