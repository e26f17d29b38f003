"""From what the input says to what the planner thinks in."""

from wainwright.manifests.translate.snapshot import Translated, snapshot

__all__ = ["Translated", "snapshot"]
