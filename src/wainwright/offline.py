"""Planning without a cluster: the input's world, its catalogues and the planner put together.

The commands and `import wainwright` both go through here, so that a notebook and the terminal
give the same answer.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.catalogue.class_catalog import (
    CatalogBuilder,
    NodeClassCatalog,
    describe_unusable,
    is_reservation_active,
    offered_reservations,
    unusable_reservations,
)
from wainwright.catalogue.diagnostics import ObjectDiagnostic
from wainwright.catalogue.instancetypes.node_class_settings import CatalogOptions as Rules
from wainwright.catalogue.offerings.capacity_reservations import SelectedReservation
from wainwright.catalogue.region_catalog import CatalogInputs, CatalogScope, FeatureGates
from wainwright.core.plan import plan
from wainwright.gc_pause import gc_paused
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS, Plan, PlanOptions, PreferencePolicy
from wainwright.model.pod import Pod
from wainwright.model.snapshot import ReservationState, Snapshot
from wainwright.translate.snapshot import translate_snapshot

NOTABLE_COST_SHARE: Final = (
    0.01  # preferences that cost less than this share of the plan go unmentioned
)


class PlanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan depends on besides the manifests."""

    now: datetime
    region: str | None = None
    gates: FeatureGates = FeatureGates()
    rules: Rules = Rules()
    options: PlanOptions = DEFAULT_PLAN_OPTIONS


class PreparedInput(msgspec.Struct, frozen=True, kw_only=True):
    """Everything compiled: what is left is to plan."""

    manifests: ClusterManifests
    conditions: PlanSettings
    built: dict[str, NodeClassCatalog]
    """The catalogue of each pool, by the pool's name."""
    snapshot: Snapshot
    warnings: tuple[str, ...]
    remarks: tuple[ObjectDiagnostic, ...]
    """What the catalogues have to say about objects of the input."""
    passed_over: tuple[SelectedReservation, ...] = ()
    """Capacity reservations that classes select and that none of them can use."""


class OfflinePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, with everything it was made from."""

    prepared: PreparedInput
    plan: Plan


def catalog_scope(manifests: ClusterManifests, pool: NodePool) -> CatalogScope:
    """For whom the pool's catalogue is made."""
    template = pool.spec.template.metadata
    return CatalogScope(
        node_class=manifests.class_of(pool),
        pool=pool.metadata.name,
        labels=(template.labels or {}) if template is not None else {},
    )


def catalog_inputs(
    manifests: ClusterManifests, conditions: PlanSettings, scopes: Iterable[CatalogScope] = ()
) -> CatalogInputs:
    """Everything that catalogues are made from; further scopes join those of the pools."""
    given = tuple(catalog_scope(manifests, pool) for pool in manifests.pools)
    return CatalogInputs(
        now=conditions.now,
        region=conditions.region,
        cloud=manifests.cloud,
        catalog=manifests.catalog,
        instance_types=tuple(manifests.instance_types),
        overlays=tuple(manifests.overlays),
        scopes=(*given, *(scope for scope in scopes if scope not in given)),
        gates=conditions.gates,
        options=conditions.rules,
    )


def prepare_input(manifests: ClusterManifests, conditions: PlanSettings) -> PreparedInput:
    """Build the catalogues and the snapshot; raises catalogue.remarks.Refused."""
    catalogues = CatalogBuilder(catalog_inputs(manifests, conditions))
    built = {
        pool.metadata.name: catalogues.build(catalog_scope(manifests, pool))
        for pool in manifests.pools
    }
    unused = unusable_reservations(built.values())
    known = [
        *offered_reservations(built.values()),
        *(each for each in unused if is_reservation_active(each, conditions.now)),
    ]
    translated = translate_snapshot(manifests, reservations=map(_model_reservation, known))
    remarks = dict.fromkeys(remark for one in built.values() for remark in one.diagnostics)
    return PreparedInput(
        manifests=manifests,
        conditions=conditions,
        built=built,
        snapshot=msgspec.structs.replace(translated.snapshot, claims=_claim_names(manifests)),
        warnings=(*translated.warnings, *describe_unusable(unused)),
        remarks=tuple(remarks),
        passed_over=tuple(unused),
    )


def _claim_names(manifests: ClusterManifests) -> frozenset[str]:
    return frozenset(claim.metadata.name for claim in manifests.claims)


def _model_reservation(selected: SelectedReservation) -> ReservationState:
    reservation = selected.reservation
    return ReservationState(
        id=reservation.id,
        total=reservation.total,
        available=selected.available,
        instance_type=reservation.instanceType,
        zone=reservation.availabilityZone,
        unusable=None if selected.is_offered else f"it {selected.standing.value}",
    )


def make_plan(prepared: PreparedInput, *, advise: bool = True) -> OfflinePlan:
    """The plan for what has been prepared; fixes are tried unless nobody will read of them."""
    indexes = {name: built.index for name, built in prepared.built.items()}
    options = prepared.conditions.options
    with gc_paused():
        made = plan(prepared.snapshot, indexes, options, advise=advise)
        warnings = _preference_cost_warnings(prepared.snapshot, indexes, options, made)
    made = msgspec.structs.replace(made, warnings=(*made.warnings, *warnings))
    return OfflinePlan(prepared=prepared, plan=made)


def _preference_cost_warnings(
    snapshot: Snapshot, indexes: Mapping[str, InstanceTypeIndex], options: PlanOptions, made: Plan
) -> tuple[str, ...]:
    """What respecting preferences costs, where it costs anything: nothing weighs them otherwise."""
    if options.preference_policy is PreferencePolicy.IGNORE or not any(
        map(_has_preferences, snapshot.pods)
    ):
        return ()
    ignoring = msgspec.structs.replace(options, preference_policy=PreferencePolicy.IGNORE)
    other = plan(snapshot, indexes, ignoring, advise=False)
    dearer = made.price + made.fees - other.price - other.fees
    if other.scheduled < made.scheduled or dearer < NOTABLE_COST_SHARE * (other.price + other.fees):
        return ()
    pods = sum(map(_has_preferences, snapshot.pods))
    return (
        f"preferences of {'1 pod' if pods == 1 else f'{pods:,} pods'} cost ${dearer:.3f}/h: "
        f"{len(made.claims):,} nodes where "
        f"{len(other.claims):,} would do without them (--preference-policy Ignore)",
    )


def _has_preferences(pod: Pod) -> bool:
    constraints = pod.constraints
    return bool(
        constraints.preferred_affinity
        or constraints.preferred_anti_affinity
        or constraints.preferred_nodes
        or any(not spread.required for spread in constraints.spreads)
    )
