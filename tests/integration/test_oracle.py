"""Karpenter's own scheduler and ours on the same clusters: a few fixed ones of every profile.
`make oracle` compares any number of clusters; docs/internals/differences.md has the rows.
"""

import pytest
from msgspec.structs import replace
from tests.oracle.client import Oracle
from tests.oracle.comparison import UNEXPLAINED, explain_difference, shrink_cluster
from tests.oracle.known_differences import BY_INSPECTION, reference_exceeds_a_limit
from tests.oracle.profiles import PROFILES
from tests.oracle.random_catalog import Manifest
from tests.oracle.random_cluster import RandomCluster, random_cluster
from tests.oracle.random_pools import NODE_CLASS_REF
from tests.oracle.runs import (
    Comparison,
    LaunchedNode,
    SchedulingOutcome,
    compare_schedulers,
    prepare_cluster,
    run_our_planner,
)
from tests.oracle.scheduling_rules import pod_key

from wainwright.model.instance_type import UNLIMITED

SEEDS = range(4)
NOTHING = SchedulingOutcome(placed=frozenset(), cost=0.0)
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node", "labels": {}},
    "spec": {},
}


@pytest.mark.parametrize("profile", PROFILES)
def test_what_the_reference_places_we_place(oracle: Oracle, profile: str) -> None:
    puzzling = [
        seed
        for seed in SEEDS
        if explain_difference(compare_schedulers(oracle, random_cluster(profile, seed)), oracle)
        == UNEXPLAINED
    ]
    assert not puzzling, f"see `make oracle PROFILE={profile}`"


def test_the_reference_launches_what_we_launch_of_what_it_leaves(oracle: Oracle) -> None:
    """Both price the same launch: on plain clusters even the bills agree."""
    cases = [compare_schedulers(oracle, random_cluster("plain", seed)) for seed in SEEDS]
    for case in cases:
        assert case.costs is not None
        assert case.ours.cost == pytest.approx(min(run.cost for run in case.runs), rel=0.02)


def test_the_reference_runs_over_limits_on_nodes(oracle: Oracle) -> None:
    """Row 5 as it stands in docs/internals/differences.md: the limit holds only between loops."""
    given = _limited_to_one_node()
    case = compare_schedulers(oracle, given)
    assert len(case.ours.launched) == 1
    assert all(len(run.launched) > 1 for run in case.runs)
    assert explain_difference(case, oracle) == 5


def test_an_unexplained_difference_is_reported(oracle: Oracle) -> None:
    """A planner that forgot a pod would be found out."""
    case = compare_schedulers(oracle, random_cluster("plain", 0))
    forgetful = replace(case.ours, placed=frozenset(sorted(case.ours.placed)[1:]))
    assert explain_difference(replace(case, ours=forgetful), oracle) == UNEXPLAINED


@pytest.mark.parametrize("profile", PROFILES)
def test_random_clusters_are_valid_and_repeatable(profile: str) -> None:
    """No Go needed: the same seed gives the same cluster, which our commands accept."""
    for seed in SEEDS:
        made = random_cluster(profile, seed)
        assert made == random_cluster(profile, seed)
        assert run_our_planner(prepare_cluster(made)).placed <= set(_names(made))


def test_shrinking_keeps_what_matters_and_little_else() -> None:
    given = random_cluster("mixed", 1)
    wanted = given.kinds("Pod")[0]["metadata"]["name"]

    def has_it(tried: RandomCluster) -> bool:
        return any(each["metadata"]["name"] == wanted for each in tried.objects)

    small = shrink_cluster(given, has_it)
    assert [each["metadata"]["name"] for each in small.objects] == [wanted]
    assert small.types == ()


@pytest.mark.parametrize("row", BY_INSPECTION)
def test_no_row_accounts_for_a_plain_cluster(row: int) -> None:
    given = random_cluster("plain", 0)
    node = _node_manifests(given)
    theirs = SchedulingOutcome(
        placed=frozenset(_names(given)), cost=1.0, launched=(node,), final=given
    )
    bound = replace(given, objects=(*map(_on_a_node, given.objects), NODE))
    case = Comparison(cluster=given, ours=NOTHING, runs=(replace(theirs, final=bound),))
    assert not BY_INSPECTION[row](case)


def test_limits_are_blamed_only_where_they_are_broken() -> None:
    given = _limited_to_one_node()
    node = _node_manifests(given)
    within = SchedulingOutcome(placed=frozenset(_names(given)), cost=1.0, launched=(node,))
    beyond = replace(within, launched=(node, node))
    assert not reference_exceeds_a_limit(Comparison(cluster=given, ours=NOTHING, runs=(within,)))
    assert reference_exceeds_a_limit(Comparison(cluster=given, ours=NOTHING, runs=(beyond,)))


def _limited_to_one_node() -> RandomCluster:
    """A pool of one node at most, a single type, and three pods of which it holds two."""
    plain = random_cluster("plain", 0)
    template = {"spec": {"nodeClassRef": NODE_CLASS_REF, "requirements": []}}
    limited = plain.kinds("NodePool")[0] | {
        "spec": {"template": template, "limits": {"nodes": "1"}}
    }
    kind = next(each for each in plain.types if each["capacity"]["cpu"] == "4")
    objects = (*plain.kinds("Namespace"), limited, *(_pod(number) for number in range(3)))
    return replace(plain, objects=objects, types=(_in_stock(kind),))


def _pod(number: int) -> Manifest:
    requests = {"cpu": "1900m", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "shop",
            "name": f"pod-{number}",
            "uid": str(number),
            "labels": {},
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
    }


def _in_stock(kind: Manifest) -> Manifest:
    return kind | {"offerings": [each | {"available": UNLIMITED} for each in kind["offerings"]]}


def _names(given: RandomCluster) -> list[str]:
    return [pod_key(each) for each in given.kinds("Pod")]


def _on_a_node(item: Manifest) -> Manifest:
    return item | {"spec": item["spec"] | {"nodeName": "node"}} if item["kind"] == "Pod" else item


def _node_manifests(given: RandomCluster) -> LaunchedNode:
    return LaunchedNode(
        pool="pool-a",
        instance_type=given.types[0]["name"],
        zone=None,
        capacity_type="spot",
        price=1.0,
        pods=(),
    )
