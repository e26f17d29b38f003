"""Replacements: only what is strictly cheaper, and diverse enough."""

from collections.abc import Sequence

import msgspec
import pytest
from tests.support.model_builders import instance_type, label_requirement, offering

from wainwright.catalogue.offerings.capacity_reservations import PriceRange
from wainwright.core.disruption.candidates import Candidate, CandidateContext, find_candidates
from wainwright.core.disruption.disruption_input import ReplacementRules
from wainwright.core.disruption.replacement import NoReplacement, cheaper_replacement
from wainwright.core.plan import plan
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, ZONE
from wainwright.model.plan import MinValuesPolicy, PlannedNodeClaim, PlanOptions
from wainwright.model.pod import Pod
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot

GATED = ReplacementRules(spot_to_spot=True)


def sold(name: str, spot: float | None = None, on_demand: float | None = None) -> InstanceType:
    prices = {"spot": spot, "on-demand": on_demand}
    return instance_type(
        name=name,
        labels={INSTANCE_TYPE: name},
        offerings=tuple(
            offering(capacity_type=kind, price=price)
            for kind, price in prices.items()
            if price is not None
        ),
    )


def spot_types(count: int, first: float = 0.1) -> list[InstanceType]:
    return [sold(f"s{number:02}.large", spot=first + number / 1000) for number in range(count)]


class Case:
    """A node of the type `now.large`, and the claim that a plan makes for its pod."""

    def __init__(self, *types: InstanceType, requirements: Requirements = NO_REQUIREMENTS) -> None:
        self.index = InstanceTypeIndex(types)
        self.pool = Pool(name="web", requirements=requirements)
        self.options = PlanOptions()

    def candidates(self, *labels: dict[str, str]) -> list[Candidate]:
        nodes = [
            Node(
                name=f"n-{number}",
                pool="web",
                labels={INSTANCE_TYPE: "now.large", ZONE: "zone-a", CAPACITY_TYPE: "on-demand"}
                | each,
            )
            for number, each in enumerate(labels)
        ]
        snapshot = Snapshot(nodes=tuple(nodes), pools=(self.pool,))
        return find_candidates(snapshot, CandidateContext(catalogs={"web": self.index}))

    def claim(self) -> PlannedNodeClaim:
        waiting = Pod(namespace="shop", name="a", requests={"cpu": 100})
        snapshot = Snapshot(pods=(waiting,), pools=(self.pool,))
        [only] = plan(snapshot, {"web": self.index}, self.options).claims
        return only

    def replace(
        self, candidates: Sequence[Candidate], rules: ReplacementRules = GATED
    ) -> PlannedNodeClaim | NoReplacement:
        return cheaper_replacement(self.claim(), self.index, candidates, rules)

    def replaced(
        self, *labels: dict[str, str], rules: ReplacementRules = GATED
    ) -> PlannedNodeClaim:
        found = self.replace(self.candidates(*labels), rules)
        assert isinstance(found, PlannedNodeClaim)
        return found

    def refused(self, *labels: dict[str, str], rules: ReplacementRules = GATED) -> str:
        found = self.replace(self.candidates(*labels), rules)
        assert isinstance(found, NoReplacement)
        return found.value


NOW = sold("now.large", spot=0.4, on_demand=1.0)
ON_DEMAND, SPOT = {CAPACITY_TYPE: "on-demand"}, {CAPACITY_TYPE: "spot"}
ONLY_ON_DEMAND = label_requirement(CAPACITY_TYPE, "In", "on-demand")


def test_only_types_that_are_strictly_cheaper_are_left() -> None:
    types = [
        NOW,
        *(sold(f"t{n}.large", on_demand=price) for n, price in enumerate((0.9, 1.0, 1.1))),
    ]
    found = Case(*types, requirements=ONLY_ON_DEMAND).replaced(ON_DEMAND)
    assert found.choices.instance_types == ("t0.large",)
    assert (found.launch.instance_type, found.launch.price) == ("t0.large", 0.9)


def test_nothing_cheaper_is_no_saving() -> None:
    case = Case(NOW, sold("big.large", on_demand=1.0), requirements=ONLY_ON_DEMAND)
    assert case.refused(ON_DEMAND) == "no-saving"


def test_the_most_expensive_zone_of_a_type_must_be_cheaper() -> None:
    zonal = instance_type(
        name="zonal.large",
        offerings=(offering(zone="zone-a", price=0.5), offering(zone="zone-b", price=1.5)),
    )
    assert Case(NOW, zonal, requirements=ONLY_ON_DEMAND).refused(ON_DEMAND) == "no-saving"


def test_on_demand_becomes_spot_and_nothing_but_spot() -> None:
    case = Case(NOW, sold("a.large", spot=0.2, on_demand=0.8), sold("b.large", on_demand=0.1))
    found = case.replaced(ON_DEMAND)
    assert found.choices.capacity_types == ("spot",)
    assert found.choices.instance_types == ("a.large", "now.large")
    assert found.requirements.single_value(CAPACITY_TYPE) == "spot"
    assert (found.launch.capacity_type, found.launch.price) == ("spot", 0.2)


def test_on_demand_stays_on_demand_where_no_spot_is_cheaper() -> None:
    case = Case(sold("now.large", on_demand=1.0), sold("a.large", spot=1.2, on_demand=0.8))
    found = case.replaced(ON_DEMAND)
    assert (found.choices.capacity_types, found.launch.price) == (("on-demand",), 0.8)


def test_spot_to_spot_needs_its_gate() -> None:
    case = Case(NOW, *spot_types(20))
    assert case.refused(SPOT, rules=ReplacementRules()) == "spot-to-spot"
    assert isinstance(case.replace(case.candidates(SPOT)), PlannedNodeClaim)


@pytest.mark.parametrize(("count", "is_enough"), [(14, False), (15, True)])
def test_a_spot_node_needs_fifteen_cheaper_types(count: int, is_enough: bool) -> None:
    case = Case(NOW, *spot_types(count))
    found = case.replace(case.candidates(SPOT))
    assert isinstance(found, PlannedNodeClaim) is is_enough
    assert is_enough or found is NoReplacement.SPOT_TO_SPOT


def test_a_spot_node_is_replaced_by_the_fifteen_cheapest() -> None:
    found = Case(NOW, *spot_types(20)).replaced(SPOT)
    assert found.choices.instance_types == tuple(f"s{n:02}.large" for n in range(15))


def test_a_spot_node_is_not_replaced_by_its_own_type_elsewhere() -> None:
    """In its own zone it is sold out, in the other it is the cheapest of all."""
    here = offering(capacity_type="spot", price=0.4, available=0)
    there = offering(capacity_type="spot", price=0.05, zone="zone-b")
    now = instance_type(
        name="now.large", labels={INSTANCE_TYPE: "now.large"}, offerings=(here, there)
    )
    assert Case(now, *spot_types(20)).refused(SPOT) == "spot-to-spot"


@pytest.mark.parametrize("min_values", [18, 30])
def test_min_values_may_need_more_than_fifteen_types(min_values: int) -> None:
    diverse = label_requirement(INSTANCE_TYPE, "Exists", min_values=min_values)
    found = Case(NOW, *spot_types(35), requirements=diverse).replaced(SPOT)
    assert len(found.choices.instance_types) == min_values


@pytest.mark.parametrize(("count", "is_enough"), [(14, False), (15, True)])
def test_smaller_min_values_do_not_make_fifteen_types_fewer(count: int, is_enough: bool) -> None:
    diverse = label_requirement(INSTANCE_TYPE, "Exists", min_values=3)
    case = Case(NOW, *spot_types(count), requirements=diverse)
    found = case.replace(case.candidates(SPOT))
    assert isinstance(found, PlannedNodeClaim) is is_enough
    assert is_enough or found is NoReplacement.SPOT_TO_SPOT


def test_the_number_of_types_is_a_setting() -> None:
    rules = ReplacementRules(spot_to_spot=True, spot_to_spot_types=3)
    found = Case(NOW, *spot_types(5)).replaced(SPOT, rules=rules)
    assert len(found.choices.instance_types) == 3


def test_several_spot_nodes_need_no_fifteen_types() -> None:
    found = Case(NOW, sold("a.large", spot=0.3)).replaced(SPOT, SPOT)
    assert found.launch.instance_type == "a.large"


def test_min_values_are_checked_again_after_the_price_filter() -> None:
    diverse = label_requirement(INSTANCE_TYPE, "Exists", min_values=2).narrow(ONLY_ON_DEMAND)
    case = Case(NOW, sold("a.large", on_demand=0.5), requirements=diverse)
    assert case.refused(ON_DEMAND) == "min-values"
    wider = Case(NOW, *(sold(f"{n}.large", on_demand=0.5) for n in "ab"), requirements=diverse)
    assert wider.replaced(ON_DEMAND).choices.instance_types == ("a.large", "b.large")


def test_high_min_values_end_consolidation_at_the_cheapest_types() -> None:
    """Of eleven types, ten must be left: only the most expensive has ten cheaper ones."""
    diverse = label_requirement(INSTANCE_TYPE, "Exists", min_values=10)
    types = [sold(f"t{n:02}.large", on_demand=1 + n / 10) for n in range(11)]
    case = Case(*types, requirements=diverse)
    found = case.replaced({INSTANCE_TYPE: "t10.large"})
    assert found.choices.instance_types == tuple(f"t{n:02}.large" for n in range(10))
    for n in range(1, 10):
        assert case.refused({INSTANCE_TYPE: f"t{n:02}.large"}) == "min-values"


def test_several_nodes_are_not_merged_into_one_of_their_own_type() -> None:
    case = Case(NOW, requirements=ONLY_ON_DEMAND)
    assert case.refused(ON_DEMAND, ON_DEMAND) == "no-saving"
    larger = Case(sold("now.large", on_demand=1.0), sold("x.large", on_demand=1.5))
    assert larger.refused(ON_DEMAND, ON_DEMAND) == "no-saving"


def test_several_nodes_are_merged_into_one_that_costs_less_than_together() -> None:
    other = instance_type(name="now.large", capacity={"cpu": 10}, offerings=(offering(price=1.0),))
    case = Case(other, sold("x.large", on_demand=1.5))
    assert case.replaced(ON_DEMAND, ON_DEMAND).launch.price == 1.5


def test_a_reservation_replaces_on_demand_and_spot() -> None:
    reserved = offering(
        capacity_type="reserved",
        price=1e-7,
        available=2,
        reservation_id="cr-1",
        labels={RESERVATION_ID: "cr-1"},
    )
    free = instance_type(name="r.large", offerings=(reserved, offering(price=0.9)))
    for labels in (ON_DEMAND, SPOT):
        found = Case(NOW, free).replaced(labels, rules=ReplacementRules())
        assert found.launch.reservation_id == "cr-1"
        assert found.choices.instance_types == ("r.large",)


def test_the_replacement_has_the_type_and_zone_of_the_reservation() -> None:
    reserved = offering(
        zone="zone-b", capacity_type="reserved", price=1e-7, available=1, reservation_id="cr-1"
    )
    free = instance_type(name="r.large", offerings=(reserved, offering(zone="zone-c", price=0.9)))
    found = Case(NOW, free).replaced(ON_DEMAND)
    assert (found.choices.instance_types, found.choices.zones) == (("r.large",), ("zone-b",))
    assert (found.launch.instance_type, found.launch.zone) == ("r.large", "zone-b")


def test_a_reserved_48xlarge_becomes_a_reserved_large() -> None:
    """At the prices of the formula, which are next to nothing and still in order."""
    prices = PriceRange(highest=407.68, lowest_spot=0.0015, lowest=0.0015)
    types = [
        instance_type(
            name=name,
            offerings=(
                offering(
                    capacity_type="reserved",
                    price=prices.reserved_price(on_demand),
                    available=1,
                    reservation_id=f"cr-{name}",
                ),
            ),
        )
        for name, on_demand in (("c6a.48xlarge", 7.344), ("c6a.large", 0.0765))
    ]
    held = {
        INSTANCE_TYPE: "c6a.48xlarge",
        CAPACITY_TYPE: "reserved",
        RESERVATION_ID: "cr-c6a.48xlarge",
    }
    found = Case(*types).replaced(held)
    assert found.launch.reservation_id == "cr-c6a.large"
    back = held | {INSTANCE_TYPE: "c6a.large", RESERVATION_ID: "cr-c6a.large"}
    assert Case(*types).refused(back) == "no-saving"


def test_a_reserved_node_moves_to_a_cheaper_reservation_only() -> None:
    def reserved(name: str, price: float, reservation: str) -> InstanceType:
        made = offering(
            capacity_type="reserved", price=price, available=1, reservation_id=reservation
        )
        return instance_type(name=name, offerings=(made,))

    now = msgspec.structs.replace(reserved("now.large", 3e-7, "cr-1"), capacity={"cpu": 10})
    held = {CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-1"}
    assert Case(now, reserved("s.large", 1e-7, "cr-2")).replaced(held).launch.price == 1e-7
    assert Case(now, reserved("s.large", 4e-7, "cr-2")).refused(held) == "no-saving"
    assert Case(now, sold("od.large", on_demand=0.1)).refused(held) == "no-saving"


def test_min_values_are_not_relaxed_for_a_replacement() -> None:
    diverse = label_requirement(INSTANCE_TYPE, "Exists", min_values=3).narrow(ONLY_ON_DEMAND)
    case = Case(NOW, sold("a.large", on_demand=0.5), requirements=diverse)
    case.options = PlanOptions(min_values_policy=MinValuesPolicy.BEST_EFFORT)
    assert case.refused(ON_DEMAND) == "min-values"
