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
        self.placement = placing
        self.table = placing.table
        self.reservation_manager = placing.reservation_manager
        self.failed: Queue = []
        self._reservation_wait = placing.reservation_wait
        self._placed = 0

    def run(self, queue: Queue) -> None:
        """Places what can be placed; the rest is in `failed`."""
        self._reservation_wait.can_wait_untried = not self.placement.nodes.nodes
        stretches = self._reservation_wait.build_segments(queue)
        while stretches:
            self.placement.round += 1
            self.reservation_manager.begin_round()
            self._reservation_wait.begin_round()
            self.placement.skip_inflight = False
            self._placed = self.placement.place_together(stretches)
            stretches = self._passes(stretches)
            self._end_round()
            if not self._placed:
                self.failed += [run for stretch in stretches for run in stretch.remaining_batches()]
                return

    def _passes(self, stretches: list[QueueSegment]) -> list[QueueSegment]:
        while True:
            before = self._placed
            self._reservation_wait.begin_pass()
            stretches = [stretch for stretch in stretches if self._pass(stretch)]
            if not self._reservation_wait.needs_another_pass or self._placed == before:
                return stretches

    def _pass(self, stretch: QueueSegment) -> bool:
        """Tries each pod once; leaves in the stretch those that may still find a place later."""
        if self._reservation_wait.can_skip(stretch):
            return True
        if stretch.children:
            stretch.children = [part for part in stretch.children if self._pass(part)]
            return bool(stretch.children)
        self.placement.skip_inflight = self._reservation_wait.can_skip_inflight(stretch)
        left: Queue = []
        for run in (
            self._not_skipped(stretch, left)
            if self.reservation_manager.available
            else stretch.batches
        ):
            self._try(run, left)
        stretch.batches = left
        return bool(left)

    def _not_skipped(self, stretch: QueueSegment, left: Queue) -> Iterator[PodBatch]:
        """Those who may find something; the others are left, in the order of the queue."""
        runs, number = stretch.batches, 0
        while number < len(runs):
            awake = number + self._reservation_wait.count_skippable(stretch, number)
            left += runs[number:awake]
            if awake < len(runs):
                yield runs[awake]
            number = awake + 1

    def _try(self, run: PodBatch, left: Queue) -> None:
        """Places as many pods of the run as there is room for; if one fails, so do the others."""
        group, pods, stock, place = (
            run.pod_class,
            run.pods,
            self.reservation_manager,
            self.placement.place,
        )
        for number, pod in enumerate(pods):
            if group.failed_version == stock.version and group.failed_topology_version == (
                group.has_topology and group.topology_version
            ):
                found = (
                    PlacementResult.NOT_YET
                )  # one of its kind has just failed, and nothing changed
            else:
                found = place(pod, group)
            if found is not PlacementResult.PLACED:
                self._placed += number
                self._keep_unplaced(run, number, found, left)
                return
        self._placed += len(pods)

    def _keep_unplaced(
        self, run: PodBatch, number: int, found: PlacementResult, left: Queue
    ) -> None:
        run.pods = run.pods[number:]
        if found is PlacementResult.NEVER:
            self.failed.append(run)
            return
        run.pod_class.failed_version = self.reservation_manager.version
        run.pod_class.failed_topology_version = (
            run.pod_class.has_topology and run.pod_class.topology_version
        )
        self._reservation_wait.record_unplaced(run)
        left.append(run)

    def _end_round(self) -> None:
        """Ends the round: every draft of it is pinned to what would be launched."""
        for number in iter_bits(self.table.current):
            draft = self.table.drafts[number]
            buy = choose_offering(draft.launch_options, self.reservation_manager.available_count)
            draft.pin(buy)
            draft.template.limits.count_launch(draft.template.index.types[buy.type_number].capacity)
            if draft.held:
                held = draft.template.pool_reservations.reservations_in(draft.held)
                self.reservation_manager.commit(held, buy.offering.reservation_id or "")
        for template in self.placement.templates:
            template.limits.begin_round()
        self.table.end_round()
        if self.placement.topology is not None:
            self.placement.topology.end_round()
