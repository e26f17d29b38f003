"""The mix: a fifth each of plain pods, zone spread, hostname spread, zone affinity, anti-affinity.

After the benchmark of Karpenter: sizes and labels from small sets, so that pods of one
kind are counted with those of others.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.pod import (
    NO_CONSTRAINTS,
    AffinityTerm,
    Pod,
    PodConstraints,
    PodSelector,
    PreferredNodeTerm,
    TopologySpread,
    WeightedAffinityTerm,
    pod_selector,
)
from wainwright.model.requirements import Requirements, parse_requirement

MIB: Final = 2**20
LABEL: Final = "my-label"
AFFINITY: Final = "my-affinity"
VALUES: Final = "abcdefg"
CPU: Final = (100, 250, 500, 1000, 1500)
MEMORY: Final = (100, 256, 512, 1024, 2048, 4096)
OWN_NAMESPACE: Final = frozenset({"default"})

SPREAD_ZONES: Final = {
    v: PodConstraints(spreads=(TopologySpread(key=ZONE, selector=pod_selector({LABEL: v})),))
    for v in VALUES
}
SPREAD_HOSTS: Final = {
    v: PodConstraints(spreads=(TopologySpread(key=HOSTNAME, selector=pod_selector({LABEL: v})),))
    for v in VALUES
}
SAME_ZONE: Final = {
    v: PodConstraints(
        affinity=(
            AffinityTerm(key=ZONE, selector=pod_selector({AFFINITY: v}), namespaces=OWN_NAMESPACE),
        )
    )
    for v in VALUES
}
ONE_PER_HOST: Final = PodConstraints(
    anti_affinity=(
        AffinityTerm(
            key=HOSTNAME, selector=pod_selector({"app": "nginx"}), namespaces=OWN_NAMESPACE
        ),
    )
)

Size = Callable[[int], dict[str, int]]


def mixed_pods(count: int, rng: Random, size: Size | None = None) -> list[Pod]:
    """So many pods, the plain ones first."""
    sized = size or (lambda _: _random_size(rng))
    share = count // 5
    pods: list[Pod] = []
    for number in range(count):
        kind = 0 if number < count - 4 * share else 1 + (number - (count - 4 * share)) // share
        labels, constraints = _constraints_of(kind, rng.choice(VALUES))
        pods.append(
            Pod(
                namespace="default",
                name=f"pod-{number}",
                labels=labels,
                constraints=constraints,
                requests=sized(number),
            )
        )
    return pods


def _constraints_of(kind: int, value: str) -> tuple[dict[str, str], PodConstraints]:
    match kind:
        case 0:
            return {LABEL: value}, NO_CONSTRAINTS
        case 1:
            return {LABEL: value}, SPREAD_ZONES[value]
        case 2:
            return {LABEL: value}, SPREAD_HOSTS[value]
        case 3:
            return {AFFINITY: value}, SAME_ZONE[value]
        case _:
            return {"app": "nginx"}, ONE_PER_HOST


def _random_size(rng: Random) -> dict[str, int]:
    return {"cpu": rng.choice(CPU), "memory": rng.choice(MEMORY) * MIB}


def preferring_pods(count: int, rng: Random, zone: str) -> list[Pod]:
    """Pods of one size with three preferences, as Karpenter's benchmark has them.

    A zone, which they get; a zone without any other of them, which cannot be; a node without any
    other of them, which is one node for each.
    """
    size = _random_size(rng)
    others = pod_selector({"app": "nginx"})
    constraints = PodConstraints(
        preferred_nodes=(
            PreferredNodeTerm(
                weight=1, requirements=Requirements([parse_requirement(ZONE, "In", (zone,))])
            ),
        ),
        preferred_anti_affinity=(
            WeightedAffinityTerm(
                weight=10, term=AffinityTerm(key=ZONE, selector=others, namespaces=OWN_NAMESPACE)
            ),
            WeightedAffinityTerm(
                weight=1, term=AffinityTerm(key=HOSTNAME, selector=others, namespaces=OWN_NAMESPACE)
            ),
        ),
    )
    labels = {"app": "nginx"}
    return [
        Pod(
            namespace="default",
            name=f"pod-{n}",
            labels=labels,
            requests=size,
            constraints=constraints,
        )
        for n in range(count)
    ]


def manifest(pod: Pod) -> dict[str, Any]:
    """The same pod as Kubernetes knows it; what the pods of this module do not use is left out."""
    requests = {"cpu": f"{pod.requests['cpu']}m", "memory": str(pod.requests["memory"])}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.key,
            "labels": pod.labels,
        },
        "spec": {"containers": [container], **_constraint_fields(pod.constraints)},
        "status": {"phase": "Pending"},
    }


def _constraint_fields(constraints: PodConstraints) -> dict[str, Any]:
    spreads = [_spread(each) for each in constraints.spreads]
    affinity = {
        "nodeAffinity": {_PREFERRED: [_nodes(each) for each in constraints.preferred_nodes]},
        "podAffinity": {_REQUIRED: [_term(each) for each in constraints.affinity]},
        "podAntiAffinity": {
            _REQUIRED: [_term(each) for each in constraints.anti_affinity],
            _PREFERRED: [
                {"weight": each.weight, "podAffinityTerm": _term(each.term)}
                for each in constraints.preferred_anti_affinity
            ],
        },
    }
    said = {side: terms for side, terms in affinity.items() if any(terms.values())}
    return {
        **({"topologySpreadConstraints": spreads} if spreads else {}),
        **({"affinity": said} if said else {}),
    }


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _spread(spread: TopologySpread) -> dict[str, Any]:
    return {
        "maxSkew": spread.max_skew,
        "topologyKey": spread.key,
        "whenUnsatisfiable": "DoNotSchedule" if spread.required else "ScheduleAnyway",
        "labelSelector": _selector(spread.selector),
    }


def _term(term: AffinityTerm) -> dict[str, Any]:
    return {"topologyKey": term.key, "labelSelector": _selector(term.selector)}


def _nodes(wanted: PreferredNodeTerm) -> dict[str, Any]:
    asked = [
        {"key": key, "operator": operator, "values": list(values)}
        for key, operator, values, _ in wanted.requirements.entries()
    ]
    return {"weight": wanted.weight, "preference": {"matchExpressions": asked}}


def _selector(wanted: PodSelector) -> dict[str, Any]:
    return {"matchLabels": {each.key: next(iter(each.values)) for each in wanted.match_expressions}}
