"""Leader election in virtual time: at no moment two leaders, and soon one again."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.scripted_api import pod, serve

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import Lease
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import VirtualClock
from wainwright.cluster import Cluster
from wainwright.errors import NotLeaderError, ServerUnavailableError
from wainwright.kube.api_server_access import ApiServerAddress
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import RequestLimit
from wainwright.kube.leader_election import LeaderCluster, LeaderElection, LeaseSettings
from wainwright.sim.api_server import InMemoryApiServer

SETTINGS = LeaseSettings()
DELAYS = {"fast": 0.0, "slow": 3.0, "very slow": 6.0}


class Network:
    """The way of one process to the API server: it can be cut, and slow."""

    def __init__(self, cluster: InMemoryApiServer) -> None:
        self._cluster = cluster
        self.is_cut = False
        self.delay = 0.0
        self.unanswered = 0
        """How many of the next calls are sent and never answered."""
        self.lost_answers = 0
        """How many of the next calls are carried out and never answered."""
        self.calls: list[str] = []

    def suffer(self, fault: str, calls: int) -> None:
        if fault in ("cut", "join"):
            self.is_cut = fault == "cut"
        elif fault == "hang":
            self.unanswered = calls
        elif fault == "lose":
            self.lost_answers = calls
        else:
            self.delay = DELAYS[fault]

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._cluster, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append(name)
            await asyncio.sleep(self.delay / 2)
            if self.is_cut:
                await asyncio.sleep(30)
                raise ServerUnavailableError("no route")
            if self.unanswered:
                self.unanswered -= 1
                await asyncio.sleep(10**6)
            result = await verb(*arguments, **options)
            if self.lost_answers:
                self.lost_answers -= 1
                await asyncio.sleep(10**6)
            await asyncio.sleep(self.delay / 2)
            return result

        return call


class Candidate:
    """A process that wants to lead, and the times at which it did."""

    def __init__(self, name: str, api: InMemoryApiServer, clock: VirtualClock) -> None:
        self.name, self._clock = name, clock
        self.network = Network(api)
        cluster: Cluster = self.network
        self.election = LeaderElection(cluster, clock, SETTINGS, name)
        self.cluster = LeaderCluster(cluster, self.election)
        self.spans: list[list[float]] = []
        self.task = asyncio.create_task(self.election.run(self._lead))

    async def _lead(self) -> None:
        self.spans.append([self._clock.now(), float("inf")])
        try:
            await asyncio.sleep(float(10**9))
        finally:
            self.spans[-1][1] = self._clock.now()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def kill(self) -> None:
        """As SIGKILL: nothing is released."""
        self.network.is_cut = True
        self.task.cancel()


Story = Callable[[InMemoryApiServer, VirtualClock], Coroutine[Any, Any, None]]


def run(story: Story) -> None:
    clock = VirtualClock()

    async def main() -> None:
        api = InMemoryApiServer(clock)
        await story(api, clock)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(40)

    try:
        clock.run(main())
    finally:
        clock.close()


def leaders(*candidates: Candidate) -> list[str]:
    return [each.name for each in candidates if each.election.is_leader]


def test_one_of_many_leads_and_renews() -> None:
    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        all_of_them = [Candidate(f"c{number}", api, clock) for number in range(6)]
        await clock.sleep(100)
        assert len(leaders(*all_of_them)) == 1
        lease = await api.get(Lease, SETTINGS.name, SETTINGS.namespace)
        assert lease.spec.leaseTransitions == 0
        assert lease.spec.leaseDurationSeconds == 15
        assert lease.spec.renewTime is not None
        assert len(lease.spec.renewTime) == len("2026-01-01T00:00:00.000000Z")

    run(story)


def test_who_leads_renews_without_reading_the_lease_each_time() -> None:
    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        candidate = Candidate("c", api, clock)
        calls = candidate.network.calls
        await clock.sleep(100)
        assert calls.count("get") == 1
        assert calls.count("patch") == 49
        theirs = {"metadata": {"labels": {"team": "web"}}}
        await api.patch(Lease, SETTINGS.name, theirs, SETTINGS.namespace)
        await clock.sleep(4)
        assert calls.count("get") == 2, "once more where others have written it"
        assert leaders(candidate) == ["c"]

    run(story)


def test_a_lease_that_is_released_is_taken_at_once() -> None:
    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        first = Candidate("first", api, clock)
        await clock.sleep(1)
        second = Candidate("second", api, clock)
        await clock.sleep(10)
        stopped = clock.now()
        await first.stop()
        await clock.sleep(5)
        assert leaders(first, second) == ["second"]
        assert second.spans[0][0] - stopped <= 2.5

    run(story)


def test_after_a_crash_the_lease_runs_out_first() -> None:
    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        first = Candidate("first", api, clock)
        await clock.sleep(1)
        second = Candidate("second", api, clock)
        await clock.sleep(10)
        killed = clock.now()
        first.kill()
        await clock.sleep(30)
        assert second.election.is_leader
        assert 13 <= second.spans[0][0] - killed <= 18

    run(story)


def test_who_cannot_renew_stands_by_before_another_leads() -> None:
    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        first = Candidate("first", api, clock)
        await clock.sleep(1)
        second = Candidate("second", api, clock)
        await clock.sleep(20)
        cut = clock.now()
        first.network.is_cut = True
        await clock.sleep(60)
        assert first.spans[0][1] - cut <= 10
        assert second.spans[0][0] > first.spans[0][1]
        assert second.spans[0][0] - cut <= 18
        first.network.is_cut = False
        await second.stop()
        await clock.sleep(40)
        assert leaders(first, second) == ["first"], "it stood by, and leads again"

    run(story)


@pytest.mark.parametrize("unanswered", [1, 2])
def test_a_renewal_that_is_never_answered_is_asked_for_again_in_time(unanswered: int) -> None:
    """One connection that is gone without a word, among many that answer."""

    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        first = Candidate("first", api, clock)
        await clock.sleep(1)
        second = Candidate("second", api, clock)
        await clock.sleep(10)
        for _ in range(3):
            first.network.unanswered = unanswered
            await clock.sleep(20)
            assert first.network.unanswered == 0
        assert (len(first.spans), second.spans) == (1, [])
        assert leaders(first, second) == ["first"]

    run(story)


def test_a_renewal_that_was_carried_out_and_not_answered_costs_nothing() -> None:
    """The version that the leader knows is then not that of the lease."""

    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        first = Candidate("first", api, clock)
        await clock.sleep(5)
        first.network.lost_answers = 1
        await clock.sleep(60)
        assert first.network.lost_answers == 0
        assert (len(first.spans), leaders(first)) == (1, ["first"])

    run(story)


@pytest.mark.parametrize(("delay", "leading"), [(3.0, ["first"]), (4.0, [])])
def test_a_server_may_take_three_seconds_for_each_request(delay: float, leading: list[str]) -> None:
    """Also where an attempt takes several requests: each has its own time."""

    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        first = Candidate("first", api, clock)
        first.network.delay = delay
        await clock.sleep(60)
        assert leaders(first) == leading
        assert len(first.spans) == len(leading)

    run(story)


def test_an_outage_of_the_api_server_is_survived() -> None:
    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        both = [Candidate("first", api, clock), Candidate("second", api, clock)]
        await clock.sleep(5)
        api.stop()
        await clock.sleep(60)
        assert leaders(*both) == []
        api.start()
        await clock.sleep(20)
        assert len(leaders(*both)) == 1

    run(story)


def test_a_short_outage_changes_nothing() -> None:
    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        first = Candidate("first", api, clock)
        await clock.sleep(5)
        api.stop()
        await clock.sleep(6)
        api.start()
        await clock.sleep(20)
        assert len(first.spans) == 1
        assert first.election.is_leader

    run(story)


def test_who_does_not_lead_may_read() -> None:
    """A list of the pods of a node too, without which no drain ends."""

    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        first = Candidate("first", api, clock)
        await clock.sleep(5)
        second = Candidate("second", api, clock)
        await first.cluster.create(Node(metadata=ObjectMeta(name="a")))
        assert not second.election.is_leader
        assert (await second.cluster.get(Node, "a")).metadata.name == "a"
        assert len((await second.cluster.list(Node)).items) == 1
        assert (await second.cluster.list_pods_on_node("a")).items == []

    run(story)


def test_the_port_of_a_leader_has_every_verb() -> None:
    verbs = {name for name in vars(Cluster) if not name.startswith("_")}

    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        port = Candidate("first", api, clock).cluster
        assert {name for name in verbs if not hasattr(port, name)} == set()

    run(story)


def test_who_was_stopped_in_the_middle_cannot_write_afterwards() -> None:
    """SIGSTOP for a minute: time has passed, and no task of the process has run."""

    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        first = Candidate("first", api, clock)
        await clock.sleep(5)
        await first.cluster.create(Node(metadata=ObjectMeta(name="a")))
        clock.advance(60)
        with pytest.raises(NotLeaderError):
            await first.cluster.create(Node(metadata=ObjectMeta(name="b")))
        with pytest.raises(NotLeaderError):
            await first.cluster.delete(Node, "a")
        assert [each.metadata.name for each in (await first.cluster.list(Node)).items] == ["a"]

    run(story)


class PacedWriter:
    """A process whose writes wait for the limit of its client."""

    def __init__(self, election: LeaderElection) -> None:
        self.election = election
        self.led: list[bool] = []
        """Whether it led, at each request."""

    async def answer(self, _: web.BaseRequest) -> web.StreamResponse:
        self.led.append(self.election.is_leader)
        return web.json_response(pod("a", 1))

    async def write(self, url: str) -> None:
        address, limit = ApiServerAddress(url=url), RequestLimit(qps=1, burst=5)
        async with KubeClient.connect(address, limit=limit) as client:
            leader = client.for_leader(lambda: self.election.is_leader)
            cluster = LeaderCluster(leader, self.election)
            await self.election.run(lambda: self._write_much(cluster))

    async def _write_much(self, cluster: Cluster) -> None:
        patch = {"metadata": {"labels": {"a": "b"}}}
        writes = (cluster.patch(Pod, "a", patch, "default") for _ in range(100))
        await asyncio.gather(*writes, return_exceptions=True)


def test_a_write_that_waits_for_the_limit_while_the_lease_runs_out_is_not_sent() -> None:
    """SIGSTOP for 30 s while many wait: some are due before anybody sees that the lease is lost."""

    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        writer = PacedWriter(LeaderElection(api, clock, SETTINGS, "first"))
        async with serve(writer.answer) as url:
            task = asyncio.create_task(writer.write(url))
            await clock.sleep(4.5)
            assert len(writer.led) == 9, "five at once, and one a second"
            api.stop()
            clock.advance(30)
            await clock.sleep(5)
            assert len(writer.led) == 9, "nothing that was due meanwhile has been sent"
            api.start()
            await clock.sleep(20)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert len(writer.led) > 20, "it leads again, and writes"
        assert all(writer.led)

    run(story)


def test_what_the_leader_raises_ends_the_process() -> None:
    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        async def fail() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await LeaderElection(api, clock, SETTINGS, "a").run(fail)
        lease = await api.get(Lease, SETTINGS.name, SETTINGS.namespace)
        assert not lease.spec.holderIdentity, "and the lease is released"

    run(story)


def test_settings_that_allow_two_leaders_are_refused() -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match="have to grow"):
        LeaderElection(InMemoryApiServer(clock), clock, LeaseSettings(duration=10), "a")
    clock.close()


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["cut", "join", "slow", "very slow", "fast", "hang", "lose", "stop", "kill", "new"]
        ),
        st.integers(0, 3),
        st.floats(0.1, 25),
    ),
    max_size=15,
)


@settings(max_examples=40, deadline=None)
@given(FAULTS)
def test_never_two_lead_and_in_the_end_one_does(faults: list[tuple[str, int, float]]) -> None:
    async def story(api: InMemoryApiServer, clock: VirtualClock) -> None:
        made = [Candidate(f"c{number}", api, clock) for number in range(3)]
        alive = list(made)
        for fault, number, seconds in faults:
            await clock.sleep(seconds)
            if fault == "new" or not alive:
                made.append(Candidate(f"c{len(made)}", api, clock))
                alive.append(made[-1])
                continue
            one = alive[number % len(alive)]
            if fault in ("stop", "kill"):
                alive.remove(one)
                await one.stop() if fault == "stop" else one.kill()
            else:
                one.network.suffer(fault, number)
            assert len(leaders(*made)) <= 1
        for one in alive:
            for recovery in ("join", "fast", "hang", "lose"):
                one.network.suffer(recovery, 0)
        await clock.sleep(60)
        assert len(leaders(*made)) == (1 if alive else 0)
        spans = sorted(span for each in made for span in each.spans)
        ends = [earlier[1] <= later[0] for earlier, later in pairwise(spans)]
        assert all(ends), spans

    run(story)
