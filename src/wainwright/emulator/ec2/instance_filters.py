"""Filters of DescribeInstances: what they look at, by name."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from wainwright.emulator.ec2.instance_views import private_name
from wainwright.emulator.ec2.lifecycle import Machines
from wainwright.emulator.ec2.machines import CODES, ON_DEMAND, TERMINATED, Build, Instance
from wainwright.emulator.filters import Fields, one
from wainwright.emulator.world import World

Values: TypeAlias = Callable[[Instance], Iterable[str]]
BuildOf: TypeAlias = Callable[[Instance], Build]
SPECIFICATION = "capacity-reservation-specification.capacity-reservation"


def fields(machines: Machines, world: World) -> Fields[Instance]:
    """All of them but those for tags."""

    def build(instance: Instance) -> Build:
        return machines.builds[instance.build]

    return {**_always(build, world), **_sometimes(build), **_network(build, world)}


def _always(build: BuildOf, world: World) -> Mapping[str, Values]:
    """What every machine has."""
    return {
        "architecture": lambda each: (build(each).architecture,),
        "availability-zone": lambda each: (each.zone,),
        "availability-zone-id": lambda each: (each.zone_id,),
        "block-device-mapping.device-name": lambda each: build(each).disks,
        f"{SPECIFICATION}-preference": lambda each: (each.preference,),
        "image-id": lambda each: (build(each).image,),
        "instance-id": lambda each: (each.id,),
        "instance-state-code": lambda each: (str(CODES[each.state]),),
        "instance-state-name": lambda each: (each.state,),
        "instance-type": lambda each: (each.type,),
        "launch-index": lambda each: (str(each.index),),
        "owner-id": lambda _: (world.account,),
        "reservation-id": lambda each: (each.run,),
        "tenancy": lambda each: (build(each).tenancy,),
    }


def _sometimes(build: BuildOf) -> Mapping[str, Values]:
    """What only some machines have."""
    return {
        "capacity-reservation-id": lambda each: one(each.reservation),
        f"{SPECIFICATION}-target.capacity-reservation-id": lambda each: one(each.target),
        "client-token": lambda each: one(each.token or None),
        "iam-instance-profile.arn": lambda each: one((build(each).profile or {}).get("Arn")),
        "iam-instance-profile.id": lambda each: one((build(each).profile or {}).get("Id")),
        "instance-lifecycle": lambda each: () if each.lifecycle == ON_DEMAND else (each.lifecycle,),
        "key-name": lambda each: one(build(each).key),
        "platform": lambda each: ("windows",) if build(each).windows else (),
        "spot-instance-request-id": lambda each: one(each.spot_request),
        "state-reason-code": lambda each: one(each.reason or None),
    }


def _network(build: BuildOf, world: World) -> Mapping[str, Values]:
    """What a machine has until it is terminated."""
    values: dict[str, Values] = {
        "instance.group-id": lambda each: build(each).interfaces[0].groups,
        "instance.group-name": lambda each: [
            build(each).groups[group] for group in build(each).interfaces[0].groups
        ],
        "network-interface.private-ip-address": lambda each: (each.address,),
        "private-dns-name": lambda each: (private_name(each.address, world.region),),
        "private-ip-address": lambda each: (each.address,),
        "subnet-id": lambda each: (each.subnet,),
        "vpc-id": lambda each: (build(each).vpc,),
    }
    return {name: _while_it_lasts(each) for name, each in values.items()}


def _while_it_lasts(values: Values) -> Values:
    return lambda each: () if each.state == TERMINATED else values(each)
