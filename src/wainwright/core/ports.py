"""Host ports: who has taken which, as sets of nodes or drafts."""

from collections.abc import Iterable

from wainwright.model.attachments import HostPort
from wainwright.model.columns import Rows


class Ports:
    """The ports in use on every row of a table."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[tuple[int, str], dict[HostPort, Rows]] = {}

    def take(self, rows: Rows, ports: Iterable[HostPort]) -> None:
        for port in ports:
            same = self._taken.setdefault((port.port, port.protocol), {})
            same[port] = same.get(port, 0) | rows

    def clashing(self, ports: Iterable[HostPort]) -> Rows:
        """The rows where any of the ports is taken already."""
        found = 0
        for port in ports:
            for other, rows in self._taken.get((port.port, port.protocol), {}).items():
                if port.clashes_with(other):
                    found |= rows
        return found
