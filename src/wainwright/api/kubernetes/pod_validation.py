"""Validates pods and pod templates: containers, affinity, spread, tolerations."""

from collections.abc import Iterator
from typing import Final

import msgspec

from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    broken_rule,
    duplicate_value,
    field_warning,
    invalid_value,
    missing_field,
    unsupported_value,
)
from wainwright.api.kubernetes import resource_validation
from wainwright.api.kubernetes.cluster import Taint
from wainwright.api.kubernetes.label_validation import (
    EXPECTED_DNS_LABEL,
    EXPECTED_NODE_NAME,
    EXPECTED_OBJECT_NAME,
    is_dns_label,
    is_label_key,
    is_label_value,
    is_object_name,
    validate_annotations,
    validate_label_key,
    validate_label_keys,
    validate_label_selector,
    validate_labels,
    validate_node_selector,
    validate_node_selector_term,
)
from wainwright.api.kubernetes.meta import LabelSelector
from wainwright.api.kubernetes.resource_validation import (
    validate_pod_level_resources,
    validate_resource_list,
)
from wainwright.api.kubernetes.storage_validation import validate_volumes
from wainwright.api.kubernetes.workloads import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodSchedulingGate,
    PodSpec,
    PodTemplateSpec,
    Toleration,
    TopologySpreadConstraint,
)
from wainwright.api.wire import EXPECTED_LABEL_KEY, EXPECTED_LABEL_VALUE

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TOLERATION_OPERATORS: Final = ("Equal", "Exists")
GATED_TOLERATION_OPERATORS: Final = ("Lt", "Gt")
"""Numeric comparison: known to some API servers, and there only behind a feature gate."""


def validate_tolerations(given: list[Toleration] | None, path: FieldPath) -> Iterator[FieldError]:
    for index, toleration in enumerate(given or ()):
        yield from _validate_toleration(toleration, (*path, index))


def _validate_toleration(toleration: Toleration, path: FieldPath) -> Iterator[FieldError]:
    if toleration.key and not is_label_key(toleration.key):
        yield invalid_value((*path, "key"), toleration.key, EXPECTED_LABEL_KEY)
    if not toleration.key and toleration.operator != "Exists":
        message = "a toleration without a key takes every taint and needs the operator Exists"
        yield broken_rule((*path, "operator"), toleration.operator, message, "Exists")
    else:
        yield from _validate_toleration_operator(toleration, path)
    if toleration.effect and toleration.effect not in TAINT_EFFECTS:
        yield unsupported_value((*path, "effect"), toleration.effect, TAINT_EFFECTS)
    elif toleration.tolerationSeconds is not None and toleration.effect != "NoExecute":
        message = "tolerationSeconds is only for the effect NoExecute"
        yield broken_rule((*path, "effect"), toleration.effect, message, "NoExecute")


def _validate_toleration_operator(toleration: Toleration, path: FieldPath) -> Iterator[FieldError]:
    operator, value = toleration.operator or "Equal", toleration.value
    if operator == "Exists" and value:
        yield broken_rule((*path, "value"), value, "the operator Exists takes no value", "no value")
    elif operator == "Equal" and not is_label_value(value):
        yield invalid_value((*path, "value"), value, EXPECTED_LABEL_VALUE)
    elif operator in GATED_TOLERATION_OPERATORS:
        message = "API servers know this operator only behind a feature gate"
        yield field_warning((*path, "operator"), operator, message)
    elif operator not in TOLERATION_OPERATORS:
        yield unsupported_value((*path, "operator"), operator, TOLERATION_OPERATORS)


def validate_taints(given: list[Taint] | None, path: FieldPath) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(given or ()):
        yield from _validate_taint(taint, (*path, index))
        if (taint.key, taint.effect) in seen:
            yield duplicate_value((*path, index), f"{taint.key}:{taint.effect}")
        seen.add((taint.key, taint.effect))


def _validate_taint(taint: Taint, path: FieldPath) -> Iterator[FieldError]:
    yield from validate_label_key(taint.key, (*path, "key"))
    if not is_label_value(taint.value):
        yield invalid_value((*path, "value"), taint.value, EXPECTED_LABEL_VALUE)
    if taint.effect not in TAINT_EFFECTS:
        yield unsupported_value((*path, "effect"), taint.effect, TAINT_EFFECTS)


REQUIRED_FIELD: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_FIELD: Final = "preferredDuringSchedulingIgnoredDuringExecution"
NEEDS_LABEL_SELECTOR: Final = "label keys say something only beside a labelSelector"


def validate_affinity(given: Affinity | None, path: FieldPath) -> Iterator[FieldError]:
    if given is None:
        return
    if given.nodeAffinity is not None:
        yield from _validate_node_affinity(given.nodeAffinity, (*path, "nodeAffinity"))
    for name, one in named_pod_affinities(given):
        yield from _validate_pod_affinity(one, (*path, name))


def named_pod_affinities(given: Affinity) -> Iterator[tuple[str, PodAffinity]]:
    if given.podAffinity is not None:
        yield "podAffinity", given.podAffinity
    if given.podAntiAffinity is not None:
        yield "podAntiAffinity", given.podAntiAffinity


def pod_affinity_terms(given: PodAffinity) -> Iterator[tuple[FieldPath, PodAffinityTerm]]:
    """Every term of an affinity, required or preferred, with its path."""
    for index, term in enumerate(given.requiredDuringSchedulingIgnoredDuringExecution or ()):
        yield (REQUIRED_FIELD, index), term
    for index, weighted in enumerate(given.preferredDuringSchedulingIgnoredDuringExecution or ()):
        yield (PREFERRED_FIELD, index, "podAffinityTerm"), weighted.podAffinityTerm


def _validate_node_affinity(given: NodeAffinity, path: FieldPath) -> Iterator[FieldError]:
    if given.requiredDuringSchedulingIgnoredDuringExecution is not None:
        required = given.requiredDuringSchedulingIgnoredDuringExecution
        yield from validate_node_selector(required, (*path, REQUIRED_FIELD))
    for index, term in enumerate(given.preferredDuringSchedulingIgnoredDuringExecution or ()):
        place = (*path, PREFERRED_FIELD, index)
        yield from _validate_weight(term.weight, place)
        yield from validate_node_selector_term(
            term.preference, (*place, "preference"), preferred=True
        )


def _validate_pod_affinity(given: PodAffinity, path: FieldPath) -> Iterator[FieldError]:
    for index, weighted in enumerate(given.preferredDuringSchedulingIgnoredDuringExecution or ()):
        yield from _validate_weight(weighted.weight, (*path, PREFERRED_FIELD, index))
    for place, term in pod_affinity_terms(given):
        yield from _validate_pod_affinity_term(term, (*path, *place))


def _validate_weight(weight: int, path: FieldPath) -> Iterator[FieldError]:
    if not 1 <= weight <= 100:
        yield invalid_value((*path, "weight"), weight, "a weight from 1 to 100")


def _validate_pod_affinity_term(term: PodAffinityTerm, path: FieldPath) -> Iterator[FieldError]:
    if not term.topologyKey:
        yield missing_field((*path, "topologyKey"), "the node label that says what counts as near")
    else:
        yield from validate_label_key(term.topologyKey, (*path, "topologyKey"))
    yield from validate_label_selector(term.labelSelector, (*path, "labelSelector"))
    yield from validate_label_selector(term.namespaceSelector, (*path, "namespaceSelector"))
    for index, name in enumerate(term.namespaces or ()):
        if not is_dns_label(name):
            yield invalid_value((*path, "namespaces", index), name, EXPECTED_DNS_LABEL)
    yield from _validate_affinity_label_keys(term, path)


def _validate_affinity_label_keys(term: PodAffinityTerm, path: FieldPath) -> Iterator[FieldError]:
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = getattr(term, field)
        if keys and term.labelSelector is None:
            yield broken_rule((*path, field), keys, NEEDS_LABEL_SELECTOR, "a labelSelector")
        else:
            yield from validate_label_keys(keys, (*path, field))
    for index, key in enumerate(term.matchLabelKeys or ()):
        if key in (term.mismatchLabelKeys or ()):
            message = "this key is also in mismatchLabelKeys"
            yield broken_rule((*path, "matchLabelKeys", index), key, message)


UNSATISFIABLE_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
NODE_INCLUSION_POLICIES: Final = ("Honor", "Ignore")
SPREAD_FIELD: Final = "topologySpreadConstraints"


def validate_topology_spread(
    given: list[TopologySpreadConstraint] | None, path: FieldPath
) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(given or ()):
        place = (*path, index)
        yield from _validate_spread_constraint(constraint, place)
        kind = (constraint.topologyKey, constraint.whenUnsatisfiable)
        if kind in seen:
            message = "an earlier constraint has the same topologyKey and whenUnsatisfiable"
            yield broken_rule(place, "{" + ", ".join(kind) + "}", message)
        seen.add(kind)


def _validate_spread_constraint(
    constraint: TopologySpreadConstraint, path: FieldPath
) -> Iterator[FieldError]:
    if constraint.maxSkew < 1:
        yield invalid_value((*path, "maxSkew"), constraint.maxSkew, "1 or more")
    if not constraint.topologyKey:
        yield missing_field((*path, "topologyKey"), "the node label to spread over")
    if constraint.whenUnsatisfiable not in UNSATISFIABLE_ACTIONS:
        yield unsupported_value(
            (*path, "whenUnsatisfiable"), constraint.whenUnsatisfiable, UNSATISFIABLE_ACTIONS
        )
    elif constraint.minDomains is not None and constraint.whenUnsatisfiable != "DoNotSchedule":
        message = "minDomains is only for whenUnsatisfiable: DoNotSchedule"
        yield broken_rule((*path, "minDomains"), constraint.minDomains, message)
    if constraint.minDomains is not None and constraint.minDomains < 1:
        yield invalid_value((*path, "minDomains"), constraint.minDomains, "1 or more")
    yield from _validate_inclusion_policies(constraint, path)
    yield from _validate_spread_selector(constraint, path)


def _validate_inclusion_policies(
    constraint: TopologySpreadConstraint, path: FieldPath
) -> Iterator[FieldError]:
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = getattr(constraint, field)
        if policy is not None and policy not in NODE_INCLUSION_POLICIES:
            yield unsupported_value((*path, field), policy, NODE_INCLUSION_POLICIES)


def _validate_spread_selector(
    constraint: TopologySpreadConstraint, path: FieldPath
) -> Iterator[FieldError]:
    yield from validate_label_selector(constraint.labelSelector, (*path, "labelSelector"))
    if constraint.matchLabelKeys and constraint.labelSelector is None:
        keys = constraint.matchLabelKeys
        yield broken_rule((*path, "matchLabelKeys"), keys, NEEDS_LABEL_SELECTOR, "a labelSelector")
    else:
        yield from validate_label_keys(constraint.matchLabelKeys, (*path, "matchLabelKeys"))


def uses_match_label_keys(spec: PodSpec) -> bool:
    return next(_match_label_keys(spec), None) is not None


def validate_match_label_keys(
    spec: PodSpec, labels: dict[str, str], path: FieldPath
) -> Iterator[FieldError]:
    """The API server merges the pod's labels into the selector, which may not have the keys.
    In a pod read from a cluster they are the result of that merge, which is valid.
    """
    for place, keys, selector in _match_label_keys(spec):
        named = set(selector.matchLabels or ())
        for one in selector.matchExpressions or ():
            if one.operator != "In" or one.values != [labels.get(one.key)]:
                named.add(one.key)
        for index, key in enumerate(keys):
            if key in named and key in labels:
                message = "this key is also in the labelSelector"
                yield broken_rule((*path, *place, "matchLabelKeys", index), key, message)


def _match_label_keys(spec: PodSpec) -> Iterator[tuple[FieldPath, list[str], LabelSelector]]:
    for index, constraint in enumerate(spec.topologySpreadConstraints or ()):
        if constraint.matchLabelKeys and constraint.labelSelector is not None:
            yield (SPREAD_FIELD, index), constraint.matchLabelKeys, constraint.labelSelector
    for name, affinity in named_pod_affinities(spec.affinity) if spec.affinity else ():
        for place, term in pod_affinity_terms(affinity):
            if term.matchLabelKeys and term.labelSelector is not None:
                yield ("affinity", name, *place), term.matchLabelKeys, term.labelSelector


PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
EXPECTED_PORT: Final = "a port from 1 to 65535"

HostPortKey = tuple[str, str, int]


def validate_containers(spec: PodSpec, path: FieldPath, *, is_pod: bool) -> Iterator[FieldError]:
    """All containers of a pod or of a template; only a pod's have their defaults already."""
    regular, initial = spec.containers or [], spec.initContainers or []
    if not regular:
        yield missing_field(
            (*path, "containers"), "a list of containers", "a pod needs at least one container"
        )
    names: set[str] = set()
    claims = {claim.name for claim in spec.resourceClaims or ()}
    for kind, group in (("containers", regular), ("initContainers", initial)):
        for index, container in enumerate(group):
            place = (*path, kind, index)
            yield from _validate_container_name(container.name, names, place)
            yield from _validate_container(container, place)
            yield from resource_validation.validate_resource_claims(
                container.resources, claims, (*place, "resources")
            )
    yield from _validate_host_ports(spec, path, is_pod=is_pod)


def _validate_container_name(name: str, seen: set[str], path: FieldPath) -> Iterator[FieldError]:
    if not name:
        yield missing_field((*path, "name"), EXPECTED_DNS_LABEL, "a container needs a name")
    elif not is_dns_label(name):
        yield invalid_value((*path, "name"), name, EXPECTED_DNS_LABEL)
    elif name in seen:
        yield duplicate_value((*path, "name"), name)
    seen.add(name)


def _validate_container(container: Container, path: FieldPath) -> Iterator[FieldError]:
    yield from resource_validation.validate_resource_requirements(
        container.resources, (*path, "resources")
    )
    for index, port in enumerate(container.ports or ()):
        yield from _validate_port(port, (*path, "ports", index))
    if container.restartPolicy is not None and container.restartPolicy not in RESTART_POLICIES:
        yield unsupported_value((*path, "restartPolicy"), container.restartPolicy, RESTART_POLICIES)


def _validate_port(port: ContainerPort, path: FieldPath) -> Iterator[FieldError]:
    if not port.containerPort:
        yield missing_field((*path, "containerPort"), EXPECTED_PORT)
    elif not 0 < port.containerPort < 65536:
        yield invalid_value((*path, "containerPort"), port.containerPort, EXPECTED_PORT)
    if not 0 <= port.hostPort < 65536:
        yield invalid_value((*path, "hostPort"), port.hostPort, EXPECTED_PORT)
    if port.protocol and port.protocol not in PROTOCOLS:
        yield unsupported_value((*path, "protocol"), port.protocol, PROTOCOLS)


def _validate_host_ports(spec: PodSpec, path: FieldPath, *, is_pod: bool) -> Iterator[FieldError]:
    """Containers share the host's ports; init containers run one after another."""
    shared: set[HostPortKey] = set()
    for index, container in enumerate(spec.containers or ()):
        place = (*path, "containers", index, "ports")
        yield from _validate_port_collisions(container, spec.hostNetwork and is_pod, shared, place)
        if spec.hostNetwork:
            yield from _validate_host_network_ports(container, place)
    for index, container in enumerate(spec.initContainers or ()):
        place = (*path, "initContainers", index, "ports")
        yield from _validate_port_collisions(container, spec.hostNetwork and is_pod, set(), place)


def _validate_port_collisions(
    container: Container, on_host: bool, seen: set[HostPortKey], path: FieldPath
) -> Iterator[FieldError]:
    for index, port in enumerate(container.ports or ()):
        number = port.hostPort or (port.containerPort if on_host else 0)
        if not number:
            continue
        taken = (port.protocol or "TCP", port.hostIP, number)
        if taken in seen:
            field = "hostPort" if port.hostPort else "containerPort"
            message = "this host port is in use by the same pod"
            yield broken_rule((*path, index, field), number, message)
        seen.add(taken)


def _validate_host_network_ports(container: Container, path: FieldPath) -> Iterator[FieldError]:
    for index, port in enumerate(container.ports or ()):
        if port.hostPort and port.hostPort != port.containerPort:
            message = "with hostNetwork a host port is the same as the container's port"
            yield broken_rule((*path, index, "hostPort"), port.hostPort, message)


EXPECTED_GATE: Final = "a name such as example.com/wait"
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")


def validate_pod_spec(spec: PodSpec, path: FieldPath) -> Iterator[FieldError]:
    """The spec of a standalone pod."""
    yield from _validate_spec(spec, path, is_pod=True)
    if spec.nodeName and spec.schedulingGates:
        message = "a pod cannot be on a node while it has scheduling gates"
        yield broken_rule((*path, "nodeName"), spec.nodeName, message)


def validate_pod_template(given: PodTemplateSpec, path: FieldPath) -> Iterator[FieldError]:
    """The pod template of a workload."""
    own, place = given.metadata.labels, (*path, "metadata")
    yield from validate_labels(own, (*place, "labels"))
    yield from validate_annotations(given.metadata.annotations, (*place, "annotations"))
    yield from _validate_spec(given.spec, (*path, "spec"), is_pod=False)
    # The API server accepts the template, and then rejects every pod created from it.
    for field_error in validate_match_label_keys(given.spec, own or {}, (*path, "spec")):
        yield msgspec.structs.replace(field_error, warning=True)


def _validate_spec(spec: PodSpec, path: FieldPath, *, is_pod: bool) -> Iterator[FieldError]:
    yield from validate_containers(spec, path, is_pod=is_pod)
    yield from validate_labels(spec.nodeSelector, (*path, "nodeSelector"))
    yield from validate_affinity(spec.affinity, (*path, "affinity"))
    yield from validate_tolerations(spec.tolerations, (*path, "tolerations"))
    yield from validate_topology_spread(
        spec.topologySpreadConstraints, (*path, "topologySpreadConstraints")
    )
    yield from _validate_scheduling_gates(spec.schedulingGates, (*path, "schedulingGates"))
    yield from validate_volumes(spec.volumes, (*path, "volumes"))
    yield from _validate_pod_resource_claims(spec.resourceClaims, (*path, "resourceClaims"))
    yield from validate_resource_list(spec.overhead, (*path, "overhead"))
    if spec.resources is not None:
        yield from validate_pod_level_resources(
            spec.resources, spec.containers or [], (*path, "resources")
        )
    yield from _validate_class_names(spec, path)
    yield from _validate_pod_policies(spec, path)


def _validate_class_names(spec: PodSpec, path: FieldPath) -> Iterator[FieldError]:
    if spec.nodeName and not is_object_name(spec.nodeName):
        yield invalid_value((*path, "nodeName"), spec.nodeName, EXPECTED_NODE_NAME)
    if spec.priorityClassName and not is_object_name(spec.priorityClassName):
        yield invalid_value(
            (*path, "priorityClassName"), spec.priorityClassName, EXPECTED_OBJECT_NAME
        )
    if spec.runtimeClassName is not None and not is_object_name(spec.runtimeClassName):
        yield invalid_value(
            (*path, "runtimeClassName"), spec.runtimeClassName, EXPECTED_OBJECT_NAME
        )


def _validate_pod_policies(spec: PodSpec, path: FieldPath) -> Iterator[FieldError]:
    if spec.preemptionPolicy is not None and spec.preemptionPolicy not in PREEMPTION_POLICIES:
        yield unsupported_value(
            (*path, "preemptionPolicy"), spec.preemptionPolicy, PREEMPTION_POLICIES
        )
    if spec.restartPolicy and spec.restartPolicy not in RESTART_POLICIES:
        yield unsupported_value((*path, "restartPolicy"), spec.restartPolicy, RESTART_POLICIES)


def _validate_scheduling_gates(
    given: list[PodSchedulingGate] | None, path: FieldPath
) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, gate in enumerate(given or ()):
        yield from validate_label_key(gate.name, (*path, index, "name"), EXPECTED_GATE)
        if gate.name in names:
            yield duplicate_value((*path, index, "name"), gate.name)
        names.add(gate.name)


def _validate_pod_resource_claims(
    given: list[PodResourceClaim] | None, path: FieldPath
) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, claim in enumerate(given or ()):
        place = (*path, index)
        if not claim.name:
            yield missing_field((*place, "name"), EXPECTED_DNS_LABEL)
        elif not is_dns_label(claim.name):
            yield invalid_value((*place, "name"), claim.name, EXPECTED_DNS_LABEL)
        elif claim.name in names:
            yield duplicate_value((*place, "name"), claim.name)
        names.add(claim.name)
        if (claim.resourceClaimName is None) == (claim.resourceClaimTemplateName is None):
            message = "a claim names either a resourceClaimName or a resourceClaimTemplateName"
            yield broken_rule(place, claim.name, message)
