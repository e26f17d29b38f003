"""How an API server serves each kind: its path, its scope, its status subresource."""

from functools import lru_cache
from typing import Final

import msgspec

from wainwright.api.karpenter.auto_mode import AUTO_MODE_GROUP, AUTO_MODE_KIND, NodeClass
from wainwright.api.kinds import CUSTOM_RESOURCES
from wainwright.api.kubernetes.label_validation import CLUSTER_SCOPED_KINDS
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS
from wainwright.api.kubernetes.operations import (
    CapacityBuffer,
    ConfigMap,
    Event,
    Lease,
    PodTemplate,
    VolumeAttachment,
)
from wainwright.api.wire import WireStruct

KINDS_WITHOUT_GENERATION: Final = frozenset(
    {
        "CSINode",
        "ConfigMap",
        "Event",
        "Lease",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "RuntimeClass",
        "Service",
        "StorageClass",
        "VolumeAttachment",
    }
)
KINDS_WITHOUT_STATUS: Final = frozenset(
    {
        "CSINode",
        "ConfigMap",
        "Event",
        "Lease",
        "PodTemplate",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
    }
)
OPERATION_KINDS: Final[dict[tuple[str, str], type[WireStruct]]] = {
    ("v1", "ConfigMap"): ConfigMap,
    ("v1", "Event"): Event,
    ("coordination.k8s.io/v1", "Lease"): Lease,
    ("storage.k8s.io/v1", "VolumeAttachment"): VolumeAttachment,
    ("v1", "PodTemplate"): PodTemplate,
    ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer"): CapacityBuffer,
}
"""Kinds that controllers use and no manifest of a plan holds."""


class ApiResource(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that an API server serves."""

    type: type[WireStruct]
    api_version: str
    kind: str
    plural: str
    is_namespaced: bool
    is_custom: bool
    """Whether a CRD of ours defines it."""
    has_status: bool
    """Whether its status is written by a subresource, and by nothing else."""
    has_generation: bool
    """Whether metadata.generation counts the changes of its spec."""

    @property
    def group(self) -> str:
        """Empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def qualified_plural(self) -> str:
        """As the API server writes it in messages: nodepools.karpenter.sh, pods."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, or of a collection where there is no name."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        scope = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        rest = "".join(f"/{part}" for part in (self.plural, name, subresource) if part)
        return f"{root}{scope}{rest}"


def _kubernetes_resource(api_version: str, kind: str, struct: type[WireStruct]) -> ApiResource:
    lower = kind.lower()
    return ApiResource(
        type=struct,
        api_version=api_version,
        kind=kind,
        plural=f"{lower}es" if lower.endswith("s") else f"{lower}s",
        is_namespaced=kind not in CLUSTER_SCOPED_KINDS and kind != "VolumeAttachment",
        is_custom=False,
        has_status=kind not in KINDS_WITHOUT_STATUS,
        has_generation=kind not in KINDS_WITHOUT_GENERATION,
    )


@lru_cache(maxsize=1)
def served_resources() -> dict[type[WireStruct], ApiResource]:
    """Every kind that controllers read or write, by its wire struct."""
    own = [
        ApiResource(
            type=item.type,
            api_version=item.api_version,
            kind=item.kind,
            plural=item.plural,
            is_namespaced=False,
            is_custom=True,
            has_status=True,
            has_generation=True,
        )
        for item in CUSTOM_RESOURCES
    ]
    known = {**KUBERNETES_KINDS, **OPERATION_KINDS}
    core = [_kubernetes_resource(*key, struct) for key, struct in known.items()]
    return {item.type: item for item in (*own, *core)}


AUTO_MODE_CLASS: Final = ApiResource(
    type=NodeClass,
    api_version=f"{AUTO_MODE_GROUP}/v1",
    kind=AUTO_MODE_KIND,
    plural="nodeclasses",
    is_namespaced=False,
    is_custom=False,
    has_status=True,
    has_generation=True,
)
"""Served by EKS Auto Mode; snapshots list it, and no controller does."""


def resource_of(kind: type[WireStruct]) -> ApiResource:
    return AUTO_MODE_CLASS if kind is NodeClass else served_resources()[kind]
