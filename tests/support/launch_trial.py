"""What property tests of launches share: processes that die, and who may own which instance."""

import asyncio
from collections.abc import Mapping, Sequence

from wainwright.model.node_claim import LaunchRecord


class CrashPoint:
    """A process that dies at its n-th external step."""

    def __init__(self, steps: int | None) -> None:
        self._remaining_steps = steps
        self.dead = asyncio.Event()

    async def step(self) -> None:
        """Never returns from the last one."""
        if self._remaining_steps is not None:
            self._remaining_steps -= 1
            if self._remaining_steps <= 0:
                self.dead.set()
        if self.dead.is_set():
            await asyncio.Event().wait()


def claims_by_batch(recorded: Sequence[tuple[str, LaunchRecord]]) -> Mapping[str, list[str]]:
    """By batch, every claim that ever had a launch record of it."""
    found: dict[str, list[str]] = {}
    for uid, record in recorded:
        found.setdefault(record.batch, []).append(uid)
    return found


def has_perfect_matching(requirements: Sequence[Sequence[str]]) -> bool:
    """Whether there is a matching that gives every instance a claim of its own."""
    owner: dict[str, int] = {}

    def assign(instance_number: int, tried: set[str]) -> bool:
        for each in requirements[instance_number]:
            if each not in tried:
                tried.add(each)
                if each not in owner or assign(owner[each], tried):
                    owner[each] = instance_number
                    return True
        return False

    return all(assign(instance_number, set()) for instance_number in range(len(requirements)))
