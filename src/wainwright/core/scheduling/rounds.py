"""Rounds: pods are placed until no further pod can be.

A round is a single provisioning loop: passes over the pending pods until one pass changes nothing.
When it is over its drafts become in-flight nodes, pinned to what they would be launched as; that
gives back reservations and limits, and the next round sees what comes of it.
"""

from collections.abc import Iterator

from wainwright.core.launch.launch_choice import choose_offering
from wainwright.core.scheduling.placement import PlacementResult, PodPlacement
from wainwright.core.scheduling.queue import PodBatch, Queue, QueueSegment
from wainwright.model.bitset import iter_bits


class Rounds:
    """The state of a plan in the making."""

    def __init__(self, placing: PodPlacement) -> None:
        self.placing = placing
        self.table = placing.table
        self.stock = placing.stock
        self.failed: Queue = []
        self._patience = placing.patience
        self._placed = 0

    def run(self, queue: Queue) -> None:
        """Places what can be placed; the rest is in `failed`."""
        self._patience.at_once = not self.placing.nodes.nodes
        stretches = self._patience.stretches(queue)
        while stretches:
            self.placing.round += 1
            self.stock.begin_round()
            self._patience.begin_round()
            self.placing.passes_over_settled = False
            self._placed = self.placing.arrange(stretches)
            stretches = self._passes(stretches)
            self._settle()
            if not self._placed:
                self.failed += [run for stretch in stretches for run in stretch.waiting()]
                return

    def _passes(self, stretches: list[QueueSegment]) -> list[QueueSegment]:
        while True:
            before = self._placed
            self._patience.begin_pass()
            stretches = [stretch for stretch in stretches if self._pass(stretch)]
            if not self._patience.again or self._placed == before:
                return stretches

    def _pass(self, stretch: QueueSegment) -> bool:
        """Tries each pod once; leaves in the stretch those that may still find a place later."""
        if self._patience.all_sleep(stretch):
            return True
        if stretch.parts:
            stretch.parts = [part for part in stretch.parts if self._pass(part)]
            return bool(stretch.parts)
        self.placing.passes_over_settled = self._patience.passes_over_settled(stretch)
        left: Queue = []
        for run in self._awake(stretch, left) if self.stock.live else stretch.runs:
            self._try(run, left)
        stretch.runs = left
        return bool(left)

    def _awake(self, stretch: QueueSegment, left: Queue) -> Iterator[PodBatch]:
        """Those who may find something; the others are left, in the order of the queue."""
        runs, number = stretch.runs, 0
        while number < len(runs):
            awake = number + self._patience.asleep(stretch, number)
            left += runs[number:awake]
            if awake < len(runs):
                yield runs[awake]
            number = awake + 1

    def _try(self, run: PodBatch, left: Queue) -> None:
        """Places as many pods of the run as there is room for; if one fails, so do the others."""
        group, pods, stock, place = run.group, run.pods, self.stock, self.placing.place
        for number, pod in enumerate(pods):
            if group.stamp == stock.version and group.seen == (group.is_tied and group.watched):
                found = (
                    PlacementResult.NOTHING_YET
                )  # one of its kind has just failed, and nothing changed
            else:
                found = place(pod, group)
            if found is not PlacementResult.PLACE:
                self._placed += number
                self._keep(run, number, found, left)
                return
        self._placed += len(pods)

    def _keep(self, run: PodBatch, number: int, found: PlacementResult, left: Queue) -> None:
        run.pods = run.pods[number:]
        if found is PlacementResult.NOTHING_EVER:
            self.failed.append(run)
            return
        run.group.stamp = self.stock.version
        run.group.seen = run.group.is_tied and run.group.watched
        self._patience.wait(run)
        left.append(run)

    def _settle(self) -> None:
        """Ends the round: every draft of it is pinned to what would be launched."""
        for number in iter_bits(self.table.current):
            draft = self.table.drafts[number]
            buy = choose_offering(draft.left, self.stock.free)
            draft.pin(buy)
            draft.template.limits.settle(draft.template.index.types[buy.row].capacity)
            if draft.held:
                held = draft.template.shelf.ids(draft.held)
                self.stock.settle(held, buy.offering.reservation_id or "")
        for template in self.placing.templates:
            template.limits.begin_round()
        self.table.settle()
        if self.placing.topology is not None:
            self.placing.topology.end_round()
