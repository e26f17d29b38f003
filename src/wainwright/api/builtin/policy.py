"""Rules about pods that live outside them: PodDisruptionBudget, PriorityClass, RuntimeClass."""

from wainwright.api.builtin.part import Part, Resources
from wainwright.api.builtin.pod import Toleration
from wainwright.api.builtin.selection import LabelSelector
from wainwright.api.wire import Metadata


class PodDisruptionBudgetSpec(Part, frozen=True, kw_only=True):
    minAvailable: int | str | None = None
    maxUnavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthyPodEvictionPolicy: str | None = None


class PodDisruptionBudgetStatus(Part, frozen=True, kw_only=True):
    disruptionsAllowed: int = 0
    currentHealthy: int = 0
    desiredHealthy: int = 0
    expectedPods: int = 0
    observedGeneration: int = 0


class PodDisruptionBudget(Part, frozen=True, kw_only=True):
    apiVersion: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    metadata: Metadata = Metadata()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Part, frozen=True, kw_only=True):
    apiVersion: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    metadata: Metadata = Metadata()
    value: int = 0
    globalDefault: bool = False
    preemptionPolicy: str | None = None


class Overhead(Part, frozen=True, kw_only=True):
    podFixed: Resources | None = None


class RuntimeClassScheduling(Part, frozen=True, kw_only=True):
    nodeSelector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(Part, frozen=True, kw_only=True):
    """How containers are run, what that costs on top, and which nodes can do it."""

    apiVersion: str = "node.k8s.io/v1"
    kind: str = "RuntimeClass"
    metadata: Metadata = Metadata()
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: RuntimeClassScheduling | None = None
