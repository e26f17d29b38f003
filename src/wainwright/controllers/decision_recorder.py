"""Who keeps the decisions of the controllers, with all that they were made from."""

from collections.abc import Sequence
from typing import Final, Protocol

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions
from wainwright.core.plan import SolvedPlan


class DecisionRecorder(Protocol):
    """Called once for each decision; returns at once, and raises nothing."""

    def plan_made(self, solved: SolvedPlan, pools: Sequence[NodePool]) -> None:
        """Nodes were planned for pods, and nobody works on the plan any more."""
        ...

    def command_found(
        self,
        given: DisruptionInput,
        options: DisruptionOptions,
        command: Command,
        pools: Sequence[NodePool],
    ) -> None:
        """A command of disruption is to be carried out, if it still holds when it is validated."""
        ...


class NoRecorder:
    """Nobody keeps them."""

    def plan_made(self, solved: SolvedPlan, pools: Sequence[NodePool]) -> None: ...

    def command_found(
        self,
        given: DisruptionInput,
        options: DisruptionOptions,
        command: Command,
        pools: Sequence[NodePool],
    ) -> None: ...


NO_RECORDER: Final = NoRecorder()
