"""NodePool (karpenter.sh/v1beta1): the pool while kubelet settings and expiry were elsewhere."""

from typing import Annotated, ClassVar, Final

from wainwright.api.nodeclaim import Resources
from wainwright.api.nodepool import SCHEDULE
from wainwright.api.old.kubelet import BetaKubelet
from wainwright.api.old.scheduling import (
    Annotations,
    BetaNodeClassRef,
    BetaRequirements,
    Labels,
    OldConditions,
    OldStartupTaints,
    OldTaints,
)
from wainwright.api.scheduling import A_DURATION_OR_NEVER, DURATION_OR_NEVER
from wainwright.api.schema import Schema, rule, wire
from wainwright.api.wire import Metadata, Quantities, Wire

POLICIES: Final = ["WhenEmpty", "WhenUnderutilized"]
BetaDuration = Annotated[str, wire(pattern=DURATION_OR_NEVER, says=A_DURATION_OR_NEVER)]


class BetaTemplateMetadata(Wire, frozen=True, kw_only=True):
    """Labels and annotations that every node of the pool gets."""

    labels: Labels | None = None
    annotations: Annotations | None = None


class BetaTemplateSpec(Wire, frozen=True, kw_only=True):
    """The nodes that the pool may launch."""

    nodeClassRef: BetaNodeClassRef | None = None
    requirements: BetaRequirements | None = None
    taints: OldTaints | None = None
    startupTaints: OldStartupTaints | None = None
    kubelet: BetaKubelet | None = None
    resources: Resources | None = None


class BetaTemplate(Wire, frozen=True, kw_only=True):
    """What is stamped onto every claim of the pool."""

    spec: BetaTemplateSpec
    metadata: BetaTemplateMetadata | None = None


class BetaBudget(Wire, frozen=True, kw_only=True):
    """How many nodes may be disrupted at once, and when; reasons came later."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "has(self.schedule) == has(self.duration)",
                "schedule and duration belong together: set both or neither",
            )
        ]
    }

    nodes: Annotated[
        str | None,
        wire(
            "A count or a percentage of the pool's nodes.",
            pattern=r"^((100|[0-9]{1,2})%|[0-9]+)$",
            says="a count such as 3, or 0% to 100%",
        ),
    ] = None
    schedule: Annotated[
        str | None,
        wire(
            "When it begins to hold: cron, in UTC.",
            pattern=SCHEDULE,
            says="five cron fields, or @daily and the like",
        ),
    ] = None
    duration: Annotated[
        str | None,
        wire(
            "How long it holds from each begin.",
            pattern=r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$",
            says="hours and minutes without seconds, such as 8h or 1h30m",
        ),
    ] = None


class BetaDisruption(Wire, frozen=True, kw_only=True):
    """When nodes of the pool may be replaced or removed, and how long they live."""

    consolidationPolicy: Annotated[str | None, wire("Which nodes.", enum=POLICIES)] = None
    consolidateAfter: BetaDuration | None = None
    expireAfter: BetaDuration | None = None
    budgets: Annotated[list[BetaBudget] | None, wire("Limits on it.", max_items=50)] = None


class BetaNodePoolSpec(Wire, frozen=True, kw_only=True):
    """What may be launched, in which order, and how much."""

    template: BetaTemplate
    disruption: BetaDisruption | None = None
    limits: Annotated[Quantities | None, wire("The most that the pool may hold.")] = None
    weight: Annotated[
        int | None,
        wire("Higher ones are tried first.", minimum=1, maximum=100, format="int32"),
    ] = None


class BetaNodePoolStatus(Wire, frozen=True, kw_only=True):
    """What the pool held."""

    resources: Annotated[Quantities | None, wire("The sum over its nodes.")] = None
    conditions: OldConditions | None = None


class NodePoolV1Beta1(Wire, frozen=True, kw_only=True):
    """Allowed nodes to be launched for pods that lack one."""

    spec: BetaNodePoolSpec
    apiVersion: str = "karpenter.sh/v1beta1"
    kind: str = "NodePool"
    metadata: Metadata = Metadata()
    status: BetaNodePoolStatus | None = None
