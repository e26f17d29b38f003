"""What is to become of a Job: how many pods it runs, when it is complete, when it has failed."""

from typing import Final

import msgspec

from wainwright.api.kubernetes.workloads import Job, JobCondition
from wainwright.clock import format_timestamp
from wainwright.translate.object_metadata import parse_timestamp

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
BACKOFF_LIMIT: Final = 6
"""Where the Job states none, as the API server has it."""


class JobPlan(msgspec.Struct, frozen=True, kw_only=True):
    desired: int
    """How many pods run at a time now."""
    finished: JobCondition | None = None
    """How it ended; None while it has not."""
    due: float | None = None
    """When time alone ends or removes it, in seconds since 1970."""


def plan_job(job: Job, *, succeeded: int, failed: int, active: int, now: float) -> JobPlan:
    known = finished_condition(job)
    if known is None:
        known = _outcome(job, succeeded, failed, active, now)
    if known is not None:
        return JobPlan(desired=0, finished=known, due=_removal(job, known))
    return JobPlan(desired=_parallelism(job, succeeded, active), due=_deadline(job))


def finished_condition(job: Job) -> JobCondition | None:
    stated = job.status.conditions or ()
    ends = (each for each in stated if each.type in (COMPLETE, FAILED) and each.status == "True")
    return next(ends, None)


def is_to_be_removed(job: Job, now: float) -> bool:
    """Whether it ended longer ago than its ttlSecondsAfterFinished."""
    condition = finished_condition(job)
    removal = None if condition is None else _removal(job, condition)
    return removal is not None and removal <= now


def _outcome(job: Job, succeeded: int, failed: int, active: int, now: float) -> JobCondition | None:
    if _has_completed(job, succeeded, active):
        return _condition(COMPLETE, "CompletionsReached", now)
    limit = BACKOFF_LIMIT if job.spec.backoffLimit is None else job.spec.backoffLimit
    if failed > limit:
        return _condition(FAILED, "BackoffLimitExceeded", now)
    deadline = _deadline(job)
    if deadline is not None and deadline <= now:
        return _condition(FAILED, "DeadlineExceeded", now)
    return None


def _condition(kind: str, reason: str, now: float) -> JobCondition:
    since = format_timestamp(now)
    return JobCondition(type=kind, status="True", reason=reason, lastTransitionTime=since)


def _has_completed(job: Job, succeeded: int, active: int) -> bool:
    if job.spec.completions is None:
        return succeeded > 0 and active == 0
    return succeeded >= job.spec.completions


def _parallelism(job: Job, succeeded: int, active: int) -> int:
    if job.spec.suspend:
        return 0
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        # A work queue: once one has succeeded, nobody is started any more.
        return min(active, parallelism) if succeeded else parallelism
    return max(0, min(parallelism, job.spec.completions - succeeded))


def _deadline(job: Job) -> float | None:
    """A suspended Job does not run; what it ran before is not counted here."""
    created = parse_timestamp(job.metadata.creationTimestamp)
    if job.spec.activeDeadlineSeconds is None or created is None or job.spec.suspend:
        return None
    return created + job.spec.activeDeadlineSeconds


def _removal(job: Job, finished: JobCondition) -> float | None:
    since = parse_timestamp(finished.lastTransitionTime)
    if job.spec.ttlSecondsAfterFinished is None or since is None:
        return None
    return since + job.spec.ttlSecondsAfterFinished
