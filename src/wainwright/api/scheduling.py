"""What pools, claims and overlays say about nodes: requirements, taints, the class referred to."""

from typing import Annotated, ClassVar, Final

from wainwright.api.names import (
    AWS_LABELS,
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    HOSTNAME,
    NODEPOOL,
    TENANCIES,
    TENANCY,
)
from wainwright.api.schema import Schema, rule, wire
from wainwright.api.wire import A_LABEL_KEY, LABEL_KEY, LabelValue, Timestamp, Wire

OPERATORS: Final = ["DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn"]
COMPARISONS: Final = "['Gt', 'Gte', 'Lt', 'Lte']"
EFFECTS: Final = ["NoExecute", "NoSchedule", "PreferNoSchedule"]
DURATION: Final = r"^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER: Final = r"^(([0-9]+(s|m|h))+|Never)$"
A_DURATION: Final = "a duration in h, m and s, such as 1h30m"
A_DURATION_OR_NEVER: Final = f"{A_DURATION}, or Never"


def _quoted(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


def _outside(domain: str) -> str:
    """CEL: a key, called `key`, that is in no domain ending like this one."""
    return f"!key.matches('^[^/]*{domain.replace('.', '[.]')}(/|$)')"


def label_rules(key: str, *, pool_is_free: bool) -> list[tuple[str, str]]:
    """CEL over a label key and what it forbids; pools may not name themselves, claims must."""
    free = (CAPACITY_TYPE, NODEPOOL) if pool_is_free else (CAPACITY_TYPE,)
    made = [
        (
            f"key in {_quoted(free)} || {_outside('karpenter.sh')}",
            "labels of the domain karpenter.sh are set by the controller; only "
            f"{' and '.join(free)} may be named",
        ),
        (
            f"key in {_quoted(AWS_LABELS)} || {_outside('karpenter.k8s.aws')}",
            "this label of the domain karpenter.k8s.aws is not one that nodes get",
        ),
        (
            f"key != '{HOSTNAME}'",
            f"{HOSTNAME} is different on every node and cannot be required",
        ),
    ]
    return [(rule.replace("key", key), message) for rule, message in made]


def _key(*, pool_is_free: bool) -> object:
    return wire(
        "The label that the requirement is about.",
        max_length=316,
        pattern=LABEL_KEY,
        says=A_LABEL_KEY,
        rules=[rule(cel, text) for cel, text in label_rules("self", pool_is_free=pool_is_free)],
    )


VALUES_RULES: Final = [
    rule(
        "!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() != 0)",
        "the operators In and NotIn need at least one value",
        at=".values",
    ),
    rule(
        f"!(self.operator in {COMPARISONS}) || (has(self.values) && self.values.size() == 1 "
        "&& self.values[0].matches('^[0-9]+$'))",
        "the operators Gt, Gte, Lt and Lte need exactly one value, a whole number of 0 or more",
        at=".values",
    ),
]
KNOWN_RULES: Final = [
    rule(
        f"self.key != '{key}' || self.operator != 'In' || !has(self.values) || "
        + " || ".join(f"'{value}' in self.values" for value in values),
        f"none of the values is known; {key} is one of {', '.join(values)}",
        at=".values",
    )
    for key, values in ((CAPACITY_TYPE, CAPACITY_TYPES), (TENANCY, TENANCIES))
]
MIN_VALUES_RULE: Final = rule(
    "self.operator != 'In' || !has(self.minValues) || !has(self.values) "
    "|| self.values.size() >= self.minValues",
    "minValues asks for more values than the requirement lists",
    at=".minValues",
)

Values = Annotated[
    list[LabelValue],
    wire(
        "The values that the operator compares with.",
        list_type="atomic",
        max_items=10000,  # ten times the instance types there are; CEL's cost budget needs a limit
    ),
]
Operator = Annotated[str, wire("How the label is compared.", enum=OPERATORS)]
MinValues = Annotated[
    int,
    wire("How many different values must stay possible.", minimum=1, maximum=50),
]


class Requirement(Wire, frozen=True, kw_only=True):
    """A condition on one label of the nodes that a pool may launch."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [*VALUES_RULES, *KNOWN_RULES, MIN_VALUES_RULE]
    }

    key: Annotated[str, _key(pool_is_free=False)]
    operator: Operator
    values: Values | None = None
    minValues: MinValues | None = None


class ClaimRequirement(Wire, frozen=True, kw_only=True):
    """A condition on one label of a claimed node; it may name its pool."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [*VALUES_RULES, *KNOWN_RULES, MIN_VALUES_RULE]
    }

    key: Annotated[str, _key(pool_is_free=True)]
    operator: Operator
    values: Values | None = None
    minValues: MinValues | None = None


class OverlayRequirement(Wire, frozen=True, kw_only=True):
    """A condition on one label of the instance types, offerings and pools that are overlaid."""

    SCHEMA: ClassVar[Schema] = {"x-kubernetes-validations": VALUES_RULES}

    key: Annotated[str, _key(pool_is_free=True)]
    operator: Operator
    values: Values | None = None


class Taint(Wire, frozen=True, kw_only=True):
    """What keeps pods away from a node unless they tolerate it."""

    key: Annotated[
        str, wire("The taint's name.", min_length=1, pattern=LABEL_KEY, says=A_LABEL_KEY)
    ]
    effect: Annotated[str, wire("What happens to pods without toleration.", enum=EFFECTS)]
    value: (
        Annotated[str, wire("The taint's value.", pattern=LABEL_KEY, says="a value such as true")]
        | None
    ) = None
    timeAdded: Annotated[Timestamp, wire("When it was put on the node.")] | None = None


Taints = Annotated[list[Taint], wire("Taints that nodes keep.", list_type="atomic")]
StartupTaints = Annotated[
    list[Taint],
    wire("Taints that somebody removes once the node is set up.", list_type="atomic"),
]


def _filled(what: str) -> list[dict[str, str]]:
    return [rule("self != ''", f"{what} may not be empty")]


class NodeClassRef(Wire, frozen=True, kw_only=True):
    """Which class holds the cloud's side of the node."""

    group: Annotated[
        str,
        wire(
            "The class's API group.",
            pattern=r"^[^/]*$",
            says="a group without slash or version",
            rules=_filled("group"),
        ),
    ]
    kind: Annotated[str, wire("The class's kind.", rules=_filled("kind"))]
    name: Annotated[str, wire("The class's name.", rules=_filled("name"))]


ExpireAfter = Annotated[
    str,
    wire(
        "How long a node may live: a duration, or Never.",
        pattern=DURATION_OR_NEVER,
        says=A_DURATION_OR_NEVER,
        default="720h",
    ),
]
GracePeriod = Annotated[
    str,
    wire(
        "How long a node may take to drain before pods are forced off.",
        pattern=DURATION,
        says=A_DURATION,
    ),
]
