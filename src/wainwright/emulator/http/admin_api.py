"""The admin API, beside the paths of AWS: what the account is, what it was asked, what to change.

GET  /_wain/account   names and ids, and how to point a client at it
GET  /_wain/state     what runs, what is reserved, what stands in the way
GET  /_wain/log       the latest requests; ?count=N for fewer
POST /_wain/change    a patch, in the fields of the Cloud kind and a few more (see `account_patch`)
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec

from wainwright.emulator import saved_state
from wainwright.emulator.account_services import AccountServices
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import CapacityReservation
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.faults import FaultState, ThrottleState
from wainwright.emulator.http.protocols import HttpRequest, HttpResponse
from wainwright.emulator.http.router import RequestLog
from wainwright.errors import AwsError, WainError


class ConnectionInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of JSON."""

    endpoint: str
    region: str
    account: str
    cluster: str
    queue: str
    queue_url: str = msgspec.field(name="queueURL")
    discovery: dict[str, str]
    """The tag by which subnets, security group and so on are found."""
    role: str
    vpc: str
    subnets: dict[str, str]
    """Zone to subnet."""
    security_group: str
    environment: dict[str, str]
    """For a client: set these, and it comes here."""


def connection_info(cloud: EmulatedAwsAccount, endpoint: str) -> ConnectionInfo:
    fields = msgspec.structs.asdict(cloud.account)
    return ConnectionInfo(
        **fields, endpoint=endpoint, environment=client_environment(endpoint, cloud.account.region)
    )


def client_environment(endpoint: str, region: str) -> dict[str, str]:
    """Any keys will do; without them most clients look for an account on the network."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": "wain",
        "AWS_SECRET_ACCESS_KEY": "wain",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def account_summary(cloud: EmulatedAwsAccount) -> dict[str, Any]:
    """What there is, and the rules in force, in the fields by which they can be changed."""
    cloud.context.run_due_events()
    services = cloud.services
    machines = services.instances.state.instances.values()
    return {
        "now": cloud.clock.now(),
        "instances": dict(Counter(each.state for each in machines)),
        "launchTemplates": len(services.templates.state.templates),
        "messages": {name: len(each.messages) for name, each in services.sqs.state.queues.items()},
        "capacityReservations": [
            _reservation_summary(each) for each in services.reservations.state.reservations.values()
        ],
        **_capacity_summary(services),
        **_fault_summary(cloud),
    }


def _reservation_summary(found: CapacityReservation) -> dict[str, Any]:
    return {
        "id": found.id,
        "instanceType": found.type,
        "availabilityZone": found.zone,
        "total": found.total,
        "available": found.free if found.active else 0,
        "instanceMatchCriteria": found.criteria,
        "state": found.state,
    }


def _capacity_summary(services: AccountServices) -> dict[str, Any]:
    capacity_market = services.capacity_market.state
    return {
        "prices": capacity_market.prices,
        "unavailable": capacity_market.stock.unavailable,
        "stock": capacity_market.stock.rules,
        "quota": services.quota.state.limits,
        "pace": services.instances.state.pace,
    }


def _fault_summary(cloud: EmulatedAwsAccount) -> dict[str, Any]:
    """The account shows its rules for failures only to those who save it."""
    states = saved_state.decode_saved_account(cloud.save()).states
    faults = msgspec.json.decode(states["Faults"], type=FaultState)
    throttling = msgspec.json.decode(states["Buckets"], type=ThrottleState)
    return {"faults": faults.rules, "struck": faults.struck, "throttling": throttling.limits}


ADMIN_PREFIX: Final = "/_wain/"
JSON_CONTENT_TYPE: Final = "application/json"


class AdminApi:
    """Answers under our own path. Web pages are kept out: any page could send requests here."""

    def __init__(
        self,
        cloud: EmulatedAwsAccount,
        request_log: RequestLog,
        endpoint: str,
        changed: Callable[[], None],
    ) -> None:
        self._cloud = cloud
        self._request_log = request_log
        self._endpoint = endpoint
        self._changed = changed
        self._paths: dict[tuple[str, str], Callable[[HttpRequest], Any]] = {
            ("GET", "account"): self._account,
            ("GET", "state"): self._state,
            ("GET", "log"): self._log,
            ("POST", "change"): self._change,
        }

    def answer(self, request: HttpRequest) -> HttpResponse:
        name = request.path.removeprefix(ADMIN_PREFIX).rstrip("/")
        method = self._paths.get((request.method, name))
        if "Origin" in request.headers:
            return _error_response(403, "web pages may not ask here")
        if method is None:
            paths = ", ".join(f"{verb} {ADMIN_PREFIX}{path}" for verb, path in self._paths)
            return _error_response(404, f"there is no {request.method} {request.path}", paths)
        try:
            return HttpResponse(
                200, msgspec.json.encode(method(request)), {"Content-Type": JSON_CONTENT_TYPE}
            )
        except WainError as error:
            return _error_response(400, error.message, error.hint)

    def _account(self, _: HttpRequest) -> Any:
        return connection_info(self._cloud, self._endpoint)

    def _state(self, _: HttpRequest) -> Any:
        return account_summary(self._cloud)

    def _log(self, request: HttpRequest) -> Any:
        wanted = dict(request.arguments).get("count")
        if wanted is not None and not wanted.isdigit():
            raise WainError(f"count: {wanted!r} is no number")
        return list(self._request_log.latest(None if wanted is None else int(wanted)))

    def _change(self, request: HttpRequest) -> Any:
        try:
            patch = msgspec.json.decode(request.body)
        except msgspec.DecodeError as error:
            raise WainError(f"the change is no JSON: {error}") from None
        if not isinstance(patch, dict):
            raise WainError(f"the change is no object, but {type(patch).__name__}")
        try:
            self._cloud.change(patch)
        except AwsError as error:
            raise WainError(error.message) from error
        self._changed()
        return account_summary(self._cloud)


def _error_response(status: int, message: str, hint: str = "") -> HttpResponse:
    body = msgspec.json.encode({"error": message, "hint": hint})
    return HttpResponse(status, body, {"Content-Type": JSON_CONTENT_TYPE})
