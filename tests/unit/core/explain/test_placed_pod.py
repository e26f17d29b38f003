"""Why a placed pod is where it is."""

from tests.support.model_builders import instance_type, labelled_pods

from wainwright.core.explain.placed_pod import explain_placement
from wainwright.core.plan import plan
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import DEFAULT_PLAN_OPTIONS
from wainwright.model.reasons import LimitExceeded
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
