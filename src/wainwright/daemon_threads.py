"""Threads for blocking calls that a process does not wait for when it ends.

Those of the standard library are joined at the exit of the interpreter: a long poll of twenty
seconds would keep a process that has been told to stop.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class DaemonThreadPool(Executor):
    def __init__(self, workers: int, name: str) -> None:
        self._workers, self._name = workers, name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []

    def submit(
        self, function: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Result]:
        future: Future[Result] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
                future.set_exception(error)

        self._work.put(work)
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._workers:
            self._start_thread()
        return future

    def shutdown(self, wait: bool = True, **_: Any) -> None:
        """What is waiting is carried out first; with `wait` it returns after that."""
        for _thread in self._threads:
            self._work.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _start_thread(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            self._idle.release()
