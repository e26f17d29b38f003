"""NodeClass of EKS Auto Mode: the fields that planning depends on.

EKS owns the CRD, and its fields change without notice: others than these are left alone.
"""

from typing import Annotated, ClassVar, Final

from wainwright.api.wire import (
    EXPECTED_QUANTITY,
    NON_NEGATIVE_QUANTITY_PATTERN,
    ObjectMeta,
    Schema,
    WireStruct,
    field_meta,
)

AUTO_MODE_GROUP: Final = "eks.amazonaws.com"
AUTO_MODE_KIND: Final = "NodeClass"
AUTO_MODE_AMI_FAMILY: Final = "AutoMode"
"""Stands in amiFamily where the class has the form of an EC2NodeClass; no user can state it."""
AUTO_MODE_POD_DEVICE: Final = "/dev/xvdb"


class EphemeralStorage(WireStruct, frozen=True, kw_only=True):
    """The volume of a node that holds images, logs and what pods write."""

    SCHEMA: ClassVar[Schema] = {"x-kubernetes-preserve-unknown-fields": True}

    size: Annotated[
        str | None,
        field_meta(
            "How large it is; absent: 80Gi.",
            pattern=NON_NEGATIVE_QUANTITY_PATTERN,
            expected=EXPECTED_QUANTITY,
        ),
    ] = None


class ReservationTerm(WireStruct, frozen=True, kw_only=True):
    """Selects capacity reservations by id, or by tags and owner."""

    SCHEMA: ClassVar[Schema] = {"x-kubernetes-preserve-unknown-fields": True}

    id: Annotated[str | None, field_meta("The id of one reservation.")] = None
    owner: Annotated[str | None, field_meta("The account that owns it.")] = None
    tags: Annotated[dict[str, str] | None, field_meta("Tags that it has.")] = None


class NodeClassSpec(WireStruct, frozen=True, kw_only=True):
    """What an Auto Mode node has."""

    SCHEMA: ClassVar[Schema] = {"x-kubernetes-preserve-unknown-fields": True}

    ephemeralStorage: EphemeralStorage | None = None
    capacityReservationSelectorTerms: Annotated[
        list[ReservationTerm] | None, field_meta("The reservations to launch into first.")
    ] = None


class NodeClass(WireStruct, frozen=True, kw_only=True):
    """The class of the nodes that EKS Auto Mode launches."""

    SCHEMA: ClassVar[Schema] = {"x-kubernetes-preserve-unknown-fields": True}

    apiVersion: str = f"{AUTO_MODE_GROUP}/v1"
    kind: str = AUTO_MODE_KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClassSpec = NodeClassSpec()
