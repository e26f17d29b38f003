"""DescribeInstanceStatus: which machines fail their checks, and what EC2 has in store for them."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from wainwright.emulator.ec2.instance_views import state
from wainwright.emulator.ec2.instances import Instances
from wainwright.emulator.ec2.machines import CODES, RUNNING, Instance
from wainwright.emulator.filters import Fields, matching
from wainwright.emulator.interruptions import (
    Check,
    Interruptions,
    InterruptionState,
    ScheduledEvent,
)
from wainwright.emulator.paging import page
from wainwright.emulator.times import iso, moment
from wainwright.emulator.world import Answer, Handler, Params
from wainwright.errors import AwsError

MOST: Final = 1000
OK, IMPAIRED, NOT_APPLICABLE = "ok", "impaired", "not-applicable"
PASSED, FAILED = "passed", "failed"


class StatusState(msgspec.Struct):
    """Nothing of its own: what it shows stands with the machines and the interruptions."""


class Statuses:
    name = "ec2"

    def __init__(self, instances: Instances, interruptions: Interruptions) -> None:
        self.state = StatusState()
        self._instances = instances
        self._interruptions = interruptions

    def operations(self) -> Mapping[str, Handler]:
        return {"DescribeInstanceStatus": self.describe}

    def describe(self, params: Params) -> Answer:
        asked = params.get("InstanceIds")
        if asked and params.get("MaxResults") is not None:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        rows = self._instances.named(asked) if asked else self._instances.visible()
        if not params.get("IncludeAllInstances"):
            rows = [each for each in rows if each.state == RUNNING]
        found = matching(rows, params.get("Filters"), self._fields())
        shown, token = page(found, params, most=MOST)
        return {"InstanceStatuses": [self._shown(each) for each in shown], **token}

    @property
    def _known(self) -> InterruptionState:
        return self._interruptions.state

    def _fields(self) -> Fields[Instance]:
        return {
            "availability-zone": lambda each: (each.zone,),
            "availability-zone-id": lambda each: (each.zone_id,),
            "event.code": lambda each: [event.code for event in self._events(each)],
            "event.description": lambda each: [event.description for event in self._events(each)],
            "event.instance-event-id": lambda each: [event.id for event in self._events(each)],
            "event.not-after": lambda each: [iso(event.not_after) for event in self._events(each)],
            "event.not-before": lambda each: [
                iso(event.not_before) for event in self._events(each)
            ],
            "instance-state-code": lambda each: (str(CODES[each.state]),),
            "instance-state-name": lambda each: (each.state,),
            "instance-status.reachability": lambda each: self._reach(each, Check.INSTANCE),
            "instance-status.status": lambda each: (self._verdict(each, Check.INSTANCE),),
            "system-status.reachability": lambda each: self._reach(each, Check.SYSTEM),
            "system-status.status": lambda each: (self._verdict(each, Check.SYSTEM),),
            "attached-ebs-status.status": lambda each: (self._verdict(each, Check.EBS),),
        }

    def _events(self, instance: Instance) -> Iterable[ScheduledEvent]:
        return self._known.events.get(instance.id, ())

    def _since(self, instance: Instance, check: Check) -> float | None:
        """From when on the check fails; None: it does not."""
        return self._known.impaired.get(instance.id, {}).get(check)

    def _verdict(self, instance: Instance, check: Check) -> str:
        if instance.state != RUNNING:
            return NOT_APPLICABLE
        return OK if self._since(instance, check) is None else IMPAIRED

    def _reach(self, instance: Instance, check: Check) -> tuple[str, ...]:
        if instance.state != RUNNING:
            return ()
        return (PASSED,) if self._since(instance, check) is None else (FAILED,)

    def _shown(self, instance: Instance) -> Answer:
        return {
            "InstanceId": instance.id,
            "AvailabilityZone": instance.zone,
            "AvailabilityZoneId": instance.zone_id,
            "InstanceState": state(instance.state),
            "InstanceStatus": self._summary(instance, Check.INSTANCE),
            "SystemStatus": self._summary(instance, Check.SYSTEM),
            "AttachedEbsStatus": self._summary(instance, Check.EBS),
            "Events": [_event(each) for each in self._events(instance)],
        }

    def _summary(self, instance: Instance, check: Check) -> Answer:
        answer: Answer = {"Status": self._verdict(instance, check)}
        reached, since = self._reach(instance, check), self._since(instance, check)
        if reached:
            detail: Answer = {"Name": "reachability", "Status": reached[0]}
            answer["Details"] = [
                detail if since is None else {**detail, "ImpairedSince": moment(int(since))}
            ]
        return answer


def _event(event: ScheduledEvent) -> Answer:
    return {
        "InstanceEventId": event.id,
        "Code": str(event.code),
        "Description": event.description,
        "NotBefore": moment(int(event.not_before)),
        "NotAfter": moment(int(event.not_after)),
    }
