"""Eviction: what the kubelet keeps free by evicting pods, and so never gives to them."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from wainwright.api.quantity import NANO, Quantity
from wainwright.catalogue.figure import EPHEMERAL_STORAGE, MEMORY, MIB, Detail, Figure, Rule
from wainwright.catalogue.settings import Kubelet
from wainwright.catalogue.threshold import Threshold

SIGNALS: Final = {MEMORY: "memory.available", EPHEMERAL_STORAGE: "nodefs.available"}
"""The signals that take something off a pod's resources; inodes, images and pids do not."""
DEFAULTS: Final = {
    MEMORY: Threshold(quantity=Quantity(100 * MIB * NANO)),
    EPHEMERAL_STORAGE: Threshold(share=10 * NANO),
}


def hard_threshold(kubelet: Kubelet, resource: str) -> Threshold:
    """The class's, signal by signal, else the kubelet's own. Soft thresholds reserve nothing."""
    return kubelet.eviction_hard.get(SIGNALS[resource], DEFAULTS[resource])


def eviction(kubelet: Kubelet, capacity: Mapping[str, Figure]) -> dict[str, Figure]:
    return {
        resource: _kept_free(
            signal,
            hard_threshold(kubelet, resource),
            signal in kubelet.eviction_hard,
            capacity[resource].amount,
        )
        for resource, signal in SIGNALS.items()
    }


@lru_cache(maxsize=4096)
def _kept_free(signal: str, threshold: Threshold, given: bool, capacity: int) -> Figure:
    """Cached, as most machines of a class have the same disk, and many the same memory."""
    detail: Detail = {"signal": signal}
    if threshold.off:
        return Figure(0, Rule.EVICTION_OFF, detail)
    if threshold.quantity is not None:
        rule = Rule.EVICTION_HARD if given else Rule.EVICTION_DEFAULT
        return Figure(threshold.of(capacity), rule, detail)
    rule = Rule.EVICTION_HARD_SHARE if given else Rule.EVICTION_DEFAULT_SHARE
    detail |= {"percent": threshold.percent, "capacity": capacity}
    return Figure(threshold.of(capacity), rule, detail)
