"""Nodes of `wain run` become those of Karpenter for AWS, its own program, without one of them being
replaced. Both use `wain emulator` over HTTP; the test plays the kubelets.
"""

import json
import time
from pathlib import Path
from typing import Any

from tests.integration.run_manifests import deployment
from tests.integration.test_aws_over_http import RUN, bound, emulator, instances, use_class
from tests.support.karpenter import AWS, RunningKarpenter
from tests.support.processes import MissingTool, skip_or_fail
from tests.support.running_operator import RunningOperator, TestedCluster

from wainwright.clock import format_microseconds

__all__ = ["emulator"]

VERSIONS = ("karpenter.sh/nodepool-hash-version", "karpenter.k8s.aws/ec2nodeclass-hash-version")
OURS = "wain-"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def test_karpenter_takes_over_what_wain_run_has_launched(
    operated: TestedCluster, emulator: dict[str, Any], tmp_path: Path
) -> None:
    use_class(operated, emulator)
    operated.apply("Deployment", _deployment(6))
    with RunningOperator(
        operated.plane, tmp_path, *RUN, environment=emulator["environment"]
    ) as ours:
        operated.wait_for("6 bound pods", lambda: _bound(operated) == 6)
        operated.wait_for("judged claims", lambda: _all_have(operated, "Consolidatable"))
        assert ours.terminate()[0] == 0
    kinds = ("NodeClaim", "Node")
    before = {kind: _uids(operated, kind) for kind in kinds}
    launched = instances(emulator).keys()
    assert launched

    with _karpenter(operated, emulator, tmp_path):
        operated.wait_for("hashes of Karpenter", lambda: _is_karpenters(operated))
        # It plans with the nodes, and launches for a pod that none of them has room for.
        operated.apply("Deployment", _deployment(30))
        operated.wait_for("30 bound pods", lambda: _bound(operated) == 30)
        operated.wait_for("its own verdicts", lambda: _all_have(operated, "Consolidatable"))
        for kind in kinds:
            assert before[kind] <= _uids(operated, kind), kind
        assert launched < instances(emulator).keys(), "none has ended, and Karpenter has added some"
        assert not [each for each in operated.all("NodeClaim") if _has(each, "Drifted")]


def _deployment(replicas: int) -> dict[str, Any]:
    """Not spread: Karpenter counts a zone that offers none of these types, and fills no other."""
    document = deployment(replicas)
    del document["spec"]["template"]["spec"]["topologySpreadConstraints"]
    return document


def _karpenter(operated: TestedCluster, emulator: dict[str, Any], folder: Path) -> RunningKarpenter:
    settings = {"CLUSTER_NAME": "wain", "CLUSTER_ENDPOINT": operated.plane.url}
    try:
        return RunningKarpenter(
            AWS, operated.plane, folder, {**emulator["environment"], **settings}
        )
    except MissingTool as missing:
        skip_or_fail(str(missing))


def _is_karpenters(operated: TestedCluster) -> bool:
    _bound(operated)
    claims = [each["metadata"].get("annotations", {}) for each in operated.all("NodeClaim")]
    return all(each.get(key, OURS)[:5] != OURS for each in claims for key in VERSIONS)


def _bound(operated: TestedCluster) -> int:
    """How many pods have a node; kubelets stay alive meanwhile."""
    for name in operated.names("Node"):
        spec = {"renewTime": format_microseconds(time.time()), "leaseDurationSeconds": 40}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
        operated.plane.request(
            "PATCH",
            f"{LEASES}/{name}",
            body=json.dumps({**lease, "metadata": {"name": name}}).encode(),
            content_type="application/apply-patch+yaml",
            query={"fieldManager": "tests", "force": "true"},
        )
    return bound(operated)


def _has(claim: dict[str, Any], condition: str) -> bool:
    stated = claim.get("status", {}).get("conditions", ())
    return any(each["type"] == condition and each["status"] == "True" for each in stated)


def _all_have(operated: TestedCluster, condition: str) -> bool:
    return all(_has(each, condition) for each in operated.all("NodeClaim"))


def _uids(operated: TestedCluster, kind: str) -> set[str]:
    return {each["metadata"]["uid"] for each in operated.all(kind)}
