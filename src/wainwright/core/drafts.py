"""Drafts: nodes being planned, as rows of a table in which a set of them is an integer."""

from collections.abc import Sequence

from wainwright.core.answer import Answer
from wainwright.core.launch import Buy, Left
from wainwright.core.minvalues import Witnesses
from wainwright.core.narrowing import Narrowing
from wainwright.core.ports import Ports
from wainwright.core.slack import Place, Slack
from wainwright.core.templates import Template
from wainwright.core.wishes import Wish
from wainwright.model.columns import Rows, row_numbers
from wainwright.model.markets import Markets
from wainwright.model.pod import Pod
from wainwright.model.thresholds import largest_place

LEVELS = 6  # looking through so many levels takes as long as comparing one more candidate


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

    def __init__(self, number: int, round_number: int, template: Template, answer: Answer) -> None:
        assert answer.narrowing is not None
        self.number = number
        self.bit: Rows = 1 << number
        self.round = round_number
        self.template = template
        self.narrowing: Narrowing = answer.narrowing
        self.rows: Rows = answer.rows
        self.held: Markets = answer.held
        """Reserved markets where it holds a slot; it has to keep one of them if it had any."""
        self.reserved_rows: Rows = template.shelf.sold_in(answer.held, answer.rows)
        self.minimums = answer.minimums
        self.witnesses: Witnesses = answer.witnesses
        self.totals = [0] * len(template.sizes)
        self.places = [-1] * len(template.sizes)
        self.largest = [-1] * len(template.sizes)
        """By resource: the most that any type has which decides how much more fits."""
        self.levels: list[int] = []
        self.pods: list[Pod] = []
        self.good: Rows = 0
        """Types of which it is not to lose the last, where somebody minds the cost."""
        self.pinned: Rows = 0
        """The one type that it would be launched as, once its round is over."""
        self.pinned_market: Markets = 0
        self.buy: Buy | None = None

    @property
    def left(self) -> Left:
        """What may still be bought for it."""
        return Left(
            index=self.template.index,
            rows=self.rows,
            markets=self.narrowing.markets,
            held=self.held,
            slots=self.reserved_rows,
            requirements=self.narrowing.requirements,
            minimums=self.minimums,
        )

    def pin(self, buy: Buy) -> None:
        """From now on it is that machine, and takes only what fits there."""
        self.buy = buy
        self.pinned, self.pinned_market = 1 << buy.row, 1 << buy.market

    @property
    def capacity_rows(self) -> Rows:
        """The types that decide how much more it can take."""
        return self.pinned or self.reserved_rows or self.rows & self.good or self.rows


class Change:
    """What becomes of a draft when a pod joins."""

    __slots__ = ("held", "narrowing", "reserved_rows", "rows", "witnesses")

    def __init__(self, draft: Draft, rows: Rows, narrowing: Narrowing) -> None:
        self.rows = rows
        self.narrowing = narrowing
        self.held = draft.held
        self.reserved_rows = draft.reserved_rows
        self.witnesses = draft.witnesses


class DraftTable:
    """All drafts of a plan, with the indexes that find the right one for a pod."""

    def __init__(self, templates: Sequence[Template], slack: Slack) -> None:
        self.drafts: list[Draft] = []
        self.of_template: list[Rows] = [0] * len(templates)
        self.unreserved: Rows = 0
        self.current: Rows = 0
        """Drafts of this round."""
        self.slotted: Rows = 0
        """Those of them that hold a slot."""
        self.settled: Rows = 0
        """Those of earlier rounds: machines under way."""
        self._by_pods: list[Rows] = [0]
        self.slack = slack
        self._ports = Ports()

    def candidates(self, wish: Wish, among: Rows) -> Rows:
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

    def open_among(self, drafts: Rows, short: Sequence[Place]) -> Rows:
        """Those of the drafts that have at least that much room."""
        for rows, mark in short:
            drafts ^= drafts & rows[mark]
        return drafts

    def emptiest(self, drafts: Rows) -> Draft:
        """The one with the fewest pods; of several with one pod the oldest, else the youngest.

        The youngest has been narrowed by the fewest kinds of pods: those who ask the same follow
        each other onto it, and leave the others their choices.
        """
        if not drafts & (drafts - 1):
            return self.drafts[drafts.bit_length() - 1]
        if drafts.bit_count() * LEVELS <= len(self._by_pods):
            chosen = [self.drafts[number] for number in row_numbers(drafts)]
            return min(chosen, key=_fewest)
        for pods, level in enumerate(self._by_pods):
            found = level & drafts
            if found:
                number = found.bit_length() if pods > 1 else (found & -found).bit_length()
                return self.drafts[number - 1]
        raise AssertionError("every draft of the round is at some level")

    def first(self, drafts: Rows) -> Draft:
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

    def put(self, pod: Pod, wish: Wish, draft: Draft, *, narrowed: bool) -> None:
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
                place = places[column] = largest_place(sizes, rows)
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
        for number in row_numbers(self.current):
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


def _fewest(draft: Draft) -> tuple[int, int]:
    pods = len(draft.pods)
    return pods, -draft.number if pods > 1 else draft.number
