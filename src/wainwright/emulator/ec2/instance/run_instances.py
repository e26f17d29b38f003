"""RunInstances: instances of one type in one subnet, with or without a launch template."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.emulator import api_conventions
from wainwright.emulator.api_conventions import (
    ClientTokens,
    IdempotentResponse,
    check_client_token,
    dry_run_error,
    parse_price,
)
from wainwright.emulator.context import OperationHandler, Params, Response
from wainwright.emulator.ec2 import tags
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import (
    parse_reservation_specification,
)
from wainwright.emulator.ec2.instance import launch_errors
from wainwright.emulator.ec2.instance.launcher import (
    InstanceLauncher,
    InstanceLaunchRequest,
    SubnetSelector,
)
from wainwright.emulator.ec2.instance.lifecycle import (
    CAPACITY_BLOCK,
    INTERRUPTIBLE,
    ON_DEMAND,
    SPOT,
)
from wainwright.emulator.ec2.launch_templates import LaunchTemplates, check_user_data
from wainwright.errors import AwsError

DEFAULT_INSTANCE_TYPE: Final = "m1.small"
REQUEST_ONLY_FIELDS: Final = (
    "ClientToken",
    "DryRun",
    "LaunchTemplate",
    "MaxCount",
    "MinCount",
    "TagSpecifications",
)
"""Request parameters that launch templates do not have."""
MARKET_TYPES: Final = (ON_DEMAND, SPOT, CAPACITY_BLOCK, INTERRUPTIBLE)


class RunInstancesState(msgspec.Struct, kw_only=True):
    tokens: dict[str, IdempotentResponse] = {}


class RunInstances:
    """Launches without a fleet."""

    name = "ec2"
    dry_runs = ("RunInstances",)

    def __init__(self, launcher: InstanceLauncher, templates: LaunchTemplates) -> None:
        self._deps = launcher.deps
        self._launcher = launcher
        self._templates = templates
        self._subnet_selector = SubnetSelector(self._deps.region_offerings, self._deps.network)
        self.state = RunInstancesState()

    @property
    def state(self) -> RunInstancesState:
        return self._state

    @state.setter
    def state(self, state: RunInstancesState) -> None:
        self._state = state
        self._tokens = ClientTokens(self._deps.context, state.tokens)

    def operations(self) -> Mapping[str, OperationHandler]:
        return {"RunInstances": self.run}

    def run(self, params: Params) -> Response:
        check_client_token(params)
        minimum, maximum = _parse_counts(params)
        if params.get("DryRun"):
            self._launcher.validate(self._launch_request(params))
            raise dry_run_error()
        launched = self._tokens.run_once(params, lambda: self._launch(params, minimum, maximum))
        return self._view(launched)

    def _launch(self, params: Params, minimum: int, maximum: int) -> list[str]:
        token, launch_id = (
            params.get("ClientToken") or "",
            api_conventions.new_resource_id(self._deps.context, "r"),
        )
        launch = self._launcher.launch(
            self._launch_request(params), maximum, launch_id=launch_id, token=token
        )
        if len(launch.instances) < minimum:
            self._launcher.roll_back(launch)
            raise launch.error or launch_errors.unfulfillable_capacity()
        self._launcher.commit(launch)
        return [launch_id, *(each.id for each in launch.instances)]

    def _view(self, launched: Sequence[str]) -> Response:
        """The launched instances in their current state."""
        launch_id, *instance_ids = launched
        instances = self._deps.instances
        described = [instances.get(each) for each in instance_ids]
        return {
            "ReservationId": launch_id,
            "OwnerId": self._deps.context.account,
            "Groups": [],
            "Instances": [instances.view(each) for each in described if each is not None],
        }

    def _launch_request(self, params: Params) -> InstanceLaunchRequest:
        request_data = {
            name: value for name, value in params.items() if name not in REQUEST_ONLY_FIELDS
        }
        check_user_data(request_data.get("UserData"))
        data, template_tags = request_data, {}
        if params.get("LaunchTemplate"):
            template, version = self._templates.resolve(params["LaunchTemplate"])
            data = _merge_template(version.data, request_data)
            template_tags = tags.parse_tag_specifications(version.data, "instance")
            template_tags["aws:ec2launchtemplate:id"] = template.id
            template_tags["aws:ec2launchtemplate:version"] = str(version.number)
        lifecycle, max_price = _parse_market_options(data.get("InstanceMarketOptions") or {})
        preference, target = parse_reservation_specification(
            data.get("CapacityReservationSpecification")
        )
        return InstanceLaunchRequest(
            type=data.get("InstanceType") or DEFAULT_INSTANCE_TYPE,
            subnet=self._subnet_selector.select(data),
            data=data,
            lifecycle=lifecycle,
            preference=preference,
            target=target,
            max_price=max_price,
            tags={**template_tags, **tags.parse_tag_specifications(params, "instance")},
        )


def _parse_counts(params: Params) -> tuple[int, int]:
    minimum, maximum = params.get("MinCount"), params.get("MaxCount")
    if minimum is None or maximum is None:
        name = "MinCount" if minimum is None else "MaxCount"
        raise AwsError("MissingParameter", f"The request must contain the parameter {name}")
    if not 1 <= minimum <= maximum:
        raise AwsError(
            "InvalidParameterValue",
            f"MinCount ({minimum}) must be at least 1 and not more than MaxCount ({maximum}).",
        )
    return minimum, maximum


def _parse_market_options(options: Mapping[str, Any]) -> tuple[str, float | None]:
    market_type = options.get("MarketType") or ON_DEMAND
    if market_type not in MARKET_TYPES:
        raise AwsError(
            "InvalidParameterValue", f"Value ({market_type}) for parameter marketType is invalid."
        )
    price = (options.get("SpotOptions") or {}).get("MaxPrice")
    return market_type, None if price is None else parse_price(price, "maxPrice")


def _merge_template(template: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """The request overrides its template; interfaces are merged by device index."""
    data = {**template, **request}
    if request.get("NetworkInterfaces"):
        template_interfaces = {
            each.get("DeviceIndex", number): each
            for number, each in enumerate(template.get("NetworkInterfaces") or ())
        }
        data["NetworkInterfaces"] = [
            {**template_interfaces.get(each.get("DeviceIndex", number), {}), **each}
            for number, each in enumerate(request["NetworkInterfaces"])
        ]
    return data
