"""The built-in table of instance types."""

import pytest

from wainwright import data
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo, LazyMapping


def test_every_type_of_the_source_is_there() -> None:
    assert len(instance_type_info.built_in_instance_types()) == 1395


def test_the_file_has_the_columns_of_the_code() -> None:
    assert (
        instance_type_info.load_instance_type_table().columns == InstanceTypeInfo.__struct_fields__
    )


def test_machines_are_sorted_by_name_and_listed_once() -> None:
    names = [
        machine.name for machine in instance_type_info.load_instance_type_table().instance_types
    ]
    assert names == sorted(set(names))


def test_the_file_is_small_enough_to_load_in_milliseconds() -> None:
    assert len(data.read_data_file(instance_type_info.INSTANCE_TYPES_FILE)) < 200_000


def test_names_give_family_size_category_and_generation() -> None:
    giant = instance_type_info.built_in_instance_types()["u7in-16tb.224xlarge"]
    assert (giant.family, giant.size) == ("u7in-16tb", "224xlarge")
    assert (giant.category, giant.generation) == ("u", 7)
    old = instance_type_info.built_in_instance_types()["u-6tb1.112xlarge"]
    assert (old.category, old.generation) == ("u", 1)


def test_a_name_without_a_number_has_no_category() -> None:
    mac = instance_type_info.built_in_instance_types()["mac-m4.metal"]
    assert (mac.category, mac.generation) == (None, None)


def test_a_machine_without_hypervisor_is_bare_metal() -> None:
    assert instance_type_info.built_in_instance_types()["m5.metal"].is_bare_metal
    assert not instance_type_info.built_in_instance_types()["m5.large"].is_bare_metal


def test_a_slice_of_a_gpu_counts_as_one() -> None:
    gpu = instance_type_info.built_in_instance_types()["g6f.large"].gpu
    assert gpu is not None
    assert (gpu.name, gpu.count, gpu.memory_mib) == ("l4", 1, 2861)


def test_a_capacity_block_is_known_besides_the_usual_ways_to_buy() -> None:
    machine = instance_type_info.built_in_instance_types()["p5.48xlarge"]
    assert machine.capacity_block
    assert machine.capacity_types[0] == "on-demand"


def test_an_entry_is_made_once_and_only_when_it_is_asked_for() -> None:
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name.upper()

    found = LazyMapping(["a", "b"], make)
    assert (len(found), list(found), "a" in found, "c" in found) == (2, ["a", "b"], True, False)
    assert made == []
    assert found["b"] is found["b"]
    assert made == ["b"]
    assert dict(found) == {"a": "A", "b": "B"}


def test_there_is_nothing_under_other_names() -> None:
    with pytest.raises(KeyError):
        LazyMapping(["a"], str.upper)["b"]
