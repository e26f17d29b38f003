"""Commands that could not be begun: their nodes are left alone for a growing time.

A webhook or a quota may refuse a taint or a NodeClaim at every try. Methods and nodes are looked at
in a fixed order, so that each look would find the same command again, and none behind it would ever
have its turn.
"""

from collections.abc import Iterable
from typing import Final

from wainwright.api.kubernetes.cluster import Node
from wainwright.backoff import Backoff
from wainwright.controllers.context import ControllerContext
from wainwright.controllers.events import truncate
from wainwright.controllers.informer_cache import Change
from wainwright.model.disruption import FailedStart

FIRST_WAIT: Final = 60.0
"""Seconds, up to a fifth less; twice as many each further time."""
MAX_WAIT: Final = 600.0
MAX_MESSAGE: Final = 400
"""Characters: what the API server says may be pages, and is in every verdict."""


class FailedStarts:
    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.clock
        self._backoff = Backoff("failed starts", first=FIRST_WAIT, most=MAX_WAIT)
        self._last: dict[str, FailedStart] = {}
        """By node; one that is over counts until a command is begun."""
        context.cache.subscribe(Node, self._changed_node)

    def failed(self, node: str, message: str) -> None:
        until = self._clock.now() + self._backoff.failed(node)
        message = truncate(message, MAX_MESSAGE)
        self._last[node] = FailedStart(name=node, until=until, message=message)

    def begun(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._last.pop(node, None)
            self._backoff.succeeded(node)

    def current(self) -> list[FailedStart]:
        """Of nodes that still wait."""
        now = self._clock.now()
        return [each for each in self._last.values() if (each.until or 0.0) > now]

    def _changed_node(self, change: Change[Node]) -> None:
        if change.after is None:
            self.begun([change.name])
