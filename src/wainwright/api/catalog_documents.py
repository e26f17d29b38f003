"""What users state about instance types, prices and reservations.

Cloud and Catalog are read by offline commands only; InstanceType and NodeOverlay have CRDs.
"""

from typing import Annotated, Any, ClassVar, Final

from wainwright.api.karpenter.ec2nodeclass import INSTANCE_MATCH_CRITERIA, ReservationGroupArn
from wainwright.api.karpenter.shared_fields import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    PRICE_LABEL,
    REQUIREMENT_OPERATORS,
    OverlayRequirement,
)
from wainwright.api.wire import (
    EXPECTED_TEXT_KEYWORD,
    Conditions,
    LabelValue,
    NonNegativeQuantityMap,
    ObjectMeta,
    QuantityMap,
    Schema,
    Timestamp,
    WireStruct,
    cel_rule,
    field_meta,
)

PRICE_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?$"
PRICE_ADJUSTMENT_PATTERN: Final = (
    r"^([+-]([0-9]+|[0-9]*\.[0-9]+)|\+([0-9]+|[0-9]*\.[0-9]+)%|-([0-9]{1,2}(\.[0-9]+)?|100)%)$"
)
EXPECTED_PRICE: Final = "a price in USD per hour such as 0.085"
EXPECTED_PRICE_ADJUSTMENT: Final = "a sign and an amount: +0.5, -0.02, +10% or -15%, at least -100%"
SCALAR_ONLY: Final = {"minItems": 1, "maxItems": 0, "minProperties": 1, "maxProperties": 0}
"""A schema without type cannot say "number or string", but it can refuse lists and maps."""

OfferingLabels = dict[str, Any]
"""Labels of one way to buy the type, one value each; `karpenter.sh/price` is what it costs."""

OFFERING_SCHEMA: Final = {
    "description": "One way to launch it: labels with one value each, and karpenter.sh/price.",
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        PRICE_LABEL: {
            "description": "USD per hour, as number or text; absent: the cloud's price.",
            "x-kubernetes-preserve-unknown-fields": True,
            "pattern": PRICE_PATTERN,
            EXPECTED_TEXT_KEYWORD: EXPECTED_PRICE,
            "minimum": 0,
            **SCALAR_ONLY,
        },
        CAPACITY_TYPE: {
            "description": "The capacity type.",
            "type": "string",
            "enum": list(CAPACITY_TYPES),
        },
    },
}


class InstanceTypeSpec(WireStruct, frozen=True, kw_only=True):
    """What differs from the catalogue."""

    offerings: Annotated[
        list[OfferingLabels] | None,
        field_meta(
            "Replaces every on-demand and spot offering of the type.", items=OFFERING_SCHEMA
        ),
    ] = None
    resources: Annotated[
        NonNegativeQuantityMap | None, field_meta("Merged over what the type is known to have.")
    ] = None
    overhead: Annotated[
        NonNegativeQuantityMap | None,
        field_meta("Subtracted from what pods may use, in addition to the kubelet's own."),
    ] = None
    allocatable: Annotated[
        NonNegativeQuantityMap | None,
        field_meta("What pods may use, in place of capacity less all overhead."),
    ] = None


class ConditionsStatus(WireStruct, frozen=True, kw_only=True):
    """Whether the object could be used."""

    conditions: Conditions | None = None


class InstanceType(WireStruct, frozen=True, kw_only=True):
    """Overrides one instance type; its name is the value of node.kubernetes.io/instance-type."""

    spec: InstanceTypeSpec
    apiVersion: str = "karpenter.sh/v1alpha1"
    kind: str = "InstanceType"
    metadata: ObjectMeta = ObjectMeta()
    status: ConditionsStatus | None = None


class NodeOverlaySpec(WireStruct, frozen=True, kw_only=True):
    """Which types, offerings and pools are meant, and what changes for them."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "!has(self.price) || !has(self.priceAdjustment)",
                "price and priceAdjustment exclude each other",
                at=".priceAdjustment",
            )
        ]
    }

    requirements: Annotated[
        list[OverlayRequirement],
        field_meta(
            "What is overlaid; all conditions must hold.", max_items=100, list_type="atomic"
        ),
    ]
    price: Annotated[
        str | None,
        field_meta(
            "USD per hour, in place of the cloud's price.",
            pattern=PRICE_PATTERN,
            expected=EXPECTED_PRICE,
        ),
    ] = None
    priceAdjustment: Annotated[
        str | None,
        field_meta(
            "Added to the price: +0.5, -0.02, +10% or -15%.",
            pattern=PRICE_ADJUSTMENT_PATTERN,
            expected=EXPECTED_PRICE_ADJUSTMENT,
        ),
    ] = None
    capacity: Annotated[
        QuantityMap | None,
        field_meta(
            "Custom resources that the nodes will have.",
            rules=[
                cel_rule(
                    "self.all(k, !(k in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
                    "an overlay adds custom resources only; cpu, memory, ephemeral-storage and "
                    "pods are set by an InstanceType",
                )
            ],
        ),
    ] = None
    weight: Annotated[
        int | None,
        field_meta(
            "Where overlays disagree, the higher weight wins.",
            minimum=1,
            maximum=10000,
            format="int32",
        ),
    ] = None


class NodeOverlay(WireStruct, frozen=True, kw_only=True):
    """Changes the price or custom capacity of many instance types at once."""

    spec: NodeOverlaySpec
    apiVersion: str = "karpenter.sh/v1alpha1"
    kind: str = "NodeOverlay"
    metadata: ObjectMeta = ObjectMeta()
    status: ConditionsStatus | None = None


UNLIMITED: Final = 4294967295
RESERVATION_STATES: Final = [
    "active",
    "assessing",
    "cancelled",
    "delayed",
    "expired",
    "failed",
    "payment-failed",
    "payment-pending",
    "pending",
    "scheduled",
    "unavailable",
    "unsupported",
]
HourlyPrice = Annotated[float, field_meta("USD per hour.", minimum=0)]
ZoneName = Annotated[str, field_meta("An availability zone, as us-west-2a.", min_length=1)]
CapacityTypeName = Annotated[str, field_meta("The capacity type.", enum=list(CAPACITY_TYPES))]
InstanceTypeName = Annotated[str, field_meta("An instance type, as m5.large.", min_length=1)]


class CloudPrice(WireStruct, frozen=True, kw_only=True):
    """A price that is not the list price."""

    instanceType: InstanceTypeName
    capacityType: Annotated[str, field_meta("spot or on-demand.", enum=["on-demand", "spot"])]
    price: HourlyPrice
    zone: ZoneName | None = None


class CloudReservation(WireStruct, frozen=True, kw_only=True):
    """A capacity reservation, in the shape of DescribeCapacityReservations."""

    id: Annotated[
        str, field_meta("Its id.", pattern="^cr-[0-9a-z]+$", expected="an id such as cr-0a1b2c")
    ]
    instanceType: InstanceTypeName
    availabilityZone: ZoneName
    total: Annotated[int, field_meta("How many instances are reserved.", minimum=0)]
    available: Annotated[int | None, field_meta("How many are free; absent: all.", minimum=0)] = (
        None
    )
    instanceMatchCriteria: Annotated[
        str, field_meta("Who may use it.", enum=INSTANCE_MATCH_CRITERIA, default="targeted")
    ] = "targeted"
    ownerID: Annotated[
        str | None,
        field_meta(
            "The account that owns it.",
            pattern="^[0-9]{12}$",
            expected="an account number of 12 digits",
        ),
    ] = None
    tags: Annotated[dict[str, str] | None, field_meta("Its tags.")] = None
    state: Annotated[str, field_meta("Its state.", enum=RESERVATION_STATES, default="active")] = (
        "active"
    )
    reservationType: Annotated[
        str,
        field_meta(
            "Ordinary, or a capacity block.", enum=["capacity-block", "default"], default="default"
        ),
    ] = "default"
    startTime: Annotated[Timestamp | None, field_meta("When it begins.", nullable=True)] = None
    endTime: Annotated[Timestamp | None, field_meta("When it ends.", nullable=True)] = None
    platform: Annotated[str, field_meta("The operating system.", default="Linux/UNIX")] = (
        "Linux/UNIX"
    )
    tenancy: Annotated[
        str, field_meta("Shared or own hardware.", enum=["dedicated", "default"], default="default")
    ] = "default"
    interruptible: Annotated[bool, field_meta("Whether it can be taken back.", default=False)] = (
        False
    )
    groups: Annotated[
        list[ReservationGroupArn] | None, field_meta("The resource groups that it is in.")
    ] = None


class UnavailableOffering(WireStruct, frozen=True, kw_only=True):
    """Offerings that answer "insufficient capacity"; a field left out means all."""

    instanceType: InstanceTypeName | None = None
    zone: ZoneName | None = None
    capacityType: CapacityTypeName | None = None


class CloudFees(WireStruct, frozen=True, kw_only=True):
    """Costs beside the instance, USD per hour."""

    perNode: Annotated[float, field_meta("Per node.", minimum=0, default=0)] = 0
    perGiBDisk: Annotated[float, field_meta("Per GiB of disk.", minimum=0, default=0)] = 0


class CloudSpec(WireStruct, frozen=True, kw_only=True):
    """A region, and what is special about it."""

    region: Annotated[str, field_meta("As us-west-2.", min_length=1)]
    zones: Annotated[
        list[ZoneName] | None,
        field_meta("Only these zones; absent: all of the region.", min_items=1),
    ] = None
    instanceTypes: Annotated[
        list[InstanceTypeName] | None,
        field_meta("Only these types; `*` stands for any text.", min_items=1),
    ] = None
    prices: Annotated[list[CloudPrice] | None, field_meta("Prices that differ.")] = None
    capacityReservations: Annotated[
        list[CloudReservation] | None, field_meta("Reserved capacity.")
    ] = None
    unavailable: Annotated[
        list[UnavailableOffering] | None, field_meta("Offerings without capacity.")
    ] = None
    fees: CloudFees | None = None


class Cloud(WireStruct, frozen=True, kw_only=True):
    """The cloud that offline commands plan for."""

    spec: CloudSpec
    apiVersion: str = "wainwright.dev/v1alpha1"
    kind: str = "Cloud"
    metadata: ObjectMeta = ObjectMeta()


class CapacityReservationsSpec(WireStruct, frozen=True, kw_only=True):
    """Capacity reservations of an account."""

    capacityReservations: Annotated[list[CloudReservation], field_meta("Reserved capacity.")]


class CapacityReservations(WireStruct, frozen=True, kw_only=True):
    """What an account has reserved: `aws ec2 describe-capacity-reservations`, as it is read."""

    spec: CapacityReservationsSpec
    apiVersion: str = "wainwright.dev/v1alpha1"
    kind: str = "CapacityReservations"
    metadata: ObjectMeta = ObjectMeta()


class CatalogRequirement(WireStruct, frozen=True, kw_only=True):
    """The values that a label of the type can take."""

    key: Annotated[str, field_meta("The label.", min_length=1)]
    operator: Annotated[str, field_meta("Only this capacity type.", enum=REQUIREMENT_OPERATORS)]
    values: Annotated[list[LabelValue] | None, field_meta("Which.")] = None


class CatalogOffering(WireStruct, frozen=True, kw_only=True):
    """One way to buy the type."""

    labels: Annotated[dict[str, str], field_meta("Labels that a node launched this way gets.")]
    price: HourlyPrice
    available: Annotated[
        int,
        field_meta(
            f"0: none, {UNLIMITED}: no limit, else how many.",
            minimum=0,
            maximum=UNLIMITED,
            default=UNLIMITED,
        ),
    ] = UNLIMITED
    reservationID: Annotated[
        str | None, field_meta("Offerings of one reservation share its count.", nullable=True)
    ] = None


AttachLimit = Annotated[int, field_meta("Volumes.", minimum=0, maximum=UNLIMITED)]


class CatalogInstanceType(WireStruct, frozen=True, kw_only=True):
    """An instance type, with everything a plan looks at."""

    name: InstanceTypeName
    capacity: Annotated[QuantityMap, field_meta("Its capacity.")]
    requirements: Annotated[list[CatalogRequirement] | None, field_meta("Its labels.")] = None
    overhead: Annotated[QuantityMap | None, field_meta("What pods cannot use of it.")] = None
    allocatable: Annotated[
        QuantityMap | None, field_meta("Capacity less overhead; printed, and checked when given.")
    ] = None
    attachLimits: Annotated[
        dict[str, AttachLimit] | None,
        field_meta("How many volumes of pods a node attaches, by CSI driver; else no limit."),
    ] = None
    offerings: Annotated[list[CatalogOffering] | None, field_meta("How it can be launched.")] = None


class Catalog(WireStruct, frozen=True, kw_only=True):
    """Instance types to plan with, in place of the built-in ones."""

    region: Annotated[str, field_meta("As us-west-2.", min_length=1)]
    instanceTypes: Annotated[list[CatalogInstanceType], field_meta("The types.")]
    apiVersion: str = "wainwright.dev/v1alpha1"
    kind: str = "Catalog"
    metadata: ObjectMeta = ObjectMeta()
