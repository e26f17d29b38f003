"""The input of the offline commands: typed and complete objects with notes, or problems."""

from pathlib import Path

import pytest

from wainwright.api.kubernetes.workloads import Pod
from wainwright.manifests.cluster_manifests import (
    ClusterManifests,
    default_node_class,
    read_manifests,
)
from wainwright.manifests.problems import InvalidInput

SHORT_POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: web}
spec:
  requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [reserved]}
"""
SHORT_CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: odcr}
spec:
  capacityReservationSelectorTerms: [{id: cr-1}]
"""
CLOUD = """\
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
metadata: {name: %s}
spec: {region: us-west-2}
"""
PROVISIONER = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: old}
spec: {weight: 10}
"""


def manifests(path: Path, *documents: str, cloud: str | None = None) -> ClusterManifests:
    file = path / "input.yaml"
    file.write_text("---\n".join(documents))
    return read_manifests([str(file)], cloud=cloud)


def test_short_forms_are_spelt_out_with_a_note(tmp_path: Path) -> None:
    found = manifests(tmp_path, SHORT_POOL)
    [pool] = found.pools
    assert pool.spec.template.spec.requirements[0].values == ["reserved"]
    assert pool.spec.template.spec.nodeClassRef.name == "default"
    assert [note.line for note in found.other_notes] == [5, 4]
    assert found.other_notes[0].message == "short form: read as spec.template.spec.requirements"


def test_pools_without_a_name_get_names_that_nobody_has(tmp_path: Path) -> None:
    nameless = SHORT_POOL.replace("metadata: {name: web}\n", "")
    found = manifests(tmp_path, nameless, SHORT_POOL.replace("web", "default"), nameless)
    assert [pool.metadata.name for pool in found.pools] == ["default-2", "default", "default-3"]
    assert "short form: no name: default-2 is used" in [note.message for note in found.other_notes]


def test_disruption_without_consolidate_after_is_filled_in_with_a_note(tmp_path: Path) -> None:
    found = manifests(tmp_path, f"{SHORT_POOL}  disruption: {{consolidationPolicy: WhenEmpty}}\n")
    [pool] = found.pools
    assert pool.spec.disruption.consolidateAfter == "0s"
    assert "short form: no consolidateAfter: 0s is used" in [
        note.message for note in found.other_notes
    ]


def test_a_class_without_spec_is_filled_in_with_a_note(tmp_path: Path) -> None:
    found = manifests(tmp_path, SHORT_CLASS.partition("spec:")[0])
    [node_class] = found.classes
    assert node_class.spec.amiSelectorTerms[0].alias == "al2023@latest"
    assert [note.message.partition(":")[0] for note in found.other_notes] == ["short form"]


def test_the_only_class_of_the_input_is_the_pools(tmp_path: Path) -> None:
    found = manifests(tmp_path, SHORT_POOL, SHORT_CLASS)
    kind = found.class_of(found.pools[0])
    assert kind.metadata.name == "odcr"
    assert kind.spec.amiSelectorTerms[0].alias == "al2023@latest"


def test_a_class_that_is_not_in_the_input_is_the_default_one(tmp_path: Path) -> None:
    found = manifests(tmp_path, SHORT_POOL)
    assert found.class_of(found.pools[0]) == default_node_class()


def test_an_error_in_a_short_form_is_reported_where_it_was_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        manifests(tmp_path, SHORT_POOL.replace("In,", "Is,"))
    [error] = refused.value.report.errors
    assert (error.line, error.path) == (6, "spec.requirements[0].operator")


def test_defaults_are_filled_in(tmp_path: Path) -> None:
    [pool] = manifests(tmp_path, SHORT_POOL).pools
    assert pool.spec.disruption.budgets[0].nodes == "10%"
    assert pool.spec.template.spec.expireAfter == "720h"


def test_old_kinds_are_converted_with_notes(tmp_path: Path) -> None:
    found = manifests(tmp_path, PROVISIONER)
    [pool] = found.pools
    assert (pool.metadata.name, pool.spec.weight) == ("old", 10)
    assert found.notes


def test_a_mistake_in_an_old_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        manifests(tmp_path, PROVISIONER.replace("weight: 10", "weight: heavy"))
    assert refused.value.report.errors[0].path == "spec.weight"


def test_core_kinds_are_typed(tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n"
    [item] = manifests(tmp_path, pod).all(Pod)
    assert item.metadata.name == "a"


def test_two_clouds_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        manifests(tmp_path, CLOUD % "a", CLOUD % "b")
    first, second = refused.value.report.errors
    assert (
        first.message
        == f"the input has 2 Clouds, but only one can be used; another is at {second.where}"
    )
    assert second.message.endswith(f"another is at {first.where}")


def test_a_cloud_by_flag_replaces_the_inputs(tmp_path: Path) -> None:
    other = tmp_path / "cloud.txt"
    other.write_text((CLOUD % "b").replace("us-west-2", "eu-west-1"))
    found = manifests(tmp_path, CLOUD % "a", cloud=str(other))
    assert found.cloud is not None
    assert found.cloud.spec.region == "eu-west-1"
    assert "which was named on the command line" in found.notes[0].message


def test_a_flag_that_names_a_file_without_a_cloud_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "cloud.txt"
    other.write_text(SHORT_CLASS)
    with pytest.raises(InvalidInput) as refused:
        manifests(tmp_path, SHORT_POOL, cloud=str(other))
    assert refused.value.report.errors[0].message == "there is no Cloud in this file"


def test_of_an_object_that_is_there_twice_the_later_counts(tmp_path: Path) -> None:
    for name, weight in (("a.yaml", 1), ("b.yaml", 2), ("c.yaml", 3)):
        (tmp_path / name).write_text(f"{SHORT_POOL}  weight: {weight}\n")
    found = read_manifests([str(tmp_path)])
    assert [pool.spec.weight for pool in found.pools] == [3]
    places = [(note.where, note.message) for note in found.notes if "is also in" in note.message]
    assert [place for place, _ in places] == [
        str(tmp_path / "b.yaml:3"),
        str(tmp_path / "c.yaml:3"),
    ]
    assert f"NodePool web is also in {tmp_path / 'b.yaml'}, line 1" in places[1][1]


def test_of_equal_keys_the_last_counts_with_a_note(tmp_path: Path) -> None:
    found = manifests(tmp_path, f"{SHORT_POOL}  weight: 1\n  weight: 2\n")
    assert [pool.spec.weight for pool in found.pools] == [2]
    assert [note.line for note in found.notes if "is there twice" in note.message] == [8]


UNKNOWN_FIELDS = {
    "in a spec": (
        SHORT_POOL + "  template: {spec: {kubelet: {maxPods: 10}}}\n",
        "spec.template.spec.kubelet",
    ),
    "in the metadata": (SHORT_POOL.replace("name: web", "name: web, lable: a"), "metadata.lable"),
    "in a status": (SHORT_POOL + "status: {nodes: 1, colour: red}\n", "status.colour"),
    "in an old kind": (PROVISIONER.replace("weight: 10", "weight: 10, wieght: 1"), "spec.wieght"),
}


@pytest.mark.parametrize("case", UNKNOWN_FIELDS)
def test_an_unknown_field_is_dropped_with_a_note(case: str, tmp_path: Path) -> None:
    text, path = UNKNOWN_FIELDS[case]
    found = manifests(tmp_path, text)
    assert len(found.pools) == 1
    notes = [note.message for note in found.notes if note.path == path]
    assert notes == ["unknown field: dropped, as an API server does"]


def test_an_unknown_field_beside_a_mistake_is_no_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        manifests(tmp_path, SHORT_POOL + "  colour: red\n  weight: heavy\n")
    assert [error.path for error in refused.value.report.errors] == ["spec.weight"]


def test_a_value_that_no_node_has_is_noted_beside_an_unknown_field(tmp_path: Path) -> None:
    text = SHORT_POOL.replace("[reserved]", "[no-such-thing]") + "  colour: red\n"
    paths = [note.path for note in manifests(tmp_path, text).notes]
    assert "spec.requirements[0].values[0]" in paths


def test_a_namespace_of_a_kind_of_the_cluster_is_dropped_with_a_note(tmp_path: Path) -> None:
    found = manifests(tmp_path, SHORT_POOL.replace("name: web", "name: web, namespace: shop"))
    assert [pool.metadata.name for pool in found.pools] == ["web"]
    assert "metadata.namespace" in [note.path for note in found.notes]


def test_an_invalid_status_is_dropped_with_a_note(tmp_path: Path) -> None:
    found = manifests(tmp_path, SHORT_POOL + "status: {nodes: many}\n")
    assert found.pools[0].status is None
    assert any(note.path == "status.nodes" for note in found.notes)
