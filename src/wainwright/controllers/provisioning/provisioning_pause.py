"""NodePools that launch nothing because somebody has paused provisioning, and who hears of it.

They stay in the plan as NodePools that cannot be used: pods that only they could serve say so, and
not that there is no NodePool.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.live_state import is_ours
from wainwright.messages.formatting import join_first
from wainwright.messages.unschedulable_answer import UnschedulableAnswer
from wainwright.metrics import PROVISIONING_PAUSED, Sample
from wainwright.model.disruption import Pause
from wainwright.model.plan import UnschedulableGroup
from wainwright.model.snapshot import Pool
from wainwright.translate.disruption import PAUSE_ANNOTATION, is_pausing

PAUSED_BY_ANNOTATION: Final = f"provisioning is paused by its annotation {PAUSE_ANNOTATION}"
PAUSED_BY_SETTING: Final = "provisioning of all NodePools is paused by the setting pause"
RESUME_POOL: Final = f"resume it: kubectl annotate nodepool {{pool}} {PAUSE_ANNOTATION}-"
RESUME_ALL: Final = (
    "resume it: remove the key pause of the ConfigMap wainwright-settings, or the setting"
)
REPEAT_SECONDS: Final = 900.0
"""The same about the same NodePool is not said again within this time."""


class ProvisioningPause:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._marked: dict[str, tuple[Pool, Pool]] = {}
        """By name, a paused NodePool as the cluster has it and as plans get it."""
        context.metrics.add_collector(self._collect)

    def mark(self, pools: Iterable[Pool]) -> tuple[Pool, ...]:
        """The pools, those that are paused as unusable. One that is the same object as in the plan
        before is the same again: otherwise every plan would be a new one.

        Those that launch no nodes for pods anyway, static ones for instance, are left out.
        """
        known, self._marked = self._marked, {}
        return tuple(filter(None, (self._mark(pool, known) for pool in pools)))

    def _mark(self, pool: Pool, known: dict[str, tuple[Pool, Pool]]) -> Pool | None:
        settings = self._context.settings
        if not settings.pauses(pool, Pause.PROVISIONING):
            return pool
        if pool.unusable is not None:
            return None
        is_everywhere = settings.pauses_everywhere(Pause.PROVISIONING)
        why = PAUSED_BY_SETTING if is_everywhere else PAUSED_BY_ANNOTATION
        problem = settings.pause_problem(pool)
        why += f" ({problem})" if problem else ""
        before, marked = known.get(pool.name, (None, pool))
        if before is not pool or marked.unusable != why:
            marked = msgspec.structs.replace(pool, unusable=why)
        self._marked[pool.name] = pool, marked
        return marked

    async def report(self) -> None:
        """On the NodePools of a plan that had to do without them."""
        for name, (_, marked) in sorted(self._marked.items()):
            pool = self._context.cache.get(NodePool, name)
            text = f"no node is launched for pods: {marked.unusable}; {self._resume(name)}"
            if pool is not None:
                await self._context.events.warn(
                    pool, "ProvisioningPaused", text, repeat=REPEAT_SECONDS
                )

    def complete(
        self, answer: UnschedulableAnswer, group: UnschedulableGroup
    ) -> UnschedulableAnswer:
        """With the way out where a paused NodePool is the cause, and else with those that might
        have launched a node.
        """
        nearest = group.nearest_pool or ""
        if nearest in self._marked:
            return msgspec.structs.replace(answer, fix=self._resume(nearest), alternative=None)
        if not self._marked:
            return answer
        paused = f"provisioning is paused in {join_first(sorted(self._marked))}"
        others = f"{answer.other_pools}; {paused}" if answer.other_pools else paused
        return msgspec.structs.replace(answer, other_pools=others)

    def _resume(self, pool: str) -> str:
        is_everywhere = (self._marked[pool][1].unusable or "").startswith(PAUSED_BY_SETTING)
        return RESUME_ALL if is_everywhere else RESUME_POOL.format(pool=pool)

    def _collect(self) -> Iterator[Sample]:
        """Of every NodePool when it is asked for: an annotation alone is no reason for a plan."""
        is_everywhere = self._context.settings.pauses_everywhere(Pause.PROVISIONING)
        for pool in [*self._context.cache.all(NodePool)]:
            if is_ours(pool.spec.template.spec.nodeClassRef):
                annotations = pool.metadata.annotations or {}
                is_paused = is_everywhere or is_pausing(annotations, Pause.PROVISIONING)
                yield PROVISIONING_PAUSED, (pool.metadata.name,), int(is_paused)
