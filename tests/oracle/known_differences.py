"""Why we do not place a pod that the reference places: each known reason, recognised by itself.

The numbers are the rows of docs/internals/differences.md.
"""

from collections.abc import Callable, Iterator
from itertools import chain, permutations
from typing import Any, Final

from msgspec.structs import replace
from tests.oracle.client import Oracle
from tests.oracle.random_catalog import Manifest
from tests.oracle.random_cluster import RandomCluster
from tests.oracle.runs import (
    Comparison,
    LaunchedNode,
    SchedulingOutcome,
    always_placed,
    compare_schedulers,
)
from tests.oracle.scheduling_rules import pod_key, violates_max_skew, violates_node_affinity

from wainwright.api.quantity import parse_quantity
from wainwright.model.labels import CAPACITY_TYPE, NODEPOOL, WELL_KNOWN_LABELS, ZONE

LABEL_REQUIRED_OPERATORS: Final = frozenset({"In", "Exists", "Gt", "Lt"})


def exceeds_limits(cluster: RandomCluster, run: SchedulingOutcome) -> bool:
    """Whether some pool has launched more than its limits allow."""
    capacity = {kind["name"]: kind["capacity"] for kind in cluster.types}
    for pool in cluster.kinds("NodePool"):
        limits = pool["spec"].get("limits") or {}
        launched = [each for each in run.launched if each.pool == pool["metadata"]["name"]]
        for resource, limit in limits.items():
            used = sum(
                _node_amounts(cluster, pool["metadata"]["name"], launched, capacity, resource)
            )
            if launched and used > parse_quantity(limit).nano:
                return True
    return False


def _node_amounts(
    cluster: RandomCluster,
    pool: str,
    launched: list[LaunchedNode],
    capacity: dict[str, Any],
    resource: str,
) -> Iterator[int]:
    """What each node of the pool counts for, those that stood before among them."""
    standing = [
        node["status"]["capacity"]
        for node in cluster.kinds("Node")
        if node["metadata"]["labels"].get(NODEPOOL) == pool
    ]
    for each in [*standing, *(capacity[node.instance_type] for node in launched)]:
        yield parse_quantity("1" if resource == "nodes" else each.get(resource, "0")).nano


def pool_min_values(pool: Manifest) -> dict[str, int]:
    """The minValues of a pool by key."""
    asked = pool["spec"]["template"]["spec"]["requirements"]
    return {each["key"]: each["minValues"] for each in asked if "minValues" in each}


def violates_min_values(node: LaunchedNode, wanted: dict[str, int]) -> bool:
    """Whether fewer zones or capacity types are left than these minValues ask for."""
    left = {ZONE: node.zones, CAPACITY_TYPE: node.capacity_types}
    return any(len(values) < wanted.get(key, 0) for key, values in left.items())


def defined_labels(cluster: RandomCluster) -> set[str]:
    """The labels that pools, types and nodes have of their own."""
    found: set[str] = set()
    for pool in cluster.kinds("NodePool"):
        template = pool["spec"]["template"]
        found |= set(template["metadata"]["labels"])
        found |= {each["key"] for each in template["spec"]["requirements"]}
    for kind in cluster.types:
        found |= {each["key"] for each in kind["requirements"]}
    for node in cluster.kinds("Node"):
        found |= set(node["metadata"]["labels"])
    return found


def required_labels(pod: Manifest) -> set[str]:
    """The labels that a node must have in every term of the pod's."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required["nodeSelectorTerms"] if required else [{"matchExpressions": []}]
    return set.intersection(
        *(
            {
                each["key"]
                for each in term["matchExpressions"]
                if each["operator"] in LABEL_REQUIRED_OPERATORS
            }
            for term in terms
        )
    )


def spread_constraints(pod: Manifest) -> list[tuple[str, int | None]]:
    """Each constraint without its minDomains, and those."""
    return [
        (
            repr(sorted((k, repr(v)) for k, v in each.items() if k != "minDomains")),
            each.get("minDomains"),
        )
        for each in pod["spec"].get("topologySpreadConstraints") or ()
    ]


def has_soft_taint(spec: Manifest) -> bool:
    """Whether a taint asks pods rather not to come."""
    return any(taint["effect"] == "PreferNoSchedule" for taint in spec.get("taints") or ())


def host_ports(spec: Manifest) -> set[int]:
    """The ports of the node that the containers take."""
    return {
        port["hostPort"]
        for container in spec["containers"]
        for port in container.get("ports") or ()
        if "hostPort" in port
    }


MORE_RUNS: Final = 17


def reference_depends_on_map_order(case: Comparison, oracle: Oracle) -> bool:
    """Row 1: asked more often, the reference leaves these pods out now and then."""
    return not case.missing & always_placed(
        compare_schedulers(oracle, case.cluster, MORE_RUNS).runs
    )


def reference_exceeds_a_limit(case: Comparison) -> bool:
    """Row 5: in every run some pool ends up with more than its limits allow."""
    return all(exceeds_limits(case.cluster, run) for run in case.runs)


def min_domains_are_shared(case: Comparison) -> bool:
    """Row 6: constraints that differ in minDomains alone are one to the reference."""
    found: dict[str, set[int | None]] = {}
    for pod in case.cluster.kinds("Pod"):
        for key, domains in spread_constraints(pod):
            found.setdefault(key, set()).add(domains)
    shared = {key for key, values in found.items() if len(values) > 1}
    return all(any(key in shared for key, _ in spread_constraints(pod)) for pod in _missing(case))


def equal_weights_the_other_way(case: Comparison, oracle: Oracle) -> bool:
    """Row 7: with the pools of one weight in another order, the reference decides as we do."""
    return any(
        not always_placed(compare_schedulers(oracle, tried).runs) - case.ours.placed
        for tried in _with_distinct_weights(case.cluster)
    )


def reservations_come_first(case: Comparison, oracle: Oracle) -> bool:
    """Row 32: none is missing without reservations, which we use before room on other claims."""
    without = _without_reservations(case.cluster)
    return without != case.cluster and not compare_schedulers(oracle, without).missing


def open_claims_are_overlooked(case: Comparison, oracle: Oracle) -> bool:
    """Row 33: none is missing once spreads count only nodes that their pods may use."""
    without = _with_default_affinity_policy(case.cluster)
    ignorant = all(_ignores_affinity(pod) for pod in _missing(case))
    return ignorant and not compare_schedulers(oracle, without).missing


def soft_taints_of_nodes(case: Comparison) -> bool:
    """Row 27: a node asks pods softly not to come, and no pool does."""
    pools = any(
        has_soft_taint(pool["spec"]["template"]["spec"]) for pool in case.cluster.kinds("NodePool")
    )
    return not pools and any(has_soft_taint(node["spec"]) for node in case.cluster.kinds("Node"))


def ports_of_daemonsets(case: Comparison) -> bool:
    """Row 28: the missing pods want a port that a daemonset takes on every node it runs on."""
    taken = {
        port
        for each in case.cluster.kinds("DaemonSet")
        for port in host_ports(each["spec"]["template"]["spec"])
    }
    return all(host_ports(pod["spec"]) & taken for pod in _missing(case))


def skew_is_broken(case: Comparison) -> bool:
    """Row 26: where the reference puts the missing pods, their own spread does not hold."""
    return all(
        any(violates_max_skew(end, pod) for pod in pods) for end, pods in _final_states(case)
    )


def required_label_is_forgotten(case: Comparison) -> bool:
    """Row 30: the nodes that the reference gives the missing pods are not what they require."""
    return all(
        all(violates_node_affinity(end, pod) for pod in pods) for end, pods in _final_states(case)
    )


def values_out_of_reach_count(case: Comparison) -> bool:
    """Row 18: the claims keep minValues only with zones that they could not be launched in."""
    wanted = {
        pool["metadata"]["name"]: pool_min_values(pool) for pool in case.cluster.kinds("NodePool")
    }
    return all(
        any(
            name in each.pods and violates_min_values(each, wanted[each.pool])
            for each in run.launched
        )
        for run in case.runs
        for name in case.missing
    )


def label_that_nobody_defines(case: Comparison) -> bool:
    """Row 31: the missing pods ask for a label that they could only have from another pod."""
    known = WELL_KNOWN_LABELS | defined_labels(case.cluster)
    return all(required_labels(pod) - known for pod in _missing(case))


def joined_in_spite_of_min_values(case: Comparison) -> bool:
    """Row 29: the pods joined launching nodes, whose claims they would have made too narrow."""
    choosy = {
        pool["metadata"]["name"]
        for pool in case.cluster.kinds("NodePool")
        if any("minValues" in each for each in pool["spec"]["template"]["spec"]["requirements"])
    }
    return all(
        any(name in each.joined and each.pool in choosy for each in run.launched)
        for run in case.runs
        for name in case.missing
    )


BY_INSPECTION: Final[dict[int, Callable[[Comparison], bool]]] = {
    5: reference_exceeds_a_limit,
    6: min_domains_are_shared,
    27: soft_taints_of_nodes,
    28: ports_of_daemonsets,
    29: joined_in_spite_of_min_values,
    26: skew_is_broken,
    30: required_label_is_forgotten,
    18: values_out_of_reach_count,
    31: label_that_nobody_defines,
}
BY_RERUNNING: Final[dict[int, Callable[[Comparison, Oracle], bool]]] = {
    32: reservations_come_first,
    33: open_claims_are_overlooked,
    7: equal_weights_the_other_way,
    1: reference_depends_on_map_order,
}


def known_difference(case: Comparison, oracle: Oracle) -> int | None:
    """The row that accounts for what is missing; None where none does."""
    seen = (row for row, explains in BY_INSPECTION.items() if explains(case))
    asked = (row for row, explains in BY_RERUNNING.items() if explains(case, oracle))
    return next(chain(seen, asked), None)


def _final_states(case: Comparison) -> Iterator[tuple[RandomCluster, list[Manifest]]]:
    """How each run of theirs ends, with the missing pods as they are there."""
    for run in case.runs:
        if run.final is not None:
            pods = run.final.kinds("Pod")
            yield run.final, [pod for pod in pods if pod_key(pod) in case.missing]


def _missing(case: Comparison) -> list[Manifest]:
    return [pod for pod in case.cluster.kinds("Pod") if pod_key(pod) in case.missing]


def _without_reservations(cluster: RandomCluster) -> RandomCluster:
    types = tuple(
        kind | {"offerings": [each for each in kind["offerings"] if not each["reservationID"]]}
        for kind in cluster.types
    )
    return replace(cluster, types=types)


def _ignores_affinity(pod: Manifest) -> bool:
    found = pod["spec"].get("topologySpreadConstraints") or ()
    return any(each.get("nodeAffinityPolicy") == "Ignore" for each in found)


def _with_default_affinity_policy(cluster: RandomCluster) -> RandomCluster:
    """The cluster with every nodeAffinityPolicy as it is by default."""
    return replace(cluster, objects=tuple(map(_default_affinity_policy, cluster.objects)))


def _default_affinity_policy(item: Manifest) -> Manifest:
    if item["kind"] != "Pod" or not _ignores_affinity(item):
        return item
    constraints = [
        {key: value for key, value in each.items() if key != "nodeAffinityPolicy"}
        for each in item["spec"]["topologySpreadConstraints"]
    ]
    return item | {"spec": item["spec"] | {"topologySpreadConstraints": constraints}}


def _with_distinct_weights(cluster: RandomCluster) -> Iterator[RandomCluster]:
    """The cluster with pools of one weight given different ones, in every order there is."""
    by_weight: dict[int, list[str]] = {}
    for pool in cluster.kinds("NodePool"):
        by_weight.setdefault(pool["spec"].get("weight", 0), []).append(pool["metadata"]["name"])
    tied = max(by_weight.values(), key=len)
    if len(tied) == 1:
        return
    for order in permutations(tied):
        objects = tuple(_with_weight(each, order) for each in cluster.objects)
        yield replace(cluster, objects=objects)


def _with_weight(item: Manifest, order: tuple[str, ...]) -> Manifest:
    if item["kind"] != "NodePool":
        return item
    name, weight = item["metadata"]["name"], item["spec"].get("weight", 0)
    rank = order.index(name) if name in order else 0
    return item | {"spec": item["spec"] | {"weight": min(100, weight + 1 + rank)}}
