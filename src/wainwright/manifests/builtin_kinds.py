"""Every kind that Kubernetes itself serves or once served, by group, and which of them a misspelt
one was meant to be: kinds that are not read are accepted, and a misspelt Deployment would be too.
"""

import re
from functools import lru_cache
from typing import Final

from wainwright.api.field_error import FieldError, closest_match, field_warning
from wainwright.model.spelling import closest_spelling

CORE: Final = ""
PRERELEASE: Final = re.compile(r"v\d+(alpha|beta)\d+")
"""Kubernetes has had too many of them to list, so that any is accepted."""
KINDS_BY_GROUP: Final[dict[str, tuple[str, ...]]] = {
    CORE: (
        *("Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "LimitRange", "List"),
        *("Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate"),
        *("ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount"),
        *("RangeAllocation", "PodStatusResult", "SerializedReference", "Status"),
    ),
    "apps": (
        *("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
        *("DeploymentRollback", "Scale"),
    ),
    "batch": ("CronJob", "Job", "JobTemplate"),
    "autoscaling": ("HorizontalPodAutoscaler", "Scale"),
    "policy": ("Eviction", "PodDisruptionBudget", "PodSecurityPolicy"),
    "networking.k8s.io": (
        *("Ingress", "IngressClass", "NetworkPolicy", "IPAddress", "ServiceCIDR", "ClusterCIDR"),
    ),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "storage.k8s.io": (
        *("CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"),
        "VolumeAttributesClass",
    ),
    "scheduling.k8s.io": ("PodGroup", "PriorityClass", "Workload"),
    "node.k8s.io": ("RuntimeClass",),
    "coordination.k8s.io": ("Lease", "LeaseCandidate"),
    "discovery.k8s.io": ("EndpointSlice",),
    "events.k8s.io": ("Event",),
    "admissionregistration.k8s.io": (
        *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
        *("MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"),
        *("ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"),
    ),
    "apiextensions.k8s.io": ("ConversionReview", "CustomResourceDefinition"),
    "apiregistration.k8s.io": ("APIService",),
    "certificates.k8s.io": (
        *("CertificateSigningRequest", "ClusterTrustBundle", "PodCertificateRequest"),
    ),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "authentication.k8s.io": ("SelfSubjectReview", "TokenRequest", "TokenReview"),
    "authorization.k8s.io": (
        *("LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview"),
        "SubjectAccessReview",
    ),
    "resource.k8s.io": (
        *("DeviceClass", "DeviceTaintRule", "PodSchedulingContext", "ResourceClaim"),
        *("ResourceClaimParameters", "ResourceClaimTemplate", "ResourceClass"),
        *("ResourceClassParameters", "ResourceSlice"),
    ),
    "storagemigration.k8s.io": ("StorageVersionMigration",),
    "internal.apiserver.k8s.io": ("StorageVersion",),
    "extensions": (
        *("DaemonSet", "Deployment", "DeploymentRollback", "HorizontalPodAutoscaler", "Ingress"),
        *("Job", "NetworkPolicy", "PodSecurityPolicy", "ReplicaSet", "Scale"),
    ),
}
STABLE_VERSIONS: Final = {"autoscaling": ("v2", "v1"), "extensions": ()}
"""Where it is not v1 alone; the one to use first."""


@lru_cache(maxsize=1024)
def misspelt_kind(api_version: str, kind: str) -> FieldError | None:
    """A warning where a kind, group or version of Kubernetes is probably misspelt. None where it is
    right, and where it may be a custom resource or a kind that is newer than this list.
    """
    group, _, version = api_version.rpartition("/")
    if group not in KINDS_BY_GROUP:
        return _misspelt_group(api_version, group, kind)
    if kind not in KINDS_BY_GROUP[group]:
        return _misspelt_name(api_version, group, kind)
    if version in _stable_versions(group) or PRERELEASE.fullmatch(version):
        return None
    return _unknown_version(api_version, kind, _home(kind, group))


def _misspelt_group(api_version: str, group: str, kind: str) -> FieldError | None:
    """Somebody else's group may be similar, but does not have a kind of the same name as well."""
    homes = tuple(name for name, kinds in KINDS_BY_GROUP.items() if name and kind in kinds)
    if "." in group:
        meant = closest_spelling("", group, homes) or ""
    else:  # no custom resource can have such a group
        meant = closest_match(group, list(homes))
    return _unknown_version(api_version, kind, _home(kind, meant)) if meant else None


def _misspelt_name(api_version: str, group: str, kind: str) -> FieldError | None:
    meant = closest_spelling("", kind, KINDS_BY_GROUP[group])
    if meant is None:
        home = _home(kind, "")
        return _unknown_version(api_version, kind, home) if home else None
    message = f"probably misspelt: {kind} is not a kind of {api_version}"
    return field_warning(("kind",), kind, message, f"did you mean {meant}?")


def _unknown_version(api_version: str, kind: str, meant: str) -> FieldError:
    message = f"probably misspelt: {api_version} has no kind {kind}"
    return field_warning(("apiVersion",), api_version, message, f"did you mean {meant}?")


def _home(kind: str, group: str) -> str:
    """The apiVersion to use for a kind: of this group, or of the first that serves it; empty if
    there is none.
    """
    for name in (group, *KINDS_BY_GROUP):
        versions = _stable_versions(name)
        if versions and kind in KINDS_BY_GROUP[name]:
            return f"{name}/{versions[0]}" if name else versions[0]
    return ""


def _stable_versions(group: str) -> tuple[str, ...]:
    return STABLE_VERSIONS.get(group, ("v1",))
