"""The targets of `make oracle-disruption`, over all clusters that were compared: each is met, or
said to be missed.
"""

from collections.abc import Iterator
from typing import Final

from tests.oracle.disruption.comparison import DisruptionResult

MIN_AS_GOOD: Final = 0.99
"""The part of the clusters in which we save as much."""
MAX_REPEATED: Final = 0.5
"""Of their share of moves of pods that had been moved before."""
ROUNDING: Final = 1e-9


def missed_targets(found: DisruptionResult) -> Iterator[str]:
    """What is not as it should be, with both figures; nothing where all targets are met."""
    ours, theirs = found.ours, found.theirs
    if found.broken:
        yield f"{len(found.broken)} of {found.clusters} clusters broke down"
    if found.as_good < MIN_AS_GOOD - ROUNDING:
        yield f"as much is saved in {found.as_good:.1%} of the clusters, not in {MIN_AS_GOOD:.0%}"
    own, other = ours.evictions_per_dollar, theirs.evictions_per_dollar
    if theirs.saving > 0 and own > other + ROUNDING:
        yield f"{own:.2f} evictions per dollar saved, more than their {other:.2f}"
    if ours.repeated_share > MAX_REPEATED * theirs.repeated_share + ROUNDING:
        yield (
            f"{ours.repeated_share:.1%} of the moves are of pods moved before, more than half of "
            f"their {theirs.repeated_share:.1%}"
        )
    if ours.invalid:
        yield f"invalid commands in {ours.invalid:.0f} clusters"
