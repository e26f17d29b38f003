"""A summary of an account: enough to see what runs, what is left, and what stands in the way."""

from collections import Counter
from typing import Any

import msgspec

from wainwright.emulator import saving
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.ec2.machines import CapacityReservation
from wainwright.emulator.faults import FaultState
from wainwright.emulator.parts import Parts
from wainwright.emulator.throttle import ThrottleState


def summary(cloud: EmulatedCloud) -> dict[str, Any]:
    """What there is, and the rules in force, in the fields by which they can be changed."""
    cloud.world.catch_up()
    parts = cloud.parts
    machines = parts.instances.state.instances.values()
    return {
        "now": cloud.clock.now(),
        "instances": dict(Counter(each.state for each in machines)),
        "launchTemplates": len(parts.templates.state.templates),
        "messages": {name: len(each.messages) for name, each in parts.sqs.state.queues.items()},
        "capacityReservations": [
            _reservation(each) for each in parts.reservations.state.reservations.values()
        ],
        **_market(parts),
        **_mishaps(cloud),
    }


def _reservation(found: CapacityReservation) -> dict[str, Any]:
    return {
        "id": found.id,
        "instanceType": found.type,
        "availabilityZone": found.zone,
        "total": found.total,
        "available": found.free if found.active else 0,
        "instanceMatchCriteria": found.criteria,
        "state": found.state,
    }


def _market(parts: Parts) -> dict[str, Any]:
    shop = parts.shop.state
    return {
        "prices": shop.prices,
        "unavailable": shop.stock.unavailable,
        "stock": shop.stock.rules,
        "quota": parts.quota.state.limits,
        "pace": parts.instances.state.pace,
    }


def _mishaps(cloud: EmulatedCloud) -> dict[str, Any]:
    """The account shows its rules for failures only to those who save it."""
    states = saving.read(cloud.save()).states
    faults = msgspec.json.decode(states["Faults"], type=FaultState)
    throttling = msgspec.json.decode(states["Buckets"], type=ThrottleState)
    return {"faults": faults.rules, "struck": faults.struck, "throttling": throttling.limits}
