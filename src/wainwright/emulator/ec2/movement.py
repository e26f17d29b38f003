"""Movement of spot prices: slow trends, as they were measured, that hang on seed and pool alone.

A target wanders around the model's price (standard deviation .26 of the logarithm, three weeks to
forget where it was); the price follows it within days, a step every four hours. That gives changes
of 1 % in seven hours, 2.4 % a day, 13 % a week and 29 % a month, as snapshots of the real ones do.
Nothing of it is kept: what a pool cost at any moment can be worked out again.
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from math import exp, sqrt
from struct import Struct
from typing import Final

from wainwright.emulator.ec2.goods import Pool

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
STEP: Final = 4 * HOUR
SPREAD: Final = 0.26
MEMORY: Final = exp(-STEP / (21 * DAY))
FOLLOWS: Final = 1 - exp(-STEP / (4 * DAY))
LAG: Final = FOLLOWS * MEMORY / (1 - (1 - FOLLOWS) * MEMORY)
"""How much of a target the price has taken over, on average, when both have run for long."""
NORMALS: Final = Struct(">32H")
ROOT_OF_THREE: Final = sqrt(3.0)  # the sum of four even draws has a variance of a third


class Walk:
    """One pool's way so far; it only goes on, as time does."""

    def __init__(self, drifts: Iterator[float]) -> None:
        self.step = 0
        self._drifts = drifts
        self._drift = next(drifts)

    def to(self, step: int) -> float:
        for drift in islice(self._drifts, step - self.step):
            self._drift = drift
        self.step = step
        return self._drift


class Movement:
    """Factors on the model's prices since it began."""

    def __init__(self, seed: int, start: float) -> None:
        self._seed = seed
        self._start = start
        self._walks: dict[Pool, Walk] = {}

    def factor(self, pool: Pool, now: float) -> float:
        """What the pool's price has changed by; 1 when it all began."""
        step, walk = self._step(pool, now), self._walks.get(pool)
        if walk is None or walk.step > step:
            walk = self._walks[pool] = Walk(self._drifts(pool))
        return exp(walk.to(step))

    def history(self, pool: Pool, start: float, end: float) -> Iterator[tuple[float, float]]:
        """When the price changed and to which factor, the latest first: those that held then."""
        drifts = list(islice(self._drifts(pool), self._step(pool, end) + 1))
        for step in range(len(drifts) - 1, -1, -1):
            since = self._since(pool, step)
            yield since, exp(drifts[step])
            if since <= start:
                return

    def since(self, pool: Pool, now: float) -> float:
        """From when on the price of now holds."""
        return self._since(pool, self._step(pool, now))

    def _step(self, pool: Pool, now: float) -> int:
        return max(int((now - self._start + self._phase(pool)) // STEP), 0)

    def _since(self, pool: Pool, step: int) -> float:
        return max(self._start + step * STEP - self._phase(pool), self._start)

    def _phase(self, pool: Pool) -> float:
        """Pools change at times of their own."""
        digest = blake2b("/".join(pool).encode(), digest_size=4).digest()
        return int.from_bytes(digest) / 2**32 * STEP

    def _drifts(self, pool: Pool) -> Iterator[float]:
        """Step by step how far the price is from where it began, as logarithms.

        Target and price begin as they would be after a long time, else the first days would be
        unlike the others.
        """
        normals = self._normals(pool)
        target = SPREAD * next(normals)
        behind = sqrt(LAG * (1 - LAG)) * SPREAD * next(normals)
        price = first = LAG * target + behind
        noise = SPREAD * sqrt(1 - MEMORY**2)
        while True:
            yield price - first
            target = target * MEMORY + noise * next(normals)
            price += (target - price) * FOLLOWS

    def _normals(self, pool: Pool) -> Iterator[float]:
        name, number = "/".join(pool), 0
        while True:
            text = f"{self._seed} {name} {number}".encode()
            parts = NORMALS.unpack(blake2b(text, digest_size=64).digest())
            for at in range(8):
                yield (sum(parts[at::8]) / 0x10000 - 2.0) * ROOT_OF_THREE
            number += 1
