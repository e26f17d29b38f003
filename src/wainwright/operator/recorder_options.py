"""Where `wain run` keeps its decisions, and how many; apart from what writes them, which a process
without `--record` does not load.
"""

from pathlib import Path
from typing import Final

import msgspec

MOST_DECISIONS: Final = 100


class RecorderOptions(msgspec.Struct, frozen=True, kw_only=True):
    folder: Path
    most: int = MOST_DECISIONS
    """How many decisions are kept."""
    redact: bool = False
