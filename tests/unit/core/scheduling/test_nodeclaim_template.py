"""NodeClaim templates: what pools have in common is computed once."""

from tests.support.model_builders import GIB, instance_type

from wainwright.core.scheduling.nodeclaim_template import compile_templates
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.pod import DaemonSet
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Pool
from wainwright.model.taints import Taint

INDEX = InstanceTypeIndex(
    [instance_type(), instance_type(name="m5.xlarge", capacity={"cpu": 4000})]
)
AGENT = DaemonSet(
    namespace="d",
    name="agent",
    requests={"cpu": 500, "memory": GIB},
    alternatives=(Requirements(),),
)


def test_pools_with_equal_catalogue_and_daemonsets_share_allocatable_resources() -> None:
    pools = [Pool(name="a"), Pool(name="b"), Pool(name="c", taints=(Taint(key="k"),))]
    templates = {
        each.pool.name: each
        for each in compile_templates(pools, dict.fromkeys("abc", INDEX), [AGENT])
    }
    assert templates["a"].allocatable is templates["b"].allocatable
    assert templates["a"].allocatable.amounts("cpu")[0] == [1500]
    assert templates["c"].allocatable is INDEX.allocatable_index


def test_capacities_of_a_catalogue_are_computed_once() -> None:
    assert INDEX.capacity_index is INDEX.capacity_index
    assert INDEX.capacity_index.amounts("cpu")[0] == [2000, 4000]
