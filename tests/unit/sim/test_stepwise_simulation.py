"""A simulation that is advanced step by step, and changed on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.manifest_tables import TESTS

from wainwright.manifests.problems import InvalidInput
from wainwright.model.simulation import SimulationResult
from wainwright.sim.scenario import Scenario
from wainwright.sim.scenario_reader import read_event, read_scenario
from wainwright.sim.simulation import Simulation, SimulationOptions

LIVE = TESTS / "scenarios" / "live" / "shop.yaml"
SIMULATIONS = TESTS / "scenarios" / "simulation"
OPTIONS = SimulationOptions(keep_history=True)
NAMES = ("spot-is-interrupted", "the-controller-dies-and-the-api-server-goes-away")


@contextmanager
def stepped(scenario: Scenario) -> Iterator[Simulation]:
    simulation = Simulation(scenario, options=OPTIONS)
    try:
        simulation.begin()
        yield simulation
    finally:
        simulation.stop()
        simulation.close()


def encoded(result: SimulationResult) -> bytes:
    return msgspec.json.encode(result)


def whole_run(scenario: Scenario) -> bytes:
    simulation = Simulation(scenario, options=OPTIONS)
    try:
        return encoded(simulation.run())
    finally:
        simulation.close()


@pytest.mark.parametrize("name", NAMES)
def test_steps_give_the_bytes_of_an_uninterrupted_run(name: str) -> None:
    scenario = read_scenario(str(SIMULATIONS / f"{name}.yaml"))
    with stepped(scenario) as simulation:
        at = 0.0
        while not simulation.is_over:
            at += 61.7
            simulation.advance(at)
            simulation.result_so_far()
        assert encoded(simulation.finish()) == whole_run(scenario)


@given(st.lists(st.floats(0.001, 5000), min_size=1, max_size=30))
@settings(max_examples=3, deadline=None)
def test_steps_of_any_length_do(steps: list[float]) -> None:
    scenario, expected = live_run()
    with stepped(scenario) as simulation:
        at = 0.0
        for seconds in [*steps, 14_400.0]:
            at = min(at + seconds, simulation.end + 1)
            simulation.advance(at)
        assert simulation.is_over
        assert encoded(simulation.finish()) == expected


@cache
def live_run() -> tuple[Scenario, bytes]:
    scenario = read_scenario(str(LIVE))
    return scenario, whole_run(scenario)


def test_what_is_known_so_far_is_what_until_gives() -> None:
    scenario = read_scenario(str(LIVE))
    with stepped(scenario) as simulation:
        simulation.advance(600.0)
        simulation.advance(2400.0)
        found = simulation.result_so_far()
    until = Simulation(scenario, options=SimulationOptions(until=2400.0))
    try:
        expected = until.run()
    finally:
        until.close()
    assert found.series == expected.series
    assert found.totals == expected.totals
    assert found.end == expected.end
    assert [each.held for each in found.expectations] == [True, None]
    assert [each.held for each in expected.expectations] == [True, None]


def inject(simulation: Simulation, text: str) -> None:
    at = simulation.world.now()
    simulation.inject(read_event(text, simulation.manifests(), at))


def test_a_zone_that_goes_out_loses_its_nodes_and_comes_back() -> None:
    with stepped(read_scenario(str(LIVE))) as simulation:
        simulation.advance(600.0)
        [node, *_] = simulation.recorder.node_views()
        inject(simulation, f"{{outage: {{zone: {node.zone}}}, for: 20m}}")
        simulation.advance(720.0)
        there = [each for each in simulation.recorder.node_views() if each.zone == node.zone]
        assert there
        assert not any(each.ready for each in there)
        simulation.advance(3600.0)
        result = simulation.result_so_far()
    texts = [each.message for each in result.timeline if each.at in (600.0, 1800.0)]
    assert [each for each in texts if "outage" in each] == [
        f"outage zone {node.zone}",
        f"over: outage zone {node.zone}",
    ]
    assert result.end.pending == []


def test_a_curve_goes_on_after_its_beginning() -> None:
    with stepped(read_scenario(str(LIVE))) as simulation:
        simulation.advance(1900.0)
        inject(simulation, "scale: {namespace: shop, name: web, curve: [[0m, 2], [10m, 12]]}")
        simulation.advance(1990.0)
        assert simulation.recorder.running_pods == 3
        simulation.advance(2900.0)
        assert simulation.recorder.running_pods == 12


def test_a_price_that_nobody_expected_breaks_no_law() -> None:
    with stepped(read_scenario(str(LIVE))) as simulation:
        simulation.advance(3600.0)
        before = simulation.result_so_far().series.pricePerHour[-1]
        inject(simulation, "price: {capacityType: spot, factor: 3}")
        after = simulation.result_so_far().series.pricePerHour[-1]
        assert after == pytest.approx(3 * before, rel=0.01)
        simulation.advance(simulation.end + 1)
        assert all(law.held for law in simulation.finish().laws)


def test_a_quiet_end_is_sought_again_after_an_event() -> None:
    scenario = msgspec.structs.replace(read_scenario(str(LIVE)), duration=None, events=())
    with stepped(scenario) as simulation:
        moments = []
        simulation.advance(7200.0)
        moments.append(simulation.is_over)
        inject(simulation, "scale: {namespace: shop, name: web, replicas: 20}")
        moments.append(simulation.is_over)
        simulation.advance(18_000.0)
        moments.append(simulation.is_over)
        assert moments == [True, False, True]
        assert simulation.recorder.running_pods == 20


def test_an_event_that_reaches_nobody_says_when_it_was() -> None:
    with stepped(read_scenario(str(LIVE))) as simulation:
        simulation.advance(600.0)
        inject(simulation, "kill: {node: {zone: us-west-2d}}")
        assert simulation.warnings == ["after 600s: kill: no node is meant"]


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("outage: {zone: us-west-2x}", "outage.zone", "no zone of us-west-2 is called us-west-2x"),
        (
            "scale: {name: web, replicas: 3}",
            "scale.name",
            "no manifest or event creates Deployment default/web",
        ),
        ("reservation: {cancel: cr-9}", "reservation.cancel", "CapacityReservation cr-9"),
        ("price: {factor: -1}", "price.factor", "expected a number"),
        ("{at: 1h, outage: {zone: us-west-2a}}", "at", "it happens at once"),
        ("explode: {}", "explode", "unknown field"),
        ("[1, 2]", "", "expected an event"),
        ("apply: /etc/passwd", "apply", "expected a manifest"),
        ("apply: [world.yaml]", "apply[0]", "expected a manifest"),
        ("outage: {zone: us-west-2a}\n---\nrestart: controller", "", "there are several events"),
        ("{", "", ""),
        ("", "", "no "),
    ],
)
def test_an_event_that_cannot_be_is_refused_with_its_field(
    text: str, path: str, message: str
) -> None:
    with stepped(read_scenario(str(LIVE))) as simulation, pytest.raises(InvalidInput) as refused:
        inject(simulation, text)
    problem = refused.value.report.errors[0]
    assert problem.path == path
    assert message in problem.sentence
    assert "nothing changed" in refused.value.message or not problem.path
