"""Two processes and a real API server: whoever is stopped, no two of them ever write."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import groupby

from tests.support.control_plane import ControlPlane

from wainwright.api.kubernetes.operations import ConfigMap, Lease
from wainwright.api.wire import ObjectMeta
from wainwright.kube.client import KubeClient
from wainwright.kube.kubeconfig import load_address


class Writers:
    """Who has written, in the order of the writes."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.names: list[str] = []
        self.transitions = 0
        """How often the lease has changed hands."""
        self._written = asyncio.Event()

    async def follow(self, version: str) -> None:
        async with aclosing(self._client.watch(ConfigMap, version)) as events:
            async for event in events:
                found = event.object
                if found is not None and found.metadata.name == "leader" and found.data:
                    self.names.append(found.data["leader"].split()[0])
                    self._written.set()

    async def wait_for(self, name: str, times: int = 1) -> None:
        """Until somebody of this name has written so often from now on."""
        seen = len(self.names)
        async with asyncio.timeout(30):
            while self.names[seen:].count(name) < times:
                self._written.clear()
                await self._written.wait()

    async def wait_for_anybody(self) -> None:
        async with asyncio.timeout(30):
            await self._written.wait()

    @property
    def leaders(self) -> list[str]:
        return [name for name, _ in groupby(self.names)]


@asynccontextmanager
async def process(plane: ControlPlane, name: str) -> AsyncIterator["subprocess.Popen[bytes]"]:
    child = subprocess.Popen(  # noqa: ASYNC220 - started before anything waits for it
        [sys.executable, "-m", "tests.support.leading_process", str(plane.kubeconfig), name]
    )
    try:
        yield child
    finally:
        child.send_signal(signal.SIGCONT)
        child.kill()
        child.wait()


def test_a_stopped_leader_is_replaced_and_never_writes_beside_its_successor(
    api: ControlPlane,
) -> None:
    async def main() -> Writers:
        address = load_address(kubeconfig=str(api.kubeconfig), environment={})
        async with KubeClient.connect(address) as client:
            created = await client.create(
                ConfigMap(metadata=ObjectMeta(name="leader", namespace="default"))
            )
            writers = Writers(client)
            task = asyncio.create_task(writers.follow(created.metadata.resourceVersion))
            async with process(api, "first") as first, process(api, "second") as second:
                await writers.wait_for_anybody()
                children = {"first": first, "second": second}
                stopped = children.pop(writers.names[0])
                [(other, successor)] = children.items()
                await writers.wait_for(writers.names[0], 50)  # by now many wait for their turn
                os.kill(stopped.pid, signal.SIGSTOP)
                await writers.wait_for(other, 5)
                os.kill(stopped.pid, signal.SIGCONT)
                await writers.wait_for(other, 100)
                successor.terminate()
                assert await asyncio.to_thread(successor.wait, 10) == 0
                await writers.wait_for(writers.names[0], 5)
                lease = await client.get(Lease, "test", "default")
                assert lease.spec.holderIdentity == writers.names[0]
                writers.transitions = lease.spec.leaseTransitions or 0
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return writers

    writers = asyncio.run(main())
    assert len(set(writers.leaders[:2])) == 2
    assert writers.leaders[0] == writers.leaders[-1], "who ends in good order is followed at once"
    # Two that wrote at the same time would alternate more often than the lease changed hands.
    assert len(writers.leaders) <= writers.transitions + 1
