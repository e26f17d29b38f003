"""Launch tokens, and recovery: the outcome of a launch whose response was never received.

A claim's token follows from its uid and the number of the attempt; a batch id from the tokens in
it. Nothing is random: repeating the same launch, also in another process, gives the same ids, and
another attempt gives other ids. EC2 gets the batch id as client token, and every instance gets it
as a tag.

The instances of a launch carry its batch id as a tag, and the claims have it in their launch
record. So whatever was lost, the instances are assigned to the claims of the batch that still have
none, in the order in which they were requested, and surplus instances are terminated. As EC2 is
eventually consistent, a launch counts as failed only when no instance has become visible for a
while; until then its outcome is unclear, and the claim must not be launched again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from wainwright.aws.api.seam import filter_equals
from wainwright.aws.api.services import Ec2
from wainwright.aws.instances import BATCH_TAG, Ec2Instance, InstanceBatcher, parse_instance
from wainwright.clock import Clock
from wainwright.cloud import LaunchLog, LaunchLogEntry
from wainwright.errors import TemporarilyUnavailableError
from wainwright.model.node_claim import LaunchRecord, NodeClaim

TOKEN_LENGTH: Final = 32  # EC2 accepts 64 characters; 128 bits are unique enough


def launch_token(uid: str, attempt: int) -> str:
    return _hash_token(f"{uid}/{attempt}")


def launch_records(claims: Sequence[NodeClaim], now: float) -> list[LaunchRecord]:
    """One record per claim, in their order, for a launch of all of them in one batch."""
    attempts = [
        1 if claim.launch_record is None else claim.launch_record.attempt + 1 for claim in claims
    ]
    tokens = [
        launch_token(claim.uid, attempt) for claim, attempt in zip(claims, attempts, strict=True)
    ]
    batch = _hash_token("/".join(tokens))
    return [
        LaunchRecord(token=each, batch=batch, index=index, attempt=attempt, at=now)
        for index, (each, attempt) in enumerate(zip(tokens, attempts, strict=True))
    ]


def _hash_token(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:TOKEN_LENGTH]


VISIBLE_AFTER: Final = 30.0
"""Seconds after which a launched instance is visible in DescribeInstances."""
LAUNCH_RETENTION: Final = 600.0
"""Seconds after which the launch of a claim that no longer exists is forgotten."""
ASSIGNABLE_STATES: Final = ("pending", "running", "stopping", "stopped")
"""States of instances that can still be assigned to a claim."""


class LaunchRecovery:
    def __init__(
        self, ec2: Ec2, instance_batcher: InstanceBatcher, launch_log: LaunchLog, clock: Clock
    ) -> None:
        self._ec2 = ec2
        self._instance_batcher = instance_batcher
        self._launch_log = launch_log
        self._clock = clock
        self._records: dict[str, LaunchRecord] = {}
        """By claim, the last record that this process has stored."""
        self._assigned: dict[str, str] = {}
        """Instances by claim; the caller may not have stored them on the claim yet."""
        self._in_flight: set[str] = set()
        """Batches whose response is still to come."""
        self._answered: set[str] = set()
        """Batches whose response was received."""
        self._last_activity: dict[str, float] = {}
        """When this process first saw a batch, or when its request ended."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    # Reported by launches

    def begin(self, records: Mapping[str, LaunchRecord]) -> None:
        """These claims, by uid, are about to be launched."""
        for uid, record in records.items():
            self._records[uid] = record
            self._assigned.pop(uid, None)
            self._in_flight.add(record.batch)

    def finish(self, batch: str, assigned: Mapping[str, str] | None) -> None:
        """Instances by claim, from the response; None if no response was received."""
        self._in_flight.discard(batch)
        self._last_activity[batch] = self._clock.now()
        if assigned is not None:
            self._answered.add(batch)
            self._assigned.update(assigned)

    def in_flight_batches(self) -> frozenset[str]:
        return frozenset(self._in_flight)

    def with_latest_record(self, claim: NodeClaim) -> NodeClaim:
        """The claim with its latest launch record, which the caller's copy may not have yet."""
        latest = self._records.get(claim.uid)
        if latest is None or (
            claim.launch_record is not None and claim.launch_record.attempt >= latest.attempt
        ):
            return claim
        return msgspec.structs.replace(claim, launch_record=latest)

    def prune(self, claims: Iterable[str]) -> None:
        """Forgets the launches of all claims but these, by uid, except recent launches.

        Without it, the state of this process would grow with every launch.
        """
        existing, oldest = set(claims), self._clock.now() - LAUNCH_RETENTION
        for uid in [uid for uid in self._records if uid not in existing]:
            if self._records[uid].at < oldest:
                del self._records[uid]
                self._assigned.pop(uid, None)
        batches = {record.batch for record in self._records.values()}
        for batch in [each for each, at in self._last_activity.items() if at < oldest]:
            if batch not in batches:
                del self._last_activity[batch]
                self._answered.discard(batch)
                self._locks.pop(batch, None)

    # Used by callers

    async def find(self, claim: NodeClaim) -> Ec2Instance | None:
        """The instance of a claim that was launched before; None if there certainly is none.

        TemporarilyUnavailableError as long as that is unclear.
        """
        record = claim.launch_record
        if record is None:
            return None
        self._last_activity.setdefault(record.batch, self._clock.now())
        # One search per batch at a time: two would assign the same instance to two claims.
        async with self._locks[record.batch]:
            if claim.uid not in self._assigned and self._needs_search(record.batch):
                await self._assign(claim, record)
        assigned = self._assigned.get(claim.uid)
        instance = None if assigned is None else await self._instance_batcher.describe(assigned)
        if instance is not None and instance.state in ASSIGNABLE_STATES:
            return instance
        if not self._is_settled(claim, record.batch):
            raise self._unclear_error(claim, record.batch)
        return None

    async def _assign(self, claim: NodeClaim, record: LaunchRecord) -> None:
        instances = await self._instances(record.batch)
        entries = await self._entries(claim, record)
        owned = {entry.instance for entry in entries} | set(self._assigned.values())
        unassigned = [each for each in instances if each.id not in owned]
        waiting = [entry for entry in entries if not self._has_instance(entry)]
        for entry, instance in zip(waiting, unassigned, strict=False):
            self._assigned[entry.claim] = instance.id
        await self._terminate(unassigned[len(waiting) :])

    async def _instances(self, batch: str) -> list[Ec2Instance]:
        """In the order of their launch."""
        filters = [filter_equals(f"tag:{BATCH_TAG}", batch)]
        rows = await self._ec2.describe_instances(filters=filters, states=ASSIGNABLE_STATES)
        return sorted(map(parse_instance, rows), key=lambda each: (each.launched_at, each.id))

    async def _entries(self, claim: NodeClaim, record: LaunchRecord) -> list[LaunchLogEntry]:
        """All claims of the batch, in its order; this claim even if the log lags behind."""
        entries = {
            entry.claim: entry for entry in await self._launch_log.batch_entries(record.batch)
        }
        entries.setdefault(
            claim.uid,
            LaunchLogEntry(claim=claim.uid, launch_record=record, instance=claim.instance),
        )
        return sorted(entries.values(), key=lambda entry: (entry.launch_record.index, entry.claim))

    def _has_instance(self, entry: LaunchLogEntry) -> bool:
        return bool(entry.instance) or entry.claim in self._assigned

    async def _terminate(self, surplus: Sequence[Ec2Instance]) -> None:
        """No claim waits for these; those that cannot be terminated now are garbage later."""
        terminations = (self._instance_batcher.terminate(each.id) for each in surplus)
        await asyncio.gather(*terminations, return_exceptions=True)

    def _needs_search(self, batch: str) -> bool:
        return batch not in self._in_flight and batch not in self._answered

    def _is_settled(self, claim: NodeClaim, batch: str) -> bool:
        """Whether an instance that is not visible certainly does not exist."""
        if batch in self._in_flight:
            return False
        if batch in self._answered and claim.uid not in self._assigned:
            return True
        return self._settled_at(batch) <= self._clock.now()

    def _settled_at(self, batch: str) -> float:
        return self._last_activity[batch] + VISIBLE_AFTER

    def _unclear_error(self, claim: NodeClaim, batch: str) -> TemporarilyUnavailableError:
        message = f"{claim.name} was launched before, and it is not clear yet what came of it"
        retry_after = max(1.0, self._settled_at(batch) - self._clock.now())
        return TemporarilyUnavailableError(message, reason="LaunchUnclear", retry_after=retry_after)
