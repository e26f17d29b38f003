"""Validates workloads, policies, nodes and services by the API server's rules."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    broken_rule,
    duplicate_value,
    invalid_value,
    missing_field,
    unsupported_value,
)
from wainwright.api.kubernetes import storage_validation
from wainwright.api.kubernetes.cluster import (
    NodeSpec,
    NodeStatus,
    PodDisruptionBudgetSpec,
    PriorityClass,
    RuntimeClass,
    RuntimeClassScheduling,
    ServiceSpec,
)
from wainwright.api.kubernetes.label_validation import (
    EXPECTED_DNS_LABEL,
    is_dns_label,
    selector_matches,
    validate_label_selector,
    validate_labels,
)
from wainwright.api.kubernetes.meta import LabelSelector
from wainwright.api.kubernetes.pod_validation import (
    PREEMPTION_POLICIES,
    uses_match_label_keys,
    validate_match_label_keys,
    validate_pod_spec,
    validate_pod_template,
    validate_taints,
    validate_tolerations,
)
from wainwright.api.kubernetes.resource_validation import validate_capacity, validate_resource_list
from wainwright.api.kubernetes.storage import PersistentVolumeClaimTemplate
from wainwright.api.kubernetes.storage_validation import validate_claim_spec
from wainwright.api.kubernetes.workloads import (
    DaemonSetSpec,
    DeploymentSpec,
    JobSpec,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ReplicaSetSpec,
    ReplicationControllerSpec,
    StatefulSetSpec,
)
from wainwright.whole_numbers import parse_whole_number

COMPLETION_MODES: Final = ("NonIndexed", "Indexed")
JOB_RESTART_POLICIES: Final = ("OnFailure", "Never")
SELECTOR_MISMATCH: Final = "the template's labels do not meet the selector"


def validate_replica_set(
    spec: ReplicaSetSpec | DeploymentSpec, path: FieldPath
) -> Iterator[FieldError]:
    yield from _validate_not_negative(spec.replicas, (*path, "replicas"))
    yield from _validate_selector(spec.selector, spec.template, path)
    yield from _validate_long_running_template(spec.template, (*path, "template"))


def validate_replication_controller(
    spec: ReplicationControllerSpec, path: FieldPath
) -> Iterator[FieldError]:
    yield from _validate_not_negative(spec.replicas, (*path, "replicas"))
    place, own = (*path, "selector"), spec.template.metadata.labels or {}
    if not spec.selected:
        yield missing_field(place, "labels that the template has")
    elif not spec.selected.items() <= own.items():
        yield broken_rule(place, spec.selected, SELECTOR_MISMATCH)
    yield from _validate_long_running_template(spec.template, (*path, "template"))


def validate_stateful_set(spec: StatefulSetSpec, path: FieldPath) -> Iterator[FieldError]:
    yield from _validate_not_negative(spec.replicas, (*path, "replicas"))
    if spec.ordinals is not None:
        yield from _validate_not_negative(spec.ordinals.start, (*path, "ordinals", "start"))
    yield from _validate_selector(spec.selector, spec.template, path)
    claims = spec.volumeClaimTemplates or []
    yield from _validate_long_running_template(
        _without_replaced_volumes(spec.template, claims), (*path, "template")
    )
    for index, one in enumerate(claims):
        place = (*path, "volumeClaimTemplates", index)
        if not one.metadata.name:
            yield missing_field((*place, "metadata", "name"), EXPECTED_DNS_LABEL)
        yield from validate_claim_spec(one.spec, (*place, "spec"))


def _without_replaced_volumes(
    given: PodTemplateSpec, claims: list[PersistentVolumeClaimTemplate]
) -> PodTemplateSpec:
    """A claim template replaces the pod template's volume of the same name."""
    names = {one.metadata.name for one in claims}
    if not any(volume.name in names for volume in given.spec.volumes or ()):
        return given
    kept = [volume for volume in given.spec.volumes or () if volume.name not in names]
    replace = msgspec.structs.replace
    return replace(given, spec=replace(given.spec, volumes=kept))


def validate_daemon_set(spec: DaemonSetSpec, path: FieldPath) -> Iterator[FieldError]:
    yield from _validate_selector(spec.selector, spec.template, path)
    yield from _validate_long_running_template(spec.template, (*path, "template"))


def validate_job(spec: JobSpec, path: FieldPath) -> Iterator[FieldError]:
    yield from _validate_not_negative(spec.parallelism, (*path, "parallelism"))
    yield from _validate_not_negative(spec.completions, (*path, "completions"))
    if spec.completionMode is not None and spec.completionMode not in COMPLETION_MODES:
        yield unsupported_value((*path, "completionMode"), spec.completionMode, COMPLETION_MODES)
    if spec.completionMode == "Indexed" and _completions(spec) is None:
        message = "an Indexed job needs a number of completions"
        yield missing_field((*path, "completions"), "a whole number", message)
    yield from validate_label_selector(spec.selector, (*path, "selector"))
    if spec.manualSelector:  # otherwise the API server generates the selector and its labels
        yield from _validate_selector(spec.selector, spec.template, path, empty=True)
    yield from validate_pod_template(spec.template, (*path, "template"))
    yield from _validate_job_restart_policy(
        spec.template, (*path, "template", "spec", "restartPolicy")
    )


def _completions(spec: JobSpec) -> int | None:
    """Where neither number is set, the API server sets both to 1."""
    if spec.completions is None and spec.parallelism is None:
        return 1
    return spec.completions


def _validate_job_restart_policy(given: PodTemplateSpec, path: FieldPath) -> Iterator[FieldError]:
    policy = given.spec.restartPolicy
    if not policy:
        message = "the pods of a job must end: restartPolicy is needed"
        yield missing_field(path, f"one of {', '.join(JOB_RESTART_POLICIES)}", message)
    elif policy == "Always":
        yield unsupported_value(path, policy, JOB_RESTART_POLICIES)


def _validate_long_running_template(
    given: PodTemplateSpec, path: FieldPath
) -> Iterator[FieldError]:
    """Pods of these workloads must have restartPolicy Always."""
    yield from validate_pod_template(given, path)
    if given.spec.restartPolicy in JOB_RESTART_POLICIES:
        yield invalid_value((*path, "spec", "restartPolicy"), given.spec.restartPolicy, "Always")


def _validate_selector(
    selector: LabelSelector | None, given: PodTemplateSpec, path: FieldPath, *, empty: bool = False
) -> Iterator[FieldError]:
    """The selector of a workload must match its pod template."""
    if selector is None:
        yield missing_field((*path, "selector"), "a selector that the template's labels meet")
        return
    found = list(validate_label_selector(selector, (*path, "selector")))
    if not empty and not selector.matchLabels and not selector.matchExpressions:
        message = "an empty selector would take every pod of the namespace"
        found.append(broken_rule((*path, "selector"), {}, message))
    yield from found
    own = given.metadata.labels or {}
    if not found and not selector_matches(selector, own):
        yield broken_rule((*path, "template", "metadata", "labels"), own, SELECTOR_MISMATCH)


def _validate_not_negative(number: int | None, path: FieldPath) -> Iterator[FieldError]:
    if number is not None and number < 0:
        yield invalid_value(path, number, "0 or more")


PERCENTAGE: Final = re.compile(r"[0-9]+%")
EXPECTED_POD_COUNT: Final = "a number of pods, 0 or more, or a percentage such as 25%"
HIGHEST_PRIORITY: Final = 10**9
SYSTEM_PREFIX: Final = "system-"
SYSTEM_PRIORITY_CLASSES: Final = ("system-node-critical", "system-cluster-critical")
EVICTION_POLICIES: Final = ("IfHealthyBudget", "AlwaysAllow")


def validate_disruption_budget(
    spec: PodDisruptionBudgetSpec, path: FieldPath
) -> Iterator[FieldError]:
    if spec.minAvailable is not None and spec.maxUnavailable is not None:
        message = "a budget has minAvailable or maxUnavailable, not both"
        yield broken_rule((*path, "maxUnavailable"), spec.maxUnavailable, message)
    for field in ("minAvailable", "maxUnavailable"):
        yield from _validate_pod_count(getattr(spec, field), (*path, field))
    yield from validate_label_selector(spec.selector, (*path, "selector"))
    policy = spec.unhealthyPodEvictionPolicy
    if policy is not None and policy not in EVICTION_POLICIES:
        yield unsupported_value((*path, "unhealthyPodEvictionPolicy"), policy, EVICTION_POLICIES)


def _validate_pod_count(given: int | str | None, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(given, str):
        if not PERCENTAGE.fullmatch(given):
            yield invalid_value(path, given, EXPECTED_POD_COUNT)
        elif not _is_at_most_all(given):
            yield invalid_value(path, given, "at most 100%")
    elif given is not None and given < 0:
        yield invalid_value(path, given, EXPECTED_POD_COUNT)


def _is_at_most_all(percentage: str) -> bool:
    number = parse_whole_number(percentage[:-1])
    return number is not None and number <= 100


def validate_priority_class(given: PriorityClass) -> Iterator[FieldError]:
    name = given.metadata.name
    if name.startswith(SYSTEM_PREFIX):
        if name not in SYSTEM_PRIORITY_CLASSES:
            message = f"names that begin with {SYSTEM_PREFIX} are Kubernetes' own"
            yield broken_rule(("metadata", "name"), name, message)
    elif given.value > HIGHEST_PRIORITY:
        yield invalid_value(("value",), given.value, f"at most {HIGHEST_PRIORITY}")
    if given.preemptionPolicy is not None and given.preemptionPolicy not in PREEMPTION_POLICIES:
        yield unsupported_value(("preemptionPolicy",), given.preemptionPolicy, PREEMPTION_POLICIES)


def validate_runtime_class(given: RuntimeClass) -> Iterator[FieldError]:
    if not given.handler:
        yield missing_field(("handler",), EXPECTED_DNS_LABEL)
    elif not is_dns_label(given.handler):
        yield invalid_value(("handler",), given.handler, EXPECTED_DNS_LABEL)
    if given.overhead is not None:
        yield from validate_resource_list(given.overhead.podFixed, ("overhead", "podFixed"))
    if given.scheduling is not None:
        yield from _validate_runtime_scheduling(given.scheduling, ("scheduling",))


def _validate_runtime_scheduling(
    given: RuntimeClassScheduling, path: FieldPath
) -> Iterator[FieldError]:
    yield from validate_labels(given.nodeSelector, (*path, "nodeSelector"))
    own = given.tolerations or []
    yield from validate_tolerations(own, (*path, "tolerations"))
    marks = [(one.key, one.operator, one.value, one.effect) for one in own]
    for index, mark in enumerate(marks):
        if mark in marks[:index]:
            yield duplicate_value((*path, "tolerations", index), own[index].key)


MAX_NAME_LENGTH: Final = 253

PartCheck = Callable[[Any, FieldPath], Iterator[FieldError]]


def _validate_node_spec(spec: NodeSpec, path: FieldPath) -> Iterator[FieldError]:
    yield from validate_taints(spec.taints, (*path, "taints"))


def _validate_node_status(status: NodeStatus, path: FieldPath) -> Iterator[FieldError]:
    yield from validate_capacity(status.capacity, (*path, "capacity"))
    yield from validate_capacity(status.allocatable, (*path, "allocatable"))


def _validate_service(spec: ServiceSpec, path: FieldPath) -> Iterator[FieldError]:
    yield from validate_labels(spec.selector, (*path, "selector"))


PART_CHECKS: Final[dict[tuple[str, str], PartCheck]] = {
    ("Pod", "spec"): validate_pod_spec,
    ("Node", "spec"): _validate_node_spec,
    ("Node", "status"): _validate_node_status,
    ("PersistentVolume", "spec"): storage_validation.validate_persistent_volume,
    ("PersistentVolumeClaim", "spec"): validate_claim_spec,
    ("ReplicationController", "spec"): validate_replication_controller,
    ("Service", "spec"): _validate_service,
    ("Deployment", "spec"): validate_replica_set,
    ("ReplicaSet", "spec"): validate_replica_set,
    ("StatefulSet", "spec"): validate_stateful_set,
    ("DaemonSet", "spec"): validate_daemon_set,
    ("Job", "spec"): validate_job,
    ("PodDisruptionBudget", "spec"): validate_disruption_budget,
    ("CSINode", "spec"): storage_validation.validate_csi_node,
}
"""By kind and field: the check of a part that needs no other part of the object.
The API server drops the status of most objects on creation; only a node's is validated.
"""

OBJECT_CHECKS: Final[dict[str, Callable[[Any], Iterator[FieldError]]]] = {
    "StorageClass": storage_validation.validate_storage_class,
    "PriorityClass": validate_priority_class,
    "RuntimeClass": validate_runtime_class,
}
"""Kinds without a spec, whose fields are at the top level."""


def depends_on_metadata(spec: object) -> bool:
    """Whether `validate_pod_with_metadata` is needed for a pod with this spec."""
    if not isinstance(spec, PodSpec):
        return False
    return uses_match_label_keys(spec) or any(v.ephemeral is not None for v in spec.volumes or ())


def validate_pod_with_metadata(pod: Pod) -> Iterator[FieldError]:
    """Field errors between a pod's metadata and its spec."""
    yield from validate_match_label_keys(pod.spec, pod.metadata.labels or {}, ("spec",))
    yield from _validate_ephemeral_claim_names(pod)


def _validate_ephemeral_claim_names(pod: Pod) -> Iterator[FieldError]:
    """The claim of an ephemeral volume is named after pod and volume."""
    for index, volume in enumerate(pod.spec.volumes or ()):
        name = f"{pod.metadata.name}-{volume.name}"
        if volume.ephemeral is not None and len(name) > MAX_NAME_LENGTH:
            message = f"the claim made for this volume would have a name of {len(name)} characters"
            expected = (
                f"a pod and a volume name of together at most {MAX_NAME_LENGTH - 1} characters"
            )
            yield broken_rule(("spec", "volumes", index, "name"), volume.name, message, expected)
