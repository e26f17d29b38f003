"""The cache of the cluster: watches, own writes, lost history, and an API server that is away."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
from tests.support.claim_stories import ObservedCluster
from tests.support.controlled_cluster import node_pool, pending_pod

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta
from wainwright.clock import VirtualClock
from wainwright.cluster import WatchEvent
from wainwright.controllers.informer_cache import (
    Change,
    InformerCache,
    with_finalizer,
    without_finalizer,
)
from wainwright.errors import ConflictError
from wainwright.sim.api_server import InMemoryApiServer

Story = Callable[[InMemoryApiServer, InformerCache, VirtualClock], Coroutine[Any, Any, None]]


def run(
    story: Story,
    *,
    watching: bool = True,
    history: int = 10_000,
    server: type[InMemoryApiServer] = InMemoryApiServer,
) -> None:
    clock = VirtualClock()

    async def main() -> None:
        api = server(clock, history=history)
        cache = InformerCache(api, clock, [Pod, Node, NodePool])
        task = asyncio.create_task(cache.run()) if watching else None
        if task is not None:
            await cache.wait_until_listed()
        await story(api, cache, clock)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    try:
        clock.run(main())
    finally:
        clock.close()


def _node(name: str, **metadata: Any) -> Node:
    return Node(metadata=ObjectMeta(name=name, **metadata))


def test_it_is_listed_once_every_kind_was() -> None:
    async def story(api: InMemoryApiServer, _: InformerCache, clock: VirtualClock) -> None:
        await api.create(_node("a"))
        cache = InformerCache(api, clock, [Pod, Node])
        states = [cache.is_listed]
        task = asyncio.create_task(cache.run())
        await cache.wait_until_listed()
        states.append(cache.is_listed)
        assert states == [False, True]
        assert cache.get(Node, "a") is not None
        task.cancel()

    run(story)


def test_changes_of_others_are_seen_with_the_object_before() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, clock: VirtualClock) -> None:
        seen: list[tuple[bool, bool]] = []

        def note(change: Change[Node]) -> None:
            seen.append((change.before is not None, change.after is not None))

        cache.subscribe(Node, note)
        await api.create(_node("a"))
        await api.patch(Node, "a", {"metadata": {"labels": {"team": "web"}}})
        await api.delete(Node, "a")
        await clock.sleep(1)
        assert seen == [(False, True), (True, True), (True, False)]
        assert list(cache.all(Node)) == []

    run(story)


def test_a_change_is_of_the_spec_unless_only_status_or_metadata_changed() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, clock: VirtualClock) -> None:
        seen: list[bool] = []
        cache.subscribe(NodePool, lambda change: seen.append(change.is_of_spec))
        await api.create(node_pool("web"))
        await api.patch(NodePool, "web", {"spec": {"weight": 10}})
        await api.patch_status(NodePool, "web", {"status": {"nodes": 3}})
        await api.patch(NodePool, "web", {"metadata": {"annotations": {"team": "web"}}})
        await api.delete(NodePool, "web")
        await clock.sleep(1)
        assert seen == [True, True, False, False, True]

    run(story)


def test_own_writes_are_there_before_any_watch_shows_them() -> None:
    async def story(_: InMemoryApiServer, cache: InformerCache, __: VirtualClock) -> None:
        node = await cache.create(_node("a"))
        assert cache.get(Node, "a") is node
        patched = await cache.patch(node, {"metadata": {"labels": {"team": "web"}}})
        assert cache.get(Node, "a") is patched

    run(story, watching=False)


def test_an_older_version_from_the_watch_does_not_undo_an_own_write() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, clock: VirtualClock) -> None:
        node = await api.create(_node("a"))
        labels: list[dict[str, str] | None] = []
        cache.subscribe(Node, lambda change: labels.append(change.object.metadata.labels))
        # Both writes are done before the watch gets its turn, and it then shows the first.
        await api.patch(Node, "a", {"metadata": {"labels": {"team": "db"}}})
        await cache.patch(node, {"metadata": {"labels": {"team": "web"}}})
        await clock.sleep(1)
        assert labels == [{"team": "web"}]

    run(story)


def test_an_own_removal_is_not_undone_by_the_events_before_it() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, clock: VirtualClock) -> None:
        node = await api.create(_node("a", finalizers=["example.com/one"]))
        await clock.sleep(1)
        present: list[bool] = []
        await api.patch(Node, "a", {"metadata": {"labels": {"team": "web"}}})
        await cache.delete(node)
        cache.subscribe(Node, lambda change: present.append(change.after is not None))
        await cache.patch(node, {"metadata": {"finalizers": None}})
        assert cache.get(Node, "a") is None
        await clock.sleep(1)
        assert present == [True, False]
        await api.create(_node("a"))
        await clock.sleep(1)
        assert cache.get(Node, "a") is not None, "a new object of that name is another one"

    run(story)


class LateAnswers(InMemoryApiServer):
    """Answers to patches take five seconds."""

    async def patch(self, *args: Any, **more: Any) -> Any:
        answer = await super().patch(*args, **more)
        await self._clock.sleep(5)
        return answer


def test_a_late_answer_does_not_bring_back_what_is_gone() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, clock: VirtualClock) -> None:
        made = await cache.create(_node("a"))
        write = asyncio.create_task(cache.patch(made, {"metadata": {"labels": {"team": "web"}}}))
        await clock.sleep(1)
        await api.delete(Node, "a")
        await write
        assert cache.get(Node, "a") is None
        again = await cache.create(_node("a"))
        assert cache.get(Node, "a") == again

    run(story, server=LateAnswers)


def test_what_is_already_gone_counts_as_deleted() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, clock: VirtualClock) -> None:
        node = await api.create(_node("a"))
        await clock.sleep(1)
        await api.delete(Node, "a")
        await cache.delete(node)
        assert cache.get(Node, "a") is None

    run(story)


def test_another_object_of_the_name_is_not_deleted_in_its_place() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, _: VirtualClock) -> None:
        first = await api.create(_node("a"))
        await api.delete(Node, "a")
        await api.create(_node("a"))
        with pytest.raises(ConflictError):
            await cache.delete(first)

    run(story)


def test_a_status_patch_of_an_old_version_is_refused() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, _: VirtualClock) -> None:
        old = await api.create(node_pool())
        await api.patch(NodePool, "web", {"metadata": {"labels": {"team": "web"}}})
        with pytest.raises(ConflictError):
            await cache.patch_status(old, {"nodes": 3})
        patched = await cache.patch_status(old, {"nodes": 3}, any_version=True)
        assert patched.status is not None
        assert patched.status.nodes == 3

    run(story)


def test_what_others_write_meanwhile_is_kept_and_holds_no_update_up() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, _: VirtualClock) -> None:
        old = await api.create(_node("a", finalizers=["example.com/theirs", "example.com/ours"]))
        theirs = {"metadata": {"finalizers": ["example.com/ours", "example.com/new"]}}
        await api.patch(Node, "a", theirs)
        released = await cache.update(old, without_finalizer("example.com/ours"))
        assert released.metadata.finalizers == ["example.com/new"]

    run(story, watching=False)


@pytest.mark.parametrize("others", [4, 5])
def test_an_update_is_tried_five_times(others: int) -> None:
    async def story(api: InMemoryApiServer, _: InformerCache, clock: VirtualClock) -> None:
        numbers = iter(range(others))

        async def write(verb: str, *_: object) -> None:
            if verb == "patch" and (number := next(numbers, None)) is not None:
                await api.patch(Node, "a", {"metadata": {"labels": {"number": str(number)}}})

        old = await api.create(_node("a"))
        cache = InformerCache(ObservedCluster(api, write), clock, [Node])
        if others < 5:
            patched = await cache.update(old, with_finalizer("example.com/ours"))
            assert patched.metadata.finalizers == ["example.com/ours"]
        else:
            with pytest.raises(ConflictError):
                await cache.update(old, with_finalizer("example.com/ours"))

    run(story, watching=False)


def test_what_was_decided_for_another_spec_is_not_written() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, _: VirtualClock) -> None:
        old = await api.create(node_pool())
        await api.patch(NodePool, "web", {"spec": {"weight": 7}})
        with pytest.raises(ConflictError):
            await cache.update(old, lambda _: {"nodes": 3}, status=True)

    run(story, watching=False)


def test_what_was_decided_before_a_deletion_is_not_written_after_it() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, _: VirtualClock) -> None:
        old = await api.create(_node("a", finalizers=["example.com/theirs"]))
        await api.delete(Node, "a")
        with pytest.raises(ConflictError):
            await cache.update(old, lambda _: {"metadata": {"labels": {"team": "web"}}})

    run(story, watching=False)


def test_after_lost_history_everything_is_listed_again() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, clock: VirtualClock) -> None:
        for name in ("a", "b"):
            await api.create(_node(name))
        await clock.sleep(1)
        kept = cache.get(Node, "b")
        api.stop()
        await clock.sleep(1)
        api.start(forget_history=True)
        await api.delete(Node, "a")
        await api.create(_node("c"))
        await clock.sleep(60)
        assert sorted(each.metadata.name for each in cache.all(Node)) == ["b", "c"]
        assert cache.get(Node, "b") is kept

    run(story)


def test_a_list_does_not_remove_what_was_created_after_it() -> None:
    class SlowList(InMemoryApiServer):
        """A server whose list was taken before our write, and arrives after it."""

        async def list(self, kind: type[Any], namespace: str = "", *, name: str = "") -> Any:
            listed = await super().list(kind, namespace, name=name)
            await asyncio.sleep(5)
            return listed

    clock = VirtualClock()

    async def main() -> None:
        api = SlowList(clock)
        cache = InformerCache(api, clock, [Node])
        task = asyncio.create_task(cache.run())
        await clock.sleep(1)
        await cache.create(_node("a"))
        await cache.wait_until_listed()
        assert cache.get(Node, "a") is not None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    clock.run(main())
    clock.close()


def test_it_comes_back_when_the_api_server_does() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, clock: VirtualClock) -> None:
        api.stop()
        await clock.sleep(300)
        api.start()
        await api.create(_node("a"))
        await clock.sleep(31)  # the longest wait between two attempts
        assert cache.get(Node, "a") is not None

    run(story)


def test_a_watch_that_breaks_goes_on_after_the_last_event_it_showed() -> None:
    class Breaking(InMemoryApiServer):
        versions: list[str]

        async def watch(
            self, kind: type[Any], resource_version: str
        ) -> AsyncGenerator[WatchEvent[Any], None]:
            self.versions.append(resource_version)
            async for event in super().watch(kind, resource_version):
                yield event
                if event.object is not None:
                    return

    clock = VirtualClock()

    async def main() -> None:
        api = Breaking(clock)
        api.versions = []
        cache = InformerCache(api, clock, [Node])
        task = asyncio.create_task(cache.run())
        await cache.wait_until_listed()
        made = [await api.create(_node(name)) for name in ("a", "b")]
        await clock.sleep(1)
        assert len(cache.all(Node)) == 2
        assert api.versions[1:] == [each.metadata.resourceVersion for each in made]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    clock.run(main())
    clock.close()


def test_an_index_follows_its_value() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, clock: VirtualClock) -> None:
        by_node = cache.index(Pod, lambda pod: pod.spec.nodeName)
        for name in ("b", "a", "c"):
            await api.create(pending_pod(name))
            await api.bind(name, "default", "node-2" if name == "c" else "node-1")
        await clock.sleep(1)
        assert [pod.metadata.name for pod in by_node.get("node-1")] == ["a", "b"]
        await api.delete(Pod, "a", "default", grace_period=0)
        await clock.sleep(1)
        assert [pod.metadata.name for pod in by_node.get("node-1")] == ["b"]
        assert by_node.get("") == []
        assert (by_node.count("node-2"), by_node.count("node-3")) == (1, 0)

    run(story)


def test_who_subscribes_late_gets_what_is_there() -> None:
    async def story(_: InMemoryApiServer, cache: InformerCache, __: VirtualClock) -> None:
        created = await cache.create(_node("a"))
        seen: list[Change[Node]] = []
        cache.subscribe(Node, seen.append)
        assert [(each.before, each.after) for each in seen] == [(None, created)]

    run(story, watching=False)


def test_kinds_that_are_not_kept_can_be_written() -> None:
    async def story(api: InMemoryApiServer, _: InformerCache, clock: VirtualClock) -> None:
        cache = InformerCache(api, clock, [Pod])
        node = await cache.create(_node("a"))
        await cache.patch(node, {"metadata": {"labels": {"team": "web"}}})
        stored = await api.get(Node, "a")
        assert msgspec.to_builtins(stored)["metadata"]["labels"] == {"team": "web"}

    run(story)


def test_what_is_no_longer_watched_does_not_count_as_listed() -> None:
    async def story(api: InMemoryApiServer, cache: InformerCache, _: VirtualClock) -> None:
        watches = asyncio.create_task(cache.run())
        await cache.wait_until_listed()

        def fail(_: Change[Node]) -> None:
            raise ZeroDivisionError

        cache.subscribe(Node, fail)
        await api.create(_node("a"))
        await asyncio.wait([watches])
        assert not cache.is_listed
        assert watches.exception() is not None

    run(story, watching=False)
