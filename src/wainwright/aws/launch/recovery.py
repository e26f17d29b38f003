"""Launch records, and recovery: the outcome of a launch whose response was never received.

EC2 gets the batch id of a launch as client token, its instances carry it as a tag, and the claims
have it in their launch record, which is stored by compare-and-set before the request is sent. No
two launches share a batch id, in whichever process: what this process knows of a batch is never
mistaken for what another one did.

The instances of a batch by id belong to its claims by index, so that every process that sees all of
them assigns them alike. Where some are missing, EC2 either did not launch them or does not show
them yet; which of both is known only after a while. Until then the outcome is unclear, and the
claim must not be launched again. Instances that are left over then go to claims that have none,
and those that no claim waits for are terminated.

Two processes may both believe that a launch is theirs to repeat, for instance after a long pause of
one of them. Then two instances may run for a claim; the launch record on the claim decides which of
them it keeps (`CloudProvider.launch`), and the other is garbage.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from wainwright.aws.api.services import Ec2, filter_equals
from wainwright.aws.instances import (
    BATCH_TAG,
    TERMINATING_STATES,
    Ec2Instance,
    InstanceBatcher,
    parse_instance,
)
from wainwright.clock import Clock
from wainwright.cloud import LaunchLog, LaunchLogEntry
from wainwright.errors import TemporarilyUnavailableError
from wainwright.model.node_claim import LaunchRecord, NodeClaim

TOKEN_LENGTH: Final = 32  # EC2 accepts 64 characters; 128 bits are unique enough


def launch_token(uid: str, attempt: int) -> str:
    return _hash_token(f"{uid}/{attempt}")


def launch_records(claims: Sequence[NodeClaim], launch_id: str, now: float) -> list[LaunchRecord]:
    """One record per claim, in their order, for a launch of all of them in one batch.

    `launch_id` is unique to the launch over all processes.
    """
    attempts = [
        1 if claim.launch_record is None else claim.launch_record.attempt + 1 for claim in claims
    ]
    tokens = [
        launch_token(claim.uid, attempt) for claim, attempt in zip(claims, attempts, strict=True)
    ]
    batch = _hash_token("/".join([launch_id, *tokens]))
    return [
        LaunchRecord(
            token=each, batch=batch, index=index, attempt=attempt, at=now, batch_size=len(claims)
        )
        for index, (each, attempt) in enumerate(zip(tokens, attempts, strict=True))
    ]


def _hash_token(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:TOKEN_LENGTH]


VISIBLE_AFTER: Final = 60.0
"""Seconds after which a launched instance counts as visible in DescribeInstances.

EC2 promises no bound; most instances are visible within seconds. A claim whose launch got no
response waits for this long. An instance that becomes visible later is paid beside the one of the
next attempt until it is found as garbage; no claim keeps it.
"""
UNCLEAR_RETRY: Final = 5.0
"""Seconds until a caller looks again for an instance that is not visible yet."""
LAUNCH_RETENTION: Final = 600.0
"""Seconds after which the launch of a claim that no longer exists is forgotten."""
ASSIGNABLE_STATES: Final = ("pending", "running", "stopping", "stopped")
"""States of instances that can still be assigned to a claim."""
ALL_STATES: Final = (*ASSIGNABLE_STATES, *TERMINATING_STATES)


class LaunchRecovery:
    def __init__(
        self,
        ec2: Ec2,
        instance_batcher: InstanceBatcher,
        launch_log: LaunchLog,
        clock: Clock,
        process_id: str,
    ) -> None:
        self._ec2 = ec2
        self._process_id = process_id
        self._launch_count = 0
        self._instance_batcher = instance_batcher
        self._launch_log = launch_log
        self._clock = clock
        self._records: dict[str, LaunchRecord] = {}
        """By claim, the last record that this process has stored."""
        self._assigned: dict[tuple[str, str], str] = {}
        """Instances by batch and claim; the caller may not have stored them on the claim yet."""
        self._in_flight: set[str] = set()
        """Batches whose response is still to come."""
        self._answered: set[str] = set()
        """Batches whose response was received."""
        self._last_activity: dict[str, float] = {}
        """When this process first saw a batch, or when its request ended."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    # Reported by launches

    def begin(self, claims: Sequence[NodeClaim]) -> dict[str, LaunchRecord]:
        """By claim, the records of a launch that is in flight from now on; none is stored yet."""
        self._launch_count += 1
        launch_id = f"{self._process_id}/{self._launch_count}"
        records = launch_records(claims, launch_id, self._clock.now())
        self._in_flight.add(records[0].batch)
        return {claim.uid: record for claim, record in zip(claims, records, strict=True)}

    def stored(self, records: Mapping[str, LaunchRecord]) -> None:
        """These are on their claims now; callers may not see them there yet."""
        self._records.update(records)

    def finish(self, batch: str, assigned: Mapping[str, str] | None) -> None:
        """Instances by claim, from the response; None if no response was received.

        Only for batches of this process: nobody else can know that a launch was answered.
        """
        self._in_flight.discard(batch)
        self._last_activity[batch] = self._clock.now()
        if assigned is not None:
            self._answered.add(batch)
            self._assigned.update({(batch, uid): each for uid, each in assigned.items()})

    def in_flight_batches(self) -> frozenset[str]:
        return frozenset(self._in_flight)

    def is_unknown(self, claim: NodeClaim) -> bool:
        """Whether the claim may have an instance that this process knows nothing about."""
        record = claim.launch_record
        return (
            record is not None
            and not claim.instance
            and self._needs_search(record.batch)
            and (record.batch, claim.uid) not in self._assigned
        )

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
        batches = {record.batch for record in self._records.values()}
        for batch in [each for each, at in self._last_activity.items() if at < oldest]:
            if batch not in batches:
                del self._last_activity[batch]
                self._answered.discard(batch)
                self._locks.pop(batch, None)
        known = self._last_activity.keys() | self._in_flight
        self._assigned = {key: each for key, each in self._assigned.items() if key[0] in known}

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
            asked_at = self._clock.now()  # what EC2 answers later may be as old as this
            if (record.batch, claim.uid) not in self._assigned and self._needs_search(record.batch):
                await self._assign(claim, record, asked_at)
        assigned = self._assigned.get((record.batch, claim.uid))
        instance = None if assigned is None else await self._instance_batcher.describe(assigned)
        if instance is not None and instance.state in ASSIGNABLE_STATES:
            return instance
        if not self._is_settled(claim, record.batch, asked_at):
            raise self._unclear_error(claim, record.batch)
        return None

    async def _assign(self, claim: NodeClaim, record: LaunchRecord, asked_at: float) -> None:
        """Assigns the instances of the batch, as far as that is certain."""
        instances = await self._instances(record.batch)
        settled = self._settled_at(record.batch) <= asked_at
        if len(instances) < record.batch_size and not settled:
            return
        entries = await self._entries(claim, record)
        self._assign_by_index(instances, entries)
        if settled:
            await self._assign_leftover(instances, entries)

    def _assign_by_index(
        self, instances: Sequence[Ec2Instance], entries: Sequence[LaunchLogEntry]
    ) -> None:
        """Except those that another claim has: EC2 forgets terminated instances after a while, and
        then the others move up.
        """
        owned = self._owned(entries)
        for entry in entries:
            index = entry.launch_record.index
            if index < len(instances) and not self._has_instance(entry):
                instance = instances[index].id
                if instance not in owned:
                    self._assigned[entry.launch_record.batch, entry.claim] = instance

    async def _assign_leftover(
        self, instances: Sequence[Ec2Instance], entries: Sequence[LaunchLogEntry]
    ) -> None:
        """Instances whose claims were deleted meanwhile, or which nobody requested.

        Not before the batch has settled: until then a claim may merely be missing in the log.
        """
        owned = self._owned(entries)
        alive = [each for each in instances if each.state in ASSIGNABLE_STATES]
        unassigned = [each for each in alive if each.id not in owned]
        waiting = [entry for entry in entries if not self._has_instance(entry)]
        for entry, instance in zip(waiting, unassigned, strict=False):
            self._assigned[entry.launch_record.batch, entry.claim] = instance.id
        await self._terminate(unassigned[len(waiting) :])

    def _owned(self, entries: Iterable[LaunchLogEntry]) -> set[str]:
        return {entry.instance for entry in entries} | set(self._assigned.values())

    async def _instances(self, batch: str) -> list[Ec2Instance]:
        """By id; terminated ones too, or those behind them would move up."""
        filters = [filter_equals(f"tag:{BATCH_TAG}", batch)]
        rows = await self._ec2.describe_instances(filters=filters, states=ALL_STATES)
        return sorted(map(parse_instance, rows), key=lambda each: each.id)

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
        assigned = (entry.launch_record.batch, entry.claim) in self._assigned
        return bool(entry.instance) or assigned

    async def _terminate(self, surplus: Sequence[Ec2Instance]) -> None:
        """No claim waits for these; those that cannot be terminated now are garbage later."""
        terminations = (self._instance_batcher.terminate(each.id) for each in surplus)
        await asyncio.gather(*terminations, return_exceptions=True)

    def _needs_search(self, batch: str) -> bool:
        return batch not in self._in_flight and batch not in self._answered

    def _is_settled(self, claim: NodeClaim, batch: str, asked_at: float) -> bool:
        """Whether an instance that EC2 did not show at that time certainly does not exist."""
        if batch in self._in_flight:
            return False
        if batch in self._answered and (batch, claim.uid) not in self._assigned:
            return True
        return self._settled_at(batch) <= asked_at

    def _settled_at(self, batch: str) -> float:
        return self._last_activity[batch] + VISIBLE_AFTER

    def _unclear_error(self, claim: NodeClaim, batch: str) -> TemporarilyUnavailableError:
        message = (
            f"{claim.name} was launched before, and the result of that launch is not known yet"
        )
        remaining = self._settled_at(batch) - self._clock.now()
        retry_after = max(1.0, min(UNCLEAR_RETRY, remaining))
        return TemporarilyUnavailableError(message, reason="LaunchUnclear", retry_after=retry_after)
