"""The emulated AWS account: all calls to an account in memory come through here, on any clock.

`answer` is for synchronous callers; `call` is for asynchronous ones, and adds latency and long
polling.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import Cloud, CloudReservation
from wainwright.catalogue.diagnostics import ObjectDiagnostic
from wainwright.catalogue.instancetypes.instance_type_info import built_in_instance_types
from wainwright.clock import Clock, VirtualClock
from wainwright.emulator import account_patch, saved_state
from wainwright.emulator.account_services import (
    AccountResources,
    AccountServices,
    create_default_resources,
)
from wainwright.emulator.api_conventions import dry_run_error
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.ec2.region_offerings import load_region_offerings
from wainwright.emulator.faults import (
    FaultInjector,
    FaultTiming,
    Throttler,
    check_rule_operations,
)
from wainwright.emulator.offering_names import check_offering_names
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError

READ_ONLY_PREFIXES: Final = ("Describe", "Get", "List")
LONG_POLL_OPERATION: Final = ("sqs", "ReceiveMessage")


class ApiCall(msgspec.Struct, frozen=True, kw_only=True):
    """One API call and its outcome, for call logs."""

    at: float
    service: str
    operation: str
    params: Params
    error: AwsError | None = None

    @property
    def may_change_state(self) -> bool:
        return not self.operation.startswith(READ_ONLY_PREFIXES)


class EmulatedAwsAccount:
    """An account. Without a Cloud it is in us-east-1, with everything in the built-in catalogue."""

    def __init__(
        self,
        cloud: Cloud | None = None,
        *,
        clock: Clock,
        seed: int = 0,
        settings: EmulatorSettings | None = None,
        saved: saved_state.SavedAccount | None = None,
    ) -> None:
        self.clock = clock
        self.on_call: Callable[[ApiCall], None] | None = None
        self._cloud = cloud
        self._settings = settings = settings or EmulatorSettings()
        self.region_offerings = load_region_offerings(cloud)
        self.context = AccountContext(clock.now, region=self.region_offerings.region, seed=seed)
        self.services = AccountServices(
            self.context, self.region_offerings, settings, settings.cluster
        )
        self._fault_injector = FaultInjector(self.context, settings.faults)
        self._throttler = Throttler(self.context, settings.throttling)
        self._handlers = _collect_handlers(self.services)
        self._dry_runs = self.services.dry_runs()
        self.account = self._create_resources() if saved is None else self._restore(saved)

    def _create_resources(self) -> AccountResources:
        spec = None if self._cloud is None else self._cloud.spec
        account = create_default_resources(
            self.services, self.region_offerings.zones, self._settings
        )
        if spec is not None:
            self.services.capacity_market.set_prices(spec.prices or ())
            self.services.capacity_market.set_unavailable(spec.unavailable or ())
            self.services.seed_reservations(spec.capacityReservations or ())
        return account

    def _restore(self, saved: saved_state.SavedAccount) -> AccountResources:
        saved_state.restore_account(saved, self.context, self._stateful_services())
        return saved.account

    @property
    def zones(self) -> Mapping[str, str]:
        """The names of the zones, with their ids."""
        return self.region_offerings.zones

    @property
    def stated_reservations(self) -> Sequence[CloudReservation]:
        """Those of the Cloud, as they were at the start."""
        return () if self._cloud is None else self._cloud.spec.capacityReservations or ()

    @staticmethod
    def known_instance_types() -> Container[str]:
        """Every type that an account can sell, in whatever region."""
        return built_in_instance_types()

    @staticmethod
    @cache
    def known_operations() -> frozenset[tuple[str, str]]:
        """Service and name of every call that an account answers, in whatever region."""
        clock = VirtualClock()
        try:
            return frozenset(EmulatedAwsAccount(clock=clock)._handlers)
        finally:
            clock.close()

    @property
    def remarks(self) -> tuple[ObjectDiagnostic, ...]:
        """Warnings about the Cloud; none of them prevents its use."""
        return self.region_offerings.remarks

    def answer(self, service: str, operation: str, params: Params) -> Response:
        """The response of the operation, without waiting; its AwsError where it fails."""
        with self._log_call(service, operation, params):
            handler = self._admit(service, operation, params)
            failure, response = None, Response()
            try:
                response = self._fault_injector.run(service, operation, params, handler)
            except AwsError as error:
                failure = error
            self._finish_call(service, operation, params, failure)
            return response

    async def call(self, service: str, operation: str, params: Params) -> Response:
        """Like `answer`, with latency and long polling on the clock."""
        if self._settings.latency:
            await self.clock.sleep(self._settings.latency)
        if (service, operation) != LONG_POLL_OPERATION:
            return self.answer(service, operation, params)
        with self._log_call(service, operation, params):
            self._admit(service, operation, params)
            response = await self.services.sqs.receive(params, self.clock)
            self._finish_call(service, operation, params)
            return response

    def change(self, patch: Mapping[str, Any]) -> None:
        """Changes the running account; see `account_patch` for the fields."""
        self.context.run_due_events()
        parsed = account_patch.parse_patch(patch, self.region_offerings.region)
        check_rule_operations(parsed.faults or (), self._handlers)
        check_offering_names(parsed, self.region_offerings)
        account_patch.apply_patch(parsed, self.services, self._fault_injector, self._throttler)
        self.services.sqs.wake_waiters()

    def save(self) -> bytes:
        """The whole account as JSON."""
        self.context.run_due_events()
        return msgspec.json.encode(
            saved_state.SavedAccount(
                at=self.context.now(),
                cloud=self._cloud,
                settings=self._settings,
                account=self.account,
                random_state=saved_state.get_random_state(self.context),
                timed_events=self.context.pending_events,
                states=saved_state.encode_states(self._stateful_services()),
            )
        )

    @classmethod
    def load(cls, data: bytes, *, clock: Clock) -> "EmulatedAwsAccount":
        """The saved account; events that were due since then are handled at the first call."""
        saved = saved_state.decode_saved_account(data)
        return cls(saved.cloud, clock=clock, settings=saved.settings, saved=saved)

    def _stateful_services(self) -> tuple[saved_state.StatefulService, ...]:
        return (*self.services.all(), self._fault_injector, self._throttler)

    def _admit(self, service: str, operation: str, params: Params) -> OperationHandler:
        """The handler; raises throttling errors, faults before the handler, and dry runs."""
        self.context.run_due_events()
        handler = self._handlers.get((service, operation))
        if handler is None:
            message = f"The action {operation} is not valid for this web service."
            raise AwsError("InvalidAction", message)
        error = self._throttler.admit(operation, service)
        error = error or self._fault_injector.injected_error(service, operation, params)
        if error is not None:
            raise error
        if params.get("DryRun") and service == "ec2" and operation not in self._dry_runs:
            raise dry_run_error()
        return handler

    def _finish_call(
        self, service: str, operation: str, params: Params, failure: AwsError | None = None
    ) -> None:
        """Raises what the caller gets in place of the response: a lost response or the failure."""
        self.services.sqs.wake_waiters()
        lost = self._fault_injector.injected_error(service, operation, params, FaultTiming.AFTER)
        error = lost or failure
        if error is not None:
            raise error

    @contextmanager
    def _log_call(self, service: str, operation: str, params: Params) -> Iterator[None]:
        at, error = self.clock.now(), None
        try:
            yield
        except AwsError as raised:
            error = raised
            raise
        finally:
            if self.on_call is not None:
                self.on_call(
                    ApiCall(at=at, service=service, operation=operation, params=params, error=error)
                )


def _collect_handlers(services: AccountServices) -> dict[tuple[str, str], OperationHandler]:
    return {
        (service.name, operation): handler
        for service in services.all()
        for operation, handler in service.operations().items()
    }
