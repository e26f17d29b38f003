"""DescribeInstanceStatus: which instances fail their status checks, and what EC2 has scheduled for
them; and DescribeSpotInstanceRequests: every spot instance has a request.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from wainwright.emulator.api_conventions import (
    SPOT_INSTANCE_REQUEST,
    find_by_ids,
    iso_timestamp,
    to_datetime,
)
from wainwright.emulator.context import EmptyState, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import FilterFields, apply_filters, paginate
from wainwright.emulator.ec2.capacity_market import CapacityMarket
from wainwright.emulator.ec2.instance.instances import Instances, state_view
from wainwright.emulator.ec2.instance.interruptions import (
    Interruptions,
    InterruptionState,
    ScheduledEvent,
    StatusCheck,
)
from wainwright.emulator.ec2.instance.lifecycle import (
    ON_DEMAND,
    RUNNING,
    STATE_CODES,
    USER_INITIATED_SHUTDOWN,
    Instance,
)
from wainwright.errors import AwsError

MAX_STATUS_RESULTS: Final = 1000
OK, IMPAIRED, NOT_APPLICABLE = "ok", "impaired", "not-applicable"
PASSED, FAILED = "passed", "failed"


class InstanceStatusState(msgspec.Struct):
    """Empty: the data is in the states of instances and interruptions."""


class InstanceStatuses:
    name = "ec2"

    def __init__(self, instances: Instances, interruptions: Interruptions) -> None:
        self.state = InstanceStatusState()
        self._instances = instances
        self._interruptions = interruptions

    def operations(self) -> Mapping[str, OperationHandler]:
        return {"DescribeInstanceStatus": self.describe}

    def describe(self, params: Params) -> Response:
        instance_ids = params.get("InstanceIds")
        if instance_ids and params.get("MaxResults") is not None:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        rows = (
            self._instances.get_by_ids(instance_ids)
            if instance_ids
            else self._instances.list_visible()
        )
        if not params.get("IncludeAllInstances"):
            rows = [each for each in rows if each.state == RUNNING]
        matching = apply_filters(rows, params.get("Filters"), self._fields())
        page, token = paginate(matching, params, maximum=MAX_STATUS_RESULTS)
        return {"InstanceStatuses": [self._view(each) for each in page], **token}

    @property
    def _interruption_state(self) -> InterruptionState:
        return self._interruptions.state

    def _fields(self) -> FilterFields[Instance]:
        return {
            "availability-zone": lambda each: (each.zone,),
            "availability-zone-id": lambda each: (each.zone_id,),
            "event.code": lambda each: [event.code for event in self._events(each)],
            "event.description": lambda each: [event.description for event in self._events(each)],
            "event.instance-event-id": lambda each: [event.id for event in self._events(each)],
            "event.not-after": lambda each: [
                iso_timestamp(event.not_after) for event in self._events(each)
            ],
            "event.not-before": lambda each: [
                iso_timestamp(event.not_before) for event in self._events(each)
            ],
            "instance-state-code": lambda each: (str(STATE_CODES[each.state]),),
            "instance-state-name": lambda each: (each.state,),
            "instance-status.reachability": lambda each: self._reachability(
                each, StatusCheck.INSTANCE
            ),
            "instance-status.status": lambda each: (
                self._check_status(each, StatusCheck.INSTANCE),
            ),
            "system-status.reachability": lambda each: self._reachability(each, StatusCheck.SYSTEM),
            "system-status.status": lambda each: (self._check_status(each, StatusCheck.SYSTEM),),
            "attached-ebs-status.status": lambda each: (self._check_status(each, StatusCheck.EBS),),
        }

    def _events(self, instance: Instance) -> Iterable[ScheduledEvent]:
        return self._interruption_state.events.get(instance.id, ())

    def _impaired_since(self, instance: Instance, check: StatusCheck) -> float | None:
        """Since when the check fails; None: it passes."""
        return self._interruption_state.impaired.get(instance.id, {}).get(check)

    def _check_status(self, instance: Instance, check: StatusCheck) -> str:
        if instance.state != RUNNING:
            return NOT_APPLICABLE
        return OK if self._impaired_since(instance, check) is None else IMPAIRED

    def _reachability(self, instance: Instance, check: StatusCheck) -> tuple[str, ...]:
        if instance.state != RUNNING:
            return ()
        return (PASSED,) if self._impaired_since(instance, check) is None else (FAILED,)

    def _view(self, instance: Instance) -> Response:
        return {
            "InstanceId": instance.id,
            "AvailabilityZone": instance.zone,
            "AvailabilityZoneId": instance.zone_id,
            "InstanceState": state_view(instance.state),
            "InstanceStatus": self._summary(instance, StatusCheck.INSTANCE),
            "SystemStatus": self._summary(instance, StatusCheck.SYSTEM),
            "AttachedEbsStatus": self._summary(instance, StatusCheck.EBS),
            "Events": [_event_view(each) for each in self._events(instance)],
        }

    def _summary(self, instance: Instance, check: StatusCheck) -> Response:
        summary: Response = {"Status": self._check_status(instance, check)}
        reachability, since = (
            self._reachability(instance, check),
            self._impaired_since(instance, check),
        )
        if reachability:
            detail: Response = {"Name": "reachability", "Status": reachability[0]}
            summary["Details"] = [
                detail if since is None else {**detail, "ImpairedSince": to_datetime(int(since))}
            ]
        return summary


def _event_view(event: ScheduledEvent) -> Response:
    return {
        "InstanceEventId": event.id,
        "Code": str(event.code),
        "Description": event.description,
        "NotBefore": to_datetime(int(event.not_before)),
        "NotAfter": to_datetime(int(event.not_after)),
    }


MAX_SPOT_REQUEST_RESULTS: Final = 1000
FULFILLED: Final = "fulfilled"
STATUS_BY_REASON: Final = {USER_INITIATED_SHUTDOWN: "instance-terminated-by-user"}
NO_CAPACITY_STATUS: Final = "instance-terminated-no-capacity"

SPOT_REQUEST_FILTERS: Final[FilterFields[Instance]] = {
    "instance-id": lambda each: (each.id,),
    "launch.instance-type": lambda each: (each.type,),
    "launched-availability-zone": lambda each: (each.zone,),
    "spot-instance-request-id": lambda each: (each.spot_request or "",),
    "state": lambda each: (_request_state(each),),
    "status-code": lambda each: (_request_status(each),),
    "type": lambda _: ("one-time",),
}


class SpotInstanceRequests:
    """Without state: a request exists as long as its instance is described."""

    name = "ec2"

    def __init__(self, instances: Instances, capacity_market: CapacityMarket) -> None:
        self.state = EmptyState()
        self._instances = instances
        self._capacity_market = capacity_market

    def operations(self) -> Mapping[str, OperationHandler]:
        return {"DescribeSpotInstanceRequests": self.describe}

    def describe(self, params: Params) -> Response:
        instances_by_request = {
            each.spot_request: each
            for each in self._instances.list_visible()
            if each.spot_request is not None
        }
        rows = find_by_ids(
            instances_by_request, params.get("SpotInstanceRequestIds"), SPOT_INSTANCE_REQUEST
        )
        matching = apply_filters(rows, params.get("Filters"), SPOT_REQUEST_FILTERS)
        page, token = paginate(matching, params, maximum=MAX_SPOT_REQUEST_RESULTS)
        return {"SpotInstanceRequests": [self._view(each) for each in page], **token}

    def _view(self, instance: Instance) -> Response:
        """The maximum price is the on-demand price, which is also the default of EC2."""
        specification, launched = (
            self._instances.specification_of(instance),
            to_datetime(int(instance.launched)),
        )
        maximum = self._capacity_market.price(instance.type, instance.zone, ON_DEMAND)
        return {
            "SpotInstanceRequestId": instance.spot_request,
            "InstanceId": instance.id,
            "State": _request_state(instance),
            "Status": {"Code": _request_status(instance), "Message": "", "UpdateTime": launched},
            "Type": "one-time",
            "CreateTime": launched,
            "InstanceInterruptionBehavior": "terminate",
            "LaunchedAvailabilityZone": instance.zone,
            "LaunchedAvailabilityZoneId": instance.zone_id,
            "ProductDescription": specification.platform,
            "LaunchSpecification": {
                "ImageId": specification.image,
                "InstanceType": instance.type,
                "SubnetId": instance.subnet,
                "Placement": {"AvailabilityZone": instance.zone, "Tenancy": specification.tenancy},
            },
            **({} if maximum is None else {"SpotPrice": f"{maximum:.6f}"}),
        }


def _request_state(instance: Instance) -> str:
    return "active" if instance.alive else "closed"


def _request_status(instance: Instance) -> str:
    return (
        FULFILLED if instance.alive else STATUS_BY_REASON.get(instance.reason, NO_CAPACITY_STATUS)
    )
