"""`wain run` on a real API server, with a real kube-scheduler and kube-controller-manager: the pods
of a Deployment get nodes of the emulated EC2, and are bound to them by the real scheduler.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import running
from tests.support.running_operator import RunningOperator, TestedCluster, run_to_the_end

from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition

EMULATED = ("--provider", "emulator", "--cluster-name", "shop", "--emulator-boot", "1s")
DISCOVERY = [{"tags": {"karpenter.sh/discovery": "shop"}}]
NODE_CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "KarpenterNodeRole-shop",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": DISCOVERY,
        "securityGroupSelectorTerms": DISCOVERY,
    },
}
NODE_POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [
                    {
                        "key": "karpenter.sh/capacity-type",
                        "operator": "In",
                        "values": ["on-demand"],
                    },
                    {
                        "key": "karpenter.k8s.aws/instance-family",
                        "operator": "In",
                        "values": ["m5"],
                    },
                ],
            }
        },
        "disruption": {"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]},
    },
}
OURS = ("NodeClaim", "NodePool", "EC2NodeClass")
OUR_LEASE = "wainwright-leader-election"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> Iterator[TestedCluster]:
    """A control plane of its own: the operator acts on everything that it finds."""
    with running(pytestconfig, scheduler=True, controller_manager=True) as plane:
        for item in CUSTOM_RESOURCES:
            plane.apply_crd(custom_resource_definition(item))
        cluster = TestedCluster(plane)
        cluster.apply("EC2NodeClass", NODE_CLASS)
        cluster.apply("NodePool", NODE_POOL)
        yield cluster


def deployment(replicas: int) -> dict[str, Any]:
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    container = {
        "name": "web",
        "image": "web:1",
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container], "topologySpreadConstraints": [spread]},
            },
        },
    }


def test_a_deployment_gets_nodes_and_loses_those_that_it_does_not_need(
    cluster: TestedCluster, tmp_path: Path
) -> None:
    """One story, as every part of it needs the cluster that the one before leaves behind."""
    with RunningOperator(cluster.plane, tmp_path, *EMULATED) as first:
        cluster.wait_for("readiness", lambda: first.get("health", "/readyz")[0] == 200)
        cluster.apply("Deployment", deployment(24))
        cluster.wait_for("24 pods that are Ready", lambda: len(cluster.ready_pods("web")) == 24)
        assert _skew(cluster) <= 1
        cluster.wait_for("a node for each claim", lambda: _is_paired(cluster))
        claims, nodes = cluster.names("NodeClaim"), cluster.names("Node")
        assert first.get("health", "/healthz") == (200, "ok\n")
        assert "karpenter_nodeclaims_created_total" in first.get("metrics", "/metrics")[1]
        assert _launched(first) <= claims, "nothing was launched for nothing"
        first.kill()

    with RunningOperator(cluster.plane, tmp_path, *EMULATED) as second:
        cluster.wait_for("readiness", lambda: second.get("health", "/readyz")[0] == 200)
        cluster.apply("Deployment", deployment(25))
        cluster.wait_for("one more pod", lambda: len(cluster.ready_pods("web")) == 25)
        gone = claims - cluster.names("NodeClaim")
        assert not gone or _has_saved(second), "a restart by itself replaces no node"

        cluster.apply("Deployment", deployment(3))
        cluster.wait_for("fewer nodes", lambda: len(cluster.names("Node")) < len(nodes))
        cluster.wait_for("three pods, and a node for each claim", lambda: _is_settled(cluster))
        assert _has_saved(second)
        code, output, seconds = second.terminate()
        assert (code, output) == (0, b"")
        assert seconds < 10
        assert second.messages()[-1] == "stopped"


def _skew(cluster: TestedCluster) -> int:
    zones = {
        each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in cluster.all("Node")
    }
    counts = Counter(zones[pod["spec"]["nodeName"]] for pod in cluster.ready_pods("web"))
    return max(counts.values()) - min(counts.values())


def _is_settled(cluster: TestedCluster) -> bool:
    return _is_paired(cluster) and len(cluster.ready_pods("web")) == 3


def _is_paired(cluster: TestedCluster) -> bool:
    return len(cluster.names("NodeClaim")) == len(cluster.names("Node"))


def _has_saved(operator: RunningOperator) -> bool:
    """Whether a command of disruption was carried out for its money."""
    return any("savings: $" in each for each in operator.messages())


def _launched(operator: RunningOperator) -> set[str]:
    """The claims that its log tells of, one line each."""
    names = (each.partition(":")[0] for each in operator.messages())
    return {name for name in names if name.startswith("default-")}


def test_a_dry_run_decides_and_writes_nothing(cluster: TestedCluster) -> None:
    cluster.apply("Deployment", deployment(60))
    cluster.wait_for("pending pods", lambda: len(cluster.all("Pod")) >= 60)
    before = _written_by_us(cluster)
    ended = run_to_the_end(cluster.plane, *EMULATED, "--dry-run", "--once")
    messages = [json.loads(line)["message"] for line in ended.stderr.splitlines()]
    assert ended.returncode == 0
    assert any(each.startswith("would launch for NodePool default: m5.") for each in messages)
    assert _written_by_us(cluster) == before
    cluster.apply("Deployment", deployment(3))


def _written_by_us(cluster: TestedCluster) -> dict[str, str]:
    """By name of the object its resourceVersion."""
    events = [
        each for each in cluster.all("Event") if each["source"].get("component") == "karpenter"
    ]
    # The API server renews a lease of its own beside ours.
    leases = [each for each in cluster.all("Lease") if each["metadata"]["name"] == OUR_LEASE]
    objects = [*events, *leases, *(each for kind in OURS for each in cluster.all(kind))]
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in objects}


def test_once_makes_one_pass_and_ends(cluster: TestedCluster) -> None:
    cluster.apply("Deployment", deployment(30))
    cluster.wait_for("pending pods", lambda: len(cluster.all("Pod")) >= 30)
    before = cluster.names("NodeClaim")
    ended = run_to_the_end(cluster.plane, *EMULATED, "--once")
    assert ended.returncode == 0, ended.stderr
    assert cluster.names("NodeClaim") - before
    cluster.apply("Deployment", deployment(0))


def test_it_does_not_start_beside_a_karpenter_at_work(cluster: TestedCluster) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "karpenter-leader-election"},
        "spec": {"holderIdentity": "karpenter-1", "leaseDurationSeconds": 600, "renewTime": now},
    }
    cluster.apply("Lease", lease)
    try:
        ended = run_to_the_end(cluster.plane, *EMULATED)
    finally:
        cluster.delete("Lease", "karpenter-leader-election")
    assert ended.returncode == 1
    assert "karpenter-1 holds the lease kube-system/karpenter-leader-election" in ended.stderr


def test_a_setting_that_cannot_be_read_is_named(cluster: TestedCluster) -> None:
    ended = run_to_the_end(cluster.plane, *EMULATED, BATCH_MAX_DURATION="ten seconds")
    assert ended.returncode == 2
    assert "BATCH_MAX_DURATION: found 'ten seconds', expected a duration" in ended.stderr
