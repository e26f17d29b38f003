"""The total requests of a pod."""

from typing import Any

from tests.unit.translate.objects import Value, container, pod_spec, typed_pod

from wainwright.translate.resources import pod_requests, spec_after_resize

MIB = 2**20


def init(name: str = "i", *, sidecar: bool = False, **requests: str) -> Value:
    made = container(name, **requests)
    return {**made, "restartPolicy": "Always"} if sidecar else made


def test_containers_add_up() -> None:
    spec = pod_spec(containers=[container(cpu="100m", memory="64Mi"), container("d", cpu="0.5")])
    assert pod_requests(spec) == {"cpu": 600, "memory": 64 * MIB}


def test_an_init_container_counts_where_it_needs_more_than_all_others() -> None:
    spec = pod_spec(
        containers=[container(cpu="1", memory="64Mi")],
        initContainers=[init(cpu="2", memory="32Mi"), init("j", cpu="3")],
    )
    assert pod_requests(spec) == {"cpu": 3000, "memory": 64 * MIB}


def test_a_sidecar_counts_beside_the_containers() -> None:
    spec = pod_spec(containers=[container(cpu="1")], initContainers=[init(sidecar=True, cpu="2")])
    assert pod_requests(spec) == {"cpu": 3000}


def test_an_init_container_runs_beside_the_sidecars_before_it() -> None:
    sidecar, big = init(sidecar=True, cpu="500m"), init("j", cpu="2")
    before = pod_spec(containers=[container(cpu="1")], initContainers=[sidecar, big])
    after = pod_spec(containers=[container(cpu="1")], initContainers=[big, sidecar])
    assert pod_requests(before) == {"cpu": 2500}
    assert pod_requests(after) == {"cpu": 2000}


def test_limits_count_where_requests_are_absent() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "64Mi"}}
    spec = pod_spec(containers=[{"name": "c", "resources": resources}])
    assert pod_requests(spec) == {"cpu": 1000, "memory": 64 * MIB}


def test_what_is_stated_for_the_pod_stands_in_place_of_its_containers() -> None:
    spec = pod_spec(
        containers=[container(cpu="1", memory="64Mi")], resources={"requests": {"cpu": "3"}}
    )
    assert pod_requests(spec) == {"cpu": 3000, "memory": 64 * MIB}


def test_a_limit_of_the_pod_counts_only_for_what_no_container_names() -> None:
    spec = pod_spec(
        containers=[container(cpu="1")], resources={"limits": {"cpu": "3", "memory": "64Mi"}}
    )
    assert pod_requests(spec) == {"cpu": 1000, "memory": 64 * MIB}


def test_huge_pages_of_the_pod_count_by_their_limit() -> None:
    pages = {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}}
    spec = pod_spec(
        containers=[{"name": "c", "resources": pages}],
        resources={"limits": {"hugepages-2Mi": "8Mi"}},
    )
    assert pod_requests(spec) == {"cpu": 1000, "hugepages-2Mi": 8 * MIB}


def test_other_resources_cannot_be_stated_for_the_pod() -> None:
    spec = pod_spec(containers=[container(cpu="1")], resources={"requests": {"pods": "7"}})
    assert pod_requests(spec) == {"cpu": 1000}


def test_overhead_comes_on_top_and_the_pods_own_goes_before_the_runtimes() -> None:
    bare = pod_spec(containers=[container(cpu="1")], resources={"requests": {"cpu": "2"}})
    own = pod_spec(containers=[container(cpu="1")], overhead={"cpu": "10m"})
    assert pod_requests(bare, {"cpu": "250m"}) == {"cpu": 2250}
    assert pod_requests(own, {"cpu": "250m"}) == {"cpu": 1010}


def test_each_amount_is_rounded_up_to_thousandths_before_they_add_up() -> None:
    spec = pod_spec(containers=[container(cpu="0.1m"), container("d", cpu="0.1m")])
    assert pod_requests(spec) == {"cpu": 2}


def test_a_fraction_of_a_byte_is_a_byte() -> None:
    spec = pod_spec(containers=[container(memory="100m"), container("d", memory="100m")])
    assert pod_requests(spec) == {"memory": 1}


def test_nothing_of_a_resource_is_not_named() -> None:
    assert pod_requests(pod_spec(containers=[container(cpu="0", memory="1")])) == {"memory": 1}
    assert pod_requests(pod_spec()) == {}


def test_names_are_in_order() -> None:
    asked = {"requests": {"nvidia.com/gpu": 1, "memory": 1024, "cpu": 0.5}}
    spec = pod_spec(containers=[{"name": "c", "resources": asked}])
    assert list(pod_requests(spec).items()) == [
        ("cpu", 500),
        ("memory", 1024),
        ("nvidia.com/gpu", 1),
    ]


def given(actual: str, allocated: str = "", **fields: Any) -> dict[str, int]:
    """The effective request of a pod that requests 1 cpu and was allocated this much."""
    granted: Value = {"name": "c", "resources": {"requests": {"cpu": actual}}}
    if allocated:
        granted["allocatedResources"] = {"cpu": allocated}
    status = {"containerStatuses": [granted], **fields}
    spec = {"containers": [container(cpu="1")], "nodeName": "n"}
    return pod_requests(spec_after_resize(typed_pod(spec=spec, status=status)))


def test_the_largest_of_requested_actual_and_allocated_counts() -> None:
    assert given("500m") == {"cpu": 1000}
    assert given("2") == {"cpu": 2000}
    assert given("500m", "3") == {"cpu": 3000}


def test_an_infeasible_resize_does_not_count() -> None:
    refused = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    assert given("500m", "400m", conditions=refused) == {"cpu": 500}
    deferred = [{**refused[0], "reason": "Deferred"}]
    assert given("500m", "400m", conditions=deferred) == {"cpu": 1000}


def test_the_same_spec_is_returned_where_nothing_was_resized() -> None:
    same = {"cpu": "1"}
    granted = {"name": "c", "resources": {"requests": same}, "allocatedResources": same}
    status = {"containerStatuses": [granted]}
    pod = typed_pod(spec={"containers": [container(cpu="1")]}, status=status)
    assert spec_after_resize(pod) is pod.spec


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
    found = spec_after_resize(pod).initContainers or []
    assert [(one.resources.requests or {})["cpu"] for one in found] == ["1", "4"]
