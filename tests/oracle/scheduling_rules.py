"""Rules of kube-scheduler for a bound pod, from manifests: labels, selectors and skew.
Only as much as is needed to recognise a placement of the reference that violates a rule.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final

from tests.oracle.random_catalog import Manifest
from tests.oracle.random_cluster import RandomCluster

from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ZONE

Labels = Mapping[str, str]

OPERATORS: Final[dict[str, Callable[[str | None, list[str]], bool]]] = {
    "In": lambda have, values: have in values,
    "NotIn": lambda have, values: have not in values,
    "Exists": lambda have, _: have is not None,
    "DoesNotExist": lambda have, _: have is None,
    "Gt": lambda have, values: have is not None and int(have) > int(values[0]),
    "Lt": lambda have, values: have is not None and int(have) < int(values[0]),
}


def pod_key(pod: Manifest) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def matches_expression(labels: Labels, expression: Mapping[str, Any]) -> bool:
    """Whether labels satisfy one expression of a node selector or label selector."""
    have, values = labels.get(expression["key"]), expression.get("values") or []
    return OPERATORS[expression["operator"]](have, values)


def matches_selector(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether a label selector means something with these labels; none means nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    exact = all(labels.get(key) == value for key, value in wanted.items())
    return exact and all(
        matches_expression(labels, each) for each in selector.get("matchExpressions") or ()
    )


def matches_node_affinity(pod: Manifest, node: Labels) -> bool:
    """Whether the pod's required node affinity admits a node with these labels."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required["nodeSelectorTerms"] if required else [{"matchExpressions": []}]
    return any(
        all(matches_expression(node, each) for each in term["matchExpressions"]) for term in terms
    )


def tolerates(pod: Manifest, taints: list[dict[str, str]]) -> bool:
    """Whether the pod may come in spite of the taints; all tolerations here are by key."""
    tolerated = {each.get("key") for each in pod["spec"].get("tolerations") or ()}
    binding = [each["key"] for each in taints if each["effect"] != "PreferNoSchedule"]
    return None in tolerated or all(key in tolerated for key in binding)


def violates_node_affinity(cluster: RandomCluster, pod: Manifest) -> bool:
    """Whether the node that the pod is bound to in this cluster is not what it requires."""
    labels = {
        node["metadata"]["name"]: node["metadata"]["labels"] for node in cluster.kinds("Node")
    }
    return not matches_node_affinity(pod, labels[pod["spec"]["nodeName"]])


def violates_max_skew(cluster: RandomCluster, pod: Manifest) -> bool:
    """Whether the pod, where it is bound in this cluster, breaks a spread constraint of its own."""
    return any(
        each["whenUnsatisfiable"] == "DoNotSchedule" and _violates_spread(cluster, pod, each)
        for each in pod["spec"].get("topologySpreadConstraints") or ()
    )


def _violates_spread(cluster: RandomCluster, pod: Manifest, spread: Mapping[str, Any]) -> bool:
    key = spread["topologyKey"]
    nodes = {node["metadata"]["name"]: node for node in cluster.kinds("Node")}
    counts = dict.fromkeys(_launchable_domains(cluster, pod, key), 0)
    fading = _startup_taints(cluster)
    counted = {name for name, node in nodes.items() if _is_eligible_node(pod, node, spread, fading)}
    for name in counted:
        counts.setdefault(nodes[name]["metadata"]["labels"].get(key, name), 0)
    for other in _selected_pods(cluster, pod, spread):
        if (home := other["spec"].get("nodeName")) in counted:
            counts[nodes[home]["metadata"]["labels"].get(key, home)] += 1
    home = nodes[pod["spec"]["nodeName"]]["metadata"]["labels"].get(key)
    few = len(counts) < spread.get("minDomains", 1) or key == HOSTNAME
    least = 0 if few else min(counts.values(), default=0)
    most: int = spread["maxSkew"]
    return counts.get(home or "", 0) - least > most


def _startup_taints(cluster: RandomCluster) -> set[str]:
    """Taints that nodes have only while they start."""
    specs = [pool["spec"]["template"]["spec"] for pool in cluster.kinds("NodePool")]
    return {taint["key"] for spec in specs for taint in spec.get("startupTaints") or ()}


def _is_eligible_node(
    pod: Manifest, node: Manifest, spread: Mapping[str, Any], fading: Container[str]
) -> bool:
    """Whether the node is one of those over which the pod is spread."""
    if spread.get("nodeAffinityPolicy") != "Ignore" and not matches_node_affinity(
        pod, node["metadata"]["labels"]
    ):
        return False
    honored = spread.get("nodeTaintsPolicy") == "Honor"
    taints = [each for each in node["spec"].get("taints") or () if each["key"] not in fading]
    return not honored or tolerates(pod, taints)


def _selected_pods(
    cluster: RandomCluster, pod: Manifest, spread: Mapping[str, Any]
) -> Iterator[Manifest]:
    """The pods that the constraint counts."""
    own = pod["metadata"]
    same = [key for key in spread.get("matchLabelKeys") or () if key in own["labels"]]
    for other in cluster.kinds("Pod"):
        labels = other["metadata"]["labels"]
        near = other["metadata"]["namespace"] == own["namespace"]
        alike = all(labels.get(key) == own["labels"][key] for key in same)
        if near and alike and matches_selector(spread.get("labelSelector"), labels):
            yield other


def _launchable_domains(cluster: RandomCluster, pod: Manifest, key: str) -> set[str]:
    """Where a node could be launched for the pod, as far as the key alone decides that."""
    if key not in (ZONE, CAPACITY_TYPE):
        return set()
    sold = {
        each["labels"][key]
        for kind in cluster.types
        for each in kind["offerings"]
        if each["available"]
    }
    return {value for value in sold if _allows_value(pod, key, value)}


def _allows_value(pod: Manifest, key: str, value: str) -> bool:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required["nodeSelectorTerms"] if required else [{"matchExpressions": []}]
    return any(
        all(
            matches_expression({key: value}, each)
            for each in term["matchExpressions"]
            if each["key"] == key
        )
        for term in terms
    )
