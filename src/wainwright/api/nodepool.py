"""NodePool: what a user allows to be launched, how much of it, and how it may be disrupted."""

from typing import Annotated, ClassVar, Final

import msgspec

from wainwright.api.scheduling import (
    A_DURATION_OR_NEVER,
    DURATION_OR_NEVER,
    ExpireAfter,
    GracePeriod,
    NodeClassRef,
    Requirement,
    StartupTaints,
    Taints,
    label_rules,
)
from wainwright.api.schema import Schema, rule, wire
from wainwright.api.wire import Conditions, LabelValue, Metadata, Quantities, Wire

POLICIES: Final = ["Balanced", "WhenEmpty", "WhenEmptyOrUnderutilized"]
REASONS: Final = ["Drifted", "Empty", "Underutilized"]
SCHEDULE: Final = r"^@(annually|yearly|monthly|weekly|daily|midnight|hourly)|.+\s.+\s.+\s.+\s.+$"


class TemplateMetadata(Wire, frozen=True, kw_only=True):
    """Labels and annotations that every node of the pool gets."""

    labels: Annotated[
        dict[str, LabelValue] | None,
        wire(
            "Labels of the nodes.",
            max_properties=100,
            map_type="atomic",
            rules=[
                rule(f"self.all(k, {cel})", text)
                for cel, text in label_rules("k", pool_is_free=False)
            ],
        ),
    ] = None
    annotations: Annotated[
        dict[str, str] | None, wire("Annotations of the nodes.", map_type="granular")
    ] = None


class TemplateSpec(Wire, frozen=True, kw_only=True):
    """The nodes that the pool may launch."""

    nodeClassRef: Annotated[
        NodeClassRef,
        wire(
            rules=[
                rule("self.group == oldSelf.group", "nodeClassRef.group cannot be changed"),
                rule("self.kind == oldSelf.kind", "nodeClassRef.kind cannot be changed"),
            ]
        ),
    ]
    requirements: Annotated[
        list[Requirement],
        wire("Conditions that every node meets.", max_items=100, list_type="atomic"),
    ]
    taints: Taints | None = None
    startupTaints: StartupTaints | None = None
    expireAfter: ExpireAfter = "720h"
    terminationGracePeriod: GracePeriod | None = None


class Template(Wire, frozen=True, kw_only=True):
    """What is stamped onto every claim of the pool."""

    spec: TemplateSpec
    metadata: TemplateMetadata | None = None


class Budget(Wire, frozen=True, kw_only=True):
    """How many nodes may be disrupted at once, when, and for which reasons."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "has(self.schedule) == has(self.duration)",
                "schedule and duration belong together: set both or neither",
            )
        ]
    }

    nodes: Annotated[
        str,
        wire(
            "A count or a percentage of the pool's nodes.",
            pattern=r"^((100|[0-9]{1,2})%|[0-9]+)$",
            says="a count such as 3, or 0% to 100%",
            default="10%",
        ),
    ] = "10%"
    reasons: Annotated[
        list[Annotated[str, wire(enum=REASONS)]] | None,
        wire("The reasons it holds for; all when absent.", max_items=50, list_type="set"),
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
            "How long it holds from each begin: hours and minutes.",
            pattern=r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$",
            says="hours and minutes without seconds, such as 8h or 1h30m",
        ),
    ] = None


def ten_percent() -> list[Budget]:
    return [Budget(nodes="10%")]


class Disruption(Wire, frozen=True, kw_only=True):
    """When nodes of the pool may be replaced or removed."""

    consolidateAfter: Annotated[
        str,
        wire(
            "How long a node must be quiet before it is considered, or Never.",
            pattern=DURATION_OR_NEVER,
            says=A_DURATION_OR_NEVER,
            default="0s",
        ),
    ] = "0s"
    consolidationPolicy: Annotated[
        str,
        wire(
            "Which nodes are considered.",
            enum=POLICIES,
            default="WhenEmptyOrUnderutilized",
        ),
    ] = "WhenEmptyOrUnderutilized"
    budgets: Annotated[
        list[Budget],
        wire(
            "Limits on disruption; the strictest that holds counts.",
            max_items=50,
            list_type="atomic",
            default=[{"nodes": "10%"}],
        ),
    ] = msgspec.field(default_factory=ten_percent)


class NodePoolSpec(Wire, frozen=True, kw_only=True):
    """What may be launched, in which order, and how much."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "has(self.replicas) == has(oldSelf.replicas)",
                "a pool cannot change between static (with replicas) and dynamic (without)",
            ),
            rule(
                "!has(self.replicas) || !has(self.limits) || self.limits.all(k, k == 'nodes')",
                "a static pool can be limited by nodes only",
                at=".limits",
            ),
            rule(
                "!has(self.replicas) || !has(self.weight)",
                "a static pool has no weight: it does not wait for pods",
                at=".weight",
            ),
        ]
    }

    template: Template
    disruption: Annotated[Disruption, wire(default={"consolidateAfter": "0s"})] = Disruption()
    limits: Annotated[
        Quantities | None,
        wire("The most that the pool may hold, per resource; `nodes` counts nodes."),
    ] = None
    weight: Annotated[
        int | None,
        wire("Pools of higher weight are tried first.", minimum=1, maximum=100, format="int32"),
    ] = None
    replicas: Annotated[
        int | None,
        wire("Keep this many nodes whatever the pods need.", minimum=0, format="int64"),
    ] = None


class NodePoolStatus(Wire, frozen=True, kw_only=True):
    """What the pool holds."""

    resources: Annotated[Quantities | None, wire("The sum over its nodes.")] = None
    nodes: Annotated[int, wire("How many nodes it has.", format="int64", default=0)] = 0
    nodeClassObservedGeneration: Annotated[
        int | None, wire("The class's generation last seen.", format="int64")
    ] = None
    conditions: Conditions | None = None


class NodePool(Wire, frozen=True, kw_only=True):
    """Allows nodes to be launched for pods that lack one."""

    spec: NodePoolSpec
    apiVersion: str = "karpenter.sh/v1"
    kind: str = "NodePool"
    metadata: Metadata = Metadata()
    status: NodePoolStatus | None = None
