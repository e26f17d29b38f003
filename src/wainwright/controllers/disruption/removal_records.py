"""What the disruption breaker knows after a restart: removals within the window, as an annotation.

A process that ends forgets how many nodes it has removed and how many there were before. Removals
that have not ended are seen by their NodeClaims; of others nothing is left in the cluster. In a
crash loop every process would be granted the share anew, which is what the breaker is to prevent.

So each command writes what it is about to remove on the NodePool of its first node: `3 of 10 at
2026-01-01T00:10:00Z`. Before it, lest a process that ends in between is forgotten; a command that
was written down and not carried out makes the breaker narrower for one window. On a NodePool,
because the controllers may patch it anyway and users find it with kubectl; a ConfigMap would need
a right of its own, and NodeClaims go with their nodes. One request for each command, and none
without a breaker. Moments are rounded up to a twentieth of the window, and those in the same are
added up, so that the value has about twenty entries however many commands there were.

What is read is not trusted: entries that say nothing, are older than the window or further ahead
than one are left out, and the breaker only ever lets fewer nodes go because of them.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from math import ceil
from typing import Final

import msgspec

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.clock import Clock, format_timestamp
from wainwright.controllers.informer_cache import InformerCache
from wainwright.errors import KubernetesError
from wainwright.translate.annotations import REMOVALS_ANNOTATION
from wainwright.translate.node_claim_pairing import pool_of_claim
from wainwright.translate.object_metadata import parse_timestamp

LOG: Final = logging.getLogger(__name__)

ENTRY: Final = re.compile(r"([0-9]{1,9}) of ([0-9]{1,9}) at (\S+)")
PARTS: Final = 20
"""Of the window, that removals are told apart by."""


class RecordedRemoval(msgspec.Struct, frozen=True):
    at: float
    nodes: int
    """How many were removed."""
    before: int
    """How many there were in the cluster."""

    def __str__(self) -> str:
        return f"{self.nodes} of {self.before} at {format_timestamp(self.at)}"


class RemovalRecords:
    def __init__(self, cache: InformerCache, clock: Clock, window: float) -> None:
        self._cache, self._clock, self._window = cache, clock, window

    def all(self) -> list[RecordedRemoval]:
        """Those of all NodePools that are within the window, in the order of time."""
        pools = self._cache.all(NodePool)
        return sorted((each for pool in pools for each in self._of(pool)), key=_moment)

    def _of(self, pool: NodePool) -> list[RecordedRemoval]:
        now, text = self._clock.now(), (pool.metadata.annotations or {}).get(REMOVALS_ANNOTATION)
        read = (_parse(each.strip()) for each in (text or "").split(","))
        return [each for each in read if each and -self._window < each.at - now <= self._window]

    async def add(self, claims: Sequence[NodeClaim], before: int) -> None:
        """These are removed now, of so many nodes."""
        names = (pool_of_claim(claim) or "" for claim in claims)
        pools = (self._cache.get(NodePool, name) for name in names)
        pool = next((each for each in pools if each is not None), None)
        if pool is None:
            return
        made = RecordedRemoval(self._rounded(self._clock.now()), len(claims), before)
        value = ", ".join(map(str, _added_up([*self._of(pool), made])))
        try:
            await self._cache.patch(
                pool, {"metadata": {"annotations": {REMOVALS_ANNOTATION: value}}}
            )
        except KubernetesError as error:  # such as a webhook's: disruption would stop for good
            LOG.warning("removals could not be written on %s: %s", pool.metadata.name, error)

    def _rounded(self, moment: float) -> float:
        part = max(1.0, self._window / PARTS)
        return ceil(moment / part) * part


def _added_up(removals: Iterable[RecordedRemoval]) -> Iterable[RecordedRemoval]:
    """One for each moment; the number of nodes before it is that before the first of them."""
    for moment, group in groupby(sorted(removals, key=_moment), key=_moment):
        found = [*group]
        yield RecordedRemoval(moment, sum(each.nodes for each in found), found[0].before)


def _moment(removal: RecordedRemoval) -> float:
    return int(removal.at)


def _parse(entry: str) -> RecordedRemoval | None:
    found = ENTRY.fullmatch(entry)
    moment = None if found is None else parse_timestamp(found[3])
    if found is None or moment is None:
        return None
    return RecordedRemoval(moment, int(found[1]), int(found[2]))
