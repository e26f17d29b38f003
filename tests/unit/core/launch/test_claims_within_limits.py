"""NodeClaims of later rounds wait where those before them may become too large."""

import pytest
from tests.support.model_builders import (
    GENERAL,
    existing_node,
    instance_type,
    labelled_pods,
    offering,
    plan_pods,
    spread_constraint,
)

from wainwright.core.launch.claims_within_limits import claims_within_limits
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import HOSTNAME
from wainwright.model.plan import ClusterLimits, PlanOptions
from wainwright.model.resources import Resources
from wainwright.model.snapshot import Pool, Snapshot


def kind(name: str, cpu: int, price: float) -> InstanceType:
    capacity = {"cpu": cpu, "memory": 2**34, "pods": 50}
    return instance_type(name=name, capacity=capacity, offerings=(offering(price=price),))


TYPES = (kind("small", 2000, 1.0), kind("large", 4000, 2.0))
APART = spread_constraint(HOSTNAME)
NO_LIMITS = ClusterLimits()


def created_and_planned(
    limits: Resources, of_cluster: ClusterLimits = NO_LIMITS, in_use: int = 0
) -> tuple[int, int]:
    """Of six pods that each need a node of their own, of two types."""
    pools = (Pool(name=GENERAL.name, limits=limits, in_use={"cpu": in_use} if in_use else {}),)
    options = PlanOptions(cluster_limits=of_cluster)
    pods = labelled_pods(6, cpu=1500, constraints=APART)
    made = plan_pods(pods, *TYPES, pools=pools, options=options)
    snapshot = Snapshot(pods=pods, pools=pools)
    catalogs = {GENERAL.name: InstanceTypeIndex(TYPES)}
    kept = claims_within_limits(made.claims, snapshot, catalogs, options)
    assert [*kept] == [each for each in made.claims if each in kept], "in their order"
    return len(kept), len(made.claims)


@pytest.mark.parametrize(
    ("limits", "of_cluster", "expected"),
    [
        ({}, NO_LIMITS, (6, 6)),
        ({"cpu": 24000}, NO_LIMITS, (6, 6)),
        # The first takes four of them at most and the second two; the third was planned later.
        ({"cpu": 6000}, NO_LIMITS, (2, 3)),
        ({"cpu": 13000}, NO_LIMITS, (3, 6)),
        ({"nodes": 4}, NO_LIMITS, (4, 4)),
        ({}, ClusterLimits(cpu=6000), (2, 3)),
        ({}, ClusterLimits(price_per_hour=3.0), (2, 3)),
        ({"cpu": 24000}, ClusterLimits(cpu=6000), (2, 3)),
        ({"memory": 2**40}, NO_LIMITS, (6, 6)),
    ],
)
def test_claims_of_later_rounds_wait_where_limits_leave_no_room_for_the_largest_types(
    limits: Resources, of_cluster: ClusterLimits, expected: tuple[int, int]
) -> None:
    assert created_and_planned(limits, of_cluster) == expected


def test_what_is_in_use_leaves_less() -> None:
    assert created_and_planned({"cpu": 10000}, in_use=4000) == (2, 3)


def test_nodes_of_the_cluster_count_against_its_limits() -> None:
    limits = ClusterLimits(cpu=6000)
    options = PlanOptions(cluster_limits=limits)
    pods = labelled_pods(3, cpu=1500, constraints=APART)
    made = plan_pods(pods, *TYPES, options=options)
    node = existing_node("a", None)
    node = type(node)(name="a", capacity={"cpu": 3000}, pool=GENERAL.name)
    snapshot = Snapshot(pods=pods, pools=(GENERAL,), nodes=(node,))
    catalogs = {GENERAL.name: InstanceTypeIndex(TYPES)}
    kept = claims_within_limits(made.claims, snapshot, catalogs, options)
    assert len(kept) == 2, "those of the first round, and no other"
