"""Control planes for the tests here: one for all, started when the first test asks for it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
from tests.integration.run_manifests import NODE_CLASS, NODE_POOL
from tests.oracle.client import Oracle
from tests.support.control_plane import ControlPlane
from tests.support.processes import MissingTool, skip_or_fail
from tests.support.running_operator import TestedCluster

from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """etcd and the API server. Nothing binds a pod, and a deleted namespace never goes away."""
    with running(pytestconfig) as plane:
        yield plane


@pytest.fixture(scope="session")
def full_control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """A second control plane, with kube-scheduler and kube-controller-manager."""
    with running(pytestconfig, scheduler=True, controller_manager=True) as plane:
        yield plane


@pytest.fixture(scope="session")
def spare_control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """One that may be restarted, and whose objects but for ConfigMaps are those of one module."""
    with running(pytestconfig) as plane:
        yield plane


@pytest.fixture(scope="module")
def own_control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """One for a single module, with nothing in it."""
    with running(pytestconfig) as plane:
        yield plane


@pytest.fixture(scope="session")
def api(control_plane: ControlPlane) -> ControlPlane:
    """The same control plane, with our CRDs."""
    for item in CUSTOM_RESOURCES:
        control_plane.apply_crd(custom_resource_definition(item))
    return control_plane


@pytest.fixture(scope="session")
def operated_control_plane(pytestconfig: pytest.Config) -> Iterator[TestedCluster]:
    """A control plane of its own: the operator acts on everything that it finds."""
    with running(pytestconfig, scheduler=True, controller_manager=True) as plane:
        for item in CUSTOM_RESOURCES:
            plane.apply_crd(custom_resource_definition(item))
        yield TestedCluster(plane)


@pytest.fixture
def operated(operated_control_plane: TestedCluster) -> Iterator[TestedCluster]:
    """With a NodePool and its class, and nothing else."""
    cluster = operated_control_plane
    cluster.apply("EC2NodeClass", NODE_CLASS)
    cluster.apply("NodePool", NODE_POOL)
    yield cluster
    cluster.clear()


@contextmanager
def running(
    config: pytest.Config,
    *,
    scheduler: bool = False,
    controller_manager: bool = False,
    audited: bool = False,
) -> Iterator[ControlPlane]:
    # The first start may build for minutes and says so; captured, nobody would read it in time.
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            plane = ControlPlane.start(scheduler, controller_manager, audited)
    except MissingTool as missing:
        skip_or_fail(str(missing))
    with plane:
        yield plane


@pytest.fixture(scope="module")
def oracle(pytestconfig: pytest.Config) -> Iterator[Oracle]:
    # The first start may build for minutes and says so; captured, nobody would read it in time.
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            started = Oracle.start()
    except MissingTool as missing:
        skip_or_fail(str(missing))
    with started:
        yield started
