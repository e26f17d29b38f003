"""The emulated cloud: the one entrance to an account in memory, on any clock.

`answer` is for those who do not wait; `call` is the seam, and does what needs waiting around it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from wainwright.api.cloud import Cloud
from wainwright.catalogue.remarks import Remark
from wainwright.clock import Clock
from wainwright.emulator import changes, saving
from wainwright.emulator.account import NAME, Account, furnish
from wainwright.emulator.dryrun import would_have_succeeded
from wainwright.emulator.ec2.goods import goods
from wainwright.emulator.faults import Faults, When
from wainwright.emulator.parts import Parts
from wainwright.emulator.settings import Settings
from wainwright.emulator.throttle import Buckets
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

LONG_POLL: Final = ("sqs", "ReceiveMessage")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One question and how it ended, for those who keep a log."""

    at: float
    service: str
    operation: str
    params: Params
    error: AwsError | None = None


class EmulatedCloud:
    """An account. Without a Cloud it is in us-east-1, with all that the built-in catalogue has."""

    def __init__(
        self,
        cloud: Cloud | None = None,
        *,
        clock: Clock,
        seed: int = 0,
        settings: Settings | None = None,
        saved: saving.Saved | None = None,
    ) -> None:
        self.clock = clock
        self.on_call: Callable[[Call], None] | None = None
        self._cloud = cloud
        self._settings = settings = settings or Settings()
        self._goods = goods(cloud)
        self.world = World(clock.now, region=self._goods.region, seed=seed)
        self.parts = Parts(self.world, self._goods, settings, NAME)
        self._faults = Faults(self.world, settings.faults)
        self._buckets = Buckets(self.world, settings.throttling)
        self._handlers = _handlers(self.parts)
        self._dry_runs = self.parts.dry_runs()
        self.account = self._begin() if saved is None else self._resume(saved)

    def _begin(self) -> Account:
        spec = None if self._cloud is None else self._cloud.spec
        account = furnish(self.parts, self._goods.zones, self._settings)
        if spec is not None:
            self.parts.shop.set_prices(spec.prices or ())
            self.parts.shop.set_unavailable(spec.unavailable or ())
            self.parts.reservations.seed(spec.capacityReservations or ())
        return account

    def _resume(self, saved: saving.Saved) -> Account:
        saving.restore(saved, self.world, self._keepers())
        return saved.account

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What whoever wrote the Cloud should know; nothing of it stands in the way."""
        return self._goods.remarks

    def answer(self, service: str, operation: str, params: Params) -> Answer:
        """What the operation gives, at once; AwsError where it does not."""
        with self._logged(service, operation, params):
            handler = self._admitted(service, operation, params)
            refused, answer = None, Answer()
            try:
                answer = handler(params)
            except AwsError as error:
                refused = error
            self._deliver(service, operation, params, refused)
            return answer

    async def call(self, service: str, operation: str, params: Params) -> Answer:
        """The same with all the waiting that belongs to it."""
        if self._settings.latency:
            await self.clock.sleep(self._settings.latency)
        if (service, operation) != LONG_POLL:
            return self.answer(service, operation, params)
        with self._logged(service, operation, params):
            self._admitted(service, operation, params)
            answer = await self.parts.sqs.receive(params, self.clock)
            self._deliver(service, operation, params)
            return answer

    def change(self, patch: Mapping[str, Any]) -> None:
        """Changes the world under the feet of its users; see `changes` for what can be changed."""
        self.world.catch_up()
        read = changes.change(patch, self._goods.region)
        changes.apply(read, self.parts, self._faults, self._buckets)
        self.parts.sqs.stir()

    def save(self) -> bytes:
        """Everything, as JSON."""
        self.world.catch_up()
        return msgspec.json.encode(
            saving.Saved(
                at=self.world.now(),
                cloud=self._cloud,
                settings=self._settings,
                account=self.account,
                chance=saving.chance(self.world),
                appointments=self.world.appointments,
                states=saving.states(self._keepers()),
            )
        )

    @classmethod
    def load(cls, data: bytes, *, clock: Clock) -> "EmulatedCloud":
        """Goes on where `save` was called; what was due since then happens at the first call."""
        saved = saving.read(data)
        return cls(saved.cloud, clock=clock, settings=saved.settings, saved=saved)

    def _keepers(self) -> tuple[saving.Keeper, ...]:
        return (*self.parts.all(), self._faults, self._buckets)

    def _admitted(self, service: str, operation: str, params: Params) -> Handler:
        """The handler, unless something stands in the way before it."""
        self.world.catch_up()
        found = self._handlers.get((service, operation))
        if found is None:
            message = f"The action {operation} is not valid for this web service."
            raise AwsError("InvalidAction", message)
        error = self._buckets.admit(operation, service)
        error = error or self._faults.strike(service, operation, params)
        if error is not None:
            raise error
        if params.get("DryRun") and service == "ec2" and operation not in self._dry_runs:
            raise would_have_succeeded()
        return found

    def _deliver(
        self, service: str, operation: str, params: Params, refused: AwsError | None = None
    ) -> None:
        """The way back, on which a reply can be lost, be it an answer or a refusal."""
        self.parts.sqs.stir()
        lost = self._faults.strike(service, operation, params, When.AFTER)
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
                    Call(at=at, service=service, operation=operation, params=params, error=error)
                )


def _handlers(parts: Parts) -> dict[tuple[str, str], Handler]:
    return {
        (part.name, operation): handler
        for part in parts.all()
        for operation, handler in part.operations().items()
    }
