"""What can be changed while the emulator runs, in the fields of the Cloud kind and a few more.

    {"prices": [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.05}],
     "unavailable": [{"instanceType": "p5.*"}],
     "capacityReservations": [{"id": "cr-1", "instanceType": "m5.large", …}],
     "stock": [{"instanceType": "c5.*", "zone": "us-east-1a", "capacityType": "spot", "free": 3}],
     "faults": [{"operation": "CreateFleet", "code": "InternalError", "status": 500}],
     "throttling": true,
     "quota": {"onDemand": {"standard": 64}},
     "pace": {"boot": {"median": 30, "spread": 0.3}},
     "interruptions": [{"instance": "i-0…", "kind": "spot"}]}

Interruptions happen now. Any other list replaces the one before, but for capacity reservations: one
whose id is known is changed, any other is added, and those that are not named stay as they are.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import msgspec

from wainwright.api.catalog_documents import (
    Cloud,
    CloudPrice,
    CloudReservation,
    UnavailableOffering,
)
from wainwright.api.field_error import did_you_mean, format_field_path
from wainwright.api.kinds import known_kinds
from wainwright.api.validation.object_validation import validate_object
from wainwright.emulator import faults
from wainwright.emulator import faults as throttle
from wainwright.emulator.account_services import AccountServices
from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.ec2.instance.interruptions import ScheduledEventCode, StatusCheck
from wainwright.emulator.ec2.instance.lifecycle import InstanceTimings
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.faults import FaultInjector, FaultRule, RateLimit, Throttler
from wainwright.errors import InvalidInputError


class InterruptionKind(StrEnum):
    """Interruptions, failing checks, and that all is well again."""

    SPOT = "spot"
    REBALANCE = "rebalance"
    RESERVATION = "reservation"
    INSTANCE_CHECK = "instance-check"
    SYSTEM_CHECK = "system-check"
    EBS_CHECK = "attached-ebs-check"
    MENDED = "mended"
    INSTANCE_REBOOT = ScheduledEventCode.INSTANCE_REBOOT.value
    SYSTEM_REBOOT = ScheduledEventCode.SYSTEM_REBOOT.value
    SYSTEM_MAINTENANCE = ScheduledEventCode.SYSTEM_MAINTENANCE.value
    INSTANCE_RETIREMENT = ScheduledEventCode.INSTANCE_RETIREMENT.value
    INSTANCE_STOP = ScheduledEventCode.INSTANCE_STOP.value


class InterruptionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    instance: str
    kind: InterruptionKind
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 120.0
    """From the warning to the end, or until what is scheduled begins."""


def check_interruption(mishap: InterruptionRequest, services: AccountServices) -> None:
    if services.instances.get(mishap.instance) is None:
        hint = "name one that DescribeInstances has"
        raise InvalidInputError(f"interruptions: there is no machine {mishap.instance}", hint)


def apply_interruption(mishap: InterruptionRequest, services: AccountServices) -> None:
    """Lets it happen."""
    instance, happens, act = mishap.instance, mishap.kind, services.interruptions
    match happens:
        case InterruptionKind.SPOT:
            act.spot(instance, mishap.seconds)
        case InterruptionKind.REBALANCE:
            act.rebalance(instance)
        case InterruptionKind.RESERVATION:
            act.reservation(instance, mishap.seconds)
        case InterruptionKind.MENDED:
            act.clear_impairment(instance)
        case (
            InterruptionKind.INSTANCE_CHECK
            | InterruptionKind.SYSTEM_CHECK
            | InterruptionKind.EBS_CHECK
        ):
            act.impair(instance, StatusCheck(happens.removesuffix("-check")))
        case _:
            starts = services.context.now() + mishap.seconds
            act.schedule(instance, ScheduledEventCode(happens), starts=starts)


Value = TypeVar("Value")

CLOUD_FIELDS: Final = ("prices", "unavailable", "capacityReservations")
PATCH_FIELDS: Final = (
    *CLOUD_FIELDS,
    "stock",
    "faults",
    "throttling",
    "quota",
    "pace",
    "interruptions",
)


class AccountPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A patch that has been read; None where nothing changes."""

    prices: list[CloudPrice] | None = None
    unavailable: list[UnavailableOffering] | None = None
    reservations: list[CloudReservation] | None = None
    stock: list[CapacityRule] | None = None
    faults: list[FaultRule] | None = None
    throttling: list[RateLimit] | None = None
    """An empty list: nobody is throttled."""
    quota: QuotaLimits | None = None
    pace: InstanceTimings | None = None
    mishaps: list[InterruptionRequest] | None = None


def parse_patch(patch: Mapping[str, Any], region: str) -> AccountPatch:
    """Reads a patch whole, or says in InvalidInputError what is wrong with it."""
    for name in patch:
        if name not in PATCH_FIELDS:
            hint = did_you_mean(name, list(PATCH_FIELDS)) or f"one of {', '.join(PATCH_FIELDS)}"
            raise InvalidInputError(f"{name} cannot be changed", hint)
    spec = _parse_cloud({name: patch[name] for name in CLOUD_FIELDS if name in patch}, region).spec
    return AccountPatch(
        prices=spec.prices,
        unavailable=spec.unavailable,
        reservations=spec.capacityReservations,
        stock=_convert_field(patch, "stock", list[CapacityRule]),
        faults=faults.parse_fault_rules(patch["faults"]) if "faults" in patch else None,
        throttling=(throttle.parse_rate_limits(patch["throttling"]) or [])
        if "throttling" in patch
        else None,
        quota=_convert_field(patch, "quota", QuotaLimits),
        pace=_convert_field(patch, "pace", InstanceTimings),
        mishaps=_convert_field(patch, "interruptions", list[InterruptionRequest]),
    )


def apply_patch(
    change: AccountPatch, services: AccountServices, rules: FaultInjector, buckets: Throttler
) -> None:
    """Makes it so; nothing of it where a machine or zone is named that does not exist."""
    services.reservations.check(change.reservations or ())
    for mishap in change.mishaps or ():
        check_interruption(mishap, services)
    _apply_if_given(change.reservations, services.reservations.seed)
    _apply_if_given(change.prices, services.capacity_market.set_prices)
    _apply_if_given(change.unavailable, services.capacity_market.set_unavailable)
    _apply_if_given(change.stock, services.capacity_market.set_stock)
    _apply_if_given(change.faults, rules.replace)
    _apply_if_given(change.throttling, buckets.replace)
    if change.quota is not None:
        services.quota.state.limits = change.quota
    if change.pace is not None:
        services.instances.state.pace = change.pace
    for mishap in change.mishaps or ():
        apply_interruption(mishap, services)


def _apply_if_given(value: Value | None, make: Callable[[Value], None]) -> None:
    if value is not None:
        make(value)


def _convert_field(patch: Mapping[str, Any], name: str, kind: type[Value]) -> Value | None:
    if name not in patch:
        return None
    try:
        return msgspec.convert(patch[name], kind)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{name}: {error}") from None


def _parse_cloud(fields: Mapping[str, Any], region: str) -> Cloud:
    """Judged as a Cloud in a file is."""
    written: dict[str, Any] = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Cloud",
        "spec": {"region": region, **fields},
    }
    found = validate_object(known_kinds()[written["apiVersion"], "Cloud"], written)
    for fault in found:
        if not fault.warning:
            raise InvalidInputError(
                f"{format_field_path(fault.path[1:])}: {fault.message}", fault.hint
            )
    return msgspec.convert(written, Cloud)
