"""What every controller is given."""

from collections.abc import Callable

import msgspec

from wainwright.clock import Clock
from wainwright.cloud import CloudProvider
from wainwright.controllers.cluster_cache import ClusterCache
from wainwright.controllers.events import EventRecorder
from wainwright.controllers.live_state import LiveState
from wainwright.controllers.reports import NO_REPORTS, ControllerReports
from wainwright.controllers.settings import ControllerSettings
from wainwright.metrics import MetricsRegistry


def _nobody_rests() -> None:
    """Polls come in any case."""


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    cache: ClusterCache
    state: LiveState
    cloud: CloudProvider
    clock: Clock
    events: EventRecorder
    metrics: MetricsRegistry
    settings: ControllerSettings
    learnt: Callable[[], None] = _nobody_rests
    """To be called when something new is known that no object shows: prices, for example."""
    reports: ControllerReports = NO_REPORTS
