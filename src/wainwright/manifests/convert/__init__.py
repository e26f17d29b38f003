"""Old kinds to v1: what they become, and a note for all that does not carry over as it was."""

from wainwright.manifests.convert.engine import Conversion, Misfit, convert
from wainwright.manifests.convert.notes import Effect, Note

__all__ = ["Conversion", "Effect", "Misfit", "Note", "convert"]
