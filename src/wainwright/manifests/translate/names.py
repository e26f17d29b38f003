"""Pods that only say how their name is to begin: each gets one of its own."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count

import msgspec

from wainwright.api.builtin.pod import Pod
from wainwright.manifests.expand import namespace


def named(pods: Iterable[Pod]) -> list[Pod]:
    """The pods with a name each, numbered from 0 in the order given where they had none."""
    given = list(pods)
    if all(pod.metadata.name for pod in given):
        return given
    taken = {(namespace(pod.metadata), pod.metadata.name) for pod in given}
    numbers: dict[tuple[str, str], Iterator[int]] = defaultdict(count)
    made = []
    for pod in given:
        space, beginning = namespace(pod.metadata), pod.metadata.generateName
        name = pod.metadata.name
        while (space, name) in taken and not pod.metadata.name:
            name = f"{beginning}{next(numbers[space, beginning])}"
        made.append(pod if name == pod.metadata.name else _renamed(pod, name))
    return made


def _renamed(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))
