"""NodePool limits: drafts count as their largest type within a round, exactly between rounds."""

from tests.support.model_builders import GIB, instance_type, offering

from wainwright.core.scheduling.constraints.limits import PoolLimits
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.snapshot import Pool

INDEX = InstanceTypeIndex(
    [
        instance_type(
            name=f"m5.{cpus}",
            capacity={"cpu": cpus * 1000, "memory": cpus * GIB, "pods": 10},
            offerings=(offering(price=float(cpus)),),
        )
        for cpus in (2, 4, 8)
    ]
)
SMALL, MIDDLE, LARGE = 1, 2, 4


def test_without_limits_all_types_stay_allowed() -> None:
    limits = PoolLimits(Pool(name="p"), INDEX)
    limits.charge(INDEX.all_types)
    assert limits.admitted == INDEX.all_types


def test_a_type_larger_than_the_remaining_limit_is_not_allowed() -> None:
    limits = PoolLimits(Pool(name="p", limits={"cpu": 10_000}, in_use={"cpu": 4000}), INDEX)
    assert limits.admitted == SMALL | MIDDLE


def test_a_limit_may_be_met_exactly() -> None:
    limits = PoolLimits(Pool(name="p", limits={"cpu": 8000, "memory": 8 * GIB}), INDEX)
    assert limits.admitted == INDEX.all_types


def test_a_draft_counts_as_its_largest_type_until_its_round_is_over() -> None:
    limits = PoolLimits(Pool(name="p", limits={"cpu": 10_000}), INDEX)
    limits.charge(SMALL | LARGE)
    assert limits.admitted == SMALL
    assert limits.admitted_at_start == INDEX.all_types
    limits.count_launch({"cpu": 2000})
    limits.begin_round()
    assert limits.admitted == limits.admitted_at_start == INDEX.all_types


def test_the_nodes_limit_counts_nodes() -> None:
    limits = PoolLimits(Pool(name="p", limits={"nodes": 2}, in_use={"nodes": 1}), INDEX)
    assert limits.admitted == INDEX.all_types
    limits.charge(SMALL)
    assert limits.admitted == 0


def test_a_limit_on_a_resource_that_no_type_has_excludes_none() -> None:
    assert (
        PoolLimits(Pool(name="p", limits={"nvidia.com/gpu": 0}), INDEX).admitted == INDEX.all_types
    )


def test_a_node_without_a_resource_leaves_its_limit_as_it_is() -> None:
    with_gpu = instance_type(
        name="g4dn.xlarge", capacity={"cpu": 4000, "nvidia.com/gpu": 1}, offerings=(offering(),)
    )
    index = InstanceTypeIndex([*INDEX.types, with_gpu])
    [gpu] = [1 << number for number, each in enumerate(index.types) if each is with_gpu]
    limits = PoolLimits(Pool(name="p", limits={"nvidia.com/gpu": 1}), index)
    limits.charge(index.all_types & ~gpu)
    assert limits.remaining == {"nvidia.com/gpu": 1}
    limits.charge(gpu)
    assert limits.admitted == index.all_types & ~gpu


def test_a_copy_of_limits_is_independent() -> None:
    limits = PoolLimits(Pool(name="p", limits={"cpu": 8000}), INDEX)
    clone = limits.copy()
    clone.charge(LARGE)
    assert limits.admitted == INDEX.all_types
    assert clone.admitted == 0
