"""A real API server with Karpenter's own CRDs says of a manifest what `wain validate` says of it.

By default a sample of the changed manifests is judged; WAIN_MUTANTS=all (`make karpenter-crds`)
judges every one.
"""

import json
import os
import random
import re
from collections.abc import Container, Iterator
from itertools import chain
from typing import Any

import msgspec
import pytest
import yaml
from tests.integration.conftest import running
from tests.support.control_plane import ApiResponse, ControlPlane
from tests.support.karpenter_crds import karpenter_crds
from tests.support.manifest_mutants import Mutant, random_mutants, seeds, single_mutants
from tests.support.manifest_tables import TESTS, manifest_rows
from tests.support.processes import MissingTool, skip_or_fail

from wainwright.api.kubernetes.object_reader import ObjectReader
from wainwright.manifests.manifest_validation import examine_object

SAMPLE = 1200
SEED = 15
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


class AllowedDifference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    we: str
    says: str
    about: str = ""

    def accounts_for(self, verdict: "Verdict") -> bool:
        return (
            self.we == ("accept" if verdict.accepted else "reject")
            and all(re.search(self.says, text) for text in verdict.objections)
            and re.search(self.about, json.dumps(verdict.value)) is not None
        )


class Verdict(msgspec.Struct, frozen=True):
    """Our verdict on an object, and the other side's objections where it differs."""

    name: str
    value: dict[str, Any]
    accepted: bool
    objections: list[str]


ALLOWED = msgspec.convert(
    yaml.safe_load((TESTS / "manifests" / "karpenter" / "differences.yaml").read_text()),
    list[AllowedDifference],
)


@pytest.fixture(scope="module")
def karpenter_api(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """A control plane of its own: Karpenter's CRDs have the names of ours."""
    try:
        crds = karpenter_crds()
    except MissingTool as missing:
        skip_or_fail(str(missing))
    with running(pytestconfig) as plane:
        for crd in crds:
            plane.apply_crd(crd)
        yield plane


def _manifests() -> list[Mutant]:
    """Without duplicates: many changes of a value come to the same."""
    tables = (Mutant(row.name, yaml.safe_load(row.text)) for row in manifest_rows("custom"))
    whole = (Mutant(f"seed {seed['metadata']['name']}", seed) for seed in seeds())
    mutants = chain(single_mutants(), random_mutants(1000, SEED))
    changed = list({json.dumps(mutant.value): mutant for mutant in mutants}.values())
    if os.environ.get("WAIN_MUTANTS") != "all":
        changed = random.Random(SEED).sample(changed, SAMPLE)
    return [*tables, *whole, *changed]


def test_we_accept_and_reject_what_an_api_server_with_karpenters_crds_does(
    karpenter_api: ControlPlane, record_property: Any
) -> None:
    addresses = _addresses()
    manifests = [each for each in _manifests() if _kind_of(each, addresses) in addresses]
    differing = [
        verdict
        for each in manifests
        for verdict in _difference(karpenter_api, addresses[_kind_of(each, addresses)], each)
    ]
    unexplained = [
        f"{each.name}: we {'accept' if each.accepted else 'reject'}; {each.objections}"
        for each in differing
        if not any(allowed.accounts_for(each) for allowed in ALLOWED)
    ]
    record_property("judged", len(manifests))
    record_property("differing", len(differing))
    assert unexplained == [], f"{len(unexplained)} of {len(manifests)}"
    assert len(manifests) > SAMPLE


def _addresses() -> dict[str, str]:
    """Where objects of a kind are created."""
    return {
        crd["spec"]["names"]["kind"]: f"/apis/{crd['spec']['group']}/{version['name']}"
        f"/{crd['spec']['names']['plural']}"
        for crd in karpenter_crds()
        for version in crd["spec"]["versions"]
    }


def _kind_of(mutant: Mutant, known: Container[str]) -> str:
    """The kind that it was before it was changed."""
    first = mutant.name.split()[0]
    return first if first in known else str(mutant.value.get("kind"))


def _difference(api: ControlPlane, address: str, mutant: Mutant) -> Iterator[Verdict]:
    # As YAML, because that is what people write: 2.0 is a whole number in it, but not in JSON.
    body = json.dumps(mutant.value).encode()
    answer = api.request("POST", address, body=body, content_type="application/yaml", query=STRICT)
    findings = examine_object(mutant.value, ObjectReader())
    errors = [error.message for error in findings.field_errors if not error.warning]
    if (answer.status == 201) != (not errors):
        objections = errors or [_objection(answer)]
        yield Verdict(mutant.name, mutant.value, not errors, objections)


def _objection(answer: ApiResponse) -> str:
    return answer.message.replace("\n", " ")


def test_every_allowed_difference_is_explained_in_the_docs() -> None:
    text = (TESTS.parent / "docs" / "internals" / "differences.md").read_text(encoding="utf-8")
    assert [each.id for each in ALLOWED if f"| {each.id} |" not in text] == []
