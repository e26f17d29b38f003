"""Reads that are repeated while an API server answers that it cannot answer yet."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from wainwright.backoff import Backoff
from wainwright.clock import Clock
from wainwright.errors import ServerUnavailableError, TooManyRequestsError

LOG: Final = logging.getLogger(__name__)
NOT_YET: Final = (TooManyRequestsError, ServerUnavailableError)
"""Errors of an API server that may answer later."""

Answer = TypeVar("Answer")


async def read_with_retries(
    read: Callable[[], Awaitable[Answer]],
    clock: Clock,
    *,
    longest: float,
    seed: str = "",
    level: int = logging.DEBUG,
) -> Answer:
    """What is read. A server that is busy answers 429, as do kinds that were created a moment ago;
    one that starts answers 503. After `longest` seconds of waiting the error is raised, and at once
    where nobody has answered at all. `level`: of the log line about each wait.
    """
    backoff, waited = Backoff(seed), 0.0
    while True:
        try:
            return await read()
        except NOT_YET as error:
            wait = max(error.retry_after, backoff.failed("read"))
            waited += wait
            if not error.status or waited > longest:
                raise
            LOG.log(level, "the API server does not answer yet: %s; again in %.1f s", error, wait)
        await clock.sleep(wait)
