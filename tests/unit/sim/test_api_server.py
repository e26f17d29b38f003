"""The API server in memory beyond the contract: what no real one shows without other processes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec
from wainwright.api.karpenter.shared_fields import NodeClassRef
from wainwright.api.kubernetes.cluster import Namespace, Node, PriorityClass
from wainwright.api.kubernetes.operations import Event
from wainwright.api.kubernetes.workloads import (
    Container,
    Pod,
    PodSpec,
    PodStatus,
    ReplicaSet,
    ReplicaSetSpec,
)
from wainwright.api.wire import ObjectMeta, OwnerReference, WireStruct
from wainwright.clock import VirtualClock
from wainwright.cluster import EventType, WatchEvent
from wainwright.errors import (
    ObjectNotFoundError,
    RequestForbiddenError,
    ResourceVersionGoneError,
    ServerUnavailableError,
)
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.object_store import metadata_of

SPEC = PodSpec(containers=[Container(name="app")])
CLASS_REF = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    made = VirtualClock()
    yield made
    made.close()


@pytest.fixture
def server(clock: VirtualClock) -> InMemoryApiServer:
    return InMemoryApiServer(clock)


def pod(name: str, *, spec: PodSpec = SPEC, namespace: str = "default", **metadata: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, **metadata), spec=spec)


def claim(name: str, **metadata: Any) -> NodeClaim:
    spec = NodeClaimSpec(nodeClassRef=CLASS_REF, requirements=[])
    return NodeClaim(metadata=ObjectMeta(name=name, **metadata), spec=spec)


def owned_by(*owners: WireStruct) -> list[OwnerReference]:
    return [
        OwnerReference(
            apiVersion=msgspec.to_builtins(owner).get("apiVersion", "karpenter.sh/v1"),
            kind=type(owner).__name__,
            name=metadata_of(owner).name,
            uid=metadata_of(owner).uid,
        )
        for owner in owners
    ]


def names_of(server: InMemoryApiServer, clock: VirtualClock, kind: type[WireStruct]) -> list[str]:
    return [metadata_of(obj).name for obj in clock.run(server.list(kind)).items]


# Repeatability and sharing


def test_the_same_seed_gives_the_same_uids_and_names(clock: VirtualClock) -> None:
    def made(seed: int) -> ObjectMeta:
        server = InMemoryApiServer(clock, seed=seed)
        created = clock.run(server.create(claim("", generateName="general-")))
        return created.metadata

    assert made(7) == made(7)
    assert made(7).uid != made(8).uid


def test_times_are_those_of_the_clock(clock: VirtualClock, server: InMemoryApiServer) -> None:
    clock.advance(90)
    created = clock.run(server.create(pod("a")))
    assert created.metadata.creationTimestamp == "2026-01-01T00:01:30Z"


def test_a_change_shares_all_parts_that_it_does_not_touch(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    created = clock.run(server.create(pod("a")))
    patched = clock.run(server.patch(Pod, "a", {"metadata": {"labels": {"a": "b"}}}, "default"))
    assert patched.spec is created.spec
    assert patched.status is created.status


def test_pods_that_are_created_alike_share_one_admitted_spec(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    first, second = (clock.run(server.create(pod(name))) for name in "ab")
    assert first.spec is second.spec


# Owners


def test_what_an_owner_leaves_behind_is_deleted(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    owner = clock.run(server.create(claim("owner")))
    middle = clock.run(server.create(claim("middle", ownerReferences=owned_by(owner))))
    clock.run(server.create(claim("last", ownerReferences=owned_by(middle))))
    clock.run(server.create(claim("free")))
    clock.run(server.delete(NodeClaim, "owner"))
    assert names_of(server, clock, NodeClaim) == ["free"]


def test_a_finalizer_keeps_an_owner_and_what_it_owns(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    owner = clock.run(server.create(claim("owner", finalizers=["karpenter.sh/termination"])))
    clock.run(server.create(claim("owned", ownerReferences=owned_by(owner))))
    clock.run(server.delete(NodeClaim, "owner"))
    assert names_of(server, clock, NodeClaim) == ["owned", "owner"]
    clock.run(server.patch(NodeClaim, "owner", {"metadata": {"finalizers": []}}))
    assert names_of(server, clock, NodeClaim) == []


def test_one_owner_of_two_is_enough(clock: VirtualClock, server: InMemoryApiServer) -> None:
    first, second = (clock.run(server.create(claim(name))) for name in ("first", "second"))
    clock.run(server.create(claim("owned", ownerReferences=owned_by(first, second))))
    clock.run(server.delete(NodeClaim, "first"))
    owned = clock.run(server.get(NodeClaim, "owned"))
    assert [owner.name for owner in owned.metadata.ownerReferences or ()] == ["second"]
    clock.run(server.delete(NodeClaim, "second"))
    assert names_of(server, clock, NodeClaim) == []


def test_an_object_whose_owner_never_existed_is_deleted(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    references = [
        OwnerReference(apiVersion="karpenter.sh/v1", kind="NodeClaim", name="x", uid="unknown")
    ]
    clock.run(server.create(claim("owned", ownerReferences=references)))
    assert names_of(server, clock, NodeClaim) == []


def test_owners_of_kinds_that_are_not_served_are_not_missed(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    references = [
        OwnerReference(apiVersion="argoproj.io/v1alpha1", kind="Rollout", name="x", uid="unknown")
    ]
    clock.run(server.create(claim("owned", ownerReferences=references)))
    assert names_of(server, clock, NodeClaim) == ["owned"]


def test_pods_of_a_deleted_owner_are_stopped_gracefully(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    owner = clock.run(server.create(claim("owner")))
    for name in ("bound", "waiting"):
        clock.run(server.create(pod(name, ownerReferences=owned_by(owner))))
    clock.run(server.bind("bound", "default", "node"))
    clock.run(server.delete(NodeClaim, "owner"))
    [left] = clock.run(server.list(Pod)).items
    assert (left.metadata.name, left.metadata.deletionGracePeriodSeconds) == ("bound", 30)


# Namespaces


def test_a_deleted_namespace_goes_when_it_is_empty(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    clock.run(server.create(Namespace(metadata=ObjectMeta(name="shop"))))
    for name in ("bound", "waiting"):
        clock.run(server.create(pod(name, namespace="shop")))
    clock.run(server.bind("bound", "shop", "node"))
    clock.run(server.delete(Namespace, "shop"))
    assert clock.run(server.get(Namespace, "shop")).status.phase == "Terminating"
    assert names_of(server, clock, Pod) == ["bound"]
    with pytest.raises(RequestForbiddenError):
        clock.run(server.create(pod("late", namespace="shop")))
    clock.run(server.delete(Pod, "bound", "shop", grace_period=0))
    with pytest.raises(ObjectNotFoundError):
        clock.run(server.get(Namespace, "shop"))


# A cluster as it was found


def test_loaded_objects_are_kept_as_they_are(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    metadata = ObjectMeta(
        name="web",
        namespace="shop",
        uid="uid-1",
        creationTimestamp="2025-12-31T00:00:00Z",
        ownerReferences=[
            OwnerReference(apiVersion="apps/v1", kind="ReplicaSet", name="gone", uid="gone")
        ],
    )
    found = Pod(metadata=metadata, spec=SPEC, status=PodStatus(phase="Running"))
    server.load([Node(metadata=ObjectMeta(name="node")), found])
    loaded = clock.run(server.get(Pod, "web", "shop"))
    assert (loaded.spec, loaded.status) == (found.spec, found.status)
    assert (loaded.metadata.uid, loaded.metadata.creationTimestamp) == (
        "uid-1",
        "2025-12-31T00:00:00Z",
    )
    assert clock.run(server.get(Node, "node")).spec.taints is None
    assert "shop" in names_of(server, clock, Namespace)


def test_a_loaded_owner_owns(clock: VirtualClock, server: InMemoryApiServer) -> None:
    metadata = ObjectMeta(name="web", namespace="default", uid="uid-1")
    owner = ReplicaSet(metadata=metadata, spec=ReplicaSetSpec())
    references = [OwnerReference(apiVersion="apps/v1", kind="ReplicaSet", name="web", uid="uid-1")]
    server.load([pod("web-1", ownerReferences=references), owner])
    clock.run(server.delete(ReplicaSet, "web", "default"))
    assert names_of(server, clock, Pod) == []


# Priority classes


def test_the_priority_of_a_pod_is_that_of_its_class_when_it_is_created(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    urgent = msgspec.structs.replace(SPEC, priorityClassName="urgent")
    with pytest.raises(RequestForbiddenError, match="no PriorityClass with name urgent"):
        clock.run(server.create(pod("early", spec=urgent)))
    clock.run(server.create(PriorityClass(metadata=ObjectMeta(name="urgent"), value=1000)))
    assert clock.run(server.create(pod("late", spec=urgent))).spec.priority == 1000


def test_a_global_default_counts_for_pods_without_a_class(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    before = clock.run(server.create(pod("before")))
    usual = PriorityClass(metadata=ObjectMeta(name="usual"), value=7, globalDefault=True)
    clock.run(server.create(usual))
    after = clock.run(server.create(pod("after")))
    assert (before.spec.priority, after.spec.priority) == (0, 7)
    assert after.spec.priorityClassName == "usual"


# Watches


async def collect(
    server: InMemoryApiServer, version: str, number: int
) -> list[WatchEvent[NodeClaim]]:
    found: list[WatchEvent[NodeClaim]] = []
    async with aclosing(server.watch(NodeClaim, version)) as events:
        async for event in events:
            found.append(event)
            if len(found) == number:
                break
    return found


async def create_claims(server: InMemoryApiServer, *names: str) -> None:
    for name in names:
        await server.create(claim(name))


def test_every_watch_sees_every_change(clock: VirtualClock, server: InMemoryApiServer) -> None:
    async def main() -> list[list[WatchEvent[NodeClaim]]]:
        version = (await server.list(NodeClaim)).resource_version
        watches = [asyncio.create_task(collect(server, version, 3)) for _ in range(3)]
        await asyncio.sleep(1)
        await create_claims(server, "a", "b", "c")
        return await asyncio.gather(*watches)

    first, *others = clock.run(main())
    assert [metadata_of(e.object).name for e in first if e.object] == ["a", "b", "c"]
    assert all(other == first for other in others)


def test_a_version_older_than_the_history_is_gone(clock: VirtualClock) -> None:
    server = InMemoryApiServer(clock, history=2)

    async def main() -> None:
        version = (await server.list(NodeClaim)).resource_version
        await create_claims(server, "a", "b")
        assert len(await collect(server, version, 2)) == 2
        await create_claims(server, "c", "d", "e")
        with pytest.raises(ResourceVersionGoneError):
            await collect(server, version, 1)

    clock.run(main())


def test_a_watch_that_falls_too_far_behind_has_to_list_again(clock: VirtualClock) -> None:
    server = InMemoryApiServer(clock, history=2)

    async def main() -> None:
        version = (await server.list(NodeClaim)).resource_version
        async with aclosing(server.watch(NodeClaim, version)) as events:
            await create_claims(server, "a")
            await anext(events)
            await create_claims(server, "b", "c", "d", "e", "f", "g")
            with pytest.raises(ResourceVersionGoneError):
                await anext(events)

    clock.run(main())


def test_a_burst_of_writes_leaves_watches_time_to_follow(clock: VirtualClock) -> None:
    server = InMemoryApiServer(clock, history=200)

    async def main() -> int:
        version = (await server.list(NodeClaim)).resource_version
        watching = asyncio.create_task(collect(server, version, 1_000))
        await create_claims(server, *(f"claim-{number}" for number in range(1_000)))
        return len(await watching)

    assert clock.run(main()) == 1_000


def test_other_kinds_do_not_shorten_the_history(clock: VirtualClock) -> None:
    server = InMemoryApiServer(clock, history=2)

    async def main() -> list[WatchEvent[NodeClaim]]:
        version = (await server.list(NodeClaim)).resource_version
        for number in range(20):
            await server.create(pod(f"pod-{number}"))
        await create_claims(server, "a")
        return await collect(server, version, 1)

    [event] = clock.run(main())
    assert event.type is EventType.ADDED


# A server that is down


def test_nobody_is_answered_while_the_server_is_stopped(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    clock.run(server.create(claim("a")))
    server.stop()
    requests: list[Callable[[], Awaitable[object]]] = [
        lambda: server.list(NodeClaim),
        lambda: server.get(NodeClaim, "a"),
        lambda: server.create(claim("b")),
        lambda: server.patch(NodeClaim, "a", {"metadata": {"labels": {"a": "b"}}}),
        lambda: server.patch_status(NodeClaim, "a", {"status": {"nodeName": "x"}}),
        lambda: server.delete(NodeClaim, "a"),
        lambda: server.evict("a", "default"),
        lambda: server.bind("a", "default", "node"),
        lambda: anext(server.watch(NodeClaim, "1")),
    ]

    async def refused(request: Callable[[], Awaitable[object]]) -> bool:
        try:
            await request()
        except ServerUnavailableError:
            return True
        return False

    assert all(clock.run(refused(request)) for request in requests)
    server.start()
    assert clock.run(server.get(NodeClaim, "a")).metadata.labels is None


def test_watches_end_when_the_server_stops_and_resume_where_they_were(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    async def main() -> list[str]:
        version = (await server.list(NodeClaim)).resource_version
        watching = asyncio.create_task(collect(server, version, 5))
        await create_claims(server, "a")
        await asyncio.sleep(1)
        server.stop()
        first = await watching
        server.start()
        await create_claims(server, "b")
        second = await collect(server, first[-1].resource_version, 1)
        return [metadata_of(e.object).name for e in (*first, *second) if e.object]

    assert clock.run(main()) == ["a", "b"]


def test_a_restarted_server_knows_no_changes_from_before(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    async def main() -> None:
        version = (await server.list(NodeClaim)).resource_version
        await create_claims(server, "a")
        server.stop()
        server.start(forget_history=True)
        with pytest.raises(ResourceVersionGoneError):
            await collect(server, version, 1)
        fresh = (await server.list(NodeClaim)).resource_version
        await create_claims(server, "b")
        [event] = await collect(server, fresh, 1)
        assert event.object is not None
        assert event.object.metadata.name == "b"

    clock.run(main())


# Events


def test_events_are_forgotten_an_hour_after_they_were_last_written(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    def event(name: str) -> Event:
        return Event(metadata=ObjectMeta(name=name, namespace="default"))

    async def write() -> list[str]:
        await server.create(event("a"))
        await server.create(event("b"))
        await clock.sleep(1800)
        await server.patch(Event, "b", {"count": 2}, "default")
        await clock.sleep(1801)
        await server.create(event("c"))
        return [each.metadata.name for each in (await server.list(Event)).items]

    assert clock.run(write()) == ["b", "c"]


# Observers


def test_observers_hear_of_every_change_in_order_once_it_is_stored(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    heard: list[tuple[str, str, bool]] = []

    def observe(change: WatchEvent[Any]) -> None:
        assert change.object is not None
        name = metadata_of(change.object).name
        is_stored = server.peek(type(change.object), name, "default") is not None
        assert change.resource_version == str(server.revision)
        heard.append((change.type.value, name, is_stored))

    server.subscribe(observe)

    async def write() -> None:
        await server.create(pod("a"))
        await server.bind("a", "default", "node-1")
        await server.delete(Pod, "a", "default", grace_period=0)

    clock.run(write())

    assert heard == [
        ("ADDED", "a", True),
        ("MODIFIED", "a", True),
        ("MODIFIED", "a", True),
        ("DELETED", "a", False),
    ]


def test_observers_may_look_at_a_stopped_server(
    clock: VirtualClock, server: InMemoryApiServer
) -> None:
    clock.run(server.create(pod("b")))
    clock.run(server.create(pod("a")))
    server.stop()

    assert [each.metadata.name for each in server.peek_all(Pod)] == ["a", "b"]
    assert server.peek(Pod, "c", "default") is None
