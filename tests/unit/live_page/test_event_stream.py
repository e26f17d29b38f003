"""The stream of changes: nothing is lost, nothing is kept for ever."""

import asyncio

from wainwright.live_page.event_stream import EventStream, FrameKind


def stream_of(count: int, **limits: int) -> EventStream:
    stream = EventStream(**limits)
    for number in range(count):
        stream.add(FrameKind.CHANGES, b"%d" % number)
    return stream


def data_since(stream: EventStream, last: str) -> list[bytes] | None:
    frames = stream.since(last)
    return None if frames is None else [each.data for each in frames]


def test_what_was_missed_comes_in_order_and_once() -> None:
    stream = stream_of(3)
    seen = stream.last_id
    assert data_since(stream, seen) == []
    for text in (b"a", b"b"):
        stream.add(FrameKind.CHANGES, text)
    assert data_since(stream, seen) == [b"a", b"b"]
    assert stream.since(stream.last_id) == []


def test_the_id_that_is_announced_is_the_one_that_comes() -> None:
    stream = stream_of(1)
    announced, before = stream.next_id, stream.last_id
    stream.add(FrameKind.STORY, b"{}")
    frames = stream.since(before)
    assert frames is not None
    assert [each.id for each in frames] == [announced] == [stream.last_id]


def test_whoever_comes_too_late_begins_anew() -> None:
    stream = stream_of(1, max_frames=3)
    seen = stream.last_id
    for _ in range(3):
        stream.add(FrameKind.CHANGES, b"x")
    assert data_since(stream, seen) == [b"x"] * 3
    stream.add(FrameKind.CHANGES, b"x")
    assert stream.since(seen) is None


def test_memory_is_bounded_by_bytes_and_the_latest_frame_stays() -> None:
    stream, seen = EventStream(max_bytes=100), ""
    for _ in range(50):
        seen = stream.last_id
        stream.add(FrameKind.CHANGES, b"x" * 60)
    assert data_since(stream, seen) == [b"x" * 60]
    assert len(stream._frames) == 1
    stream.add(FrameKind.STORY, b"y" * 1000)
    assert [len(each.data) for each in stream._frames] == [1000]


def test_ids_of_another_process_or_of_nobody_mean_nothing() -> None:
    stream, other = stream_of(3), stream_of(3)
    run = stream.last_id.partition("-")[0]
    long = (f"{run}-{'9' * 5000}", f"{run}-{'0' * 5000}3")
    for identity in (other.last_id, "", "7", f"{stream.last_id}0", "a-b-c", stream.next_id, *long):
        assert stream.since(identity) is None


def test_a_frame_is_an_event_of_the_wire_format() -> None:
    stream = EventStream()
    before = stream.last_id
    stream.add(FrameKind.CHANGES, b'{"a":1}')
    frames = stream.since(before)
    assert frames is not None
    text = f'id: {stream.last_id}\nevent: changes\ndata: {{"a":1}}\n\n'
    assert frames[0].encode().decode() == text


def test_waiting_ends_with_a_frame_of_another_thread() -> None:
    async def main() -> None:
        stream = stream_of(1)
        last = stream.last_id
        waiting = asyncio.ensure_future(stream.wait(last))
        await asyncio.sleep(0)
        await asyncio.to_thread(stream.add, FrameKind.CHANGES, b"x")
        await waiting
        await stream.wait(last)  # there is one already

    asyncio.run(asyncio.wait_for(main(), 30))
