"""NodeClaim (karpenter.sh/v1beta1): a node decided on, with the kubelet settings of its time."""

from typing import Annotated

from wainwright.api.nodeclaim import Resources
from wainwright.api.old.kubelet import BetaKubelet
from wainwright.api.old.scheduling import (
    BetaNodeClassRef,
    BetaRequirements,
    OldConditions,
    OldStartupTaints,
    OldTaints,
)
from wainwright.api.schema import wire
from wainwright.api.wire import Metadata, Quantities, Wire


class BetaNodeClaimSpec(Wire, frozen=True, kw_only=True):
    """What is wanted."""

    nodeClassRef: BetaNodeClassRef | None = None
    requirements: BetaRequirements | None = None
    resources: Resources | None = None
    taints: OldTaints | None = None
    startupTaints: OldStartupTaints | None = None
    kubelet: BetaKubelet | None = None


class BetaNodeClaimStatus(Wire, frozen=True, kw_only=True):
    """What came of it."""

    nodeName: Annotated[str | None, wire("The node that joined.")] = None
    providerID: Annotated[str | None, wire("The instance, as the cloud names it.")] = None
    imageID: Annotated[str | None, wire("The image it booted from.")] = None
    capacity: Annotated[Quantities | None, wire("What the machine has.")] = None
    allocatable: Annotated[Quantities | None, wire("What pods may use of it.")] = None
    conditions: OldConditions | None = None


class NodeClaimV1Beta1(Wire, frozen=True, kw_only=True):
    """A node that has been decided on."""

    spec: BetaNodeClaimSpec
    apiVersion: str = "karpenter.sh/v1beta1"
    kind: str = "NodeClaim"
    metadata: Metadata = Metadata()
    status: BetaNodeClaimStatus | None = None
