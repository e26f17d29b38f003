"""Looks at a cluster again and again, and tells the page what it sees. It only ever reads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from wainwright import __version__
from wainwright.clock import Clock
from wainwright.errors import WainError
from wainwright.live_page.event_stream import EventStream, FrameKind
from wainwright.report.visual.story import LiveInfo, LiveMode, Report, Story
from wainwright.report.visual.story_changes import StorySnapshot


class ClusterWatch:
    def __init__(self, load: Callable[[], Story], clock: Clock, *, interval: float) -> None:
        """`load` reads the cluster and decides about its nodes, which takes a while."""
        self.stream = EventStream()
        self._load = load
        self._clock = clock
        self._interval = interval
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cluster")
        self._problem = ""

    async def begin(self) -> None:
        self._story = await self._in_thread()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(self._interval)
            await self.look()

    async def look(self) -> None:
        """What cannot be read leaves the last picture, which then says that it is old."""
        before, problem = self._story, ""
        try:
            self._story = await self._in_thread()
        except WainError as error:
            problem = f"not refreshed: {error.message}"
        is_same = problem == self._problem and not _differs(before, self._story)
        self._problem = problem
        if not is_same:
            self.stream.add(FrameKind.STORY, self._encode(self.stream.next_id))

    async def end(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    async def report(self) -> bytes:
        return self._encode(self.stream.last_id)

    def _encode(self, frame: str) -> bytes:
        live = LiveInfo(mode=LiveMode.CLUSTER, frame=frame, problem=self._problem)
        return msgspec.json.encode(Report(version=__version__, stories=[self._story], live=live))

    async def _in_thread(self) -> Story:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._load)


def _differs(before: Story, after: Story) -> bool:
    """But for the time at which it was looked at."""
    same_time = msgspec.structs.replace(after, start=before.start)
    return bool(StorySnapshot(same_time).changes_since(StorySnapshot(before))) or _sizes(
        before
    ) != _sizes(after)


def _sizes(story: Story) -> tuple[int, ...]:
    history = story.history
    return len(history.nodes), len(history.pods), len(history.reservations)
