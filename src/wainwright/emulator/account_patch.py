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

Interruptions are carried out at once. Any other list replaces the previous one, except capacity
reservations: one whose id is known is changed, any other is added, and those that are not named
stay as they are.
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
from wainwright.emulator.account_services import AccountServices
from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.ec2.instance.interruptions import ScheduledEventCode, StatusCheck
from wainwright.emulator.ec2.instance.lifecycle import InstanceTimings
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.faults import (
    FaultInjector,
    FaultRule,
    RateLimit,
    Throttler,
    parse_fault_rules,
    parse_rate_limits,
)
from wainwright.emulator.patch_fields import convert_field
from wainwright.errors import InvalidInputError


class InterruptionKind(StrEnum):
    """Interruptions, failing status checks, and the end of these."""

    SPOT = "spot"
    REBALANCE = "rebalance"
    RESERVATION = "reservation"
    INSTANCE_CHECK = "instance-check"
    SYSTEM_CHECK = "system-check"
    EBS_CHECK = "attached-ebs-check"
    RECOVERED = "recovered"
    INSTANCE_REBOOT = ScheduledEventCode.INSTANCE_REBOOT.value
    SYSTEM_REBOOT = ScheduledEventCode.SYSTEM_REBOOT.value
    SYSTEM_MAINTENANCE = ScheduledEventCode.SYSTEM_MAINTENANCE.value
    INSTANCE_RETIREMENT = ScheduledEventCode.INSTANCE_RETIREMENT.value
    INSTANCE_STOP = ScheduledEventCode.INSTANCE_STOP.value


class InterruptionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    instance: str
    kind: InterruptionKind
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 120.0
    """From the warning to the termination, or until a scheduled event begins."""


def check_interruption(interruption: InterruptionRequest, services: AccountServices) -> None:
    if services.instances.get(interruption.instance) is None:
        hint = "name one that DescribeInstances has"
        raise InvalidInputError(f"interruptions: there is no machine {interruption.instance}", hint)


def apply_interruption(interruption: InterruptionRequest, services: AccountServices) -> None:
    """Carries out the interruption."""
    instance, kind, interruptions = interruption.instance, interruption.kind, services.interruptions
    match kind:
        case InterruptionKind.SPOT:
            interruptions.interrupt_spot(instance, interruption.seconds)
        case InterruptionKind.REBALANCE:
            interruptions.recommend_rebalance(instance)
        case InterruptionKind.RESERVATION:
            interruptions.interrupt_reserved(instance, interruption.seconds)
        case InterruptionKind.RECOVERED:
            interruptions.clear_impairment(instance)
        case (
            InterruptionKind.INSTANCE_CHECK
            | InterruptionKind.SYSTEM_CHECK
            | InterruptionKind.EBS_CHECK
        ):
            interruptions.impair(instance, StatusCheck(kind.removesuffix("-check")))
        case _:
            starts = services.context.now() + interruption.seconds
            interruptions.schedule_change(instance, ScheduledEventCode(kind), starts=starts)


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
    """A parsed patch; None for a field that does not change."""

    prices: list[CloudPrice] | None = None
    unavailable: list[UnavailableOffering] | None = None
    reservations: list[CloudReservation] | None = None
    capacity_rules: list[CapacityRule] | None = None
    faults: list[FaultRule] | None = None
    throttling: list[RateLimit] | None = None
    """An empty list: no call is throttled."""
    quota: QuotaLimits | None = None
    timings: InstanceTimings | None = None
    interruptions: list[InterruptionRequest] | None = None


def parse_patch(patch: Mapping[str, Any], region: str) -> AccountPatch:
    """Parses the whole patch before anything is applied; InvalidInputError names what is wrong."""
    patch = _with_current_names(patch)
    for name in patch:
        if name not in PATCH_FIELDS:
            hint = did_you_mean(name, list(PATCH_FIELDS)) or f"one of {', '.join(PATCH_FIELDS)}"
            raise InvalidInputError(f"{name} cannot be changed", hint)
    spec = _parse_cloud({name: patch[name] for name in CLOUD_FIELDS if name in patch}, region).spec
    return AccountPatch(
        prices=spec.prices,
        unavailable=spec.unavailable,
        reservations=spec.capacityReservations,
        capacity_rules=_convert_field(patch, "stock", list[CapacityRule]),
        faults=parse_fault_rules(patch["faults"]) if "faults" in patch else None,
        throttling=(parse_rate_limits(patch["throttling"]) or [])
        if "throttling" in patch
        else None,
        quota=_convert_field(patch, "quota", QuotaLimits),
        timings=_convert_field(patch, "pace", InstanceTimings),
        interruptions=_convert_field(patch, "interruptions", list[InterruptionRequest]),
    )


def _with_current_names(patch: Mapping[str, Any]) -> Mapping[str, Any]:
    """The patch with the names of today in place of those of earlier releases."""
    renamed = dict(patch)
    if isinstance(pace := patch.get("pace"), dict):
        renamed["pace"] = {FORMER_FIELDS.get(key, key): value for key, value in pace.items()}
    if isinstance(interruptions := patch.get("interruptions"), list):
        renamed["interruptions"] = [_with_current_kind(each) for each in interruptions]
    return renamed


def _with_current_kind(interruption: Any) -> Any:
    is_former = isinstance(interruption, dict) and interruption.get("kind") in FORMER_KINDS
    return {**interruption, "kind": InterruptionKind.RECOVERED.value} if is_former else interruption


FORMER_FIELDS: Final = {"duds": "neverJoinRate"}
FORMER_KINDS: Final = ("mended",)


def apply_patch(
    patch: AccountPatch, services: AccountServices, injector: FaultInjector, throttler: Throttler
) -> None:
    """Applies the patch; nothing of it where it names an instance or a zone that does not exist."""
    services.reservations.check_zones(patch.reservations or ())
    for interruption in patch.interruptions or ():
        check_interruption(interruption, services)
    _apply_if_given(patch.reservations, services.seed_reservations)
    _apply_if_given(patch.prices, services.capacity_market.set_prices)
    _apply_if_given(patch.unavailable, services.capacity_market.set_unavailable)
    _apply_if_given(patch.capacity_rules, services.capacity_market.set_capacity_rules)
    _apply_if_given(patch.faults, injector.replace)
    _apply_if_given(patch.throttling, throttler.replace)
    if patch.quota is not None:
        services.quota.state.limits = patch.quota
    if patch.timings is not None:
        services.instances.state.timings = patch.timings
    for interruption in patch.interruptions or ():
        apply_interruption(interruption, services)


def _apply_if_given(value: Value | None, setter: Callable[[Value], None]) -> None:
    if value is not None:
        setter(value)


def _convert_field(patch: Mapping[str, Any], name: str, kind: type[Value]) -> Value | None:
    return convert_field(patch[name], kind, name) if name in patch else None


def _parse_cloud(fields: Mapping[str, Any], region: str) -> Cloud:
    """Validated like a Cloud in a file."""
    document: dict[str, Any] = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Cloud",
        "spec": {"region": region, **fields},
    }
    errors = validate_object(known_kinds()[document["apiVersion"], "Cloud"], document)
    for error in errors:
        if not error.warning:
            raise InvalidInputError(
                f"{format_field_path(error.path[1:])}: {error.message}", error.hint
            )
    return msgspec.convert(document, Cloud)
