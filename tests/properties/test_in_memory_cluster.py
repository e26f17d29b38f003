"""A list and the events after it give the objects of every later list, whatever happens between."""

from contextlib import aclosing
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.kubernetes.workloads import Container, Pod, PodSpec
from wainwright.api.wire import ObjectMeta
from wainwright.clock import VirtualClock
from wainwright.cluster import EventType
from wainwright.errors import KubernetesError
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.merge_patch import merged

SPEC = PodSpec(containers=[Container(name="app")])
NAMES = st.sampled_from(["a", "b", "c"])
LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
FINALIZERS = st.sampled_from([None, ["example.com/keep"]])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, FINALIZERS),
        st.tuples(st.just("label"), NAMES, LABELS),
        st.tuples(st.just("finalize"), NAMES, FINALIZERS),
        st.tuples(st.just("bind"), NAMES, st.none()),
        st.tuples(st.just("phase"), NAMES, st.sampled_from(["Running", "Succeeded"])),
        st.tuples(st.just("delete"), NAMES, st.sampled_from([None, 0, 5])),
        st.tuples(st.just("evict"), NAMES, st.sampled_from([None, 0, 5])),
        st.tuples(st.just("wait"), NAMES, st.none()),
    ),
    max_size=25,
)

Operation = tuple[str, str, Any]


async def carry_out(server: InMemoryApiServer, clock: VirtualClock, operation: Operation) -> None:
    verb, name, value = operation
    match verb:
        case "create":
            metadata = ObjectMeta(name=name, namespace="default", finalizers=value)
            await server.create(Pod(metadata=metadata, spec=SPEC))
        case "label":
            await server.patch(Pod, name, {"metadata": {"labels": value}}, "default")
        case "finalize":
            await server.patch(Pod, name, {"metadata": {"finalizers": value}}, "default")
        case "bind":
            await server.bind(name, "default", "node")
        case "phase":
            await server.patch_status(Pod, name, {"status": {"phase": value}}, "default")
        case "delete":
            await server.delete(Pod, name, "default", grace_period=value)
        case "evict":
            await server.evict(name, "default", grace_period=value)
        case _:
            await clock.sleep(1)


async def replayed(
    server: InMemoryApiServer, objects: dict[str, Pod], version: str, until: str
) -> dict[str, Pod]:
    """The objects after the events up to a version; each event must fit what is there."""
    async with aclosing(server.watch(Pod, version)) as events:
        while int(version) < int(until):
            event = await anext(events)
            assert int(event.resource_version) > int(version)
            version = event.resource_version
            if event.object is None:
                continue
            name = event.object.metadata.name
            assert (name in objects) is (event.type is not EventType.ADDED)
            if event.type is EventType.DELETED:
                del objects[name]
            else:
                objects[name] = event.object
    return objects


@given(before=OPERATIONS, after=OPERATIONS)
def test_a_list_and_the_events_after_it_give_every_later_list(
    before: list[Operation], after: list[Operation]
) -> None:
    clock = VirtualClock()
    server = InMemoryApiServer(clock, bookmark_every=3)

    async def run_all(operations: list[Operation]) -> None:
        for operation in operations:
            try:
                await carry_out(server, clock, operation)
            except KubernetesError:
                continue  # refused: nothing may have changed, which the comparison shows

    async def main() -> None:
        await run_all(before)
        first = await server.list(Pod)
        await run_all(after)
        # The last write makes its version that of the last event.
        await server.create(Pod(metadata=ObjectMeta(name="end", namespace="default"), spec=SPEC))
        last = await server.list(Pod)
        objects = {each.metadata.name: each for each in first.items}
        found = await replayed(server, objects, first.resource_version, last.resource_version)
        assert found == {each.metadata.name: each for each in last.items}
        versions = [int(each.metadata.resourceVersion) for each in last.items]
        assert len(set(versions)) == len(versions)

    try:
        clock.run(main())
    finally:
        clock.close()


@given(target=st.recursive(st.integers(), lambda inner: st.dictionaries(st.text(), inner)))
def test_a_patch_with_the_object_itself_changes_nothing(target: Any) -> None:
    assert merged(msgspec.json.decode(msgspec.json.encode(target)), target) == target
