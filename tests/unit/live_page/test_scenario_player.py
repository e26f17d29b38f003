"""A scenario that is played: at a speed of the clock, step by step, with events from the page."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.support.manifest_tables import TESTS
from tests.support.story_changes import apply_changes, without_defaults

from wainwright.clock import VirtualClock
from wainwright.live_page.scenario_player import TICK, ScenarioPlayer
from wainwright.manifests.problems import InvalidInput
from wainwright.sim.scenario_reader import read_scenario
from wainwright.sim.simulation import simulate

SCENARIO = read_scenario(str(TESTS / "scenarios" / "live" / "shop.yaml"))
Json = dict[str, Any]


def playing(main: Callable[[ScenarioPlayer, VirtualClock], Awaitable[None]]) -> None:
    """On a clock that stands still while the simulation works, so that no pace is chance."""
    clock = VirtualClock()

    async def run() -> None:
        player = ScenarioPlayer(SCENARIO, clock, speed=60.0)
        await player.begin()
        work = asyncio.ensure_future(player.run())
        try:
            await main(player, clock)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await player.end()

    try:
        clock.run(run())
    finally:
        clock.close()


async def report(player: ScenarioPlayer) -> Json:
    found: Json = msgspec.json.decode(await player.report())
    return found


async def moment(player: ScenarioPlayer) -> float:
    end: float = (await report(player))["stories"][0]["end"]
    return end


def test_playing_goes_at_the_chosen_speed_and_stops() -> None:
    async def main(player: ScenarioPlayer, clock: VirtualClock) -> None:
        await clock.sleep(5)
        assert await moment(player) == 0.0
        await player.play()
        await clock.sleep(10 - TICK / 2)
        assert await moment(player) == 600.0
        await player.pause()
        await clock.sleep(10)
        assert await moment(player) == 600.0
        await player.play(speed=1200.0)
        await clock.sleep(1 - TICK / 2)
        live = (await report(player))["live"]
        assert (live["isPlaying"], live["speed"]) == (True, 1200.0)
        assert await moment(player) == 1800.0

    playing(main)


def test_a_step_pauses_and_the_end_is_the_result_of_a_simulation() -> None:
    expected = msgspec.to_builtins(simulate(SCENARIO))

    async def main(player: ScenarioPlayer, clock: VirtualClock) -> None:
        await player.play(speed=3600.0)
        await clock.sleep(1 - TICK / 2)
        await player.step(1800.0)
        await clock.sleep(5)
        assert await moment(player) == 5400.0
        await player.play()
        await clock.sleep(60)
        found = await report(player)
        assert found["live"]["isOver"] is True
        assert "isPlaying" not in found["live"]
        [story] = found["stories"]
        assert story["figures"] == expected["totals"]
        assert story["series"]["pricePerHour"] == expected["series"]["pricePerHour"]
        assert [each["held"] for each in story["findings"]] == [True, True]
        await player.step(60.0)
        await player.play()
        assert await player.inject("restart: controller") == (
            "the scenario is over: nothing happens any more"
        )
        assert await moment(player) == 14_400.0

    playing(main)


def test_frames_applied_one_after_the_other_give_the_report() -> None:
    async def main(player: ScenarioPlayer, clock: VirtualClock) -> None:  # noqa: ARG001
        page = await report(player)
        first = page["live"]["frame"]
        for _ in range(8):
            await player.step(123.4)
        await player.inject("interrupt: {capacityType: spot, count: 1}")
        await player.inject("reservation: {cancel: cr-1}")
        for _ in range(8):
            await player.step(123.4)
        frames = player.stream.since(first)
        assert frames is not None
        assert len(frames) == 18
        for frame in frames:
            change = msgspec.json.decode(frame.data)
            assert change["live"]["frame"] == frame.id
            apply_changes(page["stories"][0], change["changes"])
        now = await report(player)
        found, expected = page["stories"][0], now["stories"][0]
        assert found["history"] == expected["history"]
        assert without_defaults(found) == without_defaults(expected)
        assert max(len(frame.data) for frame in frames[1:]) < len(await player.report()) / 2

    playing(main)


def test_what_the_page_may_choose_from_follows_the_cluster() -> None:
    async def main(player: ScenarioPlayer, _: VirtualClock) -> None:
        live = (await report(player))["live"]
        assert {"us-west-2a", "us-west-2b"} <= set(live["zones"])
        web = {"kind": "Deployment", "namespace": "shop", "name": "web"}
        assert live["workloads"] == [{**web, "replicas": 6}]
        await player.inject("scale: {namespace: shop, name: web, replicas: 9}")
        assert (await report(player))["live"]["workloads"] == [{**web, "replicas": 9}]
        with pytest.raises(InvalidInput):
            await player.inject("scale: {namespace: shop, name: wep, replicas: 9}")
        note = await player.inject("kill: {node: {zone: us-west-2d}}")
        assert note == "after 0s: kill: no node is meant"

    playing(main)
