"""What a kube-scheduler would say to a pod where it is: labels, selectors and skew, from manifests.

Only as much as is needed to tell whether a placement of the reference breaks a rule.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final

from tests.support.oraclecatalogue import Manifest
from tests.support.oracleworlds import World

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


def name_of(pod: Manifest) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def meets(labels: Labels, expression: Mapping[str, Any]) -> bool:
    """Whether labels satisfy one expression of a node selector or label selector."""
    have, values = labels.get(expression["key"]), expression.get("values") or []
    return OPERATORS[expression["operator"]](have, values)


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether a label selector means something with these labels; none means nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    exact = all(labels.get(key) == value for key, value in wanted.items())
    return exact and all(meets(labels, each) for each in selector.get("matchExpressions") or ())


def may_use(pod: Manifest, node: Labels) -> bool:
    """Whether the pod's required node affinity admits a node with these labels."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required["nodeSelectorTerms"] if required else [{"matchExpressions": []}]
    return any(all(meets(node, each) for each in term["matchExpressions"]) for term in terms)


def tolerates(pod: Manifest, taints: list[dict[str, str]]) -> bool:
    """Whether the pod may come in spite of the taints; all tolerations here are by key."""
    tolerated = {each.get("key") for each in pod["spec"].get("tolerations") or ()}
    binding = [each["key"] for each in taints if each["effect"] != "PreferNoSchedule"]
    return None in tolerated or all(key in tolerated for key in binding)


def is_misplaced(world: World, pod: Manifest) -> bool:
    """Whether the node that the pod is bound to in this world is not what it requires."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in world.kinds("Node")}
    return not may_use(pod, labels[pod["spec"]["nodeName"]])


def breaks_skew(world: World, pod: Manifest) -> bool:
    """Whether the pod, where it is bound in this world, breaks a spread constraint of its own."""
    return any(
        each["whenUnsatisfiable"] == "DoNotSchedule" and _breaks(world, pod, each)
        for each in pod["spec"].get("topologySpreadConstraints") or ()
    )


def _breaks(world: World, pod: Manifest, spread: Mapping[str, Any]) -> bool:
    key = spread["topologyKey"]
    nodes = {node["metadata"]["name"]: node for node in world.kinds("Node")}
    counts = dict.fromkeys(_domains(world, pod, key), 0)
    fading = _fading(world)
    counted = {name for name, node in nodes.items() if _counts(pod, node, spread, fading)}
    for name in counted:
        counts.setdefault(nodes[name]["metadata"]["labels"].get(key, name), 0)
    for other in _meant(world, pod, spread):
        if (home := other["spec"].get("nodeName")) in counted:
            counts[nodes[home]["metadata"]["labels"].get(key, home)] += 1
    home = nodes[pod["spec"]["nodeName"]]["metadata"]["labels"].get(key)
    few = len(counts) < spread.get("minDomains", 1) or key == HOSTNAME
    least = 0 if few else min(counts.values(), default=0)
    most: int = spread["maxSkew"]
    return counts.get(home or "", 0) - least > most


def _fading(world: World) -> set[str]:
    """Taints that nodes have only while they start."""
    specs = [pool["spec"]["template"]["spec"] for pool in world.kinds("NodePool")]
    return {taint["key"] for spec in specs for taint in spec.get("startupTaints") or ()}


def _counts(
    pod: Manifest, node: Manifest, spread: Mapping[str, Any], fading: Container[str]
) -> bool:
    """Whether the node is one of those over which the pod is spread."""
    if spread.get("nodeAffinityPolicy") != "Ignore" and not may_use(
        pod, node["metadata"]["labels"]
    ):
        return False
    honored = spread.get("nodeTaintsPolicy") == "Honor"
    taints = [each for each in node["spec"].get("taints") or () if each["key"] not in fading]
    return not honored or tolerates(pod, taints)


def _meant(world: World, pod: Manifest, spread: Mapping[str, Any]) -> Iterator[Manifest]:
    """The pods that the constraint counts."""
    own = pod["metadata"]
    same = [key for key in spread.get("matchLabelKeys") or () if key in own["labels"]]
    for other in world.kinds("Pod"):
        labels = other["metadata"]["labels"]
        near = other["metadata"]["namespace"] == own["namespace"]
        alike = all(labels.get(key) == own["labels"][key] for key in same)
        if near and alike and selects(spread.get("labelSelector"), labels):
            yield other


def _domains(world: World, pod: Manifest, key: str) -> set[str]:
    """Where a node could be launched for the pod, as far as the key alone decides that."""
    if key not in (ZONE, CAPACITY_TYPE):
        return set()
    sold = {
        each["labels"][key]
        for kind in world.types
        for each in kind["offerings"]
        if each["available"]
    }
    return {value for value in sold if _admitted(pod, key, value)}


def _admitted(pod: Manifest, key: str, value: str) -> bool:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required["nodeSelectorTerms"] if required else [{"matchExpressions": []}]
    return any(
        all(meets({key: value}, each) for each in term["matchExpressions"] if each["key"] == key)
        for term in terms
    )
