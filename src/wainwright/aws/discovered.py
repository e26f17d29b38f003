"""Discovered: the memory that nodes turn out to have, which no API tells before they run.

How much of a machine's memory the kubelet finds depends on the type and on the image. The first
node of each says it, and from then on it is reckoned with, until the class boots another image.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.aws.nodeclass.resolved import Image, image_for
from wainwright.clock import Clock
from wainwright.model.requirements import Requirements

KEPT: Final = 60 * 86_400.0  # seconds


class Discovered:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._memory: dict[tuple[str, str], tuple[int, float]] = {}
        self.version = 0
        """Another number whenever something else is known than before."""

    def learn(self, instance_type: str, image: str, memory: int) -> None:
        """A node has so many bytes; of several that differ the smallest counts."""
        if memory <= 0:
            return
        key = (instance_type, image)
        known = self._known(key)
        least = memory if known is None else min(known, memory)
        self._memory[key] = (least, self._clock.now() + KEPT)
        self.version += least != known

    def of(self, kinds: Mapping[str, Requirements], images: Iterable[Image]) -> dict[str, int]:
        """By type, where its nodes with the image that the class boots on it are known."""
        listed, types = tuple(images), {name for name, _ in self._memory}
        found: dict[str, int] = {}
        for name in sorted(types & kinds.keys()):
            image = image_for(listed, kinds[name])
            memory = None if image is None else self._known((name, image.id))
            if memory is not None:
                found[name] = memory
        return found

    def _known(self, key: tuple[str, str]) -> int | None:
        memory, until = self._memory.get(key, (0, 0.0))
        return memory if until > self._clock.now() else None
