"""Seekers: pods that take no slot of a reservation, and where they are instead."""

from collections.abc import Iterable

import msgspec

from wainwright.core.idleness.homes import Homes
from wainwright.core.idleness.neighbours import Neighbours
from wainwright.core.idleness.ties import Tie
from wainwright.core.wishes import both
from wainwright.model.obstacle import Place
from wainwright.model.plan import Plan, PlannedClaim, Unschedulable
from wainwright.model.pod import ANYWHERE, Pod
from wainwright.model.preference import GivenUp
from wainwright.model.requirements import Requirements
from wainwright.model.resources import PODS, Resources, signature
from wainwright.model.snapshot import Snapshot

Whereabouts = tuple[Place, str | int]
"""With the pool of the new node, or which failure of the plan it is."""


class Seeker(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that takes no slot, for all that are alike and fared alike."""

    pod: Pod
    place: Place
    wanted: tuple[Requirements, ...]
    """Its alternatives, where its volumes can be reached."""
    needs: Resources
    """What it asks for, its slot included."""
    pool: str | None = None
    """That launches the new node it is on."""
    placed_by: Requirements | None = None
    """Of several alternatives the one that the new node is for."""
    tie: Tie | None = None
    """What other pods leave to one that is on a new node."""
    failure: Unschedulable | None = None
    given_up: tuple[GivenUp, ...] = ()
    keys: list[str] = msgspec.field(default_factory=list)


def seekers(
    snapshot: Snapshot, plan: Plan, homes: Homes, neighbours: Neighbours
) -> Iterable[Seeker]:
    """Pods that are to be placed and are on no reserved claim of the plan, alike ones together."""
    whereabouts, launched = _whereabouts(plan), _launched(plan)
    given_up = {pod: each.given_up for each in plan.relaxed for pod in each.pods}
    found: dict[object, Seeker] = {}
    for pod in snapshot.pods:
        where = whereabouts.get(pod.key)
        if where is not None:
            gave, claim = given_up.get(pod.key, ()), launched.get(pod.key)
            tie = neighbours.tie(pod, claim, gave) if claim is not None else None
            placed_by = _placed_by(pod, claim, homes) if claim is not None else None
            looks = (signature(pod.requests), pod.alternatives, pod.tolerations, pod.bonds)
            key = (looks, where, gave, tie, placed_by)
            if key not in found:
                made = _seeker(pod, where, plan, gave)
                found[key] = msgspec.structs.replace(made, tie=tie, placed_by=placed_by)
            found[key].keys.append(pod.key)
    return found.values()


def _launched(plan: Plan) -> dict[str, PlannedClaim]:
    """By pod the new node that it is on, where that takes no slot."""
    claims = (claim for claim in plan.claims if claim.launch.reservation_id is None)
    return {pod: claim for claim in claims for pod in claim.pods}


def _placed_by(pod: Pod, claim: PlannedClaim, homes: Homes) -> Requirements | None:
    if len(pod.alternatives) == 1:
        return None
    machine = homes.machine(claim)
    return next((each for each in _wanted_by(pod) if machine.compatible(each)), None)


def _whereabouts(plan: Plan) -> dict[str, Whereabouts]:
    found: dict[str, Whereabouts] = {}
    for number, failure in enumerate(plan.unschedulable):
        found |= dict.fromkeys(failure.pods, (Place.NONE, number))
    for claim in plan.claims:
        if claim.launch.reservation_id is None:
            found |= dict.fromkeys(claim.pods, (Place.NEW, claim.pool))
    for placement in plan.placements:
        found |= dict.fromkeys(placement.pods, (Place.EXISTING, 0))
    return found


def _seeker(pod: Pod, where: Whereabouts, plan: Plan, given_up: tuple[GivenUp, ...]) -> Seeker:
    place, detail = where
    return Seeker(
        pod=pod,
        place=place,
        wanted=_wanted_by(pod),
        needs={**pod.requests, PODS: 1},
        pool=detail if isinstance(detail, str) else None,
        failure=plan.unschedulable[int(detail)] if place is Place.NONE else None,
        given_up=given_up,
    )


def _wanted_by(pod: Pod) -> tuple[Requirements, ...]:
    """Each alternative with each place of the pod's volumes."""
    places = pod.bonds.volume_places
    if places is ANYWHERE:
        return pod.alternatives
    together = (both(one, place) for one in pod.alternatives for place in places)
    return tuple(dict.fromkeys(each for each in together if each is not None))
