"""What only the controllers know and somebody outside wants to hear; simulations record it."""

from collections.abc import Sequence
from typing import Final, Protocol


class ControllerReports(Protocol):
    def command_carried_out(
        self,
        *,
        reason: str,
        method: str,
        candidates: Sequence[str],
        replacements: Sequence[str],
        savings_per_hour: float | None,
        has_modelled_prices: bool = False,
    ) -> None:
        """The candidates of a command of disruption are deleted; all are names of NodeClaims."""
        ...

    def claim_disrupted(self, claim: str, reason: str) -> None:
        """A claim is about to be deleted; the reason is that of the metric."""
        ...


class NoReports:
    """Nobody listens."""

    def command_carried_out(
        self,
        *,
        reason: str,
        method: str,
        candidates: Sequence[str],
        replacements: Sequence[str],
        savings_per_hour: float | None,
        has_modelled_prices: bool = False,
    ) -> None: ...

    def claim_disrupted(self, claim: str, reason: str) -> None: ...


NO_REPORTS: Final = NoReports()
