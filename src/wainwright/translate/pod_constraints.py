"""Pod constraints: pod affinity, spread, host ports, preferred nodes; equal ones are shared."""

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
    """Sorted, each once, so that pods with the same ports have equal constraints."""
    container_ports = {
        _host_port(port, spec)
        for container in _long_running_containers(spec)
        for port in container.ports or ()
    }
    used_ports = [container for container in container_ports if container.port]
    return tuple(
        sorted(
            used_ports,
            key=lambda container: (container.port, container.protocol, container.address),
        )
    )


def _long_running_containers(spec: PodSpec) -> Iterator[Container]:
    """Containers that run as long as the pod does."""
    yield from spec.containers or ()
    yield from filter(is_sidecar, spec.initContainers or ())


def _host_port(port: ContainerPort, spec: PodSpec) -> HostPort:
    """With hostNetwork a container's port is a port of the node."""
    number = port.hostPort or (port.containerPort if spec.hostNetwork else 0)
    return HostPort(port=number, protocol=port.protocol or "TCP", address=port.hostIP or "0.0.0.0")


NO_AFFINITY: Final = Affinity()
NO_LABELS: Final[Mapping[str, str]] = {}


class ConstraintDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a pod that its constraints depend on, besides its spec."""

    labels: tuple[str, ...] = ()
    namespace: bool = False


NO_DEPENDENCIES: Final = ConstraintDependencies()


class ConstraintTranslator:
    """Translates constraints; equal results are one object.

    The planner groups pods by their constraints: with shared objects the comparison is mostly one
    of identity, without them it would compare terms field by field for every pod.
    """

    def __init__(
        self,
        node_affinity: NodeAffinityTranslator,
        namespaces: NamespaceIndex,
        defaults: DefaultSpreads | None = None,
    ) -> None:
        self._node_affinity = node_affinity
        self.namespaces = namespaces
        """May be replaced as long as no pod has selected namespaces by their labels."""
        self.defaults = defaults
        """May be replaced when services or controllers change: no cache depends on it."""
        self._shared: dict[PodConstraints, PodConstraints] = {NO_CONSTRAINTS: NO_CONSTRAINTS}
        self._with_spreads: dict[
            tuple[PodConstraints, tuple[TopologySpread, ...]], PodConstraints
        ] = {}

    def constraints(
        self, spec: PodSpec, namespace: str = "", labels: Mapping[str, str] = NO_LABELS
    ) -> PodConstraints:
        """All constraints but those of volumes.

        Namespace and labels may be left out where `constraint_dependencies` does not list them.
        """
        ports = host_ports(spec)
        if not ports and _has_no_topology(spec):
            return NO_CONSTRAINTS
        pod_affinity = PodAffinityTranslator(self.namespaces, namespace, labels)
        affinity = spec.affinity or NO_AFFINITY
        affinity_terms, anti_affinity_terms = affinity.podAffinity, affinity.podAntiAffinity
        return self._share(
            PodConstraints(
                spreads=translate_spreads(spec, labels),
                affinity=pod_affinity.required(affinity_terms),
                anti_affinity=pod_affinity.required(anti_affinity_terms),
                preferred_affinity=pod_affinity.preferred(affinity_terms),
                preferred_anti_affinity=pod_affinity.preferred(anti_affinity_terms),
                preferred_nodes=self._node_affinity.preferred(affinity),
                ports=ports,
            )
        )

    def with_defaults(self, constraints: PodConstraints, pod: Pod) -> PodConstraints:
        """The constraints, with the scheduler's default spread for a pod without its own."""
        spreads = self.defaults.spreads(pod) if self.defaults is not None else ()
        if not spreads:
            return constraints
        shared = self._with_spreads.get((constraints, spreads))
        if shared is None:
            with_spreads = self._share(msgspec.structs.replace(constraints, spreads=spreads))
            shared = self._with_spreads[constraints, spreads] = with_spreads
        return shared

    def with_volumes(self, constraints: PodConstraints, pod_volumes: PodVolumes) -> PodConstraints:
        attachments, topology = pod_volumes.attachments, pod_volumes.topology
        return self._share(
            msgspec.structs.replace(constraints, attachments=attachments, volume_topology=topology)
        )

    @property
    def largest_cache(self) -> int:
        return max(len(self._shared), len(self._with_spreads))

    def _share(self, constraints: PodConstraints) -> PodConstraints:
        return self._shared.setdefault(constraints, constraints)


def constraint_dependencies(spec: PodSpec) -> ConstraintDependencies:
    if _has_no_topology(spec):
        return NO_DEPENDENCIES
    terms = list(_all_affinity_terms(spec))
    keys: set[str] = set()
    for constraint in spec.topologySpreadConstraints or ():
        keys.update(constraint.matchLabelKeys or ())
    for term in terms:
        keys.update(term.matchLabelKeys or (), term.mismatchLabelKeys or ())
    uses_own_namespace = any(
        not term.namespaces and term.namespaceSelector is None for term in terms
    )
    return ConstraintDependencies(labels=tuple(sorted(keys)), namespace=uses_own_namespace)


def _has_no_topology(spec: PodSpec) -> bool:
    return not spec.topologySpreadConstraints and spec.affinity is None


def _all_affinity_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    for _, affinity in named_pod_affinities(spec.affinity or NO_AFFINITY):
        yield from (term for _, term in pod_affinity_terms(affinity))
