"""A cluster that is left alone comes to rest, and no node is replaced by its equal."""

import os

import pytest
from tests.support.random_inputs.resting_clusters import BUSY_MINUTES, resting_cluster

from wainwright.model.simulation import (
    DisruptEntry,
    EvictEntry,
    LaunchEntry,
    SimulationResult,
    TerminateEntry,
)
from wainwright.sim.simulation import simulate

CLUSTERS = int(os.environ.get("RESTING_CLUSTERS", "4"))
REST = (BUSY_MINUTES + 60) * 60.0
"""An hour after the workload has changed for the last time."""
DISTURBANCES = (LaunchEntry, TerminateEntry, EvictEntry, DisruptEntry)


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_a_cluster_that_is_left_alone_comes_to_rest(seed: int) -> None:
    result = simulate(resting_cluster(seed))
    late = [each for each in result.timeline if isinstance(each, DISTURBANCES) and each.at > REST]
    assert late == [], "nothing has changed for an hour"
    assert replaced_by_equals(result) == []
    assert [law for law in result.laws if not law.held] == []


def replaced_by_equals(result: SimulationResult) -> list[DisruptEntry]:
    """Commands that put a node of the same type, zone and capacity type in the place of one."""
    launched = {
        each.object.removeprefix("NodeClaim/"): (
            each.instanceType,
            each.zone,
            each.capacityType,
            each.reservationID,
        )
        for each in result.timeline
        if isinstance(each, LaunchEntry)
    }
    return [
        each
        for each in result.timeline
        if isinstance(each, DisruptEntry)
        and len(each.candidates) == len(each.replacements) == 1
        and launched[each.candidates[0]] == launched[each.replacements[0]]
    ]
