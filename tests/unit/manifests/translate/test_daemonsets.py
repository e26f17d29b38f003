"""DaemonSets take room wherever their template fits."""

from typing import Any

from tests.support.model import asking
from tests.unit.manifests.translate.objects import (
    Value,
    container,
    owned,
    pod,
    requirement,
    thing,
    translated,
)

from wainwright.model.pod import DaemonSet
from wainwright.model.taints import Taint, untolerated

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


def test_a_daemonset_asks_for_what_its_template_says() -> None:
    found = made(nodeSelector={"gpu": "yes"})
    assert (found.namespace, found.name, found.requests) == ("kube-system", "agent", {"cpu": 100})
    assert found.alternatives == (asking("gpu", "In", "yes"),)


def test_the_node_that_a_pod_of_it_belongs_to_does_not_matter() -> None:
    terms = [
        {"matchFields": [requirement("metadata.name", "n-1")]},
        {"matchExpressions": [requirement("kubernetes.io/hostname", "n-2"), requirement("a", "b")]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = made(affinity={"nodeAffinity": required})
    assert [str(each) for each in found.alternatives] == ["", "a In [b]"]


def test_a_selector_that_nothing_can_meet_leaves_it_nowhere() -> None:
    selector = {"kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "arm64"}
    assert made(nodeSelector=selector).alternatives == ()


def test_it_tolerates_what_its_controller_lets_it_tolerate() -> None:
    found = made(tolerations=[{"key": "dedicated", "operator": "Exists"}])
    pressed = Taint(key="node.kubernetes.io/memory-pressure", value="x")
    assert untolerated([pressed, Taint(key="dedicated")], found.tolerations) is None
    assert untolerated([Taint(key="other")], found.tolerations) == Taint(key="other")


def test_only_on_the_nodes_network_it_tolerates_that_there_is_no_other() -> None:
    missing = Taint(key="node.kubernetes.io/network-unavailable")
    assert untolerated([missing], made(hostNetwork=True).tolerations) is None
    assert untolerated([missing], made().tolerations) == missing


def test_a_live_pod_shows_what_admission_made_of_the_template() -> None:
    assert made(live("agent-x", "300m")).requests == {"cpu": 300}


def test_the_youngest_live_pod_counts() -> None:
    old, new = live("z", "1", "2026-01-01T00:00:00Z"), live("a", "2", "2026-01-02T00:00:00Z")
    assert made(new, old).requests == made(old, new).requests == {"cpu": 2000}
    assert made(live("b", "3"), old).requests == {"cpu": 1000}


def test_pods_that_are_done_or_of_others_show_nothing() -> None:
    done = live("agent-x", "300m", status={"phase": "Failed"})
    stranger = live("agent-y", "400m", metadata={"namespace": "shop"})
    assert made(done, stranger).requests == {"cpu": 100}
