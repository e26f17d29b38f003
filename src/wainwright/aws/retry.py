"""Retry: a call that failed for a moment is asked again, a little later each time.

Nothing is bought twice by it: where the first try may have been carried out, only calls that can be
repeated are (`operations.repeatable`); a client token goes along unchanged.
"""

from random import Random
from typing import Final

import msgspec

from wainwright.aws.operations import worth_repeating
from wainwright.aws.seam import Answer, Params, Seam
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.metrics import CLOUD_RETRIES, Registry


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long."""

    attempts: int = 5
    """The first one counts."""
    first: float = 0.5
    """Seconds before the second attempt, doubled before each one after it."""
    longest: float = 20.0

    def pause(self, failures: int, random: Random) -> float:
        """Half of it is left to chance, so that those who failed together come back apart."""
        whole = min(self.longest, self.first * 2.0 ** (failures - 1))
        return whole * (1 + random.random()) / 2


PATIENT: Final = Patience()


class Retrying:
    """A seam that does not give up at the first failure."""

    def __init__(
        self,
        seam: Seam,
        clock: Clock,
        random: Random,
        metrics: Registry,
        patience: Patience = PATIENT,
    ) -> None:
        self._seam = seam
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._patience = patience

    async def call(self, service: str, operation: str, params: Params) -> Answer:
        failures = 0
        while True:
            try:
                return await self._seam.call(service, operation, params)
            except AwsError as error:
                failures += 1
                last = failures >= self._patience.attempts
                if last or not worth_repeating(error, operation, params):
                    raise
                self._metrics.add(CLOUD_RETRIES, method=f"{service}.{operation}", error=error.code)
            await self._clock.sleep(self._patience.pause(failures, self._random))
