"""Instances of the emulated EC2: described, filtered, terminated; and their attributes.

Responses are built anew each time, as callers may change them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wainwright.emulator.api_conventions import INSTANCE, to_datetime
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import (
    FilterFields,
    apply_filters,
    optional_value,
    paginate,
)
from wainwright.emulator.ec2 import tags
from wainwright.emulator.ec2.instance.lifecycle import (
    ON_DEMAND,
    REMOVED,
    STATE_CODES,
    TERMINATED,
    USER_INITIATED_SHUTDOWN,
    Instance,
    InstanceLifecycle,
    InstancesState,
    LaunchSpecification,
    StateChangeListener,
)
from wainwright.errors import AwsError
from wainwright.gc_pause import gc_paused

TERMINATION_MESSAGES: Final = {USER_INITIATED_SHUTDOWN: "User initiated shutdown"}


def state_view(name: str) -> Response:
    return {"Code": STATE_CODES[name], "Name": name}


def derived_id(prefix: str, instance_id: str, rotation: int) -> str:
    """The id of a volume or interface of an instance: the digits of the instance id, rotated.

    Derived and not stored: the state of each instance stays small.
    """
    digits = instance_id[3:]
    rotation %= len(digits)
    return f"{prefix}-0{digits[rotation:]}{digits[:rotation]}"


def private_dns_name(address: str, region: str) -> str:
    domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    return f"ip-{address.replace('.', '-')}.{domain}"


def group_by_launch(
    rows: Iterable[tuple[Instance, LaunchSpecification]], context: AccountContext
) -> list[Response]:
    """Instances grouped by launch, as DescribeInstances returns them (Reservations)."""
    launches: dict[str, Response] = {}
    for instance, specification in rows:
        launch = launches.get(instance.launch_id)
        if launch is None:
            launch = launches[instance.launch_id] = {
                "ReservationId": instance.launch_id,
                "OwnerId": context.account,
                "Groups": [],
                "Instances": [],
            }
        launch["Instances"].append(instance_view(instance, specification, context))
    return list(launches.values())


def instance_view(
    instance: Instance, specification: LaunchSpecification, context: AccountContext
) -> Response:
    launched = to_datetime(int(instance.launched))
    view: Response = {
        "InstanceId": instance.id,
        "ImageId": specification.image,
        "InstanceType": instance.type,
        "State": state_view(instance.state),
        "LaunchTime": launched,
        "AmiLaunchIndex": instance.index,
        "Placement": _placement_view(instance, specification),
        "Architecture": specification.architecture,
        "Hypervisor": "xen",  # as EC2 reports it, also for Nitro
        "VirtualizationType": "hvm",
        "EnaSupport": True,
        "EbsOptimized": specification.ebs_optimized,
        "RootDeviceName": specification.root_device,
        "RootDeviceType": "ebs",
        "BlockDeviceMappings": _block_device_views(instance, specification, launched),
        "Monitoring": {"State": "enabled" if specification.monitored else "disabled"},
        "ClientToken": instance.token,
        "ProductCodes": [],
        "PublicDnsName": "",
        "StateTransitionReason": TERMINATION_MESSAGES.get(instance.reason, instance.reason),
        "Tags": tags.to_tag_list(instance.tags),
        "CapacityReservationSpecification": _reservation_specification_view(instance),
        "MetadataOptions": {"State": "applied", **specification.metadata},
        "EnclaveOptions": {"Enabled": specification.enclave},
        "HibernationOptions": {"Configured": False},
        "PlatformDetails": "Windows" if specification.windows else "Linux/UNIX",
        "UsageOperation": "RunInstances:0002" if specification.windows else "RunInstances",
    }
    view.update(_network_view(instance, specification, launched, context))
    view.update(_optional_fields(instance, specification))
    return view


def _placement_view(instance: Instance, specification: LaunchSpecification) -> Response:
    return {
        "AvailabilityZone": instance.zone,
        "AvailabilityZoneId": instance.zone_id,
        "GroupName": specification.placement_group or "",
        "Tenancy": specification.tenancy,
    }


def _block_device_views(
    instance: Instance, specification: LaunchSpecification, launched: datetime
) -> list[Response]:
    if instance.state == TERMINATED:
        return []
    return [
        {
            "DeviceName": device,
            "Ebs": {
                "VolumeId": derived_id("vol", instance.id, index + 5),
                "Status": "attached",
                "AttachTime": launched,
                "DeleteOnTermination": delete_on_termination,
            },
        }
        for index, (device, delete_on_termination) in enumerate(specification.disks.items())
    ]


def _reservation_specification_view(instance: Instance) -> Response:
    view: Response = {"CapacityReservationPreference": instance.preference}
    if instance.target is not None:
        view["CapacityReservationTarget"] = {"CapacityReservationId": instance.target}
    return view


def _network_view(
    instance: Instance,
    specification: LaunchSpecification,
    launched: datetime,
    context: AccountContext,
) -> Response:
    """A terminated instance has no network interfaces any more."""
    if instance.state == TERMINATED:
        return {"NetworkInterfaces": [], "SecurityGroups": [], "PrivateDnsName": ""}
    views = _interface_views(instance, specification, launched, context)
    return {
        "NetworkInterfaces": views,
        "SecurityGroups": _group_views(specification, specification.interfaces[0].groups),
        "PrivateDnsName": views[0]["PrivateDnsName"],
        "PrivateIpAddress": instance.address,
        "SubnetId": instance.subnet,
        "VpcId": specification.vpc,
        "SourceDestCheck": True,
    }


def _interface_views(
    instance: Instance,
    specification: LaunchSpecification,
    launched: datetime,
    context: AccountContext,
) -> list[Response]:
    views: list[Response] = []
    for index, interface in enumerate(specification.interfaces):
        view: Response = {
            "NetworkInterfaceId": derived_id("eni", instance.id, index + 9),
            "InterfaceType": interface.kind,
            "Status": "in-use",
            "SubnetId": instance.subnet,
            "VpcId": specification.vpc,
            "OwnerId": context.account,
            "SourceDestCheck": True,
            "Description": "",
            "Groups": _group_views(specification, interface.groups),
            "Attachment": {
                "AttachmentId": derived_id("eni-attach", instance.id, index + 13),
                "AttachTime": launched,
                "DeleteOnTermination": True,
                "DeviceIndex": interface.device,
                "NetworkCardIndex": interface.card,
                "Status": "attached",
            },
        }
        if index == 0:
            view.update(_address_view(instance, context))
        views.append(view)
    return views


def _address_view(instance: Instance, context: AccountContext) -> Response:
    name = private_dns_name(instance.address, context.region)
    address = {"Primary": True, "PrivateIpAddress": instance.address, "PrivateDnsName": name}
    return {
        "PrivateIpAddress": instance.address,
        "PrivateDnsName": name,
        "PrivateIpAddresses": [address],
    }


def _group_views(specification: LaunchSpecification, ids: Iterable[str]) -> list[Response]:
    return [{"GroupId": each, "GroupName": specification.groups[each]} for each in ids]


def _optional_fields(instance: Instance, specification: LaunchSpecification) -> Response:
    """Fields that only some instances have."""
    fields: dict[str, Any] = {
        "KeyName": specification.key,
        "Platform": "Windows" if specification.windows else None,
        "IamInstanceProfile": dict(specification.profile) if specification.profile else None,
        "InstanceLifecycle": None if instance.lifecycle == ON_DEMAND else instance.lifecycle,
        "SpotInstanceRequestId": instance.spot_request,
        "CapacityReservationId": instance.reservation,
    }
    if instance.reason:
        message = TERMINATION_MESSAGES.get(instance.reason, "ended by EC2")
        fields["StateReason"] = {
            "Code": instance.reason,
            "Message": f"{instance.reason}: {message}",
        }
    return {name: value for name, value in fields.items() if value is not None}


InstanceValues: TypeAlias = Callable[[Instance], Iterable[str]]
SpecificationGetter: TypeAlias = Callable[[Instance], LaunchSpecification]
RESERVATION_SPECIFICATION_FILTER = "capacity-reservation-specification.capacity-reservation"


def instance_filter_fields(
    instances_state: InstancesState, context: AccountContext
) -> FilterFields[Instance]:
    """All filters of DescribeInstances except those for tags."""

    def specification(instance: Instance) -> LaunchSpecification:
        return instances_state.specifications[instance.specification_key]

    return {
        **_common_filters(specification, context),
        **_optional_filters(specification),
        **_network_filters(specification, context),
    }


def _common_filters(
    specification: SpecificationGetter, context: AccountContext
) -> Mapping[str, InstanceValues]:
    """Filters on fields of every instance."""
    return {
        "architecture": lambda each: (specification(each).architecture,),
        "availability-zone": lambda each: (each.zone,),
        "availability-zone-id": lambda each: (each.zone_id,),
        "block-device-mapping.device-name": lambda each: specification(each).disks,
        f"{RESERVATION_SPECIFICATION_FILTER}-preference": lambda each: (each.preference,),
        "image-id": lambda each: (specification(each).image,),
        "instance-id": lambda each: (each.id,),
        "instance-state-code": lambda each: (str(STATE_CODES[each.state]),),
        "instance-state-name": lambda each: (each.state,),
        "instance-type": lambda each: (each.type,),
        "launch-index": lambda each: (str(each.index),),
        "owner-id": lambda _: (context.account,),
        "reservation-id": lambda each: (each.launch_id,),
        "tenancy": lambda each: (specification(each).tenancy,),
    }


def _optional_filters(specification: SpecificationGetter) -> Mapping[str, InstanceValues]:
    """Fields that only some instances have."""
    return {
        "capacity-reservation-id": lambda each: optional_value(each.reservation),
        f"{RESERVATION_SPECIFICATION_FILTER}-target.capacity-reservation-id": lambda each: (
            optional_value(each.target)
        ),
        "client-token": lambda each: optional_value(each.token or None),
        "iam-instance-profile.arn": lambda each: optional_value(
            (specification(each).profile or {}).get("Arn")
        ),
        "iam-instance-profile.id": lambda each: optional_value(
            (specification(each).profile or {}).get("Id")
        ),
        "instance-lifecycle": lambda each: () if each.lifecycle == ON_DEMAND else (each.lifecycle,),
        "key-name": lambda each: optional_value(specification(each).key),
        "platform": lambda each: ("windows",) if specification(each).windows else (),
        "spot-instance-request-id": lambda each: optional_value(each.spot_request),
        "state-reason-code": lambda each: optional_value(each.reason or None),
    }


def _network_filters(
    specification: SpecificationGetter, context: AccountContext
) -> Mapping[str, InstanceValues]:
    """Filters on fields that an instance has until it is terminated."""
    values: dict[str, InstanceValues] = {
        "instance.group-id": lambda each: specification(each).interfaces[0].groups,
        "instance.group-name": lambda each: [
            specification(each).groups[group] for group in specification(each).interfaces[0].groups
        ],
        "network-interface.private-ip-address": lambda each: (each.address,),
        "private-dns-name": lambda each: (private_dns_name(each.address, context.region),),
        "private-ip-address": lambda each: (each.address,),
        "subnet-id": lambda each: (each.subnet,),
        "vpc-id": lambda each: (specification(each).vpc,),
    }
    return {name: _until_terminated(each) for name, each in values.items()}


def _until_terminated(values: InstanceValues) -> InstanceValues:
    return lambda each: () if each.state == TERMINATED else values(each)


MAX_RESULTS: Final = 1000
INSTANCE_ID: Final = re.compile("i-(?:[0-9a-f]{8}|[0-9a-f]{17})")


class CachedListing(NamedTuple):
    """The result of the last DescribeInstances without ids, valid until an instance changes."""

    filters_json: bytes
    rows: list[Instance]


class Instances:
    """Every instance of the account, from its launch until an hour after its termination."""

    name = "ec2"

    def __init__(self, context: AccountContext) -> None:
        self._context = context
        self._lifecycle = InstanceLifecycle(context)
        self._lifecycle.add_listener(self._on_state_change)
        self._listing: CachedListing | None = None
        self._specification_users: dict[str, int] = {}
        self.state = InstancesState()

    @property
    def state(self) -> InstancesState:
        return self._lifecycle.instances_state

    @state.setter
    def state(self, state: InstancesState) -> None:
        self._lifecycle.instances_state = state
        self._fields = instance_filter_fields(state, self._context)
        self._listing = None
        self._all_visible_from = max(
            (each.visible_from for each in state.instances.values()), default=0.0
        )
        self._specification_users = {}
        for each in state.instances.values():
            self._specification_users[each.specification_key] = (
                self._specification_users.get(each.specification_key, 0) + 1
            )

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "DescribeInstances": self.describe,
            "DescribeInstanceAttribute": self.describe_attribute,
            "TerminateInstances": self.terminate_instances,
        }

    # Used by other services

    def add_listener(self, listener: StateChangeListener) -> None:
        """Adds a callback for every instance that is launched, changes its state, or is removed."""
        self._lifecycle.add_listener(listener)

    def add_launched(
        self, launched: Sequence[Instance], specification: LaunchSpecification
    ) -> None:
        """Adds instances of one launch, which share a specification."""
        if launched:
            self.state.specifications.setdefault(launched[0].specification_key, specification)
            self._lifecycle.add_launched(launched)

    def add_running(self, instance: Instance, specification: LaunchSpecification) -> None:
        """Adds an instance that nobody just launched; other services do not hear of it."""
        self.state.specifications.setdefault(instance.specification_key, specification)
        self.state.instances[instance.id] = instance
        self._on_state_change(instance, "")

    def terminate(self, ids: Iterable[str], reason: str = USER_INITIATED_SHUTDOWN) -> None:
        """Shuts down those that exist and are pending or running."""
        instances = self.state.instances
        self._lifecycle.shut_down([instances[each] for each in ids if each in instances], reason)

    def get(self, instance: str) -> Instance | None:
        """The instance, whether or not the API finds it yet."""
        return self.state.instances.get(instance)

    def specification_of(self, instance: Instance) -> LaunchSpecification:
        return self.state.specifications[instance.specification_key]

    def get_by_ids(self, ids: Sequence[str]) -> list[Instance]:
        """Each instance once, in the order of the ids; the error names those that are not found."""
        for each in ids:
            if not INSTANCE_ID.fullmatch(each):
                raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{each}"')
        instances, now = self.state.instances, self._context.now()
        requested = {each: instances.get(each) for each in ids}
        visible = [
            each for each in requested.values() if each is not None and each.visible_from <= now
        ]
        if len(visible) < len(requested):
            visible_ids = {each.id for each in visible}
            raise INSTANCE.not_found_error(each for each in requested if each not in visible_ids)
        return visible

    def list_visible(self) -> list[Instance]:
        now, instances = self._context.now(), self.state.instances.values()
        # Usually no instance is invisible: then no time needs comparing.
        if now >= self._all_visible_from:
            return list(instances)
        return [each for each in instances if each.visible_from <= now]

    def list_alive(self) -> list[Instance]:
        return [each for each in self.state.instances.values() if each.alive]

    def invalidate_listing(self) -> None:
        """Drops the cached listing; every change of an instance must call it."""
        self._listing = None

    def view(self, instance: Instance) -> Response:
        return instance_view(instance, self.specification_of(instance), self._context)

    def group_views(self, rows: Iterable[Instance]) -> list[Response]:
        specifications = self.state.specifications
        return group_by_launch(
            ((each, specifications[each.specification_key]) for each in rows), self._context
        )

    # Operations

    def describe(self, params: Params) -> Response:
        if params.get("InstanceIds") and params.get("MaxResults") is not None:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        rows, token = paginate(self._find(params), params, maximum=MAX_RESULTS, key=_page_key)
        # A page is thousands of new dicts, all in use: garbage collections would find nothing.
        with gc_paused():
            return {"Reservations": self.group_views(rows), **token}

    def describe_attribute(self, params: Params) -> Response:
        instance = self.get_by_ids([params.get("InstanceId") or ""])[0]
        return {"InstanceId": instance.id, **self._attribute(instance, params.get("Attribute"))}

    def terminate_instances(self, params: Params) -> Response:
        ids = params.get("InstanceIds")
        if not ids:
            raise AwsError("MissingParameter", "The request must contain the parameter InstanceIds")
        instances = self.get_by_ids(ids)
        previous_states = {each.id: each.state for each in instances}
        self._lifecycle.shut_down(instances)
        return {
            "TerminatingInstances": [
                {
                    "InstanceId": each.id,
                    "CurrentState": state_view(each.state),
                    "PreviousState": state_view(previous_states[each.id]),
                }
                for each in instances
            ]
        }

    def _attribute(self, instance: Instance, attribute: str | None) -> Response:
        specification = self.specification_of(instance)
        attributes: dict[str, Response] = {
            "userData": {
                "UserData": {}
                if specification.user_data is None
                else {"Value": specification.user_data}
            },
            "instanceType": {"InstanceType": {"Value": instance.type}},
            "disableApiTermination": {"DisableApiTermination": {"Value": False}},
            "rootDeviceName": {"RootDeviceName": {"Value": specification.root_device}},
            "ebsOptimized": {"EbsOptimized": {"Value": specification.ebs_optimized}},
            "groupSet": {"Groups": self.view(instance)["SecurityGroups"]},
        }
        if attribute not in attributes:
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({attribute}) for parameter attribute is invalid. Unknown attribute.",
            )
        return attributes[attribute]

    def _find(self, params: Params) -> list[Instance]:
        """Instances that match the request.

        The last listing is cached: all pages of one listing filter the instances once, and not
        once per page. It is not cached while new instances are invisible, as these appear with
        time alone.
        """
        if params.get("InstanceIds"):
            rows = sorted(self.get_by_ids(params["InstanceIds"]), key=_page_key)
            return self._matching(rows, params)
        filters = msgspec.json.encode(params.get("Filters"))
        if self._listing is not None and self._listing.filters_json == filters:
            return self._listing.rows
        all_visible = self._context.now() >= self._all_visible_from
        rows = self._matching(self.list_visible(), params)
        self._listing = CachedListing(filters, rows) if all_visible else None
        return rows

    def _matching(self, rows: Iterable[Instance], params: Params) -> list[Instance]:
        return apply_filters(rows, params.get("Filters"), self._fields, _instance_tags)

    def _on_state_change(self, instance: Instance, previous_state: str) -> None:
        """Updates derived data; a specification is dropped with its last instance."""
        self._listing = None
        if not previous_state:
            self._all_visible_from = max(self._all_visible_from, instance.visible_from)
            self._specification_users[instance.specification_key] = (
                self._specification_users.get(instance.specification_key, 0) + 1
            )
        elif instance.state == REMOVED:
            self._specification_users[instance.specification_key] -= 1
            if not self._specification_users[instance.specification_key]:
                del (
                    self._specification_users[instance.specification_key],
                    self.state.specifications[instance.specification_key],
                )


def _instance_tags(instance: Instance) -> Mapping[str, str]:
    return instance.tags


def _page_key(instance: Instance) -> str:
    # Padded, so that page tokens compare as strings in numeric order.
    return f"{instance.number:012}"
