"""What a Node gets from its NodeClaim when it joins, and when it counts as initialized."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node, Taint
from wainwright.api.wire import OwnerReference
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import status_of
from wainwright.model.labels import DO_NOT_SYNC_TAINTS, REGISTERED, node_class_labels
from wainwright.model.taints import UNREGISTERED_TAINT, is_ephemeral_taint
from wainwright.translate.nodeclaims import OWN_ANNOTATIONS
from wainwright.translate.requirements import translate_taints
from wainwright.translate.resources import translate_capacity, translate_requests

TERMINATION_FINALIZER: Final = "karpenter.sh/termination"


class HookResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a registration hook says of a claim."""

    passed: bool
    again: float | None = None
    """Seconds after which a hook that has not passed wants to be asked again."""
    labels: Mapping[str, str] = {}
    """For the claim, and so for its node."""


class RegistrationHook(Protocol):
    """Something that has to happen before pods may use a node, such as checking its network.

    The node is ours already, but keeps its taint of unregistered nodes until all hooks have passed.
    """

    @property
    def name(self) -> str: ...

    async def check(self, claim: NodeClaim, node: Node) -> HookResult:
        """Asked again until it passes; an error counts as not passed."""
        ...


class RegistrationOutcomes(Protocol):
    """Is told what became of the launches of a NodePool."""

    async def succeeded(self, claim: NodeClaim) -> None: ...

    async def failed(self, claim: NodeClaim) -> None:
        """Before the claim is deleted, as its conditions say why."""
        ...


class InitializationProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node does not count as initialized yet."""

    reason: str
    message: str = ""


def registration_patch(
    claim: NodeClaim, node: Node, *, is_complete: bool = True
) -> Mapping[str, Any] | None:
    """The patch that makes the node ours; None if it is. Before registration is complete the taint
    of unregistered nodes stays, and the label of registered ones waits.
    """
    metadata = _metadata_patch(claim, node, is_complete)
    taints = registered_taints(claim, node, is_complete=is_complete)
    patch: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if taints != (node.spec.taints or []):
        patch["spec"] = {"taints": msgspec.to_builtins(taints)}
    return patch or None


def _metadata_patch(claim: NodeClaim, node: Node, is_complete: bool) -> dict[str, Any]:
    metadata = node.metadata
    labels = {
        **(claim.metadata.labels or {}),
        **node_class_labels(claim.spec.nodeClassRef.name),
        **({REGISTERED: "true"} if is_complete else {}),
    }
    annotations = {
        key: value
        for key, value in (claim.metadata.annotations or {}).items()
        if key not in OWN_ANNOTATIONS
    }
    changed: dict[str, Any] = {
        "labels": _missing(metadata.labels, labels),
        "annotations": _missing(metadata.annotations, annotations),
    }
    if not is_synced(node):
        changed["finalizers"] = [*(metadata.finalizers or ()), TERMINATION_FINALIZER]
    owners = metadata.ownerReferences or []
    if not any(owner.uid == claim.metadata.uid for owner in owners):
        changed["ownerReferences"] = msgspec.to_builtins([*owners, _owner(claim)])
    return {key: value for key, value in changed.items() if value}


def is_synced(node: Node) -> bool:
    """Whether the node has got labels, taints and finalizer of its claim before."""
    return TERMINATION_FINALIZER in (node.metadata.finalizers or ())


def is_unregistered(node: Node) -> bool:
    """Whether nothing but registration keeps pods from it."""
    return any(taint.key == UNREGISTERED_TAINT.key for taint in node.spec.taints or ())


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


def registered_taints(claim: NodeClaim, node: Node, *, is_complete: bool = True) -> list[Taint]:
    """The node's taints, with those of the claim, and once registration is complete without the one
    of unregistered nodes.

    The claim's are added once: whoever removes a startup taint later must not find it back, not
    even after a restart in the middle of registration.
    """
    taints = node.spec.taints or []
    kept = [each for each in taints if not (is_complete and each.key == UNREGISTERED_TAINT.key)]
    if (node.metadata.labels or {}).get(DO_NOT_SYNC_TAINTS) == "true" or is_synced(node):
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
    if _is_rebooting(claim):
        return InitializationProblem(reason="Rebooting", message="the node is being rebooted")
    if not is_ready(node):
        return InitializationProblem(
            reason="NodeNotReady", message="the node is not Ready: see its conditions"
        )
    return _taint_problem(claim, node) or _resource_problem(claim, node)


def is_initialized_by_registration(claim: NodeClaim, node: Node) -> bool:
    """Whether nothing else is lacking."""
    spec = msgspec.structs.replace(node.spec, taints=registered_taints(claim, node))
    return initialization_problem(claim, [msgspec.structs.replace(node, spec=spec)]) is None


def is_ready(node: Node) -> bool:
    return any(
        each.type == "Ready" and each.status == "True" for each in node.status.conditions or ()
    )


def _is_rebooting(claim: NodeClaim) -> bool:
    stated = status_of(claim).conditions or ()
    return any(
        each.type == condition.REBOOTING and each.status == condition.TRUE for each in stated
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
