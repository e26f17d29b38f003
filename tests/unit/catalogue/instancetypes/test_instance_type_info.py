"""The built-in table of instance types."""

import pytest

from wainwright import data
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo, LazyMapping


def test_every_type_of_the_source_is_included() -> None:
    assert len(instance_type_info.built_in_instance_types()) == 1395


def test_the_file_has_the_columns_of_the_code() -> None:
    assert (
        instance_type_info.load_instance_type_table().columns == InstanceTypeInfo.__struct_fields__
    )


def test_types_are_sorted_by_name_and_unique() -> None:
    names = [info.name for info in instance_type_info.load_instance_type_table().instance_types]
    assert names == sorted(set(names))


def test_the_file_is_small_enough_to_load_in_milliseconds() -> None:
    assert len(data.read_data_file(instance_type_info.INSTANCE_TYPES_FILE)) < 200_000


def test_names_give_family_size_category_and_generation() -> None:
    u7in = instance_type_info.built_in_instance_types()["u7in-16tb.224xlarge"]
    assert (u7in.family, u7in.size) == ("u7in-16tb", "224xlarge")
    assert (u7in.category, u7in.generation) == ("u", 7)
    old = instance_type_info.built_in_instance_types()["u-6tb1.112xlarge"]
    assert (old.category, old.generation) == ("u", 1)


def test_a_name_without_a_number_has_no_category() -> None:
    mac = instance_type_info.built_in_instance_types()["mac-m4.metal"]
    assert (mac.category, mac.generation) == (None, None)


def test_a_type_without_hypervisor_is_bare_metal() -> None:
    assert instance_type_info.built_in_instance_types()["m5.metal"].is_bare_metal
    assert not instance_type_info.built_in_instance_types()["m5.large"].is_bare_metal


def test_a_slice_of_a_gpu_counts_as_one() -> None:
    gpu = instance_type_info.built_in_instance_types()["g6f.large"].gpu
    assert gpu is not None
    assert (gpu.name, gpu.count, gpu.memory_mib) == ("l4", 1, 2861)


def test_capacity_blocks_do_not_replace_on_demand() -> None:
    info = instance_type_info.built_in_instance_types()["p5.48xlarge"]
    assert info.capacity_block
    assert info.capacity_types[0] == "on-demand"


def test_a_lazy_mapping_builds_a_value_once_and_on_first_access() -> None:
    built: list[str] = []

    def build(name: str) -> str:
        built.append(name)
        return name.upper()

    mapping = LazyMapping(["a", "b"], build)
    assert (len(mapping), list(mapping), "a" in mapping, "c" in mapping) == (
        2,
        ["a", "b"],
        True,
        False,
    )
    assert built == []
    assert mapping["b"] is mapping["b"]
    assert built == ["b"]
    assert dict(mapping) == {"a": "A", "b": "B"}


def test_a_lazy_mapping_has_no_other_keys() -> None:
    with pytest.raises(KeyError):
        LazyMapping(["a"], str.upper)["b"]
