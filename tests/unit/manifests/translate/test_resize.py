"""A pod that is resized where it runs."""

from typing import Any

from tests.unit.manifests.translate.objects import Value, container, typed_pod

from wainwright.manifests.translate.requests import effective
from wainwright.manifests.translate.resize import as_given


def given(actual: str, allocated: str = "", **fields: Any) -> dict[str, int]:
    """What counts for a pod that asks for one cpu and was given so much."""
    granted: Value = {"name": "c", "resources": {"requests": {"cpu": actual}}}
    if allocated:
        granted["allocatedResources"] = {"cpu": allocated}
    status = {"containerStatuses": [granted], **fields}
    spec = {"containers": [container(cpu="1")], "nodeName": "n"}
    return effective(as_given(typed_pod(spec=spec, status=status)))


def test_the_largest_of_asked_actual_and_allocated_counts() -> None:
    assert given("500m") == {"cpu": 1000}
    assert given("2") == {"cpu": 2000}
    assert given("500m", "3") == {"cpu": 3000}


def test_a_wish_refused_for_good_no_longer_counts() -> None:
    refused = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    assert given("500m", "400m", conditions=refused) == {"cpu": 500}
    deferred = [{**refused[0], "reason": "Deferred"}]
    assert given("500m", "400m", conditions=deferred) == {"cpu": 1000}


def test_the_very_spec_is_given_back_where_nothing_was_resized() -> None:
    same = {"cpu": "1"}
    granted = {"name": "c", "resources": {"requests": same}, "allocatedResources": same}
    status = {"containerStatuses": [granted]}
    pod = typed_pod(spec={"containers": [container(cpu="1")]}, status=status)
    assert as_given(pod) is pod.spec


def test_of_init_containers_only_sidecars_are_resized() -> None:
    inits = [
        container("once", cpu="1"),
        {**container("beside", cpu="1"), "restartPolicy": "Always"},
    ]
    larger = {"requests": {"cpu": "4"}}
    status = {
        "initContainerStatuses": [{"name": each["name"], "resources": larger} for each in inits]
    }
    pod = typed_pod(spec={"initContainers": inits}, status=status)
    found = as_given(pod).initContainers or []
    assert [(one.resources.requests or {})["cpu"] for one in found] == ["1", "4"]
