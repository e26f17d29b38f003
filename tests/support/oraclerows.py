"""Why we do not place a pod that the reference places: each known reason, recognised by itself.

The numbers are those of docs/differences.md. A reason must account for every pod that is missing;
what none accounts for is a bug, of ours until shown otherwise.
"""

from collections.abc import Callable, Iterator
from itertools import chain, permutations
from typing import Final

from msgspec.structs import replace
from tests.support.oracle import Oracle
from tests.support.oraclecatalogue import Manifest
from tests.support.oraclecompare import Case, always, compare
from tests.support.oraclefacts import (
    asked_for,
    defined,
    least,
    over_limits,
    ports,
    soft,
    spreads,
    too_few,
)
from tests.support.oraclelegal import breaks_skew, is_misplaced, name_of
from tests.support.oracleworlds import World

from wainwright.model.labels import WELL_KNOWN

MORE_RUNS: Final = 17


def theirs_depends_on_map_order(case: Case, oracle: Oracle) -> bool:
    """Row 1: asked more often, the reference leaves these pods out now and then."""
    return not case.missing & always(compare(oracle, case.world, MORE_RUNS).runs)


def theirs_is_over_a_limit(case: Case) -> bool:
    """Row 5: in every run some pool ends up with more than its limits allow."""
    return all(over_limits(case.world, run) for run in case.runs)


def min_domains_are_shared(case: Case) -> bool:
    """Row 6: constraints that differ in minDomains alone are one to the reference."""
    found: dict[str, set[int | None]] = {}
    for pod in case.world.kinds("Pod"):
        for key, domains in spreads(pod):
            found.setdefault(key, set()).add(domains)
    shared = {key for key, values in found.items() if len(values) > 1}
    return all(any(key in shared for key, _ in spreads(pod)) for pod in _missing(case))


def equal_weights_the_other_way(case: Case, oracle: Oracle) -> bool:
    """Row 7: with the pools of one weight in another order, the reference decides as we do."""
    return any(
        not always(compare(oracle, tried).runs) - case.ours.placed
        for tried in _told_apart(case.world)
    )


def slots_come_first(case: Case, oracle: Oracle) -> bool:
    """Row 32: none is missing without reservations, which we use before room on other claims."""
    without = _without_slots(case.world)
    return without != case.world and not compare(oracle, without).missing


def open_claims_are_overlooked(case: Case, oracle: Oracle) -> bool:
    """Row 33: none is missing once spreads count only nodes that their pods may use."""
    without = _honouring(case.world)
    ignorant = all(_ignores_affinity(pod) for pod in _missing(case))
    return ignorant and not compare(oracle, without).missing


def soft_taints_of_nodes(case: Case) -> bool:
    """Row 27: a node asks pods softly not to come, and no pool does."""
    pools = any(soft(pool["spec"]["template"]["spec"]) for pool in case.world.kinds("NodePool"))
    return not pools and any(soft(node["spec"]) for node in case.world.kinds("Node"))


def ports_of_daemonsets(case: Case) -> bool:
    """Row 28: the missing pods want a port that a daemonset takes on every node it runs on."""
    taken = {
        port
        for each in case.world.kinds("DaemonSet")
        for port in ports(each["spec"]["template"]["spec"])
    }
    return all(ports(pod["spec"]) & taken for pod in _missing(case))


def skew_is_broken(case: Case) -> bool:
    """Row 26: where the reference puts the missing pods, their own spread does not hold."""
    return all(any(breaks_skew(end, pod) for pod in pods) for end, pods in _ends(case))


def required_label_is_forgotten(case: Case) -> bool:
    """Row 30: the nodes that the reference gives the missing pods are not what they require."""
    return all(all(is_misplaced(end, pod) for pod in pods) for end, pods in _ends(case))


def values_out_of_reach_count(case: Case) -> bool:
    """Row 18: the claims keep minValues only with zones that they could not be bought in."""
    wanted = {pool["metadata"]["name"]: least(pool) for pool in case.world.kinds("NodePool")}
    return all(
        any(name in each.pods and too_few(each, wanted[each.pool]) for each in run.launched)
        for run in case.runs
        for name in case.missing
    )


def label_that_nobody_defines(case: Case) -> bool:
    """Row 31: the missing pods ask for a label that they could only have from another pod."""
    known = WELL_KNOWN | defined(case.world)
    return all(asked_for(pod) - known for pod in _missing(case))


def joined_in_spite_of_min_values(case: Case) -> bool:
    """Row 29: the pods joined machines under way, whose claims they would have made too narrow."""
    choosy = {
        pool["metadata"]["name"]
        for pool in case.world.kinds("NodePool")
        if any("minValues" in each for each in pool["spec"]["template"]["spec"]["requirements"])
    }
    return all(
        any(name in each.joined and each.pool in choosy for each in run.launched)
        for run in case.runs
        for name in case.missing
    )


FROM_THE_CASE: Final[dict[int, Callable[[Case], bool]]] = {
    5: theirs_is_over_a_limit,
    6: min_domains_are_shared,
    27: soft_taints_of_nodes,
    28: ports_of_daemonsets,
    29: joined_in_spite_of_min_values,
    26: skew_is_broken,
    30: required_label_is_forgotten,
    18: values_out_of_reach_count,
    31: label_that_nobody_defines,
}
BY_ASKING_AGAIN: Final[dict[int, Callable[[Case, Oracle], bool]]] = {
    32: slots_come_first,
    33: open_claims_are_overlooked,
    7: equal_weights_the_other_way,
    1: theirs_depends_on_map_order,
}


def reason(case: Case, oracle: Oracle) -> int | None:
    """The row that accounts for what is missing; None where none does."""
    seen = (row for row, explains in FROM_THE_CASE.items() if explains(case))
    asked = (row for row, explains in BY_ASKING_AGAIN.items() if explains(case, oracle))
    return next(chain(seen, asked), None)


def _ends(case: Case) -> Iterator[tuple[World, list[Manifest]]]:
    """How each run of theirs ends, with the missing pods as they are there."""
    for run in case.runs:
        if run.final is not None:
            pods = run.final.kinds("Pod")
            yield run.final, [pod for pod in pods if name_of(pod) in case.missing]


def _missing(case: Case) -> list[Manifest]:
    return [pod for pod in case.world.kinds("Pod") if name_of(pod) in case.missing]


def _without_slots(world: World) -> World:
    types = tuple(
        kind | {"offerings": [each for each in kind["offerings"] if not each["reservationID"]]}
        for kind in world.types
    )
    return replace(world, types=types)


def _ignores_affinity(pod: Manifest) -> bool:
    found = pod["spec"].get("topologySpreadConstraints") or ()
    return any(each.get("nodeAffinityPolicy") == "Ignore" for each in found)


def _honouring(world: World) -> World:
    """The world with every nodeAffinityPolicy as it is by default."""
    return replace(world, objects=tuple(map(_honoured, world.objects)))


def _honoured(item: Manifest) -> Manifest:
    if item["kind"] != "Pod" or not _ignores_affinity(item):
        return item
    constraints = [
        {key: value for key, value in each.items() if key != "nodeAffinityPolicy"}
        for each in item["spec"]["topologySpreadConstraints"]
    ]
    return item | {"spec": item["spec"] | {"topologySpreadConstraints": constraints}}


def _told_apart(world: World) -> Iterator[World]:
    """The world with pools of one weight given different ones, in every order there is."""
    by_weight: dict[int, list[str]] = {}
    for pool in world.kinds("NodePool"):
        by_weight.setdefault(pool["spec"].get("weight", 0), []).append(pool["metadata"]["name"])
    tied = max(by_weight.values(), key=len)
    if len(tied) == 1:
        return
    for order in permutations(tied):
        objects = tuple(_weighed(each, order) for each in world.objects)
        yield replace(world, objects=objects)


def _weighed(item: Manifest, order: tuple[str, ...]) -> Manifest:
    if item["kind"] != "NodePool":
        return item
    name, weight = item["metadata"]["name"], item["spec"].get("weight", 0)
    rank = order.index(name) if name in order else 0
    return item | {"spec": item["spec"] | {"weight": min(100, weight + 1 + rank)}}
