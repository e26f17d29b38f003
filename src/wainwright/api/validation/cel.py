"""CEL: runs the rules of the CRDs offline, from the same text that the API server runs.
The library is loaded on first use, and only its engine module: importing the package also imports
its command-line program, which takes longer than everything else that a command does.
"""

import importlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, Final

ABSENT: Final = object()


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator)


CEL_FUNCTIONS: Final = {"split": _split, "lowerAscii": str.lower}
"""Functions that Kubernetes adds to CEL, as far as our rules use them."""


LOADING: Final = Lock()


def _load_engine() -> ModuleType:
    """Once: two threads that loaded it at the same time would make it panic."""
    with LOADING:
        return _loaded_engine()


@lru_cache(maxsize=1)
def _loaded_engine() -> ModuleType:
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
    """Defers Ctrl-C: the engine would panic if it were interrupted while it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@lru_cache(maxsize=1024)
def _compile(rule: str) -> Any:
    return _load_engine().compile(rule)


def compile_error(expression: str) -> str:
    """Why the expression is not valid CEL; empty if it is."""
    try:
        _compile(expression)
    except ValueError as error:
        return str(error)
    return ""


def is_transition_rule(rule: str) -> bool:
    """Whether a rule uses oldSelf; such rules do not apply to a new object."""
    return "oldSelf" in rule


def evaluate_rule(rule: str, value: Any, old: Any = ABSENT) -> bool | None:
    """Whether the rule holds for the value; None where it cannot be evaluated."""
    return RuleEvaluation(value, old).evaluate(rule)


class RuleEvaluation:
    """Rules on one value: passing it to the engine takes longer than most rules, and is done once
    for all of them.
    """

    def __init__(self, value: Any, old: Any = ABSENT) -> None:
        self._value, self._old = value, old
        self._context: Any = None

    def evaluate(self, rule: str) -> bool | None:
        """Whether the rule holds; None where it cannot be evaluated."""
        if type(self._value) is str and self._old is ABSENT:
            return _evaluate_text(rule, self._value)
        if type(self._value) is dict and self._old is ABSENT and _is_on_keys(rule):
            return _evaluate_keys(rule, tuple(self._value))
        return self._execute(rule)

    def _execute(self, rule: str) -> bool | None:
        try:
            if self._context is None:
                self._context = _load_engine().Context(
                    variables=self._variables(), functions=dict(CEL_FUNCTIONS)
                )
            return bool(_compile(rule).execute(self._context))
        except (ValueError, TypeError, RuntimeError, KeyError, IndexError, AttributeError):
            return None

    def _variables(self) -> dict[str, Any]:
        known = {"self": self._value}
        return known if self._old is ABSENT else {**known, "oldSelf": self._old}


@lru_cache(maxsize=65536)
def _evaluate_text(rule: str, text: str) -> bool | None:
    """Hundreds of NodePools have the same few keys of labels, with six rules each: this saves
    running them for every one.
    """
    return RuleEvaluation(text)._execute(rule)


def _is_on_keys(rule: str) -> bool:
    """Whether a rule on a mapping reads its keys alone, each by itself."""
    return rule.startswith("self.all(k, ") and rule.count("self") == 1


@lru_cache(maxsize=1024)
def _evaluate_keys(rule: str, keys: tuple[str, ...]) -> bool | None:
    """NodePools of one chart have the same labels: the rules compile an expression for every key,
    which for 200 NodePools with 100 labels took more than a third of a plan.
    """
    return RuleEvaluation(dict.fromkeys(keys, ""))._execute(rule)
