"""`wain run --record FOLDER`: the last decisions, each with all that it was made from.

A decision is a folder `20260131T080000Z-provision-7` (or `-disrupt-`) with `input.json`, which has
the cluster, the instance types and offerings, the settings and the time, and `output.json`, which
is what was decided. `wain plan FOLDER/DECISION -o json` (or `wain consolidate`) decides anew, on
any machine and without the cluster, and prints the bytes of output.json.

A plan is on its way to the cluster before it is written here; nothing waits for the disk.
"""

import asyncio
import logging
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from wainwright import __version__
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.clock import Clock, format_timestamp
from wainwright.core.disruption.cluster_bound import cluster_lower_bound
from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions
from wainwright.core.disruption.preview import (
    DisruptionPreview,
    preview_command,
    preview_disruption,
)
from wainwright.core.plan import SolvedPlan
from wainwright.daemon_threads import DaemonThreadPool
from wainwright.errors import UsageError
from wainwright.gc_pause import gc_paused
from wainwright.model.input_remarks import RegionChoice, RegionSource
from wainwright.model.plan import PlanOptions
from wainwright.model.snapshot import Snapshot
from wainwright.offline import explain_solved_plan, plan_snapshot
from wainwright.operator.decision_redaction import redact_decision
from wainwright.operator.recorder_options import RecorderOptions
from wainwright.report.consolidation_json import consolidation_document
from wainwright.report.json_text import dump_json
from wainwright.report.plan_input import (
    RECORDED_INPUT,
    RECORDED_OUTPUT,
    ConsolidationSettings,
    LiveDisruption,
    PlanInput,
    encode_plan_input,
    redact_plan_input,
)
from wainwright.report.plan_json import plan_document

LOG: Final = logging.getLogger(__name__)

PROVISION, DISRUPT = "provision", "disrupt"
DECISION: Final = re.compile(r"^\d{8}T\d{6}Z-(?:provision|disrupt)-(\d+)$")
MOST_WAITING: Final = 10
"""Decisions that may wait to be written; with more the oldest is dropped."""
LAST_SECONDS: Final = 1.5
"""For what is still to be written when the process ends."""
PARTIAL: Final = ".partial-"

Document: TypeAlias = dict[str, Any]


class _Decision(msgspec.Struct, frozen=True):
    kind: str
    at: float
    given: PlanInput
    output: Callable[[], Document]
    """Of what was really decided; may take as long as the decision did."""


class FlightRecorder:
    """A DecisionRecorder that writes what it is told from its own task."""

    def __init__(self, options: RecorderOptions, clock: Clock, region: str) -> None:
        """UsageError if the folder cannot be made."""
        self._options, self._clock = options, clock
        self._region = RegionChoice(region=region, source=RegionSource.PROVIDER)
        self._waiting: deque[_Decision] = deque()
        self._work = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None
        self._last = _prepare(options.folder)

    def plan_made(self, solved: SolvedPlan, pools: Sequence[NodePool]) -> None:
        # Nodes of static NodePools are another controller's decision.
        options = msgspec.structs.replace(solved.options, static_capacity=False)
        given = self._input(solved.snapshot, solved.catalogs, options, pools)

        def output() -> Document:
            return plan_document(given, explain_solved_plan(solved._replace(options=options)))

        self._add(_Decision(PROVISION, self._clock.now(), given, output))

    def command_found(
        self,
        given: DisruptionInput,
        options: DisruptionOptions,
        command: Command,
        pools: Sequence[NodePool],
    ) -> None:
        recorded = msgspec.structs.replace(options, look_ahead=0)
        settings = ConsolidationSettings(
            options=recorded,
            steps=1,
            live=LiveDisruption(
                nominated=given.nominated,
                paused=given.paused,
                repair_policies=given.repair_policies,
                failed_starts=given.failed_starts,
            ),
        )
        saved = msgspec.structs.replace(
            self._input(given.snapshot, given.catalogs, options.plan, pools), consolidation=settings
        )

        def output() -> Document:
            return _consolidation(saved, preview_command(saved.disruption, recorded, command))

        self._add(_Decision(DISRUPT, self._clock.now(), saved, output))

    def _input(
        self,
        snapshot: Snapshot,
        indexes: Any,
        options: PlanOptions,
        pools: Sequence[NodePool],
    ) -> PlanInput:
        return PlanInput(
            now=format_timestamp(self._clock.now() if snapshot.now is None else snapshot.now),
            options=options,
            snapshot=snapshot,
            indexes=indexes,
            file_notes=(),
            input_notes=(),
            warnings=(),
            node_pools={pool.metadata.name: pool for pool in pools},
            region=self._region,
        )

    def _add(self, decision: _Decision) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            LOG.warning("a decision was not recorded: writing to disk is too slow")
        self._waiting.append(decision)
        self._work.set()

    # Writing

    async def run(self) -> None:
        """Until cancelled; what is waiting then is written all the same, if it does not take long:
        the process has been told to stop, and its threads end with it.
        """
        threads = DaemonThreadPool(1, "flight recorder")
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                while self._waiting:
                    await self._write_in(threads)
        finally:
            _, late = await asyncio.wait({self._write_in(threads)}, timeout=LAST_SECONDS)
            if late:
                LOG.warning("decisions were not recorded: the process ends before they are written")
            threads.shutdown(wait=False)

    @property
    def is_idle(self) -> bool:
        return not self._waiting and (self._writing is None or self._writing.done())

    def _write_in(self, threads: Executor) -> "asyncio.Future[None]":
        """All that is waiting now, after what is being written."""
        decisions = [*self._waiting]
        self._waiting.clear()
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(threads, self._write_all, decisions)
        return self._writing

    def _write_all(self, decisions: Iterable[_Decision]) -> None:
        for each in decisions:
            self._write(each)

    def _write(self, decision: _Decision) -> None:
        self._last += 1
        time = re.sub(r"\.\d+|[-:]", "", format_timestamp(decision.at))
        folder = self._options.folder / f"{time}-{decision.kind}-{self._last}"
        try:
            with gc_paused():
                self._write_files(decision, folder)
            self._remove_oldest()
        except OSError as error:
            LOG.error("%s cannot be written: %s", folder, error.strerror)
        except Exception:
            LOG.exception("the decision %s was not recorded", folder.name)

    def _write_files(self, decision: _Decision, folder: Path) -> None:
        """Under another name until both files are whole."""
        given, output = decision.given, decision.output
        if self._options.redact:
            given = redact_plan_input(given, redact_decision)
            document = _decide(given)
        else:
            document = output()
        partial = folder.with_name(PARTIAL + folder.name)
        partial.mkdir()
        (partial / RECORDED_INPUT).write_bytes(encode_plan_input(given, version=__version__))
        (partial / RECORDED_OUTPUT).write_text(dump_json(document) + "\n", encoding="utf-8")
        partial.rename(folder)

    def _remove_oldest(self) -> None:
        kept = sorted(_decisions(self._options.folder))
        for _, folder in kept[: -self._options.most]:
            shutil.rmtree(folder)


def _prepare(folder: Path) -> int:
    """Makes the folder, and returns the number of the last decision in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for each in folder.glob(f"{PARTIAL}*"):
            shutil.rmtree(each)
        return max((number for number, _ in _decisions(folder)), default=0)
    except OSError as error:
        raise UsageError(f"--record: {folder} cannot be used: {error.strerror}") from error


def _decisions(folder: Path) -> Iterator[tuple[int, Path]]:
    for each in folder.iterdir():
        match = DECISION.match(each.name)
        if match is not None:
            yield int(match[1]), each


def _decide(given: PlanInput) -> Document:
    """What the commands would print of the input."""
    settings = given.consolidation
    if settings is None:
        return plan_document(given, plan_snapshot(given.snapshot, given.indexes, given.options))
    preview = preview_disruption(given.disruption, settings.options, settings.steps)
    return _consolidation(given, preview)


def _consolidation(given: PlanInput, preview: DisruptionPreview) -> Document:
    bound = cluster_lower_bound(given.snapshot, given.indexes, given.options)
    return consolidation_document(given, preview, bound)
