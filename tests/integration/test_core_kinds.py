"""A real API server on core kinds: whatever we reject, it rejects too."""

import json
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path as File
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support.control_plane import ApiResponse, ControlPlane
from tests.support.core_kinds import CoreKindRow, changed_objects, core_kind_rows
from tests.support.processes import skip_or_fail

from wainwright.api.field_error import FieldError, FieldPath
from wainwright.api.kubernetes.field_types import (
    FieldType,
    ListFieldType,
    MapFieldType,
    ObjectFieldType,
    kind_type,
)
from wainwright.api.kubernetes.label_validation import CLUSTER_SCOPED_KINDS
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS, validate_kubernetes_object

SCRIPT = File(__file__).parents[2] / "scripts" / "make_field_types.py"
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


def post(plane: ControlPlane, value: dict[str, Any]) -> ApiResponse:
    """Try to create the object; unknown fields are ours to warn of, so the server ignores them."""
    query = {"dryRun": "All", "fieldValidation": "Ignore"}
    return plane.request("POST", address(value), body=json.dumps(value).encode(), query=query)


def address(value: dict[str, Any]) -> str:
    version, kind = value["apiVersion"], value["kind"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
    if kind in CLUSTER_SCOPED_KINDS:
        return f"{group}/{plural}"
    meta = value.get("metadata")
    space = NAMESPACE if isinstance(meta, dict) and meta.get("namespace") == NAMESPACE else ""
    return f"{group}/namespaces/{space or 'default'}/{plural}"


@pytest.mark.parametrize("row", core_kind_rows(), ids=lambda row: row.name)
def test_the_api_server_judges_a_row_as_we_do(row: CoreKindRow, server: ControlPlane) -> None:
    reply = post(server, row.object)
    if row.verdict == "refused":
        assert reply.status in REFUSALS, reply.message
        if reply.status == HTTPStatus.UNPROCESSABLE_ENTITY:  # only then it names fields
            assert any(
                is_blamed(field_error.path, reply.message)
                for field_error in validate_kubernetes_object(row.object)
            )
    elif row.beyond:
        assert reply.status != HTTPStatus.CREATED, "the row says that an API server refuses it"
    else:
        assert reply.status == HTTPStatus.CREATED, reply.message


def is_blamed(path: FieldPath, message: str) -> bool:
    """Whether the server's words are about this place; it names lists and maps, not their keys."""
    names = [step for step in path if isinstance(step, str)]
    return any(name in message for name in names[-2:])


@settings(
    max_examples=400,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(value=changed_objects())
def test_what_we_refuse_of_changed_objects_the_api_server_refuses(
    server: ControlPlane, value: dict[str, Any]
) -> None:
    errors = [
        field_error for field_error in validate_kubernetes_object(value) if not field_error.warning
    ]
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
    ahead: list[tuple[tuple[str, str], Steps, FieldType]] = [
        (key, (), kind_type(*key)) for key in KUBERNETES_KINDS
    ]
    while ahead:
        kind, steps, shape = ahead.pop()
        if isinstance(shape, (ListFieldType, MapFieldType)):
            into = "[]" if isinstance(shape, ListFieldType) else "{}"
            ahead.append((kind, (*steps, into), shape.item))
        elif isinstance(shape, ObjectFieldType) and shape.name not in seen:
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
    found: list[FieldError] = []
    kind_type(value["apiVersion"], value["kind"]).check_type(value, (), found)
    return all(field_error.warning for field_error in found)


def is_decoded(plane: ControlPlane, value: dict[str, Any]) -> bool:
    """Whether the API server gets past reading the value, wherever it then stops."""
    reply = post(plane, value)
    return reply.status != HTTPStatus.BAD_REQUEST or UNREADABLE not in reply.message
