"""Objects that somebody might create to harm the controllers, each with what it tries.

`docs/security.md` names every one of them.
"""

import copy
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

Manifest = dict[str, Any]

HUGE, LARGE = "1e999999999", "1e300"
DIGITS = "9" * 5000
"""More digits than Python turns into an int."""
NOT_ASCII = "٣٣"
"""Arabic digits: numbers for Python, and for nobody else here."""
UNICODE = "a\u0085b\u2028c\x1b[31md\u202e\U0001f600"
"""Line ends that only some know, a terminal sequence, writing from right to left."""
BOMB = "x" * 250_000


class Outcome(Enum):
    HARMLESS = "harmless"
    REFUSED = "refused by the API server"
    UNANSWERED = "the API server itself does not finish"
    """It computes for minutes and stores nothing; a file can have it all the same."""


class Hostile(NamedTuple):
    name: str
    manifest: Manifest
    author: str
    """pod, node or NodePool: what somebody has to be allowed to create or change for it."""
    outcome: Outcome = Outcome.HARMLESS
    reason: str = ""
    """Of the condition of an EC2NodeClass that says why nothing is launched."""

    def companions(self) -> list[Manifest]:
        """What makes the controllers act on it: a NodePool of a class, a pod for a NodePool."""
        kind = self.manifest["kind"]
        if kind not in ("EC2NodeClass", "NodePool"):
            return []
        own = pool(spec={"template": {"spec": {"nodeClassRef": {**REFERENCE, "name": "hostile"}}}})
        waiting = pod(
            metadata={"name": "waiting"},
            spec={"nodeSelector": {"karpenter.sh/nodepool": "hostile"}},
        )
        return [own, waiting] if kind == "EC2NodeClass" else [waiting]


REFUSED, UNANSWERED = Outcome.REFUSED, Outcome.UNANSWERED


def pod(**changes: Any) -> Manifest:
    made: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hostile", "namespace": "default", "labels": {"app": "hostile"}},
        "spec": {
            "containers": [
                {"name": "app", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
            ]
        },
    }
    return merged(made, changes)


def merged(base: Manifest, changes: Manifest) -> Manifest:
    result = copy.deepcopy(base)
    for key, value in changes.items():
        known = result.get(key)
        both = isinstance(known, dict) and isinstance(value, dict)
        result[key] = merged(known, value) if both else value  # type: ignore[arg-type]
    return result


def requesting(resources: Manifest) -> Manifest:
    both = {"requests": resources, "limits": resources}
    container = {"name": "app", "image": "app", "resources": both}
    return pod(spec={"containers": [container]})


def annotated(**annotations: str) -> Manifest:
    return pod(metadata={"annotations": annotations})


def node_terms(*expressions: Manifest) -> Manifest:
    return {"nodeSelectorTerms": [{"matchExpressions": [each]} for each in expressions]}


def required_affinity(*expressions: Manifest) -> Manifest:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": node_terms(*expressions)}
    return pod(spec={"affinity": {"nodeAffinity": required}})


def expression(key: str, operator: str, *values: str) -> Manifest:
    return {"key": key, "operator": operator, "values": list(values)}


def preferring(count: int) -> Manifest:
    terms = [
        {
            "weight": 1 + number % 100,
            "preference": {"matchExpressions": [expression(f"example.com/key-{number}", "Exists")]},
        }
        for number in range(count)
    ]
    for each in terms:
        del each["preference"]["matchExpressions"][0]["values"]  # type: ignore[index]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    return pod(spec={"affinity": {"nodeAffinity": preferred}})


def spreading(keys: Iterable[str], when: str = "ScheduleAnyway") -> Manifest:
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "hostile"}},
        }
        for key in keys
    ]
    return pod(spec={"topologySpreadConstraints": constraints})


def keys(count: int) -> list[str]:
    return [f"example.com/key-{number}" for number in range(count)]


OF_INSTANCE_TYPES = (
    "node.kubernetes.io/instance-type",
    *(
        f"karpenter.k8s.aws/instance-{what}"
        for what in ("family", "size", "cpu", "memory", "network-bandwidth", "ebs-bandwidth")
    ),
)
"""Labels with up to a thousand values each."""


def containers(count: int) -> Manifest:
    made = [
        {"name": f"c{number}", "image": "app", "resources": {"requests": {"cpu": "1m"}}}
        for number in range(count)
    ]
    return pod(spec={"containers": made})


def owned_by(kind: str, api_version: str) -> Manifest:
    owner = {
        "apiVersion": api_version,
        "kind": kind,
        "name": "forged",
        "uid": "00000000-0000-0000-0000-000000000001",
        "controller": True,
    }
    return pod(metadata={"ownerReferences": [owner]})


def host_ports(count: int) -> Manifest:
    ports = [{"containerPort": 1 + n, "hostPort": 1 + n} for n in range(count)]
    made = copy.deepcopy(pod()["spec"]["containers"])
    made[0]["ports"] = ports
    return pod(spec={"containers": made})


PODS = (
    Hostile("requests of 1e999999999 cores", requesting({"cpu": HUGE}), "pod", UNANSWERED),
    Hostile(
        "requests of 1e-999999999 cores", requesting({"cpu": "1e-999999999"}), "pod", UNANSWERED
    ),
    Hostile("requests of 1e300 cores", requesting({"cpu": LARGE}), "pod"),
    Hostile("overhead of 1e300 bytes", pod(spec={"overhead": {"memory": LARGE}}), "pod", REFUSED),
    Hostile("requests with 5,000 digits", requesting({"memory": DIGITS}), "pod"),
    Hostile(
        "requests of 2,000 resources",
        requesting({f"example.com/r{number}": "1" for number in range(2000)}),
        "pod",
    ),
    Hostile(
        "overhead of 1e999999999 cores", pod(spec={"overhead": {"cpu": HUGE}}), "pod", UNANSWERED
    ),
    Hostile("2,000 containers", containers(2000), "pod"),
    Hostile("5,000 host ports", host_ports(5000), "pod"),
    Hostile(
        "do-not-disrupt for a time of 5,000 digits",
        annotated(**{"karpenter.sh/do-not-disrupt": f"{DIGITS}h"}),
        "pod",
    ),
    Hostile(
        "do-not-disrupt in Arabic digits",
        annotated(**{"karpenter.sh/do-not-disrupt": f"{NOT_ASCII}h"}),
        "pod",
    ),
    Hostile(
        "a deletion cost of 5,000 digits",
        annotated(**{"controller.kubernetes.io/pod-deletion-cost": DIGITS}),
        "pod",
        REFUSED,
    ),
    Hostile("an annotation of 250 kB", annotated(**{"example.com/bomb": BOMB}), "pod"),
    Hostile("annotations with odd Unicode", annotated(**{"example.com/text": UNICODE}), "pod"),
    Hostile(
        "10,000 tolerations",
        pod(
            spec={
                "tolerations": [
                    {"key": f"example.com/key-{number}", "operator": "Exists"}
                    for number in range(10_000)
                ]
            }
        ),
        "pod",
    ),
    Hostile(
        "a node selector of 2,000 labels",
        pod(spec={"nodeSelector": {f"example.com/key-{n}": "yes" for n in range(2000)}}),
        "pod",
    ),
    Hostile(
        "an affinity for 20,000 values",
        required_affinity(
            expression("topology.kubernetes.io/zone", "In", *map(str, range(20_000)))
        ),
        "pod",
    ),
    Hostile(
        "2,000 alternatives of affinity",
        required_affinity(
            *(expression(f"example.com/key-{number}", "In", "yes") for number in range(2000))
        ),
        "pod",
    ),
    Hostile(
        "more cores than 5,000 digits can say",
        required_affinity(expression("karpenter.k8s.aws/instance-cpu", "Gt", DIGITS)),
        "pod",
        REFUSED,
    ),
    Hostile(
        "more cores, in Arabic digits",
        required_affinity(expression("karpenter.k8s.aws/instance-cpu", "Gt", NOT_ASCII)),
        "pod",
        REFUSED,
    ),
    Hostile(
        "a regular expression for a label",
        required_affinity(expression("kubernetes.io/arch", "In", "(a+)+$", "a" * 63)),
        "pod",
        REFUSED,
    ),
    Hostile("1,000 preferences", preferring(1000), "pod"),
    Hostile("300 spread constraints", spreading(keys(300)), "pod"),
    Hostile("1,500 spread constraints", spreading(keys(1500)), "pod"),
    Hostile("1,500 required spread constraints", spreading(keys(1500), "DoNotSchedule"), "pod"),
    Hostile(
        "spread constraints over 7 labels of instance types",
        spreading(OF_INSTANCE_TYPES, "DoNotSchedule"),
        "pod",
    ),
    Hostile("an owner that is a DaemonSet", owned_by("DaemonSet", "apps/v1"), "pod"),
    Hostile("an owner that is a Node", owned_by("Node", "v1"), "pod"),
    Hostile("an owner that is a NodeClaim", owned_by("NodeClaim", "karpenter.sh/v1"), "pod"),
    Hostile(
        "a PodDisruptionBudget of 5,000 digits",
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "hostile", "namespace": "default"},
            "spec": {
                "maxUnavailable": f"{DIGITS}%",
                "selector": {
                    "matchExpressions": [expression("app", "In", *map(str, range(10_000)))]
                },
            },
        },
        "pod",
        REFUSED,
    ),
    Hostile(
        "a claim for 1e999999999 bytes",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "hostile", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": HUGE}},
            },
        },
        "pod",
        UNANSWERED,
    ),
)


def node(**changes: Any) -> Manifest:
    made: Manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "hostile", "labels": {"kubernetes.io/hostname": "hostile"}},
        "spec": {},
        "status": {
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"},
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"},
        },
    }
    return merged(made, changes)


def of_pool(**changes: Any) -> Manifest:
    labels = {
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/initialized": "true",
        "karpenter.sh/registered": "true",
        "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": "m5.large",
    }
    return merged(node(metadata={"labels": labels}), changes)


NOT_READY = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
NODES = (
    Hostile(
        "capacity of 1e999999999 cores",
        node(
            status={"capacity": {"cpu": HUGE}, "allocatable": {"cpu": HUGE}},
            spec={"taints": NOT_READY},
        ),
        "node",
        UNANSWERED,
    ),
    Hostile(
        "capacity of 1e300 cores",
        node(
            status={"capacity": {"cpu": LARGE}, "allocatable": {"cpu": LARGE}},
            spec={"taints": NOT_READY},
        ),
        "node",
    ),
    Hostile(
        "negative capacity",
        node(status={"allocatable": {"cpu": "-5", "memory": "-1Gi"}}),
        "node",
        REFUSED,
    ),
    Hostile(
        "1 MB of labels",
        node(metadata={"labels": {f"example.com/{n}-{'k' * 50}": "v" * 60 for n in range(8000)}}),
        "node",
    ),
    Hostile(
        "a provider id of another cloud", of_pool(spec={"providerID": f"gce://{UNICODE}"}), "node"
    ),
    Hostile(
        "a provider id of 100 kB", of_pool(spec={"providerID": "aws:///" + "x" * 100_000}), "node"
    ),
    Hostile(
        "an instance that is not ours",
        of_pool(spec={"providerID": "aws:///us-west-2a/i-0123456789abcdef0"}),
        "node",
    ),
    Hostile("labels of a NodePool without a NodeClaim", of_pool(), "node"),
    Hostile(
        "conditions of impossible times",
        of_pool(
            status={
                "conditions": [
                    {"type": "Ready", "status": "False", "lastTransitionTime": time}
                    for time in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
                ]
            }
        ),
        "node",
    ),
    Hostile(
        "5,000 taints",
        node(spec={"taints": [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(5000)]}),
        "node",
    ),
    Hostile(
        "hashes and odd Unicode in annotations",
        of_pool(
            metadata={
                "annotations": {
                    "karpenter.sh/nodepool-hash": DIGITS,
                    "karpenter.sh/nodepool-hash-version": UNICODE,
                    "example.com/bomb": BOMB,
                }
            }
        ),
        "node",
    ),
)

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def pool(**changes: Any) -> Manifest:
    made: Manifest = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "hostile"},
        "spec": {"template": {"spec": {"nodeClassRef": REFERENCE, "requirements": []}}},
    }
    return merged(made, changes)


def requiring(*expressions: Manifest) -> Manifest:
    return pool(spec={"template": {"spec": {"requirements": list(expressions)}}})


def templated(**spec: Any) -> Manifest:
    return pool(spec={"template": {"spec": spec}})


def disrupting(**disruption: Any) -> Manifest:
    return pool(spec={"disruption": {"consolidateAfter": "30s", **disruption}})


NODE_POOLS = (
    Hostile("a limit of 1e999999999 cores", pool(spec={"limits": {"cpu": HUGE}}), "NodePool"),
    Hostile("expiry after 10^17 hours", templated(expireAfter=f"{10**17}h"), "NodePool"),
    Hostile(
        "a grace period of 5,000 digits", templated(terminationGracePeriod=f"{DIGITS}s"), "NodePool"
    ),
    Hostile(
        "consolidation after 10^17 hours", disrupting(consolidateAfter=f"{10**17}h"), "NodePool"
    ),
    Hostile(
        "a budget on the 31st of February",
        disrupting(budgets=[{"nodes": "0", "schedule": "0 0 31 2 *", "duration": "1h"}]),
        "NodePool",
    ),
    Hostile(
        "a budget that lasts 10^9 hours",
        disrupting(budgets=[{"nodes": "0", "schedule": "* * * * *", "duration": f"{10**9}h"}]),
        "NodePool",
    ),
    Hostile(
        "a number of instance types of 5,000 digits",
        pool(metadata={"annotations": {"wainwright.dev/spot-to-spot-types": DIGITS}}),
        "NodePool",
    ),
    Hostile(
        "a step of 5,000 digits in the schedule of a budget",
        disrupting(budgets=[{"nodes": "1", "schedule": f"*/{DIGITS} * * * *", "duration": "1h"}]),
        "NodePool",
    ),
    Hostile(
        "a budget of 5,000 digits",
        disrupting(budgets=[{"nodes": f"{DIGITS}%"}]),
        "NodePool",
        REFUSED,
    ),
    Hostile(
        "a requirement of 50,000 values",
        requiring(expression("node.kubernetes.io/instance-type", "In", *map(str, range(50_000)))),
        "NodePool",
    ),
    Hostile(
        "a requirement above 5,000 digits",
        requiring(expression("karpenter.k8s.aws/instance-cpu", "Gt", DIGITS)),
        "NodePool",
        REFUSED,
    ),
    Hostile(
        "a requirement above Arabic digits",
        requiring(expression("karpenter.k8s.aws/instance-cpu", "Gt", NOT_ASCII)),
        "NodePool",
        REFUSED,
    ),
    Hostile(
        "a pause of odd Unicode",
        pool(metadata={"annotations": {"wainwright.dev/pause": UNICODE}}),
        "NodePool",
    ),
    Hostile(
        "2,000 labels of its nodes",
        pool(
            spec={
                "template": {
                    "metadata": {"labels": {f"example.com/k{n}": "v" for n in range(2000)}}
                }
            }
        ),
        "NodePool",
        REFUSED,
    ),
    Hostile(
        "a label with U+0085",
        pool(spec={"template": {"metadata": {"labels": {"example.com/text": UNICODE}}}}),
        "NodePool",
        REFUSED,
    ),
    Hostile(
        "annotations of 250 kB for its nodes",
        pool(spec={"template": {"metadata": {"annotations": {"example.com/bomb": BOMB}}}}),
        "NodePool",
    ),
)

DISCOVERY = [{"tags": {"karpenter.sh/discovery": "shop"}}]


def node_class(**spec: Any) -> Manifest:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "hostile"},
        "spec": {
            "role": "KarpenterNodeRole-shop",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": DISCOVERY,
            "securityGroupSelectorTerms": DISCOVERY,
            **spec,
        },
    }


MIME = (
    'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="BOUNDARY"\n\n'
    + "--BOUNDARY\n" * 2000
)
NODE_CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
ALIASES = f"{NODE_CONFIG}a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{last}'] * 9)}]\n"
    for last, name in zip("abcdefgh", "bcdefghi", strict=True)
)
BOTTLEROCKET = {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}
INVALID_TEMPLATE = "LaunchTemplateInvalid"
UNREADABLE_USER_DATA: dict[str, Manifest] = {
    "nested YAML": {"userData": "{a: " * 3000},
    "a NodeConfig with aliases of aliases": {"userData": ALIASES},
    "a NodeConfig that contains itself": {"userData": f"{NODE_CONFIG}spec: &s {{x: *s}}"},
    "a NodeConfig with a tag that promises a time": {
        "userData": f"{NODE_CONFIG}spec: {{x: !!timestamp x}}"
    },
    "nested MIME": {"userData": "MIME-Version: 1.0\n" + "Content-Type: message/rfc822\n\n" * 500},
    "MIME with a boundary numbered by 5,000 digits": {
        "userData": f"Content-Type: multipart/mixed; boundary*{DIGITS}*=a\n\n--a"
    },
    "nested TOML": BOTTLEROCKET | {"userData": f"a = {'[' * 3000}"},
    "TOML with a number of 5,000 digits": BOTTLEROCKET | {"userData": f"a = {DIGITS}"},
    "TOML with a key of 7,000 parts": BOTTLEROCKET | {"userData": f"{'a.' * 7000}a = 1"},
}
NODE_CLASSES = (
    Hostile(
        "user data of 250 kB",
        node_class(userData=BOMB),
        "NodePool",
        reason="UserDataTooLarge",
    ),
    Hostile(
        "user data with odd Unicode", node_class(userData=f"#!/bin/sh\n{UNICODE}\n"), "NodePool"
    ),
    Hostile(
        "user data of 2,000 empty MIME parts",
        node_class(userData=MIME),
        "NodePool",
        reason="UserDataTooLarge",
    ),
    *(
        Hostile(f"user data of {name}", node_class(**spec), "NodePool", reason=INVALID_TEMPLATE)
        for name, spec in UNREADABLE_USER_DATA.items()
    ),
    Hostile(
        "a volume of 1e999999999 GiB",
        node_class(
            blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": f"{HUGE}Gi"}}]
        ),
        "NodePool",
        REFUSED,
    ),
    Hostile(
        "reserved resources of 1e999999999",
        node_class(kubelet={"systemReserved": {"memory": HUGE}, "kubeReserved": {"cpu": HUGE}}),
        "NodePool",
    ),
    Hostile("10^9 pods on a node", node_class(kubelet={"maxPods": 10**9}), "NodePool"),
    Hostile(
        "eviction at 1e999999999 %",
        node_class(kubelet={"evictionHard": {"memory.available": f"{HUGE}%"}}),
        "NodePool",
        REFUSED,
    ),
    Hostile("2,000 tags", node_class(tags={f"key-{n}": "v" for n in range(2000)}), "NodePool"),
    Hostile(
        "the tags of another cluster",
        node_class(tags={"kubernetes.io/cluster/other": "owned", "eks:eks-cluster-name": "other"}),
        "NodePool",
        REFUSED,
    ),
    Hostile(
        "an image parameter of 100 kB",
        node_class(amiSelectorTerms=[{"ssmParameter": "/" + "x" * 100_000}], amiFamily="AL2023"),
        "NodePool",
    ),
    Hostile(
        "a role that is a path",
        node_class(role="../../admin"),
        "NodePool",
    ),
)


def overlay(**spec: Any) -> Manifest:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "hostile"},
        "spec": {"requirements": [], **spec},
    }


OVERLAYS = (
    Hostile("a price of 1e999999999", overlay(price=HUGE), "NodePool", REFUSED),
    Hostile(
        "an adjustment of 1e999999999 %", overlay(priceAdjustment=f"+{HUGE}%"), "NodePool", REFUSED
    ),
    Hostile("a price of 5,000 digits", overlay(price=DIGITS), "NodePool"),
    Hostile("a capacity of 1e999999999", overlay(capacity={"example.com/gpu": HUGE}), "NodePool"),
)
ALL = (*PODS, *NODES, *NODE_POOLS, *NODE_CLASSES, *OVERLAYS)
