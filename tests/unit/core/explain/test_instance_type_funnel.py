"""The funnel: daemonsets come first, and cached results are shared only by equal questions."""

from math import inf

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.model_builders import GIB, explained_plan, instance_type, offering

from wainwright.core.explain.instance_type_funnel import FunnelContext, run_funnel
from wainwright.core.scheduling.nodeclaim_template import compile_templates
from wainwright.messages import unschedulable
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import UnschedulableGroup
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.reasons import LimitExceeded
from wainwright.model.resources import Resources
from wainwright.model.snapshot import Pool, Snapshot

SMALL = instance_type(name="small")
LARGE = instance_type(
    name="large",
    capacity={"cpu": 4000, "memory": 16 * GIB, "pods": 58},
    offerings=(offering(price=2.0),),
)
STARVED = instance_type(name="starved", overhead={"cpu": 2500})
SPENT = instance_type(name="spent", overhead={"cpu": 2000})
TINY = Pod(namespace="shop", name="a")


def failed(daemonset: Resources, *types: InstanceType, pod: Pod = TINY) -> UnschedulableGroup:
    greedy = DaemonSet(namespace="system", name="greedy", requests=daemonset)
    daemonsets = (greedy,) if daemonset else ()
    snapshot = Snapshot(pods=(pod,), pools=(Pool(name="web"),), daemonsets=daemonsets)
    [group] = explained_plan(snapshot, {"web": InstanceTypeIndex(types)}).unschedulable
    return group


DAEMONSET_REASONS: list[tuple[Resources, tuple[InstanceType, ...], str]] = [
    (
        {"cpu": 3000},
        (SMALL,),
        "request 3 cpu on a node (system/greedy 3); the nearest instance type that "
        "the NodePool allows, small, has 2 cpu allocatable",
    ),
    (
        {"cpu": 5000},
        (SMALL, LARGE),
        "request 5 cpu on a node (system/greedy 5); the nearest instance type that "
        "the NodePool allows, large, has 4 cpu allocatable",
    ),
    (
        {"cpu": 5000, "memory": 64 * GIB},
        (LARGE,),
        "request 64Gi memory on a node (system/greedy 64Gi); the nearest instance type that "
        "the NodePool allows, large, has 16Gi allocatable",
    ),
    (
        {"example.com/chip": 1},
        (SMALL,),
        "request 1 example.com/chip on a node (system/greedy 1); the nearest instance type that "
        "the NodePool allows, small, has 0 allocatable",
    ),
    (
        {"cpu": 1000},
        (SPENT,),
        "request 1 cpu on a node (system/greedy 1); the nearest instance type that "
        "the NodePool allows, spent, has 0 cpu allocatable",
    ),
    ({}, (STARVED,), "starved leaves no cpu for pods"),
]


@pytest.mark.parametrize(("daemonset", "types", "text"), DAEMONSET_REASONS)
@pytest.mark.parametrize("requests", [{}, {"memory": GIB}, {"cpu": 100}, {"cpu": 90000}])
def test_daemonsets_that_exceed_capacity_are_the_reason_whatever_the_pod_requests(
    requests: Resources, daemonset: Resources, types: tuple[InstanceType, ...], text: str
) -> None:
    pod = Pod(namespace="shop", name="a", requests=requests)
    found = failed(daemonset, *types, pod=pod)
    assert unschedulable.describe_pool_reason(found.pools[0].reason).endswith(text)
    assert found.suggestion is None


def test_the_nearest_miss_is_that_of_daemonsets_that_exceed_capacity() -> None:
    miss = failed({"cpu": 5000}, SMALL, LARGE).pools[0].nearest_miss
    assert miss is not None
    assert (miss.what, miss.needed, miss.best, miss.instance_type) == ("cpu", 5000, 4000, "large")


def test_where_some_type_holds_its_daemonsets_the_pod_is_too_large() -> None:
    """The small type has enough memory for the pod, but not enough CPU for daemonsets."""
    pod = Pod(namespace="shop", name="a", requests={"cpu": 3000, "memory": GIB})
    reason = failed({"cpu": 3000}, SMALL, LARGE, pod=pod).pools[0].reason
    assert unschedulable.describe_pool_reason(reason) == (
        "the pod needs 3 cpu; the largest instance type that the NodePool allows, large, "
        "has 1 cpu left after 3 for DaemonSets"
    )


RESOURCES = ("cpu", "memory", "example.com/chip", "example.com/card", "example.com/nobody-has-it")
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES[:-1]), st.integers(0, 40), max_size=4)


@settings(max_examples=200, deadline=None)
@given(
    rooms=st.lists(AMOUNTS, min_size=1, max_size=12),
    requests=st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 100), min_size=1),
)
def test_the_nearest_miss_is_of_a_resource_that_is_really_short(
    rooms: list[Resources], requests: Resources
) -> None:
    """A resource of which no type has enough, with the most there is; if each is there on some
    type, the type that lacks least: the worst multiple of what it has, then the next.
    """
    types = [
        instance_type(name=f"t{number:02}", capacity={**room, "pods": 9})
        for number, room in enumerate(rooms)
    ]

    def lacking(room: Resources) -> list[float]:
        ratios = ((amount, room.get(name, 0)) for name, amount in requests.items())
        return sorted((a / b if b else inf for a, b in ratios if a > b), reverse=True)

    best = min(map(lacking, rooms))
    assume(best)
    most = {name: max(room.get(name, 0) for room in rooms) for name in requests}
    short = {name for name in requests if requests[name] > most[name]}
    pod = Pod(namespace="shop", name="a", requests=requests)
    miss = failed({}, *types, pod=pod).pools[0].nearest_miss
    assert miss is not None
    assert miss.instance_type is not None
    room = rooms[int(miss.instance_type[1:])]
    if short:
        assert miss.what in short
        assert miss.best == most[miss.what] == room.get(miss.what, 0)
    else:
        assert lacking(room) == best


INDEX = InstanceTypeIndex(
    [
        instance_type(name="roomy", capacity={"cpu": 4000, "memory": 64 * GIB, "pods": 9}),
        instance_type(name="quick", capacity={"cpu": 64_000, "memory": 4 * GIB, "pods": 9}),
    ]
)
POD = Pod(namespace="d", name="a", requests={"cpu": 100})


def nearest_type(cpu: int, memory: int, context: FunnelContext) -> str:
    """The type that exceeds limits by the least, where 2 CPU and 2Gi are left of them."""
    limits = {"cpu": cpu, "memory": memory}
    in_use = {"cpu": cpu - 2000, "memory": memory - 2 * GIB}
    [template] = compile_templates([Pool(name="p", limits=limits, in_use=in_use)], {"p": INDEX}, ())
    reason = run_funnel(template, POD, context).reason
    assert isinstance(reason, LimitExceeded)
    return reason.instance_type


def test_limits_with_the_same_amounts_left_do_not_share_cached_results() -> None:
    context = FunnelContext(available_counts={})
    assert nearest_type(1_000_000, 2 * GIB, context) == "quick"
    assert nearest_type(2000, 1000 * GIB, context) == "roomy"
