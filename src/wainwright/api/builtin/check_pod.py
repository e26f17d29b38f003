"""Pods and pod templates: the checks of all their parts, and those between the parts."""

from collections.abc import Iterator
from typing import Final

import msgspec

from wainwright.api.builtin.check_affinity import affinity
from wainwright.api.builtin.check_containers import RESTARTS, containers
from wainwright.api.builtin.check_labels import A_NODE_NAME, label_key, labels
from wainwright.api.builtin.check_metadata import (
    A_LABEL_NAME,
    A_NAME,
    annotations,
    is_label_name,
    is_name,
)
from wainwright.api.builtin.check_resources import amounts, pod_level
from wainwright.api.builtin.check_spread import repeated_keys, spread
from wainwright.api.builtin.check_taints import tolerations
from wainwright.api.builtin.check_volumes import volumes
from wainwright.api.builtin.pod import PodResourceClaim, PodSchedulingGate, PodSpec, PodTemplate
from wainwright.api.builtin.wording import among, broken, missing, twice, wrong
from wainwright.api.fault import Fault, Path

A_GATE: Final = "a name such as example.com/wait"
PREEMPTION: Final = ("PreemptLowerPriority", "Never")


def pod_spec(spec: PodSpec, path: Path) -> Iterator[Fault]:
    """The spec of a pod that is created itself."""
    yield from _spec(spec, path, is_pod=True)
    if spec.nodeName and spec.schedulingGates:
        message = "a pod cannot be on a node while it has scheduling gates"
        yield broken((*path, "nodeName"), spec.nodeName, message)


def template(given: PodTemplate, path: Path) -> Iterator[Fault]:
    """The pods that a workload will make."""
    own, place = given.metadata.labels, (*path, "metadata")
    yield from labels(own, (*place, "labels"))
    yield from annotations(given.metadata.annotations, (*place, "annotations"))
    yield from _spec(given.spec, (*path, "spec"), is_pod=False)
    # The API server takes the template, and then refuses every pod that is made from it.
    for fault in repeated_keys(given.spec, own or {}, (*path, "spec")):
        yield msgspec.structs.replace(fault, warning=True)


def _spec(spec: PodSpec, path: Path, *, is_pod: bool) -> Iterator[Fault]:
    yield from containers(spec, path, is_pod=is_pod)
    yield from labels(spec.nodeSelector, (*path, "nodeSelector"))
    yield from affinity(spec.affinity, (*path, "affinity"))
    yield from tolerations(spec.tolerations, (*path, "tolerations"))
    yield from spread(spec.topologySpreadConstraints, (*path, "topologySpreadConstraints"))
    yield from _gates(spec.schedulingGates, (*path, "schedulingGates"))
    yield from volumes(spec.volumes, (*path, "volumes"))
    yield from _resource_claims(spec.resourceClaims, (*path, "resourceClaims"))
    yield from amounts(spec.overhead, (*path, "overhead"))
    if spec.resources is not None:
        yield from pod_level(spec.resources, spec.containers or [], (*path, "resources"))
    yield from _names(spec, path)
    yield from _policies(spec, path)


def _names(spec: PodSpec, path: Path) -> Iterator[Fault]:
    if spec.nodeName and not is_name(spec.nodeName):
        yield wrong((*path, "nodeName"), spec.nodeName, A_NODE_NAME)
    if spec.priorityClassName and not is_name(spec.priorityClassName):
        yield wrong((*path, "priorityClassName"), spec.priorityClassName, A_NAME)
    if spec.runtimeClassName is not None and not is_name(spec.runtimeClassName):
        yield wrong((*path, "runtimeClassName"), spec.runtimeClassName, A_NAME)


def _policies(spec: PodSpec, path: Path) -> Iterator[Fault]:
    if spec.preemptionPolicy is not None and spec.preemptionPolicy not in PREEMPTION:
        yield among((*path, "preemptionPolicy"), spec.preemptionPolicy, PREEMPTION)
    if spec.restartPolicy and spec.restartPolicy not in RESTARTS:
        yield among((*path, "restartPolicy"), spec.restartPolicy, RESTARTS)


def _gates(given: list[PodSchedulingGate] | None, path: Path) -> Iterator[Fault]:
    names: set[str] = set()
    for index, gate in enumerate(given or ()):
        yield from label_key(gate.name, (*path, index, "name"), A_GATE)
        if gate.name in names:
            yield twice((*path, index, "name"), gate.name)
        names.add(gate.name)


def _resource_claims(given: list[PodResourceClaim] | None, path: Path) -> Iterator[Fault]:
    names: set[str] = set()
    for index, claim in enumerate(given or ()):
        place = (*path, index)
        if not claim.name:
            yield missing((*place, "name"), A_LABEL_NAME)
        elif not is_label_name(claim.name):
            yield wrong((*place, "name"), claim.name, A_LABEL_NAME)
        elif claim.name in names:
            yield twice((*place, "name"), claim.name)
        names.add(claim.name)
        if (claim.resourceClaimName is None) == (claim.resourceClaimTemplateName is None):
            message = "a claim names either a resourceClaimName or a resourceClaimTemplateName"
            yield broken(place, claim.name, message)
