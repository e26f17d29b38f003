"""What a running simulation keeps in memory: everything that can be reached from it, counted."""

import gc
import types
from collections import Counter, deque
from typing import Any

from wainwright.controllers.events import EventRecorder
from wainwright.sim.object_store import History
from wainwright.sim.scheduler_cache import SchedulerCache
from wainwright.sim.series import SeriesRecorder

BOUNDED = (History, EventRecorder, SeriesRecorder)
"""Each keeps the last so many thousand of its kind, and has a test for that."""
CONTAINERS = (dict, list, set, deque)
CODE = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType)


def kept_objects(root: object) -> Counter[str]:
    """How many of each type, and under `entries` how many elements all containers have."""
    seen, stack, counts = {id(root)}, [root], Counter[str]()
    while stack:
        each = stack.pop()
        counts[type(each).__qualname__] += 1
        if isinstance(each, CONTAINERS):
            counts["entries"] += len(each)
        for found in _parts(each):
            if id(found) not in seen and not isinstance(found, CODE):
                seen.add(id(found))
                stack.append(found)
    return counts


def _parts(each: object) -> list[Any]:
    if isinstance(each, BOUNDED):
        return []
    if isinstance(each, types.FunctionType):
        return [*(each.__closure__ or ())]  # not the module that it is in
    found = gc.get_referents(each)
    if isinstance(each, SchedulerCache):
        found = [part for part in found if part is not each._log]  # bounded too
    return found
