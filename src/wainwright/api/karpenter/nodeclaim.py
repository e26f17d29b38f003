"""NodeClaim: a decision to start one node, written down before it is carried out."""

from typing import Annotated, ClassVar

from wainwright.api.karpenter.shared_fields import (
    ClaimRequirement,
    ExpireAfter,
    NodeClassRef,
    StartupTaints,
    Taints,
    TerminationGracePeriod,
)
from wainwright.api.wire import (
    Conditions,
    ObjectMeta,
    QuantityMap,
    Schema,
    Timestamp,
    WireStruct,
    cel_rule,
    field_meta,
)


class NodeClaimResources(WireStruct, frozen=True, kw_only=True):
    """What the node must hold."""

    requests: Annotated[QuantityMap | None, field_meta("Pods and daemonsets together.")] = None


class NodeClaimSpec(WireStruct, frozen=True, kw_only=True):
    """What is requested. It never changes: another request is another NodeClaim."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule("self == oldSelf", "the spec of a NodeClaim cannot be changed")
        ]
    }

    nodeClassRef: NodeClassRef
    requirements: Annotated[
        list[ClaimRequirement],
        field_meta("Conditions that the node meets.", max_items=100, list_type="atomic"),
    ]
    resources: NodeClaimResources | None = None
    taints: Taints | None = None
    startupTaints: StartupTaints | None = None
    expireAfter: ExpireAfter = "720h"
    terminationGracePeriod: TerminationGracePeriod | None = None


class NodeClaimStatus(WireStruct, frozen=True, kw_only=True):
    """What came of it."""

    nodeName: Annotated[str, field_meta("The node that joined.")] = ""
    providerID: Annotated[str, field_meta("The instance, as the cloud names it.")] = ""
    imageID: Annotated[str, field_meta("The image it booted from.")] = ""
    capacity: Annotated[QuantityMap | None, field_meta("Its capacity.")] = None
    allocatable: Annotated[QuantityMap | None, field_meta("What pods may use of it.")] = None
    conditions: Conditions | None = None
    lastPodEventTime: Annotated[
        Timestamp | None, field_meta("When a pod last came to or left the node.")
    ] = None


class NodeClaim(WireStruct, frozen=True, kw_only=True):
    """A node that has been decided on."""

    spec: NodeClaimSpec
    apiVersion: str = "karpenter.sh/v1"
    kind: str = "NodeClaim"
    metadata: ObjectMeta = ObjectMeta()
    status: NodeClaimStatus | None = None
