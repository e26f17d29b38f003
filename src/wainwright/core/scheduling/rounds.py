"""Rounds: pods are placed until no further pod can be.

A round is a single provisioning loop: passes over the pending pods until one pass changes nothing.
When it is over its drafts become in-flight nodes, pinned to the offering they would be launched
with. That releases reservations and limits, which the next round can use.
"""

from collections.abc import Iterable, Iterator

from wainwright.core.scheduling.placement import PlacementResult, PodPlacement
from wainwright.core.scheduling.pod_classes import PodClass
from wainwright.core.scheduling.queue import PodBatch, Queue, QueueSegment
from wainwright.model.bitset import iter_bits


class Rounds:
    """Runs rounds over a queue and keeps the state between them."""

    def __init__(self, placement: PodPlacement) -> None:
        self.placement = placement
        self.state = placement.state
        self.table = placement.state.table
        self.reservation_manager = placement.state.reservation_manager
        self.failed: Queue = []
        self._reservation_wait = placement.state.reservation_wait
        self._placed = 0

    def run(self, queue: Queue) -> None:
        """Places every pod that can be placed; the others end up in `failed`."""
        self._reservation_wait.can_wait_untried = not self.state.nodes.nodes
        if self.state.nodes.nodes:
            # Who waited in another simulation was tried on the nodes there, and not yet here.
            for batch in queue:
                batch.pod_class.awaited_reservations = None
        segments = self._reservation_wait.build_segments(queue)
        while segments:
            self.state.round += 1
            if self.state.round > 1:
                self.table.begin_round()
                self.reservation_manager.begin_round()
            self._reservation_wait.begin_round()
            self._placed = self.placement.begin_round(segments)
            before = -1
            while self._placed != before:
                before = self._placed
                self._reservation_wait.begin_pass()
                segments = [segment for segment in segments if self._pass(segment)]
                if not self._reservation_wait.needs_another_pass:
                    break
            self._end_round()
            if not self._placed:
                self.failed += [
                    batch for segment in segments for batch in segment.remaining_batches()
                ]
                return

    def _pass(self, segment: QueueSegment) -> bool:
        """Tries each pod of the segment once; keeps those that may be placed later."""
        if self._reservation_wait.can_skip(segment):
            return True
        if segment.children:
            segment.children = [child for child in segment.children if self._pass(child)]
            return bool(segment.children)
        self.placement.skip_inflight = self._reservation_wait.can_skip_inflight(segment)
        remaining: Queue = []
        batches: Iterable[PodBatch] = segment.batches
        if self.reservation_manager.available:  # without any, no pod waits for a reservation
            batches = self._not_skipped(segment, remaining)
        for batch in batches:
            self._try(batch, remaining)
        segment.batches = remaining
        return bool(remaining)

    def _not_skipped(self, segment: QueueSegment, remaining: Queue) -> Iterator[PodBatch]:
        """The batches that may be placed now; skipped ones go to `remaining`, in queue order."""
        batches, number = segment.batches, 0
        while number < len(batches):
            next_tried = number + self._reservation_wait.count_skippable(segment, number)
            remaining += batches[number:next_tried]
            if next_tried < len(batches):
                yield batches[next_tried]
            number = next_tried + 1

    def _try(self, batch: PodBatch, remaining: Queue) -> None:
        """Places pods of the batch until one cannot be placed; the others cannot be either."""
        pod_class, pods, reservation_manager, place = (
            batch.pod_class,
            batch.pods,
            self.reservation_manager,
            self.placement.place,
        )
        for number, pod in enumerate(pods):
            if (
                pod_class.failed_version == reservation_manager.version
                and pod_class.failed_topology_version == self._topology_version(pod_class)
            ):
                # A pod of this class failed and nothing has changed since: saves trying again.
                result = PlacementResult.NOT_YET
            else:
                result = place(pod, pod_class)
            if result is not PlacementResult.PLACED:
                self._placed += number
                self._keep_unplaced(batch, number, result, remaining)
                return
        self._placed += len(pods)

    def _keep_unplaced(
        self, batch: PodBatch, number: int, result: PlacementResult, remaining: Queue
    ) -> None:
        batch.pods = batch.pods[number:]
        if result is PlacementResult.NEVER:
            self.failed.append(batch)
            return
        batch.pod_class.failed_version = self.reservation_manager.version
        batch.pod_class.failed_topology_version = self._topology_version(batch.pod_class)
        self._reservation_wait.record_unplaced(batch)
        remaining.append(batch)

    def _topology_version(self, pod_class: PodClass) -> int:
        topology = self.state.topology
        if topology is None or not pod_class.has_topology:
            return 0
        return topology.version_of(pod_class)

    def _end_round(self) -> None:
        """Ends the round: every draft of it is pinned to the offering it would be launched with."""
        for number in iter_bits(self.table.current):
            draft = self.table.drafts[number]
            choice = self.state.choose_launch(draft)
            if draft.held:
                held = draft.template.pool_reservations.reservations_in(draft.held)
                self.reservation_manager.commit(held, choice.offering.reservation_id or "")
            draft.pin(choice)
            self.state.count_launch(draft, choice)
        self.state.end_round_of_limits()
        self.table.end_round()
        if self.state.topology is not None:
            self.state.topology.end_round()
