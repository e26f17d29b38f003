"""The timed events of an account that is used inside an event loop."""

import asyncio
from typing import Final

from wainwright.emulator.emulated_account import EmulatedAwsAccount

TIMER_DELAY: Final = 2e-6
"""Timers of the loop may fire a microsecond early; a timed event of EC2 must be due by then."""


class AccountTimer:
    """Lets EC2's own events happen at their time: terminations, reservations that begin and end.

    Without it they would happen at the next call of the API, whenever that is.
    """

    def __init__(self, account: EmulatedAwsAccount) -> None:
        self._account = account
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the timer fires, by the account's clock: the loop's own may count from elsewhere."""

    def start(self) -> None:
        """To be called inside the loop."""
        self._account.context.on_schedule = self._schedule
        self._schedule_next()

    def stop(self) -> None:
        self._account.context.on_schedule = None
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, due: float) -> None:
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        left = due - self._account.clock.now() + TIMER_DELAY
        self._timer = asyncio.get_running_loop().call_later(left, self._run)

    def _run(self) -> None:
        self._timer = None
        self._account.context.run_due_events()
        self._account.services.sqs.wake_waiters()
        self._schedule_next()

    def _schedule_next(self) -> None:
        due = self._account.context.next_due()
        if due is not None:
            self._schedule(due)
