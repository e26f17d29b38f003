"""What the pods of a cluster cost at least, however they are arranged."""

from typing import Any

import pytest
from tests.support.model_builders import instance_type, offering
from tests.unit.core.disruption.test_commands import WEB, node, types

from wainwright.core.disruption.cluster_bound import cluster_lower_bound
from wainwright.core.disruption.cluster_changes import with_returned
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    RESERVATION_ID,
    ZONE,
)
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS
from wainwright.model.pod import DaemonSet
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node, Pool, Snapshot


def bound(*nodes: Node, catalog: list[InstanceType] | None = None, pool: Pool = WEB) -> Any:
    snapshot = Snapshot(nodes=nodes, pools=(pool,))
    index = InstanceTypeIndex(types() if catalog is None else catalog)
    return cluster_lower_bound(snapshot, {"web": index}, DEFAULT_PLAN_OPTIONS)


def test_it_is_what_the_pods_need_not_what_stands() -> None:
    assert bound(node("a", "huge", 900), node("b", "huge", 3000)) == pytest.approx(0.39, abs=0.011)


def test_without_pods_it_is_nothing() -> None:
    assert bound(node("a", "huge")) == 0


def test_without_instance_types_it_is_not_known() -> None:
    assert bound(node("a", "huge", 900), catalog=[]) is None


def test_nodes_of_nobody_stand_with_their_room() -> None:
    theirs = node("b", "huge", 1000, managed=False, pool=None)
    assert bound(node("a", "huge", 900), theirs) == 0


def test_limits_that_the_nodes_have_used_up_do_not_count() -> None:
    pool = Pool(name="web", limits={"cpu": 8000}, in_use={"cpu": 8000})
    assert bound(node("a", "huge", 900), pool=pool) > 0


def test_an_offering_that_a_node_has_can_be_used_although_nobody_could_launch_it() -> None:
    """What stands is an arrangement: no bound may be above what it costs."""
    sold_out = instance_type(
        name="small",
        capacity={"cpu": 1000, "memory": 2**36, "pods": 50},
        labels={INSTANCE_TYPE: "small"},
        offerings=(offering(price=0.01, available=0),),
    )
    catalog = [each for each in types() if each.name != "small"] + [sold_out]
    assert bound(node("a", "small", 900), catalog=catalog) <= 0.01


@pytest.mark.parametrize(("launched", "least", "most"), [(True, 0.0, 1e-6), (False, 0.1, 0.8)])
def test_the_reserved_instance_that_a_node_has_can_be_used(
    launched: bool, least: float, most: float
) -> None:
    """Of a node that is only planned the reservation knows nothing yet."""
    reserved = instance_type(
        name="big",
        capacity={"cpu": 8000, "memory": 2**36, "pods": 50},
        labels={INSTANCE_TYPE: "big"},
        offerings=(
            offering(capacity_type="reserved", price=1e-6, available=0, reservation_id="cr-1"),
        ),
    )
    labels = {
        INSTANCE_TYPE: "big",
        ZONE: "zone-a",
        CAPACITY_TYPE: "reserved",
        RESERVATION_ID: "cr-1",
    }
    standing = node("a", "huge", 7000, labels=labels, reservation_id="cr-1", launched=launched)
    assert least <= bound(standing, catalog=[*types(), reserved]) <= most


def test_fees_are_no_part_of_it() -> None:
    catalog = [
        instance_type(
            name="small",
            capacity={"cpu": 1000, "memory": 2**36, "pods": 50},
            labels={INSTANCE_TYPE: "small"},
            offerings=(offering(price=0.1),),
            fee=5.0,
        )
    ]
    assert bound(node("a", "small", 900), catalog=catalog) <= 0.1


def test_catalogs_with_returned_instances_know_the_same_zones() -> None:
    reserved = offering(price=1.0, available=0, reservation_id="cr-1", zone=None)
    made = instance_type(
        name="t", capacity={"cpu": 1}, labels={INSTANCE_TYPE: "t"}, offerings=(reserved,)
    )
    index = InstanceTypeIndex([made], zones=("zone-x",))
    after = with_returned({"web": index}, {"cr-1": 1})["web"]
    assert "zone-x" in after.zones


def test_bare_metal_that_no_plan_would_launch_counts_where_it_stands() -> None:
    metal = instance_type(
        name="x.metal",
        capacity={"cpu": 8000, "memory": 2**36, "pods": 50},
        labels={INSTANCE_TYPE: "x.metal", INSTANCE_SIZE: "metal"},
        offerings=(offering(price=0.01),),
    )
    labels = {INSTANCE_TYPE: "x.metal", ZONE: "zone-a", CAPACITY_TYPE: "on-demand"}
    standing = node("a", "huge", 7000, labels=labels)
    assert bound(standing, catalog=[*types(), metal]) <= 0.01


def test_a_daemonset_that_runs_in_one_zone_takes_nothing_from_nodes_elsewhere() -> None:
    agent = DaemonSet(
        namespace="system",
        name="agent",
        requests={"cpu": 500},
        alternatives=(Requirements.from_labels({ZONE: "zone-b"}),),
    )
    standing = node("a", "small", 900)
    snapshot = Snapshot(nodes=(standing,), pools=(WEB,), daemonsets=(agent,))
    index = InstanceTypeIndex(types(), zones=("zone-b",))
    found = cluster_lower_bound(snapshot, {"web": index}, DEFAULT_PLAN_OPTIONS)
    assert found is not None
    assert found <= 0.1
