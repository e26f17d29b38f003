"""NodePool: what a user allows to be launched, how much of it, and how it may be disrupted."""

from typing import Annotated, ClassVar, Final

import msgspec

from wainwright.api.karpenter.shared_fields import (
    DURATION_OR_NEVER_PATTERN,
    EXPECTED_DURATION_OR_NEVER,
    ExpireAfter,
    NodeClassRef,
    PoolRequirement,
    StartupTaints,
    Taints,
    TerminationGracePeriod,
    label_rules,
)
from wainwright.api.wire import (
    Conditions,
    LabelValue,
    ObjectMeta,
    QuantityMap,
    Schema,
    WireStruct,
    cel_rule,
    field_meta,
)

CONSOLIDATION_POLICIES: Final = ["Balanced", "WhenEmpty", "WhenEmptyOrUnderutilized"]
DISRUPTION_REASONS: Final = ["Drifted", "Empty", "Underutilized"]
SCHEDULE_PATTERN: Final = (
    r"^@(annually|yearly|monthly|weekly|daily|midnight|hourly)|.+\s.+\s.+\s.+\s.+$"
)
SCHEDULE_NAMES: Final = (
    *("@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"),
)
EXPECTED_SCHEDULE: Final = "five cron fields, or @daily and the like"


class NodePoolTemplateMetadata(WireStruct, frozen=True, kw_only=True):
    """Labels and annotations that every node of the pool gets."""

    labels: Annotated[
        dict[str, LabelValue] | None,
        field_meta(
            "Labels of the nodes.",
            max_properties=100,
            map_type="atomic",
            rules=[
                cel_rule(f"self.all(k, {cel})", text)
                for cel, text in label_rules("k", pool_is_free=False)
            ],
        ),
    ] = None
    annotations: Annotated[
        dict[str, str] | None, field_meta("Annotations of the nodes.", map_type="granular")
    ] = None


class NodePoolTemplateSpec(WireStruct, frozen=True, kw_only=True):
    """The nodes that the pool may launch."""

    nodeClassRef: Annotated[
        NodeClassRef,
        field_meta(
            rules=[
                cel_rule("self.group == oldSelf.group", "nodeClassRef.group cannot be changed"),
                cel_rule("self.kind == oldSelf.kind", "nodeClassRef.kind cannot be changed"),
            ]
        ),
    ]
    requirements: Annotated[
        list[PoolRequirement],
        field_meta("Conditions that every node meets.", max_items=100, list_type="atomic"),
    ]
    taints: Taints | None = None
    startupTaints: StartupTaints | None = None
    expireAfter: ExpireAfter = "720h"
    terminationGracePeriod: TerminationGracePeriod | None = None


class NodePoolTemplate(WireStruct, frozen=True, kw_only=True):
    """What is stamped onto every claim of the pool."""

    spec: NodePoolTemplateSpec
    metadata: NodePoolTemplateMetadata | None = None


class DisruptionBudget(WireStruct, frozen=True, kw_only=True):
    """How many nodes may be disrupted at once, when, and for which reasons."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "has(self.schedule) == has(self.duration)",
                "schedule and duration belong together: set both or neither",
            )
        ]
    }

    nodes: Annotated[
        str,
        field_meta(
            "A count or a percentage of the pool's nodes.",
            pattern=r"^((100|[0-9]{1,2})%|[0-9]+)$",
            expected="a count such as 3, or 0% to 100%",
            default="10%",
        ),
    ] = "10%"
    reasons: Annotated[
        list[Annotated[str, field_meta(enum=DISRUPTION_REASONS)]] | None,
        field_meta("The reasons it holds for; all when absent.", max_items=50, list_type="set"),
    ] = None
    schedule: Annotated[
        str | None,
        field_meta(
            "When it begins to hold: cron, in UTC.",
            pattern=SCHEDULE_PATTERN,
            expected=EXPECTED_SCHEDULE,
        ),
    ] = None
    duration: Annotated[
        str | None,
        field_meta(
            "How long it holds from each begin: hours and minutes.",
            pattern=r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$",
            expected="hours and minutes without seconds, such as 8h or 1h30m",
        ),
    ] = None


def default_budgets() -> list[DisruptionBudget]:
    return [DisruptionBudget(nodes="10%")]


class NodePoolDisruption(WireStruct, frozen=True, kw_only=True):
    """When nodes of the pool may be replaced or removed."""

    consolidateAfter: Annotated[
        str,
        field_meta(
            "How long a node must be quiet before it is considered, or Never.",
            pattern=DURATION_OR_NEVER_PATTERN,
            expected=EXPECTED_DURATION_OR_NEVER,
        ),
    ]
    consolidationPolicy: Annotated[
        str,
        field_meta(
            "Which nodes are considered.",
            enum=CONSOLIDATION_POLICIES,
            default="WhenEmptyOrUnderutilized",
        ),
    ] = "WhenEmptyOrUnderutilized"
    budgets: Annotated[
        list[DisruptionBudget],
        field_meta(
            "Limits on disruption; the strictest that holds counts.",
            max_items=50,
            list_type="atomic",
            default=[{"nodes": "10%"}],
        ),
    ] = msgspec.field(default_factory=default_budgets)


class NodePoolSpec(WireStruct, frozen=True, kw_only=True):
    """What may be launched, in which order, and how much."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "has(self.replicas) == has(oldSelf.replicas)",
                "a pool cannot change between static (with replicas) and dynamic (without)",
            ),
            cel_rule(
                "!has(self.replicas) || !has(self.limits) || self.limits.all(k, k == 'nodes')",
                "a static pool can be limited by nodes only",
                at=".limits",
            ),
            cel_rule(
                "!has(self.replicas) || !has(self.weight)",
                "a static pool has no weight: it does not wait for pods",
                at=".weight",
            ),
        ]
    }

    template: NodePoolTemplate
    disruption: Annotated[NodePoolDisruption, field_meta(default={"consolidateAfter": "0s"})] = (
        NodePoolDisruption(consolidateAfter="0s")
    )
    limits: Annotated[
        QuantityMap | None,
        field_meta("The most that the pool may hold, per resource; `nodes` counts nodes."),
    ] = None
    weight: Annotated[
        int | None,
        field_meta(
            "Pools of higher weight are tried first.", minimum=1, maximum=100, format="int32"
        ),
    ] = None
    replicas: Annotated[
        int | None,
        field_meta(
            "Keep this many nodes whatever the pods need.",
            minimum=0,
            maximum=2**31 - 1,  # what the scale subresource can hold
            format="int64",
        ),
    ] = None


class NodePoolStatus(WireStruct, frozen=True, kw_only=True):
    """What the pool holds."""

    resources: Annotated[QuantityMap | None, field_meta("The sum over its nodes.")] = None
    nodes: Annotated[int, field_meta("How many nodes it has.", format="int64", default=0)] = 0
    nodeClassObservedGeneration: Annotated[
        int | None, field_meta("The class's generation last seen.", format="int64")
    ] = None
    conditions: Conditions | None = None


class NodePool(WireStruct, frozen=True, kw_only=True):
    """Allows nodes to be launched for pods that lack one."""

    spec: NodePoolSpec
    apiVersion: str = "karpenter.sh/v1"
    kind: str = "NodePool"
    metadata: ObjectMeta = ObjectMeta()
    status: NodePoolStatus | None = None
