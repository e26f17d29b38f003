"""A process that wants to lead, and while it does writes its name into a ConfigMap:
`python -m tests.support.leading_process KUBECONFIG NAME`. A signal ends it in good order.

Many writes wait for its client at any moment, so that a process that is stopped has some to send
when it goes on.
"""

import asyncio
import signal
import sys

from wainwright.api.kubernetes.operations import ConfigMap
from wainwright.clock import SystemClock
from wainwright.cluster import Cluster
from wainwright.errors import KubernetesError
from wainwright.kube.client import KubeClient
from wainwright.kube.connections import RequestLimit
from wainwright.kube.kubeconfig import load_address
from wainwright.kube.leader_election import LeaderCluster, LeaderElection, LeaseSettings

SETTINGS = LeaseSettings(
    name="test", namespace="default", duration=4, renew_every=0.5, give_up_after=2.5
)
LIMIT = RequestLimit(qps=50, burst=10)
WRITERS = 40
PAUSE = 0.02
"""After a write that was refused: one that is refused before it is sent takes no time."""


async def main(kubeconfig: str, name: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    address = load_address(kubeconfig=kubeconfig, environment={})
    async with KubeClient.connect(address, limit=LIMIT) as client:
        election = LeaderElection(client.without_limit(), SystemClock(), SETTINGS, name)
        cluster = LeaderCluster(client.for_leader(lambda: election.is_leader), election)

        async def lead() -> None:
            await asyncio.gather(*(write(cluster, f"{name} {each}") for each in range(WRITERS)))

        await election.run(lead)


async def write(cluster: Cluster, name: str) -> None:
    for number in range(10**9):
        patch = {"data": {"leader": f"{name} {number}"}}
        try:
            # Nothing but the client keeps back what waits in it: who no longer leads cancels this.
            await asyncio.shield(cluster.patch(ConfigMap, "leader", patch, "default"))
        except KubernetesError as error:
            sys.stderr.write(f"{name}: {error}\n")
            await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except asyncio.CancelledError:
        sys.exit(0)
