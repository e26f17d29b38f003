"""Planning: a snapshot in, a Plan out. The same input gives the same plan on every computer.

Nothing is explained here: `core/explain` answers questions about a plan once it is made.

The second half builds the Plan from a finished solution: NodeClaims, pods on existing nodes,
relaxed preferences. Sets of instance types become lists of names there and nowhere earlier: in a
large plan most drafts have the same sets, and each set is converted once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import compress, count
from operator import itemgetter
from typing import Final, NamedTuple

from wainwright.core.cluster_usage import cluster_usage, remaining_cluster_limits
from wainwright.core.disruption.eviction import evict_from_deleting_nodes
from wainwright.core.launch.launch_choice import LaunchChoice, capacity_type_of, zone_of
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.drafts import Draft
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.new_node import fitting_types
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate, compile_templates
from wainwright.core.scheduling.pod_classes import PodClass, PodRequirements
from wainwright.core.scheduling.queue import build_queue
from wainwright.core.scheduling.reservation_manager import (
    available_counts,
    in_flight_usage,
    reservation_usage,
    without_in_flight,
)
from wainwright.core.scheduling.solver import (
    FIRST_FIT,
    CompiledCluster,
    PreparedSolve,
    Solution,
    Strategy,
)
from wainwright.core.scheduling.topology.groups import TopologyKind
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.plan import (
    DEFAULT_PLAN_OPTIONS,
    NodeAssignment,
    PackingPolicy,
    PackingResult,
    Plan,
    PlannedLaunch,
    PlannedNodeClaim,
    PlanOptions,
    RelaxedPods,
    RemainingOptions,
)
from wainwright.model.pod import Pod
from wainwright.model.reasons import RelaxedPreference
from wainwright.model.requirements import Requirement, Requirements, ValueSet
from wainwright.model.resources import sort_resources
from wainwright.model.snapshot import Snapshot

FALLBACK_STRATEGIES: Final = (
    Strategy(deferred_kinds=frozenset()),
    Strategy(deferred_kinds=frozenset(TopologyKind)),
)
"""Drafts decide on a domain as soon as any pod depends on it, or only when their round is over."""


class SolvedPlan(NamedTuple):
    """A plan with all that it was made from: what explanations of its unplaced pods need."""

    plan: Plan
    solution: Solution
    snapshot: Snapshot
    catalogs: Mapping[str, InstanceTypeIndex]
    options: PlanOptions


def plan(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> Plan:
    """Plans which nodes to launch for which pods; `catalogs` is by pool name.

    Pods of nodes that are being deleted are planned as well, where they may be evicted.
    """
    return solve_plan(snapshot, catalogs, options).plan


def solve_plan(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions = DEFAULT_PLAN_OPTIONS,
) -> SolvedPlan:
    """The same, for a caller that may ask why pods are unplaced (`explain.unschedulable`)."""
    snapshot = evict_from_deleting_nodes(snapshot).snapshot
    solution = solve_with_fallbacks(partial(prepare_snapshot, snapshot, catalogs, options))
    packing: PackingResult | None = None
    if options.packing is PackingPolicy.COST:
        solution, packing = solve_by_cost(solution, snapshot, catalogs, options)
    claims = planned_claims(solution.drafts, solution.classes.resources, snapshot.taken_names)
    made = Plan(
        claims=claims,
        placements=pods_on_existing_nodes(solution.state.nodes),
        unplaced=tuple(sorted(_unplaced_pods(snapshot, solution))),
        reservations=reservation_usage(
            snapshot.reservations, solution.catalog_counts, claims, in_flight_usage(snapshot.nodes)
        ),
        relaxed=relaxed_preferences(solution),
        packing=packing,
        unpriced_nodes=_unpriced_nodes(snapshot, catalogs, options),
    )
    return SolvedPlan(made, solution, snapshot, catalogs, options)


def _unpriced_nodes(
    snapshot: Snapshot, catalogs: Mapping[str, InstanceTypeIndex], options: PlanOptions
) -> tuple[str, ...]:
    if options.cluster_limits.price_per_hour is None:
        return ()
    return cluster_usage(snapshot, catalogs).unpriced


def _unplaced_pods(snapshot: Snapshot, solution: Solution) -> Iterator[str]:
    yield from (pod.key for pod in snapshot.pods if not is_placeable(pod))
    yield from (pod.key for batch in solution.failed for pod in batch.pods)


def solve_by_cost(
    first_fit: Solution,
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
) -> tuple[Solution, PackingResult]:
    """The cheapest solution that packing finds, starting from that of first-fit."""
    # Imported here because it is seldom needed and slow to load.
    from wainwright.core.packing.cost_placement import cheapest_solution

    return cheapest_solution(first_fit, partial(solve_snapshot, snapshot, catalogs, options))


def solve_with_fallbacks(prepare: Callable[[Strategy], PreparedSolve]) -> Solution:
    """If pods are unplaced only because of where others went, other strategies are tried too."""
    best: Solution | None = None
    for strategy in (FIRST_FIT, *FALLBACK_STRATEGIES):
        if best is not None and not best.is_blocked_by_topology:
            break
        prepared = prepare(strategy)
        prepared.rounds.run(prepared.queue)
        solution = prepared.solution()
        if best is None or solution.unplaced_count < best.unplaced_count:
            best = solution
    assert best is not None
    return best


def solve_snapshot(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
    strategy: Strategy = FIRST_FIT,
) -> Solution:
    """Solves the snapshot once with one strategy."""
    prepared = prepare_snapshot(snapshot, catalogs, options, strategy)
    prepared.rounds.run(prepared.queue)
    return prepared.solution()


def prepare_snapshot(
    snapshot: Snapshot,
    catalogs: Mapping[str, InstanceTypeIndex],
    options: PlanOptions,
    strategy: Strategy,
) -> PreparedSolve:
    """Compiles the snapshot, with the pods that can be scheduled at all."""
    gate = options.capacity_reservations
    limits = remaining_cluster_limits(snapshot, catalogs, options)
    templates = compile_templates(
        snapshot.pools, catalogs, snapshot.daemonsets, gate=gate, cluster_limits=limits
    )
    nodes = ExistingNodes(snapshot.nodes, snapshot.daemonsets)
    placeable = [pod for pod in snapshot.pods if is_placeable(pod)]
    catalog_counts = available_counts(template.index for template in templates)
    free_counts = without_in_flight(catalog_counts, snapshot.nodes)
    cluster = CompiledCluster(placeable, templates, nodes, free_counts, options)
    cluster.catalog_counts = catalog_counts
    return cluster.prepare(cluster.state, build_queue(cluster.classes.all), strategy)


def is_placeable(pod: Pod) -> bool:
    """Whether the scheduler should try to place the pod."""
    return bool(pod.alternatives) and not pod.unsupported and pod.volume_problem is None


# Turns the text of a binary number into bytes of 0 and 1 that itertools.compress understands: much
# faster than testing each bit.
FLAGS: Final = bytes.maketrans(b"01", b"\x00\x01")


class TypeNames:
    """The names of some types; any subset is converted to names in sorted order."""

    __slots__ = ("_flags_of", "_marker", "_names")

    def __init__(self, index: InstanceTypeIndex, types: BitSet) -> None:
        digits = _binary_digits(types)
        ordered = [
            type_number
            for type_number in index.name_order
            if type_number < len(digits) and digits[~type_number]
        ]
        self._names = [index.types[type_number].name for type_number in ordered]
        self._marker: BitSet = 1 << len(index.types)
        # An itemgetter with one key returns no tuple, so that the marker is read twice as well. One
        # itemgetter and one compress convert a set of hundreds of types without a Python loop.
        self._flags_of = itemgetter(*[~type_number for type_number in ordered], 0, 0)

    def of(self, types: BitSet) -> tuple[str, ...]:
        return tuple(compress(self._names, self._flags_of(_binary_digits(types | self._marker))))


def _binary_digits(types: BitSet) -> bytes:
    """For each type whether it is in the set, the last type first."""
    return bin(types)[2:].encode().translate(FLAGS)


class CatalogNames:
    """The names of a catalogue's sets; equal sets are converted once."""

    __slots__ = (
        "_admitted_cache",
        "_groups_by_value",
        "_groups_without_value",
        "_ids",
        "_index",
        "_type_names",
        "_types_cache",
        "launch_cache",
        "options_cache",
    )

    def __init__(self, index: InstanceTypeIndex) -> None:
        self._index = index
        self._ids = [offering_group.reservation_id for offering_group in index.offering_groups]
        self.options_cache: dict[tuple[CompiledRequirements, BitSet], RemainingOptions] = {}
        self.launch_cache: dict[tuple[CompiledRequirements, int, int], PlannedLaunch] = {}
        self._types_cache: dict[BitSet, tuple[str, ...]] = {}
        self._type_names: dict[BitSet, TypeNames] = {}
        self._admitted_cache: dict[tuple[str, ValueSet], list[tuple[str, OfferingGroupSet]]] = {}
        self._groups_by_value = {
            key: list(index.groups_by_value(key).items()) for key in (ZONE, CAPACITY_TYPE)
        }
        self._groups_without_value = {ZONE: index.groups_without_zone, CAPACITY_TYPE: 0}

    def types(self, types: BitSet, among: BitSet) -> tuple[str, ...]:
        """Sorted names; `among` has all types that any draft of the pool could have."""
        names = self._types_cache.get(types)
        if names is None:
            type_names = self._type_names.get(among)
            if type_names is None:
                type_names = self._type_names[among] = TypeNames(self._index, among)
            names = self._types_cache[types] = type_names.of(types)
        return names

    def values(
        self, key: str, types: BitSet, offering_groups: OfferingGroupSet, allowed: ValueSet
    ) -> tuple[str, ...]:
        """The sorted values of a label that these types have in these offering groups.

        A group without a zone counts for every zone that the catalogue knows.
        """
        available_in = self._index.available_in
        in_any_value = available_in(self._groups_without_value[key] & offering_groups) & types
        values = tuple(
            value
            for value, groups in self._groups_by_value[key]
            if allowed.admits(value)
            and (in_any_value or available_in(groups & offering_groups) & types)
        )
        return values or _required_values(allowed)

    def held(self, key: str, held: OfferingGroupSet, allowed: ValueSet) -> tuple[str, ...]:
        """The same for groups that are known to offer the remaining types."""
        admitted = self._admitted_cache.get((key, allowed))
        if admitted is None:
            admitted = self._admitted_cache[key, allowed] = [
                (value, groups | self._groups_without_value[key])
                for value, groups in self._groups_by_value[key]
                if allowed.admits(value)
            ]
        return tuple([value for value, groups in admitted if groups & held]) or _required_values(
            allowed
        )

    def reservations(self, held: OfferingGroupSet) -> tuple[str, ...]:
        ids = {self._ids[offering_group] or "" for offering_group in iter_bits(held)}
        return tuple(sorted(ids))


def _required_values(allowed: ValueSet) -> tuple[str, ...]:
    """The required values, where no offering group has one."""
    return () if allowed.open else tuple(sorted(allowed.values))


def planned_claims(
    drafts: Iterable[Draft], resources: Sequence[str], taken: AbstractSet[str] = frozenset()
) -> tuple[PlannedNodeClaim, ...]:
    """Each draft as a NodeClaim, named after its pool and numbered in order of creation.

    Names that a node of the cluster has already are skipped.
    """
    names: dict[int, CatalogNames] = {}
    names_by_pool: dict[str, Iterator[str]] = {}
    claims = []
    for draft in drafts:
        index, pool = draft.template.index, draft.template.pool.name
        if id(index) not in names:
            names[id(index)] = CatalogNames(index)
        if pool not in names_by_pool:
            names_by_pool[pool] = unused_names(pool, taken)
        claims.append(_claim(draft, next(names_by_pool[pool]), names[id(index)], resources))
    return tuple(claims)


def unused_names(pool: str, taken: AbstractSet[str]) -> Iterator[str]:
    return (name for number in count(1) if (name := f"{pool}-{number}") not in taken)


def pods_on_existing_nodes(nodes: ExistingNodes) -> tuple[NodeAssignment, ...]:
    """The existing nodes that receive pods, sorted by name."""
    received = [
        NodeAssignment(node=nodes.nodes[number].name, pods=tuple(sorted(pod.key for pod in pods)))
        for number, pods in nodes.pods.items()
        if pods
    ]
    return tuple(sorted(received, key=lambda placement: placement.node))


def _claim(
    draft: Draft, name: str, names: CatalogNames, resources: Sequence[str]
) -> PlannedNodeClaim:
    lowered = _relaxed_min_values(draft)
    return PlannedNodeClaim(
        name=name,
        pool=draft.template.pool.name,
        round=draft.round,
        requirements=_claim_requirements(draft, lowered),
        choices=_cached_options(draft, names),
        launch=_cached_launch(draft, names),
        fees=_fees(draft),
        requests=_requests(draft, resources),
        pods=tuple(sorted([pod.key for pod in draft.pods])),
        relaxed_min_values=tuple(sorted(key for key, _ in lowered)) if lowered else (),
    )


def _cached_options(draft: Draft, names: CatalogNames) -> RemainingOptions:
    if draft.held:
        return _remaining_options(draft, names)
    key = (draft.compiled, draft.types)
    options = names.options_cache.get(key)
    if options is None:  # in a large plan most drafts have the same options as another one
        options = names.options_cache[key] = _remaining_options(draft, names)
    return options


def _remaining_options(draft: Draft, names: CatalogNames) -> RemainingOptions:
    types, offering_groups = draft.types, draft.compiled.offering_groups
    allowed = draft.compiled.requirements.allowed
    zones, capacity_types = (
        names.held(key, draft.held, allowed(key))
        if draft.held
        else names.values(key, types, offering_groups, allowed(key))
        for key in (ZONE, CAPACITY_TYPE)
    )
    return RemainingOptions(
        instance_types=names.types(types, draft.template.base.types),
        zones=zones,
        capacity_types=capacity_types,
        reservation_ids=names.reservations(draft.held) if draft.held else (),
    )


def _cached_launch(draft: Draft, names: CatalogNames) -> PlannedLaunch:
    """Equal launches once: the zone and the capacity type depend on these alone."""
    choice = draft.launch_choice
    assert choice is not None, "drafts are pinned when their round is over"
    key = (draft.compiled, choice.type_number, id(choice.offering))
    launch = names.launch_cache.get(key)
    if launch is None:
        launch = names.launch_cache[key] = _launch(draft, choice)
    return launch


def _launch(draft: Draft, choice: LaunchChoice) -> PlannedLaunch:
    options = draft.launch_options
    return PlannedLaunch(
        instance_type=draft.template.index.types[choice.type_number].name,
        zone=zone_of(options, choice),
        capacity_type=capacity_type_of(options, choice),
        price=choice.offering.price,
        reservation_id=choice.offering.reservation_id,
        modelled_price=choice.offering.modelled,
    )


def _fees(draft: Draft) -> float:
    return (
        0.0
        if draft.launch_choice is None
        else draft.template.index.types[draft.launch_choice.type_number].fee
    )


def _requests(draft: Draft, resources: Sequence[str]) -> dict[str, int]:
    """Total requests by resource name; `resources` are in the order of their numbers."""
    requests = draft.template.overhead.smallest(draft.types)
    for name, amount in zip(resources, draft.totals, strict=True):
        if amount:
            requests[name] = requests.get(name, 0) + amount
    return sort_resources(requests)


def _relaxed_min_values(draft: Draft) -> list[tuple[str, int]]:
    """The minValues that are lower than the pool's; 0 if the claim does not carry them."""
    if draft.min_values is draft.template.min_values:
        return []
    if draft.held:
        return [(key, 0) for key in _unmet_by_reservation(draft)]
    pool_min_values = dict(draft.template.min_values)
    return [(key, count) for key, count in draft.min_values if count < pool_min_values[key]]


def _unmet_by_reservation(draft: Draft) -> list[str]:
    """The minValues that the types of its reservation do not meet."""
    template = draft.template
    return template.min_values_checker.unmet(
        template.min_values, draft.compiled, draft.reserved_types, draft.held
    )


def _claim_requirements(draft: Draft, lowered: Sequence[tuple[str, int]]) -> Requirements:
    requirements = draft.compiled.requirements
    if not lowered:
        return requirements
    relaxed = [
        Requirement(key=key, allowed=requirements.allowed(key), min_values=count or None)
        for key, count in lowered
    ]
    kept = requirements.without({key for key, _ in lowered})
    return kept.narrow(Requirements(relaxed))


def relaxed_preferences(solution: Solution) -> tuple[RelaxedPods, ...]:
    """Pods that gave up the same preferences, grouped and sorted by name."""
    given_up = solution.given_up
    if not given_up:
        return ()
    classes = {id(pod): pod_class for pod_class in solution.classes.all for pod in pod_class.pods}
    pods_by_class: dict[tuple[int, tuple[RelaxedPreference, ...]], list[str]] = {}
    for pod, given in given_up:
        pods_by_class.setdefault((classes[id(pod)].number, given), []).append(pod.key)
    relaxed = [
        RelaxedPods(
            pods=tuple(sorted(pods)),
            preferences=given,
            price_if_kept=_price_without_relaxing(solution, solution.classes.all[number]),
        )
        for (number, given), pods in pods_by_class.items()
    ]
    return tuple(sorted(relaxed, key=lambda each: each.pods))


def _price_without_relaxing(solution: Solution, pod_class: PodClass) -> float | None:
    """The cheapest node for such a pod with all its preferences, pod affinity aside."""
    prices = [
        price
        for pod_reqs in pod_class.levels[0].alternatives
        for template in solution.state.templates
        for price in _cheapest_prices(template, pod_reqs)
    ]
    return min(prices, default=None)


def _cheapest_prices(template: NodeClaimTemplate, pod_reqs: PodRequirements) -> Iterator[float]:
    compatibility = pod_reqs.scheduling.compatibility[template.number]
    if compatibility is None:
        return
    compiled = compatibility.compiled
    cheapest = template.index.cheapest_in_groups(
        fitting_types(template, pod_reqs) & compiled.offered, compiled.offering_groups
    )
    if cheapest is not None:
        yield cheapest[1].price
