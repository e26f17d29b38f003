"""Annotations by which a pod tells a simulated kubelet what becomes of it."""

from typing import Final

RUNS_FOR_ANNOTATION: Final = "wainwright.dev/runs-for"
"""How long a pod runs before it succeeds, unless its restartPolicy is Always."""
