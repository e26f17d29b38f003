"""Nodes of Karpenter become ours, and Karpenter's again, without one of them being replaced."""

from pathlib import Path
from typing import Any

from tests.integration.run_manifests import EMULATED, deployment
from tests.support.running_operator import RunningOperator, TestedCluster

POOL_HASH, POOL_VERSION = "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"
CLASS_HASH = "karpenter.k8s.aws/ec2nodeclass-hash"
CLASS_VERSION = "karpenter.k8s.aws/ec2nodeclass-hash-version"
KARPENTERS = {
    POOL_HASH: "14407783392426390271",
    POOL_VERSION: "v3",
    CLASS_HASH: "15717127384234168229",
    CLASS_VERSION: "v4",
}
"""As Karpenter writes them: other numbers than ours, of other versions."""
TERMINATION = "karpenter.sh/termination"
KINDS = ("NodeClaim", "NodePool", "EC2NodeClass")


def test_no_node_is_replaced_when_the_controller_changes(
    operated: TestedCluster, tmp_path: Path
) -> None:
    with RunningOperator(operated.plane, tmp_path, *EMULATED) as before:
        operated.apply("Deployment", deployment(6))
        operated.wait_for("6 pods", lambda: len(operated.ready_pods("web")) == 6)
        operated.wait_for("initialized claims", lambda: _all_initialized(operated))
        assert before.terminate()[0] == 0
    _make_it_karpenters(operated)
    claims, nodes = _uids(operated, "NodeClaim"), _uids(operated, "Node")

    with RunningOperator(operated.plane, tmp_path, *EMULATED) as ours:
        operated.wait_for("our hashes", lambda: _is_ours(operated))
        operated.wait_for("verdicts", lambda: _all_judged(operated))
        # Something is launched for a new pod, so that plans have been made with the nodes.
        operated.apply("Deployment", deployment(7))
        operated.wait_for("7 pods", lambda: len(operated.ready_pods("web")) == 7)
        assert claims <= _uids(operated, "NodeClaim")
        assert nodes <= _uids(operated, "Node")
        assert not _drifted(operated)
        assert ours.terminate()[0] == 0

    # What Karpenter needs to take them over: hashes of a version that it does not know, which it
    # replaces by its own without comparing, and its own finalizers and labels.
    for claim in operated.all("NodeClaim"):
        metadata = claim["metadata"]
        assert metadata["finalizers"] == [TERMINATION]
        assert metadata["annotations"][POOL_VERSION] != KARPENTERS[POOL_VERSION]
        assert metadata["annotations"][CLASS_VERSION] != KARPENTERS[CLASS_VERSION]
        assert metadata["labels"]["karpenter.sh/nodepool"] == "default"
    for node in operated.all("Node"):
        assert node["metadata"]["finalizers"] == [TERMINATION]
        assert node["metadata"]["labels"]["karpenter.sh/initialized"] == "true"


def _make_it_karpenters(operated: TestedCluster) -> None:
    """The objects as Karpenter would have left them: its hashes, and nothing that only we write."""
    for kind in KINDS:
        for each in operated.all(kind):
            known = each["metadata"].get("annotations", {})
            ours = {key: None for key in known if key.startswith("wainwright.dev/")}
            keys = (CLASS_HASH, CLASS_VERSION) if kind == "EC2NodeClass" else KARPENTERS
            hashes = {key: KARPENTERS[key] for key in keys if kind == "NodeClaim" or key in known}
            patch = {"metadata": {"annotations": {**ours, **hashes}}}
            operated.patch(kind, each["metadata"]["name"], patch)


def _is_ours(operated: TestedCluster) -> bool:
    return all(
        KARPENTERS[POOL_VERSION] != found.get(POOL_VERSION, "")
        and KARPENTERS[CLASS_VERSION] != found.get(CLASS_VERSION, "")
        for kind in KINDS
        for each in operated.all(kind)
        for found in [each["metadata"].get("annotations", {})]
    )


def _conditions(claim: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in claim.get("status", {}).get("conditions", ())}


def _all_initialized(operated: TestedCluster) -> bool:
    return all(_conditions(each).get("Initialized") == "True" for each in operated.all("NodeClaim"))


def _all_judged(operated: TestedCluster) -> bool:
    """Whether drift and consolidation have looked at every claim."""
    return all("Consolidatable" in _conditions(each) for each in operated.all("NodeClaim"))


def _drifted(operated: TestedCluster) -> list[str]:
    claims = operated.all("NodeClaim")
    return [c["metadata"]["name"] for c in claims if _conditions(c).get("Drifted") == "True"]


def _uids(operated: TestedCluster, kind: str) -> set[str]:
    return {each["metadata"]["uid"] for each in operated.all(kind)}
