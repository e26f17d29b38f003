"""Taints of nodes and the tolerations of pods, held to the API server's rules."""

from collections.abc import Iterator
from typing import Final

from wainwright.api.builtin.check_labels import is_label_key, is_label_value, label_key
from wainwright.api.builtin.node import Taint
from wainwright.api.builtin.pod import Toleration
from wainwright.api.builtin.wording import among, broken, doubt, twice, wrong
from wainwright.api.fault import Fault, Path
from wainwright.api.wire import A_LABEL_KEY, A_LABEL_VALUE

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OPERATORS: Final = ("Equal", "Exists")
GATED: Final = ("Lt", "Gt")
"""Numeric comparison: known to some API servers, and there only behind a feature gate."""


def tolerations(given: list[Toleration] | None, path: Path) -> Iterator[Fault]:
    for index, toleration in enumerate(given or ()):
        yield from _toleration(toleration, (*path, index))


def _toleration(toleration: Toleration, path: Path) -> Iterator[Fault]:
    if toleration.key and not is_label_key(toleration.key):
        yield wrong((*path, "key"), toleration.key, A_LABEL_KEY)
    if not toleration.key and toleration.operator != "Exists":
        message = "a toleration without a key takes every taint and needs the operator Exists"
        yield broken((*path, "operator"), toleration.operator, message, "Exists")
    else:
        yield from _operator(toleration, path)
    if toleration.effect and toleration.effect not in EFFECTS:
        yield among((*path, "effect"), toleration.effect, EFFECTS)
    elif toleration.tolerationSeconds is not None and toleration.effect != "NoExecute":
        message = "tolerationSeconds is only for the effect NoExecute"
        yield broken((*path, "effect"), toleration.effect, message, "NoExecute")


def _operator(toleration: Toleration, path: Path) -> Iterator[Fault]:
    operator, value = toleration.operator or "Equal", toleration.value
    if operator == "Exists" and value:
        yield broken((*path, "value"), value, "the operator Exists takes no value", "no value")
    elif operator == "Equal" and not is_label_value(value):
        yield wrong((*path, "value"), value, A_LABEL_VALUE)
    elif operator in GATED:
        message = "API servers know this operator only behind a feature gate"
        yield doubt((*path, "operator"), operator, message)
    elif operator not in OPERATORS:
        yield among((*path, "operator"), operator, OPERATORS)


def taints(given: list[Taint] | None, path: Path) -> Iterator[Fault]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(given or ()):
        yield from _taint(taint, (*path, index))
        if (taint.key, taint.effect) in seen:
            yield twice((*path, index), f"{taint.key}:{taint.effect}")
        seen.add((taint.key, taint.effect))


def _taint(taint: Taint, path: Path) -> Iterator[Fault]:
    yield from label_key(taint.key, (*path, "key"))
    if not is_label_value(taint.value):
        yield wrong((*path, "value"), taint.value, A_LABEL_VALUE)
    if taint.effect not in EFFECTS:
        yield among((*path, "effect"), taint.effect, EFFECTS)
