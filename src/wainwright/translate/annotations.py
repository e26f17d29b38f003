"""Annotations of ours that people write: what each expects, and what is wrong with one.

Whoever reports a value that cannot be read goes by this: `wain validate`, plans, the EC2NodeClass
and the events of `wain run`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final

import msgspec

from wainwright.api.field_error import did_you_mean, format_value
from wainwright.api.quantity import InvalidQuantity, parse_quantity
from wainwright.model.disruption import Pause
from wainwright.translate.disruption import (
    EXPECTED_PAUSE,
    MINIMUM_SAVING_ANNOTATION,
    PAUSE_ANNOTATION,
    PAUSES_EVERYTHING,
    SPOT_TO_SPOT_TYPES_ANNOTATION,
    is_readable_pause,
    parse_duration,
    parse_minimum_saving,
    parse_type_count,
)

OWN_DOMAIN: Final = "wainwright.dev"
MEMORY_STRATEGY_ANNOTATION: Final = "wainwright.dev/kube-reserved-memory-strategy"
STORAGE_PER_POD_ANNOTATION: Final = "wainwright.dev/storage-per-pod"
RUNS_FOR_ANNOTATION: Final = "wainwright.dev/runs-for"
"""How long a pod runs in a simulation before it succeeds, unless its restartPolicy is Always."""
REMOVALS_ANNOTATION: Final = "wainwright.dev/voluntary-removals"
"""On a NodePool: what commands have removed within the window of the disruption breaker."""
MAX_HINTED: Final = 100
"""Letters of a value that is compared with the words that were perhaps meant."""
IGNORED: Final = "it is ignored"
NO_LAUNCHES: Final = "no node is launched from the class"


class KubeReservedMemoryStrategy(Enum):
    """How kube-reserved memory is computed: by pods, or by the memory of the instance."""

    EKS = "EKS"
    GKE = "GKE"


STRATEGIES: Final = tuple(each.value for each in KubeReservedMemoryStrategy)


class ExpectedValue(msgspec.Struct, frozen=True, kw_only=True):
    """What an annotation expects, and what follows where that is not what is written."""

    is_readable: Callable[[str], bool]
    expected: str
    words: tuple[str, ...] = ()
    """The words that it takes, if it takes words."""
    likely: str = ""
    """The word that is meant by a value that is similar to none."""
    effect: str = IGNORED
    is_refused: bool = False
    """Whether the commands that need the value refuse one that cannot be read."""


class AnnotationProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An annotation that does not do what it was written for."""

    key: str
    found: str
    """The value; the key where that is wrong."""
    expected: str
    effect: str
    hint: str = ""
    is_refused: bool = False

    @property
    def sentence(self) -> str:
        """As events and logs say it, which show no field beside it."""
        subject = self.key if self.found == self.key else f"{self.key}: {self.found}"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{subject} is not {self.expected}: {self.effect}{hint}"


def _is_quantity(text: str) -> bool:
    try:
        return parse_quantity(text).nano >= 0
    except InvalidQuantity:
        return False


EXPECTED_ANNOTATIONS: Final[Mapping[str, Mapping[str, ExpectedValue]]] = {
    "NodePool": {
        MINIMUM_SAVING_ANNOTATION: ExpectedValue(
            is_readable=lambda text: parse_minimum_saving(text) is not None,
            expected="5% or USD per hour such as 0.05",
        ),
        SPOT_TO_SPOT_TYPES_ANNOTATION: ExpectedValue(
            is_readable=lambda text: parse_type_count(text) is not None,
            expected="a number of instance types such as 15",
        ),
        PAUSE_ANNOTATION: ExpectedValue(
            is_readable=is_readable_pause,
            expected=EXPECTED_PAUSE,
            words=tuple(Pause),
            likely=Pause.ALL,
            effect=PAUSES_EVERYTHING,
        ),
    },
    "EC2NodeClass": {
        MEMORY_STRATEGY_ANNOTATION: ExpectedValue(
            is_readable=lambda text: text in STRATEGIES,
            expected=f"one of {', '.join(STRATEGIES)}",
            words=STRATEGIES,
            effect=NO_LAUNCHES,
            is_refused=True,
        ),
        STORAGE_PER_POD_ANNOTATION: ExpectedValue(
            is_readable=_is_quantity,
            expected="a quantity such as 2Gi",
            effect=NO_LAUNCHES,
            is_refused=True,
        ),
    },
    "Pod": {
        RUNS_FOR_ANNOTATION: ExpectedValue(
            is_readable=lambda text: parse_duration(text) is not None,
            expected="a duration such as 20m",
            effect="no simulation begins with it",
            is_refused=True,
        ),
    },
}
"""By kind; those of a Pod are in the templates of workloads too."""
WRITTEN_BY_US: Final = frozenset({REMOVALS_ANNOTATION})


def annotation_problems(kind: str, annotations: Mapping[str, str]) -> Iterator[AnnotationProblem]:
    """Of the annotations of our domain: values that cannot be read, and names that nobody reads."""
    known = EXPECTED_ANNOTATIONS.get(kind, {})
    for key, text in annotations.items():
        if key in known:
            yield from _value_problems(key, text, known[key])
        elif key.partition("/")[0] == OWN_DOMAIN and key not in WRITTEN_BY_US:
            yield _unknown(key, kind, known)


def describe_problems(problems: Iterable[AnnotationProblem]) -> str:
    return "; ".join(each.sentence for each in problems)


def _value_problems(key: str, text: str, value: ExpectedValue) -> Iterator[AnnotationProblem]:
    if not value.is_readable(text):
        meant = did_you_mean(text.strip(), [*value.words]) if len(text) <= MAX_HINTED else ""
        likely = f"did you mean {value.likely}?" if value.likely else ""
        yield AnnotationProblem(
            key=key,
            found=format_value(text),
            expected=value.expected,
            effect=value.effect,
            hint=meant or likely,
            is_refused=value.is_refused,
        )


def _unknown(key: str, kind: str, known: Mapping[str, ExpectedValue]) -> AnnotationProblem:
    others = [other for other, keys in EXPECTED_ANNOTATIONS.items() if key in keys]
    hint = f"it belongs on a {others[0]}" if others else did_you_mean(key, [*known])
    article = "an" if kind[0] in "AEIOU" else "a"
    return AnnotationProblem(
        key=key,
        found=key,
        expected=f"an annotation that {article} {kind} is known to have",
        effect=IGNORED,
        hint=hint,
    )
