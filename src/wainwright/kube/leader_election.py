"""One of several processes leads: a Lease that is renewed by it and taken over when it ends.

Safe without synchronised clocks: whoever waits measures by its own clock for how long the lease has
not changed, and never compares times that others wrote. The leader gives up before that can be as
long as the lease: it counts from before it asked for the last renewal that succeeded. Wall time and
the event loop's time both count, since one of them stands still while a machine is suspended.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from wainwright.api.kubernetes.operations import Lease, LeaseSpec
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.clock import Clock
from wainwright.cluster import (
    NO_PRECONDITIONS,
    Cluster,
    MergePatch,
    ObjectT,
    Preconditions,
)
from wainwright.errors import (
    AlreadyExistsError,
    ConflictError,
    KubernetesError,
    NotLeaderError,
    ObjectNotFoundError,
)

LOG: Final = logging.getLogger(__name__)
Result = TypeVar("Result")
RELEASE_SECONDS: Final = 2.0
"""A process that ends waits for no API server that does not answer: the lease just runs out."""
JITTER: Final = 0.2
"""Share by which the pause before the next attempt is longer at most."""
REQUESTS_BEFORE_GIVING_UP: Final = 3
"""A connection that is gone without a word answers nothing, and the next request may use another:
with all the time that is left, one such request would cost the leadership."""


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """LEADER_ELECTION_NAME and LEADER_ELECTION_NAMESPACE; seconds."""

    name: str = "wainwright-leader-election"
    namespace: str = "kube-system"
    duration: int = 15
    """For how long others wait for a renewal."""
    renew_every: float = 2.0
    give_up_after: float = 10.0
    """Without a renewal the leader stops; well before the duration, for the time that it takes."""


class _Moment(NamedTuple):
    wall: float
    loop: float


class LeaderElection:
    """The candidate of this process."""

    def __init__(
        self, cluster: Cluster, clock: Clock, settings: LeaseSettings, identity: str
    ) -> None:
        """`identity` must be that of no other process, not even of the one before it."""
        if not settings.renew_every < settings.give_up_after < settings.duration:
            raise ValueError(f"renewal, giving up and duration have to grow: {settings}")
        self._cluster, self._clock, self._settings = cluster, clock, settings
        self._identity, self._random = identity, Random(identity)
        self._renewed: _Moment | None = None
        """When the last successful request for the lease was begun; None for who does not lead."""
        self._held: Lease | None = None
        """As this process last wrote it: who leads need not read it before each renewal."""
        self._observed: tuple[str, _Moment] | None = None
        """The version of the lease that was last seen first, and when that was."""
        self._tried: _Moment | None = None
        """When the last attempt to take or renew the lease was begun."""

    @property
    def is_leader(self) -> bool:
        """True only while no other process can be: by the clock, whatever tasks have run."""
        return self._renewed is not None and self._since(self._renewed) < self._give_up_after

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `lead` whenever this process leads; cancels it, and waits for its end, when it no
        longer does. Returns when `lead` does. The lease is released at the end.
        """
        while True:
            await self._acquire()
            LOG.info("%s became the leader (%s)", self._identity, self._settings.name)
            task = asyncio.create_task(lead(), name="leading")
            try:
                await self._renew_until_lost(task)
            finally:
                await _cancelled(task)
                await self._release()
            if not task.cancelled():
                return task.result()
            LOG.warning("%s lost leadership (%s)", self._identity, self._settings.name)

    async def _acquire(self) -> None:
        while not await self._attempt():
            await self._clock.sleep(self._pause())

    def _pause(self) -> float:
        return self._settings.renew_every * (1 + JITTER * self._random.random())

    async def _renew_until_lost(self, task: "asyncio.Task[None]") -> None:
        while self.is_leader and not task.done():
            await asyncio.wait([task], timeout=min(self._until_next, self._remaining))
            if task.done() or not self.is_leader:
                return
            if not await self._attempt() and self._renewed is None:
                return

    async def _attempt(self) -> bool:
        """Whether the lease was taken or renewed just now."""
        self._tried = self._now()
        try:
            return await self._take_or_renew(self._tried)
        except (ConflictError, AlreadyExistsError, ObjectNotFoundError):
            return False  # somebody was faster: the next attempt sees who
        except (KubernetesError, TimeoutError) as error:
            LOG.warning("lease %s: %s", self._settings.name, str(error) or "no answer")
            return False

    async def _answer(self, request: Awaitable[Result]) -> Result:
        """TimeoutError where there is none soon enough for another request to be worth making."""
        seconds = self._give_up_after / REQUESTS_BEFORE_GIVING_UP
        if self._renewed is not None:
            seconds = min(seconds, self._remaining)
        async with asyncio.timeout(seconds):
            return await request

    async def _take_or_renew(self, began: _Moment) -> bool:
        if self._held is not None and self._renewed is not None:
            try:
                return await self._write(self._held, began)
            except (ConflictError, ObjectNotFoundError):
                self._held = None  # others have written it, or our last answer was lost
        try:
            lease = await self._answer(
                self._cluster.get(Lease, self._settings.name, self._settings.namespace)
            )
        except ObjectNotFoundError:
            self._held = await self._answer(self._cluster.create(self._new_lease()))
            self._renewed = began
            return True
        return self._may_write(lease, began) and await self._write(lease, began)

    async def _write(self, lease: Lease, began: _Moment) -> bool:
        changes, namespace = self._changes(lease), self._settings.namespace
        self._held = await self._answer(
            self._cluster.patch(Lease, self._settings.name, changes, namespace)
        )
        self._renewed = began
        return True

    def _may_write(self, lease: Lease, now: _Moment) -> bool:
        """Whether the lease is ours, free, or has not been renewed for its whole duration."""
        holder, version = lease.spec.holderIdentity or "", lease.metadata.resourceVersion
        if holder == self._identity:
            return True
        self._renewed = None
        if self._observed is None or self._observed[0] != version:
            self._observed = (version, now)
        duration = lease.spec.leaseDurationSeconds or self._settings.duration
        unchanged_for = now.loop - self._observed[1].loop
        return not holder or unchanged_for > duration

    def _changes(self, lease: Lease) -> MergePatch:
        spec: dict[str, Any] = {"renewTime": self._micro_time()}
        if lease.spec.holderIdentity != self._identity:
            spec |= {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": self._settings.duration,
                "acquireTime": spec["renewTime"],
                "leaseTransitions": (lease.spec.leaseTransitions or 0) + 1,
            }
        return {"metadata": {"resourceVersion": lease.metadata.resourceVersion}, "spec": spec}

    def _new_lease(self) -> Lease:
        time = self._micro_time()
        return Lease(
            metadata=ObjectMeta(name=self._settings.name, namespace=self._settings.namespace),
            spec=LeaseSpec(
                holderIdentity=self._identity,
                leaseDurationSeconds=self._settings.duration,
                acquireTime=time,
                renewTime=time,
                leaseTransitions=0,
            ),
        )

    async def _release(self) -> None:
        """Lets another process take over at once; where it fails, the lease just runs out."""
        if not self.is_leader:
            self._renewed = None
            return
        remaining, self._renewed = self._remaining, None
        try:
            async with asyncio.timeout(min(remaining, RELEASE_SECONDS)):
                await self._give_back()
        except (KubernetesError, TimeoutError) as error:
            LOG.warning("lease %s could not be released: %s", self._settings.name, error)

    async def _give_back(self) -> None:
        name, namespace = self._settings.name, self._settings.namespace
        lease = await self._cluster.get(Lease, name, namespace)
        if lease.spec.holderIdentity != self._identity:
            return
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._micro_time()}
        metadata = {"resourceVersion": lease.metadata.resourceVersion}
        await self._cluster.patch(Lease, name, {"metadata": metadata, "spec": spec}, namespace)

    # Time

    @property
    def _give_up_after(self) -> float:
        return self._settings.give_up_after

    def _now(self) -> _Moment:
        return _Moment(self._clock.now(), asyncio.get_running_loop().time())

    def _since(self, moment: _Moment) -> float:
        now = self._now()
        return max(now.wall - moment.wall, now.loop - moment.loop)

    @property
    def _until_next(self) -> float:
        """Seconds until the next renewal; none after one that was waited for in vain."""
        assert self._tried is not None
        return max(0.0, self._settings.renew_every - self._since(self._tried))

    @property
    def _remaining(self) -> float:
        """Seconds until the leader has to give up."""
        assert self._renewed is not None
        return max(0.0, self._give_up_after - self._since(self._renewed))

    def _micro_time(self) -> str:
        """With exactly six digits of a second: the API server refuses any other."""
        time = datetime.fromtimestamp(self._clock.now(), UTC)
        return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def _cancelled(task: "asyncio.Task[None]") -> None:
    """Cancels the task and waits for it, even where this one is cancelled meanwhile."""
    task.cancel()
    await asyncio.wait([task])


class LeaderCluster:
    """The port for the leader: reads as they are, and no write of who does not lead (any more).

    A process that was stopped for a minute goes on in the middle of what it did, and must not write
    beside its successor. Here a write is refused before it is begun, whatever the cluster: one that
    could not be sent waits in no queue. Between that and the request a client may wait, so that it
    has to ask again when it sends (`KubeClient.for_leader`).
    """

    def __init__(self, cluster: Cluster, election: LeaderElection) -> None:
        self._cluster, self._election = cluster, election
        self.list, self.watch, self.get = cluster.list, cluster.watch, cluster.get
        self.list_pods_on_node = cluster.list_pods_on_node

    async def create(self, obj: ObjectT) -> ObjectT:
        return await self._as_leader(lambda: self._cluster.create(obj))

    async def patch(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        return await self._as_leader(lambda: self._cluster.patch(kind, name, patch, namespace))

    async def patch_status(
        self, kind: type[ObjectT], name: str, patch: MergePatch, namespace: str = ""
    ) -> ObjectT:
        return await self._as_leader(
            lambda: self._cluster.patch_status(kind, name, patch, namespace)
        )

    async def delete(
        self,
        kind: type[WireStruct],
        name: str,
        namespace: str = "",
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> None:
        await self._as_leader(
            lambda: self._cluster.delete(
                kind, name, namespace, preconditions=preconditions, grace_period=grace_period
            )
        )

    async def evict(
        self, name: str, namespace: str, *, uid: str = "", grace_period: int | None = None
    ) -> None:
        await self._as_leader(
            lambda: self._cluster.evict(name, namespace, uid=uid, grace_period=grace_period)
        )

    async def _as_leader(self, write: Callable[[], Awaitable[Result]]) -> Result:
        if not self._election.is_leader:
            raise NotLeaderError
        return await write()
