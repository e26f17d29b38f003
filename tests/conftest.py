"""Profiles of the property tests: quick by default, more thorough where nobody waits; and control
planes: one for all tests of the run, started when the first one asks for it.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests.support.control_plane import ControlPlane
from tests.support.running_control_plane import running

from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=100,
    derandomize=True,  # a landing is judged twice by the same examples; new ones are met at home
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


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
def api(control_plane: ControlPlane) -> ControlPlane:
    """The same control plane, with our CRDs."""
    for item in CUSTOM_RESOURCES:
        control_plane.apply_crd(custom_resource_definition(item))
    return control_plane
