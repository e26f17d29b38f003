"""Pods without a place: alike ones together, with every pool's verdict and a fix that was tried."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from wainwright.core.filled import filled
from wainwright.core.remedies.advice import advice
from wainwright.core.remedies.changes import for_all
from wainwright.core.remedies.fixes import fixes
from wainwright.core.remedies.trials import Again, Trials
from wainwright.core.solve import Solution
from wainwright.core.why.judge import Judge, Judged
from wainwright.core.why.state import State
from wainwright.core.wishes import PodClass
from wainwright.model.index import TypeIndex
from wainwright.model.options import MinValuesPolicy, Options
from wainwright.model.plan import PlannedClaim, Unschedulable
from wainwright.model.pod import Pod
from wainwright.model.resources import signature
from wainwright.model.snapshot import Snapshot
from wainwright.model.suggestion import Advice


class Unplaced:
    """What is to be told of the pods that a solution left without a place."""

    def __init__(
        self,
        snapshot: Snapshot,
        catalogs: Mapping[str, TypeIndex],
        options: Options,
        solution: Solution,
        claims: Sequence[PlannedClaim],
    ) -> None:
        self._snapshot, self._solution = snapshot, solution
        self._filled = filled(snapshot, catalogs, claims)
        self._state = _state(claims, solution.free, options)
        self._judge = Judge(self._filled, catalogs, self._state, solution)

    def told(self, pods: Iterable[Pod], again: Again | None) -> tuple[Unschedulable, ...]:
        """Why each has no place, once for all that are alike; fixes are tried with `again`."""
        found = [self._judge.judged(*each) for each in self._alike(pods)]
        advised = self._advised(found, again) if again is not None else {}
        told = [
            msgspec.structs.replace(each.verdict, suggestion=advised.get(id(each)))
            for each in found
        ]
        return tuple(sorted(told, key=lambda one: one.pods))

    def _alike(self, pods: Iterable[Pod]) -> Iterator[tuple[list[Pod], PodClass | None]]:
        classes = {id(pod): run.group for run in self._solution.rounds.failed for pod in run.pods}
        groups: dict[object, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: pod.key):  # so that their order does not matter
            groups.setdefault(_looks(pod, classes.get(id(pod))), []).append(pod)
        for group in groups.values():
            yield group, classes.get(id(group[0]))

    def _advised(self, found: Sequence[Judged], again: Again) -> dict[int, Advice | None]:
        """One advice for all that are told the same, those first of which there are most."""
        trials = Trials(self._snapshot, self._filled, self._solution, again)
        advised: dict[int, Advice | None] = {}
        for block in _blocks(found):
            pods = [pod for each in block for pod in each.pods]
            ways = fixes(block[0].bounded, block[0].refused, self._state)
            general = (for_all(changes, pods) for changes in ways)
            given = advice(pods, block[0].bounded, general, trials)
            advised.update((id(each), given) for each in block)
        return advised


def _blocks(found: Iterable[Judged]) -> list[list[Judged]]:
    blocks: dict[object, list[Judged]] = {}
    for each in found:
        if each.refused:
            told = msgspec.structs.replace(each.verdict, pods=())
            blocks.setdefault(told, []).append(each)
    return sorted(blocks.values(), key=_most_pods_first)


def _most_pods_first(block: Sequence[Judged]) -> tuple[int, tuple[str, ...]]:
    return -sum(len(each.pods) for each in block), min(each.verdict.pods for each in block)


def _looks(pod: Pod, group: PodClass | None) -> object:
    if group is not None:
        return group.number
    asked = (pod.alternatives, pod.tolerations, pod.unsupported, pod.contradictory)
    return (signature(pod.requests), *asked, pod.volume_problem)


def _state(claims: Sequence[PlannedClaim], free: Mapping[str, int], options: Options) -> State:
    left = dict(free)
    users: dict[str, tuple[str, ...]] = {}
    for claim in claims:
        name = claim.launch.reservation_id
        if name is not None:
            left[name] -= 1
            users[name] = (*users.get(name, ()), claim.name)
    return State(
        free=left,
        users=users,
        strict=options.min_values_policy is MinValuesPolicy.STRICT,
        reservations=options.capacity_reservations,
    )
