"""Pods into a packing problem and back: which pending pods can be packed, from which NodePools
they would get nodes, and the pods that come to be on one node together.

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
from wainwright.core.scheduling.pod_requirements import (
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
    """Pods that ask for the same of pools of one weight."""

    ask: SchedulingRequirements
    weight: int


class PackingTarget(NamedTuple):
    """As what pods would be packed, and the weight of the pools that come first for them."""

    stage: RelaxationLevel
    wish: PodRequirements
    weight: int

    @property
    def item_class(self) -> ItemClass:
        return ItemClass(self.wish.scheduling, self.weight)


def packing_target(group: PodClass, ladder: NodePoolSelector) -> PackingTarget | None:
    """None where pods are tied to others, can use reserved capacity, or find no pool."""
    stage = group.levels[0] if group.levels else None
    if stage is None or stage.topology_constraints is not None or stage.given_up or group.ports:
        return None
    for wish in stage.alternatives:
        step = ladder.select(stage, wish)
        if step is not None:
            is_plain = step.option.kind is OptionKind.UNRESERVED
            return PackingTarget(stage, wish, step.weight) if is_plain else None
    return None


def allowed_offerings_of(
    item_class: ItemClass, templates: Sequence[NodeClaimTemplate], resources: Sequence[str]
) -> AllowedOfferings:
    rows, offering_groups = [], []
    for template in templates:
        terms = item_class.ask.compatibility[template.number]
        if terms is None or template.pool.weight != item_class.weight:
            rows.append(0)
            offering_groups.append(0)
        else:
            rows.append(_fillable_types(template, terms, resources))
            offering_groups.append(terms.compiled.offering_groups)
    return AllowedOfferings(tuple(rows), tuple(offering_groups))


def _fillable_types(
    template: NodeClaimTemplate, terms: PoolCompatibility, resources: Sequence[str]
) -> BitSet:
    """The types that would be launched if they were filled to the brim."""
    rows = terms.types & terms.compiled.offered & template.limits.allowed
    return (
        _types_keeping_min_values(template, terms, rows, resources) or rows
        if template.min_values
        else rows
    )


def _types_keeping_min_values(
    template: NodeClaimTemplate, terms: PoolCompatibility, rows: BitSet, resources: Sequence[str]
) -> BitSet:
    """Those that leave enough others which hold as much, where minValues ask for them."""
    rooms, narrowing, found = CapacityForPods(template, resources), terms.compiled, 0
    for row in iter_bits(rows):
        amounts = dict(zip(resources, rooms.of(row), strict=True))
        larger = rows & template.allocatable.fitting(amounts)
        enough = template.min_values_checker.witnesses(
            template.min_values, narrowing, larger, narrowing.offering_groups
        )
        found |= 0 if enough is None else 1 << row
    return found


def conflicting_item_classes(
    item_classes: Sequence[ItemClass], template: NodeClaimTemplate
) -> list[ItemClassSet]:
    """For each item class those who cannot be on one node of the pool with it.

    That types or markets do not suit both shows elsewhere; this is about labels that only the
    pool decides, of which a node has but one value.
    """
    found = [0] * len(item_classes)
    terms = [item_class.ask.compatibility[template.number] for item_class in item_classes]
    for number, mine in enumerate(terms):
        for other, theirs in enumerate(terms[:number]):
            if mine is not None and theirs is not None and not _can_share_node(mine, theirs):
                found[number] |= 1 << other
                found[other] |= 1 << number
    return found


def _can_share_node(mine: PoolCompatibility, theirs: PoolCompatibility) -> bool:
    return (
        mine.is_implied
        or theirs.is_implied
        or mine.compiled.combine(theirs.requirements) is not None
    )


def largest_item_classes(
    waiting: Iterable[tuple[PackingTarget, int]], most: int
) -> list[ItemClass]:
    """Those with the most pods, the first of equals; `waiting` says how many a target has."""
    counts: dict[ItemClass, int] = {}
    for each, count in waiting:
        counts[each.item_class] = counts.get(each.item_class, 0) + count
    heaviest = sorted(counts, key=lambda item_class: -counts[item_class])
    return heaviest[:most]


MAX_PACKED_CLASSES: Final = 24  # item classes that are packed; the rest is not
MAX_ITEM_TYPES: Final = 1500  # packed at once; more are split into batches


class PackablePods(NamedTuple):
    """Pods of one class that could be packed."""

    group: PodClass
    target: PackingTarget
    pods: list[Pod]


class PackedNode(NamedTuple):
    """Pods that are to be on one node."""

    bin_type: BinType
    members: list[tuple[Pod, PackablePods]]
    rate: float
    """What the bin type costs, as a multiple of what its pods cost at least."""


def pack_pods(
    waiting: Sequence[PackablePods],
    templates: Sequence[NodeClaimTemplate],
    names: Sequence[str],
    work: int,
) -> list[PackedNode]:
    """Pods by node, those of the highest weight first, then those best for their price.

    `work` says how long to go on looking for better ones, in items looked at.
    """
    item_classes = largest_item_classes(
        ((each.target, len(each.pods)) for each in waiting), MAX_PACKED_CLASSES
    )
    numbers = {item_class: number for number, item_class in enumerate(item_classes)}
    bin_types = _available_bin_types(item_classes, templates, sorted(names))
    kept = [each for each in waiting if each.target.item_class in numbers]
    items = [
        ItemType(
            resource_vector(each.target.wish, names),
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
    found: list[PackedNode] = []
    for batch in range(batches):  # each has large and small items
        problem = PackingProblem(items[batch::batches], best, encoder)
        found += _assign_pods(
            kept[batch::batches], problem, fill_and_improve(problem, work // batches)
        )
    return sorted(
        found,
        key=lambda packed_node: (-packed_node.bin_type.template.pool.weight, packed_node.rate),
    )


def fill_and_improve(problem: PackingProblem, work: int) -> list[FilledBin]:
    """All items of the problem in bins, as cheap as the search gets them."""
    filler = BinFiller(problem)
    left = [item.pods for item in problem.items]
    search = LocalSearch(filler, filler.filled_bins(left, range(len(left))))
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
    """Those for whom there is any bin type; limits may have left none that is large enough."""
    fitting = FittingBinTypes(bin_types, encoder)
    able = [
        (each, item) for each, item in zip(waiting, items, strict=True) if fitting.fits_any(item)
    ]
    return [each for each, _ in able], [item for _, item in able]


def _assign_pods(
    waiting: Sequence[PackablePods], problem: PackingProblem, found: Sequence[FilledBin]
) -> list[PackedNode]:
    """The bins with their pods, those of each item type in the order of the queue."""
    sources = [iter(each.pods) for each in waiting]
    return [
        PackedNode(
            problem.bin_types[filled_bin.bin_type],
            [
                (next(sources[item]), waiting[item])
                for item, count in sorted(filled_bin.taken)
                for _ in range(count)
            ],
            filled_bin.price / filled_bin.floor if filled_bin.floor else 1.0,
        )
        for filled_bin in sorted(found, key=lambda filled_bin: filled_bin.taken)
    ]
