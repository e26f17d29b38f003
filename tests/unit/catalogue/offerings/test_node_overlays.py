"""NodeOverlays: what they match, and the arithmetic of their prices."""

import pytest
from tests.support.catalogue_builders import (
    instance_type_object,
    layered_offering,
    overlay_object,
)
from tests.support.model_builders import label_requirement

from wainwright.catalogue.offerings.excluded_offerings import UsableZones
from wainwright.catalogue.offerings.instance_type_overrides import apply_declared_offerings
from wainwright.catalogue.offerings.layered_offering import LayeredOffering
from wainwright.catalogue.offerings.node_overlays import (
    OverlayMatch,
    OverlayTargetIndex,
    adjust_price,
    apply_overlay_prices,
    match_overlay,
    parse_overlay,
)
from wainwright.model.labels import CAPACITY_TYPE, NODEPOOL, RESERVATION_ID, RESERVED, ZONE
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


def match(*requirements: tuple[str, str, tuple[str, ...]]) -> OverlayMatch:
    index = OverlayTargetIndex(
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
    return match_overlay(parse_overlay(overlay_object("o", *requirements)), index)


def test_an_overlay_without_requirements_matches_all_but_reserved_offerings() -> None:
    assert match().targets == {"s": (0, 1, 2), "e": (0,), "none": ()}


def test_an_offering_without_a_zone_does_not_match_a_required_zone() -> None:
    assert match((ZONE, "In", ("zone-a",))).targets == {"s": (0,), "e": (0,)}
    assert match((ZONE, "NotIn", ("zone-a",))).targets == {"s": (1, 2), "none": ()}


def test_labels_of_an_offering_take_precedence_over_those_of_its_type() -> None:
    assert match(("size", "In", ("small",))).targets == {"s": (0, 1, 2), "none": ()}
    assert match(("size", "In", ("large",))).targets == {"e": (0,)}


def test_a_label_that_no_type_or_offering_has_is_matched_with_the_pool() -> None:
    matched = match(("team", "In", ("web",)), (CAPACITY_TYPE, "In", ("on-demand",)))
    assert "s" in matched.targets
    assert matched.admits({"team": "web"})
    assert not matched.admits({"team": "db"})
    assert not matched.admits({})


def test_an_overlay_can_exclude_a_pool_by_name() -> None:
    matched = match((NODEPOOL, "NotIn", ("web",)))
    assert matched.admits({NODEPOOL: "db"})
    assert matched.admits({})
    assert not matched.admits({NODEPOOL: "web"})


def declared(offering: dict[str, object], *known: LayeredOffering) -> list[tuple[str | None, int]]:
    """Reservation and available instances of each offering of a type that declares this one."""
    zones = UsableZones(region="r", zones={}, source_zones={}, all_zones=frozenset())
    item = instance_type_object("m5.large", offerings=[offering])
    offerings, _ = apply_declared_offerings(item, known, zones)
    return [(each.reservation_id, each.available) for each in offerings]


def test_a_declared_offering_that_keeps_its_price_keeps_what_is_left_of_it() -> None:
    stated = {ZONE: "zone-a", CAPACITY_TYPE: "on-demand"}
    assert declared(dict(stated), layered_offering(available=0)) == [(None, 0)]


def test_a_reservation_that_is_declared_and_selected_is_one_offering() -> None:
    stated = {CAPACITY_TYPE: RESERVED, RESERVATION_ID: "cr-1", "karpenter.sh/price": "0.1"}
    selected = [
        layered_offering(capacity_type=RESERVED, reservation_id=name, available=2)
        for name in ("cr-1", "cr-2")
    ]
    assert sorted(str(name) for name, _ in declared(dict(stated), *selected)) == ["cr-1", "cr-2"]


def priced(*overlays: tuple[str, int, tuple[str, ...]]) -> list[tuple[float | None, list[str]]]:
    """Price and history of a type's two offerings under overlays: name, weight, zones."""
    offerings = {"s": (layered_offering(zone="zone-a"), layered_offering(zone="zone-b"))}
    index = OverlayTargetIndex(type_requirements={"s": SMALL}, offerings=offerings)
    matches = [
        match_overlay(
            parse_overlay(
                overlay_object(name, (ZONE, "In", zones), price=str(weight), weight=weight)
            ),
            index,
        )
        for name, weight, zones in overlays
    ]
    found = apply_overlay_prices(offerings, matches)["s"]
    return [(each.price, [f"{step.source}: {step.how}" for step in each.steps]) for each in found]


def test_the_first_overlay_sets_the_price_and_others_are_named_as_outweighed() -> None:
    both, only_b = ("zone-a", "zone-b"), ("zone-b",)
    assert priced(("x", 9, only_b), ("y", 7, both), ("z", 5, both)) == [
        (7.0, ["y: weight 7", "z: weight 5: outweighed by y"]),
        (9.0, ["x: weight 9", "y: weight 7: outweighed by x", "z: weight 5: outweighed by x"]),
    ]


def test_of_very_many_overlays_only_the_number_is_said() -> None:
    overlays = [(f"o{number}", 100 - number, ("zone-a",)) for number in range(30)]
    [(price, history), unpriced] = priced(*overlays)
    assert (price, unpriced) == (100.0, (1.0, []))
    assert history[0] == "o0: weight 100"
    assert history[10] == "o10: weight 90: outweighed by o0"
    assert history[11:] == ["and 19 more: outweighed by o0"]
