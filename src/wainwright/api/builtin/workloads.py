"""What makes pods: Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job."""

from wainwright.api.builtin.part import Part
from wainwright.api.builtin.pod import PodTemplate
from wainwright.api.builtin.selection import LabelSelector
from wainwright.api.builtin.volume import PersistentVolumeClaimTemplate
from wainwright.api.wire import Metadata


class ReplicaSetSpec(Part, frozen=True, kw_only=True):
    """Deployments and ReplicaSets say the same things about their pods."""

    replicas: int | None = None
    """Absent means one."""
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class Deployment(Part, frozen=True, kw_only=True):
    apiVersion: str = "apps/v1"
    kind: str = "Deployment"
    metadata: Metadata = Metadata()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class ReplicaSet(Part, frozen=True, kw_only=True):
    apiVersion: str = "apps/v1"
    kind: str = "ReplicaSet"
    metadata: Metadata = Metadata()
    spec: ReplicaSetSpec = ReplicaSetSpec()


class ReplicationControllerSpec(Part, frozen=True, kw_only=True):
    """Of the time before ReplicaSets: its selector can only list labels."""

    replicas: int | None = None
    """Absent means one."""
    selector: dict[str, str] | None = None
    """Absent or empty, the API server makes it the labels of the template."""
    template: PodTemplate = PodTemplate()

    @property
    def selected(self) -> dict[str, str]:
        return self.selector or self.template.metadata.labels or {}


class ReplicationController(Part, frozen=True, kw_only=True):
    apiVersion: str = "v1"
    kind: str = "ReplicationController"
    metadata: Metadata = Metadata()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class StatefulSetOrdinals(Part, frozen=True, kw_only=True):
    start: int = 0


class StatefulSetSpec(Part, frozen=True, kw_only=True):
    replicas: int | None = None
    """Absent means one."""
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()
    volumeClaimTemplates: list[PersistentVolumeClaimTemplate] | None = None
    ordinals: StatefulSetOrdinals | None = None
    podManagementPolicy: str = ""
    serviceName: str = ""


class StatefulSet(Part, frozen=True, kw_only=True):
    apiVersion: str = "apps/v1"
    kind: str = "StatefulSet"
    metadata: Metadata = Metadata()
    spec: StatefulSetSpec = StatefulSetSpec()


class DaemonSetSpec(Part, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class DaemonSet(Part, frozen=True, kw_only=True):
    apiVersion: str = "apps/v1"
    kind: str = "DaemonSet"
    metadata: Metadata = Metadata()
    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(Part, frozen=True, kw_only=True):
    parallelism: int | None = None
    completions: int | None = None
    completionMode: str | None = None
    suspend: bool | None = None
    manualSelector: bool | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = PodTemplate()


class JobCondition(Part, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""


class JobStatus(Part, frozen=True, kw_only=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: list[JobCondition] | None = None


class Job(Part, frozen=True, kw_only=True):
    apiVersion: str = "batch/v1"
    kind: str = "Job"
    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
