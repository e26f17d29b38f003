"""The mix: a fifth each of plain pods, zone spread, hostname spread, zone affinity, anti-affinity.

After the benchmark of the field's leader: sizes and labels from small sets, so that pods of one
kind are counted with those of others.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.pod import NO_BONDS, Bonds, Pod
from wainwright.model.selector import selector
from wainwright.model.topology import Company, Spread

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
