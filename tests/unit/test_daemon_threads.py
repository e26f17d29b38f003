import asyncio
import subprocess
import sys
import threading

import pytest

from wainwright.daemon_threads import DaemonThreadPool


def test_calls_run_beside_each_other_up_to_the_number_of_threads() -> None:
    pool, together = DaemonThreadPool(2, "test"), threading.Barrier(2)
    first, second = (pool.submit(together.wait, 10) for _ in range(2))
    assert {first.result(10), second.result(10)} == {0, 1}
    assert [pool.submit(int, str(n)).result(10) for n in range(9)] == [*range(9)]
    assert sum(each.name.startswith("test-") for each in threading.enumerate()) == 2
    pool.shutdown()
    assert not [each for each in threading.enumerate() if each.name.startswith("test-")]


def test_the_caller_gets_the_error() -> None:
    pool = DaemonThreadPool(1, "error")

    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(pool, int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        asyncio.run(main())
    pool.shutdown()


def test_a_call_that_does_not_return_keeps_no_process() -> None:
    code = (
        "import threading; from wainwright.daemon_threads import DaemonThreadPool;"
        "DaemonThreadPool(1, 'x').submit(threading.Event().wait)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_a_plan_under_way_keeps_no_process_that_has_to_stop() -> None:
    code = """
import asyncio, threading
from wainwright.controllers.context import compute_in_thread

async def main():
    has_begun = threading.Event()

    def plan():
        has_begun.set()
        threading.Event().wait()

    task = asyncio.create_task(compute_in_thread(plan))
    while not has_begun.is_set():
        await asyncio.sleep(0)
    task.cancel()

asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
