"""The taint karpenter.sh/disrupted: on nodes that a command takes, or that are drained."""

from typing import Any

import msgspec

from wainwright.api.kubernetes.cluster import Node, Taint
from wainwright.model.taints import DISRUPTED_TAINT


def is_disrupted(node: Node) -> bool:
    return any(taint.key == DISRUPTED_TAINT.key for taint in node.spec.taints or ())


def taint_patch(node: Node) -> dict[str, Any] | None:
    """The patch that adds the taint; None where it is there."""
    added = Taint(key=DISRUPTED_TAINT.key, effect=DISRUPTED_TAINT.effect)
    return None if is_disrupted(node) else _taints([*(node.spec.taints or ()), added])


def untaint_patch(node: Node) -> dict[str, Any] | None:
    """The patch that removes the taint; None where there is none."""
    kept = [taint for taint in node.spec.taints or () if taint.key != DISRUPTED_TAINT.key]
    return _taints(kept) if is_disrupted(node) else None


def _taints(taints: list[Taint]) -> dict[str, Any]:
    return {"spec": {"taints": msgspec.to_builtins(taints)}}
