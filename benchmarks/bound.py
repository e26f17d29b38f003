"""What a set of pods must cost at the least, whatever the packing: by volume alone.

A price for each cpu, GiB and slot is fair if no type is worth more than it costs; then every plan
costs at least what its pods are worth. The search looks for the fair prices that give most; it
need not find the best ones to be right.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from wainwright.model.instance_type import InstanceType
from wainwright.model.pod import Pod

RESOURCES: Final = ("cpu", "memory", "pods")
STEPS: Final = 25
NARROWER: Final = 0.618


def lower_bound(pods: Iterable[Pod], types: Iterable[InstanceType]) -> float:
    """USD per hour."""
    needed = [0.0, 0.0, 0.0]
    for pod in pods:
        for number, name in enumerate(RESOURCES):
            needed[number] += 1 if name == "pods" else pod.requests.get(name, 0)
    sold = [
        (
            [kind.allocatable.get(name, 0) for name in RESOURCES],
            min(each.price for each in kind.offerings if each.available),
        )
        for kind in types
        if any(each.available for each in kind.offerings)
    ]
    return _search(lambda one: _search(lambda two: _worth(needed, sold, (one, two))))


def _worth(
    needed: Sequence[float], sold: Sequence[tuple[list[int], float]], shares: tuple[float, float]
) -> float:
    """The worth of the pods at fair prices of which the resources have these shares."""
    first = shares[0]
    second = (1 - first) * shares[1]
    weights = (first, second, 1 - first - second)
    # Scaled by what is needed, so that a share says how much of the worth a resource makes up.
    prices = [weight / most if most else 0.0 for weight, most in zip(weights, needed, strict=True)]
    return min(
        cost / worth
        for amounts, cost in sold
        if (worth := sum(p * a for p, a in zip(prices, amounts, strict=True)))
    )


def _search(of: Callable[[float], float]) -> float:
    """The most that a function with one summit has between 0 and 1."""
    low, high = 0.0, 1.0
    best = max(of(low), of(high))
    for _ in range(STEPS):
        left, right = high - NARROWER * (high - low), low + NARROWER * (high - low)
        at_left, at_right = of(left), of(right)
        best = max(best, at_left, at_right)
        low, high = (low, right) if at_left > at_right else (left, high)
    return best
