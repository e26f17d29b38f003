"""How a machine is shown: the shape of DescribeInstances, made anew for every answer."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from wainwright.emulator import tags
from wainwright.emulator.ec2.lifecycle import BY_USER
from wainwright.emulator.ec2.machines import CODES, ON_DEMAND, TERMINATED, Build, Instance
from wainwright.emulator.times import moment
from wainwright.emulator.world import Answer, World

LAST_WORDS: Final = {BY_USER: "User initiated shutdown"}


def state(name: str) -> Answer:
    return {"Code": CODES[name], "Name": name}


def derived(prefix: str, instance: str, turn: int) -> str:
    """The id of something that belongs to a machine: its own digits, turned."""
    digits = instance[3:]
    turn %= len(digits)
    return f"{prefix}-0{digits[turn:]}{digits[:turn]}"


def private_name(address: str, region: str) -> str:
    domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    return f"ip-{address.replace('.', '-')}.{domain}"


def grouped(rows: Iterable[tuple[Instance, Build]], world: World) -> list[Answer]:
    """Machines under the launches that they came out of."""
    runs: dict[str, Answer] = {}
    for instance, build in rows:
        run = runs.get(instance.run)
        if run is None:
            run = runs[instance.run] = {
                "ReservationId": instance.run,
                "OwnerId": world.account,
                "Groups": [],
                "Instances": [],
            }
        run["Instances"].append(shown(instance, build, world))
    return list(runs.values())


def shown(instance: Instance, build: Build, world: World) -> Answer:
    launched = moment(int(instance.launched))
    answer: Answer = {
        "InstanceId": instance.id,
        "ImageId": build.image,
        "InstanceType": instance.type,
        "State": state(instance.state),
        "LaunchTime": launched,
        "AmiLaunchIndex": instance.index,
        "Placement": _placement(instance, build),
        "Architecture": build.architecture,
        "Hypervisor": "xen",  # EC2 says so of Nitro too
        "VirtualizationType": "hvm",
        "EnaSupport": True,
        "EbsOptimized": build.ebs_optimized,
        "RootDeviceName": build.root_device,
        "RootDeviceType": "ebs",
        "BlockDeviceMappings": _disks(instance, build, launched),
        "Monitoring": {"State": "enabled" if build.monitored else "disabled"},
        "ClientToken": instance.token,
        "ProductCodes": [],
        "PublicDnsName": "",
        "StateTransitionReason": LAST_WORDS.get(instance.reason, instance.reason),
        "Tags": tags.to_list(instance.tags),
        "CapacityReservationSpecification": _specification(instance),
        "MetadataOptions": {"State": "applied", **build.metadata},
        "EnclaveOptions": {"Enabled": build.enclave},
        "HibernationOptions": {"Configured": False},
        "PlatformDetails": "Windows" if build.windows else "Linux/UNIX",
        "UsageOperation": "RunInstances:0002" if build.windows else "RunInstances",
    }
    answer.update(_network(instance, build, launched, world))
    answer.update(_particulars(instance, build))
    return answer


def _placement(instance: Instance, build: Build) -> Answer:
    return {
        "AvailabilityZone": instance.zone,
        "AvailabilityZoneId": instance.zone_id,
        "GroupName": build.placement_group or "",
        "Tenancy": build.tenancy,
    }


def _disks(instance: Instance, build: Build, launched: datetime) -> list[Answer]:
    if instance.state == TERMINATED:
        return []
    return [
        {
            "DeviceName": device,
            "Ebs": {
                "VolumeId": derived("vol", instance.id, turn + 5),
                "Status": "attached",
                "AttachTime": launched,
                "DeleteOnTermination": fleeting,
            },
        }
        for turn, (device, fleeting) in enumerate(build.disks.items())
    ]


def _specification(instance: Instance) -> Answer:
    answer: Answer = {"CapacityReservationPreference": instance.preference}
    if instance.target is not None:
        answer["CapacityReservationTarget"] = {"CapacityReservationId": instance.target}
    return answer


def _network(instance: Instance, build: Build, launched: datetime, world: World) -> Answer:
    """A terminated machine has lost its place in the network."""
    if instance.state == TERMINATED:
        return {"NetworkInterfaces": [], "SecurityGroups": [], "PrivateDnsName": ""}
    return {
        "NetworkInterfaces": _interfaces(instance, build, launched, world),
        "SecurityGroups": _groups(build, build.interfaces[0].groups),
        "PrivateDnsName": private_name(instance.address, world.region),
        "PrivateIpAddress": instance.address,
        "SubnetId": instance.subnet,
        "VpcId": build.vpc,
        "SourceDestCheck": True,
    }


def _interfaces(instance: Instance, build: Build, launched: datetime, world: World) -> list[Answer]:
    found: list[Answer] = []
    for turn, each in enumerate(build.interfaces):
        interface: Answer = {
            "NetworkInterfaceId": derived("eni", instance.id, turn + 9),
            "InterfaceType": each.kind,
            "Status": "in-use",
            "SubnetId": instance.subnet,
            "VpcId": build.vpc,
            "OwnerId": world.account,
            "SourceDestCheck": True,
            "Description": "",
            "Groups": _groups(build, each.groups),
            "Attachment": {
                "AttachmentId": derived("eni-attach", instance.id, turn + 13),
                "AttachTime": launched,
                "DeleteOnTermination": True,
                "DeviceIndex": each.device,
                "NetworkCardIndex": each.card,
                "Status": "attached",
            },
        }
        if turn == 0:
            interface.update(_address(instance, world))
        found.append(interface)
    return found


def _address(instance: Instance, world: World) -> Answer:
    name = private_name(instance.address, world.region)
    own = {"Primary": True, "PrivateIpAddress": instance.address, "PrivateDnsName": name}
    return {
        "PrivateIpAddress": instance.address,
        "PrivateDnsName": name,
        "PrivateIpAddresses": [own],
    }


def _groups(build: Build, ids: Iterable[str]) -> list[Answer]:
    return [{"GroupId": each, "GroupName": build.groups[each]} for each in ids]


def _particulars(instance: Instance, build: Build) -> Answer:
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
        words = LAST_WORDS.get(instance.reason, "ended by EC2")
        answer["StateReason"] = {"Code": instance.reason, "Message": f"{instance.reason}: {words}"}
    return {name: value for name, value in answer.items() if value is not None}
