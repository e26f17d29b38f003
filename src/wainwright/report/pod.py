"""One pod of the input: where it goes and what decided, or why it goes nowhere."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wainwright.api.fault import meant
from wainwright.errors import Usage
from wainwright.model.plan import PlannedClaim
from wainwright.offline import Planned, planned
from wainwright.report.decided import sentences
from wainwright.report.document import document
from wainwright.report.grouped import nodes_said
from wainwright.report.money import hourly
from wainwright.report.outside import outside, why

Document = dict[str, Any]

STEPS = {
    "types": "types in the catalogue",
    "requirements": "after requirements",
    "resources": "after resources",
    "offerings": "after offerings",
    "minValues": "after minValues",
    "limits": "after limits",
}


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to tell of a pod."""

    pod: str
    """Its namespace and name."""
    evaluated: bool
    """Whether a place was looked for."""
    placed: bool
    lines: tuple[str, ...]


def full_story(made: Planned, name: str, *, now: str) -> Story:
    """The same for a plan without advice: fixes are tried only for a pod that has no place."""
    told = story(made, document(made, now=now), name)
    if told.placed or not told.evaluated:
        return told
    advised = planned(made.prepared)
    return story(advised, document(advised, now=now), name)


def story(planned: Planned, plan: Document, name: str) -> Story:
    """The pod that is meant; an unknown name is a usage error with a suggestion."""
    of_plan = [pod.key for pod in planned.prepared.snapshot.pods]
    found = named(of_plan, name)
    if found is None:
        return _outside(planned, of_plan, name)
    told = tuple(_told(planned, plan, found))
    placed = all(row["pod"] != found for row in plan["unschedulable"])
    return Story(pod=found, evaluated=True, placed=placed, lines=told)


def named(known: Iterable[str], name: str) -> str | None:
    """namespace/name of the pod that is meant; the namespace may be left out where it is clear."""
    found = [pod for pod in known if name in (pod, _bare(pod))]
    if len(found) > 1 and name not in found:
        raise Usage(f"several pods are called {name}", f"write one of {', '.join(sorted(found))}")
    return found[0] if found else None


def _outside(planned: Planned, of_plan: list[str], name: str) -> Story:
    others = outside(planned.prepared.world, frozenset(of_plan))
    found = named(others, name)
    if found is None:
        raise Usage(f"the input has no pod {name}", suggested(name, [*of_plan, *others]))
    line = f"{found} is not planned: {why(others[found])}"
    return Story(pod=found, evaluated=False, placed=False, lines=(line,))


def suggested(name: str, known: list[str]) -> str:
    """The pod that was probably meant. Who writes no namespace is compared without one."""
    close = meant(name, known) if "/" in name else ""
    if not close:
        by_name = {_bare(pod): pod for pod in reversed(known)}
        close = by_name.get(meant(_bare(name), list(by_name)), "")
    return f"did you mean {close}?" if close else ""


def _bare(pod: str) -> str:
    return pod.rpartition("/")[2]


def _told(planned: Planned, plan: Document, pod: str) -> Iterator[str]:
    for claim in planned.plan.claims:
        if pod in claim.pods:
            yield from _claimed(planned, claim, pod)
            return
    for placement in planned.plan.placements:
        if pod in placement.pods:
            yield f"{pod} goes to {placement.node}, which is there already and has room"
            yield "  what is there is filled before anything new is planned"
            return
    yield from _without_place(next(row for row in plan["unschedulable"] if row["pod"] == pod))


def _claimed(planned: Planned, claim: PlannedClaim, pod: str) -> Iterator[str]:
    launch, beside = claim.launch, len(claim.pods) - 1
    others = f", beside {_others(beside)}" if beside else ", alone"
    reserved = f" from {launch.reservation_id}" if launch.reservation_id else ""
    yield f"{pod} goes to {claim.name}, a new node of {claim.pool}{others}"
    yield (
        f"  bought as {launch.instance_type} in {launch.zone or 'any zone'}, "
        f"{launch.capacity_type}{reserved}, {hourly(launch.price)}"
    )
    yield from (f"  {line}" for line in sentences(planned, claim, pod))


def _others(count: int) -> str:
    return "another pod" if count == 1 else f"{count:,} other pods"


def _without_place(row: Document) -> Iterator[str]:
    yield f"{row['pod']} has no place: {row['reason']}"
    for pool in row["pools"]:
        yield f"  {pool['nodePool']}: {pool['reason']}"
        yield from (f"    {pool['funnel'][step]:>6,} {words}" for step, words in STEPS.items())
    yield from (f"  {nodes_said(each)}" for each in row["nodes"])
    if row["suggestion"]:
        yield f"  try: {row['suggestion']}"
