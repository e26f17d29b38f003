"""Disruption: nodes that are empty, drifted or too expensive are removed or replaced.

Every ten seconds the cluster is looked at. A command that saves money is carried out only if it
still holds fifteen seconds later: pods may have come in the meantime. Drift is carried out at once.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.cloud import NodePoolCatalog
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.disruption.disruption_queue import DisruptionQueue
from wainwright.controllers.nodeclass.declared_objects import DeclaredObjectsTracker
from wainwright.controllers.runtime import WHOLE_CLUSTER, Again, Key, Poll, Result, WorkQueue
from wainwright.controllers.settings import Pause, is_paused
from wainwright.core.disruption.budgets import DisruptionReason
from wainwright.core.disruption.commands import (
    Command,
    DisruptionInput,
    DisruptionOptions,
    Method,
)
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.disruption.scheduled_release import next_release
from wainwright.gc_pause import gc_paused

PERIOD: Final = 10.0  # seconds between two looks
SYNC_POLL: Final = 1.0
VALIDATION_DELAY: Final = 15.0
"""Seconds after which a command must still hold to be carried out."""


class Disruption:
    name = "disruption"

    def __init__(
        self,
        context: ControllerContext,
        declared: DeclaredObjectsTracker,
        queue: DisruptionQueue,
    ) -> None:
        self._context, self._declared, self._queue = context, declared, queue
        self._state = context.state
        settings = context.settings
        self._options = msgspec.structs.replace(
            settings.disruption_options, plan=settings.plan_options
        )
        self._previous: DisruptionPass | None = None
        self._found: tuple[Command, float] | None = None
        """A command, and when it is to be validated."""
        self._catalogs: Mapping[str, NodePoolCatalog] = {}

    def watch(self, queue: WorkQueue) -> None:
        queue.add(WHOLE_CLUSTER)

    @property
    def next_release(self) -> float | None:
        """When the schedule of a budget lets a command through; costs a pass and more, so that only
        a simulation that seems quiet asks."""
        looked = self._previous
        return None if looked is None or self._found is not None else next_release(looked)

    async def reconcile(self, _: Key) -> Result:
        if not self._state.is_synced:
            return Again(SYNC_POLL)
        await self._queue.clean_up()
        if self._found is not None:
            command, due = self._found
            left = due - self._context.clock.now()
            return Again(left) if left > 0 else await self._validate(command)
        return await self._look(self._options)

    async def _look(self, options: DisruptionOptions) -> Result:
        looked = await self._pass(options)
        with gc_paused():
            found = looked.find_command()
        if found is None:
            moments = (self._state.next_nomination_end, looked.next_change)
            return Poll(PERIOD, min((each for each in moments if each is not None), default=None))
        if found.reason is DisruptionReason.DRIFTED:
            await self._queue.start(found, self._catalogs)
            return Again(PERIOD)
        self._found = found, self._context.clock.now() + VALIDATION_DELAY
        return Again(VALIDATION_DELAY)

    async def _pass(self, options: DisruptionOptions) -> DisruptionPass:
        self._catalogs = catalogs = await self._declared.catalogs()
        snapshot = self._state.with_virtual_pods(self._state.snapshot(catalogs.values()))
        pools = tuple(
            pool
            for pool in snapshot.pools
            if pool.name in catalogs and not is_paused(pool, Pause.DISRUPTION)
        )
        given = DisruptionInput(
            snapshot=msgspec.structs.replace(snapshot, pools=pools),
            catalogs={name: catalog.index for name, catalog in catalogs.items()},
            nominated=self._state.nominated(),
        )
        with gc_paused():
            self._previous = DisruptionPass(given, options, self._previous)
        return self._previous

    async def _validate(self, command: Command) -> Result:
        """Carries the command out if it still holds.

        Where one of several nodes does not, at least the single ones are looked at: otherwise a
        large set that never holds for long would keep all of them.
        """
        self._found = None
        looked = await self._pass(self._options)
        with gc_paused():
            confirmed = looked.confirm(command)
        if confirmed is not None:
            await self._queue.start(confirmed, self._catalogs)
            return Again(PERIOD)
        if command.method is not Method.MULTI_NODE:
            return Again(PERIOD)
        single = msgspec.structs.replace(self._options, methods=(Method.SINGLE_NODE,))
        return await self._look(single)
