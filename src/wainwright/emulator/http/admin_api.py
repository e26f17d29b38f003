"""The admin API, under its own path: the account, its request log, and changes.

GET  /_wain/account   names and ids, and how to configure a client
GET  /_wain/state     instances, reservations, and the rules in effect
GET  /_wain/log       the latest requests; ?count=N for fewer
POST /_wain/change    a patch, in the fields of the Cloud kind and a few more (see `account_patch`)
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from wainwright.emulator import saved_state
from wainwright.emulator.account_services import AccountServices
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import CapacityReservation
from wainwright.emulator.emulated_account import READ_ONLY_PREFIXES, EmulatedAwsAccount
from wainwright.emulator.faults import FaultState, ThrottleState
from wainwright.emulator.http.protocols import HttpRequest, HttpResponse
from wainwright.errors import AwsError, WainError


class RequestLogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Status 0: no response was sent."""

    at: float
    seconds: float
    service: str
    operation: str
    status: int
    code: str | None
    params: Any

    @property
    def may_change_state(self) -> bool:
        """Whether the request may have changed the account."""
        return bool(self.operation) and not self.operation.startswith(READ_ONLY_PREFIXES)


class RequestLog:
    """The latest requests, up to a total size; calls listeners for each.

    Entries are stored as JSON: that is smaller than the parameter objects, and its size is known.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[RequestLogEntry], None]] = []
        self._entries: deque[bytes] = deque()
        self._size = 0

    def add(self, entry: RequestLogEntry) -> None:
        encoded = msgspec.json.encode(entry)
        self._entries.append(encoded)
        self._size += len(encoded)
        while self._size > MAX_LOG_BYTES:
            self._size -= len(self._entries.popleft())
        for listener in self.listeners:
            listener(entry)

    def latest(self, count: int | None = None) -> Iterator[msgspec.Raw]:
        """The latest, oldest first, each as JSON."""
        skipped = 0 if count is None else max(len(self._entries) - count, 0)
        for number, encoded in enumerate(self._entries):
            if number >= skipped:
                yield msgspec.Raw(encoded)


MAX_LOG_BYTES: Final = 8 * 2**20


class ConnectionInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How to reach the account: printed as one line of JSON at the start."""

    endpoint: str
    region: str
    account: str
    cluster: str
    queue: str
    queue_url: str = msgspec.field(name="queueURL")
    discovery: dict[str, str]
    """The tag for discovery of subnets, security group and so on."""
    role: str
    vpc: str
    subnets: dict[str, str]
    """Zone to subnet."""
    security_group: str
    environment: dict[str, str]
    """Environment variables that point a client at this endpoint."""


def connection_info(emulated_account: EmulatedAwsAccount, endpoint: str) -> ConnectionInfo:
    fields = msgspec.structs.asdict(emulated_account.account)
    return ConnectionInfo(
        **fields,
        endpoint=endpoint,
        environment=client_environment(endpoint, emulated_account.account.region),
    )


def client_environment(endpoint: str, region: str) -> dict[str, str]:
    """Any credentials work; without some, most clients look for instance metadata."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": "wain",
        "AWS_SECRET_ACCESS_KEY": "wain",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def account_summary(emulated_account: EmulatedAwsAccount) -> dict[str, Any]:
    """Counts of resources, and the rules in effect under the field names of a patch."""
    emulated_account.context.run_due_events()
    services = emulated_account.services
    instances = services.instances.state.instances.values()
    return {
        "now": emulated_account.clock.now(),
        "instances": dict(Counter(each.state for each in instances)),
        "launchTemplates": len(services.templates.state.templates),
        "messages": {name: len(each.messages) for name, each in services.sqs.state.queues.items()},
        "capacityReservations": [
            _reservation_summary(each) for each in services.reservations.state.reservations.values()
        ],
        **_capacity_summary(services),
        **_fault_summary(emulated_account),
    }


def _reservation_summary(reservation: CapacityReservation) -> dict[str, Any]:
    return {
        "id": reservation.id,
        "instanceType": reservation.type,
        "availabilityZone": reservation.zone,
        "total": reservation.total,
        "available": reservation.free if reservation.active else 0,
        "instanceMatchCriteria": reservation.criteria,
        "state": reservation.state,
    }


def _capacity_summary(services: AccountServices) -> dict[str, Any]:
    market_state = services.capacity_market.state
    return {
        "prices": market_state.prices,
        "unavailable": market_state.capacity.unavailable,
        "stock": market_state.capacity.rules,
        "quota": services.quota.state.limits,
        "pace": services.instances.state.timings,
    }


def _fault_summary(emulated_account: EmulatedAwsAccount) -> dict[str, Any]:
    """Faults and throttling, read from the saved state: the account has no other access to them."""
    states = saved_state.decode_saved_account(emulated_account.save()).states
    faults = msgspec.json.decode(states["Faults"], type=FaultState)
    throttling = msgspec.json.decode(states["Buckets"], type=ThrottleState)
    return {"faults": faults.rules, "struck": faults.hits, "throttling": throttling.limits}


ADMIN_PREFIX: Final = "/_wain/"
COUNT_PATTERN: Final = re.compile("[0-9]{1,9}")
MAX_SHOWN_TEXT: Final = 40
JSON_CONTENT_TYPE: Final = "application/json"


class AdminApi:
    """Handles admin requests; which of them come from a web page is the server's to tell."""

    def __init__(
        self,
        emulated_account: EmulatedAwsAccount,
        request_log: RequestLog,
        endpoint: str,
        on_change: Callable[[], None],
    ) -> None:
        self._emulated_account = emulated_account
        self._request_log = request_log
        self._endpoint = endpoint
        self._on_change = on_change
        self._paths: dict[tuple[str, str], Callable[[HttpRequest], Any]] = {
            ("GET", "account"): self._account,
            ("GET", "state"): self._state,
            ("GET", "log"): self._log,
            ("POST", "change"): self._change,
        }

    def handle(self, request: HttpRequest) -> HttpResponse:
        name = request.path.removeprefix(ADMIN_PREFIX).rstrip("/")
        method = self._paths.get((request.method, name))
        if method is None:
            paths = ", ".join(f"{verb} {ADMIN_PREFIX}{path}" for verb, path in self._paths)
            return error_response(404, f"there is no {request.method} {request.path}", paths)
        try:
            body = msgspec.json.encode(method(request))
        except WainError as error:
            return error_response(400, error.message, error.hint)
        return HttpResponse(200, body, {"Content-Type": JSON_CONTENT_TYPE})

    def _account(self, _: HttpRequest) -> Any:
        return connection_info(self._emulated_account, self._endpoint)

    def _state(self, _: HttpRequest) -> Any:
        return account_summary(self._emulated_account)

    def _log(self, request: HttpRequest) -> Any:
        count = dict(request.arguments).get("count")
        if count is not None and COUNT_PATTERN.fullmatch(count) is None:
            raise WainError(f"count: {count[:MAX_SHOWN_TEXT]!r} is not a number")
        return list(self._request_log.latest(None if count is None else int(count)))

    def _change(self, request: HttpRequest) -> Any:
        try:
            patch = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WainError(f"the change is no JSON: {error}") from None
        if not isinstance(patch, dict):
            raise WainError(f"the change is not an object, but {type(patch).__name__}")
        try:
            self._emulated_account.change(patch)
        except AwsError as error:
            raise WainError(error.message) from error
        self._on_change()
        return account_summary(self._emulated_account)


def error_response(status: int, message: str, hint: str = "") -> HttpResponse:
    """An error in the shape of the admin API."""
    body = msgspec.json.encode({"error": message, "hint": hint})
    return HttpResponse(status, body, {"Content-Type": JSON_CONTENT_TYPE})
