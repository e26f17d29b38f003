"""What the tests of `wain run` apply: a NodePool, its class, and Deployments."""

from typing import Any

ZONE = "topology.kubernetes.io/zone"
EMULATED = ("--provider", "emulator", "--cluster-name", "shop", "--emulator-boot", "1s")
DISCOVERY = [{"tags": {"karpenter.sh/discovery": "shop"}}]
NODE_CLASS: dict[str, Any] = {
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
NODE_POOL: dict[str, Any] = {
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
