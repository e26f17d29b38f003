"""plan: a snapshot in, a plan out; the same input gives the same plan, on every machine."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from wainwright.core.nodes import NodeTable
from wainwright.core.outcome import claims, placements
from wainwright.core.relaxed import relaxed
from wainwright.core.remedies.trials import Again
from wainwright.core.reservations import free_slots
from wainwright.core.solve import FIRST_FIT, Manner, Solution, solve
from wainwright.core.templates import compiled
from wainwright.core.topology.groups import Kind
from wainwright.core.unplaced import Unplaced
from wainwright.core.uses import promised, reservation_uses, without_promised
from wainwright.model.index import TypeIndex
from wainwright.model.options import DEFAULT_OPTIONS, Options, Packing
from wainwright.model.plan import PackingResult, Plan
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Snapshot

OTHERWISE: Final = (Manner(patient=frozenset()), Manner(patient=frozenset(Kind)))
"""Drafts settle as soon as anybody must know, or for nobody before their round is over."""


def plan(
    snapshot: Snapshot,
    catalogs: Mapping[str, TypeIndex],
    options: Options = DEFAULT_OPTIONS,
    *,
    advise: bool = True,
) -> Plan:
    """Which nodes for which pods; `catalogs` has what each pool can buy, by the pool's name.

    Fixes for pods without a place are tried, which takes about as long again or a fraction of a
    second, unless nobody wants them.
    """
    solution, packing = _best(snapshot, catalogs, options)
    taken = snapshot.taken_names
    made = claims(solution.rounds.table.drafts, solution.classes.resources, taken)
    homes = placements(solution.placing.nodes)
    placed = {pod for claim in made for pod in claim.pods}
    placed |= {pod for home in homes for pod in home.pods}
    left = [pod for pod in snapshot.pods if pod.key not in placed]
    again = _again(catalogs, options) if advise else None
    unplaced = Unplaced(snapshot, catalogs, options, solution, made) if left else None
    return Plan(
        claims=made,
        placements=homes,
        unschedulable=unplaced.told(left, again) if unplaced is not None else (),
        reservations=reservation_uses(
            snapshot.reservations, solution.on_offer, made, promised(snapshot.nodes)
        ),
        relaxed=relaxed(solution),
        packing=packing,
    )


def _again(catalogs: Mapping[str, TypeIndex], options: Options) -> Again:
    def packed(snapshot: Snapshot) -> Solution:
        return _best(snapshot, catalogs, options)[0]

    return Again(
        quickly=lambda snapshot: _solved(snapshot, catalogs, options),
        packed=packed if options.packing is Packing.COST else None,
    )


def _best(
    snapshot: Snapshot, catalogs: Mapping[str, TypeIndex], options: Options
) -> tuple[Solution, PackingResult | None]:
    solution = _solved(snapshot, catalogs, options)
    if options.packing is not Packing.COST:
        return solution, None
    from wainwright.core.packing.candidates import packed  # seldom needed, and not small

    return packed(solution, partial(solved, snapshot, catalogs, options))


def _solved(snapshot: Snapshot, catalogs: Mapping[str, TypeIndex], options: Options) -> Solution:
    """Where other pods left some out, it is tried in other ways as well."""
    best = solved(snapshot, catalogs, options)
    for manner in OTHERWISE:
        if not best.left_out_by_others:
            break
        other = solved(snapshot, catalogs, options, manner)
        best = other if other.left_out < best.left_out else best
    return best


def solved(
    snapshot: Snapshot,
    catalogs: Mapping[str, TypeIndex],
    options: Options,
    manner: Manner = FIRST_FIT,
) -> Solution:
    """Every pod that can be placed, placed once."""
    gate = options.capacity_reservations
    templates = compiled(snapshot.pools, catalogs, snapshot.daemonsets, gate=gate)
    nodes = NodeTable(snapshot.nodes, snapshot.daemonsets)
    placeable = [pod for pod in snapshot.pods if is_placeable(pod)]
    on_offer = free_slots(template.index for template in templates)
    free = without_promised(on_offer, snapshot.nodes)
    solution = solve(placeable, templates, nodes, free, options, manner)
    solution.on_offer = on_offer
    return solution


def is_placeable(pod: Pod) -> bool:
    """Whether there is any sense in looking for a place."""
    return bool(pod.alternatives) and not pod.unsupported and pod.volume_problem is None
