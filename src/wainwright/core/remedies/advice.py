"""Advice: the first fix that serves all pods that fail alike, or else the one that serves most."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from wainwright.core.remedies.fixes import Changes
from wainwright.core.remedies.trials import Trial, Trials
from wainwright.model.pod import Pod
from wainwright.model.suggestion import Advice

TRIED: Final = 3  # fixes for pods that fail alike


def advice(pods: Sequence[Pod], fixes: Iterator[Changes], trials: Trials) -> Advice | None:
    """A fix that some of the pods gain by and nobody loses by; None where none was found."""
    best: Advice | None = None
    for number, fix in enumerate(islice(fixes, TRIED)):
        for changes in trials.sized(fix, pods):
            trial = trials.whole(changes, pods)
            if trial is None:
                untried = best is None and number == 0
                return Advice(changes=fix, serves=1, of=len(pods), alone=True) if untried else best
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
