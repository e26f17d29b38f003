"""Laws of the conversion: no exceptions, no loss without a note, idempotent."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.schema_values import schema_values

from wainwright.api.field_error import FieldError, FieldPath
from wainwright.api.kinds import KindFamily, known_kinds
from wainwright.api.legacy.legacy_validation import LEGACY_KINDS
from wainwright.api.validation.object_validation import validate_object
from wainwright.api.wire import object_schema
from wainwright.manifests.convert.converter import Conversion, convert_documents

Document = dict[str, Any]
relaxed = settings(
    max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)

NAMES = st.sampled_from(["a", "b", "default"])
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "maxPods": st.integers(1, 2),
        "kubeReserved": st.fixed_dictionaries({"cpu": st.sampled_from([1, "1", "2"])}),
        "evictionHard": st.just({"memory.available": "5%"}),
    },
)

ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.sampled_from([[], {}, [{}], {"a": 1}, ["a"], "", "-1", "Never"]),
)


def _body(key: tuple[str, str]) -> st.SearchStrategy[Document]:
    properties = object_schema(LEGACY_KINDS[key])["properties"]
    wanted = {name: item for name, item in properties.items() if name in ("spec", "status")}
    return schema_values({"type": "object", "properties": wanted, "required": ["spec"]})


BODIES = {key: _body(key) for key in LEGACY_KINDS}


@st.composite
def old_documents(draw: st.DrawFn) -> Document:
    """Anything that the schema of an old kind allows; rules in CEL may still refuse it."""
    version, kind = draw(st.sampled_from(list(LEGACY_KINDS)))
    head = {"apiVersion": version, "kind": kind, "metadata": {"name": draw(NAMES)}}
    return {**head, **draw(BODIES[version, kind])}


@st.composite
def pools(draw: st.DrawFn) -> Document:
    """Pools of all ages that refer to few classes and want few settings."""
    name, ref, settings = draw(st.integers(0, 99)), draw(NAMES), draw(SETTINGS)
    metadata = {"name": f"pool-{name}"}
    if draw(st.booleans()):
        spec: Document = {"providerRef": {"name": ref}, "kubeletConfiguration": settings}
        head = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner"}
        return {**head, "metadata": metadata, "spec": spec}
    spec = {"template": {"spec": {"nodeClassRef": {"name": ref}, "kubelet": settings}}}
    head = {"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool"}
    return {**head, "metadata": metadata, "spec": spec}


@st.composite
def classes(draw: st.DrawFn) -> Document:
    """Classes of all ages."""
    version, kind = draw(
        st.sampled_from(
            [
                ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
                ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"),
                ("karpenter.k8s.aws/v1", "EC2NodeClass"),
            ]
        )
    )
    spec = {"kubelet": draw(SETTINGS)} if version.endswith("/v1") else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": draw(NAMES)}, "spec": spec}


def _refusals(document: Document) -> list[FieldError]:
    found = validate_object(known_kinds()[document["apiVersion"], document["kind"]], document)
    return [
        field_error
        for field_error in found
        if not field_error.warning or field_error.path[0] == "status"
    ]


def _converted(made: Conversion) -> Iterator[tuple[int, Document]]:
    broken = {failed.document for failed in made.field_errors}
    for origin, document in zip(made.origins, made.documents, strict=True):
        if origin not in broken:
            yield origin, document


@relaxed
@given(st.lists(old_documents(), min_size=1, max_size=4))
def test_what_an_old_schema_accepts_v1_accepts_after_conversion(given: list[Document]) -> None:
    before = deepcopy(given)
    made = convert_documents(given)
    assert given == before
    for _, document in _converted(made):
        assert _refusals(document) == []


@relaxed
@given(st.lists(old_documents() | pools() | classes(), max_size=6))
def test_converting_twice_is_converting_once(given: list[Document]) -> None:
    once = convert_documents(given)
    twice = convert_documents(once.documents)
    assert twice.documents == once.documents
    if not once.field_errors:
        assert twice.notes == []


@relaxed
@given(st.data())
def test_documents_of_today_come_out_as_they_are(data: st.DataObject) -> None:
    today = [kind for kind in known_kinds().values() if kind.family is KindFamily.CUSTOM]
    kinds = data.draw(st.lists(st.sampled_from(today), max_size=3))
    given = [
        {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": data.draw(NAMES)},
            "spec": data.draw(schema_values(object_schema(kind.type)["properties"]["spec"])),
        }
        for kind in kinds
    ]
    made = convert_documents(given)
    assert [id(document) for document in made.documents] == [id(document) for document in given]
    assert made.notes == []
    assert made.field_errors == []


@relaxed
@given(st.lists(old_documents(), min_size=1, max_size=2), st.data())
def test_whatever_is_written_is_converted_or_refused_but_never_raises(
    given: list[Document], data: st.DataObject
) -> None:
    document = given[0]
    places = list(_places(document))
    path = data.draw(st.sampled_from(places))
    _put(document, path, data.draw(ANYTHING))
    for _, made in _converted(convert_documents(given)):
        if made not in given:
            assert [f for f in _refusals(made) if f.path != ("metadata", "name")] == []


def _places(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    if path:
        yield path
    if isinstance(value, dict):
        entries: Iterator[Any] = iter(value.items())
    elif isinstance(value, list):
        entries = iter(enumerate(value))
    else:
        return
    for step, inner in entries:
        yield from _places(inner, (*path, step))


def _put(document: Any, path: FieldPath, value: Any) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


RESPELT = ("apiVersion", "consolidationPolicy", "volumeSize")
"""Fields whose value v1 spells in another way; the table of fields says in which."""


@relaxed
@given(st.lists(old_documents(), min_size=1, max_size=3))
def test_a_text_of_an_old_document_is_in_the_new_ones_or_in_a_note(given: list[Document]) -> None:
    made = convert_documents(given)
    broken = {failed.document for failed in made.field_errors}
    new = {str(text) for document in made.documents for _, text in _texts(document)}
    for index, document in enumerate(given):
        for path, text in _texts(document.get("spec")):
            place = ("spec", *path)
            kept = not text or text in new or text.strip() in new  # selectors lose outer blanks
            if index not in broken and not kept and place[-1] not in RESPELT:
                notes = [note for note in made.notes if note.document == index]
                assert any(
                    note.path == place[: len(note.path)] or f" {text} " in note.message
                    for note in notes
                ), (place, text)


def _texts(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(value, str):
        yield path, value
    for place in _places(value):
        inner = value
        for step in place:
            inner = inner[step]
        if isinstance(inner, str):
            yield (*path, *place), inner


@relaxed
@given(st.lists(pools(), max_size=5), st.lists(classes(), max_size=3, unique_by=str), st.data())
def test_every_pool_gets_the_kubelet_settings_that_it_had(
    pools: list[Document], classes: list[Document], data: st.DataObject
) -> None:
    unique = {pool["metadata"]["name"]: pool for pool in pools}
    named = {one["metadata"]["name"]: one for one in classes}
    given = data.draw(st.permutations([*unique.values(), *named.values()]))
    made = convert_documents(given)
    assert made.field_errors == []
    found = {
        document["metadata"]["name"]: document["spec"]
        for document in made.documents
        if document["kind"] == "EC2NodeClass"
    }
    for origin, document in zip(made.origins, made.documents, strict=True):
        if document["kind"] == "NodePool":
            ref = document["spec"]["template"]["spec"]["nodeClassRef"]["name"]
            _compare(_wanted(given[origin]), found.get(ref), named.get(ref))


def _wanted(pool: Document) -> Document:
    if pool["kind"] == "Provisioner":
        settings = pool["spec"]["kubeletConfiguration"]
    else:
        settings = pool["spec"]["template"]["spec"]["kubelet"]
    made = dict(settings)
    if "kubeReserved" in made:
        made["kubeReserved"] = {"cpu": str(made["kubeReserved"]["cpu"])}
    return made


def _compare(wanted: Document, spec: Document | None, given: Document | None) -> None:
    """Settings are exactly there; a pool without any keeps to the class as it was."""
    if wanted:
        assert spec is not None
        assert spec["kubelet"] == wanted
    elif spec is not None and given is not None:
        assert spec.get("kubelet", {}) == given["spec"].get("kubelet", {})
