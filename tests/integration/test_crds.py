"""A real API server with our CRDs says of every manifest what `wain validate` says of it."""

import json
from typing import Any

import pytest
import yaml
from tests.support.control_plane import ControlPlane
from tests.support.manifest_tables import ManifestRow, ObjectChange, manifest_rows, object_changes

from wainwright.api.kinds import (
    CUSTOM_RESOURCES,
    CustomResource,
    custom_resource_definition,
    known_kinds,
)
from wainwright.api.validation.object_validation import with_defaults
from wainwright.manifests.documents import split_documents
from wainwright.manifests.source_files import SourceFile

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
BY_KIND = {(item.api_version, item.kind): item for item in CUSTOM_RESOURCES}


def _read(text: str) -> dict[str, Any]:
    value: dict[str, Any] = next(split_documents(SourceFile("row.yaml", text))).parsed.value
    return value


def _path(item: CustomResource) -> str:
    return f"/apis/{item.api_version}/{item.plural}"


SERVED = [
    row
    for row in manifest_rows("custom")
    if (_read(row.text)["apiVersion"], _read(row.text)["kind"]) in BY_KIND
]


@pytest.mark.parametrize("row", SERVED, ids=lambda row: row.name)
def test_the_server_accepts_what_we_accept_and_fills_in_what_we_fill_in(
    row: ManifestRow, api: ControlPlane
) -> None:
    value = _read(row.text)
    item = BY_KIND[value["apiVersion"], value["kind"]]
    answer = api.request(
        "POST", _path(item), body=row.text.encode(), content_type="application/yaml", query=STRICT
    )
    assert (answer.status == 201) == row.accepted, answer.message
    if row.accepted and "error(offline)" not in row.words:
        ours = with_defaults(known_kinds()[item.api_version, item.kind], value)
        assert answer.json().get("spec") == ours.get("spec")


@pytest.mark.parametrize("row", object_changes(), ids=lambda row: row.name)
def test_the_server_judges_changes_as_we_do(row: ObjectChange, api: ControlPlane) -> None:
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
    from tests.support.manifest_tables import TESTS

    folder = TESTS.parent / "deploy" / "chart" / "crds"
    committed = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
    made = [custom_resource_definition(item) for item in CUSTOM_RESOURCES]
    assert sorted(committed, key=str) == sorted(made, key=str)
