"""Pairs of old documents and what becomes of them, under tests/manifests/convert/pairs.

Each file says why it is there, what is given, and the documents, notes and faults to expect. A note
is written `0 lost spec.x: message`, where 0 is the document it is about.
"""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from wainwright.api.fault import Fault, field_path
from wainwright.api.judge import judge
from wainwright.api.kinds import known
from wainwright.manifests.convert import Conversion, convert

FOLDER = Path(__file__).parents[2] / "manifests" / "convert" / "pairs"


class Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    why: str
    given: list[Any]
    expect: list[Any]
    notes: list[str]
    faults: list[str] = []


@cache
def pairs() -> dict[str, Pair]:
    found = sorted(FOLDER.glob("*.yaml"))
    return {path.stem: _read(path) for path in found}


def _read(path: Path) -> Pair:
    return msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader), Pair)


each_pair = pytest.mark.parametrize("pair", list(pairs().values()), ids=list(pairs()))


def _notes(conversion: Conversion) -> list[str]:
    return [f"{n.document} {n.effect} {field_path(n.path)}: {n.message}" for n in conversion.notes]


def _faults(conversion: Conversion) -> list[str]:
    made = []
    for document, fault in ((misfit.document, misfit.fault) for misfit in conversion.faults):
        hint = f" ({fault.hint})" if fault.hint else ""
        made.append(f"{document} {field_path(fault.path)}: {fault.message}{hint}")
    return made


def refusals(document: dict[str, Any]) -> list[Fault]:
    """Why v1 does not take a document; one without a name is left for its author to name."""
    kind = known()[document["apiVersion"], document["kind"]]
    return [
        fault
        for fault in judge(kind, document)
        if (not fault.warning or fault.path[0] == "status") and fault.path != ("metadata", "name")
    ]


@each_pair
def test_the_documents_become_what_the_pair_expects(pair: Pair) -> None:
    assert convert(pair.given).documents == pair.expect


@each_pair
def test_the_notes_and_faults_are_those_that_the_pair_expects(pair: Pair) -> None:
    made = convert(pair.given)
    assert _notes(made) == pair.notes
    assert _faults(made) == pair.faults


@each_pair
def test_fields_are_written_in_the_order_that_the_pair_expects(pair: Pair) -> None:
    made = convert(pair.given)
    assert msgspec.json.encode(made.documents) == msgspec.json.encode(pair.expect)


@each_pair
def test_what_has_been_converted_is_accepted_as_v1(pair: Pair) -> None:
    made = convert(pair.given)
    broken = {misfit.document for misfit in made.faults}
    for origin, document in zip(made.origins, made.documents, strict=True):
        if origin not in broken and document is not pair.given[origin]:
            assert refusals(document) == []


def test_there_are_pairs_for_every_kind() -> None:
    assert len(pairs()) >= 40
    given = {(d["apiVersion"], d["kind"]) for p in pairs().values() for d in p.given if _typed(d)}
    old = {key for key, kind in known().items() if kind.family.name == "OLD"}
    assert old <= given


def _typed(document: Any) -> bool:
    return isinstance(document, dict) and "apiVersion" in document
