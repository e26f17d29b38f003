"""Why no existing node takes a pod: one reason for each node, nodes with equal reasons together.

The pod is checked as it was tried: with the preferences that were not relaxed by then, and with
the topology domains that other pods leave to it.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from wainwright.core.scheduling.constraints import NodeRejection
from wainwright.core.scheduling.existing_nodes import ExistingNodes
from wainwright.core.scheduling.pod_classes import PodClass, PodRequirements, RelaxationLevel
from wainwright.core.scheduling.topology.allowed_domains import AllowedDomains, allowed_domains
from wainwright.core.scheduling.topology.topology import Topology
from wainwright.model.bitset import BitSet, iter_bits
from wainwright.model.pod import Pod
from wainwright.model.reasons import (
    LaterAlternative,
    NodeTerminating,
    NodeVerdict,
    NodeViolatesTopology,
    PreferencesNotRelaxed,
    RelaxedPreference,
)
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node


class PlacementAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements by which a pod is tried on nodes and pools."""

    level: RelaxationLevel
    alternatives: tuple[PodRequirements, ...]
    """Those of the level that are tried."""
    domains: AllowedDomains | None = None
    """The topology domains that are left; None without topology constraints, or if none is left."""

    @property
    def nodes(self) -> BitSet:
        """The existing nodes that topology constraints allow."""
        if self.level.topology_constraints is None:
            return -1
        return 0 if self.domains is None else self.domains.nodes

    @property
    def can_use_new_node(self) -> bool:
        return self.level.topology_constraints is None or bool(self._domain_options)

    @property
    def later_alternatives(self) -> tuple[PodRequirements, ...]:
        """The alternatives of the level that are tried only after these."""
        return self.level.alternatives[self.level.alternatives.index(self.alternatives[-1]) + 1 :]

    def narrow_pod(self, pod: Pod) -> Pod:
        """The pod with all these requirements as its own, as pools are checked."""
        own = tuple(pod_reqs.scheduling.requirements for pod_reqs in self.alternatives)
        narrowed = (each.narrow(option) for each in own for option in self._domain_options)
        tolerations = self.alternatives[0].scheduling.tolerations
        return msgspec.structs.replace(
            pod, alternatives=tuple(dict.fromkeys(narrowed)) or own, tolerations=tolerations
        )

    @property
    def _domain_options(self) -> list[Requirements]:
        """What topology constraints require of a new node: any one of these."""
        domains = self.domains
        return [] if domains is None or domains.existing_only else domains.options


UntriedAttempt: TypeAlias = tuple[PlacementAttempt, tuple[RelaxedPreference, ...]]
"""An attempt that comes later, and the preferences that are relaxed for it."""


def existing_node_verdicts(
    nodes: ExistingNodes,
    pod_class: PodClass,
    attempt: PlacementAttempt,
    untried: Iterable[UntriedAttempt] = (),
) -> tuple[NodeVerdict, ...]:
    """For each node its first reason against the first alternative of the attempt.

    Nodes that one of the `untried` attempts would have been placed on get that as their reason.
    """
    node_filter = _NodeFilter(nodes, pod_class, attempt.alternatives[0])
    verdicts: list[NodeVerdict] = []
    for later, given_up in untried:
        verdicts += node_filter.would_accept(later, given_up)
    verdicts += node_filter.verdicts(attempt.nodes)
    return tuple(sorted(verdicts, key=lambda verdict: -verdict.nodes))


def deleting_node_verdicts(nodes: Iterable[Node]) -> tuple[NodeVerdict, ...]:
    """The nodes that are being deleted, which plans leave out."""
    count = sum(node.deleting for node in nodes)
    return (NodeVerdict(nodes=count, reason=NodeTerminating()),) if count else ()


def untried_attempts(
    pod_class: PodClass, attempt: PlacementAttempt, topology: Topology | None
) -> Iterator[UntriedAttempt]:
    """The attempts that would have followed this one, had the pod found no place.

    Relaxing adds no topology constraint, so that the domains of every pod that matters are known
    and no draft has to be settled for this, which would change the plan that is observed.
    """
    if attempt.later_alternatives:
        yield msgspec.structs.replace(attempt, alternatives=attempt.later_alternatives), ()
    for level in pod_class.levels[pod_class.levels.index(attempt.level) + 1 :]:
        domains = None
        if level.topology_constraints is not None and topology is not None:
            domains = allowed_domains(level.topology_constraints, topology.domains)
        given_up = level.given_up[len(attempt.level.given_up) :]
        yield (
            PlacementAttempt(level=level, alternatives=level.alternatives, domains=domains),
            given_up,
        )


class _NodeFilter:
    """One alternative of a pod against all existing nodes: the constraints in order."""

    def __init__(
        self, nodes: ExistingNodes, pod_class: PodClass, pod_reqs: PodRequirements
    ) -> None:
        self.nodes = nodes
        self.pod_class = pod_class
        self.pod_reqs = pod_reqs
        self.remaining: BitSet = nodes.remaining
        """The nodes without a reason so far: each node has one, and later checks skip it."""

    def would_accept(
        self, attempt: PlacementAttempt, given_up: tuple[RelaxedPreference, ...]
    ) -> Iterator[NodeVerdict]:
        """The nodes that would have taken the pod in this attempt."""
        for pod_reqs in attempt.alternatives:
            other = _NodeFilter(self.nodes, self.pod_class, pod_reqs)
            other.remaining = self.remaining
            list(other.verdicts(attempt.nodes))
            for number in islice(iter_bits(other.remaining), 1):
                name = self.nodes.nodes[number].name
                reason = (
                    PreferencesNotRelaxed(node=name, preferences=given_up)
                    if given_up
                    else LaterAlternative(node=name)
                )
                yield from self._collect([(other.remaining, reason)])

    def verdicts(self, allowed: BitSet) -> Iterator[NodeVerdict]:
        """`allowed` are the nodes that topology constraints allow."""
        nodes, scheduling = self.nodes, self.pod_reqs.scheduling
        yield from self._collect(nodes.taints.why(scheduling.tolerations, self.remaining))
        yield from self._collect(nodes.labels.why(scheduling.requirements, self.remaining))
        yield from self._collect(nodes.resources.why(self.pod_reqs.amounts, self.remaining))
        yield from self._collect(nodes.ports.why(scheduling.ports, self.remaining))
        yield from self._collect(nodes.volumes.why(self.pod_class.attachments, self.remaining))
        violating = self.remaining ^ (self.remaining & allowed)
        yield from self._collect([(violating, NodeViolatesTopology())])

    def _collect(self, rejections: Iterable[NodeRejection]) -> Iterator[NodeVerdict]:
        for nodes, reason in rejections:
            self.remaining ^= nodes
            if nodes:
                yield NodeVerdict(nodes=nodes.bit_count(), reason=reason)
