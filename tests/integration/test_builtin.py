"""A real API server on core kinds: whatever we refuse, it refuses too."""

import json
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path as File
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support.apiclient import Response
from tests.support.builtin_rows import Row, rows
from tests.support.builtin_values import changed
from tests.support.controlplane import ControlPlane
from tests.support.tools import skip_or_fail

from wainwright.api.builtin import KINDS, check
from wainwright.api.builtin.fields import Fields, ListOf, MapOf, Shape, root
from wainwright.api.builtin.registry import CLUSTER_WIDE
from wainwright.api.fault import Fault, Path

SCRIPT = File(__file__).parents[2] / "scripts" / "make_builtin_fields.py"
NAMESPACE = "shop"
REFUSALS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.INTERNAL_SERVER_ERROR,  # admission stumbles over the class "" before it is judged
)
UNREADABLE = "cannot be handled as"
ODDITIES: tuple[Any, ...] = ("x", 1, 1.5, True, [], {}, 2**63, [[]], {"a": 1})

Steps = tuple[str, ...]


@pytest.fixture(scope="session")
def server(control_plane: ControlPlane) -> ControlPlane:
    """With a second namespace, and with what every pod needs as long as no controller runs."""
    _create(control_plane, "/api/v1/namespaces", NAMESPACE)
    for space in ("default", NAMESPACE):
        _create(control_plane, f"/api/v1/namespaces/{space}/serviceaccounts", "default")
    return control_plane


def _create(plane: ControlPlane, path: str, name: str) -> None:
    body = json.dumps({"metadata": {"name": name}}).encode()
    assert plane.request("POST", path, body=body).status in (201, 409)


def post(plane: ControlPlane, value: dict[str, Any]) -> Response:
    """Try to create the object; unknown fields are ours to warn of, so the server ignores them."""
    query = {"dryRun": "All", "fieldValidation": "Ignore"}
    return plane.request("POST", address(value), body=json.dumps(value).encode(), query=query)


def address(value: dict[str, Any]) -> str:
    version, kind = value["apiVersion"], value["kind"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
    if kind in CLUSTER_WIDE:
        return f"{group}/{plural}"
    meta = value.get("metadata")
    space = NAMESPACE if isinstance(meta, dict) and meta.get("namespace") == NAMESPACE else ""
    return f"{group}/namespaces/{space or 'default'}/{plural}"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_the_api_server_judges_a_row_as_we_do(row: Row, server: ControlPlane) -> None:
    reply = post(server, row.object)
    if row.verdict == "refused":
        assert reply.status in REFUSALS, reply.message
        if reply.status == HTTPStatus.UNPROCESSABLE_ENTITY:  # only then it names fields
            assert any(is_blamed(fault.path, reply.message) for fault in check(row.object))
    elif row.beyond:
        assert reply.status != HTTPStatus.CREATED, "the row says that an API server refuses it"
    else:
        assert reply.status == HTTPStatus.CREATED, reply.message


def is_blamed(path: Path, message: str) -> bool:
    """Whether the server's words are about this place; it names lists and maps, not their keys."""
    names = [step for step in path if isinstance(step, str)]
    return any(name in message for name in names[-2:])


@settings(
    max_examples=400,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(value=changed())
def test_what_we_refuse_of_changed_objects_the_api_server_refuses(
    server: ControlPlane, value: dict[str, Any]
) -> None:
    errors = [fault for fault in check(value) if not fault.warning]
    if errors:
        assert post(server, value).status in REFUSALS, errors


def test_the_table_of_fields_is_what_the_script_makes_today() -> None:
    command = [sys.executable, str(SCRIPT), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode == 2:
        skip_or_fail(done.stderr.strip())
    assert (done.returncode, done.stderr) == (0, "")


def test_every_field_has_the_type_that_the_api_server_decodes(server: ControlPlane) -> None:
    different = [
        (kind, steps, oddity)
        for kind, steps in places()
        for oddity in ODDITIES
        if is_readable(value := built(kind, steps, oddity)) is not is_decoded(server, value)
    ]
    assert different == []


def places() -> Iterator[tuple[tuple[str, str], Steps]]:
    """Every field of every type, once, with the way to it: [] into a list, {} into a map."""
    seen: set[str] = set()
    ahead: list[tuple[tuple[str, str], Steps, Shape]] = [(key, (), root(*key)) for key in KINDS]
    while ahead:
        kind, steps, shape = ahead.pop()
        if isinstance(shape, (ListOf, MapOf)):
            into = "[]" if isinstance(shape, ListOf) else "{}"
            ahead.append((kind, (*steps, into), shape.item))
        elif isinstance(shape, Fields) and shape.name not in seen:
            seen.add(shape.name)
            for name, inner in shape.fields.items():
                if steps or name not in ("apiVersion", "kind"):
                    yield kind, (*steps, name)
                    ahead.append((kind, (*steps, name), inner))


def built(kind: tuple[str, str], steps: Steps, value: Any) -> dict[str, Any]:
    for step in reversed(steps):
        value = [value] if step == "[]" else {"key" if step == "{}" else step: value}
    return {**value, "apiVersion": kind[0], "kind": kind[1]}


def is_readable(value: dict[str, Any]) -> bool:
    found: list[Fault] = []
    root(value["apiVersion"], value["kind"]).look(value, (), found)
    return all(fault.warning for fault in found)


def is_decoded(plane: ControlPlane, value: dict[str, Any]) -> bool:
    """Whether the API server gets past reading the value, wherever it then stops."""
    reply = post(plane, value)
    return reply.status != HTTPStatus.BAD_REQUEST or UNREADABLE not in reply.message
