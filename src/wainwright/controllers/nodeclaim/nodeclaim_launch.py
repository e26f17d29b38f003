"""The launch of a NodeClaim: its instance is asked for, and what came of it is written down."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.backoff import Backoff
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import claim_conditions, write_claim_conditions
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.events import truncate
from wainwright.controllers.nodeclaim.claim_deletion import delete_claim
from wainwright.controllers.nodeclaim.liveness import NODE_NOT_FOUND
from wainwright.errors import (
    CloudProviderError,
    ConflictError,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    TemporarilyUnavailableError,
    WainError,
)
from wainwright.model.labels import node_class_labels
from wainwright.model.node_claim import Instance
from wainwright.model.resources import Resources, format_quantity
from wainwright.translate.nodeclaims import launch_record_of, translate_node_claim
from wainwright.translate.pods import PodRole, pod_role
from wainwright.translate.requirements import translate_requirements

MAX_CONDITION_MESSAGE: Final = 1024
FIRST_RETRY: Final = 1.0  # seconds
MAX_RETRY: Final = 60.0
LAUNCH_FAILED: Final = "LaunchFailed"
"""The reason of an error that has none of its own."""
SPOT_ROLE_MISSING: Final = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
"""Of the first spot instance in an account, where nobody may create the role that EC2 needs."""
SPOT_ROLE_EVENT: Final = "SpotServiceLinkedRoleCreationFailure"
LAUNCH_UNCLEAR: Final = "LaunchUnclear"
"""The provider's reason while it waits for what may have come of the last attempt."""


class LaunchAttempt(msgspec.Struct, frozen=True):
    """A launch that came to nothing."""

    again: float | None
    """Seconds until it is tried again; None if the claim was given up."""


class NodeClaimLaunch:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._cache, self._state, self._cloud = context.cache, context.state, context.cloud
        self._backoff = Backoff("nodeclaim.lifecycle launch", first=FIRST_RETRY, most=MAX_RETRY)
        self._not_before: dict[str, float] = {}
        """By uid of a claim, when its launch may be repeated: that the failure is written on it is
        a change of the claim, but no reason to try again."""

    def forget(self, claim: NodeClaim) -> None:
        self._backoff.succeeded(claim.metadata.uid)
        self._not_before.pop(claim.metadata.uid, None)

    async def attempt(self, claim: NodeClaim) -> NodeClaim | LaunchAttempt:
        """The claim with its instance, or what came instead.

        The provider remembers what it launched for a claim: if the answer could not be written
        down, here or by a process before this one, the next attempt gets the same instance.
        """
        left = self._not_before.get(claim.metadata.uid, 0.0) - self._context.clock.now()
        if left > 0:
            return LaunchAttempt(left)
        try:
            instance = await self._cloud.launch(translate_node_claim(claim))
        except (InsufficientCapacityError, NodeClassNotReadyError, InstanceNotFoundError) as error:
            return await self._give_up(claim, error)
        except WainError as error:
            return await self._failed(claim, error)
        self.forget(claim)
        return await self.record(claim.metadata.name, instance)

    async def _give_up(self, claim: NodeClaim, error: CloudProviderError) -> LaunchAttempt:
        """Deletes the claim, so that its pods are planned anew with what is left."""
        # What EC2 says is mostly a sentence of its own, with a full stop.
        message = f"{str(error).rstrip('.')}; {error.consequence}"
        if isinstance(error, InsufficientCapacityError):
            if error.reason == SPOT_ROLE_MISSING:
                hint = f"{str(error).rstrip('.')}; {error.hint}"
                await self._context.events.warn(claim, SPOT_ROLE_EVENT, hint)
            await self._context.events.warn(claim, "InsufficientCapacityError", message)
            await self._context.events.warn_many(
                self._waiting_pods(claim), "InsufficientCapacityError", message
            )
            reason = "insufficient_capacity"
        elif isinstance(error, NodeClassNotReadyError):
            await self._context.events.warn(claim, "NodeClassNotReady", message)
            reason = "nodeclass_not_ready"
        else:
            reason = "garbage_collected"
        await delete_claim(self._context, claim, reason)
        return LaunchAttempt(None)

    def _waiting_pods(self, claim: NodeClaim) -> Iterator[Pod]:
        """Those that the claim was made for, and that still have no node."""
        for key in self._state.planned_pods(claim.metadata.name):
            namespace, _, name = key.partition("/")
            pod = self._cache.get(Pod, name, namespace)
            if pod is not None and pod_role(pod) is PodRole.PENDING:
                yield pod

    async def _failed(self, claim: NodeClaim, error: WainError) -> LaunchAttempt:
        await self._state_failure(claim.metadata.name, error)
        wait = self._backoff.failed(claim.metadata.uid)
        if isinstance(error, TemporarilyUnavailableError):
            wait = error.retry_after or wait
        self._not_before[claim.metadata.uid] = self._context.clock.now() + wait
        return LaunchAttempt(wait)

    async def _state_failure(self, name: str, error: WainError) -> None:
        """That the outcome of an attempt is not clear yet does not hide why it failed."""
        claim = self._cache.get(NodeClaim, name)
        if claim is None:
            return
        conditions, reason = claim_conditions(claim, self._context.clock.now()), _reason(error)
        if reason == LAUNCH_UNCLEAR and conditions.reason(condition.LAUNCHED):
            return
        message = truncate(str(error), MAX_CONDITION_MESSAGE)
        conditions.set(condition.LAUNCHED, condition.UNKNOWN, reason, message)
        await write_claim_conditions(self._cache, claim, conditions)

    async def record(self, name: str, instance: Instance) -> NodeClaim:
        """Writes down what was launched, only while the claim's launch record is that of the
        instance: another process may have taken the launch for lost and repeated it.
        """
        claim = self._cache.get(NodeClaim, name)
        if claim is None:
            raise ConflictError(f"the NodeClaim {name} is gone")
        claim = await self._cache.update(claim, lambda found: _launched_patch(found, instance))
        conditions = claim_conditions(claim, self._context.clock.now())
        conditions.set(condition.LAUNCHED, condition.TRUE)
        conditions.set(condition.REGISTERED, condition.UNKNOWN, "NodeNotFound", NODE_NOT_FOUND)
        launched = {
            "providerID": instance.provider_id,
            "imageID": instance.image_id,
            "capacity": _quantities(instance.capacity),
            "allocatable": _quantities(instance.allocatable),
        }
        return await write_claim_conditions(self._cache, claim, conditions, launched)


def _reason(error: WainError) -> str:
    if isinstance(error, CloudProviderError) and error.has_own_reason:
        return error.reason
    return LAUNCH_FAILED


def _launched_patch(claim: NodeClaim, instance: Instance) -> dict[str, Any]:
    record = launch_record_of(claim)
    if record is None or (instance.batch and record.batch != instance.batch):
        raise ConflictError(f"the NodeClaim {claim.metadata.name} is being launched by others")
    labels, annotations = _launched_labels(claim, instance), dict(instance.annotations)
    return {"metadata": {"labels": labels, "annotations": annotations}}


def _launched_labels(claim: NodeClaim, instance: Instance) -> dict[str, str]:
    """What stands on the claim wins; what the instance has wins over what was only required, as it
    may be in another reservation than the one that was asked for.
    """
    required = translate_requirements(claim.spec.requirements)
    single = {key: value for key in required if (value := required.single_value(key)) is not None}
    return {
        **single,
        **instance.labels,
        **node_class_labels(claim.spec.nodeClassRef.name),
        **(claim.metadata.labels or {}),
    }


def _quantities(resources: Resources) -> dict[str, Any]:
    return {name: format_quantity(name, amount) for name, amount in resources.items()}
