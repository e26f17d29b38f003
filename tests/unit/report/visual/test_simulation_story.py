"""A simulation as a story: at every moment it has the numbers of the JSON."""

from functools import lru_cache

import pytest
from tests.support.manifest_tables import TESTS

from wainwright.model.simulation import DisruptEntry, LaunchEntry, SimulationResult
from wainwright.report.visual.cluster_view import cluster_at
from wainwright.report.visual.simulation_story import simulation_story
from wainwright.report.visual.story import Story
from wainwright.sim.scenario_reader import read_scenario
from wainwright.sim.simulation import Simulation, SimulationOptions

FOLDER = TESTS / "scenarios" / "simulation"
SCENARIOS = (
    "a-reservation-comes-shrinks-and-is-cancelled",
    "a-zone-fails",
    "spot-is-interrupted",
    "the-price-of-spot-doubles",
    "some-instances-never-join",
    "pods-of-a-trace-come-and-go",
)


@lru_cache
def described(name: str) -> tuple[SimulationResult, Story]:
    """Once for all tests: a run is the same every time."""
    options = SimulationOptions(keep_history=True)
    simulation = Simulation(read_scenario(str(FOLDER / f"{name}.yaml")), options=options)
    try:
        result = simulation.run()
    finally:
        simulation.close()
    history = simulation.recorder.history
    assert history is not None
    return result, simulation_story(result, history, [])


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_moment_has_the_numbers_of_the_series(name: str) -> None:
    result, story = described(name)
    series = result.series
    found = [cluster_at(story, at) for at in series.at]
    assert [len(each.managed) for each in found] == series.nodes
    assert [len(each.pending) for each in found] == series.pods.pending
    assert [each.runningPods for each in found] == series.pods.running
    assert [round(each.pricePerHour, 9) for each in found] == pytest.approx(
        series.pricePerHour, abs=2e-9
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_moment_has_the_reservations_of_the_series(name: str) -> None:
    result, story = described(name)
    for place, at in enumerate(result.series.at):
        found = {each.record.id: each for each in cluster_at(story, at).reservations}
        for identity, series in result.series.reservations.items():
            assert found[identity].used == series.used[place]
            assert found[identity].total == series.total[place]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_last_moment_is_the_end_of_the_json(name: str) -> None:
    result, story = described(name)
    end = cluster_at(story, story.end)
    found = {
        node.record.id: (
            node.record.name or None,
            node.record.instanceType,
            node.record.zone,
            node.capacityType,
            node.reservationID,
            node.pricePerHour,
            sorted(pod.name for pod in node.pods if not pod.daemon),
        )
        for node in end.managed
    }
    assert found == {
        node.instance: (
            node.name,
            node.instanceType,
            node.zone,
            node.capacityType,
            node.reservationID,
            node.pricePerHour,
            node.pods,
        )
        for node in result.end.nodes
    }
    assert [each.pod.name for each in end.pending] == [each.pod for each in result.end.pending]


def test_nothing_is_remembered_where_nobody_asked_for_it() -> None:
    simulation = Simulation(read_scenario(str(FOLDER / "thin-path.yaml")))
    try:
        simulation.run()
        assert simulation.recorder.history is None
    finally:
        simulation.close()


def test_a_node_knows_why_it_was_launched_and_what_became_of_it() -> None:
    _, story = described("spot-is-interrupted")
    verdicts = {each.verdict for each in story.verdicts}
    assert "interrupted" in verdicts
    assert any("pending pod" in each.why[0] for each in story.notes)


def demo() -> tuple[SimulationResult, Story]:
    return described("../../../examples/sale-day/scenario")


def test_what_the_demo_expects_holds_also_of_the_night() -> None:
    """The lines of its scenario that say what consolidation saved, and what it disturbed."""
    result, _ = demo()
    assert [each.message for each in result.expectations if not each.held] == []
    assert [law.law for law in result.laws if not law.held] == []
    stated = {key for each in result.expectations for key in each.found}
    assert {"nodes", "pricePerHour", "savingsPerHour", "moves"} <= stated


def test_it_opens_at_a_removal_with_pending_pods_and_idle_reserved_instances() -> None:
    result, story = demo()
    assert story.opensAt is not None
    view = cluster_at(story, story.opensAt)
    assert [each.pod.name for each in view.pending] == ["shop/forecast-0"]
    assert any(each.idle for each in view.reservations)
    removals = [each for each in result.timeline if isinstance(each, DisruptEntry)]
    (removal,) = (each for each in removals if each.at == story.opensAt)
    assert (removal.savingsPerHour or 0) > 0.1
    assert removal.modelledPrices


def test_it_opens_at_its_busiest_moment_where_nothing_is_pending_or_idle() -> None:
    result, story = described("thin-path")
    assert story.opensAt is not None
    assert len(cluster_at(story, story.opensAt).managed) == max(result.series.nodes)


def test_a_pending_pod_has_the_reason_of_our_controllers() -> None:
    _, story = demo()
    assert story.opensAt is not None
    (pending,) = cluster_at(story, story.opensAt).pending
    assert pending.reason.startswith("NodePool shop: the pod needs 12 cpu; ")
    assert "; fix: allow karpenter.k8s.aws/instance-size=4xlarge in NodePool shop: +~$" in (
        pending.reason
    )
    at = next(each.at for each in result_launches(demo()[0]) if each.at > 7 * 3600)
    reasons = {each.reason for each in cluster_at(story, at).pending}
    assert any(each.startswith("waiting for the new node of NodeClaim shop-") for each in reasons)


def result_launches(result: SimulationResult) -> list[LaunchEntry]:
    return [each for each in result.timeline if isinstance(each, LaunchEntry)]


def test_spot_prices_are_estimates_and_those_of_a_reservation_are_not() -> None:
    _, story = demo()
    view = cluster_at(story, 10 * 3600.0)
    modelled = {node.capacityType: node.modelledPrice for node in view.nodes}
    assert modelled == {"spot": True, "reserved": False}
    assert view.modelledPrices
    assert all(each.record.modelledPrice for each in view.reservations)
