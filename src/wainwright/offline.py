"""Planning without a cluster: connects manifests, catalogs and the planner.
The commands and `import wainwright` both use this module, so that a notebook and the terminal
give the same result.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.catalogue import regions
from wainwright.catalogue.catalog_source import DEFAULT_REGION
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
from wainwright.catalogue.offerings.capacity_state import CapacityState
from wainwright.catalogue.region_catalog import (
    CatalogInputs,
    CatalogScope,
    FeatureGates,
    offline_inputs,
)
from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.core.plan import SolvedPlan, plan, solve_plan
from wainwright.core.static_capacity import StaticPoolState, plan_static_capacity
from wainwright.errors import InvalidInputError
from wainwright.gc_pause import gc_paused
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.messages.formatting import format_count, format_hourly, join_first
from wainwright.messages.input_remarks import describe_remarks
from wainwright.model.input_remarks import (
    InputRemark,
    RegionChoice,
    RegionSource,
    RemarkKind,
)
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    ExplainedPlan,
    Plan,
    PlanOptions,
    PreferencePolicy,
)
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Node, ReservationState, Snapshot
from wainwright.translate.class_reservations import reservations_of_class_status
from wainwright.translate.cluster_state import translate_snapshot
from wainwright.translate.region_inference import infer_region
from wainwright.translate.workload_expansion import POD_LIMIT

NOTABLE_COST_SHARE: Final = 0.01  # of the plan's price; preferences that cost less are not reported


class PlanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan depends on besides the manifests."""

    now: datetime
    region: str | None = None
    gates: FeatureGates = FeatureGates()
    rules: Rules = Rules()
    options: PlanOptions = DEFAULT_PLAN_OPTIONS
    maximum_replicas: bool = False
    """Whether workloads with an autoscaler are planned with the most replicas it allows."""
    pod_limit: int = POD_LIMIT
    """How many pods the input may have, and how many nodes static NodePools."""


class PreparedInput(msgspec.Struct, frozen=True, kw_only=True):
    """The compiled input of a plan: snapshot and catalogs."""

    manifests: ClusterManifests
    settings: PlanSettings
    catalogs: dict[str, NodeClassCatalog]
    """The catalog of each NodePool, by name."""
    snapshot: Snapshot
    region: RegionChoice
    remarks: tuple[InputRemark, ...]
    warnings: tuple[str, ...]
    """The remarks as sentences, and reservations that cannot be used."""
    diagnostics: tuple[ObjectDiagnostic, ...]
    """Warnings of the catalogs about objects of the input."""
    unusable_reservations: tuple[SelectedReservation, ...] = ()
    """Capacity reservations that EC2NodeClasses select and cannot use."""


class OfflinePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and its input."""

    prepared: PreparedInput
    plan: ExplainedPlan


def catalog_scope(manifests: ClusterManifests, pool: NodePool) -> CatalogScope:
    """The class, pool and labels that the pool's catalog depends on."""
    template = pool.spec.template.metadata
    return CatalogScope(
        node_class=manifests.class_of(pool),
        pool=pool.metadata.name,
        labels=(template.labels or {}) if template is not None else {},
    )


def choose_region(manifests: ClusterManifests, stated: str | None) -> RegionChoice:
    """The region of a Catalog or Cloud, the stated one, or the one that the objects point to."""
    if manifests.catalog is not None:
        return RegionChoice(region=manifests.catalog.region, source=RegionSource.CATALOG)
    if manifests.cloud is not None:
        return RegionChoice(region=manifests.cloud.spec.region, source=RegionSource.CLOUD)
    if stated is not None:
        return RegionChoice(region=stated, source=RegionSource.OPTION)
    default = RegionChoice(region=DEFAULT_REGION, source=RegionSource.DEFAULT)
    return infer_region(manifests.objects, regions.region_of) or default


def catalog_inputs(
    manifests: ClusterManifests,
    settings: PlanSettings,
    region: RegionChoice,
    scopes: Iterable[CatalogScope] = (),
) -> CatalogInputs:
    """The inputs of the catalogs, for the pools' scopes and the given ones.

    Raises InvalidInputError for a region that is unknown or contradictory.
    """
    pool_scopes = tuple(catalog_scope(manifests, pool) for pool in manifests.pools)
    inputs = offline_inputs(
        now=settings.now,
        region=settings.region if region.is_stated else region.region,
        cloud=manifests.cloud,
        catalog=manifests.catalog,
    )
    return msgspec.structs.replace(
        inputs,
        capacity=_with_account_reservations(inputs.capacity, manifests),
        instance_types=tuple(manifests.instance_types),
        overlays=tuple(manifests.overlays),
        scopes=(*pool_scopes, *(scope for scope in scopes if scope not in pool_scopes)),
        gates=settings.gates,
        options=settings.rules,
    )


def _with_account_reservations(
    capacity: CapacityState, manifests: ClusterManifests
) -> CapacityState:
    if not _described_reservations(manifests):
        return capacity
    return msgspec.structs.replace(
        capacity,
        reservations=tuple(known_reservations(manifests)),
        from_account=capacity.from_account or manifests.cloud is None,
    )


def known_reservations(manifests: ClusterManifests) -> list[CloudReservation]:
    """Reservations that EC2 has described, or else those in the status of classes; of a Cloud those
    that nothing newer is known of.
    """
    described = _described_reservations(manifests)
    newer = {each.id for each in described}
    cloud = manifests.cloud
    stated = () if cloud is None else cloud.spec.capacityReservations or ()
    return [*(each for each in stated if each.id not in newer), *described]


def _described_reservations(manifests: ClusterManifests) -> list[CloudReservation]:
    described = manifests.account_reservations
    if described is None and manifests.cloud is None:
        return reservations_of_class_status(manifests.objects)
    return described or []


def prepare_input(manifests: ClusterManifests, settings: PlanSettings) -> PreparedInput:
    """Build the catalogs and the snapshot; raises InvalidCatalogInput."""
    region = choose_region(manifests, settings.region)
    builder = CatalogBuilder(catalog_inputs(manifests, settings, region))
    catalogs = {
        pool.metadata.name: builder.build(catalog_scope(manifests, pool))
        for pool in manifests.pools
    }
    unusable = unusable_reservations(catalogs.values())
    selected = [
        *offered_reservations(catalogs.values()),
        *(each for each in unusable if is_reservation_active(each, settings.now)),
    ]
    translated = translate_snapshot(
        manifests,
        reservations=map(_model_reservation, selected),
        now=settings.now.timestamp(),
        maximum_replicas=settings.maximum_replicas,
        pod_limit=settings.pod_limit,
    )
    _check_static_replicas(translated.snapshot, settings)
    evictions = evict_from_deleting_nodes(translated.snapshot)
    remarks = (
        *translated.remarks,
        *blocked_evictions(evictions.blocked),
        *_ignored_static_pools(translated.snapshot, settings.options),
        *(reservations_without_counts(manifests) if settings.gates.capacity_reservations else ()),
    )
    diagnostics = dict.fromkeys(
        diagnostic for catalog in catalogs.values() for diagnostic in catalog.diagnostics
    )
    return PreparedInput(
        manifests=manifests,
        settings=settings,
        catalogs=catalogs,
        snapshot=evictions.snapshot,
        region=region,
        remarks=remarks,
        warnings=(*describe_remarks(remarks), *describe_unusable(unusable)),
        diagnostics=tuple(diagnostics),
        unusable_reservations=tuple(unusable),
    )


def _check_static_replicas(snapshot: Snapshot, settings: PlanSettings) -> None:
    if not settings.options.static_capacity:
        return
    static = {pool.name: pool.replicas or 0 for pool in snapshot.pools if pool.keeps_replicas}
    total = sum(static.values())
    if total > settings.pod_limit:
        largest = max(static, key=lambda name: static[name])
        raise InvalidInputError(
            f"static NodePools have {total:,} replicas, {static[largest]:,} of them of {largest}; "
            f"at most {settings.pod_limit:,} are planned",
            hint="is a number mistyped? --pod-limit raises the limit",
        )


def reservations_without_counts(manifests: ClusterManifests) -> list[InputRemark]:
    """A remark on the reservations of which only the status of a class tells."""
    if manifests.cloud is not None or manifests.account_reservations is not None:
        return []
    ids = tuple(each.id for each in reservations_of_class_status(manifests.objects))
    if not ids:
        return []
    return [InputRemark(kind=RemarkKind.RESERVATIONS_WITHOUT_COUNTS, workloads=ids)]


def _ignored_static_pools(snapshot: Snapshot, options: PlanOptions) -> list[InputRemark]:
    names = tuple(pool.name for pool in snapshot.pools if pool.keeps_replicas)
    if options.static_capacity or not names:
        return []
    return [InputRemark(kind=RemarkKind.STATIC_POOLS_IGNORED, workloads=names)]


def blocked_evictions(pods: Iterable[Pod]) -> list[InputRemark]:
    keys = tuple(sorted(pod.key for pod in pods))
    return [InputRemark(kind=RemarkKind.EVICTION_BLOCKED, pods=keys)] if keys else []


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


def make_plan(prepared: PreparedInput, *, with_suggestions: bool = True) -> OfflinePlan:
    """The plan; without suggestions no fixes are tried for unschedulable pods, which saves time."""
    indexes = {name: catalog.index for name, catalog in prepared.catalogs.items()}
    options = prepared.settings.options
    result = plan_snapshot(prepared.snapshot, indexes, options, with_suggestions=with_suggestions)
    return OfflinePlan(prepared=prepared, plan=result)


def plan_snapshot(
    snapshot: Snapshot,
    indexes: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
    *,
    with_suggestions: bool = True,
) -> ExplainedPlan:
    """The plan, why pods are unplaced, and a warning about what respecting preferences costs."""
    with gc_paused():
        static = plan_static_capacity(snapshot, indexes, options)
        solved = solve_plan(static.snapshot, indexes, options)
        result = explain_solved_plan(solved, with_suggestions=with_suggestions)
        warnings = tuple(describe_static_pool(each) for each in static.pools)
        result = static.join(result)
    return msgspec.structs.replace(result, warnings=(*result.warnings, *warnings))


def explain_solved_plan(solved: SolvedPlan, *, with_suggestions: bool = True) -> ExplainedPlan:
    """The same of a plan that has been made."""
    result = _explain_unplaced(solved, with_suggestions=with_suggestions)
    warnings = _preference_cost_warnings(solved.snapshot, solved.catalogs, solved.options, result)
    warnings += _unpriced_node_warnings(result)
    warnings += _unexplained_warnings(result)
    return msgspec.structs.replace(result, warnings=(*result.warnings, *warnings))


def _explain_unplaced(solved: SolvedPlan, *, with_suggestions: bool) -> ExplainedPlan:
    if not solved.plan.unplaced:
        return ExplainedPlan(**msgspec.structs.asdict(solved.plan), unschedulable=())
    # Not loaded where every pod is scheduled: it takes a twentieth of the start-up.
    from wainwright.core.explain.unschedulable import explain_plan

    return explain_plan(solved, with_suggestions=with_suggestions)


def describe_static_pool(state: StaticPoolState) -> str:
    """How many of its replicas run, are planned and are missing."""
    parts = [format_count(state.replicas, "replica")]
    parts.append(format_count(state.running, "runs", "run"))
    if state.planned:
        parts.append(format_count(state.planned, "is planned", "are planned"))
    if state.missing:
        parts.append(f"{state.missing:,} cannot be launched{_missing_reason(state)}")
    if state.running > state.replicas:
        parts.append(f"{state.running - state.replicas:,} would be removed")
    return f"static NodePool {state.pool}: {', '.join(parts)}"


def _missing_reason(state: StaticPoolState) -> str:
    is_limited = state.limit is not None and state.running + state.planned >= state.limit
    if is_limited:
        return f" (limits.nodes is {state.limit:,})"
    return " (no offering is available, or a limit of the cluster is reached)"


def _preference_cost_warnings(
    snapshot: Snapshot,
    indexes: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
    respecting: Plan,
) -> tuple[str, ...]:
    """What respecting preferences costs, found by a second plan that ignores them.

    It is skipped where no pod has preferences: it would double the time for nothing.
    """
    if options.preference_policy is PreferencePolicy.IGNORE or not any(
        map(_has_preferences, snapshot.pods)
    ):
        return ()
    ignoring = msgspec.structs.replace(options, preference_policy=PreferencePolicy.IGNORE)
    without = plan(snapshot, indexes, ignoring)
    extra_cost = respecting.price + respecting.fees - without.price - without.fees
    if without.scheduled < respecting.scheduled or extra_cost < NOTABLE_COST_SHARE * (
        without.price + without.fees
    ):
        return ()
    pods = format_count(sum(map(_has_preferences, snapshot.pods)), "pod")
    modelled = respecting.has_modelled_prices or without.has_modelled_prices
    return (
        f"preferences of {pods} cost {format_hourly(extra_cost, modelled=modelled)}: "
        f"{_what_is_enough(respecting, without)} would be enough without them "
        "(--preference-policy Ignore)",
    )


def _what_is_enough(plan: Plan, cheaper: Plan) -> str:
    """The nodes of both plans, or their prices where as many nodes cost less."""
    nodes = format_count(len(plan.claims), "node")
    if len(cheaper.claims) < len(plan.claims):
        return f"{nodes} where {len(cheaper.claims):,}"
    price, lower_price = (
        format_hourly(each.price + each.fees, modelled=each.has_modelled_prices)
        for each in (plan, cheaper)
    )
    return f"{nodes} for {price} where {lower_price}"


def _unpriced_node_warnings(result: Plan) -> tuple[str, ...]:
    names = result.unpriced_nodes
    if not names:
        return ()
    return (
        f"the price of {format_count(len(names), 'node')} is unknown and counts as nothing against "
        f"the cluster's limit of pricePerHour: {join_first(names)}",
    )


def _unexplained_warnings(result: ExplainedPlan) -> tuple[str, ...]:
    unexplained = max((group.unexplained_pools for group in result.unschedulable), default=0)
    if not unexplained:
        return ()
    explained = max(len(group.pools) for group in result.unschedulable)
    pools = format_count(explained + unexplained, "NodePool")
    return (
        f"of {pools} only the first {explained:,} say why they do "
        f"not take a pod: for {format_count(len(result.unplaced), 'pod')} all would take too long",
    )


def _has_preferences(pod: Pod) -> bool:
    constraints = pod.constraints
    return bool(
        constraints.preferred_affinity
        or constraints.preferred_anti_affinity
        or constraints.preferred_nodes
        or any(not spread.required for spread in constraints.spreads)
    )


def plan_depends_on_time(prepared: PreparedInput) -> bool:
    """Whether anything that a plan is made from is compared with the time that it is made for."""
    reservations = known_reservations(prepared.manifests)
    leaving = [node for node in prepared.snapshot.nodes if node.deleting]
    return any(each.startTime or each.endTime for each in reservations) or any(
        map(has_timed_protection, leaving)
    )


def has_timed_protection(node: Node) -> bool:
    return any(
        not isinstance(pod.eviction.do_not_disrupt, bool) and pod.eviction.started is not None
        for pod in node.pods
    )
