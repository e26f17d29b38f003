"""Nodes of the cluster, looked at one by one."""

from collections.abc import Iterable

import msgspec
from tests.support.shop import requests_of

from wainwright.model.node import Node
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import subtract
from wainwright.model.taints import PREFER_NO_SCHEDULE, TOLERATE_PREFERENCES, untolerated


def in_order(nodes: Iterable[Node]) -> list[Node]:
    """Those that take pods: the initialized first, then by name."""
    usable = [node for node in nodes if not node.deleting]
    return sorted(usable, key=lambda node: (not node.initialized, node.name))


def undemanding(pod: Pod) -> Pod:
    """The pod, if it has to go where a taint only prefers that it does not."""
    tolerations = (*pod.tolerations, TOLERATE_PREFERENCES)
    return msgspec.structs.replace(pod, tolerations=tolerations)


def is_welcome(node: Node, pod: Pod, wanted: Requirements) -> bool:
    return untolerated(node.lasting_taints, pod.tolerations) is None and _labelled(node, wanted)


def has_room(node: Node, pods: Iterable[Pod], daemonsets: Iterable[DaemonSet]) -> bool:
    """Whether the pods fit beside what runs there and the daemonsets that are still to come."""
    expected = requests_of(each for each in daemonsets if _runs(node, each))
    there = requests_of(pod for pod in node.pods if pod.daemonset)
    coming = {name: max(0, amount - there.get(name, 0)) for name, amount in expected.items()}
    left = subtract(subtract(node.allocatable, requests_of(node.pods)), coming)
    wanted = requests_of(pods)
    return all(amount <= left.get(name, 0) for name, amount in wanted.items() if amount > 0)


def _runs(node: Node, daemonset: DaemonSet) -> bool:
    binding = [taint for taint in node.lasting_taints if taint.effect != PREFER_NO_SCHEDULE]
    return untolerated(binding, daemonset.tolerations) is None and any(
        _labelled(node, wanted) for wanted in daemonset.alternatives
    )


def _labelled(node: Node, wanted: Requirements) -> bool:
    return Requirements.from_labels(node.labels).compatible(wanted)
