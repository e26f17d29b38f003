"""What `make bench ARGS=simulate` calls the share of disruption."""

from collections.abc import Iterator

import pytest
from benchmarks.simulate import Stopwatch, time_disruption

from wainwright.controllers.disruption import disruption_controller
from wainwright.core.disruption.disruption_pass import DisruptionPass


class Work:
    """Takes time of a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0

    def step(self) -> None:
        self.now += 1.0

    def outer(self) -> None:
        self.step()
        self.step()

    def slices(self) -> Iterator[int]:
        for number in range(3):
            self.now += 10.0
            yield number
        self.now += 10.0


def test_work_within_work_is_counted_once() -> None:
    work = Work()
    watch = Stopwatch(lambda: work.now)
    watch.wrap(work, "step")
    watch.wrap(work, "outer")
    work.outer()
    assert watch.seconds == 2.0


def test_every_slice_is_timed_and_nothing_between_them() -> None:
    work = Work()
    watch = Stopwatch(lambda: work.now)
    watch.wrap_iterator(work, "slices")
    for _ in work.slices():
        work.now += 100.0
    assert watch.seconds == 40.0


def test_disruption_is_timed_where_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = [
        (DisruptionPass, "__init__"),
        (DisruptionPass, "prepare"),
        (DisruptionPass, "find_command"),
        (DisruptionPass, "confirm"),
        (disruption_controller, "node_outcomes"),
    ]
    before = [getattr(owner, name) for owner, name in timed]
    for (owner, name), function in zip(timed, before, strict=True):
        monkeypatch.setattr(owner, name, function)  # puts it back
    time_disruption(Stopwatch())
    after = [getattr(owner, name) for owner, name in timed]
    assert [old is new for old, new in zip(before, after, strict=True)] == [False] * len(timed)
