"""RunInstances: machines of one type in one place, with or without a launch template."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.emulator import ids, tags
from wainwright.emulator.dryrun import would_have_succeeded
from wainwright.emulator.ec2 import launch_errors
from wainwright.emulator.ec2.joining import specified
from wainwright.emulator.ec2.launch_places import Places
from wainwright.emulator.ec2.launching import Launcher, Order
from wainwright.emulator.ec2.machines import BLOCK, INTERRUPTIBLE, ON_DEMAND, SPOT
from wainwright.emulator.ec2.template_checks import check_user_data
from wainwright.emulator.ec2.templates import Templates
from wainwright.emulator.ec2.tokens import Kept, Tokens, check
from wainwright.emulator.world import Answer, Handler, Params
from wainwright.errors import AwsError

DEFAULT_TYPE: Final = "m1.small"
NOT_DATA: Final = (
    "ClientToken",
    "DryRun",
    "LaunchTemplate",
    "MaxCount",
    "MinCount",
    "TagSpecifications",
)
"""What a request has beside the parameters that it shares with templates."""
MARKETS: Final = (ON_DEMAND, SPOT, BLOCK, INTERRUPTIBLE)


class RunsState(msgspec.Struct, kw_only=True):
    tokens: dict[str, Kept] = {}


class Runs:
    """Machines asked for one by one, without a fleet."""

    name = "ec2"
    dry_runs = ("RunInstances",)

    def __init__(self, launcher: Launcher, templates: Templates) -> None:
        self._ground = launcher.ground
        self._launcher = launcher
        self._templates = templates
        self._places = Places(self._ground.goods, self._ground.network)
        self.state = RunsState()

    @property
    def state(self) -> RunsState:
        return self._state

    @state.setter
    def state(self, state: RunsState) -> None:
        self._state = state
        self._tokens = Tokens(self._ground.world, state.tokens)

    def operations(self) -> Mapping[str, Handler]:
        return {"RunInstances": self.run}

    def run(self, params: Params) -> Answer:
        check(params)
        least, most = _counts(params)
        if params.get("DryRun"):
            self._launcher.checked(self._order(params))
            raise would_have_succeeded()
        made = self._tokens.once(params, lambda: self._run(params, least, most))
        return self._shown(made)

    def _run(self, params: Params, least: int, most: int) -> list[str]:
        token, run = params.get("ClientToken") or "", ids.new(self._ground.world, "r")
        launch = self._launcher.launch(self._order(params), most, run=run, token=token)
        if len(launch.instances) < least:
            self._launcher.undo(launch)
            raise launch.error or launch_errors.unfulfillable()
        self._launcher.settle(launch)
        return [run, *(each.id for each in launch.instances)]

    def _shown(self, made: Sequence[str]) -> Answer:
        """What was launched, as it is now."""
        run, *launched = made
        instances = self._ground.instances
        found = [instances.get(each) for each in launched]
        return {
            "ReservationId": run,
            "OwnerId": self._ground.world.account,
            "Groups": [],
            "Instances": [instances.shown(each) for each in found if each is not None],
        }

    def _order(self, params: Params) -> Order:
        own = {name: value for name, value in params.items() if name not in NOT_DATA}
        check_user_data(own.get("UserData"))
        data, marks = own, {}
        if params.get("LaunchTemplate"):
            template, version = self._templates.resolve(params["LaunchTemplate"])
            data = _merged(version.data, own)
            marks = tags.from_specifications(version.data, "instance")
            marks["aws:ec2launchtemplate:id"] = template.id
            marks["aws:ec2launchtemplate:version"] = str(version.number)
        lifecycle, most_price = _market(data.get("InstanceMarketOptions") or {})
        preference, target = specified(data.get("CapacityReservationSpecification"))
        return Order(
            type=data.get("InstanceType") or DEFAULT_TYPE,
            subnet=self._places.subnet(data),
            data=data,
            lifecycle=lifecycle,
            preference=preference,
            target=target,
            most_price=most_price,
            tags={**marks, **tags.from_specifications(params, "instance")},
        )


def _counts(params: Params) -> tuple[int, int]:
    least, most = params.get("MinCount"), params.get("MaxCount")
    if least is None or most is None:
        name = "MinCount" if least is None else "MaxCount"
        raise AwsError("MissingParameter", f"The request must contain the parameter {name}")
    if not 1 <= least <= most:
        raise AwsError(
            "InvalidParameterValue",
            f"MinCount ({least}) must be at least 1 and not more than MaxCount ({most}).",
        )
    return least, most


def _market(options: Mapping[str, Any]) -> tuple[str, float | None]:
    market = options.get("MarketType") or ON_DEMAND
    if market not in MARKETS:
        raise AwsError(
            "InvalidParameterValue", f"Value ({market}) for parameter marketType is invalid."
        )
    price = (options.get("SpotOptions") or {}).get("MaxPrice")
    return market, None if price is None else float(price)


def _merged(template: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The request goes before its template; interfaces are joined by their device."""
    data = {**template, **own}
    if own.get("NetworkInterfaces"):
        before = {
            each.get("DeviceIndex", number): each
            for number, each in enumerate(template.get("NetworkInterfaces") or ())
        }
        data["NetworkInterfaces"] = [
            {**before.get(each.get("DeviceIndex", number), {}), **each}
            for number, each in enumerate(own["NetworkInterfaces"])
        ]
    return data
