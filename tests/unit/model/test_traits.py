"""Which instance types are bought only when somebody asked for them."""

import pytest
from tests.support.model import GIB, instance_type

from wainwright.model.index import TypeIndex
from wainwright.model.labels import INSTANCE_ACCELERATOR_NAME, INSTANCE_GPU_NAME, INSTANCE_SIZE
from wainwright.model.traits import is_accelerated, is_metal


@pytest.mark.parametrize("name", ["m5.metal", "c7i.metal-24xl"])
def test_a_whole_machine_is_known_by_its_size(name: str) -> None:
    assert is_metal(instance_type(name=name))
    assert is_metal(instance_type(name="other", labels={INSTANCE_SIZE: name.partition(".")[2]}))
    assert not is_metal(instance_type(name="m5.large"))


def test_an_accelerator_is_known_by_its_label_or_its_resource() -> None:
    assert is_accelerated(instance_type(labels={INSTANCE_GPU_NAME: "t4"}))
    assert is_accelerated(instance_type(labels={INSTANCE_ACCELERATOR_NAME: "inferentia"}))
    assert is_accelerated(instance_type(capacity={"cpu": 1, "memory": GIB, "nvidia.com/gpu": 1}))
    assert not is_accelerated(instance_type(capacity={"cpu": 1, "nvidia.com/gpu": 0}))
    assert not is_accelerated(instance_type())


def test_the_index_knows_them_as_sets() -> None:
    index = TypeIndex([instance_type(name="a.metal"), instance_type(name="b.large")])
    assert [kind.name for kind in index.members(index.metal)] == ["a.metal"]
    assert index.accelerated == 0
