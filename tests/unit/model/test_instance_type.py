"""Instance types: allocatable resources, and what sets a few types apart."""

import pytest
from tests.support.model_builders import GIB, instance_type, offering

from wainwright.model.instance_type import is_accelerated, is_metal
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import INSTANCE_ACCELERATOR_NAME, INSTANCE_GPU_NAME, INSTANCE_SIZE


def test_allocatable_is_capacity_less_overhead() -> None:
    built = instance_type(
        capacity={"cpu": 4000, "memory": 16 * GIB, "pods": 58},
        overhead={"cpu": 80, "memory": GIB},
    )
    assert built.allocatable == {"cpu": 3920, "memory": 15 * GIB, "pods": 58}


def test_overhead_larger_than_capacity_makes_allocatable_negative() -> None:
    built = instance_type(capacity={"memory": GIB}, overhead={"memory": 3 * GIB})
    assert built.allocatable == {"memory": -2 * GIB}


def test_overhead_of_a_resource_without_capacity_is_ignored() -> None:
    built = instance_type(capacity={"cpu": 1000}, overhead={"ephemeral-storage": GIB})
    assert built.allocatable == {"cpu": 1000}


def test_huge_pages_are_set_aside_from_memory() -> None:
    built = instance_type(
        capacity={"hugepages-1Gi": 2 * GIB, "hugepages-2Mi": GIB, "memory": 8 * GIB},
        overhead={"memory": GIB},
    )
    assert built.allocatable["memory"] == 4 * GIB


def test_huge_pages_do_not_make_memory_negative() -> None:
    built = instance_type(capacity={"hugepages-1Gi": 2 * GIB, "memory": GIB})
    assert built.allocatable["memory"] == 0


def test_an_offering_has_a_zone_and_capacity_type_where_its_labels_name_one() -> None:
    assert offering(zone="zone-b", capacity_type="spot").zone == "zone-b"
    assert offering(zone="zone-b", capacity_type="spot").capacity_type == "spot"
    assert offering(zone=None).zone is None
    assert offering(capacity_type=None).capacity_type is None


@pytest.mark.parametrize("name", ["m5.metal", "c7i.metal-24xl"])
def test_bare_metal_is_recognised_by_its_size(name: str) -> None:
    assert is_metal(instance_type(name=name))
    assert is_metal(instance_type(name="other", labels={INSTANCE_SIZE: name.partition(".")[2]}))
    assert not is_metal(instance_type(name="m5.large"))


def test_accelerated_types_are_recognised_by_label_or_resource() -> None:
    assert is_accelerated(instance_type(labels={INSTANCE_GPU_NAME: "t4"}))
    assert is_accelerated(instance_type(labels={INSTANCE_ACCELERATOR_NAME: "inferentia"}))
    assert is_accelerated(instance_type(capacity={"cpu": 1, "memory": GIB, "nvidia.com/gpu": 1}))
    assert not is_accelerated(instance_type(capacity={"cpu": 1, "nvidia.com/gpu": 0}))
    assert not is_accelerated(instance_type())


def test_the_index_has_sets_of_metal_and_accelerated_types() -> None:
    index = InstanceTypeIndex([instance_type(name="a.metal"), instance_type(name="b.large")])
    assert [built.name for built in index.iter_types(index.metal)] == ["a.metal"]
    assert index.accelerated == 0
