"""The committed catalogue: whole, in step with the code, and quick to load."""

from wainwright import data
from wainwright.catalogue import builtin
from wainwright.catalogue.machine import Machine


def test_every_type_of_the_source_is_there() -> None:
    assert len(builtin.machines()) == 1395


def test_the_file_has_the_columns_of_the_code() -> None:
    assert builtin.table().columns == Machine.__struct_fields__


def test_machines_are_sorted_by_name_and_listed_once() -> None:
    names = [machine.name for machine in builtin.table().machines]
    assert names == sorted(set(names))


def test_the_file_is_small_enough_to_load_in_milliseconds() -> None:
    assert len(data.read(builtin.FILE)) < 200_000


def test_names_give_family_size_category_and_generation() -> None:
    giant = builtin.machines()["u7in-16tb.224xlarge"]
    assert (giant.family, giant.size) == ("u7in-16tb", "224xlarge")
    assert (giant.category, giant.generation) == ("u", 7)
    old = builtin.machines()["u-6tb1.112xlarge"]
    assert (old.category, old.generation) == ("u", 1)


def test_a_name_without_a_number_has_no_category() -> None:
    mac = builtin.machines()["mac-m4.metal"]
    assert (mac.category, mac.generation) == (None, None)


def test_a_machine_without_hypervisor_is_bare_metal() -> None:
    assert builtin.machines()["m5.metal"].bare_metal
    assert not builtin.machines()["m5.large"].bare_metal


def test_a_slice_of_a_gpu_counts_as_one() -> None:
    gpu = builtin.machines()["g6f.large"].gpu
    assert gpu is not None
    assert (gpu.name, gpu.count, gpu.memory_mib) == ("l4", 1, 2861)


def test_a_capacity_block_is_known_besides_the_usual_ways_to_buy() -> None:
    machine = builtin.machines()["p5.48xlarge"]
    assert machine.capacity_block
    assert machine.capacity_types[0] == "on-demand"
