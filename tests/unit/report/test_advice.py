"""Fixes as sentences: what to do, and how much is known of it."""

import pytest

from wainwright.model.suggestion import Advice, DropLabel, RaiseLimit, Suggestion, Tolerate
from wainwright.model.taints import Toleration
from wainwright.report.advice import suggestion

DROP = DropLabel(key="zone", pool="web")
DISK = DropLabel(key="disk", pool="web")
CPU = RaiseLimit(resource="cpu", now=2000, to=4000, pool="web")
NODES = RaiseLimit(resource="nodes", now=1, to=2, pool="web")
GPU = Tolerate(toleration=Toleration(key="gpu"), pool="web")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ((DROP,), "do not select zone"),
        ((DROP, DISK), "do not select zone and disk"),
        (
            (CPU, NODES),
            "raise the limit of pool web to 4 instead of 2 cpu and 2 instead of 1 nodes",
        ),
        (
            (GPU, DROP, CPU),
            "let the pod tolerate gpu, and do not select zone, "
            "and raise the limit of pool web to 4 instead of 2 cpu",
        ),
    ],
)
def test_changes_of_one_kind_are_said_at_once(changes: tuple[Suggestion, ...], told: str) -> None:
    assert suggestion(Advice(changes=changes, serves=1, of=1)) == told


@pytest.mark.parametrize(
    ("serves", "of", "alone", "known"),
    [
        (3, 3, False, ""),
        (2, 3, False, " (serves 2 of the 3 pods that fail alike)"),
        (1, 1, True, " (tried for this pod alone)"),
        (1, 4000, True, " (tried for one of the 4,000 pods that fail alike, alone)"),
    ],
)
def test_it_is_said_for_whom_it_was_tried(serves: int, of: int, alone: bool, known: str) -> None:
    advice = Advice(changes=(DROP,), serves=serves, of=of, alone=alone)
    assert suggestion(advice) == f"do not select zone{known}"
