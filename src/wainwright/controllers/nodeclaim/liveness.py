"""Why a NodeClaim came to nothing in time, as far as it can be known from here.

What happens inside an instance is not visible: whether its user data failed, or it cannot reach the
API server. So the message says what EC2 says, and where to look.
"""

from collections.abc import Sequence
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.controllers import conditions as condition
from wainwright.controllers.conditions import claim_conditions, instance_id
from wainwright.errors import CloudProviderError
from wainwright.model.labels import INSTANCE_TYPE, ZONE
from wainwright.model.node_claim import Instance
from wainwright.translate.disruption import format_duration

NODE_NOT_FOUND: Final = "no node with the providerID of the instance has joined yet"
CHECKS: Final = (
    "check its console output (user data, nodeadm or bootstrap errors), that its subnet has routes "
    "to the API server and to the image registry, that its security groups let it reach the API "
    "server, and that the cluster lets its instance role join as a node"
)


def describe_launch_timeout(claim: NodeClaim, timeout: float) -> str:
    """With the last error of the launch, which is in the condition."""
    last = claim_conditions(claim, 0.0).message(condition.LAUNCHED)
    because = f": {last}" if last else ""
    return f"no instance could be launched within {format_duration(timeout)}{because}"


def describe_registration_timeout(
    claim: NodeClaim,
    instance: Instance | CloudProviderError | None,
    nodes: Sequence[Node],
    timeout: float,
) -> str:
    """`instance`: None if it is gone, an error if that is not known."""
    within = f"no node was registered within {format_duration(timeout)} of the launch"
    return f"{within}: {_likely_reason(claim, instance, nodes)}"


def _likely_reason(
    claim: NodeClaim, instance: Instance | CloudProviderError | None, nodes: Sequence[Node]
) -> str:
    conditions, name = claim_conditions(claim, 0.0), instance_id(claim)
    reason, message = (
        conditions.reason(condition.REGISTERED),
        conditions.message(condition.REGISTERED),
    )
    if len(nodes) > 1:
        return f"{message}; delete those that are not of {name}"
    if nodes and reason == "RegistrationHookPending":
        return f"the node {nodes[0].metadata.name} joined, but these hooks did not pass: {message}"
    if isinstance(instance, CloudProviderError):
        return f"nothing is known of {_place(claim, name)}: {instance}"
    if instance is None or instance.state in ("shutting-down", "terminated"):
        return (
            f"{_place(claim, name)} was terminated before it joined: by EC2 (spot interruption, "
            "failed volume or key permissions: see its state reason), or by others"
        )
    if instance.state in ("stopping", "stopped"):
        return f"{_place(claim, name)} was stopped before it joined, by a user or by EC2"
    subnet = f" in {instance.subnet_id}" if instance.subnet_id else ""
    return f"{_place(claim, name)}{subnet} is {instance.state}, but its node never joined; {CHECKS}"


def _place(claim: NodeClaim, instance: str) -> str:
    labels = claim.metadata.labels or {}
    known = [labels[key] for key in (INSTANCE_TYPE, ZONE) if key in labels]
    about = [*known, f"EC2NodeClass {claim.spec.nodeClassRef.name}"]
    return f"the instance {instance} ({', '.join(about)})"
