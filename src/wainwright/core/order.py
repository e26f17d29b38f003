"""Order: which pod comes first. Large ones do, as small ones fit into what they leave."""

from collections.abc import Iterable
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import TypeAlias

from wainwright.core.wishes import PodClass
from wainwright.model.pod import Pod
from wainwright.model.resources import CPU, MEMORY


class Run:
    """Pods of one class that follow each other in the queue."""

    __slots__ = ("group", "pods")

    def __init__(self, group: PodClass, pods: list[Pod]) -> None:
        self.group = group
        self.pods = pods


Queue: TypeAlias = list[Run]


def queue(classes: Iterable[PodClass]) -> Queue:
    """By cpu and memory, descending; then the older, then UID, namespace and name."""
    ranked: list[tuple[int, int, float, str, str, str, int, Pod, PodClass]] = []
    for group in classes:
        requests = group.pods[0].requests  # all of them ask for the same
        cpu, memory = -requests.get(CPU, 0), -requests.get(MEMORY, 0)
        for pod in group.pods:
            age = inf if pod.created is None else pod.created
            # The number only keeps the sort from comparing pods.
            place = (cpu, memory, age, pod.uid, pod.namespace, pod.name, len(ranked), pod, group)
            ranked.append(place)
    ranked.sort()
    return [
        Run(group, [entry[7] for entry in entries])
        for group, entries in groupby(ranked, key=itemgetter(8))
    ]
