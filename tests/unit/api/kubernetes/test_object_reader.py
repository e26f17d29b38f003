"""Reading objects of core kinds: what is shared, what null means, what is left after mistakes."""

from typing import Any

import msgspec
import pytest

from wainwright.api.field_error import FieldError
from wainwright.api.kubernetes.cluster import PriorityClass
from wainwright.api.kubernetes.meta import to_quantities
from wainwright.api.kubernetes.object_reader import (
    KUBERNETES_KINDS,
    ObjectReader,
    decode_object,
    validate_kubernetes_object,
)
from wainwright.api.kubernetes.storage import StorageClass
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.quantity import parse_quantity


def pod(name: str = "web", **spec: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def read(value: dict[str, Any]) -> tuple[Pod, list[FieldError]]:
    made, found = ObjectReader().read(value)
    assert isinstance(made, Pod)
    return made, found


def test_equal_specs_share_one_struct() -> None:
    reader = ObjectReader()
    first, second = reader.read(pod("a"))[0], reader.read(pod("b"))[0]
    assert isinstance(first, Pod)
    assert isinstance(second, Pod)
    assert first.spec is second.spec
    assert (first.metadata.name, second.metadata.name) == ("a", "b")


def test_different_specs_do_not() -> None:
    reader = ObjectReader()
    first, _ = reader.read(pod(priority=1))
    second, _ = reader.read(pod(priority=2))
    assert first != second


def test_errors_of_a_shared_spec_are_reported_for_every_object() -> None:
    reader = ObjectReader()
    results = [reader.read(pod(name, nodeName="No!"))[1] for name in ("a", "b")]
    assert results[0] == results[1]
    assert [field_error.path for field_error in results[0]] == [("spec", "nodeName")]


def test_a_number_is_not_taken_for_the_text_or_truth_that_it_resembles() -> None:
    reader = ObjectReader()
    verdicts = [bool(reader.read(pod(priority=value))[1]) for value in (1, "1", True, 1.5)]
    assert verdicts == [False, True, True, True]


def test_the_same_spec_of_two_kinds_is_not_mixed_up() -> None:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": {}}
    reader = ObjectReader()
    made = [
        reader.read({"apiVersion": "apps/v1", "kind": kind, "metadata": {}, "spec": spec})[0]
        for kind in ("Deployment", "DaemonSet", "StatefulSet")
    ]
    assert [type(one).__name__ for one in made] == ["Deployment", "DaemonSet", "StatefulSet"]
    assert len({type(getattr(one, "spec")) for one in made}) == 3  # noqa: B009


@pytest.mark.parametrize("value", [2**80, "\ud800", {"deep": 2**80}])
def test_what_cannot_be_remembered_is_still_read(value: object) -> None:
    _, found = read(pod(priorityClass=value))
    assert [field_error.message for field_error in found] == ["unknown field"]


def test_null_means_absent_everywhere() -> None:
    nulls = {
        **pod(nodeName=None, hostNetwork=None, affinity={"podAffinity": None}, tolerations=None),
        "status": None,
    }
    made, found = read(nulls)
    assert found == []
    assert (made.spec.nodeName, made.spec.hostNetwork, made.spec.tolerations) == ("", False, None)


def test_a_null_in_a_map_of_texts_is_the_empty_text() -> None:
    made, _ = read(pod(nodeSelector={"dedicated": None, "zone": "a"}))
    assert made.spec.nodeSelector == {"dedicated": "", "zone": "a"}


def test_a_null_in_a_list_keeps_its_place() -> None:
    terms = {"nodeSelectorTerms": [None, {"matchFields": None}]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    made, found = read(pod(affinity={"nodeAffinity": rule}))
    assert found == []
    assert made.spec.affinity is not None
    assert made.spec.affinity.nodeAffinity is not None
    selector = made.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    assert selector is not None
    assert len(selector.nodeSelectorTerms or ()) == 2


def test_a_float_without_a_fraction_is_the_whole_number() -> None:
    made, found = read(pod(terminationGracePeriodSeconds=30.0))
    assert (found, made.spec.terminationGracePeriodSeconds) == ([], 30)


def test_amounts_are_read_exactly_however_written() -> None:
    requests = {"cpu": 0.5, "memory": " 1Gi ", "ephemeral-storage": 10**9}
    made, found = read(pod(containers=[{"name": "main", "resources": {"requests": requests}}]))
    assert found == []
    assert made.spec.containers is not None
    wanted = {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1G"}
    assert to_quantities(made.spec.containers[0].resources.requests) == {
        k: parse_quantity(v) for k, v in wanted.items()
    }


def test_what_could_not_be_read_is_left_out_and_the_rest_is_there() -> None:
    made, found = read(pod(priority="high", nodeName="node-a", nodeSelector={"cores": 4}))
    assert [field_error.path[1] for field_error in found] == ["priority", "nodeSelector"]
    assert (made.spec.priority, made.spec.nodeName) == (None, "node-a")


def test_a_mistake_in_one_place_does_not_hide_one_in_another() -> None:
    _, found = read(pod(hostNetwork="no", nodeName="No!", nodeSelector={"a": 1, "b": "c d"}))
    assert {field_error.path for field_error in found} == {
        ("spec", "hostNetwork"),
        ("spec", "nodeName"),
        ("spec", "nodeSelector", "a"),
        ("spec", "nodeSelector", "b"),
    }


def test_a_reference_to_an_unknown_owner_does_not_stop_the_reading() -> None:
    value = pod()
    whole = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}
    value["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet"}, whole]
    made, found = read(value)
    assert [owner.name for owner in made.metadata.ownerReferences or ()] == ["web"]
    assert len(found) == 3


def test_the_same_controller_twice_is_one() -> None:
    value = pod()
    owner = {"apiVersion": "apps/v1", "kind": "A", "name": "a", "uid": "1", "controller": True}
    value["metadata"]["ownerReferences"] = [owner, dict(owner)]
    assert validate_kubernetes_object(value) == []


def test_annotations_have_a_size_together() -> None:
    value = pod()
    value["metadata"]["annotations"] = {"a": "x" * 200_000, "b": "é" * 31_072}
    assert [field_error.path for field_error in validate_kubernetes_object(value)] == [
        ("metadata", "annotations")
    ]
    value["metadata"]["annotations"] = {"a": "x" * 200_000, "b": "é" * 31_071}
    assert validate_kubernetes_object(value) == []


def test_kinds_without_a_spec_are_read_whole() -> None:
    value = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    made, found = ObjectReader().read({**value, "metadata": {"name": "high"}})
    assert found == []
    assert isinstance(made, PriorityClass)
    assert (made.metadata.name, made.value) == ("high", 7)


def test_errors_of_kinds_without_a_spec_are_reported_with_those_of_their_metadata() -> None:
    value = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "volumeBindingMode": 1}
    made, found = ObjectReader().read({**value, "metadata": {"name": "No!"}})
    assert isinstance(made, StorageClass)
    assert [field_error.path for field_error in found] == [
        ("metadata", "name"),
        ("volumeBindingMode",),
        ("provisioner",),
    ]


def test_decoding_needs_no_check() -> None:
    made = decode_object(pod(nodeName="No!"))
    assert isinstance(made, Pod)
    assert made.spec.nodeName == "No!"


def test_decoding_takes_nulls_too() -> None:
    made = decode_object(pod(nodeName=None))
    assert isinstance(made, Pod)
    assert made.spec.nodeName == ""


@pytest.mark.parametrize("key", KUBERNETES_KINDS)
def test_an_object_of_any_kind_with_nothing_in_it_is_read(key: tuple[str, str]) -> None:
    made, found = ObjectReader().read({"apiVersion": key[0], "kind": key[1]})
    assert ("metadata", "name") in [field_error.path for field_error in found]
    kind = KUBERNETES_KINDS[key]
    assert made == kind(**{field: getattr(kind(), field) for field in kind.__struct_fields__})


def test_structs_print_as_they_were_read() -> None:
    value = pod(tolerations=[{"key": "gpu", "operator": "Exists"}], priority=0)
    assert msgspec.to_builtins(read(value)[0].spec) == {
        "containers": [{"name": "main"}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "priority": 0,
    }
