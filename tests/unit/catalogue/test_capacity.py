"""Capacity, and what an InstanceType object changes of it."""

from fractions import Fraction

from wainwright.catalogue import builtin
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.capacity import memory
from wainwright.catalogue.figure import CPU, EPHEMERAL_STORAGE, GIB, MEMORY, MIB, PODS, Rule
from wainwright.catalogue.settings import ClassSettings, Kubelet, Options, Override
from wainwright.catalogue.shapes import Shape, shape
from wainwright.catalogue.threshold import threshold


def made(name: str, override: Override, settings: ClassSettings | None = None) -> Shape:
    return shape(builtin.machines()[name], settings or ClassSettings(), override)


def test_the_virtual_machine_takes_its_share_rounded_up() -> None:
    assert memory(builtin.machines()["m5.xlarge"], Fraction(75, 1000)).amount == 15155 * MIB


def test_arm_keeps_back_64_mebibytes_first() -> None:
    found = memory(builtin.machines()["m6g.large"], Fraction(75, 1000))
    assert found.amount == (8192 - 64 - 610) * MIB
    assert found.rule is Rule.VM_MEMORY_ARM


def test_the_share_of_the_virtual_machine_can_be_set() -> None:
    settings = ClassSettings(options=Options(vm_memory_overhead=Fraction(0)))
    assert made("m5.xlarge", Override(), settings).capacity[MEMORY].amount == 16 * GIB


def test_declared_overhead_replaces_the_share() -> None:
    found = made("c5.large", Override(overhead={MEMORY: 200 * MIB}))
    assert found.capacity[MEMORY].amount == (4096 - 200) * MIB
    assert found.capacity[MEMORY].rule is Rule.DECLARED_VM_MEMORY
    assert MEMORY not in found.overhead.declared


def test_declared_overhead_leaves_the_deduction_of_arm() -> None:
    found = made("c6g.large", Override(overhead={MEMORY: 200 * MIB}))
    assert found.capacity[MEMORY].amount == (4096 - 64 - 200) * MIB


def test_declared_memory_is_taken_as_it_stands() -> None:
    found = made("c5.large", Override(resources={MEMORY: 3 * GIB}))
    assert found.capacity[MEMORY].amount == 3 * GIB


def test_declared_overhead_is_subtracted_from_declared_memory() -> None:
    resources = {MEMORY: 3 * GIB}
    without = made("c5.large", Override(resources=resources))
    found = made("c5.large", Override(resources=resources, overhead={MEMORY: 200 * MIB}))
    assert found.capacity[MEMORY].amount == 3 * GIB
    assert found.allocatable()[MEMORY] == without.allocatable()[MEMORY] - 200 * MIB


def test_other_declared_overhead_is_subtracted() -> None:
    found = made("c5.large", Override(overhead={CPU: 100, EPHEMERAL_STORAGE: GIB}))
    assert found.allocatable()[CPU] == 2000 - 70 - 100
    assert found.allocatable()[EPHEMERAL_STORAGE] == 16 * GIB


def test_declared_devices_are_added_to_the_known_ones() -> None:
    found = made("c4.large", Override(resources={"hardware-vendor.example/foo": 2}))
    assert found.allocatable()["hardware-vendor.example/foo"] == 2
    assert found.capacity["hardware-vendor.example/foo"].rule is Rule.DECLARED
    assert found.capacity[CPU].amount == 2000


def test_a_declared_device_replaces_a_known_one() -> None:
    found = made("g5.xlarge", Override(resources={"nvidia.com/gpu": 4}))
    assert found.allocatable()["nvidia.com/gpu"] == 4


def test_kube_reserved_cpu_and_pods_per_core_follow_declared_cpu() -> None:
    settings = ClassSettings(kubelet=Kubelet(pods_per_core=10))
    found = made("m5.xlarge", Override(resources={CPU: 2000}), settings)
    assert found.allocatable()[CPU] == 1930
    assert found.capacity[PODS].amount == 20


def test_declared_pods_are_capped_by_the_class_and_count_in_reserved_memory() -> None:
    settings = ClassSettings(kubelet=Kubelet(max_pods=8))
    found = made("m5.xlarge", Override(resources={PODS: 10}), settings)
    assert found.capacity[PODS].amount == 8
    assert found.overhead.kube_reserved[MEMORY].amount == (255 + 110) * MIB
    assert found.overhead.kube_reserved[MEMORY].rule is Rule.KUBE_MEMORY_DECLARED


def test_shares_of_eviction_are_of_the_capacity_in_force() -> None:
    settings = ClassSettings(kubelet=Kubelet(eviction_hard={"memory.available": threshold("5%")}))
    found = made("m5.xlarge", Override(resources={MEMORY: 10 * GIB}), settings)
    assert found.overhead.eviction[MEMORY].amount == 512 * MIB


def test_declared_storage_is_what_the_default_threshold_is_of() -> None:
    found = made("m5.xlarge", Override(resources={EPHEMERAL_STORAGE: 100 * GIB}))
    assert found.allocatable()[EPHEMERAL_STORAGE] == 89 * GIB


def test_the_smallest_machine_may_have_less_than_nothing_for_pods() -> None:
    settings = ClassSettings(ami_family=AmiFamily.WINDOWS2022)
    assert made("t3.nano", Override(), settings).allocatable()[MEMORY] < 0
