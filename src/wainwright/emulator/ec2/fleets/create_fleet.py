"""CreateFleet of type instant: instances are launched at once, override after override, until the
target capacity is met or no override is left; a record of the fleet is kept for an hour.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf
from typing import Any, Final
from uuid import UUID

import msgspec

from wainwright.emulator.api_conventions import (
    FLEET,
    ClientTokens,
    IdempotentResponse,
    check_client_token,
    dry_run_error,
    find_by_ids,
    to_datetime,
)
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import FilterFields, apply_filters, paginate
from wainwright.emulator.ec2 import tags
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    reservation_capacity_exceeded,
)
from wainwright.emulator.ec2.fleets.allocation_strategies import (
    ON_DEMAND_STRATEGIES,
    SPOT_STRATEGIES,
    AllocationCandidate,
    diversification_count,
    even_shares,
)
from wainwright.emulator.ec2.fleets.fleet_request import (
    FleetOverride,
    OverrideReader,
    PurchaseOption,
    TargetCapacity,
    parse_target_capacity,
)
from wainwright.emulator.ec2.instance import launch_errors
from wainwright.emulator.ec2.instance.launcher import (
    InstanceLauncher,
    InstanceLaunchRequest,
    SubnetSelector,
)
from wainwright.emulator.ec2.instance.lifecycle import (
    CAPACITY_BLOCK,
    NONE,
    ON_DEMAND,
    RESERVATIONS_ONLY,
    SPOT,
    Instance,
)
from wainwright.emulator.ec2.launch_templates import LaunchTemplates
from wainwright.emulator.ec2.tags import parse_tag_specifications, to_tag_list
from wainwright.errors import AwsError

MAX_RESULTS: Final = 1000
FLEET_RECORD_SECONDS: Final = 3600.0
RECORDED_PARAMS: Final = (
    "ClientToken",
    "TargetCapacitySpecification",
    "OnDemandOptions",
    "SpotOptions",
    "ReservedCapacityOptions",
    "Context",
)
"""Request fields that DescribeFleets returns. Overrides are not stored: there may be hundreds."""


class FleetRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    at: float
    content_json: str = msgspec.field(name="said")
    """JSON: the recorded request fields, and the launched instances and errors."""
    tags: dict[str, str]


FLEET_FILTERS: Final[FilterFields[FleetRecord]] = {
    "fleet-state": lambda _: ("active",),
    "type": lambda _: ("instant",),
    "replace-unhealthy-instances": lambda _: ("false",),
}


class FleetRecords:
    """Records of past fleets; `records` is part of the state of `Fleets`."""

    def __init__(self, context: AccountContext, records: dict[str, FleetRecord]) -> None:
        self._context = context
        self._records = records

    def add(self, params: Params, response: Mapping[str, Any]) -> None:
        self._drop_expired()
        content = {name: params[name] for name in RECORDED_PARAMS if name in params}
        content |= {name: response[name] for name in ("Instances", "Errors")}
        self._records[response["FleetId"]] = FleetRecord(
            id=response["FleetId"],
            at=self._context.now(),
            content_json=msgspec.json.encode(content).decode(),
            tags=parse_tag_specifications(params, FLEET.resource),
        )

    def describe(self, params: Params) -> Response:
        """Fleets of type instant are described only by id, as in EC2."""
        self._drop_expired()
        fleet_ids = params.get("FleetIds")
        rows = find_by_ids(self._records, fleet_ids, FLEET) if fleet_ids else []
        rows = apply_filters(rows, params.get("Filters"), FLEET_FILTERS)
        page, token = paginate(rows, params, maximum=MAX_RESULTS, minimum=1)
        return {"Fleets": [_fleet_view(each) for each in page], **token}

    def _drop_expired(self) -> None:
        """Records are in order of age, so the first one that is young enough ends the scan."""
        limit = self._context.now() - FLEET_RECORD_SECONDS
        while self._records:
            oldest = next(iter(self._records))
            if self._records[oldest].at > limit:
                return
            del self._records[oldest]


def _fleet_view(record: FleetRecord) -> Response:
    content: Response = msgspec.json.decode(record.content_json)
    return {
        **content,
        "FleetId": record.id,
        "FleetState": "active",
        "CreateTime": to_datetime(int(record.at)),
        "Type": "instant",
        "FulfilledCapacity": _instance_count(content["Instances"]),
        "FulfilledOnDemandCapacity": _instance_count(
            each for each in content["Instances"] if each["Lifecycle"] == "on-demand"
        ),
        "TerminateInstancesWithExpiration": False,
        "ReplaceUnhealthyInstances": False,
        "Tags": to_tag_list(record.tags),
    }


def _instance_count(entries: Iterable[Response]) -> float:
    return float(sum(len(each["InstanceIds"]) for each in entries))


class FleetResult:
    """The launched instances and the errors of a fleet."""

    def __init__(self, fleet: str) -> None:
        self.fleet = fleet
        self._launched: dict[tuple[int, str], tuple[FleetOverride, list[Instance]]] = {}
        self._errors: dict[tuple[int, str], tuple[FleetOverride, AwsError]] = {}

    def add(self, override: FleetOverride, lifecycle: str, instances: Sequence[Instance]) -> None:
        if instances:
            _, launched = self._launched.setdefault((override.index, lifecycle), (override, []))
            launched.extend(instances)

    def fail(self, override: FleetOverride, lifecycle: str, error: AwsError) -> None:
        self._errors[override.index, lifecycle] = (override, error)

    def response(self) -> Response:
        return {
            "FleetId": self.fleet,
            "Instances": [
                {
                    "LaunchTemplateAndOverrides": override.view(),
                    "Lifecycle": lifecycle,
                    "InstanceIds": [each.id for each in instances],
                    "InstanceType": override.type,
                }
                for (_, lifecycle), (override, instances) in self._launched.items()
            ],
            "Errors": [
                {
                    "LaunchTemplateAndOverrides": override.view(),
                    "Lifecycle": lifecycle,
                    "ErrorCode": error.code,
                    "ErrorMessage": error.text,
                }
                for (_, lifecycle), (override, error) in self._errors.items()
            ],
        }


class FleetFulfillment:
    """Launches the instances of one fleet."""

    def __init__(
        self, launcher: InstanceLauncher, fleet: str, instance_tags: Mapping[str, str]
    ) -> None:
        self._launcher = launcher
        self._capacity_market = launcher.deps.capacity_market
        self._capacity_source = launcher.deps.reservations.capacity_source
        self._tags = instance_tags
        self.result = FleetResult(fleet)

    def fulfill(
        self, option: PurchaseOption, overrides: Sequence[FleetOverride], remaining: float
    ) -> float:
        """Launches up to `remaining` capacity; returns the capacity that is still missing."""
        if remaining <= 0:
            return remaining
        ordered = self._order_overrides(option, self._usable_overrides(option, overrides))
        if option.use_open_reservations_first:
            remaining = self._use_open_reservations(option, ordered, remaining)
        return self._launch_in_order(option, ordered, remaining)

    def _usable_overrides(
        self, option: PurchaseOption, overrides: Sequence[FleetOverride]
    ) -> Sequence[FleetOverride]:
        """Where open reservations are used first, templates that target one are not used."""
        if not option.use_open_reservations_first:
            return overrides
        usable = [each for each in overrides if each.fleet_template.target is None]
        if not usable:
            for each in overrides:
                self.result.fail(each, option.lifecycle, launch_errors.unfulfillable_capacity())
        return usable

    def _order_overrides(
        self, option: PurchaseOption, overrides: Sequence[FleetOverride]
    ) -> list[FleetOverride]:
        spot = option.lifecycle == SPOT
        candidates = [
            self._allocation_candidate(each, number, spot) for number, each in enumerate(overrides)
        ]
        allocation_order = (SPOT_STRATEGIES if spot else ON_DEMAND_STRATEGIES)[option.strategy]
        return [overrides[candidate.index] for candidate in allocation_order(candidates)]

    def _allocation_candidate(
        self, override: FleetOverride, index: int, spot: bool
    ) -> AllocationCandidate:
        capacity_type = SPOT if spot else ON_DEMAND
        return AllocationCandidate(
            index=index,
            price=self._capacity_market.price(override.type, override.zone, capacity_type),
            priority=override.params.get("Priority"),
            depth=self._available_count(override) if spot else inf,
        )

    def _available_count(self, override: FleetOverride) -> float:
        if not self._capacity_market.is_offered(override.type, override.zone, SPOT):
            return 0.0
        free = self._capacity_market.free(override.type, override.zone, SPOT)
        return inf if free is None else free

    def _use_open_reservations(
        self, option: PurchaseOption, ordered: Sequence[FleetOverride], remaining: float
    ) -> float:
        """Launches only as many instances as open reservations of each capacity pool can hold."""
        for each in ordered:
            if remaining <= 0:
                break
            if each.fleet_template.preference != NONE and self._capacity_source.has_open_capacity(
                each.type, each.zone
            ):
                remaining = self._launch_override(
                    option, each, remaining, self._open_capacity(option, each)
                )
        return remaining

    def _open_capacity(self, option: PurchaseOption, override: FleetOverride) -> int:
        try:
            request = self._launch_request(option, override, None)
            return self._capacity_source.open_capacity(
                self._launcher.capacity_request(request, self._launcher.validate(request))
            )
        except AwsError:
            return 0  # reported when the override is tried for ordinary capacity

    def _launch_in_order(
        self, option: PurchaseOption, ordered: Sequence[FleetOverride], remaining: float
    ) -> float:
        """Even shares of the first overrides, if the strategy diversifies; then all in order."""
        parts = (
            diversification_count(option.strategy, option.instance_pools_to_use, len(ordered))
            if option.lifecycle == SPOT
            else 1
        )
        if parts > 1:
            for each, share in zip(ordered, even_shares(ceil(remaining), parts), strict=False):
                if share and remaining > 0:
                    remaining -= share - self._launch_override(option, each, share)
        for each in ordered:
            if remaining <= 0:
                break
            remaining = self._launch_override(option, each, remaining)
        return remaining

    def _launch_override(
        self,
        option: PurchaseOption,
        override: FleetOverride,
        remaining: float,
        maximum: float = inf,
    ) -> float:
        """Launches from one override; returns the missing capacity, and records the error."""
        error: AwsError | None = None
        for target in self._target_reservations(option, override):
            count = int(min(ceil(remaining / override.weight), maximum))
            if count < 1:
                return remaining
            try:
                request = self._launch_request(option, override, target)
            except AwsError as invalid:
                error = invalid
                break
            launch = self._launcher.launch(request, count, token=self.result.fleet)
            self._launcher.commit(launch)
            self.result.add(override, option.lifecycle, launch.instances)
            remaining -= len(launch.instances) * override.weight
            error = launch.error
            if error is None:
                break
        if error is not None:
            self.result.fail(override, option.lifecycle, error)
        return remaining

    def _target_reservations(
        self, option: PurchaseOption, override: FleetOverride
    ) -> Sequence[str | None]:
        """Reservations to try in order: the template's, else matching ones of the fleet request."""
        if override.fleet_template.target is not None or not option.targets:
            return (override.fleet_template.target,)
        reservations = self._capacity_source.reservations
        matching = [
            each
            for each in option.targets
            if each not in reservations
            or (reservations[each].type, reservations[each].zone) == (override.type, override.zone)
        ]
        return matching or option.targets[:1]

    def _launch_request(
        self, option: PurchaseOption, override: FleetOverride, target: str | None
    ) -> InstanceLaunchRequest:
        if override.subnet is None:
            raise override.placement_error or launch_errors.unfulfillable_capacity()
        _check_market_type(option, override)
        preference = override.fleet_template.preference
        if option.reservations_only and target is None:
            if option.lifecycle != ON_DEMAND:
                raise reservation_capacity_exceeded()
            preference = RESERVATIONS_ONLY
        return InstanceLaunchRequest(
            type=override.type,
            subnet=override.subnet,
            data=override.data(),
            lifecycle=option.lifecycle,
            preference=preference,
            target=target,
            max_price=override.max_price,
            tags=self._all_tags(override),
        )

    def _all_tags(self, override: FleetOverride) -> dict[str, str]:
        fleet_template = override.fleet_template
        return {
            **tags.parse_tag_specifications(fleet_template.version.data, "instance"),
            **self._tags,
            "aws:ec2:fleet-id": self.result.fleet,
            "aws:ec2launchtemplate:id": fleet_template.template.id,
            "aws:ec2launchtemplate:version": str(fleet_template.version.number),
        }


def _check_market_type(option: PurchaseOption, override: FleetOverride) -> None:
    """Template and fleet must have the same market type; both must name a capacity block."""
    market_type = override.fleet_template.market_type
    if market_type == option.lifecycle or (
        market_type is None and option.lifecycle != CAPACITY_BLOCK
    ):
        return
    raise AwsError(
        "InvalidParameterCombination",
        f"The fleet asks for {option.lifecycle} capacity, its launch template for market type "
        f"{market_type}.",
    )


class FleetsState(msgspec.Struct, kw_only=True):
    tokens: dict[str, IdempotentResponse] = {}
    records: dict[str, FleetRecord] = {}


class Fleets:
    """Fleets of type instant: they launch once; only a record remains."""

    name = "ec2"
    dry_runs = ("CreateFleet",)

    def __init__(self, launcher: InstanceLauncher, templates: LaunchTemplates) -> None:
        self._deps = launcher.deps
        self._launcher = launcher
        self._override_reader = OverrideReader(
            templates, SubnetSelector(self._deps.region_offerings, self._deps.network)
        )
        self.state = FleetsState()

    @property
    def state(self) -> FleetsState:
        return self._state

    @state.setter
    def state(self, state: FleetsState) -> None:
        self._state = state
        self._tokens = ClientTokens(self._deps.context, state.tokens)
        self._records = FleetRecords(self._deps.context, state.records)

    def operations(self) -> Mapping[str, OperationHandler]:
        return {"CreateFleet": self.create, "DescribeFleets": self.describe}

    def create(self, params: Params) -> Response:
        check_client_token(params)
        targets, instance_tags = (
            parse_target_capacity(params),
            tags.parse_tag_specifications(params, "instance"),
        )
        if params.get("DryRun"):
            self._override_reader.read(params)
            raise dry_run_error()
        response: Response = self._tokens.run_once(
            params, lambda: self._launch(params, targets, instance_tags)
        )
        return response

    def _launch(
        self, params: Params, targets: list[TargetCapacity], instance_tags: Mapping[str, str]
    ) -> Response:
        overrides = self._override_reader.read(params)
        fleet_number = self._deps.context.random.getrandbits(128)
        fulfillment = FleetFulfillment(
            self._launcher, f"fleet-{UUID(int=fleet_number)}", instance_tags
        )
        for target in targets:
            remaining = target.capacity
            for option in target.purchase_options:
                remaining = fulfillment.fulfill(option, overrides, remaining)
        response = fulfillment.result.response()
        self._records.add(params, response)
        return response

    def describe(self, params: Params) -> Response:
        return self._records.describe(params)
