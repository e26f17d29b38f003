"""Recovery: what became of a launch whose answer nobody got.

The machines of a launch carry its batch as a tag, and the claims have it written down. So whatever
was lost, the machines are dealt out to the claims that still have none, in the order in which they
were asked for, and what is left over is terminated. As EC2 is slow to show new machines, a launch
counts as failed only when nothing has come to light for a while; until then it is unclear, and
nobody may launch the claim again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from wainwright.aws.by_id import ById
from wainwright.aws.ec2 import Ec2
from wainwright.aws.instance import Instance, instance
from wainwright.aws.tokens import BATCH_TAG
from wainwright.aws.wire import equals
from wainwright.clock import Clock
from wainwright.cloud import Entry, Ledger
from wainwright.errors import Unavailable
from wainwright.model.claim import Claim, Mark

SETTLED: Final = 30.0
"""Seconds after which a machine that was launched can be seen."""
FORGOTTEN: Final = 600.0
"""Seconds after which a launch of a claim that nobody knows any more is of no interest."""
SHOWING: Final = ("pending", "running", "stopping", "stopped")
"""States of machines that a claim can still be given."""


class Recovery:
    def __init__(self, ec2: Ec2, by_id: ById, ledger: Ledger, clock: Clock) -> None:
        self._ec2 = ec2
        self._by_id = by_id
        self._ledger = ledger
        self._clock = clock
        self._marks: dict[str, Mark] = {}
        """By claim, the last that this process has written down."""
        self._dealt: dict[str, str] = {}
        """Machines by claim; their owners may not have been told yet."""
        self._flying: set[str] = set()
        """Batches whose answer is still to come."""
        self._answered: set[str] = set()
        """Batches whose answer came."""
        self._heard: dict[str, float] = {}
        """When this process first heard of a batch, or was last refused an answer."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    # What launches tell

    def begin(self, marks: Mapping[str, Mark]) -> None:
        """These claims, by uid, are about to be launched."""
        for uid, mark in marks.items():
            self._marks[uid] = mark
            self._dealt.pop(uid, None)
            self._flying.add(mark.batch)

    def end(self, batch: str, dealt: Mapping[str, str] | None) -> None:
        """Machines by claim, as the answer has them; None where no answer came."""
        self._flying.discard(batch)
        self._heard[batch] = self._clock.now()
        if dealt is not None:
            self._answered.add(batch)
            self._dealt.update(dealt)

    def under_way(self) -> frozenset[str]:
        return frozenset(self._flying)

    def known(self, claim: Claim) -> Claim:
        """The claim with its last mark, which whoever hands it over may not have seen yet."""
        ours = self._marks.get(claim.uid)
        if ours is None or (claim.mark is not None and claim.mark.attempt >= ours.attempt):
            return claim
        return msgspec.structs.replace(claim, mark=ours)

    def keep(self, claims: Iterable[str]) -> None:
        """Forgets the launches of all claims but these, by uid, unless they are quite recent."""
        known, oldest = set(claims), self._clock.now() - FORGOTTEN
        for uid in [uid for uid, mark in self._marks.items() if uid not in known]:
            if self._marks[uid].at < oldest:
                del self._marks[uid]
                self._dealt.pop(uid, None)
        batches = {mark.batch for mark in self._marks.values()}
        for batch in [each for each, at in self._heard.items() if at < oldest]:
            if batch not in batches:
                del self._heard[batch]
                self._answered.discard(batch)
                self._locks.pop(batch, None)

    # What others ask

    async def find(self, claim: Claim) -> Instance | None:
        """The machine of a claim that was launched before; None where there is none for sure.

        Unavailable as long as nobody can say.
        """
        mark = claim.mark
        if mark is None:
            return None
        self._heard.setdefault(mark.batch, self._clock.now())
        async with self._locks[mark.batch]:
            if claim.uid not in self._dealt and self._unanswered(mark.batch):
                await self._deal(claim, mark)
        dealt = self._dealt.get(claim.uid)
        found = None if dealt is None else await self._by_id.describe(dealt)
        if found is not None and found.state in SHOWING:
            return found
        if not self._certain(claim, mark.batch):
            raise self._unclear(claim, mark.batch)
        return None

    async def _deal(self, claim: Claim, mark: Mark) -> None:
        machines = await self._machines(mark.batch)
        entries = await self._entries(claim, mark)
        owned = {entry.instance for entry in entries} | set(self._dealt.values())
        free = [each for each in machines if each.id not in owned]
        waiting = [entry for entry in entries if not self._has(entry)]
        for entry, machine in zip(waiting, free, strict=False):
            self._dealt[entry.claim] = machine.id
        await self._end(free[len(waiting) :])

    async def _machines(self, batch: str) -> list[Instance]:
        """In the order of their launch."""
        wanted = [equals(f"tag:{BATCH_TAG}", batch)]
        rows = await self._ec2.describe_instances(filters=wanted, states=SHOWING)
        return sorted(map(instance, rows), key=lambda each: (each.launched, each.id))

    async def _entries(self, claim: Claim, mark: Mark) -> list[Entry]:
        """All claims of the batch, in its order; that of the one who asks for certain."""
        found = {entry.claim: entry for entry in await self._ledger.batch(mark.batch)}
        found.setdefault(claim.uid, Entry(claim=claim.uid, mark=mark, instance=claim.instance))
        return sorted(found.values(), key=lambda entry: (entry.mark.index, entry.claim))

    def _has(self, entry: Entry) -> bool:
        return bool(entry.instance) or entry.claim in self._dealt

    async def _end(self, surplus: Sequence[Instance]) -> None:
        """Nobody waits for these any more; those that will not go now are garbage later."""
        going = (self._by_id.terminate(each.id) for each in surplus)
        await asyncio.gather(*going, return_exceptions=True)

    def _unanswered(self, batch: str) -> bool:
        return batch not in self._flying and batch not in self._answered

    def _certain(self, claim: Claim, batch: str) -> bool:
        """Whether a machine that is not to be seen is not there."""
        if batch in self._flying:
            return False
        if batch in self._answered and claim.uid not in self._dealt:
            return True
        return self._clear_at(batch) <= self._clock.now()

    def _clear_at(self, batch: str) -> float:
        return self._heard[batch] + SETTLED

    def _unclear(self, claim: Claim, batch: str) -> Unavailable:
        message = f"{claim.name} was launched before, and it is not clear yet what came of it"
        after = max(1.0, self._clear_at(batch) - self._clock.now())
        return Unavailable(message, reason="LaunchUnclear", after=after)
