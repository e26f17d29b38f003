"""Launch tokens, and recovery: what became of a launch whose response nobody got.

A claim's token follows from the claim and the number of the attempt; a batch's from the tokens in
it. Nothing is drawn by chance: whoever comes to the same launch again comes to the same name, and
another attempt is another name. EC2 gets the batch as client token, and every instance as a tag.

The instances of a launch carry its batch as a tag, and the claims have it written down. So whatever
was lost, the instances are assigned to the claims that still have none, in the order in which they
were asked for, and what is left over is terminated. As EC2 is slow to show new instances, a launch
counts as failed only when nothing has come to light for a while; until then it is unclear, and
nobody may launch the claim again.
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

TOKEN_LENGTH: Final = 32  # EC2 takes 64 characters, and half of them are unique enough


def launch_token(uid: str, attempt: int) -> str:
    return _hash_token(f"{uid}/{attempt}")


def launch_records(claims: Sequence[NodeClaim], now: float) -> list[LaunchRecord]:
    """One for each claim, in their order, for a launch of all of them together."""
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
"""Seconds after which an instance that was launched can be seen."""
LAUNCH_RETENTION: Final = 600.0
"""Seconds after which a launch of a claim that nobody knows any more is of no interest."""
ASSIGNABLE_STATES: Final = ("pending", "running", "stopping", "stopped")
"""States of instances that a claim can still be given."""


class LaunchRecovery:
    def __init__(
        self, ec2: Ec2, instance_batcher: InstanceBatcher, launch_log: LaunchLog, clock: Clock
    ) -> None:
        self._ec2 = ec2
        self._instance_batcher = instance_batcher
        self._launch_log = launch_log
        self._clock = clock
        self._records: dict[str, LaunchRecord] = {}
        """By claim, the last that this process has written down."""
        self._assigned: dict[str, str] = {}
        """Instances by claim; their owners may not have been told yet."""
        self._in_flight: set[str] = set()
        """Batches whose answer is still to come."""
        self._answered: set[str] = set()
        """Batches whose answer came."""
        self._last_heard: dict[str, float] = {}
        """When this process first heard of a batch, or was last refused an answer."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    # What launches tell

    def begin(self, marks: Mapping[str, LaunchRecord]) -> None:
        """These claims, by uid, are about to be launched."""
        for uid, mark in marks.items():
            self._records[uid] = mark
            self._assigned.pop(uid, None)
            self._in_flight.add(mark.batch)

    def end(self, batch: str, assigned: Mapping[str, str] | None) -> None:
        """Instances by claim, as the answer has them; None where no answer came."""
        self._in_flight.discard(batch)
        self._last_heard[batch] = self._clock.now()
        if assigned is not None:
            self._answered.add(batch)
            self._assigned.update(assigned)

    def under_way(self) -> frozenset[str]:
        return frozenset(self._in_flight)

    def known(self, claim: NodeClaim) -> NodeClaim:
        """The claim with its last mark, which whoever hands it over may not have seen yet."""
        ours = self._records.get(claim.uid)
        if ours is None or (
            claim.launch_record is not None and claim.launch_record.attempt >= ours.attempt
        ):
            return claim
        return msgspec.structs.replace(claim, launch_record=ours)

    def keep(self, claims: Iterable[str]) -> None:
        """Forgets the launches of all claims but these, by uid, unless they are quite recent."""
        known, oldest = set(claims), self._clock.now() - LAUNCH_RETENTION
        for uid in [uid for uid, mark in self._records.items() if uid not in known]:
            if self._records[uid].at < oldest:
                del self._records[uid]
                self._assigned.pop(uid, None)
        batches = {mark.batch for mark in self._records.values()}
        for batch in [each for each, at in self._last_heard.items() if at < oldest]:
            if batch not in batches:
                del self._last_heard[batch]
                self._answered.discard(batch)
                self._locks.pop(batch, None)

    # What others ask

    async def find(self, claim: NodeClaim) -> Ec2Instance | None:
        """The instance of a claim that was launched before; None where there is none for sure.

        TemporarilyUnavailableError as long as nobody can say.
        """
        mark = claim.launch_record
        if mark is None:
            return None
        self._last_heard.setdefault(mark.batch, self._clock.now())
        async with self._locks[mark.batch]:
            if claim.uid not in self._assigned and self._unanswered(mark.batch):
                await self._assign(claim, mark)
        assigned = self._assigned.get(claim.uid)
        found = None if assigned is None else await self._instance_batcher.describe(assigned)
        if found is not None and found.state in ASSIGNABLE_STATES:
            return found
        if not self._certain(claim, mark.batch):
            raise self._unclear(claim, mark.batch)
        return None

    async def _assign(self, claim: NodeClaim, mark: LaunchRecord) -> None:
        instances = await self._instances(mark.batch)
        entries = await self._entries(claim, mark)
        owned = {entry.instance for entry in entries} | set(self._assigned.values())
        free = [each for each in instances if each.id not in owned]
        waiting = [entry for entry in entries if not self._has(entry)]
        for entry, instance in zip(waiting, free, strict=False):
            self._assigned[entry.claim] = instance.id
        await self._end(free[len(waiting) :])

    async def _instances(self, batch: str) -> list[Ec2Instance]:
        """In the order of their launch."""
        wanted = [filter_equals(f"tag:{BATCH_TAG}", batch)]
        rows = await self._ec2.describe_instances(filters=wanted, states=ASSIGNABLE_STATES)
        return sorted(map(parse_instance, rows), key=lambda each: (each.launched, each.id))

    async def _entries(self, claim: NodeClaim, mark: LaunchRecord) -> list[LaunchLogEntry]:
        """All claims of the batch, in its order; that of the one who asks for certain."""
        found = {entry.claim: entry for entry in await self._launch_log.batch(mark.batch)}
        found.setdefault(
            claim.uid, LaunchLogEntry(claim=claim.uid, mark=mark, instance=claim.instance)
        )
        return sorted(found.values(), key=lambda entry: (entry.mark.index, entry.claim))

    def _has(self, entry: LaunchLogEntry) -> bool:
        return bool(entry.instance) or entry.claim in self._assigned

    async def _end(self, surplus: Sequence[Ec2Instance]) -> None:
        """Nobody waits for these any more; those that will not go now are garbage later."""
        going = (self._instance_batcher.terminate(each.id) for each in surplus)
        await asyncio.gather(*going, return_exceptions=True)

    def _unanswered(self, batch: str) -> bool:
        return batch not in self._in_flight and batch not in self._answered

    def _certain(self, claim: NodeClaim, batch: str) -> bool:
        """Whether an instance that is not to be seen is not there."""
        if batch in self._in_flight:
            return False
        if batch in self._answered and claim.uid not in self._assigned:
            return True
        return self._clear_at(batch) <= self._clock.now()

    def _clear_at(self, batch: str) -> float:
        return self._last_heard[batch] + VISIBLE_AFTER

    def _unclear(self, claim: NodeClaim, batch: str) -> TemporarilyUnavailableError:
        message = f"{claim.name} was launched before, and it is not clear yet what came of it"
        after = max(1.0, self._clear_at(batch) - self._clock.now())
        return TemporarilyUnavailableError(message, reason="LaunchUnclear", after=after)
