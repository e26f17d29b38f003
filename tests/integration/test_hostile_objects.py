"""Hostile objects on a real API server: what it refuses, and that everything else can be read."""

import asyncio
import json
from collections.abc import Iterator, Sequence

import pytest
from tests.integration.conftest import running
from tests.support.control_plane import ControlPlane
from tests.support.hostile_objects import ALL, Hostile, Manifest, Outcome

from wainwright.api.api_resources import ApiResource, resource_of
from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition, known_kinds
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import WireStruct
from wainwright.kube.client import KubeClient
from wainwright.kube.kubeconfig import load_address
from wainwright.model.resources import MAX_AMOUNT
from wainwright.translate.resources import pod_requests


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """One of its own: such objects are no company for those of other tests."""
    with running(pytestconfig) as plane:
        for item in CUSTOM_RESOURCES:
            plane.apply_crd(custom_resource_definition(item))
        yield plane


def resource(manifest: Manifest) -> ApiResource:
    return resource_of(known_kinds()[manifest["apiVersion"], manifest["kind"]].type)


def post(plane: ControlPlane, manifest: Manifest) -> int:
    path = resource(manifest).path(manifest["metadata"].get("namespace", ""))
    reply = plane.request("POST", path, body=json.dumps(manifest).encode())
    assert reply.status in (201, 400, 403, 413, 422), reply.message
    return reply.status


def delete(plane: ControlPlane, manifest: Manifest) -> None:
    metadata = manifest["metadata"]
    path = resource(manifest).path(metadata.get("namespace", ""), metadata["name"])
    plane.request("DELETE", path, query={"gracePeriodSeconds": "0"})


async def listed(plane: ControlPlane, manifest: Manifest) -> Sequence[WireStruct]:
    async with KubeClient.connect(load_address(kubeconfig=str(plane.kubeconfig))) as client:
        found = await client.list(resource(manifest).type)
    assert not found.unreadable
    return found.items


SENT = [each for each in ALL if each.outcome is not Outcome.UNANSWERED]


@pytest.mark.parametrize("hostile", SENT, ids=[each.name for each in SENT])
def test_it_is_refused_or_can_be_read(plane: ControlPlane, hostile: Hostile) -> None:
    status = post(plane, hostile.manifest)
    assert (status != 201) == (hostile.outcome is Outcome.REFUSED), status
    try:
        if status == 201:
            (found,) = asyncio.run(listed(plane, hostile.manifest))
            if isinstance(found, Pod):
                assert max(pod_requests(found.spec).values()) <= MAX_AMOUNT
    finally:
        delete(plane, hostile.manifest)
