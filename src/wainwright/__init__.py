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
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wainwright.library import (
        ClusterLimits,
        ConsolidationResult,
        DisruptionOptions,
        InvalidInput,
        InvalidInputError,
        MinValuesPolicy,
        PackingPolicy,
        PlanOptions,
        PlanResult,
        PreferencePolicy,
        SimulationResult,
        UsageError,
        WainError,
        consolidate,
        explain,
        plan,
        read,
        simulate,
    )

__version__ = "0.1.0"
__all__ = [
    "ClusterLimits",
    "ConsolidationResult",
    "DisruptionOptions",
    "InvalidInput",
    "InvalidInputError",
    "MinValuesPolicy",
    "PackingPolicy",
    "PlanOptions",
    "PlanResult",
    "PreferencePolicy",
    "SimulationResult",
    "UsageError",
    "WainError",
    "__version__",
    "consolidate",
    "explain",
    "plan",
    "read",
    "simulate",
]
IMPORTS_OF_THIS_FILE: Final = frozenset(
    {"IMPORTS_OF_THIS_FILE", "TYPE_CHECKING", "Any", "Final", "importlib"}
)


def __getattr__(name: str) -> Any:
    """The library is loaded when it is first used: `wain` should start quickly."""
    if name in __all__:
        return getattr(importlib.import_module("wainwright.library"), name)
    raise AttributeError(f"module 'wainwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is for a reader, loaded or not: notebooks complete names from it."""
    return sorted({*globals(), *__all__} - IMPORTS_OF_THIS_FILE)
