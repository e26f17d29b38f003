"""A real API server with our CRDs says of every manifest what `wain validate` says of it."""

import json
from typing import Any

import pytest
import yaml
from tests.support.controlplane import ControlPlane
from tests.support.table import Change, Row, changes, rows

from wainwright.api.crd import DEFINITIONS, Definition, definition
from wainwright.api.judge import completed
from wainwright.api.kinds import known
from wainwright.manifests.document import documents
from wainwright.manifests.files import Source

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
BY_KIND = {(item.api_version, item.kind): item for item in DEFINITIONS}


def _read(text: str) -> dict[str, Any]:
    value: dict[str, Any] = next(documents(Source("row.yaml", text))).text.value
    return value


def _path(item: Definition) -> str:
    return f"/apis/{item.api_version}/{item.plural}"


SERVED = [
    row
    for row in rows("custom")
    if (_read(row.text)["apiVersion"], _read(row.text)["kind"]) in BY_KIND
]


@pytest.mark.parametrize("row", SERVED, ids=lambda row: row.name)
def test_the_server_accepts_what_we_accept_and_fills_in_what_we_fill_in(
    row: Row, api: ControlPlane
) -> None:
    value = _read(row.text)
    item = BY_KIND[value["apiVersion"], value["kind"]]
    answer = api.request(
        "POST", _path(item), body=row.text.encode(), content_type="application/yaml", query=STRICT
    )
    assert (answer.status == 201) == row.accepted, answer.message
    if row.accepted and "error(offline)" not in row.words:
        ours = completed(known()[item.api_version, item.kind], value)
        assert answer.json()["spec"] == ours["spec"]


@pytest.mark.parametrize("row", changes(), ids=lambda row: row.name)
def test_the_server_judges_changes_as_we_do(row: Change, api: ControlPlane) -> None:
    item = BY_KIND[row.old["apiVersion"], row.old["kind"]]
    created = api.request("POST", _path(item), body=json.dumps(row.old).encode())
    assert created.status == 201, created.message
    name = f"{_path(item)}/{row.old['metadata']['name']}"
    version = created.json()["metadata"]["resourceVersion"]
    new = {**row.new, "metadata": {**row.new["metadata"], "resourceVersion": version}}
    try:
        answer = api.request("PUT", name, body=json.dumps(new).encode(), query=STRICT)
        assert (answer.status == 200) == (not row.errors), answer.message
    finally:
        api.request("DELETE", name)


def test_the_committed_crds_are_the_ones_that_were_tested() -> None:
    from tests.support.table import TESTS

    folder = TESTS.parent / "deploy" / "crds"
    committed = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
    made = [definition(item) for item in DEFINITIONS]
    assert sorted(committed, key=str) == sorted(made, key=str)
