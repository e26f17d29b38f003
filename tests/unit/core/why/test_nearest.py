"""Machines that hold not even their daemonsets: no pod fits, and it is not the pod's fault."""

import pytest
from tests.support.model import GIB, instance_type, offering

from wainwright.core.plan import plan
from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType
from wainwright.model.plan import Unschedulable
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.pool import Pool
from wainwright.model.resources import Resources
from wainwright.model.snapshot import Snapshot
from wainwright.report import words

SMALL = instance_type(name="small")
LARGE = instance_type(
    name="large",
    capacity={"cpu": 4000, "memory": 16 * GIB, "pods": 58},
    offerings=(offering(price=2.0),),
)
STARVED = instance_type(name="starved", overhead={"cpu": 2500})
SPENT = instance_type(name="spent", overhead={"cpu": 2000})
TINY = Pod(namespace="shop", name="a")


def failed(daemonset: Resources, *types: InstanceType, pod: Pod = TINY) -> Unschedulable:
    greedy = DaemonSet(namespace="system", name="greedy", requests=daemonset)
    daemonsets = (greedy,) if daemonset else ()
    snapshot = Snapshot(pods=(pod,), pools=(Pool(name="web"),), daemonsets=daemonsets)
    [group] = plan(snapshot, {"web": TypeIndex(types)}).unschedulable
    return group


TOLD: list[tuple[Resources, tuple[InstanceType, ...], str]] = [
    ({"cpu": 3000}, (SMALL,), "daemonsets alone need 3 cpu, and small has 2"),
    ({"cpu": 5000}, (SMALL, LARGE), "daemonsets alone need 5 cpu, and large has 4"),
    ({"cpu": 5000, "memory": 64 * GIB}, (LARGE,), "need 64Gi memory, and large has 16Gi"),
    ({"example.com/chip": 1}, (SMALL,), "need 1 example.com/chip, and small has 0"),
    ({"cpu": 1000}, (SPENT,), "daemonsets alone need 1 cpu, and spent has 0"),
    ({}, (STARVED,), "starved keeps no cpu for pods"),
]


@pytest.mark.parametrize(("daemonset", "types", "told"), TOLD)
@pytest.mark.parametrize("requests", [{}, {"memory": GIB}, {"cpu": 100}, {"cpu": 90000}])
def test_what_daemonsets_need_is_told_whatever_the_pod_asks_for(
    requests: Resources, daemonset: Resources, types: tuple[InstanceType, ...], told: str
) -> None:
    pod = Pod(namespace="shop", name="a", requests=requests)
    found = failed(daemonset, *types, pod=pod)
    assert words.pool(found.pools[0].reason).endswith(told)
    assert found.suggestion is None


def test_the_nearest_miss_is_that_of_the_daemonsets() -> None:
    miss = failed({"cpu": 5000}, SMALL, LARGE).pools[0].nearest_miss
    assert miss is not None
    assert (miss.what, miss.needed, miss.best, miss.instance_type) == ("cpu", 5000, 4000, "large")


def test_where_some_type_holds_its_daemonsets_it_is_the_pod_that_is_too_big() -> None:
    """The small type has memory enough for the pod, but is out of the question."""
    pod = Pod(namespace="shop", name="a", requests={"cpu": 3000, "memory": GIB})
    reason = failed({"cpu": 3000}, SMALL, LARGE, pod=pod).pools[0].reason
    assert words.pool(reason) == (
        "needs 3 cpu, the largest left offers 1 (large, after 3 for daemonsets)"
    )
