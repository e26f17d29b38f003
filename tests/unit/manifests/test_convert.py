"""Conversion of legacy kinds: rules beyond the pairs of documents."""

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from pathlib import Path as File
from typing import Any

import msgspec
import pytest
import yaml

from wainwright.api.field_error import FieldError, FieldPath, format_field_path
from wainwright.api.kinds import known_kinds
from wainwright.api.legacy.legacy_validation import LEGACY_KINDS
from wainwright.api.validation.metadata_validation import METADATA_FIELDS
from wainwright.api.validation.object_validation import validate_object
from wainwright.api.wire import Schema, object_schema
from wainwright.manifests.convert.converter import Conversion, ConversionError, convert_documents
from wainwright.translate.disruption import format_duration

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}


def provisioner(name: str = "web", **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def node_template(name: str = "shared", **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def test_no_documents_convert_to_no_documents() -> None:
    assert convert_documents([]) == Conversion(documents=[], origins=[], notes=[], field_errors=[])


def test_what_is_not_old_is_the_very_same_object() -> None:
    assert convert_documents([POD, None, "text"]).documents[0] is POD


def test_the_input_is_not_touched() -> None:
    given = [
        provisioner(providerRef={"name": "shared"}, kubeletConfiguration={"maxPods": 20}),
        node_template(amiFamily="Ubuntu", blockDeviceMappings=[{"ebs": {"volumeSize": 1}}]),
    ]
    before = deepcopy(given)
    convert_documents(given)
    assert given == before


def test_the_documents_made_share_no_part_with_each_other() -> None:
    made = convert_documents(
        [
            node_template(amiFamily="Ubuntu", subnetSelector={"a": "b"}),
            node_template("other", amiFamily="Ubuntu"),
            provisioner("a", providerRef={"name": "shared"}, kubeletConfiguration={"maxPods": 1}),
            provisioner("b", providerRef={"name": "shared"}, kubeletConfiguration={"maxPods": 2}),
        ]
    ).documents
    parts = [id(part) for document in made for part in _parts(document)]
    assert len(parts) == len(set(parts))


def _parts(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, (dict, list)) else []
    return own + [part for item in inner for part in _parts(item)]


def test_what_stands_beside_an_id_in_a_term_is_dropped_with_a_note() -> None:
    spec = {
        "amiFamily": "AL2",
        "role": "r",
        "subnetSelectorTerms": [{"id": "subnet-1", "tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"name": "a"}, {"id": "sg-1", "name": "b"}],
    }
    head = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass"}
    made = convert_documents([{**head, "metadata": {"name": "web"}, "spec": spec}])
    converted = made.documents[0]["spec"]
    assert converted["securityGroupSelectorTerms"] == [{"name": "a"}, {"id": "sg-1"}]
    assert converted["subnetSelectorTerms"] == [{"id": "subnet-1"}]
    assert any("selects by id" in str(note) for note in made.notes)


def test_origins_tell_which_document_each_one_comes_from() -> None:
    made = convert_documents([POD, provisioner(provider={}), POD])
    assert [document["kind"] for document in made.documents] == [
        "Pod",
        "NodePool",
        "EC2NodeClass",
        "Pod",
    ]
    assert made.origins == [0, 1, 1, 2]


def test_a_fault_in_one_document_leaves_it_and_converts_the_others() -> None:
    broken = provisioner(weight="ten")
    made = convert_documents([broken, node_template()])
    assert made.documents[0] is broken
    assert made.documents[1]["apiVersion"] == "karpenter.k8s.aws/v1"
    assert [(failed.document, failed.field_error.path) for failed in made.field_errors] == [
        (0, ("spec", "weight"))
    ]


@pytest.mark.parametrize("depth", [200, 5000])
def test_deep_nesting_is_a_fault_and_no_traceback(depth: int) -> None:
    deep: Any = "x"
    for _ in range(depth):
        deep = {"evictionThreshold": deep}
    found = convert_documents([provisioner(kubeletConfiguration=deep)]).field_errors
    assert [type(failed) for failed in found] == [ConversionError]


def test_a_huge_product_of_alternatives_is_cut_without_being_computed() -> None:
    many = ",".join(str(number) for number in range(1000))
    tags = {f"tag-{number}": many for number in range(19)}
    made = convert_documents(
        [node_template(subnetSelector=tags, amiSelector={**tags, "aws::name": many})]
    )
    spec = made.documents[0]["spec"]
    assert len(spec["subnetSelectorTerms"]) == len(spec["amiSelectorTerms"]) == 30


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (3601, "1h1s"), (5400, "1h30m"), (2592000, "720h")],
)
def test_seconds_are_written_as_a_duration(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_copy_of_a_class_has_a_name_that_fits() -> None:
    long = "a" * 250
    ref, settings = {"name": long}, {"maxPods": 1}
    pools = [
        provisioner(name * 250, providerRef=ref, kubeletConfiguration=settings) for name in "bc"
    ]
    made = convert_documents(pools).documents
    names = [document["metadata"]["name"] for document in made if document["kind"] != "NodePool"]
    assert len(set(names)) == 2
    assert max(len(name) for name in names) <= 253


FIELDS_FOLDER = File(__file__).parents[2] / "manifests" / "convert" / "fields"
METADATA: Schema = {"type": "object", "properties": {name: {} for name in METADATA_FIELDS}}


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: str
    is_: str = msgspec.field(name="is")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    inputs: list[list[dict[str, Any]]]
    fields: dict[str, str | Place]

    @property
    def schema(self) -> Schema:
        version, _, kind = self.kind.partition(" ")
        root = object_schema(LEGACY_KINDS[version, kind])
        return {**root, "properties": {**root["properties"], "metadata": METADATA}}

    def row(self, field: str) -> str:
        fitting = [row for row in self.fields if re.match(rf"{re.escape(row)}($|[.\[{{])", field)]
        return max(fitting, key=len, default="")


@cache
def tables() -> dict[str, Table]:
    return {path.stem: _read_table(path) for path in sorted(FIELDS_FOLDER.glob("*.yaml"))}


def _read_table(path: File) -> Table:
    return msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader), Table)


def _fields(schema: Schema, name: str = "") -> Iterator[str]:
    """Every field that holds a value: `[]` stands for an index and `{}` for a key of the user's."""
    inner = [
        *((item, f"{name}.{key}".strip(".")) for key, item in schema.get("properties", {}).items()),
        *((schema[key], name + mark) for key, mark in MARKS.items() if key in schema),
    ]
    for item, field in inner:
        yield from _fields(item, field)
    if not inner:
        yield name


MARKS = {"additionalProperties": "{}", "items": "[]"}


def _values(
    value: Any, schema: Schema, name: str = "", path: FieldPath = ()
) -> Iterator[tuple[str, FieldPath, Any]]:
    """Every value of a document with the name and the path of its field."""
    properties = schema.get("properties", {})
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _values(item, schema["items"], f"{name}[]", (*path, index))
    elif isinstance(value, dict) and (properties or "additionalProperties" in schema):
        for key, item in value.items():
            known = key in properties
            inner = properties[key] if known else schema["additionalProperties"]
            field = f"{name}.{key}".strip(".") if known else f"{name}{{}}"
            yield from _values(item, inner, field, (*path, key))
    else:
        yield name, path, value


def _cases() -> Iterator[Any]:
    for stem, table in tables().items():
        for number, documents in enumerate(table.inputs):
            for field, path, value in _values(documents[0], table.schema):
                yield pytest.param(
                    table, number, field, path, value, id=f"{stem}-{number}-{field}-{path[-1]}"
                )


@pytest.mark.parametrize(("table", "number", "field", "path", "value"), list(_cases()))
def test_a_value_is_visible_in_v1_or_spoken_of_in_a_note(
    table: Table, number: int, field: str, path: FieldPath, value: Any
) -> None:
    row = table.row(field)
    target = table.fields[row]
    made = _converted(table.kind, number)
    if isinstance(target, Place):
        assert _at(made, target.at, ()) == target.is_
    elif "/" in target:
        assert str(_at(made, target, path[len(_steps(row)) :])) == str(value)
    else:
        assert _is_noted(made, target, path)


def _steps(row: str) -> list[str]:
    return row.replace("[]", ".[]").replace("{}", ".{}").split(".")


@cache
def _converted(kind: str, number: int) -> Conversion:
    table = next(table for table in tables().values() if table.kind == kind)
    made = convert_documents(table.inputs[number])
    assert made.field_errors == []
    return made


def _at(made: Conversion, target: str, rest: FieldPath) -> Any:
    kind, *steps = target.split("/")
    found: Any = next(document for document in made.documents if document["kind"] == kind)
    for step in [*steps, *rest]:
        found = found[int(step) if isinstance(found, list) else step]
    return found


def _is_noted(made: Conversion, effect: str, path: FieldPath) -> bool:
    """Fields that servers set have one note for all of them, by name."""
    return any(
        note.document == 0
        and note.effect == effect
        and note.path == path[: len(note.path)]
        and (note.path != ("metadata",) or str(path[1]) in note.message)
        for note in made.notes
    )


@pytest.mark.parametrize("table", list(tables().values()), ids=list(tables()))
def test_the_inputs_of_a_table_set_every_field_of_the_kind(table: Table) -> None:
    documents = [documents[0] for documents in table.inputs]
    given = {field for document in documents for field, _, _ in _values(document, table.schema)}
    assert given == set(_fields(table.schema))


@pytest.mark.parametrize("table", list(tables().values()), ids=list(tables()))
def test_every_row_of_a_table_is_used(table: Table) -> None:
    assert {table.row(field) for field in _fields(table.schema)} == set(table.fields)


def test_every_old_kind_has_a_table() -> None:
    assert {table.kind for table in tables().values()} == {f"{v} {k}" for v, k in LEGACY_KINDS}


PAIRS_FOLDER = Path(__file__).parents[2] / "manifests" / "convert" / "pairs"


class Pair(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    why: str
    given: list[Any]
    expect: list[Any]
    notes: list[str]
    field_errors: list[str] = msgspec.field(default_factory=list, name="faults")


@cache
def pairs() -> dict[str, Pair]:
    found = sorted(PAIRS_FOLDER.glob("*.yaml"))
    return {path.stem: _read_pair(path) for path in found}


def _read_pair(path: Path) -> Pair:
    return msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader), Pair)


each_pair = pytest.mark.parametrize("pair", list(pairs().values()), ids=list(pairs()))


def _note_lines(conversion: Conversion) -> list[str]:
    return [
        f"{n.document} {n.effect} {format_field_path(n.path)}: {n.message}"
        for n in conversion.notes
    ]


def _error_lines(conversion: Conversion) -> list[str]:
    made = []
    for document, field_error in (
        (failed.document, failed.field_error) for failed in conversion.field_errors
    ):
        hint = f" ({field_error.hint})" if field_error.hint else ""
        made.append(
            f"{document} {format_field_path(field_error.path)}: {field_error.message}{hint}"
        )
    return made


def refusals(document: dict[str, Any]) -> list[FieldError]:
    """Why v1 rejects a document; a missing name is allowed."""
    kind = known_kinds()[document["apiVersion"], document["kind"]]
    return [
        field_error
        for field_error in validate_object(kind, document)
        if (not field_error.warning or field_error.path[0] == "status")
        and field_error.path != ("metadata", "name")
    ]


@each_pair
def test_the_documents_become_what_the_pair_expects(pair: Pair) -> None:
    assert convert_documents(pair.given).documents == pair.expect


@each_pair
def test_the_notes_and_faults_are_those_that_the_pair_expects(pair: Pair) -> None:
    made = convert_documents(pair.given)
    assert _note_lines(made) == pair.notes
    assert _error_lines(made) == pair.field_errors


@each_pair
def test_fields_are_written_in_the_order_that_the_pair_expects(pair: Pair) -> None:
    made = convert_documents(pair.given)
    assert msgspec.json.encode(made.documents) == msgspec.json.encode(pair.expect)


@each_pair
def test_what_has_been_converted_is_accepted_as_v1(pair: Pair) -> None:
    made = convert_documents(pair.given)
    broken = {failed.document for failed in made.field_errors}
    for origin, document in zip(made.origins, made.documents, strict=True):
        if origin not in broken and document is not pair.given[origin]:
            assert refusals(document) == []


def test_there_are_pairs_for_every_kind() -> None:
    assert len(pairs()) >= 40
    given = {(d["apiVersion"], d["kind"]) for p in pairs().values() for d in p.given if _typed(d)}
    old = {key for key, kind in known_kinds().items() if kind.family.name == "OLD"}
    assert old <= given


def _typed(document: Any) -> bool:
    return isinstance(document, dict) and "apiVersion" in document


def test_what_is_constrained_in_labels_or_by_an_old_name_is_not_implied() -> None:
    old = provisioner(
        labels={"karpenter.sh/capacity-type": "spot"},
        requirements=[{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]}],
    )
    spec = convert_documents([old]).documents[0]["spec"]["template"]["spec"]
    assert [each["key"] for each in spec["requirements"]] == [
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/instance-generation",
    ]


def test_instance_types_with_one_real_name_among_them_stay_instance_types() -> None:
    mixed = {"key": "node.kubernetes.io/instance-type", "operator": "In"}
    old = provisioner(requirements=[{**mixed, "values": ["g5", "m5.large"]}])
    spec = convert_documents([old]).documents[0]["spec"]["template"]["spec"]
    assert spec["requirements"][0]["key"] == "node.kubernetes.io/instance-type"
