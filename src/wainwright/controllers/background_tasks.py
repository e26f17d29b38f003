"""Tasks beside the work of a block, such as watches: they end with it, and it ends with them.

Nobody awaits such a task. If one that failed were not looked at, a process would lead without its
watches for ever, say that it is ready, and launch nothing.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

LOG: Final = logging.getLogger(__name__)

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
StartTask: TypeAlias = Callable[[Work, str], None]
"""The work, which may be cancelled before it has begun, and its name."""


@asynccontextmanager
async def background_tasks() -> AsyncIterator[StartTask]:
    """Cancels the tasks when the block ends. The error of one that fails before is logged, ends the
    block at the await where it is, and is raised.

    The block itself is no task of its own: simulations would run in another order.
    """
    background = _BackgroundTasks()
    try:
        async with asyncio.TaskGroup() as group:
            try:
                yield lambda work, name: background.start(group, work, name)
            finally:
                background.cancel()
    except ExceptionGroup as errors:
        raise _first(errors) from None


class _BackgroundTasks:
    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._is_ending = False

    def start(self, group: asyncio.TaskGroup, work: Work, name: str) -> None:
        self._tasks.append(group.create_task(self._watched(work, name), name=name))

    def cancel(self) -> None:
        self._is_ending = True
        for task in self._tasks:
            task.cancel()

    async def _watched(self, work: Work, name: str) -> None:
        try:
            await work()
        except Exception:
            if self._is_ending:
                return  # it was told to end, and the error of the block matters more
            LOG.exception("%s ended with an error", name)
            raise


def _first(errors: ExceptionGroup) -> Exception:
    """Groups say nothing about what has happened."""
    error: Exception = errors
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
