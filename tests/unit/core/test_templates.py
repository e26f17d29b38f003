"""Pools compiled for one plan: what they have in common is worked out once."""

from tests.support.model import GIB, instance_type

from wainwright.core.templates import compiled
from wainwright.model.index import TypeIndex
from wainwright.model.pod import DaemonSet
from wainwright.model.pool import Pool
from wainwright.model.requirements import Requirements
from wainwright.model.taints import Taint

INDEX = TypeIndex([instance_type(), instance_type(name="m5.xlarge", capacity={"cpu": 4000})])
AGENT = DaemonSet(
    namespace="d",
    name="agent",
    requests={"cpu": 500, "memory": GIB},
    alternatives=(Requirements(),),
)


def test_pools_that_share_catalogue_and_daemonsets_share_what_room_there_is() -> None:
    pools = [Pool(name="a"), Pool(name="b"), Pool(name="c", taints=(Taint(key="k"),))]
    found = {each.pool.name: each for each in compiled(pools, dict.fromkeys("abc", INDEX), [AGENT])}
    assert found["a"].room is found["b"].room
    assert found["a"].room.sizes("cpu")[0] == [1500]
    assert found["c"].room is INDEX.own_thresholds


def test_pools_with_limits_share_what_their_types_come_to() -> None:
    assert INDEX.capacities is INDEX.capacities
    assert INDEX.capacities.sizes("cpu")[0] == [2000, 4000]
