"""What every controller is given."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import msgspec

from wainwright.clock import Clock
from wainwright.cloud import CloudProvider
from wainwright.controllers.decision_recorder import NO_RECORDER, DecisionRecorder
from wainwright.controllers.events import EventRecorder
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.live_state import LiveState
from wainwright.controllers.reports import NO_REPORTS, ControllerReports
from wainwright.controllers.settings import ControllerSettings
from wainwright.daemon_threads import DaemonThreadPool
from wainwright.gc_pause import gc_paused
from wainwright.metrics import MetricsRegistry

Result = TypeVar("Result")

COMPUTE_THREADS: Final = DaemonThreadPool(8, "compute")
"""For those of asyncio a process waits when it ends: a plan of a large cluster would keep one that
has been told to stop until it is killed, and its lease with it."""


def _nobody_rests() -> None:
    """Polls come in any case."""


class Compute(Protocol):
    """Runs a decision that may take seconds, and works on values alone."""

    async def __call__(self, work: Callable[[], Result]) -> Result: ...


async def compute_inline(work: Callable[[], Result]) -> Result:
    """In simulations: they are repeatable because one thing happens after the other."""
    with gc_paused():
        return work()


async def compute_in_thread(work: Callable[[], Result]) -> Result:
    """On a real cluster: leases are renewed and probes answered meanwhile."""

    def without_gc() -> Result:
        with gc_paused():
            return work()

    return await asyncio.get_running_loop().run_in_executor(COMPUTE_THREADS, without_gc)


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    cache: InformerCache
    state: LiveState
    cloud: CloudProvider
    clock: Clock
    events: EventRecorder
    metrics: MetricsRegistry
    settings: ControllerSettings
    learnt: Callable[[], None] = _nobody_rests
    """To be called when something new is known that no object shows: prices, for example."""
    reports: ControllerReports = NO_REPORTS
    compute: Compute = compute_inline
    recorder: DecisionRecorder = NO_RECORDER
