"""CEL: the rules that CRDs carry, run offline by the same text that the API server runs.

The library is imported on first use: it costs start-up time, and most commands meet no rule.
"""

import importlib
from functools import lru_cache
from typing import Any, Final

ABSENT: Final = object()


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator)


FUNCTIONS: Final = {"split": _split, "lowerAscii": str.lower}
"""What Kubernetes adds to CEL and our rules use; the library has the rest."""


@lru_cache(maxsize=1024)
def _program(rule: str) -> Any:
    return importlib.import_module("cel").compile(rule)


def compiles(expression: str) -> str:
    """Why the expression is not CEL, or nothing."""
    try:
        _program(expression)
    except ValueError as error:
        return str(error)
    return ""


def about_change(rule: str) -> bool:
    """Whether a rule compares with what was there before; such rules do not bind a new object."""
    return "oldSelf" in rule


def holds(rule: str, value: Any, old: Any = ABSENT) -> bool | None:
    """Whether the rule is true of the value; None where it cannot be computed."""
    variables = {"self": value} if old is ABSENT else {"self": value, "oldSelf": old}
    try:
        return bool(_evaluate(rule, variables))
    except (ValueError, TypeError, RuntimeError, KeyError, IndexError, AttributeError):
        return None


def _evaluate(rule: str, variables: dict[str, Any]) -> Any:
    context = importlib.import_module("cel").Context(variables=variables, functions=dict(FUNCTIONS))
    return _program(rule).execute(context)
