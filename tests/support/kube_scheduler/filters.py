"""The filters of kube-scheduler, written from the Kubernetes documentation.
Nothing of `core` is used here: it verifies the placements of a plan independently. A host is a
node of the scheduler; a pod must pass all filters.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from wainwright.model.labels import normalize_label
from wainwright.model.pod import AffinityTerm, HostPort, Pod, TopologySpread
from wainwright.model.requirements import Requirements
from wainwright.model.taints import NO_EXECUTE, NO_SCHEDULE, Taint

WILDCARD_ADDRESSES: Final = ("", "0.0.0.0", "::")


class BoundNode:
    """A node that has joined, with the pods that are bound to it."""

    def __init__(
        self,
        name: str,
        labels: dict[str, str],
        taints: tuple[Taint, ...],
        allocatable: dict[str, int],
    ) -> None:
        self.name = name
        self.labels = {normalize_label(key): value for key, value in labels.items()}
        self.taints = taints
        self.allocatable = allocatable
        self.attach_limits: dict[str, int] = {}
        self.kept_ports: list[HostPort] = []
        """Reserved for daemonset pods still to come."""
        self.pods: list[Pod] = []


Filter: TypeAlias = Callable[[Pod, BoundNode, Sequence[BoundNode]], str | None]
"""Why the pod must not be bound to the host, given all hosts; None if it may be."""


def filter_failure(pod: Pod, host: BoundNode, hosts: Sequence[BoundNode]) -> str | None:
    """The reason of the first failing filter; None where the pod can be bound."""
    for each in FILTERS:
        found = each(pod, host, hosts)
        if found is not None:
            return found
    return None


def matches_node_affinity(labels: dict[str, str], alternatives: Iterable[Requirements]) -> bool:
    """Whether a node with the labels satisfies any of the terms."""
    return any(_matches_term(labels, term) for term in alternatives)


def tolerates_taints(taints: Iterable[Taint], pod: Pod) -> bool:
    """Whether the pod tolerates all NoSchedule and NoExecute taints."""
    binding = [taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
    return all(any(each.tolerates(taint) for each in pod.tolerations) for taint in binding)


def _matches_term(labels: dict[str, str], term: Requirements) -> bool:
    for key, wanted in term.items():
        value = labels.get(key)
        fine = wanted.allowed.admits_absence if value is None else wanted.allowed.admits(value)
        if not fine:
            return False
    return True


def _node_affinity(pod: Pod, host: BoundNode, _: Sequence[BoundNode]) -> str | None:
    return (
        None if matches_node_affinity(host.labels, pod.alternatives) else "labels are not selected"
    )


def _taints(pod: Pod, host: BoundNode, _: Sequence[BoundNode]) -> str | None:
    return None if tolerates_taints(host.taints, pod) else "a taint is not tolerated"


def _resources(pod: Pod, host: BoundNode, _: Sequence[BoundNode]) -> str | None:
    if len(host.pods) + 1 > host.allocatable.get("pods", 0):
        return "too many pods"
    for name, amount in pod.requests.items():
        used = sum(each.requests.get(name, 0) for each in host.pods)
        if amount > 0 and used + amount > host.allocatable.get(name, 0):
            return f"too little {name}"
    return None


def _ports(pod: Pod, host: BoundNode, _: Sequence[BoundNode]) -> str | None:
    taken = [*host.kept_ports, *(port for each in host.pods for port in each.constraints.ports)]
    clash = any(_ports_conflict(port, other) for port in pod.constraints.ports for other in taken)
    return "a port is taken" if clash else None


def _ports_conflict(one: HostPort, other: HostPort) -> bool:
    wild = (
        one.address in WILDCARD_ADDRESSES
        or other.address in WILDCARD_ADDRESSES
        or one.address == other.address
    )
    return wild and one.port == other.port and one.protocol == other.protocol


def _volume_zones(pod: Pod, host: BoundNode, _: Sequence[BoundNode]) -> str | None:
    reached = matches_node_affinity(host.labels, pod.constraints.volume_topology)
    return None if reached else "volumes cannot be reached"


def _volume_limits(pod: Pod, host: BoundNode, _: Sequence[BoundNode]) -> str | None:
    for driver, most in host.attach_limits.items():
        new = {each.volume for each in pod.constraints.attachments if each.driver == driver}
        there = {
            each.volume
            for other in host.pods
            for each in other.constraints.attachments
            if each.driver == driver
        }
        if new and len(new | there) > most:
            return f"too many volumes of {driver}"
    return None


def _topology_spread(pod: Pod, host: BoundNode, hosts: Sequence[BoundNode]) -> str | None:
    hard = [spread for spread in pod.constraints.spreads if spread.required]
    if any(spread.key not in host.labels for spread in hard):
        return "lacks the label of a spread"
    # Nodes that lack the label of any of the constraints are left out of all of them.
    keyed = [each for each in hosts if all(spread.key in each.labels for spread in hard)]
    for spread in hard:
        counts = _count_by_domain(pod, spread, keyed)
        enough = len(counts) >= (spread.min_domains or 1)
        lowest = min(counts.values(), default=0) if enough else 0
        here = counts[host.labels[spread.key]] + spread.selector.selects(pod.labels)
        if here - lowest > spread.max_skew:
            return f"skew of {spread.key}: {dict(counts)}"
    return None


def _count_by_domain(pod: Pod, spread: TopologySpread, hosts: Iterable[BoundNode]) -> Counter[str]:
    """The matching pods in every domain that counts."""
    found: Counter[str] = Counter()
    for host in hosts:
        if spread.honor_affinity and not matches_node_affinity(host.labels, pod.alternatives):
            continue
        if spread.honor_taints and not tolerates_taints(host.taints, pod):
            continue
        found[host.labels[spread.key]] += sum(
            each.namespace == pod.namespace
            and not each.terminating
            and spread.selector.selects(each.labels)
            for each in host.pods
        )
    return found


def _inter_pod_affinity(pod: Pod, host: BoundNode, hosts: Sequence[BoundNode]) -> str | None:
    for other, there in _bound_pods(hosts):
        for term in other.constraints.anti_affinity:
            if _matches_pod(term, pod) and _same_domain(term.key, there, host):
                return f"{other.key} does not want it near"
        for term in pod.constraints.anti_affinity:
            if _matches_pod(term, other) and _same_domain(term.key, there, host):
                return f"does not want to be near {other.key}"
    return _affinity(pod, host, hosts)


def _affinity(pod: Pod, host: BoundNode, hosts: Sequence[BoundNode]) -> str | None:
    terms = pod.constraints.affinity
    if any(term.key not in host.labels for term in terms):
        return "lacks the label of an affinity"
    # Only pods that match all terms count, each term by its own topology key.
    places = [
        there
        for other, there in _bound_pods(hosts)
        if all(_matches_pod(term, other) for term in terms)
    ]
    if all(any(_same_domain(term.key, there, host) for there in places) for term in terms):
        return None
    # The first pod of a self-affinity is accepted where no matching pod exists.
    known = [there for there in places if any(term.key in there.labels for term in terms)]
    if not known and all(_matches_pod(term, pod) for term in terms):
        return None
    return "those whom it wants near are elsewhere"


def _bound_pods(hosts: Iterable[BoundNode]) -> Iterator[tuple[Pod, BoundNode]]:
    return ((pod, host) for host in hosts for pod in host.pods)


def _matches_pod(term: AffinityTerm, pod: Pod) -> bool:
    inside = term.namespaces is None or pod.namespace in term.namespaces
    return inside and term.selector.selects(pod.labels)


def _same_domain(key: str, one: BoundNode, other: BoundNode) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)


FILTERS: Final[tuple[Filter, ...]] = (
    _node_affinity,
    _taints,
    _resources,
    _ports,
    _volume_zones,
    _volume_limits,
    _topology_spread,
    _inter_pod_affinity,
)
