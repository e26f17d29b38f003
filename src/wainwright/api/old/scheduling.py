"""What old pools and claims say about nodes: requirements, taints and conditions as they were."""

from typing import Annotated, ClassVar, Final

from wainwright.api.scheduling import EFFECTS, KNOWN_RULES, MIN_VALUES_RULE, MinValues, Values
from wainwright.api.schema import Schema, rule, wire
from wainwright.api.wire import A_LABEL_KEY, DNS_NAME, LABEL_KEY, LabelValue, Timestamp, Wire

OPERATORS: Final = ["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"]
MAYBE_EMPTY: Final = f"^({LABEL_KEY[1:-1]})?$"

VALUES_RULES: Final = [
    rule(
        "self.operator != 'In' || (has(self.values) && self.values.size() != 0)",
        "the operator In needs at least one value",
        at=".values",
    ),
    rule(
        "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && self.values.size() == 1 "
        "&& self.values[0].matches('^[0-9]+$'))",
        "the operators Gt and Lt need exactly one value, a whole number of 0 or more",
        at=".values",
    ),
]
"""NotIn without values was legal: it excludes nothing."""

Key = Annotated[
    str,
    wire(
        "The label that the requirement is about.",
        max_length=316,
        pattern=LABEL_KEY,
        says=A_LABEL_KEY,
    ),
]
Operator = Annotated[str, wire("How the label is compared.", enum=OPERATORS)]
Labels = Annotated[dict[str, LabelValue], wire("Labels of the nodes.", max_properties=100)]
Annotations = Annotated[dict[str, str], wire("Annotations of the nodes.")]


class AlphaRequirement(Wire, frozen=True, kw_only=True):
    """A condition on one label of the nodes; any label may be named, also those set elsewhere."""

    SCHEMA: ClassVar[Schema] = {"x-kubernetes-validations": [*VALUES_RULES, *KNOWN_RULES]}

    key: Key
    operator: Operator
    values: Values | None = None


class BetaRequirement(Wire, frozen=True, kw_only=True):
    """The same, with a number of values that must stay possible."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [*VALUES_RULES, *KNOWN_RULES, MIN_VALUES_RULE]
    }

    key: Key
    operator: Operator
    values: Values | None = None
    minValues: MinValues | None = None


class OldTaint(Wire, frozen=True, kw_only=True):
    """What keeps pods away from a node; an empty value was legal and meant none."""

    key: Annotated[
        str, wire("The taint's name.", min_length=1, pattern=LABEL_KEY, says=A_LABEL_KEY)
    ]
    effect: Annotated[str, wire("What happens to pods without toleration.", enum=EFFECTS)]
    value: (
        Annotated[str, wire("The taint's value.", pattern=MAYBE_EMPTY, says="a value such as true")]
        | None
    ) = None
    timeAdded: Annotated[Timestamp, wire("When it was put on the node.")] | None = None


AlphaRequirements = Annotated[
    list[AlphaRequirement], wire("Conditions that every node meets.", max_items=100)
]
BetaRequirements = Annotated[
    list[BetaRequirement], wire("Conditions that every node meets.", max_items=100)
]
OldTaints = Annotated[list[OldTaint], wire("Taints that nodes keep.")]
OldStartupTaints = Annotated[
    list[OldTaint], wire("Taints that somebody removes once the node is set up.")
]
ClassName = Annotated[
    str,
    wire(
        "Its name.",
        max_length=253,
        pattern=f"^{DNS_NAME}$",
        says="a name: lower case letters, digits, '-' and '.'",
    ),
]


class OldCondition(Wire, frozen=True, kw_only=True):
    """One aspect of an object's state, with a severity, as controllers wrote it before v1."""

    type: Annotated[str, wire("Which aspect.", max_length=316)]
    status: Annotated[str, wire("True, False or Unknown.", enum=["True", "False", "Unknown"])]
    lastTransitionTime: Annotated[Timestamp, wire("When the status last changed.")] | None = None
    severity: Annotated[str | None, wire("How bad it is.")] = None
    reason: Annotated[str | None, wire("Why, in one word.", max_length=1024)] = None
    message: Annotated[str | None, wire("Why, in a sentence.", max_length=32768)] = None
    observedGeneration: Annotated[
        int | None, wire("The generation this was said of.", minimum=0, format="int64")
    ] = None


OldConditions = Annotated[list[OldCondition], wire("What was known of the object's state.")]


class BetaNodeClassRef(Wire, frozen=True, kw_only=True):
    """Which class holds the cloud's side of the node; group and version in one."""

    name: ClassName
    kind: Annotated[str | None, wire("The class's kind; EC2NodeClass when absent.")] = None
    apiVersion: Annotated[str | None, wire("The class's group and version.")] = None
