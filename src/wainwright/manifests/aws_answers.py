"""Answers of the AWS command line that are an input as they are."""

from collections.abc import Mapping
from typing import Any, Final

RESERVATIONS_KEY: Final = "CapacityReservations"
"""The one key of what `aws ec2 describe-capacity-reservations` prints."""
RENAMED_FIELDS: Final = {
    "CapacityReservationId": "id",
    "InstanceType": "instanceType",
    "AvailabilityZone": "availabilityZone",
    "TotalInstanceCount": "total",
    "AvailableInstanceCount": "available",
    "InstanceMatchCriteria": "instanceMatchCriteria",
    "OwnerId": "ownerID",
    "State": "state",
    "ReservationType": "reservationType",
    "StartDate": "startTime",
    "EndDate": "endTime",
    "InstancePlatform": "platform",
    "Tenancy": "tenancy",
    "Interruptible": "interruptible",
}


def is_reservations_answer(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "kind" not in value
        and isinstance(value.get(RESERVATIONS_KEY), list)
    )


def reservations_manifest(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer as an object that can be validated and read like any other."""
    entries = [_entry(each) for each in answer[RESERVATIONS_KEY]]
    first = entries[0].get("id", "") if entries and isinstance(entries[0], dict) else "none"
    return {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": RESERVATIONS_KEY,
        "metadata": {"name": str(first) or "none"},
        "spec": {"capacityReservations": entries},
    }


def _entry(reservation: Any) -> Any:
    """Fields that nothing depends on are left out; one that is no mapping is left to validation."""
    if not isinstance(reservation, dict):
        return reservation
    entry = {
        name: reservation[field]
        for field, name in RENAMED_FIELDS.items()
        if reservation.get(field) is not None
    }
    tags = reservation.get("Tags")
    if isinstance(tags, list):
        pairs = [each for each in tags if isinstance(each, dict)]
        entry["tags"] = {str(each.get("Key")): str(each.get("Value", "")) for each in pairs}
    return entry
