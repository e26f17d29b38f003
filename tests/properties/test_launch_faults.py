"""Whatever fails, and wherever the process dies: nothing is lost, paid twice or over-committed.

A controller launches claims through a provider while calls are throttled, replies get lost, pools
run dry, users delete claims, and the process crashes between any two calls; its successor knows
only what was written down. Once all is quiet every machine has a claim, and each claim a machine.
"""

import asyncio
import os
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import run_in_virtual_time
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    A,
    ProviderScene,
    claim_requirements,
    node_claim,
    reservation_object,
)

from wainwright.aws.api.seam import AwsResponse, Params
from wainwright.aws.instances import BATCH_TAG
from wainwright.aws.provider import AwsCloudProvider
from wainwright.clock import EPOCH, VirtualClock
from wainwright.cloud import LaunchLogEntry
from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.ec2.instance.lifecycle import DelayDistribution, InstanceTimings
from wainwright.emulator.faults import FaultRule, FaultTiming, RateLimit
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import CloudProviderError, InstanceNotFoundError, TemporarilyUnavailableError
from wainwright.model.labels import ON_DEMAND, RESERVED, SPOT
from wainwright.model.node_claim import LaunchRecord
from wainwright.model.requirements import Requirements

SEEDS = 100 if os.environ.get("HYPOTHESIS_PROFILE") == "ci" else 200
TROUBLE = 120.0  # seconds for which calls fail
PLACES = 3  # of the reservation
WANTS = (
    ONLY_RESERVED,
    claim_requirements(capacity=RESERVED, zone=A),
    claim_requirements(capacity=SPOT),
    claim_requirements(capacity=ON_DEMAND),
    Requirements(),
)
FAILING = (
    *["CreateFleet"] * 6,
    "CreateLaunchTemplate",
    "DescribeCapacityReservations",
    "DescribeInstances",
    "DescribeSubnets",
    "TerminateInstances",
)
FAILURES: tuple[dict[str, Any], ...] = (
    {"code": "RequestLimitExceeded", "status": 503},
    {"code": "InternalError", "status": 500},
    {},  # lost before it got there
    *[{"when": FaultTiming.AFTER}] * 3,
)


class CrashPoint:
    """A process that dies at its n-th step towards the outside."""

    def __init__(self, steps: int | None) -> None:
        self._left = steps
        self.dead = asyncio.Event()

    async def step(self) -> None:
        """Never comes back from the last one."""
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                self.dead.set()
        if self.dead.is_set():
            await asyncio.Event().wait()


class FaultTrial:
    """One world with its troubles; everything about it comes from the seed."""

    def __init__(self, clock: VirtualClock, seed: int) -> None:
        self.random = chance = Random(seed)
        self.clock = clock
        self.waves = sorted(
            (
                (EPOCH + chance.uniform(0, TROUBLE / 2), chance.randint(1, 4), chance.choice(WANTS))
                for _ in range(chance.randint(1, 5))
            ),
            key=lambda wave: wave[0],
        )
        settings = _settings(chance, [due for due, _, _ in self.waves])
        self.scene = ProviderScene(
            clock, reservation_object(1, PLACES), settings=settings, seed=seed
        )
        cluster = msgspec.structs.replace(self.scene.setup.cluster, dry_runs=False)
        self.scene.setup = msgspec.structs.replace(self.scene.setup, cluster=cluster)
        self.scene.use(**RESERVATION_SELECTOR, amiSelectorTerms=[{"alias": "bottlerocket@latest"}])
        self.claims = self.scene.store.claims
        self.number = 0
        self.codes: list[str] = []

    def add(self, wanted: Requirements) -> None:
        self.number += 1
        self.scene.store.keep(node_claim(self.number, wanted))

    async def wave(self) -> None:
        """Pods come, and claims for them."""
        due, count, wanted = self.waves[0]
        await self.clock.sleep(max(0.0, due - self.clock.now()))
        del self.waves[0]
        for _ in range(count):
            self.add(wanted)

    def check(self) -> None:
        """At every moment: every machine is the only one of some claim that asked for it."""
        asked: dict[str, list[str]] = {}
        for uid, mark in self.scene.store.recorded:
            asked.setdefault(mark.batch, []).append(uid)
        wanted = [asked.get(each.tags[BATCH_TAG], []) for each in self.scene.running()]
        assert one_each(wanted), "paid twice"

    async def play(self) -> None:
        for _ in range(self.random.randint(0, 3)):
            await self.live(CrashPoint(self.random.randint(1, 80)))
        await self.live(CrashPoint(None))

    async def live(self, fate: CrashPoint) -> None:
        """One life of the process, to its end or to the end of its work."""
        work = asyncio.ensure_future(Process(self, fate).run())
        death = asyncio.ensure_future(fate.dead.wait())
        await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Process:
    """A provider and a controller that uses it; neither survives a crash."""

    def __init__(self, trial: FaultTrial, fate: CrashPoint) -> None:
        self._trial = trial
        self._fate = fate
        self._claims = trial.claims
        self._clock = trial.clock
        self._cloud: AwsCloudProvider = trial.scene.provider(seam=self, launch_log=self)
        self._awake = False

    # What the provider sees of the outside

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        await self._step()
        try:
            answer = await self._trial.scene.emulated.call(service, operation, params)
        finally:
            self._trial.check()
        if operation == "CreateFleet":
            self._trial.codes += [each["ErrorCode"] for each in answer["Errors"]]
        await self._step()
        return answer

    async def _step(self) -> None:
        """To die while the catalogue is fetched would be too easy."""
        if self._awake:
            await self._fate.step()

    async def record(self, claim: str, mark: LaunchRecord) -> None:
        await self._fate.step()
        await self._trial.scene.store.record(claim, mark)
        await self._fate.step()

    async def batch(self, identity: str) -> Sequence[LaunchLogEntry]:
        return await self._trial.scene.store.batch(identity)

    # What a controller does

    async def run(self) -> None:
        await self._cloud.refresh()
        self._awake = True
        found = await self._cloud.recover(list(self._claims.values()))
        for uid, instance in found.found.items():
            await self._written(uid, instance.id)
        loops = [self._collect(), self._regret(), self._launch_all()]
        tasks = [asyncio.ensure_future(each) for each in loops]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        for task in others:
            task.cancel()
        await self._quiet()

    async def _launch_all(self) -> None:
        """Each claim as it comes, all at the same time."""
        launches: dict[str, asyncio.Task[None]] = {}
        while self._trial.waves or not all(each.instance for each in self._claims.values()):
            for uid in sorted(self._claims.keys() - launches.keys()):
                launches[uid] = asyncio.ensure_future(self._launch(uid))
            if self._trial.waves:
                await self._trial.wave()
            else:
                await self._clock.sleep(1.0)
        await asyncio.gather(*launches.values())

    async def _launch(self, uid: str) -> None:
        seen = self._claims[uid]  # and never again: what controllers see lags behind
        while uid in self._claims and not self._claims[uid].instance:
            try:
                instance = await self._cloud.launch(seen)
            except TemporarilyUnavailableError as error:
                await self._clock.sleep(error.after or 5.0)
            except CloudProviderError:
                self._replace(uid)
            else:
                await self._written(uid, instance.id)

    def _replace(self, uid: str) -> None:
        """Not to be had: its pods are planned anew, and do with something else."""
        if self._claims.pop(uid, None) is not None and self._trial.random.random() < 0.5:
            self._trial.add(claim_requirements(capacity=ON_DEMAND))

    async def _written(self, uid: str, instance: str) -> None:
        await self._fate.step()
        self._trial.scene.store.launched(uid, instance)

    async def _regret(self) -> None:
        """Users delete claims whenever they like."""
        while True:
            await self._clock.sleep(self._trial.random.expovariate(1 / 20))
            if self._claims:
                gone = self._claims.pop(self._trial.random.choice(sorted(self._claims)))
                if gone.instance:
                    await self._terminate(gone.instance)

    async def _collect(self) -> None:
        while True:
            await self._clock.sleep(10.0)
            try:
                find_garbage = await self._cloud.find_garbage(list(self._claims.values()))
            except TemporarilyUnavailableError:
                continue
            await asyncio.gather(*(self._terminate(each.id) for each in find_garbage))

    async def _terminate(self, instance: str) -> None:
        while True:
            try:
                return await self._cloud.terminate(instance)
            except InstanceNotFoundError:
                return
            except TemporarilyUnavailableError:
                await self._clock.sleep(5.0)

    async def _quiet(self) -> None:
        await self._clock.sleep(max(0.0, EPOCH + TROUBLE - self._clock.now()))
        for _ in range(2):
            await self._clock.sleep(60.0)
            for each in await self._cloud.find_garbage(list(self._claims.values())):
                await self._terminate(each.id)


def one_each(wanted: Sequence[Sequence[str]]) -> bool:
    """Whether everybody can have something of what they want, and nobody the same."""
    given: dict[str, int] = {}

    def gets(who: int, refused: set[str]) -> bool:
        for each in wanted[who]:
            if each not in refused:
                refused.add(each)
                if each not in given or gets(given[each], refused):
                    given[each] = who
                    return True
        return False

    return all(gets(who, set()) for who in range(len(wanted)))


def _settings(chance: Random, waves: Sequence[float]) -> EmulatorSettings:
    """Troubles, each for a while, and most of them when they hurt."""
    return EmulatorSettings(
        latency=chance.choice([0.0, 0.02, 0.5]),
        faults=tuple(_fault(chance, waves) for _ in range(chance.randint(0, 6))),
        throttling=(RateLimit(operation="CreateFleet", rate=0.5, burst=2),)
        if chance.random() < 0.2
        else (),
        capacity_rules=tuple(
            CapacityRule(instanceType=kind, capacityType=offering_group, free=chance.randint(0, 3))
            for kind in ("m5.*", "c5.*", "m6g.*")
            for offering_group in (ON_DEMAND, SPOT)
            if chance.random() < 0.4
        ),
        timings=InstanceTimings(
            visibility_delay=DelayDistribution(median=chance.choice([0.0, 0.0, 3.0, 20.0]))
        ),
    )


def _fault(chance: Random, waves: Sequence[float]) -> FaultRule:
    start = chance.choice(waves) + chance.uniform(-3.0, 3.0)
    return FaultRule(
        operation=chance.choice(FAILING),
        probability=chance.choice([0.3, 0.7, 1.0, 1.0]),
        start=start,
        end=start + chance.uniform(1, TROUBLE / 3),
        **chance.choice(FAILURES),
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_once_things_are_quiet_every_machine_has_its_claim(seed: int) -> None:
    async def main(clock: VirtualClock) -> FaultTrial:
        trial = FaultTrial(clock, seed)
        await trial.play()
        return trial

    trial = run_in_virtual_time(main)
    owned = [each.instance for each in trial.claims.values()]
    assert len(set(owned)) == len(owned), "one machine for two claims"
    assert {each.id for each in trial.scene.running()} == set(owned)
    assert "ReservationCapacityExceeded" not in trial.codes, "a reservation was over-committed"
