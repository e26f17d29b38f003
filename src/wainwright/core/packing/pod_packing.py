"""Pods into a packing problem and back: which pending pods can be packed, which NodePools would
launch nodes for them, and which pods share a node.

Pods with topology constraints or host ports, pods for which reserved capacity is available,
and pods that no NodePool takes are not packed: the growth rule places them.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from wainwright.core.packing.bin_filling import BinFiller
from wainwright.core.packing.bin_types import (
    AllowedOfferings,
    BinType,
    CapacityForPods,
    ItemClassSet,
    enumerate_bin_types,
    remove_dominated,
)
from wainwright.core.packing.local_search import LocalSearch
from wainwright.core.packing.packing_problem import (
    FilledBin,
    FittingBinTypes,
    ItemType,
    PackingProblem,
    resource_vector,
)
from wainwright.core.packing.resource_vectors import VectorEncoder, encoder_for
from wainwright.core.scheduling.new_node import NodePoolSelector
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import (
    OptionKind,
    PodClass,
    PodRequirements,
    PoolCompatibility,
    RelaxationLevel,
    SchedulingRequirements,
)
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.pod import Pod


class ItemClass(NamedTuple):
    """Pods with the same scheduling requirements that use NodePools of the same weight."""

    scheduling_reqs: SchedulingRequirements
    weight: int


class PackingTarget(NamedTuple):
    """The alternative by which pods are packed, and the weight of the first pools that take it."""

    level: RelaxationLevel
    pod_reqs: PodRequirements
    weight: int

    @property
    def item_class(self) -> ItemClass:
        return ItemClass(self.pod_reqs.scheduling, self.weight)


def packing_target(pod_class: PodClass, pool_selector: NodePoolSelector) -> PackingTarget | None:
    """None for pods with topology constraints, host ports or volumes that are limited, with
    reserved capacity to use, or without a pool."""
    level = pod_class.levels[0] if pod_class.levels else None
    if level is None or level.topology_constraints is not None or level.given_up:
        return None
    if pod_class.ports or level.alternatives[0].attachments:
        return None
    for pod_reqs in level.alternatives:
        candidate = pool_selector.select(level, pod_reqs)
        if candidate is not None:
            is_plain = candidate.option.kind is OptionKind.UNRESERVED
            return PackingTarget(level, pod_reqs, candidate.weight) if is_plain else None
    return None


def allowed_offerings_of(
    item_class: ItemClass, templates: Sequence[NodeClaimTemplate], resources: Sequence[str]
) -> AllowedOfferings:
    types, offering_groups = [], []
    for template in templates:
        compatibility = item_class.scheduling_reqs.compatibility[template.number]
        if compatibility is None or template.pool.weight != item_class.weight:
            types.append(0)
            offering_groups.append(0)
        else:
            types.append(_fillable_types(template, compatibility, resources))
            offering_groups.append(compatibility.compiled.offering_groups)
    return AllowedOfferings(tuple(types), tuple(offering_groups))


def _fillable_types(
    template: NodeClaimTemplate, compatibility: PoolCompatibility, resources: Sequence[str]
) -> BitSet:
    """The types that could be launched with all their room in use."""
    types = compatibility.types & compatibility.compiled.offered & template.limits.admitted
    if not template.min_values:
        return types
    return _types_keeping_min_values(template, compatibility, types, resources) or types


def _types_keeping_min_values(
    template: NodeClaimTemplate,
    compatibility: PoolCompatibility,
    types: BitSet,
    resources: Sequence[str],
) -> BitSet:
    """The types for which enough others have as much room to satisfy minValues when full."""
    rooms, compiled, kept = CapacityForPods(template, resources), compatibility.compiled, 0
    for type_number in iter_bits(types):
        amounts = dict(zip(resources, rooms.room_of(type_number), strict=True))
        larger = types & template.allocatable.fitting(amounts)
        witnesses = template.min_values_checker.admits(
            template.min_values, compiled, larger, compiled.offering_groups
        )
        kept |= 0 if witnesses is None else 1 << type_number
    return kept


def conflicting_item_classes(
    item_classes: Sequence[ItemClass], template: NodeClaimTemplate
) -> list[ItemClassSet]:
    """For each item class the others that cannot share a node of the pool with it.

    Types or offering groups that do not suit both are left out by the bin types; this is about
    labels that only the pool decides, of which a node has a single value.
    """
    conflicts = [0] * len(item_classes)
    by_class = [each.scheduling_reqs.compatibility[template.number] for each in item_classes]
    for number, one in enumerate(by_class):
        for other_number, other in enumerate(by_class[:number]):
            if one is not None and other is not None and not _can_share_node(one, other):
                conflicts[number] |= 1 << other_number
                conflicts[other_number] |= 1 << number
    return conflicts


def _can_share_node(one: PoolCompatibility, other: PoolCompatibility) -> bool:
    return (
        one.is_implied or other.is_implied or one.compiled.combine(other.requirements) is not None
    )


def largest_item_classes(
    waiting: Iterable[tuple[PackingTarget, int]], most: int
) -> list[ItemClass]:
    """Those with the most pods, the first of equals; `waiting` has the number of pods by target."""
    counts: dict[ItemClass, int] = {}
    for each, count in waiting:
        counts[each.item_class] = counts.get(each.item_class, 0) + count
    largest_first = sorted(counts, key=lambda item_class: -counts[item_class])
    return largest_first[:most]


# Each class splits bin types further; the growth rule places the rest.
MAX_PACKED_CLASSES: Final = 24
# Packed at once; more are split into batches, as time grows with its square.
MAX_ITEM_TYPES: Final = 1500


class PackablePods(NamedTuple):
    """Pods of one class that could be packed."""

    pod_class: PodClass
    target: PackingTarget
    pods: list[Pod]


class PackedNode(NamedTuple):
    """Pods that share one new node."""

    bin_type: BinType
    members: list[tuple[Pod, PackablePods]]
    rate: float
    """Price of the bin type, as a multiple of the least that its pods cost."""


def pack_pods(
    waiting: Sequence[PackablePods],
    templates: Sequence[NodeClaimTemplate],
    names: Sequence[str],
    work: int,
) -> list[PackedNode]:
    """Pods by new node: of the pools with the highest weight first, then the lowest rate first.

    `work` limits the local search, in items looked at.
    """
    item_classes = largest_item_classes(
        ((each.target, len(each.pods)) for each in waiting), MAX_PACKED_CLASSES
    )
    numbers = {item_class: number for number, item_class in enumerate(item_classes)}
    bin_types = _available_bin_types(item_classes, templates, sorted(names))
    kept = [each for each in waiting if each.target.item_class in numbers]
    items = [
        ItemType(
            resource_vector(each.target.pod_reqs, names),
            len(each.pods),
            numbers[each.target.item_class],
        )
        for each in kept
    ]
    if not bin_types:
        return []
    encoder = encoder_for(
        [item.amounts for item in items], [bin_type.room for bin_type in bin_types]
    )
    best = remove_dominated(bin_types, encoder)
    kept, items = _packable(kept, items, best, encoder)
    batches = -(-len(items) // MAX_ITEM_TYPES)
    packed_nodes: list[PackedNode] = []
    for batch in range(batches):  # every n-th, so that each batch has large and small items
        problem = PackingProblem(items[batch::batches], best, encoder)
        packed_nodes += _assign_pods(
            kept[batch::batches], problem, fill_and_improve(problem, work // batches)
        )
    return sorted(
        packed_nodes,
        key=lambda packed_node: (-packed_node.bin_type.template.pool.weight, packed_node.rate),
    )


def fill_and_improve(problem: PackingProblem, work: int) -> list[FilledBin]:
    """All items of the problem in bins, as cheap as the search gets them."""
    filler = BinFiller(problem)
    remaining = [item.pods for item in problem.items]
    search = LocalSearch(filler, filler.fill(remaining, range(len(remaining))))
    search.improve(work)
    return search.filled_bins


def _available_bin_types(
    item_classes: Sequence[ItemClass],
    templates: Sequence[NodeClaimTemplate],
    resources: Sequence[str],
) -> list[BinType]:
    allowed_offerings = [
        allowed_offerings_of(item_class, templates, resources) for item_class in item_classes
    ]
    conflicts = {
        template.number: conflicting_item_classes(item_classes, template) for template in templates
    }
    return enumerate_bin_types(templates, allowed_offerings, resources, conflicts)


def _packable(
    waiting: Sequence[PackablePods],
    items: Sequence[ItemType],
    bin_types: Sequence[BinType],
    encoder: VectorEncoder,
) -> tuple[list[PackablePods], list[ItemType]]:
    """Those that fit any bin type; limits may have left none that is large enough."""
    fitting = FittingBinTypes(bin_types, encoder)
    packable = [
        (each, item) for each, item in zip(waiting, items, strict=True) if fitting.fits_any(item)
    ]
    return [each for each, _ in packable], [item for _, item in packable]


def _assign_pods(
    waiting: Sequence[PackablePods], problem: PackingProblem, filled_bins: Sequence[FilledBin]
) -> list[PackedNode]:
    """The bins with their pods, those of each item type in the order of the queue."""
    sources = [iter(each.pods) for each in waiting]
    return [
        PackedNode(
            problem.bin_types[filled_bin.bin_type],
            [
                (next(sources[item]), waiting[item])
                for item, count in sorted(filled_bin.contents)
                for _ in range(count)
            ],
            filled_bin.price / filled_bin.floor if filled_bin.floor else 1.0,
        )
        for filled_bin in sorted(filled_bins, key=lambda filled_bin: filled_bin.contents)
    ]
