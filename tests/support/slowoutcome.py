"""What the planner and the slow one make of a world, told alike."""

from collections.abc import Mapping
from typing import Any

from tests.support.obvious import Draft, choices, launch
from tests.support.randomworlds import World
from tests.support.slowlimits import Settling
from tests.support.slowplanner import SlowPlanner

from wainwright.core.plan import plan
from wainwright.model.plan import Plan, PlannedClaim
from wainwright.model.pod import Pod


def disagreement(world: World) -> str | None:
    """What the two planners see differently first; None where they agree."""
    ours, theirs = planned(world), slowly_planned(world)
    for subject, said in ours.items():
        if said != theirs[subject]:
            return f"{subject}: {said}\nbut slowly: {theirs[subject]}"
    return None


def planned(world: World) -> Mapping[str, Any]:
    made = plan(world.snapshot, world.catalogs, world.options)
    placed = {key for claim in made.claims for key in claim.pods}
    placed |= {key for placement in made.placements for key in placement.pods}
    return {
        "claims": [_told(claim) for claim in made.claims],
        "nodes": {each.node: list(each.pods) for each in made.placements},
        "unplaced": sorted(pod.key for pod in world.snapshot.pods if pod.key not in placed),
        "relaxed": _relaxed(made),
    }


def slowly_planned(world: World) -> Mapping[str, Any]:
    made = _tried(world)
    return {
        "claims": [_found(draft) for draft in made.drafts],
        "nodes": {node: _keys(pods) for node, pods in made.received.items() if pods},
        "unplaced": _keys(made.unplaced),
        "relaxed": made.given_up,
    }


def _tried(world: World) -> SlowPlanner:
    """Where other pods left some out, further tries in which drafts settle sooner, or later.

    Open choices: only for pods that some pool would launch a node for, if nobody else was there;
    and an earlier try counts unless a later one places more pods.
    """
    best: SlowPlanner | None = None
    for settling in Settling:
        if best is None or any(best.is_tied(p) and best.is_servable(p) for p in best.unplaced):
            made = SlowPlanner(world, settling)
            made.run()
            if best is None or len(made.unplaced) < len(best.unplaced):
                best = made
    assert best is not None
    return best


def _told(claim: PlannedClaim) -> dict[str, Any]:
    return {
        "pool": claim.pool,
        "round": claim.round,
        "pods": list(claim.pods),
        "requirements": str(claim.requirements),
        "choices": claim.choices,
        "launch": claim.launch,
        "relaxed": claim.relaxed,
    }


def _found(draft: Draft) -> dict[str, Any]:
    wanted = draft.shop.minimums
    return {
        "pool": draft.shop.pool.name,
        "round": draft.round,
        "pods": _keys(draft.pods),
        "requirements": str(draft.requirements),
        "choices": choices(draft),
        "launch": launch(draft),
        "relaxed": tuple(sorted(key for key, n in draft.minimums.items() if n < wanted[key])),
    }


def _relaxed(made: Plan) -> dict[str, object]:
    return {key: group.given_up for group in made.relaxed for key in group.pods}


def _keys(pods: list[Pod]) -> list[str]:
    return sorted(pod.key for pod in pods)
