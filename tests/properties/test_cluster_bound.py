"""No arrangement that stands, or that disruption leads to, costs less than the lower bound."""

from hypothesis import given, settings
from tests.properties.test_disruption import SEEDS, UNSHRUNK, previewed, underutilized_cluster

from wainwright.core.disruption.cluster_bound import cluster_lower_bound

ROUNDING = 1e-9  # USD per hour


@settings(max_examples=settings().max_examples * 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_the_lower_bound_is_below_every_arrangement(seed: int) -> None:
    planner_input = underutilized_cluster(seed)
    found = previewed(planner_input, planner_input.snapshot)
    bound = cluster_lower_bound(
        planner_input.snapshot, planner_input.catalogs, planner_input.options
    )
    if bound is not None:
        assert bound <= min(found.price_before, found.price_after) + ROUNDING
