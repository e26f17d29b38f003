"""Objects of other kinds and the pods that they create."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from wainwright.api.kubernetes.workloads import PodSet
from wainwright.cli.main import wain
from wainwright.manifests.cluster_manifests import ClusterManifests, read_manifests
from wainwright.manifests.pod_sets import PodSetFinder, parse_path

TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "main", "image": "main"}]}}
NAMED: dict[str, Any] = {"metadata": {"name": "web"}}


def find(api_version: str, kind: str, spec: dict[str, Any], **fields: Any) -> list[PodSet] | None:
    value = {"apiVersion": api_version, "kind": kind, **NAMED, "spec": spec, **fields}
    return PodSetFinder().find(value)


def counts(found: list[PodSet] | None) -> dict[str, tuple[int | None, int | None]]:
    return {each.name: (each.spec.replicas, each.spec.maximum) for each in found or ()}


def write(folder: Path, *objects: dict[str, Any]) -> str:
    (folder / "given.yaml").write_text(yaml.safe_dump_all(objects))
    return str(folder / "given.yaml")


def read(folder: Path, *objects: dict[str, Any]) -> ClusterManifests:
    return read_manifests([write(folder, *objects)])


def rollout(name: str = "web", replicas: Any = 2, **fields: Any) -> dict[str, Any]:
    spec = {"replicas": replicas, "template": TEMPLATE, **fields}
    version = "argoproj.io/v1alpha1"
    return {"apiVersion": version, "kind": "Rollout", "metadata": {"name": name}, "spec": spec}


def test_a_path_has_plain_and_quoted_keys() -> None:
    path = ".metadata.annotations['example.com/a.b'].c"
    assert parse_path(path) == ("metadata", "annotations", "example.com/a.b", "c")


@pytest.mark.parametrize("replicas", ["${REPLICAS}", -1, True, 1.5, {}])
def test_a_number_that_is_none_is_not_counted(replicas: Any) -> None:
    spec = {"replicas": replicas, "template": TEMPLATE}
    assert find("argoproj.io/v1alpha1", "Rollout", spec) is None


def test_one_template_without_replicas_leaves_the_object_uncounted() -> None:
    spec = {"a": {"replicas": 1, "template": TEMPLATE}, "b": {"template": TEMPLATE}}
    assert find("example.com/v1", "Runner", spec) is None


def test_tasks_in_a_list_are_named_after_themselves() -> None:
    tasks = [{"name": name, "replicas": 2, "template": TEMPLATE} for name in ("ps", "worker")]
    found = find("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks})
    assert counts(found) == {"ps": (2, None), "worker": (2, None)}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"executor": {}}, (1, None)),
        ({"executor": {}, "sparkConf": {"spark.executor.instances": "3"}}, (3, None)),
        (
            {
                "executor": {},
                "dynamicAllocation": {"enabled": True, "minExecutors": 2, "maxExecutors": 9},
            },
            (2, 9),
        ),
        (
            {
                "executor": {"instances": 1},
                "sparkConf": {
                    "spark.dynamicAllocation.enabled": "true",
                    "spark.dynamicAllocation.initialExecutors": "4",
                },
            },
            (4, None),
        ),
    ],
    ids=["nothing said", "in sparkConf", "dynamic", "dynamic in sparkConf"],
)
def test_executors_of_spark(spec: dict[str, Any], expected: tuple[int, int | None]) -> None:
    found = find("sparkoperator.k8s.io/v1beta2", "SparkApplication", {"driver": {}, **spec})
    assert counts(found) == {"driver": (1, None), "executor": expected}


@pytest.mark.parametrize(
    ("part", "fields", "cpu", "memory"),
    [
        ({}, {}, "1", "1408Mi"),
        ({"memory": "8g"}, {}, "1", "9011Mi"),
        ({"memory": "8g"}, {"type": "Python"}, "1", "11468Mi"),
        ({"memory": "8g", "memoryOverhead": "1g", "cores": 4}, {}, "4", "9216Mi"),
        ({"memory": "512m", "coreRequest": "250m", "cores": 1}, {}, "250m", "896Mi"),
        ({"memory": "10g"}, {"memoryOverheadFactor": "0.5"}, "1", "15360Mi"),
        ({}, {"sparkConf": {"spark.driver.memory": "2048"}}, "1", "2432Mi"),
    ],
)
def test_requests_of_spark(
    part: dict[str, Any], fields: dict[str, Any], cpu: str, memory: str
) -> None:
    spec = {"driver": part, "executor": {}, **fields}
    found = find("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)
    assert found is not None
    [container] = found[0].spec.template.spec.containers or []
    assert container.resources.requests == {"cpu": cpu, "memory": memory}


def test_a_scheduled_spark_application_is_one_run() -> None:
    application = {"driver": {}, "executor": {"instances": 2, "nodeSelector": {"disk": "fast"}}}
    spec = {"schedule": "@daily", "template": application}
    found = find("sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication", spec)
    assert counts(found) == {"driver": (1, None), "executor": (2, None)}
    assert found is not None
    assert found[1].spec.template.spec.nodeSelector == {"disk": "fast"}


def test_memory_of_spark_that_is_a_placeholder_is_not_counted() -> None:
    spec = {"driver": {"memory": "${MEMORY}"}, "executor": {}}
    assert find("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec) is None


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "status"),
    [
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": TEMPLATE}}}]},
            {"conditions": [{"type": "Completed", "status": "True"}]},
        ),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"driver": {}, "executor": {}},
            {"applicationState": {"state": "COMPLETED"}},
        ),
    ],
    ids=["JobSet", "SparkApplication"],
)
def test_a_run_that_is_over_has_no_pods(
    api_version: str, kind: str, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    found = find(api_version, kind, spec, status=status)
    assert found
    assert all(each.spec.suspended for each in found)


def test_a_template_that_an_api_server_would_refuse_is_reported_with_its_place(
    tmp_path: Path,
) -> None:
    refused = rollout(template={"spec": {"containers": [{"name": "Main", "image": "main"}]}})
    manifests = read(tmp_path, refused)
    assert manifests.all(PodSet) == []
    [note, line] = manifests.notes
    assert note.path == "spec.template.spec.containers[0].name"
    assert note.line == 11
    assert note.message.startswith("its pods are not counted: ")
    assert line.message == "create or scale pods, which are not counted: 1 Rollout"


def test_of_equal_objects_the_later_counts(tmp_path: Path) -> None:
    manifests = read(tmp_path, rollout(replicas=2), rollout(replicas=5), rollout("other"))
    assert [each.spec.replicas for each in manifests.all(PodSet)] == [5, 2]
    assert "Rollout web is also in" in manifests.notes[0].message


def test_an_object_that_another_one_owns_is_left_to_its_owner(tmp_path: Path) -> None:
    head = {"headGroupSpec": {"template": TEMPLATE}}
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", **NAMED, "spec": {"rayClusterSpec": head}}
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "web", "uid": "1"}
    metadata = {"name": "web-x", "ownerReferences": [owner]}
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": head}
    manifests = read(tmp_path, job, cluster)
    assert [each.kind for each in manifests.all(PodSet)] == ["RayJob"]


def test_a_document_may_say_that_a_kind_creates_no_pods(tmp_path: Path) -> None:
    runner = {"apiVersion": "example.com/v1", "kind": "Pattern", **NAMED, "spec": TEMPLATE["spec"]}
    paths = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "PodTemplatePaths",
        "spec": {"group": "example.com", "kind": "Pattern", "podSets": []},
    }
    assert "not counted: 1 Pattern" in read(tmp_path, runner).notes[0].message
    manifests = read(tmp_path, runner, paths)
    assert manifests.notes == []
    assert manifests.other_notes[0].message == "not relevant to scheduling: 1 Pattern"


@pytest.mark.parametrize(
    ("api_version", "spec", "is_relevant"),
    [
        ("tekton.dev/v1", {"steps": [{"image": "main"}]}, True),
        ("postgresql.cnpg.io/v1", {"instances": 3}, True),
        ("istio.io/v1", {"k8s": {"resources": {"requests": {"cpu": "1"}}}}, True),
        ("kyverno.io/v1", {"pattern": {"spec": {"containers": [{"image": "*:*"}]}}}, False),
        ("cluster.x-k8s.io/v1beta1", {"replicas": 3}, False),
        ("example.com/v1", {"size": 3}, False),
    ],
    ids=["steps", "instances", "requests", "a policy", "nodes of a cluster", "nothing of the kind"],
)
def test_signs_of_pods(
    api_version: str, spec: dict[str, Any], is_relevant: bool, tmp_path: Path
) -> None:
    thing = {"apiVersion": api_version, "kind": "Thing", **NAMED, "spec": spec}
    manifests = read(tmp_path, thing)
    assert bool(manifests.notes) is is_relevant
    assert bool(manifests.other_notes) is not is_relevant


def test_validate_names_what_is_not_counted(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        wain, ["validate", write(tmp_path, rollout(replicas="${N}"))], standalone_mode=False
    )
    assert result.return_value == 0
    assert "which are not counted: 1 Rollout" in result.output
