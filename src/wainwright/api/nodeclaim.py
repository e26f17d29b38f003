"""NodeClaim: a decision to start one node, written down before it is carried out."""

from typing import Annotated, ClassVar

from wainwright.api.scheduling import (
    ClaimRequirement,
    ExpireAfter,
    GracePeriod,
    NodeClassRef,
    StartupTaints,
    Taints,
)
from wainwright.api.schema import Schema, rule, wire
from wainwright.api.wire import Conditions, Metadata, Quantities, Timestamp, Wire


class Resources(Wire, frozen=True, kw_only=True):
    """What the node must hold."""

    requests: Annotated[Quantities | None, wire("Pods and daemonsets together.")] = None


class NodeClaimSpec(Wire, frozen=True, kw_only=True):
    """What is wanted. It never changes: another wish is another claim."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule("self == oldSelf", "the spec of a NodeClaim cannot be changed")
        ]
    }

    nodeClassRef: NodeClassRef
    requirements: Annotated[
        list[ClaimRequirement],
        wire("Conditions that the node meets.", max_items=100, list_type="atomic"),
    ]
    resources: Resources | None = None
    taints: Taints | None = None
    startupTaints: StartupTaints | None = None
    expireAfter: ExpireAfter = "720h"
    terminationGracePeriod: GracePeriod | None = None


class NodeClaimStatus(Wire, frozen=True, kw_only=True):
    """What came of it."""

    nodeName: Annotated[str, wire("The node that joined.")] = ""
    providerID: Annotated[str, wire("The instance, as the cloud names it.")] = ""
    imageID: Annotated[str, wire("The image it booted from.")] = ""
    capacity: Annotated[Quantities | None, wire("What the machine has.")] = None
    allocatable: Annotated[Quantities | None, wire("What pods may use of it.")] = None
    conditions: Conditions | None = None
    lastPodEventTime: Annotated[
        Timestamp | None, wire("When a pod last came to or left the node.")
    ] = None


class NodeClaim(Wire, frozen=True, kw_only=True):
    """A node that has been decided on."""

    spec: NodeClaimSpec
    apiVersion: str = "karpenter.sh/v1"
    kind: str = "NodeClaim"
    metadata: Metadata = Metadata()
    status: NodeClaimStatus | None = None
