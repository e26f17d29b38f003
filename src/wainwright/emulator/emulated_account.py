"""The emulated AWS account: the one entrance to an account in memory, on any clock.

`answer` is for callers that do not wait; `call` is the entrance of asynchronous clients, and does
what needs waiting around it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import Cloud
from wainwright.catalogue.diagnostics import ObjectDiagnostic
from wainwright.clock import Clock
from wainwright.emulator import account_patch, saved_state
from wainwright.emulator.account_services import (
    DEFAULT_NAME,
    AccountResources,
    AccountServices,
    create_default_resources,
)
from wainwright.emulator.api_conventions import dry_run_error
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.ec2.region_offerings import load_region_offerings
from wainwright.emulator.faults import FaultInjector, FaultTiming, Throttler
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError

LONG_POLL_OPERATION: Final = ("sqs", "ReceiveMessage")


class ApiCall(msgspec.Struct, frozen=True, kw_only=True):
    """One question and how it ended, for those who keep a log."""

    at: float
    service: str
    operation: str
    params: Params
    error: AwsError | None = None


class EmulatedAwsAccount:
    """An account. Without a Cloud it is in us-east-1, with all that the built-in catalogue has."""

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
        self._region_offerings = load_region_offerings(cloud)
        self.context = AccountContext(clock.now, region=self._region_offerings.region, seed=seed)
        self.services = AccountServices(
            self.context, self._region_offerings, settings, DEFAULT_NAME
        )
        self._faults = FaultInjector(self.context, settings.faults)
        self._buckets = Throttler(self.context, settings.throttling)
        self._handlers = _collect_handlers(self.services)
        self._dry_runs = self.services.dry_runs()
        self.account = self._begin() if saved is None else self._resume(saved)

    def _begin(self) -> AccountResources:
        spec = None if self._cloud is None else self._cloud.spec
        account = create_default_resources(
            self.services, self._region_offerings.zones, self._settings
        )
        if spec is not None:
            self.services.capacity_market.set_prices(spec.prices or ())
            self.services.capacity_market.set_unavailable(spec.unavailable or ())
            self.services.reservations.seed(spec.capacityReservations or ())
        return account

    def _resume(self, saved: saved_state.SavedAccount) -> AccountResources:
        saved_state.restore_account(saved, self.context, self._keepers())
        return saved.account

    @property
    def remarks(self) -> tuple[ObjectDiagnostic, ...]:
        """What whoever wrote the Cloud should know; nothing of it stands in the way."""
        return self._region_offerings.remarks

    def answer(self, service: str, operation: str, params: Params) -> Response:
        """What the operation gives, at once; AwsError where it does not."""
        with self._logged(service, operation, params):
            handler = self._admitted(service, operation, params)
            refused, answer = None, Response()
            try:
                answer = handler(params)
            except AwsError as error:
                refused = error
            self._deliver(service, operation, params, refused)
            return answer

    async def call(self, service: str, operation: str, params: Params) -> Response:
        """The same with all the waiting that belongs to it."""
        if self._settings.latency:
            await self.clock.sleep(self._settings.latency)
        if (service, operation) != LONG_POLL_OPERATION:
            return self.answer(service, operation, params)
        with self._logged(service, operation, params):
            self._admitted(service, operation, params)
            answer = await self.services.sqs.receive(params, self.clock)
            self._deliver(service, operation, params)
            return answer

    def change(self, patch: Mapping[str, Any]) -> None:
        """Changes the world under the feet of its users; see `changes` for what can be changed."""
        self.context.run_due_events()
        read = account_patch.parse_patch(patch, self._region_offerings.region)
        account_patch.apply_patch(read, self.services, self._faults, self._buckets)
        self.services.sqs.wake_waiters()

    def save(self) -> bytes:
        """Everything, as JSON."""
        self.context.run_due_events()
        return msgspec.json.encode(
            saved_state.SavedAccount(
                at=self.context.now(),
                cloud=self._cloud,
                settings=self._settings,
                account=self.account,
                chance=saved_state.random_state(self.context),
                appointments=self.context.appointments,
                states=saved_state.encode_states(self._keepers()),
            )
        )

    @classmethod
    def load(cls, data: bytes, *, clock: Clock) -> "EmulatedAwsAccount":
        """Goes on where `save` was called; what was due since then happens at the first call."""
        saved = saved_state.decode_saved_account(data)
        return cls(saved.cloud, clock=clock, settings=saved.settings, saved=saved)

    def _keepers(self) -> tuple[saved_state.StatefulService, ...]:
        return (*self.services.all(), self._faults, self._buckets)

    def _admitted(self, service: str, operation: str, params: Params) -> OperationHandler:
        """The handler, unless something stands in the way before it."""
        self.context.run_due_events()
        found = self._handlers.get((service, operation))
        if found is None:
            message = f"The action {operation} is not valid for this web service."
            raise AwsError("InvalidAction", message)
        error = self._buckets.admit(operation, service)
        error = error or self._faults.strike(service, operation, params)
        if error is not None:
            raise error
        if params.get("DryRun") and service == "ec2" and operation not in self._dry_runs:
            raise dry_run_error()
        return found

    def _deliver(
        self, service: str, operation: str, params: Params, refused: AwsError | None = None
    ) -> None:
        """The way back, on which a reply can be lost, be it an answer or a refusal."""
        self.services.sqs.wake_waiters()
        lost = self._faults.strike(service, operation, params, FaultTiming.AFTER)
        error = lost or refused
        if error is not None:
            raise error

    @contextmanager
    def _logged(self, service: str, operation: str, params: Params) -> Iterator[None]:
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
        (part.name, operation): handler
        for part in services.all()
        for operation, handler in part.operations().items()
    }
