"""Events about many objects at once, however long an API server takes for each."""

from collections.abc import Mapping
from typing import Any

from tests.support.claim_stories import ObservedCluster

from wainwright.api.kubernetes.operations import Event
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import VirtualClock
from wainwright.controllers.events import BURST, EventRecorder
from wainwright.sim.api_server import InMemoryApiServer

SECONDS_FOR_AN_EVENT = 2.0


def test_a_slow_api_server_does_not_let_more_events_through() -> None:
    clock = VirtualClock()

    async def story() -> None:
        api = InMemoryApiServer(clock)

        async def take_time(_: str, __: str, ___: Mapping[str, Any]) -> None:
            await clock.sleep(SECONDS_FOR_AN_EVENT)

        recorder = EventRecorder(ObservedCluster(api, take_time), clock)
        began = clock.now()
        pods = [Pod(metadata=ObjectMeta(name=f"web-{n}", namespace="default")) for n in range(500)]
        await recorder.inform_each(((pod, "a node comes") for pod in pods), "Nominated")
        assert len((await api.list(Event)).items) == BURST
        assert clock.now() - began == SECONDS_FOR_AN_EVENT  # all at once: the next plan waits

    try:
        clock.run(story())
    finally:
        clock.close()
