"""Drafts: new nodes being planned, as rows of a table in which a set of them is an integer, and
whether a draft can take a pod.
"""

from bisect import bisect_left
from collections.abc import Sequence

from wainwright.core.launch.launch_choice import LaunchChoice, LaunchOptions
from wainwright.core.scheduling.capacity_index import CapacityIndex, IndexEntry
from wainwright.core.scheduling.compiled_requirements import CompiledRequirements
from wainwright.core.scheduling.host_ports import HostPortUsage
from wainwright.core.scheduling.min_values import Witnesses
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.core.scheduling.pod_requirements import (
    NewNodeOption,
    PodRequirements,
    PoolCompatibility,
)
from wainwright.model.bitset import BitSet, iter_bits, largest_amount_position
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements

LEVELS_PER_CANDIDATE = (
    6  # looking through so many levels takes as long as comparing one more candidate
)


class Draft:
    """One node being planned. Types, markets and reservations left to it only ever get fewer."""

    __slots__ = (
        "bit",
        "buy",
        "good",
        "held",
        "largest",
        "levels",
        "minimums",
        "narrowing",
        "number",
        "pinned",
        "pinned_market",
        "places",
        "pods",
        "reserved_rows",
        "round",
        "rows",
        "template",
        "totals",
        "witnesses",
    )

    def __init__(
        self, number: int, round_number: int, template: NodeClaimTemplate, answer: NewNodeOption
    ) -> None:
        assert answer.narrowing is not None
        self.number = number
        self.bit: BitSet = 1 << number
        self.round = round_number
        self.template = template
        self.narrowing: CompiledRequirements = answer.narrowing
        self.rows: BitSet = answer.rows
        self.held: OfferingGroupSet = answer.held
        """Reserved markets where it holds a slot; it has to keep one of them if it had any."""
        self.reserved_rows: BitSet = template.shelf.available_in(answer.held, answer.rows)
        self.minimums = answer.minimums
        self.witnesses: Witnesses = answer.witnesses
        self.totals = [0] * len(template.sizes)
        self.places = [-1] * len(template.sizes)
        self.largest = [-1] * len(template.sizes)
        """By resource: the most that any type has which decides how much more fits."""
        self.levels: list[int] = []
        self.pods: list[Pod] = []
        self.good: BitSet = 0
        """Types of which it is not to lose the last, where somebody minds the cost."""
        self.pinned: BitSet = 0
        """The one type that it would be launched as, once its round is over."""
        self.pinned_market: OfferingGroupSet = 0
        self.buy: LaunchChoice | None = None

    @property
    def left(self) -> LaunchOptions:
        """What may still be bought for it."""
        return LaunchOptions(
            index=self.template.index,
            rows=self.rows,
            offering_groups=self.narrowing.offering_groups,
            held=self.held,
            slots=self.reserved_rows,
            requirements=self.narrowing.requirements,
            minimums=self.minimums,
        )

    def pin(self, buy: LaunchChoice) -> None:
        """From now on it is that machine, and takes only what fits there."""
        self.buy = buy
        self.pinned, self.pinned_market = 1 << buy.row, 1 << buy.offering_group

    @property
    def capacity_rows(self) -> BitSet:
        """The types that decide how much more it can take."""
        return self.pinned or self.reserved_rows or self.rows & self.good or self.rows


class DraftChange:
    """What becomes of a draft when a pod joins."""

    __slots__ = ("held", "narrowing", "reserved_rows", "rows", "witnesses")

    def __init__(self, draft: Draft, rows: BitSet, narrowing: CompiledRequirements) -> None:
        self.rows = rows
        self.narrowing = narrowing
        self.held = draft.held
        self.reserved_rows = draft.reserved_rows
        self.witnesses = draft.witnesses


class DraftTable:
    """All drafts of a plan, with the indexes that find the right one for a pod."""

    def __init__(self, templates: Sequence[NodeClaimTemplate], slack: CapacityIndex) -> None:
        self.drafts: list[Draft] = []
        self.of_template: list[BitSet] = [0] * len(templates)
        self.unreserved: BitSet = 0
        self.current: BitSet = 0
        """Drafts of this round."""
        self.slotted: BitSet = 0
        """Those of them that hold a slot."""
        self.settled: BitSet = 0
        """Those of earlier rounds: machines under way."""
        self._by_pods: list[BitSet] = [0]
        self.slack = slack
        self._ports = HostPortUsage()

    def candidates(self, wish: PodRequirements, among: BitSet) -> BitSet:
        """Those of the drafts that nothing speaks against until it is tried."""
        if not among:
            return 0
        ask = wish.ask
        left = among ^ (among & (wish.rejected | ask.rejected))
        for number in ask.refused_by:
            left ^= left & self.of_template[number]
        for short, mark in wish.short:
            if not left:
                break
            left ^= left & short[mark]
        if left and ask.ports:
            left ^= left & self._ports.clashing(ask.ports)
        return left

    def free(self, draft: Draft) -> list[int]:
        """How much of each resource the draft can take, if each is looked at by itself."""
        return [most - taken for most, taken in zip(draft.largest, draft.totals, strict=True)]

    def open_among(self, drafts: BitSet, short: Sequence[IndexEntry]) -> BitSet:
        """Those of the drafts that have at least that much room."""
        for rows, mark in short:
            drafts ^= drafts & rows[mark]
        return drafts

    def emptiest(self, drafts: BitSet) -> Draft:
        """The one with the fewest pods; of several with one pod the oldest, else the youngest.

        The youngest has been narrowed by the fewest kinds of pods: those who ask the same follow
        each other onto it, and leave the others their choices.
        """
        if not drafts & (drafts - 1):
            return self.drafts[drafts.bit_length() - 1]
        if drafts.bit_count() * LEVELS_PER_CANDIDATE <= len(self._by_pods):
            chosen = [self.drafts[number] for number in iter_bits(drafts)]
            return min(chosen, key=_pod_count_order)
        for pods, level in enumerate(self._by_pods):
            found = level & drafts
            if found:
                number = found.bit_length() if pods > 1 else (found & -found).bit_length()
                return self.drafts[number - 1]
        raise AssertionError("every draft of the round is at some level")

    def first(self, drafts: BitSet) -> Draft:
        return self.drafts[(drafts & -drafts).bit_length() - 1]

    def add(self, draft: Draft) -> None:
        self.drafts.append(draft)
        self.current |= draft.bit
        self._by_pods[0] |= draft.bit
        self.of_template[draft.template.number] |= draft.bit
        if draft.held:
            self.slotted |= draft.bit
        else:
            self.unreserved |= draft.bit
        draft.levels = self.slack.fresh()

    def put(self, pod: Pod, wish: PodRequirements, draft: Draft, *, narrowed: bool) -> None:
        """Puts the pod on the draft, whose types may have been narrowed for it before."""
        for column, amount in wish.amounts:
            draft.totals[column] += amount
        draft.pods.append(pod)
        if wish.ask.ports:
            self._ports.take(draft.bit, wish.ask.ports)
        if not draft.pinned:
            self._raise_level(draft)
        if narrowed and not draft.pinned:
            self.measure(draft)
        else:
            self._enter(draft, wish.columns)

    def measure(self, draft: Draft) -> None:
        """Looks anew at how much the draft can hold, after its types have changed."""
        rows, places = draft.capacity_rows, draft.places
        for column, sizes in enumerate(draft.template.sizes):
            place = places[column]
            if place < 0 or not sizes[1][place] & rows:  # mostly the largest type is still there
                place = places[column] = largest_amount_position(sizes, rows)
                draft.largest[column] = sizes[0][place] if place >= 0 else -1
        self._enter(draft, range(len(draft.largest)))

    def _enter(self, draft: Draft, columns: Sequence[int]) -> None:
        """Enters what is left of these resources into the slack index."""
        levels, enter = draft.levels, self.slack.enter
        for column in columns:
            free = draft.largest[column] - draft.totals[column]
            levels[column] = enter(draft.bit, column, free, levels[column])

    def settle(self) -> None:
        """Ends the round: its drafts, pinned by now, are machines under way."""
        for number in iter_bits(self.current):
            self.measure(self.drafts[number])
        self.settled |= self.current
        self.current = self.slotted = 0
        self._by_pods = [0]

    def _raise_level(self, draft: Draft) -> None:
        levels, now = self._by_pods, len(draft.pods)
        levels[now - 1] ^= draft.bit
        if now == len(levels):
            levels.append(0)
        levels[now] |= draft.bit


def _pod_count_order(draft: Draft) -> tuple[int, int]:
    pods = len(draft.pods)
    return pods, -draft.number if pods > 1 else draft.number


def try_fit(draft: Draft, wish: PodRequirements) -> DraftChange | None:
    """What becomes of the draft with one more such pod on it; None, for good, if it cannot be."""
    change = evaluate_fit(draft, wish)
    if change is None:
        terms = wish.ask.terms[draft.template.number]
        if terms is None or not draft.rows & terms.rows:
            wish.ask.rejected |= draft.bit
        else:
            wish.rejected |= draft.bit
    return change


def evaluate_fit(draft: Draft, wish: PodRequirements) -> DraftChange | None:
    """The same without remembering it.

    Sets are cut down first, as that is cheap and refuses most; requirements are put together only
    for what is left.
    """
    template = draft.template
    terms = wish.ask.terms[template.number]
    assert terms is not None, "the candidates of a wish are of pools that take it"
    rows = draft.rows & terms.rows
    totals, sizes = draft.totals, template.sizes
    for column, amount in wish.amounts if rows else ():
        amounts, having = sizes[column]
        rows &= having[bisect_left(amounts, totals[column] + amount)]
    change = _change_for(draft, terms, rows) if rows else None
    return change if change is not None and _meets_min_values(draft, change) else None


def narrow_draft(draft: Draft, asked: Requirements) -> DraftChange | None:
    """What becomes of the draft when more is required of it; None if that cannot be."""
    narrowing = draft.narrowing.joined(asked)
    if narrowing is None:
        return None
    change = DraftChange(draft, draft.rows, narrowing)
    fine = _is_valid(draft, change)
    return change if fine and _meets_min_values(draft, change) else None


def _change_for(draft: Draft, terms: PoolCompatibility, rows: BitSet) -> DraftChange | None:
    narrowing: CompiledRequirements | None = draft.narrowing
    if not terms.trivial:
        narrowing = draft.narrowing.joined(terms.asked)
    if narrowing is None:
        return None
    change = DraftChange(draft, rows, narrowing)
    return change if _is_valid(draft, change) else None


def _is_valid(draft: Draft, change: DraftChange) -> bool:
    if change.narrowing is not draft.narrowing and not _keep_offered_types(draft, change):
        return False
    kept = change.reserved_rows & change.rows
    if (
        draft.held
        and kept != draft.reserved_rows
        and not _keeps_reserved_offering(draft, change, kept)
    ):
        return False
    return not draft.pinned or _matches_pinned_offering(draft, change)


def _keep_offered_types(draft: Draft, change: DraftChange) -> bool:
    """Leaves the types that can be bought under the new requirements."""
    change.rows &= change.narrowing.rows
    change.held &= change.narrowing.reserved
    if change.held != draft.held:
        change.reserved_rows = draft.template.shelf.available_in(change.held, draft.reserved_rows)
    change.rows &= change.narrowing.offered | change.reserved_rows
    return change.rows != 0


def _keeps_reserved_offering(draft: Draft, change: DraftChange, kept: BitSet) -> bool:
    """A draft never gives up its last reserved offering; the pod opens another node instead."""
    if not kept:
        return False
    if kept != change.reserved_rows:
        change.held = draft.template.shelf.still(change.held, change.reserved_rows, kept)
        change.reserved_rows = kept
    return True


def _matches_pinned_offering(draft: Draft, change: DraftChange) -> bool:
    bought = change.narrowing.offering_groups | change.held
    return bool(change.rows & draft.pinned) and bool(bought & draft.pinned_market)


def _meets_min_values(draft: Draft, change: DraftChange) -> bool:
    if not draft.minimums:
        return True
    offering_groups = change.narrowing.offering_groups | change.held
    diversity = draft.template.diversity
    if change.narrowing is draft.narrowing:
        found = diversity.still(
            draft.minimums, draft.witnesses, change.narrowing, change.rows, offering_groups
        )
    else:
        found = diversity.witnesses(draft.minimums, change.narrowing, change.rows, offering_groups)
    if found is None:
        return False
    change.witnesses = found
    return True
