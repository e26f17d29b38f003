"""What a Node gets from its NodeClaim when it joins, and when it counts as initialized."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node, Taint
from wainwright.api.wire import OwnerReference
from wainwright.model.labels import DO_NOT_SYNC_TAINTS, REGISTERED
from wainwright.model.taints import UNREGISTERED_TAINT, is_ephemeral_taint
from wainwright.translate.nodeclaims import OWN_ANNOTATIONS
from wainwright.translate.requirements import translate_taints
from wainwright.translate.resources import translate_capacity, translate_requests

TERMINATION_FINALIZER: Final = "karpenter.sh/termination"


class InitializationProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node does not count as initialized yet."""

    reason: str
    message: str = ""


def registration_patch(claim: NodeClaim, node: Node) -> Mapping[str, Any] | None:
    """The patch that makes the node ours; None if it is."""
    metadata = node.metadata
    patch: dict[str, Any] = {}
    labels = {**(claim.metadata.labels or {}), REGISTERED: "true"}
    annotations = {
        key: value
        for key, value in (claim.metadata.annotations or {}).items()
        if key not in OWN_ANNOTATIONS
    }
    changed = {
        "labels": _missing(metadata.labels, labels),
        "annotations": _missing(metadata.annotations, annotations),
    }
    patch |= {key: value for key, value in changed.items() if value}
    if TERMINATION_FINALIZER not in (metadata.finalizers or ()):
        patch["finalizers"] = [*(metadata.finalizers or ()), TERMINATION_FINALIZER]
    owners = metadata.ownerReferences or []
    if not any(owner.uid == claim.metadata.uid for owner in owners):
        patch["ownerReferences"] = msgspec.to_builtins([*owners, _owner(claim)])
    taints = registered_taints(claim, node)
    whole: dict[str, Any] = {"metadata": patch} if patch else {}
    if taints != (node.spec.taints or []):
        whole["spec"] = {"taints": msgspec.to_builtins(taints)}
    return whole or None


def _missing(found: Mapping[str, str] | None, wanted: Mapping[str, str]) -> dict[str, str]:
    found = found or {}
    return {key: value for key, value in wanted.items() if found.get(key) != value}


def _owner(claim: NodeClaim) -> OwnerReference:
    return OwnerReference(
        apiVersion=claim.apiVersion,
        kind=claim.kind,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        blockOwnerDeletion=True,
    )


def registered_taints(claim: NodeClaim, node: Node) -> list[Taint]:
    """The node's taints without the one of unregistered nodes, and with those of the claim.

    Startup taints are added here, once: whoever removes them later must not find them back.
    """
    kept = [taint for taint in node.spec.taints or () if taint.key != UNREGISTERED_TAINT.key]
    if (node.metadata.labels or {}).get(DO_NOT_SYNC_TAINTS) == "true":
        return kept
    present = {(taint.key, taint.effect) for taint in kept}
    declared = [*(claim.spec.taints or ()), *(claim.spec.startupTaints or ())]
    added = [
        Taint(key=taint.key, value=taint.value or "", effect=taint.effect)
        for taint in declared
        if (taint.key, taint.effect) not in present
    ]
    return [*kept, *added]


def initialization_problem(claim: NodeClaim, nodes: Sequence[Node]) -> InitializationProblem | None:
    """The first reason why the claim is not initialized; None if it is."""
    if len(nodes) != 1:
        return InitializationProblem(reason="NodeNotFound")
    node = nodes[0]
    if not is_ready(node):
        return InitializationProblem(reason="NodeNotReady")
    return _taint_problem(claim, node) or _resource_problem(claim, node)


def is_ready(node: Node) -> bool:
    return any(
        each.type == "Ready" and each.status == "True" for each in node.status.conditions or ()
    )


def _taint_problem(claim: NodeClaim, node: Node) -> InitializationProblem | None:
    taints = translate_taints(node.spec.taints)
    startup = {(taint.key, taint.effect) for taint in claim.spec.startupTaints or ()}
    left = [taint for taint in taints if (taint.key, taint.effect) in startup]
    if left:
        return InitializationProblem(
            reason="StartupTaintsExist", message=f"startup taint {left[0]} is still there"
        )
    ephemeral = [taint for taint in taints if is_ephemeral_taint(taint)]
    if ephemeral:
        return InitializationProblem(
            reason="KnownEphemeralTaintsExist", message=f"taint {ephemeral[0]} is still there"
        )
    return None


def _resource_problem(claim: NodeClaim, node: Node) -> InitializationProblem | None:
    requests = claim.spec.resources.requests if claim.spec.resources is not None else None
    allocatable = translate_capacity(node.status.allocatable)
    lacking = next(iter(_lacking(translate_requests(requests), allocatable)), None)
    if lacking is None:
        return None
    return InitializationProblem(
        reason="ResourceNotRegistered", message=f"the node does not offer {lacking} yet"
    )


def _lacking(requests: Mapping[str, int], allocatable: Mapping[str, int]) -> Iterable[str]:
    return sorted(name for name in requests if requests[name] and not allocatable.get(name))
