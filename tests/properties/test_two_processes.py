"""Two processes at once, each with a stale copy of the claims: no claim keeps a second instance.

The launch log and the claims are compare-and-set, everything else may go wrong: a process sees the
claims as they were some seconds ago, pauses for minutes between any two steps of a launch, dies,
and its responses get lost. However the steps interleave, an instance beyond the first of a claim is
terminated as soon as it was seen, and in the end each claim has one instance and each instance one
claim.

`TWO_PROCESS_SEEDS=2000` runs that many schedules (`make two-processes`).
"""

import asyncio
import os
from collections import deque
from collections.abc import Mapping, Sequence, Set
from random import Random
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import run_in_virtual_time
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    ProviderScene,
    claim_requirements,
    node_claim,
    reservation_object,
)
from tests.support.launch_trial import CrashPoint, claims_by_batch, has_perfect_matching

from wainwright.aws.api.services import AwsResponse, Params
from wainwright.aws.instances import BATCH_TAG, GARBAGE_MIN_AGE
from wainwright.aws.launch.recovery import VISIBLE_AFTER
from wainwright.clock import EPOCH, VirtualClock
from wainwright.cloud import LaunchLogEntry
from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.ec2.instance.lifecycle import DelayDistribution, InstanceTimings
from wainwright.emulator.faults import FaultRule, FaultTiming
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import CloudProviderError, InstanceNotFoundError, TemporarilyUnavailableError
from wainwright.model.labels import ON_DEMAND, SPOT
from wainwright.model.node_claim import Instance, LaunchRecord, NodeClaim
from wainwright.model.requirements import Requirements

SEEDS = int(os.environ.get("TWO_PROCESS_SEEDS", "60"))
BUSY_SECONDS = 240.0  # for which claims are added and deleted, and processes die
MAX_DOWNTIME = 20.0  # seconds until a process that died is restarted
POLL_SECONDS = 10.0  # between two listings of garbage
MAX_LAG = 8  # seconds by which a process sees claims too late
PAUSES = (*[0.0] * 12, 0.01, 0.5, 3.0, 20.0, VISIBLE_AFTER + 20.0)
SHORT_PAUSES = (*[0.0] * 6, 0.01, 0.1, 0.5)
REQUIREMENTS = (
    claim_requirements(capacity=ON_DEMAND),
    claim_requirements(capacity=ON_DEMAND),
    claim_requirements(capacity=SPOT),
    ONLY_RESERVED,
    Requirements(),
)
LOST_RESPONSES = FaultRule(operation="CreateFleet", when=FaultTiming.AFTER, probability=0.4)
LOST_REQUESTS = FaultRule(operation="CreateFleet", probability=0.2)


class Cluster:
    """The stored claims, the account, and what must hold of both at any time."""

    def __init__(self, clock: VirtualClock, seed: int) -> None:
        self.clock, self.random = clock, Random(seed)
        self.punctual = self.random.random() < 0.5
        """Whether launches take no longer than the margins allow for."""
        self.pauses = SHORT_PAUSES if self.punctual else PAUSES
        delays = [0.0, 0.0, 5.0] if self.punctual else [0.0, 5.0, VISIBLE_AFTER, 2 * VISIBLE_AFTER]
        self.visible_after = self.random.choice(delays)
        self.scene = ProviderScene(
            clock, reservation_object(1, 2), settings=self._settings(), seed=seed
        )
        cluster = msgspec.structs.replace(self.scene.options.cluster, dry_runs=False)
        self.scene.options = msgspec.structs.replace(self.scene.options, cluster=cluster)
        self.scene.use(**RESERVATION_SELECTOR, amiSelectorTerms=[{"alias": "bottlerocket@latest"}])
        self.claims = self.scene.store.claims
        self.number = 0
        self.history: deque[Mapping[str, NodeClaim]] = deque([{}], maxlen=MAX_LAG)
        """The claims as they were in the last seconds."""

    def _settings(self) -> EmulatorSettings:
        random = self.random
        return EmulatorSettings(
            latency=random.choice([0.0, 0.02, 0.5]),
            faults=tuple(each for each in (LOST_RESPONSES, LOST_REQUESTS) if random.random() < 0.5),
            capacity_rules=tuple(
                CapacityRule(
                    instanceType=kind, capacityType=capacity_type, free=random.randint(0, 3)
                )
                for kind in ("m5.*", "c5.*", "m6g.*")
                for capacity_type in (ON_DEMAND, SPOT)
                if random.random() < 0.3
            ),
            timings=InstanceTimings(visibility_delay=DelayDistribution(median=self.visible_after)),
        )

    @property
    def busy(self) -> bool:
        return self.clock.now() < EPOCH + BUSY_SECONDS

    def add(self, requirements: Requirements) -> None:
        self.number += 1
        self.scene.store.add(node_claim(self.number, requirements))

    def store_instance(self, uid: str, instance: Instance) -> bool:
        """Compare-and-set: only while the claim waits for the launch that the instance is of."""
        claim = self.claims.get(uid)
        if claim is None or claim.instance or claim.launch_record is None:
            return False
        if claim.launch_record.batch != instance.batch:
            return False
        self.scene.store.set_instance(uid, instance.id)
        return True

    def delete(self, seen: NodeClaim) -> bool:
        """Compare-and-set, too: nothing is deleted that has changed since it was seen."""
        if self.claims.get(seen.uid) != seen:
            return False
        del self.claims[seen.uid]
        return True

    def check(self) -> None:
        """Where nobody pauses for long and EC2 shows instances in time, there is none too many."""
        if self.punctual:
            candidates = claims_by_batch(self.scene.store.recorded)
            batches = [each.tags[BATCH_TAG] for each in self.scene.running()]
            assert has_perfect_matching([candidates.get(each, []) for each in batches]), (
                "paid twice"
            )

    def unwanted(self, requested: Set[str]) -> list[str]:
        """Ids of instances that no claim has or waits for, except those of these batches."""
        others = [each for each in self.scene.running() if each.tags[BATCH_TAG] not in requested]
        return [each.id for each in others if not self._is_wanted(each)]

    def _is_wanted(self, instance: Any) -> bool:
        """Whether a claim has it, or waits for an instance of its batch."""
        batch = instance.tags[BATCH_TAG]
        waiting = [each.launch_record for each in self.claims.values() if not each.instance]
        return any(record and record.batch == batch for record in waiting) or any(
            each.instance == instance.id for each in self.claims.values()
        )

    async def change_claims(self) -> None:
        """Users add and delete claims."""
        random = self.random
        while self.busy:
            for _ in range(random.randint(0, 3)):
                self.add(random.choice(REQUIREMENTS))
            await self.clock.sleep(random.uniform(1, 60))
            if self.claims and random.random() < 0.3:
                del self.claims[random.choice(sorted(self.claims))]

    async def _keep_history(self) -> None:
        while True:
            self.history.append(dict(self.claims))
            await self.clock.sleep(1.0)

    async def run(self) -> None:
        """Two processes, each restarted whenever it dies, until nothing changes any more."""
        changes = asyncio.ensure_future(self.change_claims())
        history = asyncio.ensure_future(self._keep_history())
        try:
            await asyncio.gather(changes, *(self._run_replica(number) for number in range(2)))
        finally:
            history.cancel()
            await self._end_tasks()

    async def _end_tasks(self) -> None:
        """What dead processes were waiting for."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _run_replica(self, number: int) -> None:
        await self.clock.sleep(self.random.uniform(0, 30) * number)
        while self.busy:
            steps = self.random.choice([None, self.random.randint(1, 60)])
            await self._run_process(CrashPoint(steps))
            await self.clock.sleep(self.random.uniform(0, MAX_DOWNTIME))

    async def _run_process(self, crash_point: CrashPoint) -> None:
        work = asyncio.ensure_future(Process(self, crash_point).run())
        crash = asyncio.ensure_future(crash_point.dead.wait())
        try:
            await asyncio.wait([work, crash], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for task in (work, crash):
                task.cancel()
            await asyncio.gather(work, crash, return_exceptions=True)


class Process:
    """A provider and a controller with its own copy of the claims; neither survives a crash."""

    def __init__(self, cluster: Cluster, crash_point: CrashPoint) -> None:
        self._cluster, self._crash_point = cluster, crash_point
        self._random = Random(cluster.random.random())
        self._clock = cluster.clock
        self._seen = self._random.choice(cluster.history)
        self._cloud = cluster.scene.provider(seam=self, launch_log=self)
        self._started = False
        self._unwanted_since: dict[str, float] = {}
        self._requested: set[str] = set()
        """Batches of requests whose response is still to come."""

    # The external interfaces of the provider

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        batch = params.get("ClientToken", "")
        self._requested.add(batch)
        try:
            return await self._call(service, operation, params)
        finally:
            self._requested.discard(batch)

    async def _call(self, service: str, operation: str, params: Params) -> AwsResponse:
        await self._step(operation)
        try:
            answer = await self._cluster.scene.emulated.call(service, operation, params)
        finally:
            self._cluster.check()
            self._check_unwanted()
        await self._step(operation)
        return answer

    def _check_unwanted(self) -> None:
        """Instances that nobody wants are there no longer than it takes to see and terminate them.

        Counted anew by each process: one that dies soon does not see them for long enough. Those of
        a request whose response is still to come are left to that.
        """
        now, unwanted = self._clock.now(), self._cluster.unwanted(self._requested)
        self._unwanted_since = {each: self._unwanted_since.get(each, now) for each in unwanted}
        allowed = self._cluster.visible_after + MAX_LAG + GARBAGE_MIN_AGE + 3 * POLL_SECONDS
        assert all(now - since <= allowed for since in self._unwanted_since.values()), "not seen"

    async def record(
        self, claim: str, launch_record: LaunchRecord, *, replaces: LaunchRecord | None
    ) -> None:
        await self._step("CreateFleet")
        await self._cluster.scene.store.record(claim, launch_record, replaces=replaces)
        await self._step("CreateFleet")
        if self._cluster.busy and self._random.random() < 0.1:
            raise TemporarilyUnavailableError("no answer to the write", reason="Timeout")

    async def batch_entries(self, batch: str) -> Sequence[LaunchLogEntry]:
        return [
            LaunchLogEntry(claim=each.uid, launch_record=each.launch_record, instance=each.instance)
            for each in self._seen.values()
            if each.launch_record is not None and each.launch_record.batch == batch
        ]

    async def _step(self, operation: str) -> None:
        """Steps of a launch may take long; whatever finds and terminates surplus is punctual."""
        if self._started:
            await self._crash_point.step()
            if operation == "CreateFleet" and self._cluster.busy:
                await self._clock.sleep(self._random.choice(self._cluster.pauses))

    # The controller

    async def run(self) -> None:
        tasks = [asyncio.ensure_future(self._watch_claims())]
        try:
            await self._cloud.refresh()
            self._started = True
            recovered = await self._cloud.recover(list(self._seen.values()))
            for uid, instance in recovered.instances.items():
                await self._store(uid, instance)
            tasks += map(asyncio.ensure_future, (self._collect_garbage(), self._launch_all()))
            await self._wait_until_quiet(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch_claims(self) -> None:
        while True:
            current = dict(self._cluster.claims)
            await self._clock.sleep(self._random.uniform(0, MAX_LAG))
            self._seen = current

    async def _wait_until_quiet(self, tasks: Sequence["asyncio.Task[None]"]) -> None:
        """Until every claim has its instance, and for as long as it takes to find garbage then."""
        quiet = 0.0
        while quiet < 3 * (VISIBLE_AFTER + GARBAGE_MIN_AGE):
            await self._clock.sleep(POLL_SECONDS)
            for task in tasks:
                if task.done():
                    task.result()
            complete = all(each.instance for each in self._cluster.claims.values())
            quiet = quiet + POLL_SECONDS if complete and not self._cluster.busy else 0.0

    async def _launch_all(self) -> None:
        launches: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                for uid in sorted(self._seen.keys() - launches.keys()):
                    launches[uid] = asyncio.ensure_future(self._launch(uid))
                await self._clock.sleep(1.0)
                for task in launches.values():
                    if task.done():
                        task.result()
        finally:
            for task in launches.values():
                task.cancel()
            await asyncio.gather(*launches.values(), return_exceptions=True)

    async def _launch(self, uid: str) -> None:
        while (seen := self._seen.get(uid)) is not None:
            try:
                if seen.instance:
                    await self._cloud.instance(seen.instance)
                    await self._clock.sleep(30.0)
                else:
                    await self._store(uid, await self._cloud.launch(seen))
                    await self._clock.sleep(MAX_LAG)
            except TemporarilyUnavailableError as error:
                await self._clock.sleep(error.retry_after or 5.0)
            except CloudProviderError:
                await self._replace(seen)

    async def _replace(self, seen: NodeClaim) -> None:
        """No capacity, or the instance is gone: the claim goes, perhaps for an on-demand one."""
        if self._cluster.delete(seen) and self._random.random() < 0.5:
            self._cluster.add(claim_requirements(capacity=ON_DEMAND))
        await self._clock.sleep(MAX_LAG)

    async def _store(self, uid: str, instance: Instance) -> None:
        await self._step("CreateFleet")
        self._cluster.store_instance(uid, instance)

    async def _collect_garbage(self) -> None:
        while True:
            await self._clock.sleep(POLL_SECONDS)
            garbage = (await self._cloud.find_garbage(list(self._seen.values()))).instances
            await asyncio.gather(*(self._terminate(each.id) for each in garbage))

    async def _terminate(self, instance: str) -> None:
        try:
            await self._cloud.terminate(instance)
        except InstanceNotFoundError:
            return


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_claim_keeps_a_second_instance(seed: int) -> None:
    async def main(clock: VirtualClock) -> Cluster:
        cluster = Cluster(clock, seed)
        await cluster.run()
        return cluster

    cluster = run_in_virtual_time(main)
    owned: list[Any] = [each.instance for each in cluster.claims.values()]
    assert len(set(owned)) == len(owned), "one instance for two claims"
    assert {each.id for each in cluster.scene.running()} == set(owned)
