"""A control plane for fixtures: started on first use, or a skip that says what is missing."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
from tests.support.control_plane import ControlPlane
from tests.support.processes import MissingTool, skip_or_fail


@contextmanager
def running(
    config: pytest.Config, *, scheduler: bool = False, controller_manager: bool = False
) -> Iterator[ControlPlane]:
    # The first start may build for minutes and says so; captured, nobody would read it in time.
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            plane = ControlPlane.start(scheduler, controller_manager)
    except MissingTool as missing:
        skip_or_fail(str(missing))
    with plane:
        yield plane
