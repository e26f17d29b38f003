"""Whatever fails, and wherever the process dies: no instance is lost, duplicated or over-committed.

A controller launches claims through a provider while calls are throttled, responses get lost,
offerings run out of capacity, users delete claims, and the process crashes between any two calls;
its successor has only the recorded state. After the faults end every instance has a claim, and each
claim an instance.
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
from tests.support.launch_trial import CrashPoint, claims_by_batch, has_perfect_matching

from wainwright.aws.api.services import AwsResponse, Params
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
FAULT_SECONDS = 120.0  # seconds for which calls fail
RESERVED_INSTANCES = 3  # of the reservation
REQUIREMENTS = (
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


class FaultTrial:
    """An account with faults; everything in it is derived from the seed."""

    def __init__(self, clock: VirtualClock, seed: int) -> None:
        self.random = random = Random(seed)
        self.clock = clock
        self.waves = sorted(
            (
                (
                    EPOCH + random.uniform(0, FAULT_SECONDS / 2),
                    random.randint(1, 4),
                    random.choice(REQUIREMENTS),
                )
                for _ in range(random.randint(1, 5))
            ),
            key=lambda wave: wave[0],
        )
        settings = _settings(random, [due for due, _, _ in self.waves])
        self.scene = ProviderScene(
            clock, reservation_object(1, RESERVED_INSTANCES), settings=settings, seed=seed
        )
        cluster = msgspec.structs.replace(self.scene.options.cluster, dry_runs=False)
        self.scene.options = msgspec.structs.replace(self.scene.options, cluster=cluster)
        self.scene.use(**RESERVATION_SELECTOR, amiSelectorTerms=[{"alias": "bottlerocket@latest"}])
        self.claims = self.scene.store.claims
        self.number = 0
        self.codes: list[str] = []

    def add(self, requirements: Requirements) -> None:
        self.number += 1
        self.scene.store.add(node_claim(self.number, requirements))

    async def wave(self) -> None:
        """Adds the claims of the next wave when it is due."""
        due, count, requirements = self.waves[0]
        await self.clock.sleep(max(0.0, due - self.clock.now()))
        del self.waves[0]
        for _ in range(count):
            self.add(requirements)

    def check(self) -> None:
        """Invariant: every running instance can be matched to a claim of its own."""
        candidates = claims_by_batch(self.scene.store.recorded)
        running = [each.tags[BATCH_TAG] for each in self.scene.running()]
        requirements = [candidates.get(batch, []) for batch in running]
        assert has_perfect_matching(requirements), "paid twice"

    async def run(self) -> None:
        for _ in range(self.random.randint(0, 3)):
            await self.run_process(CrashPoint(self.random.randint(1, 80)))
        await self.run_process(CrashPoint(None))

    async def run_process(self, crash_point: CrashPoint) -> None:
        """Runs one process until it crashes or has finished."""
        work = asyncio.ensure_future(Process(self, crash_point).run())
        crash = asyncio.ensure_future(crash_point.dead.wait())
        await asyncio.wait([work, crash], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Process:
    """A provider and a controller that uses it; neither survives a crash."""

    def __init__(self, trial: FaultTrial, crash_point: CrashPoint) -> None:
        self._trial = trial
        self._crash_point = crash_point
        self._claims = trial.claims
        self._clock = trial.clock
        self._cloud: AwsCloudProvider = trial.scene.provider(seam=self, launch_log=self)
        self._refreshed = False

    # The external interfaces of the provider

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
        """Crashes while the catalog is fetched are not interesting."""
        if self._refreshed:
            await self._crash_point.step()

    async def record(
        self, claim: str, launch_record: LaunchRecord, *, replaces: LaunchRecord | None
    ) -> None:
        await self._crash_point.step()
        await self._trial.scene.store.record(claim, launch_record, replaces=replaces)
        await self._crash_point.step()

    async def batch_entries(self, batch: str) -> Sequence[LaunchLogEntry]:
        return await self._trial.scene.store.batch_entries(batch)

    # The controller

    async def run(self) -> None:
        await self._cloud.refresh()
        self._refreshed = True
        recovered = await self._cloud.recover(list(self._claims.values()))
        for uid, instance in recovered.instances.items():
            await self._store_instance(uid, instance.id)
        loops = [self._collect_garbage(), self._delete_claims(), self._launch_all()]
        tasks = [asyncio.ensure_future(each) for each in loops]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        for task in others:
            task.cancel()
        await self._wait_until_quiet()

    async def _launch_all(self) -> None:
        """Launches each claim when it is added, all concurrently."""
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
        seen = self._claims[uid]  # read once: the controller's cache lags behind
        while uid in self._claims and not self._claims[uid].instance:
            try:
                instance = await self._cloud.launch(seen)
            except TemporarilyUnavailableError as error:
                await self._clock.sleep(error.retry_after or 5.0)
            except CloudProviderError:
                self._replace(uid)
            else:
                await self._store_instance(uid, instance.id)

    def _replace(self, uid: str) -> None:
        """No capacity: the claim is deleted, and its pods may get an on-demand claim instead."""
        if self._claims.pop(uid, None) is not None and self._trial.random.random() < 0.5:
            self._trial.add(claim_requirements(capacity=ON_DEMAND))

    async def _store_instance(self, uid: str, instance: str) -> None:
        await self._crash_point.step()
        self._trial.scene.store.set_instance(uid, instance)

    async def _delete_claims(self) -> None:
        """Users delete claims at random times."""
        while True:
            await self._clock.sleep(self._trial.random.expovariate(1 / 20))
            if self._claims:
                gone = self._claims.pop(self._trial.random.choice(sorted(self._claims)))
                if gone.instance:
                    await self._terminate(gone.instance)

    async def _collect_garbage(self) -> None:
        while True:
            await self._clock.sleep(10.0)
            try:
                garbage = (await self._cloud.find_garbage(list(self._claims.values()))).instances
            except TemporarilyUnavailableError:
                continue
            await asyncio.gather(*(self._terminate(each.id) for each in garbage))

    async def _terminate(self, instance: str) -> None:
        while True:
            try:
                return await self._cloud.terminate(instance)
            except InstanceNotFoundError:
                return
            except TemporarilyUnavailableError:
                await self._clock.sleep(5.0)

    async def _wait_until_quiet(self) -> None:
        await self._clock.sleep(max(0.0, EPOCH + FAULT_SECONDS - self._clock.now()))
        for _ in range(2):
            await self._clock.sleep(60.0)
            for each in (await self._cloud.find_garbage(list(self._claims.values()))).instances:
                await self._terminate(each.id)


def _settings(random: Random, waves: Sequence[float]) -> EmulatorSettings:
    """Faults, each for a while, mostly around the waves of claims."""
    return EmulatorSettings(
        latency=random.choice([0.0, 0.02, 0.5]),
        faults=tuple(_fault(random, waves) for _ in range(random.randint(0, 6))),
        throttling=(RateLimit(operation="CreateFleet", rate=0.5, burst=2),)
        if random.random() < 0.2
        else (),
        capacity_rules=tuple(
            CapacityRule(instanceType=kind, capacityType=offering_group, free=random.randint(0, 3))
            for kind in ("m5.*", "c5.*", "m6g.*")
            for offering_group in (ON_DEMAND, SPOT)
            if random.random() < 0.4
        ),
        timings=InstanceTimings(
            visibility_delay=DelayDistribution(median=random.choice([0.0, 0.0, 3.0, 20.0]))
        ),
    )


def _fault(random: Random, waves: Sequence[float]) -> FaultRule:
    start = random.choice(waves) + random.uniform(-3.0, 3.0)
    return FaultRule(
        operation=random.choice(FAILING),
        probability=random.choice([0.3, 0.7, 1.0, 1.0]),
        start=start,
        end=start + random.uniform(1, FAULT_SECONDS / 3),
        **random.choice(FAILURES),
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_faults_end_every_instance_has_its_claim(seed: int) -> None:
    async def main(clock: VirtualClock) -> FaultTrial:
        trial = FaultTrial(clock, seed)
        await trial.run()
        return trial

    trial = run_in_virtual_time(main)
    owned = [each.instance for each in trial.claims.values()]
    assert len(set(owned)) == len(owned), "one machine for two claims"
    assert {each.id for each in trial.scene.running()} == set(owned)
    assert "ReservationCapacityExceeded" not in trial.codes, "a reservation was over-committed"
