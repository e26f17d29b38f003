"""Drafts: new nodes being planned, in a table where a set of drafts is an integer.

Sets are subtracted as `a ^ (a & b)`: `a & ~b` would create a negative integer as long as b, which
takes longer for sets of thousands of bits.
"""

from collections.abc import Sequence

from wainwright.core.launch.launch_choice import LaunchChoice, LaunchOptions
from wainwright.core.scheduling.capacity_index import CapacityIndex, IndexEntry
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.constraints.host_ports import HostPortUsage
from wainwright.core.scheduling.constraints.min_values import Witnesses
from wainwright.core.scheduling.constraints.volume_limits import (
    NO_VOLUMES,
    AttachedVolumes,
    Attachments,
    DraftVolumes,
)
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_classes import NewNodeOption, PodRequirements
from wainwright.model.bitset import BitSet, iter_bits, largest_amount_position
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import Pod

LEVELS_PER_CANDIDATE = 6  # checking this many levels takes as long as comparing one candidate


class Draft:
    """A node being planned. Its types, offering groups and reservations only ever get fewer."""

    __slots__ = (
        "bit",
        "compiled",
        "held",
        "index_levels",
        "largest",
        "largest_positions",
        "launch_choice",
        "min_values",
        "number",
        "opened_types",
        "pinned_group",
        "pinned_type",
        "pods",
        "preferred_types",
        "reserved_types",
        "round",
        "template",
        "totals",
        "types",
        "volumes",
        "witnesses",
    )

    def __init__(
        self, number: int, round_number: int, template: NodeClaimTemplate, option: NewNodeOption
    ) -> None:
        assert option.compiled is not None
        self.number = number
        self.bit: BitSet = 1 << number
        self.round = round_number
        self.template = template
        self.compiled: CompiledRequirements = option.compiled
        self.types: BitSet = option.types
        self.opened_types: BitSet = option.types
        self.held: OfferingGroupSet = option.held
        """Reserved groups of which it holds an instance; it must never lose the last one. Once
        pinned, those of the reservation that it is launched into."""
        self.reserved_types: BitSet = (
            template.pool_reservations.available_in(option.held, option.types) if option.held else 0
        )
        self.min_values = option.min_values
        self.witnesses: Witnesses = option.witnesses
        self.totals = [0] * len(template.allocatable_tables)
        self.largest_positions = [-1] * len(template.allocatable_tables)
        self.largest = [-1] * len(template.allocatable_tables)
        """By resource: the largest allocatable amount among `sizing_types`."""
        self.index_levels: list[int] = []
        self.pods: list[Pod] = []
        self.volumes: AttachedVolumes = NO_VOLUMES
        self.preferred_types: BitSet = 0
        """Types of which the draft must keep at least one, where the plan is packed by cost."""
        self.pinned_type: BitSet = 0
        """The one type that it would be launched as, once its round is over."""
        self.pinned_group: OfferingGroupSet = 0
        self.launch_choice: LaunchChoice | None = None

    @property
    def launch_options(self) -> LaunchOptions:
        """What it could still be launched as."""
        return LaunchOptions(
            index=self.template.index,
            types=self.types,
            offering_groups=self.compiled.offering_groups,
            held=self.held,
            reserved_types=self.reserved_types,
            requirements=self.compiled.requirements,
            min_values=self.min_values,
        )

    def pin(self, choice: LaunchChoice) -> None:
        """Fixes the launch choice: from now on it takes only pods that fit that type."""
        self.launch_choice = choice
        self.pinned_type, self.pinned_group = 1 << choice.type_number, 1 << choice.offering_group
        if self.held:
            self._pin_reservation(choice.offering_group)

    def _pin_reservation(self, offering_group: int) -> None:
        """Gives up all reservations but the one counted for it, and the types only they offer."""
        reservations = self.template.pool_reservations
        self.held &= reservations.groups_of(reservations.ids_by_group[offering_group])
        self.reserved_types = reservations.available_in(self.held, self.types)
        self.types &= self.compiled.offered | self.reserved_types

    @property
    def sizing_types(self) -> BitSet:
        """The types that decide how many more pods it can take."""
        return (
            self.pinned_type
            or self.reserved_types
            or self.types & self.preferred_types
            or self.types
        )

    def attach_limit(self, driver: str) -> int:
        """How many volumes of the driver it may have: what its cheapest type attached at first."""
        return self.template.volume_limits.of_cheapest(driver, self.opened_types)


class DraftChange:
    """The state of a draft after a pod has joined."""

    __slots__ = ("compiled", "held", "reserved_types", "types", "witnesses")

    def __init__(self, draft: Draft, types: BitSet, compiled: CompiledRequirements) -> None:
        self.types = types
        self.compiled = compiled
        self.held = draft.held
        self.reserved_types = draft.reserved_types
        self.witnesses = draft.witnesses


class DraftTable:
    """All drafts of a plan, with the indexes that find the draft for a pod."""

    def __init__(
        self,
        templates: Sequence[NodeClaimTemplate],
        capacity_index: CapacityIndex,
    ) -> None:
        self.drafts: list[Draft] = []
        self.by_template: list[BitSet] = [0] * len(templates)
        self.unreserved: BitSet = 0
        self.current: BitSet = 0
        """Drafts of this round."""
        self.reserved: BitSet = 0
        """Those of this round that hold reservations."""
        self.inflight: BitSet = 0
        """Drafts of earlier rounds, which are in-flight nodes."""
        self._pinned_since: BitSet = 0
        """Those whose room is still that of the types that they had before they were pinned."""
        self._by_pod_count: list[BitSet] = [0]
        self.capacity_index = capacity_index
        self._ports = HostPortUsage()
        self._volumes = DraftVolumes()

    def new_table(self, templates: Sequence[NodeClaimTemplate]) -> "DraftTable":
        """An empty table for a fork. The capacity index is shared: it must be one without sizes,
        which nothing is ever entered into.
        """
        return DraftTable(templates, self.capacity_index)

    def candidates(self, pod_reqs: PodRequirements, among: BitSet) -> BitSet:
        """The drafts that no index rules out; whether one fits is known only after trying it."""
        if not among:
            return 0
        scheduling = pod_reqs.scheduling
        candidates = among ^ (among & (pod_reqs.rejected_by | scheduling.rejected_by))
        # Each index removes candidates with one set operation: trying a draft costs far more.
        for number in scheduling.incompatible_pools:
            candidates ^= candidates & self.by_template[number]
        for too_full, position in pod_reqs.too_full_drafts:
            if not candidates:
                break
            candidates ^= candidates & too_full[position]
        if candidates and scheduling.ports:
            candidates = self._ports.admits(scheduling.ports, candidates)
        if candidates and pod_reqs.attachments:
            candidates ^= candidates & self._volumes.too_full(pod_reqs.attachments)
        return candidates

    def free_resources(self, draft: Draft) -> list[int]:
        """How much of each resource the draft can take, looking at each resource alone."""
        return [most - taken for most, taken in zip(draft.largest, draft.totals, strict=True)]

    def with_room(self, drafts: BitSet, entries: Sequence[IndexEntry]) -> BitSet:
        """The drafts that have at least that much room."""
        for too_full, position in entries:
            drafts ^= drafts & too_full[position]
        return drafts

    def emptiest(self, drafts: BitSet) -> Draft:
        """The one with the fewest pods; among those with one pod the oldest, else the youngest.

        The youngest was narrowed by the fewest kinds of pods: equal pods follow each other onto it,
        and the others keep their options.
        """
        # One candidate only: nothing to compare.
        if not drafts & (drafts - 1):
            return self.drafts[drafts.bit_length() - 1]
        if drafts.bit_count() * LEVELS_PER_CANDIDATE <= len(self._by_pod_count):
            chosen = [self.drafts[number] for number in iter_bits(drafts)]
            return min(chosen, key=_pod_count_order)
        # Many candidates: the first level with one of them, instead of comparing all.
        for pods, level in enumerate(self._by_pod_count):
            drafts_of_level = level & drafts
            if drafts_of_level:
                number = (
                    drafts_of_level.bit_length()
                    if pods > 1
                    else (drafts_of_level & -drafts_of_level).bit_length()
                )
                return self.drafts[number - 1]
        raise AssertionError("every draft of the round is at some level")

    def first(self, drafts: BitSet) -> Draft:
        return self.drafts[(drafts & -drafts).bit_length() - 1]

    def add(self, draft: Draft) -> None:
        self.drafts.append(draft)
        self.current |= draft.bit
        self._by_pod_count[0] |= draft.bit
        self.by_template[draft.template.number] |= draft.bit
        if draft.held:
            self.reserved |= draft.bit
        else:
            self.unreserved |= draft.bit
        draft.index_levels = self.capacity_index.initial_levels()

    def add_pod(self, pod: Pod, pod_reqs: PodRequirements, draft: Draft, *, narrowed: bool) -> None:
        """Adds the pod to the draft, whose types may have been narrowed for it before."""
        for column, amount in pod_reqs.amounts:
            draft.totals[column] += amount
        draft.pods.append(pod)
        if pod_reqs.scheduling.ports:
            self._ports.add(draft.bit, pod_reqs.scheduling.ports)
        if pod_reqs.attachments:
            self._attach(draft, pod_reqs.attachments)
        if not draft.pinned_type:
            self._raise_pod_count(draft)
        if narrowed and not draft.pinned_type:
            self.update_capacity(draft)
        else:
            self._update_index(draft, pod_reqs.columns)

    def _attach(self, draft: Draft, volumes: Attachments) -> None:
        if draft.volumes is NO_VOLUMES:
            draft.volumes = {}
        for each in volumes:
            draft.volumes.setdefault(each.driver, set()).add(each)
        for driver, attached in draft.volumes.items():
            self._volumes.set_room(draft.bit, driver, draft.attach_limit(driver) - len(attached))
        self._volumes.hold(draft.bit, volumes)

    def update_capacity(self, draft: Draft) -> None:
        """Updates how much the draft can take after its types have changed."""
        types, positions = draft.sizing_types, draft.largest_positions
        largest, totals, levels = draft.largest, draft.totals, draft.index_levels
        update, bit = self.capacity_index.update, draft.bit
        for column, table in enumerate(draft.template.allocatable_tables):
            position = positions[column]
            # Mostly the largest type is still there: saves searching the table for every pod.
            if position < 0 or not table[1][position] & types:
                position = positions[column] = largest_amount_position(table, types)
                largest[column] = table[0][position] if position >= 0 else -1
            levels[column] = update(bit, column, largest[column] - totals[column], levels[column])

    def _update_index(self, draft: Draft, columns: Sequence[int]) -> None:
        """Updates the capacity index for these resources."""
        levels, update = draft.index_levels, self.capacity_index.update
        for column in columns:
            free = draft.largest[column] - draft.totals[column]
            levels[column] = update(draft.bit, column, free, levels[column])

    def begin_round(self) -> None:
        """In-flight nodes have the room of the type that they are pinned to.

        Found when a further round needs it: most plans have one, and then nobody asks.
        """
        for number in iter_bits(self._pinned_since):
            self.update_capacity(self.drafts[number])
        self._pinned_since = 0

    def end_round(self) -> None:
        """Ends the round: its drafts, pinned by now, become in-flight nodes."""
        self._pinned_since |= self.current
        self.inflight |= self.current
        self.current = self.reserved = 0
        self._by_pod_count = [0]

    def _raise_pod_count(self, draft: Draft) -> None:
        levels, count = self._by_pod_count, len(draft.pods)
        levels[count - 1] ^= draft.bit
        if count == len(levels):
            levels.append(0)
        levels[count] |= draft.bit


def _pod_count_order(draft: Draft) -> tuple[int, int]:
    count = len(draft.pods)
    return count, -draft.number if count > 1 else draft.number
