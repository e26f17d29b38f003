"""What every controller is given."""

import msgspec

from wainwright.clock import Clock
from wainwright.cloud import CloudProvider
from wainwright.controllers.cluster_cache import ClusterCache
from wainwright.controllers.events import EventRecorder
from wainwright.controllers.live_state import LiveState
from wainwright.controllers.reports import NO_REPORTS, ControllerReports
from wainwright.controllers.settings import ControllerSettings
from wainwright.metrics import MetricsRegistry


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    cache: ClusterCache
    state: LiveState
    cloud: CloudProvider
    clock: Clock
    events: EventRecorder
    metrics: MetricsRegistry
    settings: ControllerSettings
    reports: ControllerReports = NO_REPORTS
