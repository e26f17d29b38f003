"""Both schedulers on one world: who places which pods, and at what cost."""

from collections.abc import Iterable
from statistics import median

import msgspec
from tests.support.oracle import Oracle
from tests.support.oracleloop import theirs
from tests.support.oracleours import Outcome, ours, prepared
from tests.support.oracleworlds import World

RUNS = 3  # the reference is not repeatable, so it is asked several times


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A world and what came of it."""

    world: World
    ours: Outcome
    runs: tuple[Outcome, ...]

    @property
    def missing(self) -> frozenset[str]:
        """What every run of theirs places, and we do not."""
        return always(self.runs) - self.ours.placed

    @property
    def extra(self) -> frozenset[str]:
        """What we place, and no run of theirs."""
        return self.ours.placed - frozenset.union(*(run.placed for run in self.runs))

    @property
    def costs(self) -> tuple[float, float] | None:
        """Ours and the median of theirs, of the runs that place the very same pods."""
        same = [run.cost for run in self.runs if run.placed == self.ours.placed]
        return (self.ours.cost, median(same)) if same else None


def always(runs: Iterable[Outcome]) -> frozenset[str]:
    """The pods that every run places."""
    return frozenset.intersection(*(run.placed for run in runs))


def compare(oracle: Oracle, world: World, runs: int = RUNS) -> Case:
    """Both, the reference several times."""
    ready = prepared(world)
    indexes = {name: built.index for name, built in ready.built.items()}
    return Case(
        world=world,
        ours=ours(ready),
        runs=tuple(theirs(oracle, world, indexes) for _ in range(runs)),
    )
