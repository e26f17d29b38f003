"""Watchful: how long AWS takes and what it refuses, counted by operation."""

from wainwright.aws.seam import Answer, Params, Seam
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.metrics import CLOUD_DURATION, CLOUD_ERRORS, Registry


class Watchful:
    """A seam that keeps count; directly above AWS, so that every attempt is seen."""

    def __init__(self, seam: Seam, clock: Clock, metrics: Registry, controller: str = "") -> None:
        self._seam = seam
        self._clock = clock
        self._metrics = metrics
        self._controller = controller

    async def call(self, service: str, operation: str, params: Params) -> Answer:
        labels = {
            "controller": self._controller,
            "method": f"{service}.{operation}",
            "provider": "aws",
        }
        begun = self._clock.now()
        try:
            return await self._seam.call(service, operation, params)
        except AwsError as error:
            # The answer to a dry run that would have succeeded is an error by name only.
            if error.code != "DryRunOperation":
                self._metrics.add(CLOUD_ERRORS, error=error.code, **labels)
            raise
        finally:
            self._metrics.observe(CLOUD_DURATION, self._clock.now() - begun, **labels)
