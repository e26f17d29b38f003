"""How much work something is, as a number that is the same on every machine, whatever else it does.

Function calls cost little to count; a loop that calls nothing shows in executed lines only.
"""

import sys
from collections.abc import Callable
from cProfile import Profile
from types import FrameType
from typing import Any


def function_calls(work: Callable[[], object]) -> int:
    """How many functions it calls, those of C included."""
    profile = Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def executed_lines(work: Callable[[], object]) -> int:
    """Lines of Python that run meanwhile, each turn of a loop or comprehension counted anew."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines
