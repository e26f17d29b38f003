"""Translation of pods and DaemonSets."""

from typing import Any

import pytest
from tests.support.model_builders import label_requirement
from tests.unit.translate.objects import (
    Value,
    container,
    owned,
    pod,
    pod_spec,
    pods,
    requirement,
    thing,
    translated,
    typed_pod,
)

from wainwright.api.kubernetes.workloads import Pod as WrittenPod
from wainwright.model.labels import ZONE
from wainwright.model.pod import DaemonSet, Pod, UnsupportedFeature
from wainwright.model.requirements import (
    Contradiction,
    RequiredValues,
    RequirementSource,
    one_of,
)
from wainwright.model.taints import Taint, find_untolerated_taint
from wainwright.translate.object_metadata import assign_names, parse_timestamp
from wainwright.translate.pods import unsupported_features

SANDBOX = thing(
    "node.k8s.io/v1",
    "RuntimeClass",
    "sandbox",
    handler="h",
    overhead={"podFixed": {"cpu": "250m"}},
    scheduling={"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox"}]},
)


def priority_class(name: str, value: int, *, default: bool = False) -> Value:
    made = thing("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
    return {**made, "globalDefault": default}


def translated_pod(written: WrittenPod, *around: Value) -> Pod:
    return pods(*around).translate(written)


def priority(spec: Value, *around: Value) -> int:
    return translated_pod(typed_pod(spec=spec), *around).priority


def test_a_pod_keeps_its_identity() -> None:
    metadata = {"uid": "7", "labels": {"a": "b"}, "creationTimestamp": "1970-01-01T00:01:00Z"}
    found = translated_pod(typed_pod("web", metadata=metadata))
    assert (found.key, found.uid, found.created, found.labels) == ("shop/web", "7", 60, {"a": "b"})


def test_no_namespace_is_the_default_one() -> None:
    assert translated_pod(typed_pod("web", metadata={"namespace": ""})).key == "default/web"


def test_a_pod_of_a_daemonset_is_known_by_its_owner() -> None:
    assert translated_pod(typed_pod(metadata=owned("DaemonSet"))).daemonset
    assert not translated_pod(typed_pod(metadata=owned("ReplicaSet"))).daemonset


def test_a_runtime_class_adds_overhead_selector_and_tolerations() -> None:
    spec = {"containers": [container(cpu="1")], "runtimeClassName": "sandbox"}
    found = translated_pod(typed_pod(spec=spec), SANDBOX)
    assert found.requests == {"cpu": 1250}
    assert found.alternatives == (label_requirement("sandbox", "In", "yes"),)
    assert [toleration.key for toleration in found.tolerations] == ["sandbox"]


def test_a_pod_cannot_contradict_its_runtime_class() -> None:
    spec = {"runtimeClassName": "sandbox", "nodeSelector": {"sandbox": "no"}}
    found = translated_pod(typed_pod(spec=spec), SANDBOX)
    assert found.alternatives == ()
    [contradiction] = found.contradictory
    assert (contradiction.key, [each.source for each in contradiction.sides]) == (
        "sandbox",
        [RequirementSource.NODE_SELECTOR, RequirementSource.RUNTIME_CLASS],
    )


def test_both_sides_of_a_contradiction_are_kept() -> None:
    """Of the terms that contradict themselves, each requirement on the label once."""
    terms = [
        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        for zone in ("a", "c", "a")
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {"nodeSelector": {ZONE: "b", "team": "x"}, "affinity": {"nodeAffinity": required}}
    assert translated_pod(typed_pod(spec=spec)).contradictory == (
        Contradiction(
            key=ZONE,
            sides=(
                RequiredValues(source=RequirementSource.NODE_SELECTOR, allowed=one_of(["b"])),
                RequiredValues(source=RequirementSource.NODE_AFFINITY, allowed=one_of(["a"])),
                RequiredValues(source=RequirementSource.NODE_AFFINITY, allowed=one_of(["c"])),
            ),
        ),
    )


def test_a_bound_that_is_no_number_has_no_sides() -> None:
    size = {"key": "size", "operator": "Gt", "values": ["large"]}
    terms = [{"matchExpressions": [size]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = translated_pod(typed_pod(spec={"affinity": {"nodeAffinity": required}}))
    assert found.contradictory == (Contradiction(key="size"),)


def test_priority_is_the_pods_own_before_that_of_its_class() -> None:
    high = priority_class("high", 1000)
    assert priority({"priority": 5, "priorityClassName": "high"}, high) == 5
    assert priority({"priorityClassName": "high"}, high) == 1000
    assert priority({"priorityClassName": "missing"}, high) == 0


def test_a_pod_without_priority_has_the_default_one() -> None:
    defaults = (priority_class("b", 20, default=True), priority_class("a", 10, default=True))
    assert priority({}, *defaults) == 10
    assert priority({}) == 0


def test_classes_that_every_cluster_has_need_not_be_in_the_input() -> None:
    assert priority({"priorityClassName": "system-node-critical"}) == 2_000_001_000


def test_pods_of_equal_spec_share_all_that_follows_from_it() -> None:
    translator = pods()
    spec = {"containers": [container(cpu="1")], "nodeSelector": {"a": "b"}}
    one = translator.translate(typed_pod("a", spec=spec))
    other = translator.translate(typed_pod("b", spec=spec))
    assert one.requests is other.requests
    assert one.alternatives is other.alternatives
    assert one.tolerations is other.tolerations


def test_the_name_of_a_volume_or_node_does_not_keep_pods_apart() -> None:
    translator = pods()
    there = {"nodeName": "n-1", "volumes": [{"name": "token-x", "projected": {}}]}
    one, other = translator.translate(typed_pod(spec=there)), translator.translate(typed_pod("b"))
    assert one.requests is other.requests


def test_a_pod_with_a_deletion_timestamp_is_terminating() -> None:
    gone = typed_pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert pods().translate(gone).terminating
    assert not pods().translate(typed_pod()).terminating


def test_a_pod_that_was_resized_on_its_node_counts_as_it_is_there() -> None:
    larger = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    status = {"containerStatuses": larger}
    spec = {"containers": [container(cpu="1")]}
    bound = typed_pod(spec={**spec, "nodeName": "n"}, status=status)
    assert translated_pod(bound).requests == {"cpu": 2000}
    assert translated_pod(typed_pod(spec=spec, status=status)).requests == {"cpu": 1000}


def test_amounts_beyond_64_bits_are_still_distinguished() -> None:
    translator = pods()
    asked = [{"name": "c", "resources": {"requests": {"memory": 2**70}}}]
    found = translator.translate(typed_pod(spec={"containers": asked}))
    assert found.requests == {"memory": 2**70}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T01:00:01+01:00", 1.0),
        ("1970-01-01T00:00:00.250000Z", 0.25),
        ("1970-01-01T00:00:01", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_timestamps_do_not_depend_on_the_local_time_zone(
    written: str | None, expected: float | None
) -> None:
    assert parse_timestamp(written) == expected


def names(*pods: tuple[str, str]) -> list[str]:
    made = [typed_pod(name, metadata={"generateName": beginning}) for name, beginning in pods]
    return [pod.metadata.name for pod in assign_names(made)]


def test_nameless_pods_are_numbered() -> None:
    assert names(("", "job-"), ("", "job-"), ("", "other-")) == ["job-0", "job-1", "other-0"]


def test_names_that_are_taken_are_skipped() -> None:
    assert names(("", "job-"), ("job-0", ""), ("", "job-")) == ["job-1", "job-0", "job-2"]


def test_named_pods_keep_their_names() -> None:
    assert names(("job-x7k2p", "job-"), ("web", "")) == ["job-x7k2p", "web"]


def test_resource_claims_of_a_pod_are_an_unsupported_feature() -> None:
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    assert unsupported_features(pod_spec(resourceClaims=claims)) == (
        UnsupportedFeature.RESOURCE_CLAIMS,
    )


def test_a_pod_without_claims_is_fine() -> None:
    assert unsupported_features(pod_spec(resourceClaims=[], hostNetwork=True)) == ()


SPEC = {"containers": [container(cpu="100m")]}


def daemons(**spec: Any) -> Value:
    template = {"spec": {**SPEC, **spec}}
    metadata = {"namespace": "kube-system"}
    return thing("apps/v1", "DaemonSet", "agent", metadata=metadata, spec={"template": template})


def made(*others: Value, **spec: Any) -> DaemonSet:
    [only] = translated(daemons(**spec), *others).snapshot.daemonsets
    return only


def live(name: str, cpu: str, created: str = "", **fields: Any) -> Value:
    metadata = {**owned("DaemonSet", "agent"), "namespace": "kube-system"}
    if created:
        metadata["creationTimestamp"] = created
    spec = {"containers": [container(cpu=cpu)], "nodeName": "n"}
    return pod(name, metadata={**metadata, **fields.pop("metadata", {})}, spec=spec, **fields)


def test_a_daemonset_has_the_requests_of_its_template() -> None:
    found = made(nodeSelector={"gpu": "yes"})
    assert (found.namespace, found.name, found.requests) == ("kube-system", "agent", {"cpu": 100})
    assert found.alternatives == (label_requirement("gpu", "In", "yes"),)


def test_the_node_pinned_in_a_daemonset_template_is_ignored() -> None:
    terms = [
        {"matchFields": [requirement("metadata.name", "n-1")]},
        {"matchExpressions": [requirement("kubernetes.io/hostname", "n-2"), requirement("a", "b")]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = made(affinity={"nodeAffinity": required})
    assert [str(each) for each in found.alternatives] == ["", "a In [b]"]


def test_a_daemonset_with_a_contradictory_selector_runs_nowhere() -> None:
    selector = {"kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "arm64"}
    assert made(nodeSelector=selector).alternatives == ()


def test_a_daemonset_has_the_tolerations_of_its_controller() -> None:
    found = made(tolerations=[{"key": "dedicated", "operator": "Exists"}])
    pressed = Taint(key="node.kubernetes.io/memory-pressure", value="x")
    assert find_untolerated_taint([pressed, Taint(key="dedicated")], found.tolerations) is None
    assert find_untolerated_taint([Taint(key="other")], found.tolerations) == Taint(key="other")


def test_a_host_network_daemonset_tolerates_network_unavailable() -> None:
    missing = Taint(key="node.kubernetes.io/network-unavailable")
    assert find_untolerated_taint([missing], made(hostNetwork=True).tolerations) is None
    assert find_untolerated_taint([missing], made().tolerations) == missing


def test_a_live_pod_shows_what_admission_made_of_the_template() -> None:
    assert made(live("agent-x", "300m")).requests == {"cpu": 300}


def test_the_youngest_live_pod_counts() -> None:
    old, new = live("z", "1", "2026-01-01T00:00:00Z"), live("a", "2", "2026-01-02T00:00:00Z")
    assert made(new, old).requests == made(old, new).requests == {"cpu": 2000}
    assert made(live("b", "3"), old).requests == {"cpu": 1000}


def test_finished_pods_and_pods_of_other_owners_are_ignored() -> None:
    done = live("agent-x", "300m", status={"phase": "Failed"})
    stranger = live("agent-y", "400m", metadata={"namespace": "shop"})
    assert made(done, stranger).requests == {"cpu": 100}
