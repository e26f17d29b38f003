"""Instances as the provider knows them, with defaults where a test does not care."""

from typing import Any

from wainwright.aws.instance import ONLY_RESERVATIONS, Instance
from wainwright.clock import EPOCH


def machine(identity: str = "i-1", **fields: Any) -> Instance:
    """One that runs; with a reservation id it was launched into that reservation."""
    stated: dict[str, Any] = {
        "id": identity,
        "state": "running",
        "instance_type": "m5.large",
        "image_id": "ami-1",
        "zone": "us-east-1a",
        "launched": EPOCH,
        "subnet_id": "subnet-1",
        "security_groups": frozenset({"sg-1"}),
        "preference": ONLY_RESERVATIONS if fields.get("reservation_id") else "",
    }
    return Instance(**(stated | fields))
