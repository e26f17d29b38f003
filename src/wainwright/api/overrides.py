"""InstanceType and NodeOverlay: what a user knows better than the cloud's catalogue."""

from typing import Annotated, Any, ClassVar, Final

from wainwright.api.names import CAPACITY_TYPE, CAPACITY_TYPES, PRICE
from wainwright.api.scheduling import OverlayRequirement
from wainwright.api.schema import SAYS, Schema, rule, wire
from wainwright.api.wire import Conditions, Metadata, PositiveQuantities, Quantities, Wire

PRICE_TEXT: Final = r"^[0-9]+(\.[0-9]+)?$"
ADJUSTMENT: Final = (
    r"^([+-]([0-9]+|[0-9]*\.[0-9]+)|\+([0-9]+|[0-9]*\.[0-9]+)%|-([0-9]{1,2}(\.[0-9]+)?|100)%)$"
)
A_PRICE: Final = "a price in USD per hour such as 0.085"
AN_ADJUSTMENT: Final = "a sign and an amount: +0.5, -0.02, +10% or -15%, at least -100%"
NEVER_A_LIST: Final = {"minItems": 1, "maxItems": 0, "minProperties": 1, "maxProperties": 0}
"""A schema without type cannot say "number or string", but it can refuse lists and maps."""

Offering = dict[str, Any]
"""Labels of one way to buy the type, one value each; `karpenter.sh/price` is what it costs."""

OFFERING: Final = {
    "description": "One way to buy the type: labels with one value each, and karpenter.sh/price.",
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        PRICE: {
            "description": "USD per hour, as number or text; absent: the cloud's price.",
            "x-kubernetes-preserve-unknown-fields": True,
            "pattern": PRICE_TEXT,
            SAYS: A_PRICE,
            "minimum": 0,
            **NEVER_A_LIST,
        },
        CAPACITY_TYPE: {
            "description": "How the instance is paid for.",
            "type": "string",
            "enum": list(CAPACITY_TYPES),
        },
    },
}


class InstanceTypeSpec(Wire, frozen=True, kw_only=True):
    """What differs from the catalogue."""

    offerings: Annotated[
        list[Offering] | None,
        wire("Replaces every on-demand and spot offering of the type.", items=OFFERING),
    ] = None
    resources: Annotated[
        PositiveQuantities | None, wire("Merged over what the type is known to have.")
    ] = None
    overhead: Annotated[
        PositiveQuantities | None, wire("Taken off what pods may use, beside the kubelet's own.")
    ] = None


class ConditionsOnly(Wire, frozen=True, kw_only=True):
    """Whether the object could be used."""

    conditions: Conditions | None = None


class InstanceType(Wire, frozen=True, kw_only=True):
    """Overrides one instance type; its name is the value of node.kubernetes.io/instance-type."""

    spec: InstanceTypeSpec
    apiVersion: str = "karpenter.sh/v1alpha1"
    kind: str = "InstanceType"
    metadata: Metadata = Metadata()
    status: ConditionsOnly | None = None


class NodeOverlaySpec(Wire, frozen=True, kw_only=True):
    """Which types, offerings and pools are meant, and what changes for them."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "!has(self.price) || !has(self.priceAdjustment)",
                "price and priceAdjustment exclude each other",
                at=".priceAdjustment",
            )
        ]
    }

    requirements: Annotated[
        list[OverlayRequirement],
        wire("What is overlaid; all conditions must hold.", max_items=100, list_type="atomic"),
    ]
    price: Annotated[
        str | None,
        wire("USD per hour, in place of the cloud's price.", pattern=PRICE_TEXT, says=A_PRICE),
    ] = None
    priceAdjustment: Annotated[
        str | None,
        wire(
            "Added to the price: +0.5, -0.02, +10% or -15%.", pattern=ADJUSTMENT, says=AN_ADJUSTMENT
        ),
    ] = None
    capacity: Annotated[
        Quantities | None,
        wire(
            "Custom resources that the nodes will have.",
            rules=[
                rule(
                    "self.all(k, !(k in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
                    "an overlay adds custom resources only; cpu, memory, ephemeral-storage and "
                    "pods are set by an InstanceType",
                )
            ],
        ),
    ] = None
    weight: Annotated[
        int | None,
        wire(
            "Where overlays disagree, the higher weight wins.",
            minimum=1,
            maximum=10000,
            format="int32",
        ),
    ] = None


class NodeOverlay(Wire, frozen=True, kw_only=True):
    """Changes the price or custom capacity of many instance types at once."""

    spec: NodeOverlaySpec
    apiVersion: str = "karpenter.sh/v1alpha1"
    kind: str = "NodeOverlay"
    metadata: Metadata = Metadata()
    status: ConditionsOnly | None = None
