"""Thrifty placing: the growth rule for all, and loads packed beforehand for those who are free.

Pods that are tied to nothing are put on the nodes of the cluster first, as always. Those left are
packed, and each load opens a draft as its first pod would have and lets the others join, so that
whatever holds for first-fit holds here. Who is in no load goes where the growth rule lets him.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from wainwright.core.answer import Kind
from wainwright.core.classes import Classes
from wainwright.core.drafts import Change, Draft, DraftTable
from wainwright.core.fit import fit
from wainwright.core.ladder import Ladder, Step
from wainwright.core.nodes import NodeTable
from wainwright.core.order import Run
from wainwright.core.packing.growth import Growth
from wainwright.core.packing.homes import Home, home
from wainwright.core.packing.loading import Seed, Waiting, seeds
from wainwright.core.patience import Stretch
from wainwright.core.placing import Placing
from wainwright.core.site import Found
from wainwright.core.templates import Template
from wainwright.core.topology.topology import Topology
from wainwright.core.wishes import PodClass
from wainwright.model.columns import row_numbers, union
from wainwright.model.pod import Pod

LOOKS: Final = 3_000_000  # lots looked at for the sake of better loads: about a second
LOOKS_PER_POD: Final = 10_000  # the same where there are few pods
PACKINGS: Final = 8  # how often in one plan pods are packed anew


class Thrifty(Placing):
    """Places pods with an eye on the cost."""

    def __init__(
        self,
        templates: Sequence[Template],
        nodes: NodeTable,
        table: DraftTable,
        ladder: Ladder,
        classes: Classes,
        topology: Topology | None = None,
    ) -> None:
        super().__init__(templates, nodes, table, ladder, classes, topology)
        self.growth = Growth(templates, classes.all, classes.resources)
        self.fills = True
        """Whether loads are packed beforehand."""
        self._fit = self.growth.fit
        self._packings = 0
        self._seeds: list[Seed] = []
        """Loads that limits did not allow yet."""
        self._later: set[int] = set()
        """Their pods, which wait for that."""

    def arrange(self, stretches: Sequence[Stretch]) -> int:
        self.growth.forget()
        self._measure_pinned()
        runs = [run for stretch in stretches for run in stretch.waiting()]
        placed = self._on_nodes(runs) if self.round == 1 and self.nodes.nodes else set()
        if self.fills:
            placed |= self._in_loads(runs, placed)
        for run in runs if placed else ():
            run.pods = [pod for pod in run.pods if id(pod) not in placed]
        return len(placed)

    def place(self, pod: Pod, group: PodClass) -> Found:
        if id(pod) in self._later:
            return Found.NOTHING_YET
        return super().place(pod, group)

    def _begin(self, step: Step) -> Draft:
        draft = super()._begin(step)
        self.growth.mind(draft)
        return draft

    def _change(self, draft: Draft, change: Change) -> bool:
        fewer = super()._change(draft, change)
        self.growth.mind(draft)
        return fewer

    def _opened(self, pod: Pod, group: PodClass, step: Step) -> Found:
        if step.answer.kind is Kind.PLAIN:
            equals = self.ladder.equals(step)
            step = min(equals, key=lambda each: self.growth.price(each.template, each.wish))
        return super()._opened(pod, group, step)

    def _measure_pinned(self) -> None:
        """What a draft was pinned to may have more room than its good buys, which no longer count.

        Looked at anew from the beginning: a draft is taken to get fuller, never to get larger.
        """
        table = self.table
        drafts = [table.drafts[number] for number in row_numbers(table.settled)]
        mindful = [draft for draft in drafts if draft.good]
        table.slack.leave(union(draft.bit for draft in mindful))
        for draft in mindful:
            draft.good, draft.levels = 0, table.slack.fresh()
            draft.places = [-1] * len(draft.places)
            table.measure(draft)

    def _on_nodes(self, runs: Sequence[Run]) -> set[int]:
        """Lets the nodes of the cluster take whom they can, in the order of the queue."""
        placed: set[int] = set()
        for run in runs:
            stage = run.group.stages[0] if run.group.stages else None
            if stage is not None and stage.bound is None:
                for pod in run.pods:
                    if not self._take(pod, run.group, stage.wishes[0], -1):
                        break
                    placed.add(id(pod))
        return placed

    def _in_loads(self, runs: Sequence[Run], elsewhere: set[int]) -> set[int]:
        """Opens as many loads as limits allow; for the others their pods wait, if any was."""
        placed, waiting = self._opened_loads(self._seeds)
        if not placed:
            waiting = []
        later = {id(pod) for seed in waiting for pod, _ in seed.members}
        fresh, refused = self._opened_loads(self._packed(runs, elsewhere | placed | later))
        if fresh:
            waiting += refused
        self._seeds = waiting
        self._later = {id(pod) for seed in waiting for pod, _ in seed.members}
        return placed | fresh

    def _packed(self, runs: Sequence[Run], elsewhere: set[int]) -> list[Seed]:
        if self._packings == PACKINGS:
            return []
        waiting = self._waiting(runs, elsewhere)
        count = sum(len(each.pods) for each in waiting)
        if not count:
            return []
        self._packings += 1
        everybody = sum(len(group.pods) for group in self._classes.all)
        looks = min(LOOKS * count // everybody, LOOKS_PER_POD * count)
        return seeds(waiting, self.templates, self._classes.resources, looks)

    def _waiting(self, runs: Sequence[Run], elsewhere: set[int]) -> list[Waiting]:
        """The pods that could be packed, in the order of the queue."""
        found: dict[PodClass, Waiting | None] = {}
        for run in runs:
            if run.group not in found:
                where = home(run.group, self.ladder)
                found[run.group] = None if where is None else Waiting(run.group, where, [])
            mine = found[run.group]
            if mine is not None:
                mine.pods.extend(pod for pod in run.pods if id(pod) not in elsewhere)
        return [each for each in found.values() if each is not None and each.pods]

    def _opened_loads(self, loads: Sequence[Seed]) -> tuple[set[int], list[Seed]]:
        """The pods of those that could be opened, and those that could not."""
        placed: set[int] = set()
        refused = []
        for seed in loads:
            step = self._step(seed)
            if step is None:
                refused.append(seed)
            else:
                placed |= self._loaded(seed, step)
        return placed, refused

    def _step(self, seed: Seed) -> Step | None:
        """How the first pod of the load would open such a machine."""
        first = seed.members[0][1].home
        step = self.ladder.step(first.stage, first.wish)
        if step is None or step.answer.kind is not Kind.PLAIN:
            return None
        for each in self.ladder.equals(step):
            if each.template is seed.machine.template:
                return each if each.answer.rows >> seed.machine.row & 1 else None
        return None

    def _loaded(self, seed: Seed, step: Step) -> set[int]:
        """Opens a draft with what can be on it of the load, and counts it as what it then is."""
        draft = self._begin(step)
        placed: set[int] = set()
        for pod, (group, where, _) in seed.members:
            if not draft.pods:
                self._put(pod, group, where.wish, draft, narrowed=True)
            elif not self._joins(pod, group, where, draft):
                continue
            placed.add(id(pod))
        draft.template.limits.charge(draft.rows)
        self.stock.touch()
        return placed

    def _joins(self, pod: Pod, group: PodClass, where: Home, draft: Draft) -> bool:
        wish = where.wish
        if draft.bit & (wish.rejected | wish.ask.rejected | self._barred_from(where)):
            return False
        change = fit(draft, wish)
        if change is not None:
            self._apply(pod, group, wish, draft, change)
        return change is not None

    def _barred_from(self, where: Home) -> int:
        step = self.ladder.step(where.stage, where.wish) if self.strict_weights else None
        return self._forbidden((where.stage,), step)


class Recipe(NamedTuple):
    """How thrifty to be."""

    slack: float
    """How much more than the best buy a good buy may cost for what it is worth."""
    dearer: float
    """How many times as much it may cost because of where or how somebody wants to buy."""
    fills: bool
    """Whether loads are packed beforehand."""

    def placing(
        self,
        templates: Sequence[Template],
        nodes: NodeTable,
        table: DraftTable,
        ladder: Ladder,
        classes: Classes,
        topology: Topology | None,
    ) -> Placing:
        made = Thrifty(templates, nodes, table, ladder, classes, topology)
        made.growth.slack, made.growth.dearer = self.slack, self.dearer
        made.fills = self.fills
        return made
