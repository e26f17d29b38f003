"""Instances of the emulated EC2: described, filtered, terminated, and asked for their user data.

Responses are made anew each time, in the shape of DescribeInstances.
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
    FORGOTTEN,
    ON_DEMAND,
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


def derived_id(prefix: str, instance: str, turn: int) -> str:
    """The id of something that belongs to a machine: its own digits, turned."""
    digits = instance[3:]
    turn %= len(digits)
    return f"{prefix}-0{digits[turn:]}{digits[:turn]}"


def private_dns_name(address: str, region: str) -> str:
    domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    return f"ip-{address.replace('.', '-')}.{domain}"


def group_by_launch(
    rows: Iterable[tuple[Instance, LaunchSpecification]], context: AccountContext
) -> list[Response]:
    """Machines under the launches that they came out of."""
    runs: dict[str, Response] = {}
    for instance, build in rows:
        run = runs.get(instance.run)
        if run is None:
            run = runs[instance.run] = {
                "ReservationId": instance.run,
                "OwnerId": context.account,
                "Groups": [],
                "Instances": [],
            }
        run["Instances"].append(instance_view(instance, build, context))
    return list(runs.values())


def instance_view(
    instance: Instance, build: LaunchSpecification, context: AccountContext
) -> Response:
    launched = to_datetime(int(instance.launched))
    answer: Response = {
        "InstanceId": instance.id,
        "ImageId": build.image,
        "InstanceType": instance.type,
        "State": state_view(instance.state),
        "LaunchTime": launched,
        "AmiLaunchIndex": instance.index,
        "Placement": _placement_view(instance, build),
        "Architecture": build.architecture,
        "Hypervisor": "xen",  # EC2 says so of Nitro too
        "VirtualizationType": "hvm",
        "EnaSupport": True,
        "EbsOptimized": build.ebs_optimized,
        "RootDeviceName": build.root_device,
        "RootDeviceType": "ebs",
        "BlockDeviceMappings": _block_device_views(instance, build, launched),
        "Monitoring": {"State": "enabled" if build.monitored else "disabled"},
        "ClientToken": instance.token,
        "ProductCodes": [],
        "PublicDnsName": "",
        "StateTransitionReason": TERMINATION_MESSAGES.get(instance.reason, instance.reason),
        "Tags": tags.to_tag_list(instance.tags),
        "CapacityReservationSpecification": _reservation_specification_view(instance),
        "MetadataOptions": {"State": "applied", **build.metadata},
        "EnclaveOptions": {"Enabled": build.enclave},
        "HibernationOptions": {"Configured": False},
        "PlatformDetails": "Windows" if build.windows else "Linux/UNIX",
        "UsageOperation": "RunInstances:0002" if build.windows else "RunInstances",
    }
    answer.update(_network_view(instance, build, launched, context))
    answer.update(_optional_fields(instance, build))
    return answer


def _placement_view(instance: Instance, build: LaunchSpecification) -> Response:
    return {
        "AvailabilityZone": instance.zone,
        "AvailabilityZoneId": instance.zone_id,
        "GroupName": build.placement_group or "",
        "Tenancy": build.tenancy,
    }


def _block_device_views(
    instance: Instance, build: LaunchSpecification, launched: datetime
) -> list[Response]:
    if instance.state == TERMINATED:
        return []
    return [
        {
            "DeviceName": device,
            "Ebs": {
                "VolumeId": derived_id("vol", instance.id, turn + 5),
                "Status": "attached",
                "AttachTime": launched,
                "DeleteOnTermination": fleeting,
            },
        }
        for turn, (device, fleeting) in enumerate(build.disks.items())
    ]


def _reservation_specification_view(instance: Instance) -> Response:
    answer: Response = {"CapacityReservationPreference": instance.preference}
    if instance.target is not None:
        answer["CapacityReservationTarget"] = {"CapacityReservationId": instance.target}
    return answer


def _network_view(
    instance: Instance, build: LaunchSpecification, launched: datetime, context: AccountContext
) -> Response:
    """A terminated machine has lost its place in the network."""
    if instance.state == TERMINATED:
        return {"NetworkInterfaces": [], "SecurityGroups": [], "PrivateDnsName": ""}
    return {
        "NetworkInterfaces": _interface_views(instance, build, launched, context),
        "SecurityGroups": _group_views(build, build.interfaces[0].groups),
        "PrivateDnsName": private_dns_name(instance.address, context.region),
        "PrivateIpAddress": instance.address,
        "SubnetId": instance.subnet,
        "VpcId": build.vpc,
        "SourceDestCheck": True,
    }


def _interface_views(
    instance: Instance, build: LaunchSpecification, launched: datetime, context: AccountContext
) -> list[Response]:
    found: list[Response] = []
    for turn, each in enumerate(build.interfaces):
        interface: Response = {
            "NetworkInterfaceId": derived_id("eni", instance.id, turn + 9),
            "InterfaceType": each.kind,
            "Status": "in-use",
            "SubnetId": instance.subnet,
            "VpcId": build.vpc,
            "OwnerId": context.account,
            "SourceDestCheck": True,
            "Description": "",
            "Groups": _group_views(build, each.groups),
            "Attachment": {
                "AttachmentId": derived_id("eni-attach", instance.id, turn + 13),
                "AttachTime": launched,
                "DeleteOnTermination": True,
                "DeviceIndex": each.device,
                "NetworkCardIndex": each.card,
                "Status": "attached",
            },
        }
        if turn == 0:
            interface.update(_address_view(instance, context))
        found.append(interface)
    return found


def _address_view(instance: Instance, context: AccountContext) -> Response:
    name = private_dns_name(instance.address, context.region)
    own = {"Primary": True, "PrivateIpAddress": instance.address, "PrivateDnsName": name}
    return {
        "PrivateIpAddress": instance.address,
        "PrivateDnsName": name,
        "PrivateIpAddresses": [own],
    }


def _group_views(build: LaunchSpecification, ids: Iterable[str]) -> list[Response]:
    return [{"GroupId": each, "GroupName": build.groups[each]} for each in ids]


def _optional_fields(instance: Instance, build: LaunchSpecification) -> Response:
    """What only some machines have."""
    answer: dict[str, Any] = {
        "KeyName": build.key,
        "Platform": "Windows" if build.windows else None,
        "IamInstanceProfile": dict(build.profile) if build.profile else None,
        "InstanceLifecycle": None if instance.lifecycle == ON_DEMAND else instance.lifecycle,
        "SpotInstanceRequestId": instance.spot_request,
        "CapacityReservationId": instance.reservation,
    }
    if instance.reason:
        words = TERMINATION_MESSAGES.get(instance.reason, "ended by EC2")
        answer["StateReason"] = {"Code": instance.reason, "Message": f"{instance.reason}: {words}"}
    return {name: value for name, value in answer.items() if value is not None}


InstanceValues: TypeAlias = Callable[[Instance], Iterable[str]]
SpecificationGetter: TypeAlias = Callable[[Instance], LaunchSpecification]
RESERVATION_SPECIFICATION_FILTER = "capacity-reservation-specification.capacity-reservation"


def instance_filter_fields(
    machines: InstancesState, context: AccountContext
) -> FilterFields[Instance]:
    """All of them but those for tags."""

    def build(instance: Instance) -> LaunchSpecification:
        return machines.builds[instance.build]

    return {
        **_common_filters(build, context),
        **_optional_filters(build),
        **_network_filters(build, context),
    }


def _common_filters(
    build: SpecificationGetter, context: AccountContext
) -> Mapping[str, InstanceValues]:
    """What every machine has."""
    return {
        "architecture": lambda each: (build(each).architecture,),
        "availability-zone": lambda each: (each.zone,),
        "availability-zone-id": lambda each: (each.zone_id,),
        "block-device-mapping.device-name": lambda each: build(each).disks,
        f"{RESERVATION_SPECIFICATION_FILTER}-preference": lambda each: (each.preference,),
        "image-id": lambda each: (build(each).image,),
        "instance-id": lambda each: (each.id,),
        "instance-state-code": lambda each: (str(STATE_CODES[each.state]),),
        "instance-state-name": lambda each: (each.state,),
        "instance-type": lambda each: (each.type,),
        "launch-index": lambda each: (str(each.index),),
        "owner-id": lambda _: (context.account,),
        "reservation-id": lambda each: (each.run,),
        "tenancy": lambda each: (build(each).tenancy,),
    }


def _optional_filters(build: SpecificationGetter) -> Mapping[str, InstanceValues]:
    """What only some machines have."""
    return {
        "capacity-reservation-id": lambda each: optional_value(each.reservation),
        f"{RESERVATION_SPECIFICATION_FILTER}-target.capacity-reservation-id": lambda each: (
            optional_value(each.target)
        ),
        "client-token": lambda each: optional_value(each.token or None),
        "iam-instance-profile.arn": lambda each: optional_value(
            (build(each).profile or {}).get("Arn")
        ),
        "iam-instance-profile.id": lambda each: optional_value(
            (build(each).profile or {}).get("Id")
        ),
        "instance-lifecycle": lambda each: () if each.lifecycle == ON_DEMAND else (each.lifecycle,),
        "key-name": lambda each: optional_value(build(each).key),
        "platform": lambda each: ("windows",) if build(each).windows else (),
        "spot-instance-request-id": lambda each: optional_value(each.spot_request),
        "state-reason-code": lambda each: optional_value(each.reason or None),
    }


def _network_filters(
    build: SpecificationGetter, context: AccountContext
) -> Mapping[str, InstanceValues]:
    """What a machine has until it is terminated."""
    values: dict[str, InstanceValues] = {
        "instance.group-id": lambda each: build(each).interfaces[0].groups,
        "instance.group-name": lambda each: [
            build(each).groups[group] for group in build(each).interfaces[0].groups
        ],
        "network-interface.private-ip-address": lambda each: (each.address,),
        "private-dns-name": lambda each: (private_dns_name(each.address, context.region),),
        "private-ip-address": lambda each: (each.address,),
        "subnet-id": lambda each: (each.subnet,),
        "vpc-id": lambda each: (build(each).vpc,),
    }
    return {name: _until_terminated(each) for name, each in values.items()}


def _until_terminated(values: InstanceValues) -> InstanceValues:
    return lambda each: () if each.state == TERMINATED else values(each)


MAX_RESULTS: Final = 1000
INSTANCE_ID: Final = re.compile("i-(?:[0-9a-f]{8}|[0-9a-f]{17})")


class CachedListing(NamedTuple):
    """What a question has found, as long as nothing changes."""

    question: bytes
    rows: list[Instance]


class Instances:
    """Every machine of the account, from its launch until an hour after its end."""

    name = "ec2"

    def __init__(self, context: AccountContext) -> None:
        self._context = context
        self._life = InstanceLifecycle(context)
        self._life.watch(self._note)
        self._listing: CachedListing | None = None
        self._users: dict[str, int] = {}
        self.state = InstancesState()

    @property
    def state(self) -> InstancesState:
        return self._life.machines

    @state.setter
    def state(self, machines: InstancesState) -> None:
        self._life.machines = machines
        self._fields = instance_filter_fields(machines, self._context)
        self._listing = None
        self._unseen = max((each.visible for each in machines.instances.values()), default=0.0)
        self._users = {}
        for each in machines.instances.values():
            self._users[each.build] = self._users.get(each.build, 0) + 1

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "DescribeInstances": self.describe,
            "DescribeInstanceAttribute": self.describe_attribute,
            "TerminateInstances": self.terminate_asked,
        }

    # What other parts do with machines

    def watch(self, told: StateChangeListener) -> None:
        """Told of every machine that is born, changes its state, or is forgotten."""
        self._life.watch(told)

    def begin(self, born: Sequence[Instance], build: LaunchSpecification) -> None:
        """Takes in machines that were just launched, all made the same way."""
        if born:
            self.state.builds.setdefault(born[0].build, build)
            self._life.begin(born)

    def terminate(self, ids: Iterable[str], reason: str = USER_INITIATED_SHUTDOWN) -> None:
        """Shuts down those that are still there and alive."""
        known = self.state.instances
        self._life.end([known[each] for each in ids if each in known], reason)

    def get(self, instance: str) -> Instance | None:
        """Whether or not it can be seen yet."""
        return self.state.instances.get(instance)

    def specification_of(self, instance: Instance) -> LaunchSpecification:
        return self.state.builds[instance.build]

    def named(self, ids: Sequence[str]) -> list[Instance]:
        """Each once, in the order of the ids; an error names those that cannot be seen."""
        for each in ids:
            if not INSTANCE_ID.fullmatch(each):
                raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{each}"')
        known, now = self.state.instances, self._context.now()
        found = {each: known.get(each) for each in ids}
        seen = [each for each in found.values() if each is not None and each.visible <= now]
        if len(seen) < len(found):
            there = {each.id for each in seen}
            raise INSTANCE.lost(each for each in found if each not in there)
        return seen

    def visible(self) -> list[Instance]:
        now, every = self._context.now(), self.state.instances.values()
        if now >= self._unseen:
            return list(every)
        return [each for each in every if each.visible <= now]

    def alive(self) -> list[Instance]:
        return [each for each in self.state.instances.values() if each.alive]

    def changed(self) -> None:
        """To be said by whoever has changed something about a machine."""
        self._listing = None

    def shown(self, instance: Instance) -> Response:
        return instance_view(instance, self.specification_of(instance), self._context)

    def grouped(self, rows: Iterable[Instance]) -> list[Response]:
        builds = self.state.builds
        return group_by_launch(((each, builds[each.build]) for each in rows), self._context)

    # Operations

    def describe(self, params: Params) -> Response:
        if params.get("InstanceIds") and params.get("MaxResults") is not None:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        rows, token = paginate(self._found(params), params, maximum=MAX_RESULTS, key=_page_key)
        with gc_paused():
            return {"Reservations": self.grouped(rows), **token}

    def describe_attribute(self, params: Params) -> Response:
        instance = self.named([params.get("InstanceId") or ""])[0]
        return {"InstanceId": instance.id, **self._attribute(instance, params.get("Attribute"))}

    def terminate_asked(self, params: Params) -> Response:
        ids = params.get("InstanceIds")
        if not ids:
            raise AwsError("MissingParameter", "The request must contain the parameter InstanceIds")
        asked = self.named(ids)
        before = {each.id: each.state for each in asked}
        self._life.end(asked)
        return {
            "TerminatingInstances": [
                {
                    "InstanceId": each.id,
                    "CurrentState": state_view(each.state),
                    "PreviousState": state_view(before[each.id]),
                }
                for each in asked
            ]
        }

    def _attribute(self, instance: Instance, attribute: str | None) -> Response:
        build = self.specification_of(instance)
        known: dict[str, Response] = {
            "userData": {"UserData": {} if build.user_data is None else {"Value": build.user_data}},
            "instanceType": {"InstanceType": {"Value": instance.type}},
            "disableApiTermination": {"DisableApiTermination": {"Value": False}},
            "rootDeviceName": {"RootDeviceName": {"Value": build.root_device}},
            "ebsOptimized": {"EbsOptimized": {"Value": build.ebs_optimized}},
            "groupSet": {"Groups": self.shown(instance)["SecurityGroups"]},
        }
        if attribute not in known:
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({attribute}) for parameter attribute is invalid. Unknown attribute.",
            )
        return known[attribute]

    def _found(self, params: Params) -> list[Instance]:
        """The pages of one answer are looked up once, unless something changes in between."""
        if params.get("InstanceIds"):
            rows = sorted(self.named(params["InstanceIds"]), key=_page_key)
            return self._matching(rows, params)
        filters = msgspec.json.encode(params.get("Filters"))
        if self._listing is not None and self._listing.question == filters:
            return self._listing.rows
        settled = self._context.now() >= self._unseen
        rows = self._matching(self.visible(), params)
        self._listing = CachedListing(filters, rows) if settled else None
        return rows

    def _matching(self, rows: Iterable[Instance], params: Params) -> list[Instance]:
        return apply_filters(rows, params.get("Filters"), self._fields, _instance_tags)

    def _note(self, instance: Instance, before: str) -> None:
        """Keeps what is remembered beside the state; a build goes with its last machine."""
        self._listing = None
        if not before:
            self._unseen = max(self._unseen, instance.visible)
            self._users[instance.build] = self._users.get(instance.build, 0) + 1
        elif instance.state == FORGOTTEN:
            self._users[instance.build] -= 1
            if not self._users[instance.build]:
                del self._users[instance.build], self.state.builds[instance.build]


def _instance_tags(instance: Instance) -> Mapping[str, str]:
    return instance.tags


def _page_key(instance: Instance) -> str:
    return f"{instance.number:012}"
