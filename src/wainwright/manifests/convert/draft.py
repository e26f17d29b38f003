"""A document on its way to v1, passed from step to step until it is written out."""

from typing import Any

from wainwright.api.fault import Path
from wainwright.manifests.convert.notes import Effect, Note


class Draft:
    """A document on its way to v1: what it was, what it becomes, what is to be said of it."""

    __slots__ = ("followers", "index", "made", "notes", "source")

    def __init__(self, index: int, source: dict[str, Any]) -> None:
        self.index = index
        self.source = source
        self.made: dict[str, Any] = {}
        self.followers: list[dict[str, Any]] = []
        """Documents that this one has become besides, in order."""
        self.notes: list[Note] = []

    @property
    def name(self) -> str:
        return self.source["metadata"].get("name") or ""

    def assumed(self, path: Path, message: str) -> None:
        self._note("assumed", path, message)

    def changed(self, path: Path, message: str) -> None:
        self._note("changed", path, message)

    def lost(self, path: Path, message: str) -> None:
        self._note("lost", path, message)

    def missing(self, path: Path, message: str) -> None:
        self._note("missing", path, message)

    def _note(self, effect: Effect, path: Path, message: str) -> None:
        self.notes.append(Note(document=self.index, path=path, effect=effect, message=message))
