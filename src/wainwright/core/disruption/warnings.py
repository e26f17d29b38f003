"""What somebody should know before commands are carried out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from wainwright.core.disruption.commands import Command
from wainwright.model.disruption import CommandWarning, WarningCode
from wainwright.model.labels import CAPACITY_TYPE, SPOT
from wainwright.model.plan import PlannedNodeClaim
from wainwright.model.pod import Pod
from wainwright.model.snapshot import Snapshot

FEW_TYPES: Final = 5


def command_warnings(before: Snapshot, commands: Sequence[Command]) -> Iterator[CommandWarning]:
    """In the order of the commands; `before` is the cluster that the first of them changes."""
    watcher = _ReplicaWatcher(before)
    for step, command in enumerate(commands, start=1):
        for claim in command.replacements:
            types = len(claim.choices.instance_types)
            if types < FEW_TYPES and claim.launch.reservation_id is None:
                yield CommandWarning(
                    code=WarningCode.FEW_TYPES, step=step, node=claim.name, count=types
                )
        yield from watcher.warnings(step, command)


class _ReplicaWatcher:
    """Follows where the pods of each workload are."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = {pod.key: node.name for node in snapshot.nodes for pod in node.pods}
        self._workloads = {
            pod.key: workload
            for node in snapshot.nodes
            for pod in node.pods
            if (workload := _workload(pod))
        }
        self._replicas = Counter(self._workloads.values())
        self._spot = {
            node.name for node in snapshot.nodes if node.labels.get(CAPACITY_TYPE) == SPOT
        }

    def warnings(self, step: int, command: Command) -> Iterator[CommandWarning]:
        self._spot |= {claim.name for claim in command.replacements if _is_spot(claim)}
        moved: dict[str, str] = {}
        for move in command.moves():
            self._nodes[move.pod] = move.target
            workload = self._workloads.get(move.pod)
            if workload is not None and move.target in self._spot:
                moved[workload] = move.target
        for workload, target in sorted(moved.items()):
            replicas = self._replicas[workload]
            if replicas > 1 and self._count(workload, target) == replicas:
                yield CommandWarning(
                    code=WarningCode.REPLICAS_TOGETHER,
                    step=step,
                    node=target,
                    count=replicas,
                    workload=workload,
                )

    def _count(self, workload: str, target: str) -> int:
        own = (pod for pod, owner in self._workloads.items() if owner == workload)
        return sum(self._nodes[pod] == target for pod in own)


def _workload(pod: Pod) -> str:
    """Empty for pods without an owner, and for those of DaemonSets."""
    return (
        f"{pod.namespace}/{pod.eviction.owner}" if pod.eviction.owner and not pod.daemonset else ""
    )


def _is_spot(claim: PlannedNodeClaim) -> bool:
    return claim.launch.capacity_type == SPOT
