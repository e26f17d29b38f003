"""CreateFleet: what was asked for is launched at once, override after override, until there is
enough or no override is left; what stays of the fleet is a record, for an hour.
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
from wainwright.emulator.ec2.fleets.fleet_request import (
    ON_DEMAND_STRATEGIES,
    SPOT_STRATEGIES,
    AllocationCandidate,
    FleetOverride,
    OverrideReader,
    PurchaseOption,
    TargetCapacity,
    diversification_count,
    even_shares,
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
"""What of a request is shown again. Its overrides are not kept: there may be hundreds."""


class FleetRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    at: float
    said: str
    """JSON: what was asked for, and what came of it."""
    tags: dict[str, str]


FLEET_FILTERS: Final[FilterFields[FleetRecord]] = {
    "fleet-state": lambda _: ("active",),
    "type": lambda _: ("instant",),
    "replace-unhealthy-instances": lambda _: ("false",),
}


class FleetRecords:
    """`kept` is part of the state of whoever has the fleets."""

    def __init__(self, context: AccountContext, kept: dict[str, FleetRecord]) -> None:
        self._context = context
        self._kept = kept

    def keep(self, params: Params, answer: Mapping[str, Any]) -> None:
        self._forget()
        said = {name: params[name] for name in RECORDED_PARAMS if name in params}
        said |= {name: answer[name] for name in ("Instances", "Errors")}
        self._kept[answer["FleetId"]] = FleetRecord(
            id=answer["FleetId"],
            at=self._context.now(),
            said=msgspec.json.encode(said).decode(),
            tags=parse_tag_specifications(params, FLEET.resource),
        )

    def describe(self, params: Params) -> Response:
        """Fleets of type instant are found by their ids only."""
        self._forget()
        asked = params.get("FleetIds")
        rows = find_by_ids(self._kept, asked, FLEET) if asked else []
        rows = apply_filters(rows, params.get("Filters"), FLEET_FILTERS)
        shown, token = paginate(rows, params, maximum=MAX_RESULTS, minimum=1)
        return {"Fleets": [_fleet_view(each) for each in shown], **token}

    def _forget(self) -> None:
        """The oldest come first."""
        limit = self._context.now() - FLEET_RECORD_SECONDS
        while self._kept:
            oldest = next(iter(self._kept))
            if self._kept[oldest].at > limit:
                return
            del self._kept[oldest]


def _fleet_view(record: FleetRecord) -> Response:
    said: Response = msgspec.json.decode(record.said)
    return {
        **said,
        "FleetId": record.id,
        "FleetState": "active",
        "CreateTime": to_datetime(int(record.at)),
        "Type": "instant",
        "FulfilledCapacity": _instance_count(said["Instances"]),
        "FulfilledOnDemandCapacity": _instance_count(
            each for each in said["Instances"] if each["Lifecycle"] == "on-demand"
        ),
        "TerminateInstancesWithExpiration": False,
        "ReplaceUnhealthyInstances": False,
        "Tags": to_tag_list(record.tags),
    }


def _instance_count(entries: Iterable[Response]) -> float:
    return float(sum(len(each["InstanceIds"]) for each in entries))


class FleetResult:
    """What a fleet has got so far, and what it was refused."""

    def __init__(self, fleet: str) -> None:
        self.fleet = fleet
        self._got: dict[tuple[int, str], tuple[FleetOverride, list[Instance]]] = {}
        self._failed: dict[tuple[int, str], tuple[FleetOverride, AwsError]] = {}

    def add(self, choice: FleetOverride, lifecycle: str, instances: Sequence[Instance]) -> None:
        if instances:
            _, got = self._got.setdefault((choice.index, lifecycle), (choice, []))
            got.extend(instances)

    def fail(self, choice: FleetOverride, lifecycle: str, error: AwsError) -> None:
        self._failed[choice.index, lifecycle] = (choice, error)

    def answer(self) -> Response:
        return {
            "FleetId": self.fleet,
            "Instances": [
                {
                    "LaunchTemplateAndOverrides": choice.shown(),
                    "Lifecycle": lifecycle,
                    "InstanceIds": [each.id for each in instances],
                    "InstanceType": choice.type,
                }
                for (_, lifecycle), (choice, instances) in self._got.items()
            ],
            "Errors": [
                {
                    "LaunchTemplateAndOverrides": choice.shown(),
                    "Lifecycle": lifecycle,
                    "ErrorCode": error.code,
                    "ErrorMessage": error.text,
                }
                for (_, lifecycle), (choice, error) in self._failed.items()
            ],
        }


class FleetFulfillment:
    """One fleet, while it is being filled."""

    def __init__(self, launcher: InstanceLauncher, fleet: str, own_tags: Mapping[str, str]) -> None:
        self._launcher = launcher
        self._capacity_market = launcher.deps.capacity_market
        self._capacity_source = launcher.deps.reservations.capacity_source
        self._tags = own_tags
        self.tally = FleetResult(fleet)

    def fill(
        self, option: PurchaseOption, choices: Sequence[FleetOverride], wanted: float
    ) -> float:
        """What is still lacking afterwards."""
        if wanted <= 0:
            return wanted
        ordered = self._ordered(option, self._usable(option, choices))
        if option.use_first:
            wanted = self._into_open(option, ordered, wanted)
        return self._through(option, ordered, wanted)

    def _usable(
        self, option: PurchaseOption, choices: Sequence[FleetOverride]
    ) -> Sequence[FleetOverride]:
        """Who uses up open reservations first does not use templates that name one."""
        if not option.use_first:
            return choices
        usable = [each for each in choices if each.source.target is None]
        if not usable:
            for each in choices:
                self.tally.fail(each, option.lifecycle, launch_errors.unfulfillable_capacity())
        return usable

    def _ordered(
        self, option: PurchaseOption, choices: Sequence[FleetOverride]
    ) -> list[FleetOverride]:
        spot = option.lifecycle == SPOT
        pools = [self._pool(each, number, spot) for number, each in enumerate(choices)]
        order = (SPOT_STRATEGIES if spot else ON_DEMAND_STRATEGIES)[option.strategy]
        return [choices[pool.index] for pool in order(pools)]

    def _pool(self, choice: FleetOverride, number: int, spot: bool) -> AllocationCandidate:
        market = SPOT if spot else ON_DEMAND
        return AllocationCandidate(
            index=number,
            price=self._capacity_market.price(choice.type, choice.zone, market),
            priority=choice.override.get("Priority"),
            depth=self._depth(choice) if spot else inf,
        )

    def _depth(self, choice: FleetOverride) -> float:
        if not self._capacity_market.is_offered(choice.type, choice.zone, SPOT):
            return 0.0
        free = self._capacity_market.free(choice.type, choice.zone, SPOT)
        return inf if free is None else free

    def _into_open(
        self, option: PurchaseOption, ordered: Sequence[FleetOverride], wanted: float
    ) -> float:
        """Only as many as the open reservations of each pool have room for."""
        for each in ordered:
            if wanted <= 0:
                break
            if each.source.preference != NONE and self._capacity_source.any_open(
                each.type, each.zone
            ):
                wanted = self._try(option, each, wanted, self._room(option, each))
        return wanted

    def _room(self, option: PurchaseOption, choice: FleetOverride) -> int:
        try:
            order = self._order(option, choice, None)
            return self._capacity_source.room(
                self._launcher.wanted(order, self._launcher.checked(order))
            )
        except AwsError:
            return 0  # said when the pool is tried for ordinary capacity

    def _through(
        self, option: PurchaseOption, ordered: Sequence[FleetOverride], wanted: float
    ) -> float:
        """Even shares for the first so many pools, if the strategy spreads; then all in order."""
        parts = (
            diversification_count(option.strategy, option.pools_to_use, len(ordered))
            if option.lifecycle == SPOT
            else 1
        )
        if parts > 1:
            for each, share in zip(ordered, even_shares(ceil(wanted), parts), strict=False):
                if share and wanted > 0:
                    wanted -= share - self._try(option, each, share)
        for each in ordered:
            if wanted <= 0:
                break
            wanted = self._try(option, each, wanted)
        return wanted

    def _try(
        self, option: PurchaseOption, choice: FleetOverride, wanted: float, maximum: float = inf
    ) -> float:
        """What is still lacking; why it is not less stands in the tally."""
        error: AwsError | None = None
        for target in self._targets(option, choice):
            count = int(min(ceil(wanted / choice.weight), maximum))
            if count < 1:
                return wanted
            try:
                order = self._order(option, choice, target)
            except AwsError as flaw:
                error = flaw
                break
            launch = self._launcher.launch(order, count, token=self.tally.fleet)
            self._launcher.settle(launch)
            self.tally.add(choice, option.lifecycle, launch.instances)
            wanted -= len(launch.instances) * choice.weight
            error = launch.error
            if error is None:
                break
        if error is not None:
            self.tally.fail(choice, option.lifecycle, error)
        return wanted

    def _targets(self, option: PurchaseOption, choice: FleetOverride) -> Sequence[str | None]:
        """The reservations to be tried in turn; those that the fleet names if the pool has none."""
        if choice.source.target is not None or not option.targets:
            return (choice.source.target,)
        known = self._capacity_source.reservations
        found = [
            each
            for each in option.targets
            if each not in known
            or (known[each].type, known[each].zone) == (choice.type, choice.zone)
        ]
        return found or option.targets[:1]

    def _order(
        self, option: PurchaseOption, choice: FleetOverride, target: str | None
    ) -> InstanceLaunchRequest:
        if choice.subnet is None:
            raise choice.flaw or launch_errors.unfulfillable_capacity()
        _check_market_type(option, choice)
        preference = choice.source.preference
        if option.reserved and target is None:
            if option.lifecycle != ON_DEMAND:
                raise reservation_capacity_exceeded()
            preference = RESERVATIONS_ONLY
        return InstanceLaunchRequest(
            type=choice.type,
            subnet=choice.subnet,
            data=choice.data(),
            lifecycle=option.lifecycle,
            preference=preference,
            target=target,
            max_price=choice.max_price,
            tags=self._all_tags(choice),
        )

    def _all_tags(self, choice: FleetOverride) -> dict[str, str]:
        source = choice.source
        return {
            **tags.parse_tag_specifications(source.version.data, "instance"),
            **self._tags,
            "aws:ec2:fleet-id": self.tally.fleet,
            "aws:ec2launchtemplate:id": source.template.id,
            "aws:ec2launchtemplate:version": str(source.version.number),
        }


def _check_market_type(option: PurchaseOption, choice: FleetOverride) -> None:
    """Template and fleet must mean the same way to pay; a block must be asked for by both."""
    market = choice.source.market
    if market == option.lifecycle or (market is None and option.lifecycle != CAPACITY_BLOCK):
        return
    raise AwsError(
        "InvalidParameterCombination",
        f"The fleet asks for {option.lifecycle} capacity, its launch template for market type "
        f"{market}.",
    )


class FleetsState(msgspec.Struct, kw_only=True):
    tokens: dict[str, IdempotentResponse] = {}
    records: dict[str, FleetRecord] = {}


class Fleets:
    """Fleets of type instant: they launch once, and what stays of them is a record."""

    name = "ec2"
    dry_runs = ("CreateFleet",)

    def __init__(self, launcher: InstanceLauncher, templates: LaunchTemplates) -> None:
        self._deps = launcher.deps
        self._launcher = launcher
        self._pools = OverrideReader(
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
        wanted, own = (
            parse_target_capacity(params),
            tags.parse_tag_specifications(params, "instance"),
        )
        if params.get("DryRun"):
            self._pools.read(params)
            raise dry_run_error()
        answer: Response = self._tokens.once(params, lambda: self._launch(params, wanted, own))
        return answer

    def _launch(
        self, params: Params, wanted: list[TargetCapacity], own: Mapping[str, str]
    ) -> Response:
        choices = self._pools.read(params)
        number = self._deps.context.random.getrandbits(128)
        filling = FleetFulfillment(self._launcher, f"fleet-{UUID(int=number)}", own)
        for goal in wanted:
            left = goal.wanted
            for option in goal.purchase_options:
                left = filling.fill(option, choices, left)
        answer = filling.tally.answer()
        self._records.keep(params, answer)
        return answer

    def describe(self, params: Params) -> Response:
        return self._records.describe(params)
