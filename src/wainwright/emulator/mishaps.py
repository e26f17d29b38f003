"""Mishaps: what can be done to a machine from outside while the emulator runs."""

from enum import StrEnum
from typing import Annotated

import msgspec

from wainwright.emulator.interruptions import Check, Code
from wainwright.emulator.parts import Parts
from wainwright.errors import BadInput


class Happens(StrEnum):
    """Interruptions, failing checks, and that all is well again."""

    SPOT = "spot"
    REBALANCE = "rebalance"
    RESERVATION = "reservation"
    INSTANCE_CHECK = "instance-check"
    SYSTEM_CHECK = "system-check"
    EBS_CHECK = "attached-ebs-check"
    MENDED = "mended"
    INSTANCE_REBOOT = Code.INSTANCE_REBOOT.value
    SYSTEM_REBOOT = Code.SYSTEM_REBOOT.value
    SYSTEM_MAINTENANCE = Code.SYSTEM_MAINTENANCE.value
    INSTANCE_RETIREMENT = Code.INSTANCE_RETIREMENT.value
    INSTANCE_STOP = Code.INSTANCE_STOP.value


class Mishap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    instance: str
    kind: Happens
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 120.0
    """From the warning to the end, or until what is scheduled begins."""


def check(mishap: Mishap, parts: Parts) -> None:
    if parts.instances.get(mishap.instance) is None:
        hint = "name one that DescribeInstances has"
        raise BadInput(f"interruptions: there is no machine {mishap.instance}", hint)


def befall(mishap: Mishap, parts: Parts) -> None:
    """Lets it happen."""
    instance, happens, act = mishap.instance, mishap.kind, parts.interruptions
    match happens:
        case Happens.SPOT:
            act.spot(instance, mishap.seconds)
        case Happens.REBALANCE:
            act.rebalance(instance)
        case Happens.RESERVATION:
            act.reservation(instance, mishap.seconds)
        case Happens.MENDED:
            act.mend(instance)
        case Happens.INSTANCE_CHECK | Happens.SYSTEM_CHECK | Happens.EBS_CHECK:
            act.impair(instance, Check(happens.removesuffix("-check")))
        case _:
            starts = parts.world.now() + mishap.seconds
            act.schedule(instance, Code(happens), starts=starts)
