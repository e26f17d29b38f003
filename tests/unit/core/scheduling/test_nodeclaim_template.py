"""Pools compiled for one plan: what they have in common is worked out once."""

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


def test_pools_that_share_catalogue_and_daemonsets_share_what_room_there_is() -> None:
    pools = [Pool(name="a"), Pool(name="b"), Pool(name="c", taints=(Taint(key="k"),))]
    found = {
        each.pool.name: each
        for each in compile_templates(pools, dict.fromkeys("abc", INDEX), [AGENT])
    }
    assert found["a"].room is found["b"].room
    assert found["a"].room.amounts("cpu")[0] == [1500]
    assert found["c"].room is INDEX.allocatable_index


def test_pools_with_limits_share_what_their_types_come_to() -> None:
    assert INDEX.capacity_index is INDEX.capacity_index
    assert INDEX.capacity_index.amounts("cpu")[0] == [2000, 4000]
