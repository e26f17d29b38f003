"""`wain run` on a real API server, with a real kube-scheduler and kube-controller-manager: the pods
of a Deployment get nodes of the emulated EC2, and are bound to them by the real scheduler.
"""

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.integration.run_manifests import EMULATED, ZONE, deployment
from tests.support.running_operator import (
    OUR_LEASE,
    RunningOperator,
    TestedCluster,
    run_to_the_end,
)

OURS = ("NodeClaim", "NodePool", "EC2NodeClass")


def test_a_deployment_gets_nodes_and_loses_those_that_it_does_not_need(
    operated: TestedCluster, tmp_path: Path
) -> None:
    """One story, as every part of it needs the cluster that the one before leaves behind."""
    with RunningOperator(operated.plane, tmp_path, *EMULATED) as first:
        operated.wait_for("readiness", lambda: first.get("health", "/readyz")[0] == 200)
        operated.apply("Deployment", deployment(24))
        operated.wait_for("24 pods that are Ready", lambda: len(operated.ready_pods("web")) == 24)
        assert _skew(operated) <= 1
        operated.wait_for("a node for each claim", lambda: _is_paired(operated))
        claims, nodes = operated.names("NodeClaim"), operated.names("Node")
        assert first.get("health", "/healthz") == (200, "ok\n")
        metrics = first.get("metrics", "/metrics")[1]
        assert "karpenter_nodeclaims_created_total" in metrics
        assert 'client_go_request_total{method="POST",code="201"}' in metrics
        assert "wainwright_event_loop_lag_seconds_count" in metrics
        assert _launched(first) <= claims, "nothing was launched for nothing"
        first.kill()

    with RunningOperator(operated.plane, tmp_path, *EMULATED) as second:
        operated.wait_for("readiness", lambda: second.get("health", "/readyz")[0] == 200)
        operated.apply("Deployment", deployment(25))
        operated.wait_for("one more pod", lambda: len(operated.ready_pods("web")) == 25)
        gone = claims - operated.names("NodeClaim")
        assert not gone or _has_saved(second), "a restart by itself replaces no node"

        operated.apply("Deployment", deployment(3))
        operated.wait_for("fewer nodes", lambda: len(operated.names("Node")) < len(nodes))
        operated.wait_for("three pods, and a node for each claim", lambda: _is_settled(operated))
        assert _has_saved(second)
        code, output, seconds = second.terminate()
        assert (code, output) == (0, b"")
        assert seconds < 10
        assert second.messages()[-1] == "stopped"


def _skew(operated: TestedCluster) -> int:
    zones = {
        each["metadata"]["name"]: each["metadata"]["labels"][ZONE] for each in operated.all("Node")
    }
    counts = Counter(zones[pod["spec"]["nodeName"]] for pod in operated.ready_pods("web"))
    return max(counts.values()) - min(counts.values())


def _is_settled(operated: TestedCluster) -> bool:
    return _is_paired(operated) and len(operated.ready_pods("web")) == 3


def _is_paired(operated: TestedCluster) -> bool:
    return len(operated.names("NodeClaim")) == len(operated.names("Node"))


def _has_saved(operator: RunningOperator) -> bool:
    """Whether a command of disruption was carried out for its money."""
    return any(re.search(r"savings: ~?\$", each) for each in operator.messages())


def _launched(operator: RunningOperator) -> set[str]:
    """The claims that its log tells of, one line each."""
    names = (each.partition(":")[0] for each in operator.messages())
    return {name for name in names if name.startswith("default-")}


def test_a_dry_run_decides_and_writes_nothing(operated: TestedCluster) -> None:
    operated.apply("Deployment", deployment(60))
    operated.wait_for("pending pods", lambda: len(operated.all("Pod")) >= 60)
    before = _written_by_us(operated)
    ended = run_to_the_end(operated.plane, *EMULATED, "--dry-run", "--once")
    messages = [json.loads(line)["message"] for line in ended.stderr.splitlines()]
    assert ended.returncode == 0
    assert any(each.startswith("would launch for NodePool default: m5.") for each in messages)
    assert _written_by_us(operated) == before
    operated.apply("Deployment", deployment(3))


def _written_by_us(operated: TestedCluster) -> dict[str, str]:
    """By name of the object its resourceVersion."""
    events = [
        each for each in operated.all("Event") if each["source"].get("component") == "karpenter"
    ]
    # The API server renews a lease of its own beside ours.
    leases = [each for each in operated.all("Lease") if each["metadata"]["name"] == OUR_LEASE]
    objects = [*events, *leases, *(each for kind in OURS for each in operated.all(kind))]
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in objects}


def test_once_makes_one_pass_and_ends(operated: TestedCluster) -> None:
    operated.apply("Deployment", deployment(30))
    operated.wait_for("pending pods", lambda: len(operated.all("Pod")) >= 30)
    before = operated.names("NodeClaim")
    ended = run_to_the_end(operated.plane, *EMULATED, "--once")
    assert ended.returncode == 0, ended.stderr
    assert operated.names("NodeClaim") - before
    operated.apply("Deployment", deployment(0))


def test_it_does_not_start_beside_a_karpenter_at_work(operated: TestedCluster) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "karpenter-leader-election"},
        "spec": {"holderIdentity": "karpenter-1", "leaseDurationSeconds": 600, "renewTime": now},
    }
    operated.apply("Lease", lease)
    try:
        ended = run_to_the_end(operated.plane, *EMULATED)
    finally:
        operated.delete("Lease", "karpenter-leader-election")
    assert ended.returncode == 1
    assert "karpenter-1 holds the lease kube-system/karpenter-leader-election" in ended.stderr


def test_a_setting_that_cannot_be_read_is_named(operated: TestedCluster) -> None:
    ended = run_to_the_end(operated.plane, *EMULATED, BATCH_MAX_DURATION="ten seconds")
    assert ended.returncode == 2
    assert "BATCH_MAX_DURATION: found 'ten seconds', expected a duration" in ended.stderr
