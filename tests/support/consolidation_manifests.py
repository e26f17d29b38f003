"""Manifests of small clusters with nodes of four sizes, as the commands read them."""

from typing import Any, Final

SIZES: Final = {"m5.large": 2, "m5.xlarge": 4, "m5.2xlarge": 8, "m5.4xlarge": 16}


def node_pool(name: str = "default", **disruption: Any) -> dict[str, Any]:
    on_demand = {
        "key": "karpenter.sh/capacity-type",
        "operator": "In",
        "values": ["on-demand"],
    }
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "disruption": {
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}],
                **disruption,
            },
            "template": {"spec": {"requirements": [on_demand], "nodeClassRef": reference}},
        },
    }


def cloud() -> dict[str, Any]:
    spec = {
        "region": "us-west-2",
        "zones": ["us-west-2a", "us-west-2b"],
        "instanceTypes": list(SIZES),
    }
    return {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Cloud", "spec": spec}


def node(name: str, size: str, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": str(SIZES[size]), "memory": f"{SIZES[size] * 4}Gi", "pods": "58"}
    labels = {
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": size,
        "topology.kubernetes.io/zone": "us-west-2a",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, **more.pop("metadata", {})},
        "status": {"capacity": amounts, "allocatable": amounts},
        **more,
    }


def pod(name: str, on: str | None, cpu: str, **metadata: Any) -> dict[str, Any]:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": "u",
        "controller": True,
    }
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": [owner], **metadata},
        "spec": spec if on is None else {**spec, "nodeName": on},
    }
