"""Workloads become the pods that their controllers would create."""

from typing import Any

from wainwright.api.kubernetes.object_reader import decode_object
from wainwright.api.kubernetes.workloads import PodSet, PodSetSpec
from wainwright.api.wire import ObjectMeta
from wainwright.translate.workload_expansion import expand_workloads

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}


def workload(kind: str, name: str = "web", **fields: Any) -> dict[str, Any]:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    metadata = {"name": name, "namespace": "shop", **fields.pop("metadata", {})}
    spec = {"template": TEMPLATE, **fields.pop("spec", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, **fields}


def owned(name: str, kind: str, owner: str, **fields: Any) -> dict[str, Any]:
    reference = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": owner,
        "uid": "1",
        "controller": True,
    }
    metadata = {"name": name, "namespace": "shop", "ownerReferences": [reference]}
    spec = {"containers": [{"name": "c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **fields}


def names(*objects: dict[str, Any]) -> list[str]:
    return [pod.metadata.name for pod in expand_workloads([decode_object(one) for one in objects])]


def test_a_deployment_gives_its_replicas_numbered_from_zero() -> None:
    assert names(workload("Deployment", spec={"replicas": 3})) == ["web-0", "web-1", "web-2"]


def test_no_replicas_said_means_one_and_zero_means_none() -> None:
    assert names(workload("Deployment")) == ["web-0"]
    assert names(workload("StatefulSet", spec={"replicas": 0})) == []


def test_pods_that_are_there_already_count_and_their_names_are_skipped() -> None:
    pod = owned("web-0", "StatefulSet", "web")
    found = names(pod, workload("StatefulSet", spec={"replicas": 2}))
    assert found == ["web-0", "web-1"]


def test_pods_count_through_a_replica_set_and_it_is_not_expanded_itself() -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1"}
    middle = workload("ReplicaSet", "web-7f", metadata={"ownerReferences": [reference]})
    pod = owned("web-7f-abc", "ReplicaSet", "web-7f")
    found = names(workload("Deployment", spec={"replicas": 2}), middle, pod)
    assert found == ["web-7f-abc", "web-0"]


def test_finished_and_terminating_pods_are_replaced() -> None:
    done = owned("web-a", "ReplicaSet", "web", status={"phase": "Failed"})
    assert names(done, workload("ReplicaSet", spec={"replicas": 1})) == ["web-a", "web-0"]


def test_a_job_gives_what_is_left_of_it_at_most_its_parallelism() -> None:
    spec = {"parallelism": 3, "completions": 5}
    assert len(names(workload("Job", spec=spec))) == 3
    assert len(names(workload("Job", spec=spec, status={"succeeded": 4}))) == 1
    assert names(workload("Job", spec={**spec, "suspend": True})) == []


def test_pods_of_a_stateful_set_use_their_own_claims() -> None:
    templates = [{"metadata": {"name": "data"}, "spec": {}}]
    made = expand_workloads(
        [decode_object(workload("StatefulSet", spec={"volumeClaimTemplates": templates}))]
    )
    [volume] = made[0].spec.volumes or []
    assert volume.persistentVolumeClaim is not None
    assert volume.persistentVolumeClaim.claimName == "data-web-0"


def test_a_stateful_pod_that_replaces_another_uses_its_claims() -> None:
    going = owned("web-0", "StatefulSet", "web", status={"phase": "Failed"})
    there = owned("web-1", "StatefulSet", "web")
    spec = {"replicas": 3, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}
    made = expand_workloads(
        [decode_object(one) for one in (going, there, workload("StatefulSet", spec=spec))]
    )
    claims = [
        (pod.metadata.name, volume.persistentVolumeClaim.claimName)
        for pod in made[2:]
        for volume in pod.spec.volumes or []
        if volume.persistentVolumeClaim is not None
    ]
    assert claims == [("web-2", "data-web-0"), ("web-3", "data-web-2")]


def test_made_pods_carry_the_templates_labels_and_their_owner() -> None:
    [pod] = expand_workloads([decode_object(workload("Deployment"))])
    assert pod.metadata.labels == {"app": "web"}
    assert [owner.name for owner in pod.metadata.ownerReferences or []] == ["web"]
    assert pod.metadata.namespace == "shop"


def test_a_workload_with_generate_name_gives_its_pods_the_prefix() -> None:
    metadata = {"name": "", "generateName": "web-"}
    made = workload("Deployment", metadata=metadata, spec={"replicas": 2})
    assert names(made) == ["web-0", "web-1"]
    other = workload("Job", metadata={"name": "", "generateName": "web-"})
    assert names(made, other) == ["web-0", "web-1", "web-2"]
    [owner] = (expand_workloads([decode_object(other)])[0].metadata.ownerReferences) or []
    assert owner.name == "web"


def pod_set(name: str, **fields: Any) -> PodSet:
    metadata = ObjectMeta(name="ray", namespace="shop")
    spec = PodSetSpec(**fields)
    return PodSet(
        apiVersion="ray.io/v1", kind="RayCluster", metadata=metadata, name=name, spec=spec
    )


def test_live_pods_of_an_object_with_several_templates_count_for_their_own() -> None:
    worker = decode_object(owned("ray-cpu-worker-x", "RayCluster", "ray"))
    other = decode_object(owned("ray-x", "RayCluster", "ray"))
    sets = [pod_set("head"), pod_set("cpu", replicas=2)]
    found = [pod.metadata.name for pod in expand_workloads([worker, *sets])]
    assert found == ["ray-cpu-worker-x", "ray-head-0", "ray-cpu-0"]
    found = [pod.metadata.name for pod in expand_workloads([worker, other, *sets])]
    assert found == ["ray-cpu-worker-x", "ray-x", "ray-cpu-0"]


def test_live_pods_count_through_any_number_of_owners() -> None:
    application = pod_set("driver")
    driver = decode_object(owned("ray-driver", "RayCluster", "ray"))
    executor = decode_object(owned("ray-1-exec", "Pod", "ray-driver"))
    executors = pod_set("executor", replicas=2)
    found = [
        pod.metadata.name for pod in expand_workloads([driver, executor, application, executors])
    ]
    assert found == ["ray-driver", "ray-1-exec", "ray-executor-0"]


def test_owners_in_a_circle_end() -> None:
    first = decode_object(owned("ray-a", "Pod", "ray-b"))
    second = decode_object(owned("ray-b", "Pod", "ray-a"))
    assert len(expand_workloads([first, second, pod_set("")])) == 3
