"""The processes of a simulated cluster beside our controllers and the API server, run together."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from wainwright.clock import Clock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.disruption_budgets import DisruptionBudgets
from wainwright.sim.informers import Informers, PodsByNode, earliest
from wainwright.sim.kube_scheduler import KubeScheduler
from wainwright.sim.kubelet import KubeletOptions, Kubelets
from wainwright.sim.node_lifecycle import NodeLifecycle, PodGarbageCollector, TaintEviction
from wainwright.sim.volume_binder import VolumeBinder
from wainwright.sim.workload_controllers import WorkloadControllers
from wainwright.translate.topology import DefaultConstraints


class ClusterComponents:
    """kube-scheduler, kubelets, and the controllers of kube-controller-manager that matter here.

    All of them read the API server through one set of informers.
    """

    def __init__(
        self,
        api: InMemoryApiServer,
        clock: Clock,
        account: EmulatedAwsAccount,
        options: KubeletOptions | None = None,
        *,
        seed: int = 0,
        default_constraints: DefaultConstraints = (),
    ) -> None:
        """`default_constraints`: those that the kube-scheduler is configured with."""
        self._informers = informers = Informers(api, clock)
        pods_by_node = PodsByNode(informers)
        self.kubelets = Kubelets(
            account,
            informers,
            pods_by_node,
            options or KubeletOptions(),
            seed=seed,
        )
        self._scheduler = KubeScheduler(api, clock, informers, default_constraints)
        self._lifecycle = NodeLifecycle(informers, self.kubelets)
        self._eviction = TaintEviction(informers, pods_by_node)
        self._collector = PodGarbageCollector(informers, pods_by_node)
        self._workloads = WorkloadControllers(informers)
        self._budgets = DisruptionBudgets(informers)
        subnets = account.services.network.state.subnets.values()
        zones = tuple(sorted({subnet.zone for subnet in subnets}))
        self._volumes = VolumeBinder(informers, pods_by_node, zones)

    @property
    def next_due(self) -> float | None:
        """When one of them does something by time alone; None where nothing is due."""
        return earliest(
            self.kubelets.next_due,
            self._scheduler.next_due,
            self._lifecycle.next_due,
            self._eviction.next_due,
            self._collector.next_due,
            self._workloads.next_due,
            self._budgets.next_due,
            self._volumes.next_due,
        )

    def lose(self, instance_id: str) -> None:
        """The machine stops answering."""
        self.kubelets.lose(instance_id)

    def recover(self, instance_id: str) -> None:
        self.kubelets.recover(instance_id)

    def set_never_join(self, share: float) -> None:
        self.kubelets.set_never_join(share)

    def set_less(self, less: Mapping[str, str]) -> None:
        self.kubelets.set_less(less)

    async def run(self) -> None:
        """Until cancelled. Nobody acts before everything has been listed."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informers.run(), name="informers")
            await self._informers.synced()
            for name, process in self._processes().items():
                tasks.create_task(process(), name=name)

    def _processes(self) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        return {
            "workloads": self._workloads.run,
            "daemons": self._workloads.run_daemons,
            "ephemeral volumes": self._volumes.run_ephemeral,
            "volumes": self._volumes.run_claims,
            "kube-scheduler": self._scheduler.run,
            "attachments": self._volumes.run_attachments,
            "kubelets": self.kubelets.run_nodes,
            "startup agents": self.kubelets.run_startup_agents,
            "pods": self.kubelets.run_pods,
            "node lifecycle": self._lifecycle.run,
            "taint eviction": self._eviction.run,
            "pod garbage collection": self._collector.run,
            "disruption budgets": self._budgets.run,
        }
