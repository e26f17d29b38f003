"""Kubernetes Events: what was done or not done to an object, for people."""

import asyncio
import logging
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, TypeVar

import msgspec

from wainwright.api.api_resources import resource_of
from wainwright.api.kubernetes.meta import ObjectReference
from wainwright.api.kubernetes.operations import Event, EventSource
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.clock import Clock, format_timestamp
from wainwright.cluster import Cluster
from wainwright.controllers.informer_cache import metadata_of
from wainwright.errors import KubernetesError

LOG: Final = logging.getLogger(__name__)

COMPONENT: Final = "karpenter"
REPEAT_SECONDS: Final = 120.0
"""An event that is the same is not written again within this time."""
MAX_MESSAGE: Final = 1024
"""Characters that an Event's message may have."""
KEPT: Final = 10_000
"""Events that are remembered at most, so that memory does not grow with the cluster's age."""
PER_SECOND: Final = 5.0
BURST: Final = 10.0
"""Events of one reason about many objects at once: so many in a row, then so many a second; the
others are dropped. What they say is the same for all."""
NORMAL: Final = "Normal"
WARNING: Final = "Warning"


Entry = TypeVar("Entry")


class EventRecorder:
    """Writes events, each once in a while; an event that cannot be written is only logged."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock
        self._written: dict[tuple[str, ...], float] = {}
        self._buckets: dict[str, tuple[float, float]] = {}
        """By reason, how many events may be written, and when that was."""

    async def warn(
        self, about: WireStruct, reason: str, message: str, *, repeat: float = REPEAT_SECONDS
    ) -> None:
        await self._record(about, WARNING, reason, message, repeat)

    async def warn_many(self, objects: Iterable[WireStruct], reason: str, message: str) -> None:
        """The same about each of them, as far as the limit of events allows."""
        allowed = self._allowed(objects, reason)
        await asyncio.gather(*(self.warn(about, reason, message) for about in allowed))

    async def inform_each(
        self,
        entries: Iterable[tuple[WireStruct, str]],
        reason: str,
        *,
        repeat: float = REPEAT_SECONDS,
    ) -> None:
        """A message about each of them, as far as the limit of events allows."""
        allowed = self._allowed(entries, reason)
        await asyncio.gather(
            *(self.inform(about, reason, message, repeat=repeat) for about, message in allowed)
        )

    def _allowed(self, entries: Iterable[Entry], reason: str) -> list[Entry]:
        """Those that the limit allows at this moment. Were it asked before each event, a slow API
        server would allow for all of them, one after the other, and the next plan waits for them.
        """
        now = self._clock.now()
        return [each for each in entries if self._take(reason, now)]

    def _take(self, reason: str, now: float) -> bool:
        left, since = self._buckets.get(reason, (BURST, now))
        left = min(BURST, left + (now - since) * PER_SECOND)
        self._buckets[reason] = max(left - 1, 0.0) if left >= 1 else left, now
        return left >= 1

    async def inform(
        self, about: WireStruct, reason: str, message: str, *, repeat: float = REPEAT_SECONDS
    ) -> None:
        await self._record(about, NORMAL, reason, message, repeat)

    async def _record(
        self, about: WireStruct, kind: str, reason: str, message: str, repeat: float
    ) -> None:
        metadata, now = metadata_of(about), self._clock.now()
        message = truncate(message, MAX_MESSAGE)
        key = (type(about).__name__, metadata.namespace, metadata.name, reason, message)
        last = self._written.get(key)
        if last is not None and now - last < repeat:
            return
        self._remember(key, now)
        try:
            await self._cluster.create(_event(about, kind, reason, message, now, key))
        except KubernetesError as error:
            LOG.warning("event %s of %s was not written: %s", reason, metadata.name, error)

    def _remember(self, key: tuple[str, ...], now: float) -> None:
        self._written.pop(key, None)
        self._written[key] = now
        if len(self._written) > KEPT:
            del self._written[next(iter(self._written))]


def _event(
    about: WireStruct, kind: str, reason: str, message: str, now: float, key: tuple[str, ...]
) -> Event:
    metadata, resource = metadata_of(about), resource_of(type(about))
    digest = blake2b(msgspec.json.encode([*key, now]), digest_size=8).hexdigest()
    stamp = format_timestamp(now)
    return Event(
        metadata=ObjectMeta(
            name=f"{metadata.name[:200]}.{digest}", namespace=metadata.namespace or "default"
        ),
        involvedObject=ObjectReference(
            apiVersion=resource.api_version,
            kind=resource.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
        ),
        type=kind,
        reason=reason,
        message=message,
        source=EventSource(component=COMPONENT),
        count=1,
        firstTimestamp=stamp,
        lastTimestamp=stamp,
    )


def truncate(text: str, most: int) -> str:
    """The text, cut so that it has at most so many characters with the final "..."."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
