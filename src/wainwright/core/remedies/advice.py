"""Advice: the first fix that serves all pods that fail alike, or else the one that serves most."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from wainwright.core.remedies.changes import changed_pod
from wainwright.core.remedies.fixes import Changes
from wainwright.core.remedies.trials import Trial, Trials
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirement
from wainwright.model.suggestion import Advice, DropLabel, OfPods, SelectValue, Suggestion

TRIED: Final = 3  # fixes for pods that fail alike


def advice(
    pods: Sequence[Pod], bounded: Pod, fixes: Iterator[Changes], trials: Trials
) -> Advice | None:
    """A fix that some of the pods gain by and nobody loses by; None where none was found.

    The fixes were made for `bounded`: the first of the pods, as if it asked for all that its
    volumes and other pods ask of its place.
    """
    best: Advice | None = None
    tried = False
    few = islice(fixes, TRIED)
    for fix in few:
        for changes in trials.sized(fix, pods):
            trial = trials.whole(changes, pods)
            if trial is None:
                return best if tried else _alone(pods, bounded, chain([fix], few))
            tried = True
            best = max(best, _judged(changes, pods, trial, trials.before), key=_serves)
            if _serves(best) == len(pods):
                return best
    return best


def _judged(changes: Changes, pods: Sequence[Pod], trial: Trial, before: Trial) -> Advice | None:
    if not trial.without_place <= before.without_place:
        return None
    served = sum(pod.key not in trial.without_place for pod in pods)
    return Advice(changes=changes, serves=served, of=len(pods)) if served else None


def _serves(found: Advice | None) -> int:
    return 0 if found is None else found.serves


def _alone(pods: Sequence[Pod], bounded: Pod, fixes: Iterable[Changes]) -> Advice | None:
    """The first that can be made to the pod as it is written: no plan of everything proves it."""
    for fix in fixes:
        if _is_its_own(fix, pods[0], bounded):
            return Advice(changes=fix, serves=1, of=len(pods), alone=True)
    return None


def _is_its_own(fix: Changes, pod: Pod, bounded: Pod) -> bool:
    """Whether each change alters the pod, and what it no longer asks for nobody else asks of it."""
    return all(
        changed_pod(change, pod) != pod and not _is_asked_by_others(change, pod, bounded)
        for change in fix
        if isinstance(change, OfPods)
    )


def _is_asked_by_others(change: Suggestion, pod: Pod, bounded: Pod) -> bool:
    if not isinstance(change, DropLabel | SelectValue):
        return False
    return _asked(pod, change.key) != _asked(bounded, change.key)


def _asked(pod: Pod, key: str) -> set[Requirement | None]:
    return {wanted.get(key) for wanted in pod.alternatives}
