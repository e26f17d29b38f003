"""Cloud and Catalog: our own kinds, which describe to the offline commands what can be bought."""

from typing import Annotated, Final

from wainwright.api.names import CAPACITY_TYPES
from wainwright.api.scheduling import OPERATORS
from wainwright.api.schema import wire
from wainwright.api.selectors import CRITERIA
from wainwright.api.wire import LabelValue, Metadata, Quantities, Timestamp, Wire

UNLIMITED: Final = 4294967295
STATES: Final = [
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
Price = Annotated[float, wire("USD per hour.", minimum=0)]
Zone = Annotated[str, wire("An availability zone, as us-west-2a.", min_length=1)]
CapacityType = Annotated[str, wire("How it is paid for.", enum=list(CAPACITY_TYPES))]
Type = Annotated[str, wire("An instance type, as m5.large.", min_length=1)]


class CloudPrice(Wire, frozen=True, kw_only=True):
    """A price that is not the list price."""

    instanceType: Type
    capacityType: Annotated[str, wire("spot or on-demand.", enum=["on-demand", "spot"])]
    price: Price
    zone: Zone | None = None


class Reservation(Wire, frozen=True, kw_only=True):
    """A capacity reservation, in the shape of DescribeCapacityReservations."""

    id: Annotated[str, wire("Its id.", pattern="^cr-[0-9a-z]+$", says="an id such as cr-0a1b2c")]
    instanceType: Type
    availabilityZone: Zone
    total: Annotated[int, wire("How many instances are reserved.", minimum=0)]
    available: Annotated[int | None, wire("How many are free; absent: all.", minimum=0)] = None
    instanceMatchCriteria: Annotated[
        str, wire("Who may use it.", enum=CRITERIA, default="targeted")
    ] = "targeted"
    ownerID: Annotated[
        str | None,
        wire(
            "The account that owns it.",
            pattern="^[0-9]{12}$",
            says="an account number of 12 digits",
        ),
    ] = None
    tags: Annotated[dict[str, str] | None, wire("Its tags.")] = None
    state: Annotated[str, wire("Its state.", enum=STATES, default="active")] = "active"
    reservationType: Annotated[
        str,
        wire(
            "Ordinary, or a capacity block.", enum=["capacity-block", "default"], default="default"
        ),
    ] = "default"
    startTime: Annotated[Timestamp | None, wire("When it begins.", nullable=True)] = None
    endTime: Annotated[Timestamp | None, wire("When it ends.", nullable=True)] = None
    platform: Annotated[str, wire("The operating system.", default="Linux/UNIX")] = "Linux/UNIX"
    tenancy: Annotated[
        str, wire("Shared or own hardware.", enum=["dedicated", "default"], default="default")
    ] = "default"
    interruptible: Annotated[bool, wire("Whether it can be taken back.", default=False)] = False


class Unavailable(Wire, frozen=True, kw_only=True):
    """Offerings that answer "insufficient capacity"; a field left out means all."""

    instanceType: Type | None = None
    zone: Zone | None = None
    capacityType: CapacityType | None = None


class Fees(Wire, frozen=True, kw_only=True):
    """Costs beside the instance, USD per hour."""

    perNode: Annotated[float, wire("Per node.", minimum=0, default=0)] = 0
    perGiBDisk: Annotated[float, wire("Per GiB of disk.", minimum=0, default=0)] = 0


class CloudSpec(Wire, frozen=True, kw_only=True):
    """A region, and what is special about it."""

    region: Annotated[str, wire("As us-west-2.", min_length=1)]
    zones: Annotated[
        list[Zone] | None, wire("Only these zones; absent: all of the region.", min_items=1)
    ] = None
    instanceTypes: Annotated[
        list[Type] | None, wire("Only these types; `*` stands for any text.", min_items=1)
    ] = None
    prices: Annotated[list[CloudPrice] | None, wire("Prices that differ.")] = None
    capacityReservations: Annotated[list[Reservation] | None, wire("Reserved capacity.")] = None
    unavailable: Annotated[list[Unavailable] | None, wire("What is out of stock.")] = None
    fees: Fees | None = None


class Cloud(Wire, frozen=True, kw_only=True):
    """The cloud that offline commands plan for."""

    spec: CloudSpec
    apiVersion: str = "wainwright.dev/v1alpha1"
    kind: str = "Cloud"
    metadata: Metadata = Metadata()


class TypeRequirement(Wire, frozen=True, kw_only=True):
    """The values that a label of the type can take."""

    key: Annotated[str, wire("The label.", min_length=1)]
    operator: Annotated[str, wire("How.", enum=OPERATORS)]
    values: Annotated[list[LabelValue] | None, wire("Which.")] = None


class CatalogOffering(Wire, frozen=True, kw_only=True):
    """One way to buy the type."""

    labels: Annotated[dict[str, str], wire("Labels that a node bought this way gets.")]
    price: Price
    available: Annotated[
        int,
        wire(
            f"0: none, {UNLIMITED}: no limit, else how many.",
            minimum=0,
            maximum=UNLIMITED,
            default=UNLIMITED,
        ),
    ] = UNLIMITED
    reservationID: Annotated[
        str | None, wire("Offerings of one reservation share its count.", nullable=True)
    ] = None


class CatalogType(Wire, frozen=True, kw_only=True):
    """An instance type, with everything a plan looks at."""

    name: Type
    capacity: Annotated[Quantities, wire("What the machine has.")]
    requirements: Annotated[list[TypeRequirement] | None, wire("Its labels.")] = None
    overhead: Annotated[Quantities | None, wire("What pods cannot use of it.")] = None
    allocatable: Annotated[
        Quantities | None, wire("Capacity less overhead; printed, and checked when given.")
    ] = None
    offerings: Annotated[list[CatalogOffering] | None, wire("How it can be bought.")] = None


class Catalog(Wire, frozen=True, kw_only=True):
    """Instance types to plan with, in place of the built-in ones."""

    region: Annotated[str, wire("As us-west-2.", min_length=1)]
    instanceTypes: Annotated[list[CatalogType], wire("The types.")]
    apiVersion: str = "wainwright.dev/v1alpha1"
    kind: str = "Catalog"
    metadata: Metadata = Metadata()
