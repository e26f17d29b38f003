"""Planning without a cluster: the input's world, its catalogues and the planner put together.

The commands and `import wainwright` both go through here, so that a notebook and the terminal
give the same answer.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from wainwright.api.nodepool import NodePool
from wainwright.catalogue.built import Built
from wainwright.catalogue.layers import Catalogues
from wainwright.catalogue.remarks import Remark
from wainwright.catalogue.reservations import Selected
from wainwright.catalogue.selection import offered, passed_over, said_of, still_runs
from wainwright.catalogue.settings import Options as Rules
from wainwright.catalogue.supply import Gates, Scope, Supply
from wainwright.collector import without_collector
from wainwright.core.plan import plan
from wainwright.manifests.translate.snapshot import snapshot
from wainwright.manifests.world import World
from wainwright.model.index import TypeIndex
from wainwright.model.options import DEFAULT_OPTIONS, Options, PreferencePolicy
from wainwright.model.plan import Plan
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Reservation, Snapshot

NOTABLE: Final = 0.01  # preferences that cost less than this share of the plan go unmentioned


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan depends on besides the manifests."""

    now: datetime
    region: str | None = None
    gates: Gates = Gates()
    rules: Rules = Rules()
    options: Options = DEFAULT_OPTIONS


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Everything compiled: what is left is to plan."""

    world: World
    conditions: Conditions
    built: dict[str, Built]
    """The catalogue of each pool, by the pool's name."""
    snapshot: Snapshot
    warnings: tuple[str, ...]
    remarks: tuple[Remark, ...]
    """What the catalogues have to say about objects of the input."""
    passed_over: tuple[Selected, ...] = ()
    """Capacity reservations that classes select and that none of them can use."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, with everything it was made from."""

    prepared: Prepared
    plan: Plan


def scope_of(world: World, pool: NodePool) -> Scope:
    """For whom the pool's catalogue is made."""
    template = pool.spec.template.metadata
    return Scope(
        node_class=world.class_of(pool),
        pool=pool.metadata.name,
        labels=(template.labels or {}) if template is not None else {},
    )


def supply_of(world: World, conditions: Conditions, scopes: Iterable[Scope] = ()) -> Supply:
    """Everything that catalogues are made from; further scopes join those of the pools."""
    given = tuple(scope_of(world, pool) for pool in world.pools)
    return Supply(
        now=conditions.now,
        region=conditions.region,
        cloud=world.cloud,
        catalog=world.catalog,
        instance_types=tuple(world.instance_types),
        overlays=tuple(world.overlays),
        scopes=(*given, *(scope for scope in scopes if scope not in given)),
        gates=conditions.gates,
        options=conditions.rules,
    )


def prepare(world: World, conditions: Conditions) -> Prepared:
    """Build the catalogues and the snapshot; raises catalogue.remarks.Refused."""
    catalogues = Catalogues(supply_of(world, conditions))
    built = {pool.metadata.name: catalogues.of(scope_of(world, pool)) for pool in world.pools}
    unused = passed_over(built.values())
    known = [
        *offered(built.values()),
        *(each for each in unused if still_runs(each, conditions.now)),
    ]
    translated = snapshot(world, reservations=map(_reservation, known))
    remarks = dict.fromkeys(remark for one in built.values() for remark in one.remarks)
    return Prepared(
        world=world,
        conditions=conditions,
        built=built,
        snapshot=msgspec.structs.replace(translated.snapshot, claims=_claims(world)),
        warnings=(*translated.warnings, *said_of(unused)),
        remarks=tuple(remarks),
        passed_over=tuple(unused),
    )


def _claims(world: World) -> frozenset[str]:
    return frozenset(claim.metadata.name for claim in world.claims)


def _reservation(selected: Selected) -> Reservation:
    reservation = selected.reservation
    return Reservation(
        id=reservation.id,
        total=reservation.total,
        available=selected.available,
        instance_type=reservation.instanceType,
        zone=reservation.availabilityZone,
        unusable=None if selected.is_offered else f"it {selected.standing.value}",
    )


def planned(prepared: Prepared, *, advise: bool = True) -> Planned:
    """The plan for what has been prepared; fixes are tried unless nobody will read of them."""
    indexes = {name: built.index for name, built in prepared.built.items()}
    options = prepared.conditions.options
    with without_collector():
        made = plan(prepared.snapshot, indexes, options, advise=advise)
        warnings = _dear_preferences(prepared.snapshot, indexes, options, made)
    made = msgspec.structs.replace(made, warnings=(*made.warnings, *warnings))
    return Planned(prepared=prepared, plan=made)


def _dear_preferences(
    snapshot: Snapshot, indexes: Mapping[str, TypeIndex], options: Options, made: Plan
) -> tuple[str, ...]:
    """What respecting preferences costs, where it costs anything: nothing weighs them otherwise."""
    if options.preference_policy is PreferencePolicy.IGNORE or not any(
        map(_prefers, snapshot.pods)
    ):
        return ()
    ignoring = msgspec.structs.replace(options, preference_policy=PreferencePolicy.IGNORE)
    other = plan(snapshot, indexes, ignoring, advise=False)
    dearer = made.price + made.fees - other.price - other.fees
    if other.scheduled < made.scheduled or dearer < NOTABLE * (other.price + other.fees):
        return ()
    pods = sum(map(_prefers, snapshot.pods))
    return (
        f"preferences of {'1 pod' if pods == 1 else f'{pods:,} pods'} cost ${dearer:.3f}/h: "
        f"{len(made.claims):,} nodes where "
        f"{len(other.claims):,} would do without them (--preference-policy Ignore)",
    )


def _prefers(pod: Pod) -> bool:
    bonds = pod.bonds
    return bool(
        bonds.preferred_affinity
        or bonds.preferred_anti_affinity
        or bonds.preferred_nodes
        or any(not spread.required for spread in bonds.spreads)
    )
