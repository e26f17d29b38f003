"""Constraints of pods: other pods, host ports, preferred nodes; equal ones are one object."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from wainwright.api.kubernetes.pod_validation import named_pod_affinities, pod_affinity_terms
from wainwright.api.kubernetes.workloads import (
    Affinity,
    Container,
    ContainerPort,
    Pod,
    PodAffinityTerm,
    PodSpec,
)
from wainwright.model.pod import NO_CONSTRAINTS, HostPort, PodConstraints, TopologySpread
from wainwright.translate.requirements import NodeAffinityTranslator
from wainwright.translate.resources import is_sidecar
from wainwright.translate.topology import (
    DefaultSpreads,
    NamespaceIndex,
    PodAffinityTranslator,
    translate_spreads,
)
from wainwright.translate.volumes import PodVolumes


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """In order, each once, so that pods that take the same ports are alike."""
    found = {
        _host_port(port, spec)
        for each in _long_running_containers(spec)
        for port in each.ports or ()
    }
    taken = [each for each in found if each.port]
    return tuple(sorted(taken, key=lambda each: (each.port, each.protocol, each.address)))


def _long_running_containers(spec: PodSpec) -> Iterator[Container]:
    """Containers that run as long as the pod does."""
    yield from spec.containers or ()
    yield from filter(is_sidecar, spec.initContainers or ())


def _host_port(port: ContainerPort, spec: PodSpec) -> HostPort:
    """On the node's own network a container's port is a port of the node."""
    number = port.hostPort or (port.containerPort if spec.hostNetwork else 0)
    return HostPort(port=number, protocol=port.protocol or "TCP", address=port.hostIP or "0.0.0.0")


NO_AFFINITY: Final = Affinity()
NO_LABELS: Final[Mapping[str, str]] = {}


class ConstraintDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What of a pod, besides its spec, its constraints hang on."""

    labels: tuple[str, ...] = ()
    namespace: bool = False


NO_DEPENDENCIES: Final = ConstraintDependencies()


class ConstraintTranslator:
    """Makes constraints; the same ones are always the same object, which is quick to tell."""

    def __init__(
        self,
        places: NodeAffinityTranslator,
        namespaces: NamespaceIndex,
        defaults: DefaultSpreads | None = None,
    ) -> None:
        self._places = places
        self._namespaces = namespaces
        self._defaults = defaults
        self._known: dict[PodConstraints, PodConstraints] = {NO_CONSTRAINTS: NO_CONSTRAINTS}
        self._spread: dict[tuple[PodConstraints, tuple[TopologySpread, ...]], PodConstraints] = {}

    def constraints(
        self, spec: PodSpec, namespace: str = "", labels: Mapping[str, str] = NO_LABELS
    ) -> PodConstraints:
        """All but those of volumes; what the constraints do not hang on may be left out."""
        ports = host_ports(spec)
        if not ports and _has_no_topology(spec):
            return NO_CONSTRAINTS
        neighbours = PodAffinityTranslator(self._namespaces, namespace, labels)
        affinity = spec.affinity or NO_AFFINITY
        near, far = affinity.podAffinity, affinity.podAntiAffinity
        return self._one(
            PodConstraints(
                spreads=translate_spreads(spec, labels),
                affinity=neighbours.required(near),
                anti_affinity=neighbours.required(far),
                preferred_affinity=neighbours.preferred(near),
                preferred_anti_affinity=neighbours.preferred(far),
                preferred_nodes=self._places.preferred(affinity),
                ports=ports,
            )
        )

    def with_defaults(self, constraints: PodConstraints, pod: Pod) -> PodConstraints:
        """The constraints with what the scheduler asks of a pod that asks for no spread itself."""
        spreads = self._defaults.spreads(pod) if self._defaults is not None else ()
        if not spreads:
            return constraints
        found = self._spread.get((constraints, spreads))
        if found is None:
            made = self._one(msgspec.structs.replace(constraints, spreads=spreads))
            found = self._spread[constraints, spreads] = made
        return found

    def with_volumes(self, constraints: PodConstraints, held: PodVolumes) -> PodConstraints:
        attached, places = held.attachments, held.places
        return self._one(
            msgspec.structs.replace(constraints, attachments=attached, volume_topology=places)
        )

    def _one(self, made: PodConstraints) -> PodConstraints:
        return self._known.setdefault(made, made)


def constraint_dependencies(spec: PodSpec) -> ConstraintDependencies:
    if _has_no_topology(spec):
        return NO_DEPENDENCIES
    found = list(_all_affinity_terms(spec))
    keys: set[str] = set()
    for constraint in spec.topologySpreadConstraints or ():
        keys.update(constraint.matchLabelKeys or ())
    for term in found:
        keys.update(term.matchLabelKeys or (), term.mismatchLabelKeys or ())
    local = any(not term.namespaces and term.namespaceSelector is None for term in found)
    return ConstraintDependencies(labels=tuple(sorted(keys)), namespace=local)


def _has_no_topology(spec: PodSpec) -> bool:
    return not spec.topologySpreadConstraints and spec.affinity is None


def _all_affinity_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    for _, affinity in named_pod_affinities(spec.affinity or NO_AFFINITY):
        yield from (term for _, term in pod_affinity_terms(affinity))
