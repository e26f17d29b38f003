"""The harness itself: what every other test here relies on."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support import processes
from tests.support.control_plane import (
    VERSION,
    ApiRejected,
    ApiResponse,
    ControlPlane,
    NotReady,
    PortTaken,
    binaries,
)

ROOT = Path(__file__).parents[2]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **extra: object) -> bytes:
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"colour": "blue"},
        **extra,
    }
    return json.dumps(document).encode()


def crd(plural: str, *, schema: dict[str, Any]) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.test.example.com"},
        "spec": {
            "group": "test.example.com",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "scope": "Cluster",
            "versions": [version],
        },
    }


def test_it_is_ready_as_soon_as_it_is_handed_out(control_plane: ControlPlane) -> None:
    assert control_plane.request("GET", "/readyz").body == b"ok"


@pytest.mark.skipif(
    "KUBEBUILDER_ASSETS" in os.environ, reason="KUBEBUILDER_ASSETS decides which version runs"
)
def test_it_says_the_version_it_was_built_from(control_plane: ControlPlane) -> None:
    assert control_plane.request("GET", "/version").json()["gitVersion"] == VERSION


def test_what_was_created_can_be_read_back(control_plane: ControlPlane) -> None:
    space = json.dumps({"metadata": {"name": "paint"}}).encode()
    assert control_plane.request("POST", "/api/v1/namespaces", body=space).status == 201
    path = "/api/v1/namespaces/paint/configmaps"
    assert control_plane.request("POST", path, body=config_map("door")).status == 201
    read = control_plane.request("GET", f"{path}/door")
    assert (read.status, read.json()["data"]) == (200, {"colour": "blue"})


def test_a_strict_dry_run_refuses_an_unknown_field(control_plane: ControlPlane) -> None:
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    reply = control_plane.request(
        "POST", CONFIG_MAPS, body=config_map("dry", color="blue"), query=query
    )
    assert (reply.status, 'unknown field "color"' in reply.message) == (400, True)


def test_a_dry_run_stores_nothing(control_plane: ControlPlane) -> None:
    query = {"dryRun": "All"}
    reply = control_plane.request("POST", CONFIG_MAPS, body=config_map("dry"), query=query)
    assert reply.status == 201
    assert control_plane.request("GET", f"{CONFIG_MAPS}/dry").status == 404


def test_the_connection_survives_the_server_dropping_it(control_plane: ControlPlane) -> None:
    control_plane.request("GET", "/readyz")
    connection = control_plane.client._connection.sock
    socket.socket.shutdown(connection, socket.SHUT_RDWR)  # not that of TLS, which takes its leave
    assert control_plane.request("GET", "/readyz").status == 200


def test_objects_of_an_applied_crd_can_be_created_at_once(control_plane: ControlPlane) -> None:
    size = {"type": "integer", "minimum": 1}
    spec = {"type": "object", "properties": {"size": size}}
    control_plane.apply_crd(crd("wheels", schema={"type": "object", "properties": {"spec": spec}}))
    wheel = {
        "apiVersion": "test.example.com/v1",
        "kind": "Wheels",
        "metadata": {"name": "front"},
        "spec": {"size": 0},
    }
    small = apply(control_plane, wheel)
    assert (small.status, "greater than or equal to 1" in small.message) == (422, True)
    assert apply(control_plane, wheel | {"spec": {"size": 7}}).status == 201


def apply(plane: ControlPlane, wheel: dict[str, Any]) -> ApiResponse:
    """Create by server-side apply: the API server makes the first POSTs after a CRD wait 2 s."""
    path = f"/apis/test.example.com/v1/wheels/{wheel['metadata']['name']}"
    body = json.dumps(wheel).encode()
    kind, query = "application/apply-patch+yaml", {"fieldManager": "test"}
    return plane.request("PATCH", path, body=body, content_type=kind, query=query)


def test_a_bad_crd_is_refused_in_the_words_of_the_api_server(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiRejected, match=r"axles\.test\.example\.com.*must be object"):
        control_plane.apply_crd(crd("axles", schema={"type": "string"}))


def test_a_crd_whose_names_are_taken_is_refused(control_plane: ControlPlane) -> None:
    control_plane.apply_crd(crd("spokes", schema={"type": "object"}))
    taken = crd("hubs", schema={"type": "object"})
    taken["spec"]["names"]["kind"] = "Spokes"
    with pytest.raises(ApiRejected, match=r"NamesAccepted: .*Spokes.* is already in use"):
        control_plane.apply_crd(taken)


def test_without_go_one_sentence_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WAIN_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(
        processes.MissingTool, match=r"install Go 1\.24 or newer.*set KUBEBUILDER_ASSETS"
    ):
        binaries(["etcd"])


def test_a_skip_is_a_failure_where_nothing_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WAIN_REQUIRE_GO", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^no Go$"):
        processes.skip_or_fail("no Go")
    monkeypatch.setenv("WAIN_REQUIRE_GO", "1")
    with pytest.raises(pytest.fail.Exception, match="no Go"):
        processes.skip_or_fail("no Go")


def fake_assets(folder: Path, script: str) -> None:
    for name in ("etcd", "kube-apiserver"):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


def test_what_cannot_start_shows_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_assets(tmp_path, "echo the disk is full; exit 3")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(NotReady, match=r"(?s)etcd ended with 3.*the disk is full"):
        ControlPlane.start()


def test_other_ports_are_tried_when_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    fake_assets(tmp_path, f"echo $3 >> {tries}; echo bind: address already in use; exit 1")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(PortTaken):
        ControlPlane.start()
    assert len(set(tries.read_text().splitlines())) == 3


SPAWN_AND_WAIT = """
import pathlib, sys
from tests.support.processes import spawn
child = spawn(pathlib.Path(sys.argv[1]), {}, log=pathlib.Path(sys.argv[2])).child
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_killed_test_process_leaves_nothing_running(tmp_path: Path) -> None:
    fake_assets(tmp_path, "exec sleep 600")
    line = [sys.executable, "-c", SPAWN_AND_WAIT, str(tmp_path / "etcd"), str(tmp_path / "log")]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=ROOT, stdin=pipe, stdout=pipe) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    deadline = time.monotonic() + 10
    while is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """A zombie is not: who adopts the orphan decides when it is buried."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
