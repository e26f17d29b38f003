"""How late the event loop of `wain run` is while 10,000 pods are planned beside it: in a thread, as
there, with probes and watches answered meanwhile. On a machine that has nothing else to do.
"""

import asyncio
from statistics import quantiles
from time import process_time
from typing import Final

from benchmarks.measure import print_row
from benchmarks.planner import planning_job
from wainwright.controllers.context import compute_in_thread

PODS: Final = 10_000
TYPES: Final = 1_000
POLL: Final = 0.02
TARGET_MS: Final = 250


def run() -> None:
    print("Event loop while pods are planned")
    for workload in ("deployments", "all distinct"):
        asyncio.run(_measure(workload))


async def _measure(workload: str) -> None:
    job = planning_job(workload, PODS, TYPES)
    late: list[float] = []
    poll = asyncio.create_task(_note_lag(late))
    began = process_time()
    await compute_in_thread(job)
    seconds = process_time() - began
    poll.cancel()
    p99 = quantiles(late, n=100)[-1] * 1000
    print_row(f"{PODS:,} pods, {workload}: CPU of plan and loop", f"{seconds:.1f} s")
    print_row("  late, p99", f"{p99:.0f} ms", f"at most {TARGET_MS}")
    print_row("  late, at most", f"{max(late) * 1000:.0f} ms")


async def _note_lag(late: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + POLL
        await asyncio.sleep(POLL)
        late.append(loop.time() - due)
