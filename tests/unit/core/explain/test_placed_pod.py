"""Why a placed pod is where it is."""

from tests.support.model_builders import (
    ZONES,
    existing_node,
    instance_type,
    label_requirement,
    labelled_pods,
    zonal_instance_type,
)

from wainwright.core.explain.placed_pod import explain_placement
from wainwright.core.plan import plan
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ZONE
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS
from wainwright.model.reasons import LaterAlternative, LimitExceeded
from wainwright.model.snapshot import Pool, Snapshot


def test_the_limit_of_a_pool_of_higher_weight_counts_the_nodes_planned_before() -> None:
    """Each pod fills a node of two cpus, and the first pool may have two of them."""
    first = Pool(name="first", weight=10, limits={"cpu": 5500}, in_use={"cpu": 1000})
    snapshot = Snapshot(pods=labelled_pods(3, cpu=1500), pools=(first, Pool(name="second")))
    index = InstanceTypeIndex([instance_type()])
    catalogs = {"first": index, "second": index}
    (claim,) = [each for each in plan(snapshot, catalogs).claims if each.pool == "second"]
    found = explain_placement(snapshot, catalogs, DEFAULT_PLAN_OPTIONS, claim, claim.pods[0])
    assert found is not None
    (earlier,) = found.earlier_pools
    assert isinstance(earlier.reason, LimitExceeded)
    assert (earlier.reason.in_use, earlier.reason.limit) == (5000, 5500)


def test_nodes_that_only_later_terms_of_the_node_affinity_allow_are_named() -> None:
    """The terms are tried in order, each on existing nodes and then on new ones."""
    terms = tuple(label_requirement(ZONE, "In", zone) for zone in ZONES)
    nodes = tuple(existing_node(f"n-{zone}", zone) for zone in ZONES[1:])
    waiting = labelled_pods(1, alternatives=terms)
    snapshot = Snapshot(pods=waiting, pools=(Pool(name="web"),), nodes=nodes)
    catalogs = {"web": InstanceTypeIndex([zonal_instance_type()])}
    (claim,) = plan(snapshot, catalogs).claims
    found = explain_placement(snapshot, catalogs, DEFAULT_PLAN_OPTIONS, claim, claim.pods[0])
    assert found is not None
    assert [each.reason for each in found.nodes] == [
        LaterAlternative(node="n-zone-b"),
        LaterAlternative(node="n-zone-c"),
    ]
