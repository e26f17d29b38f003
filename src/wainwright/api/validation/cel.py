"""CEL: the rules that CRDs carry, run offline by the same text that the API server runs.

The library is loaded on first use, and only its engine: importing the package also brings a
terminal program of its own, which takes longer than everything else that a command does.
"""

import importlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ABSENT: Final = object()


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator)


CEL_FUNCTIONS: Final = {"split": _split, "lowerAscii": str.lower}
"""What Kubernetes adds to CEL and our rules use; the library has the rest."""


@lru_cache(maxsize=1)
def _load_engine() -> ModuleType:
    package = find_spec("cel")
    folders = (package.submodule_search_locations or []) if package is not None else []
    for file in (Path(folder, f"cel{end}") for folder in folders for end in EXTENSION_SUFFIXES):
        spec = spec_from_file_location("cel.cel", file) if file.exists() else None
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            with _defer_interrupt():
                spec.loader.exec_module(module)
            return module
    return importlib.import_module("cel")


@contextmanager
def _defer_interrupt() -> Iterator[None]:
    """Ctrl-C waits for its turn: in the middle of its start the engine would panic."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@lru_cache(maxsize=1024)
def _compile(rule: str) -> Any:
    return _load_engine().compile(rule)


def compile_error(expression: str) -> str:
    """Why the expression is not CEL, or nothing."""
    try:
        _compile(expression)
    except ValueError as error:
        return str(error)
    return ""


def is_transition_rule(rule: str) -> bool:
    """Whether a rule compares with what was there before; such rules do not bind a new object."""
    return "oldSelf" in rule


def evaluate_rule(rule: str, value: Any, old: Any = ABSENT) -> bool | None:
    """Whether the rule is true of the value; None where it cannot be computed."""
    variables = {"self": value} if old is ABSENT else {"self": value, "oldSelf": old}
    try:
        return bool(_execute(rule, variables))
    except (ValueError, TypeError, RuntimeError, KeyError, IndexError, AttributeError):
        return None


def _execute(rule: str, variables: dict[str, Any]) -> Any:
    context = _load_engine().Context(variables=variables, functions=dict(CEL_FUNCTIONS))
    return _compile(rule).execute(context)
