"""Wainwright: which nodes do these pods lack, what would they cost, and why not.

import wainwright

world = wainwright.read("examples/reserved-with-fallback")
plan = wainwright.plan(world)
print(plan.price, [claim.launch for claim in plan.claims])
print(wainwright.explain(world, "default/web-0"))
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wainwright.notebook import explain, plan, read

__version__ = "0.1.0"
__all__ = ["__version__", "explain", "plan", "read"]


def __getattr__(name: str) -> Any:
    """The library is loaded when it is first used: `wain` should start quickly."""
    if name in ("explain", "plan", "read"):
        return getattr(importlib.import_module("wainwright.notebook"), name)
    raise AttributeError(f"module 'wainwright' has no attribute {name!r}")
