"""Wainwright: which nodes do these pods lack, what would they cost, and why not.

In a notebook or script, with the folder of the project as the current one:

    import wainwright

    world = wainwright.read("examples/reserved-then-spot")
    plan = wainwright.plan(world)
    print(f"${plan.price:.3f}/h", [claim.launch.instance_type for claim in plan.claims])
    print(wainwright.explain(world, "shop/web-5"))

docs/library.md has more.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wainwright.library import explain, plan, read

__version__ = "0.1.0"
__all__ = ["__version__", "explain", "plan", "read"]


def __getattr__(name: str) -> Any:
    """The library is loaded when it is first used: `wain` should start quickly."""
    if name in ("explain", "plan", "read"):
        return getattr(importlib.import_module("wainwright.library"), name)
    raise AttributeError(f"module 'wainwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is for a reader, loaded or not: notebooks complete names from it."""
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "Any", "importlib"})
