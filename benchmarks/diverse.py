"""The mix: a fifth each of plain pods, zone spread, hostname spread, zone affinity, anti-affinity.

After the benchmark of the field's leader: sizes and labels from small sets, so that pods of one
kind are counted with those of others.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.pod import NO_BONDS, Bonds, Pod, PreferredNodes
from wainwright.model.requirements import Requirements, requirement
from wainwright.model.selector import Selector, selector
from wainwright.model.topology import Company, Preferred, Spread

MIB: Final = 2**20
LABEL: Final = "my-label"
AFFINITY: Final = "my-affinity"
VALUES: Final = "abcdefg"
CPU: Final = (100, 250, 500, 1000, 1500)
MEMORY: Final = (100, 256, 512, 1024, 2048, 4096)
OWN: Final = frozenset({"default"})

SPREAD_ZONES: Final = {
    v: Bonds(spreads=(Spread(key=ZONE, selector=selector({LABEL: v})),)) for v in VALUES
}
SPREAD_HOSTS: Final = {
    v: Bonds(spreads=(Spread(key=HOSTNAME, selector=selector({LABEL: v})),)) for v in VALUES
}
SHARE_A_ZONE: Final = {
    v: Bonds(affinity=(Company(key=ZONE, selector=selector({AFFINITY: v}), namespaces=OWN),))
    for v in VALUES
}
ALONE: Final = Bonds(
    anti_affinity=(Company(key=HOSTNAME, selector=selector({"app": "nginx"}), namespaces=OWN),)
)

Size = Callable[[int], dict[str, int]]


def diverse(count: int, dice: Random, size: Size | None = None) -> list[Pod]:
    """So many pods, the plain ones first."""
    sized = size or (lambda _: _small_set(dice))
    share = count // 5
    pods: list[Pod] = []
    for number in range(count):
        kind = 0 if number < count - 4 * share else 1 + (number - (count - 4 * share)) // share
        labels, bonds = _kind(kind, dice.choice(VALUES))
        pods.append(
            Pod(
                namespace="default",
                name=f"pod-{number}",
                labels=labels,
                bonds=bonds,
                requests=sized(number),
            )
        )
    return pods


def _kind(kind: int, value: str) -> tuple[dict[str, str], Bonds]:
    match kind:
        case 0:
            return {LABEL: value}, NO_BONDS
        case 1:
            return {LABEL: value}, SPREAD_ZONES[value]
        case 2:
            return {LABEL: value}, SPREAD_HOSTS[value]
        case 3:
            return {AFFINITY: value}, SHARE_A_ZONE[value]
        case _:
            return {"app": "nginx"}, ALONE


def _small_set(dice: Random) -> dict[str, int]:
    return {"cpu": dice.choice(CPU), "memory": dice.choice(MEMORY) * MIB}


def wishful(count: int, dice: Random, zone: str) -> list[Pod]:
    """Pods of one size with three wishes, as the leader's benchmark has them.

    A zone, which they get; a zone without any other of them, which cannot be; a node without any
    other of them, which is one node for each.
    """
    size = _small_set(dice)
    others = selector({"app": "nginx"})
    bonds = Bonds(
        preferred_nodes=(
            PreferredNodes(weight=1, requirements=Requirements([requirement(ZONE, "In", (zone,))])),
        ),
        preferred_anti_affinity=(
            Preferred(weight=10, term=Company(key=ZONE, selector=others, namespaces=OWN)),
            Preferred(weight=1, term=Company(key=HOSTNAME, selector=others, namespaces=OWN)),
        ),
    )
    labels = {"app": "nginx"}
    return [
        Pod(namespace="default", name=f"pod-{n}", labels=labels, requests=size, bonds=bonds)
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
        "spec": {"containers": [container], **_tied(pod.bonds)},
        "status": {"phase": "Pending"},
    }


def _tied(bonds: Bonds) -> dict[str, Any]:
    spreads = [_spread(each) for each in bonds.spreads]
    affinity = {
        "nodeAffinity": {_RATHER: [_nodes(each) for each in bonds.preferred_nodes]},
        "podAffinity": {_ALWAYS: [_term(each) for each in bonds.affinity]},
        "podAntiAffinity": {
            _ALWAYS: [_term(each) for each in bonds.anti_affinity],
            _RATHER: [
                {"weight": each.weight, "podAffinityTerm": _term(each.term)}
                for each in bonds.preferred_anti_affinity
            ],
        },
    }
    said = {side: terms for side, terms in affinity.items() if any(terms.values())}
    return {
        **({"topologySpreadConstraints": spreads} if spreads else {}),
        **({"affinity": said} if said else {}),
    }


_ALWAYS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_RATHER: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "maxSkew": spread.max_skew,
        "topologyKey": spread.key,
        "whenUnsatisfiable": "DoNotSchedule" if spread.required else "ScheduleAnyway",
        "labelSelector": _selector(spread.selector),
    }


def _term(term: Company) -> dict[str, Any]:
    return {"topologyKey": term.key, "labelSelector": _selector(term.selector)}


def _nodes(wanted: PreferredNodes) -> dict[str, Any]:
    asked = [
        {"key": key, "operator": operator, "values": list(values)}
        for key, operator, values, _ in wanted.requirements.entries()
    ]
    return {"weight": wanted.weight, "preference": {"matchExpressions": asked}}


def _selector(wanted: Selector) -> dict[str, Any]:
    return {"matchLabels": {each.key: next(iter(each.values)) for each in wanted.clauses}}
