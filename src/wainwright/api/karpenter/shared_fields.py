"""What Karpenter kinds share: label names, requirements, taints, nodeClassRef, durations."""

from typing import Annotated, ClassVar, Final

from wainwright.api.wire import (
    EXPECTED_LABEL_KEY,
    LABEL_KEY_PATTERN,
    Schema,
    Timestamp,
    WireStruct,
    cel_rule,
    field_meta,
)

KARPENTER_GROUP: Final = "karpenter.sh"
KARPENTER_AWS_GROUP: Final = "karpenter.k8s.aws"
WAINWRIGHT_GROUP: Final = "wainwright.dev"
OWN_GROUPS: Final = (KARPENTER_GROUP, KARPENTER_AWS_GROUP, WAINWRIGHT_GROUP)

NODEPOOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
PRICE_LABEL: Final = "karpenter.sh/price"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"
TENANCY: Final = "karpenter.k8s.aws/instance-tenancy"
RESERVATION_ID: Final = "karpenter.k8s.aws/capacity-reservation-id"

CAPACITY_TYPES: Final = ("on-demand", "reserved", "spot")
TENANCIES: Final = ("dedicated", "default")

AWS_LABELS: Final = tuple(
    f"{KARPENTER_AWS_GROUP}/{name}"
    for name in (
        "capacity-reservation-id",
        "capacity-reservation-interruptible",
        "capacity-reservation-type",
        "ec2nodeclass",
        "instance-accelerator-count",
        "instance-accelerator-manufacturer",
        "instance-accelerator-name",
        "instance-capability-flex",
        "instance-category",
        "instance-cpu",
        "instance-cpu-manufacturer",
        "instance-cpu-sustained-clock-speed-mhz",
        "instance-ebs-bandwidth",
        "instance-encryption-in-transit-supported",
        "instance-family",
        "instance-generation",
        "instance-gpu-count",
        "instance-gpu-manufacturer",
        "instance-gpu-memory",
        "instance-gpu-name",
        "instance-hypervisor",
        "instance-local-nvme",
        "instance-memory",
        "instance-network-bandwidth",
        "instance-size",
        "instance-tenancy",
        "nitro-sandbox",
        "placement-group-id",
        "placement-group-partition",
    )
)
"""Labels of the provider that a requirement may name; the rest of its domain is its own."""
OVERLAY_LABELS: Final = tuple(
    label
    for label in AWS_LABELS
    if label.startswith((f"{KARPENTER_AWS_GROUP}/instance-", f"{KARPENTER_AWS_GROUP}/ec2nodeclass"))
    and label != TENANCY
)
"""Those of an overlay: what describes an instance type, not one instance."""


REQUIREMENT_OPERATORS: Final = ["DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn"]
COMPARISON_OPERATORS: Final = "['Gt', 'Gte', 'Lt', 'Lte']"
TAINT_EFFECTS: Final = ["NoExecute", "NoSchedule", "PreferNoSchedule"]
DURATION_PATTERN: Final = r"^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER_PATTERN: Final = r"^(([0-9]+(s|m|h))+|Never)$"
EXPECTED_DURATION: Final = "a duration in h, m and s, such as 1h30m"
EXPECTED_DURATION_OR_NEVER: Final = f"{EXPECTED_DURATION}, or Never"


def _cel_list(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


def _outside_domain(domain: str) -> str:
    """CEL: a key, called `key`, that is in no domain ending like this one."""
    return f"!key.matches('^[^/]*{domain.replace('.', '[.]')}(/|$)')"


KARPENTER_LABEL_RULE: Final = "labels of the domain karpenter.sh are set by the controller"
AWS_LABEL_RULE: Final = "this label of the domain karpenter.k8s.aws is not one that"


def label_rules(
    key: str, *, pool_is_free: bool, aws_labels: tuple[str, ...] = AWS_LABELS
) -> list[tuple[str, str]]:
    """CEL over a label key and what it forbids; pools may not name themselves, claims must."""
    free = (CAPACITY_TYPE, NODEPOOL) if pool_is_free else (CAPACITY_TYPE,)
    made = [
        (
            f"key in {_cel_list(free)} || {_outside_domain('karpenter.sh')}",
            f"{KARPENTER_LABEL_RULE}; only {' and '.join(free)} may be named",
        ),
        (
            f"key in {_cel_list(aws_labels)} || {_outside_domain('karpenter.k8s.aws')}",
            f"{AWS_LABEL_RULE} "
            + ("nodes get" if aws_labels is AWS_LABELS else "describes an instance type"),
        ),
        (
            f"key != '{HOSTNAME}'",
            f"{HOSTNAME} is different on every node and cannot be required",
        ),
    ]
    return [(rule.replace("key", key), message) for rule, message in made]


def _requirement_key(*, pool_is_free: bool, aws_labels: tuple[str, ...] = AWS_LABELS) -> object:
    rules = label_rules("self", pool_is_free=pool_is_free, aws_labels=aws_labels)
    return field_meta(
        "The label that the requirement is about.",
        max_length=316,
        pattern=LABEL_KEY_PATTERN,
        expected=EXPECTED_LABEL_KEY,
        rules=[cel_rule(cel, text) for cel, text in rules],
    )


def _values_rule(operator: str) -> dict[str, str]:
    return cel_rule(
        f"self.operator != '{operator}' || (has(self.values) && self.values.size() != 0)",
        f"the operator {operator} needs at least one value",
        at=".values",
    )


COMPARISON_RULE: Final = cel_rule(
    f"!(self.operator in {COMPARISON_OPERATORS}) "
    "|| (has(self.values) && self.values.size() == 1 && int(self.values[0]) >= 0)",
    "the operators Gt, Gte, Lt and Lte need exactly one value, a whole number of 0 or more",
    at=".values",
)
MIN_VALUES_RULE: Final = cel_rule(
    "self.operator != 'In' || !has(self.minValues) || !has(self.values) "
    "|| self.values.size() >= self.minValues",
    "minValues requires more values than the requirement lists",
    at=".minValues",
)

RequirementValues = Annotated[
    list[str],
    field_meta("The values that the operator compares with.", list_type="atomic"),
]
"""Any text, as in Karpenter's CRDs; validation warns of what no label can be."""
RequirementOperator = Annotated[
    str, field_meta("How the label is compared.", enum=REQUIREMENT_OPERATORS)
]
MinValues = Annotated[
    int,
    field_meta("How many different values must stay possible.", minimum=1, maximum=50),
]


class PoolRequirement(WireStruct, frozen=True, kw_only=True):
    """A condition on one label of the nodes that a pool may launch."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            _values_rule("In"),
            COMPARISON_RULE,
            MIN_VALUES_RULE,
        ]
    }

    key: Annotated[str, _requirement_key(pool_is_free=False)]
    operator: RequirementOperator
    values: RequirementValues | None = None
    minValues: MinValues | None = None


class ClaimRequirement(WireStruct, frozen=True, kw_only=True):
    """A condition on one label of a claimed node; it may name its pool."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            _values_rule("In"),
            COMPARISON_RULE,
            MIN_VALUES_RULE,
        ]
    }

    key: Annotated[str, _requirement_key(pool_is_free=True)]
    operator: RequirementOperator
    values: RequirementValues | None = None
    minValues: MinValues | None = None


class OverlayRequirement(WireStruct, frozen=True, kw_only=True):
    """A condition on one label of the instance types, offerings and pools that are overlaid."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [_values_rule("In"), _values_rule("NotIn"), COMPARISON_RULE]
    }

    key: Annotated[str, _requirement_key(pool_is_free=True, aws_labels=OVERLAY_LABELS)]
    operator: RequirementOperator
    values: RequirementValues | None = None


class PoolTaint(WireStruct, frozen=True, kw_only=True):
    """What keeps pods away from a node unless they tolerate it."""

    key: Annotated[
        str,
        field_meta(
            "The taint's name.",
            min_length=1,
            pattern=LABEL_KEY_PATTERN,
            expected=EXPECTED_LABEL_KEY,
        ),
    ]
    effect: Annotated[
        str, field_meta("What happens to pods without toleration.", enum=TAINT_EFFECTS)
    ]
    value: (
        Annotated[
            str,
            field_meta(
                "The taint's value.", pattern=LABEL_KEY_PATTERN, expected="a value such as true"
            ),
        ]
        | None
    ) = None
    timeAdded: Annotated[Timestamp, field_meta("When it was put on the node.")] | None = None


Taints = Annotated[list[PoolTaint], field_meta("Taints that nodes keep.", list_type="atomic")]
StartupTaints = Annotated[
    list[PoolTaint],
    field_meta("Taints that are removed once the node is set up.", list_type="atomic"),
]


def _not_empty(what: str) -> list[dict[str, str]]:
    return [cel_rule("self != ''", f"{what} may not be empty")]


class NodeClassRef(WireStruct, frozen=True, kw_only=True):
    """Which class holds the cloud's side of the node."""

    group: Annotated[
        str,
        field_meta(
            "The class's API group.",
            pattern=r"^[^/]*$",
            expected="a group without slash or version",
            rules=_not_empty("group"),
        ),
    ]
    kind: Annotated[str, field_meta("The class's kind.", rules=_not_empty("kind"))]
    name: Annotated[str, field_meta("The class's name.", rules=_not_empty("name"))]


ExpireAfter = Annotated[
    str,
    field_meta(
        "How long a node may live: a duration, or Never.",
        pattern=DURATION_OR_NEVER_PATTERN,
        expected=EXPECTED_DURATION_OR_NEVER,
        default="720h",
    ),
]
TerminationGracePeriod = Annotated[
    str,
    field_meta(
        "How long a node may take to drain before pods are forced off.",
        pattern=DURATION_PATTERN,
        expected=EXPECTED_DURATION,
    ),
]
