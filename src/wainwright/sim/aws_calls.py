"""The calls that simulated controllers make to the emulated account: counted, and made to fail.

A fault before a call is an error, and nothing was done; after it the operation was carried out and
the caller gets an error; a lost answer is one that the caller gives up on after a minute. A dry run
goes by a name of its own (`CreateFleet.DryRun`), and only faults that name it reach it.
"""

import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from random import Random
from typing import Final, NamedTuple, Protocol

import msgspec

from wainwright.clock import Clock
from wainwright.emulator.context import Params, Response
from wainwright.emulator.emulated_account import LONG_POLL_OPERATION, EmulatedAwsAccount
from wainwright.emulator.faults import CONNECTION_CLOSED, throttling_error
from wainwright.errors import AwsError
from wainwright.sim.scenario import FaultKind

LOST_AFTER: Final = 60.0  # seconds until a caller gives up
DRY_RUN: Final = ".DryRun"
SERVER_ERROR: Final = "InternalError"


class CallFault(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that fail, each with a probability."""

    operation: str
    """With wildcards."""
    share: float
    kind: FaultKind = FaultKind.BEFORE
    code: str | None = None
    throttles: bool = False

    def reaches(self, name: str) -> bool:
        if name.endswith(DRY_RUN) and not self.operation.endswith(DRY_RUN):
            return False
        return fnmatchcase(name, self.operation)

    def error(self, service: str) -> AwsError:
        if self.throttles:
            error = throttling_error(service)
            return error if self.code is None else AwsError(self.code, error.text, error.status)
        if self.kind is FaultKind.LOST:
            return AwsError(self.code or CONNECTION_CLOSED, "no answer came in time", 0)
        return AwsError(self.code or SERVER_ERROR, "the scenario lets this call fail", 500)


class AwsCalls(Protocol):
    """Calls one operation of one service; AwsError."""

    async def call(self, service: str, operation: str, params: Params) -> Response: ...


class CallInProgress(NamedTuple):
    operation: str
    params: Params


class SimulatedAwsCalls:
    """The seam of the AWS provider in a simulation."""

    def __init__(self, account: EmulatedAwsAccount, clock: Clock, *, seed: int = 0) -> None:
        self._account = account
        self._clock = clock
        self._random = Random(f"{seed} faults of calls")
        self.faults: list[CallFault] = []
        self.counts: dict[str, int] = {}
        """By operation, in the order of their first call."""
        self.in_progress: CallInProgress | None = None
        """What the account is carrying out right now, for whoever sees its effects."""
        self.on_fault: Callable[[str, AwsError], None] | None = None

    async def call(self, service: str, operation: str, params: Params) -> Response:
        name = f"{operation}{DRY_RUN}" if params.get("DryRun") else operation
        self.counts[name] = self.counts.get(name, 0) + 1
        fault = self._find_fault(name)
        if fault is None:
            return await self._carry_out(service, operation, params)
        error = fault.error(service)
        if self.on_fault is not None:
            self.on_fault(name, error)
        if fault.kind is not FaultKind.BEFORE:
            try:
                await self._carry_out(service, operation, params)
            except AwsError as refused:
                # The answer that is lost may as well be a refusal.
                error = refused if fault.kind is FaultKind.AFTER else error
        if fault.kind is FaultKind.LOST:
            await self._clock.sleep(LOST_AFTER)
        raise error

    def _find_fault(self, name: str) -> CallFault | None:
        """Randomness is drawn only where a fault is about the call."""
        for fault in self.faults:
            if fault.reaches(name) and (fault.share >= 1 or self._random.random() < fault.share):
                return fault
        return None

    async def _carry_out(self, service: str, operation: str, params: Params) -> Response:
        if (service, operation) == LONG_POLL_OPERATION:
            # A poll that returns nothing would only be repeated: here it lasts until a message
            # comes, so that an idle queue wakes nobody.
            sqs = self._account.services.sqs
            return await sqs.receive(params, self._clock, wait_seconds=math.inf)
        self.in_progress = CallInProgress(operation, params)
        try:
            return await self._account.call(service, operation, params)
        finally:
            self.in_progress = None
