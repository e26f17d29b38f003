"""Reserved resources and eviction: documented values, and what a class can change."""

import pytest

from wainwright.api.quantity import InvalidQuantity, parse_quantity
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.capacity import DerivedResources, derive_resources
from wainwright.catalogue.instancetypes.derived_amount import GIB, MIB, DerivationRule
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    KubeletSettings,
    NodeClassSettings,
    parse_eviction_threshold,
)
from wainwright.catalogue.instancetypes.overhead import (
    Overhead,
    gke_reserved_memory,
    kube_reserved_cpu,
)
from wainwright.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from wainwright.translate.annotations import KubeReservedMemoryStrategy


def resources_of(
    name: str, kubelet: KubeletSettings | None = None, family: AmiFamily = AmiFamily.AL2023
) -> DerivedResources:
    settings = NodeClassSettings(ami_family=family, kubelet=kubelet or KubeletSettings())
    return derive_resources(instance_type_info.built_in_instance_types()[name], settings)


def overhead_of(
    name: str, kubelet: KubeletSettings | None = None, family: AmiFamily = AmiFamily.AL2023
) -> Overhead:
    return resources_of(name, kubelet, family).overhead


def eviction_hard(**signals: str) -> KubeletSettings:
    named = {
        name.replace("_", "."): parse_eviction_threshold(text) for name, text in signals.items()
    }
    return KubeletSettings(eviction_hard=named)


def test_m5_xlarge_on_al2023_has_the_documented_values() -> None:
    allocatable = resources_of("m5.xlarge").allocatable()
    assert allocatable["pods"] == 58
    assert allocatable[CPU] == 3920
    assert allocatable[MEMORY] == 14162 * MIB
    assert allocatable[EPHEMERAL_STORAGE] == 17 * GIB


def test_memory_overhead_is_eleven_mebibytes_a_pod_and_the_eviction_threshold() -> None:
    assert overhead_of("m5.xlarge").total()[MEMORY] == (893 + 100) * MIB


def test_bottlerocket_reserves_memory_for_max_pods() -> None:
    overhead = overhead_of("m5.xlarge", KubeletSettings(max_pods=110), AmiFamily.BOTTLEROCKET)
    assert overhead.total()[MEMORY] == 1565 * MIB


@pytest.mark.parametrize(
    ("family", "mebibytes"), [(AmiFamily.AL2, 640), (AmiFamily.WINDOWS2022, 1465)]
)
def test_reserved_memory_depends_on_the_ami_family(family: AmiFamily, mebibytes: int) -> None:
    assert overhead_of("t3.large", family=family).kube_reserved[MEMORY].amount == mebibytes * MIB


@pytest.mark.parametrize(
    ("cores", "reserved"), [(1, 60), (2, 70), (3, 75), (4, 80), (5, 82), (96, 310)]
)
def test_kube_reserved_cpu_is_smaller_for_each_further_core(cores: int, reserved: int) -> None:
    assert kube_reserved_cpu(cores * 1000) == reserved


def test_kube_reserved_of_the_class_replaces_the_default_per_resource() -> None:
    reserved = overhead_of(
        "m5.xlarge", KubeletSettings(kube_reserved={MEMORY: parse_quantity("1Gi")})
    ).kube_reserved
    assert reserved[MEMORY].amount == GIB
    assert reserved[MEMORY].rule is DerivationRule.KUBE_RESERVED
    assert reserved[CPU].rule is DerivationRule.KUBE_CPU
    assert reserved[EPHEMERAL_STORAGE].amount == GIB


def test_system_reserved_is_empty_unless_the_class_sets_it() -> None:
    assert overhead_of("m5.xlarge").system_reserved == {}
    kubelet = KubeletSettings(
        system_reserved={CPU: parse_quantity("100m"), MEMORY: parse_quantity("0.5Gi")}
    )
    system = overhead_of("m5.xlarge", kubelet).system_reserved
    assert {name: derived.amount for name, derived in system.items()} == {
        CPU: 100,
        MEMORY: 512 * MIB,
    }


def test_reserved_pids_do_not_reduce_allocatable() -> None:
    allocatable = resources_of(
        "m5.xlarge", KubeletSettings(system_reserved={"pid": parse_quantity("1000")})
    ).allocatable()
    assert allocatable == resources_of("m5.xlarge").allocatable()


def test_eviction_thresholds_are_quantities_or_shares_of_capacity() -> None:
    eviction = overhead_of(
        "m5.xlarge", eviction_hard(memory_available="1Gi", nodefs_available="15%")
    ).eviction
    assert eviction[MEMORY].amount == GIB
    assert eviction[EPHEMERAL_STORAGE].amount == 3 * GIB
    share = overhead_of("m5.xlarge", eviction_hard(memory_available="7.5%")).eviction[MEMORY]
    assert share.amount == -(-15155 * MIB * 75 // 1000)
    assert share.inputs["percent"] == "7.5"


def test_a_signal_that_the_class_does_not_set_keeps_its_default() -> None:
    eviction = overhead_of("m5.xlarge", eviction_hard(memory_available="1Gi")).eviction
    assert eviction[EPHEMERAL_STORAGE].amount == 2 * GIB


def test_a_threshold_of_100_percent_is_off() -> None:
    eviction = overhead_of(
        "m5.xlarge", eviction_hard(memory_available="100%", nodefs_available="100%")
    ).eviction
    assert [derived.amount for derived in eviction.values()] == [0, 0]
    assert eviction[MEMORY].rule is DerivationRule.EVICTION_OFF


def test_inode_and_image_thresholds_do_not_reduce_allocatable() -> None:
    signals = eviction_hard(imagefs_available="10%", nodefs_inodesFree="5%")
    assert overhead_of("m5.xlarge", signals) == overhead_of("m5.xlarge")


def test_soft_thresholds_do_not_reduce_allocatable() -> None:
    soft = KubeletSettings(eviction_soft={"memory.available": parse_eviction_threshold("50%")})
    assert overhead_of("m5.xlarge", soft) == overhead_of("m5.xlarge")


def test_a_threshold_that_is_not_a_quantity_is_an_error() -> None:
    with pytest.raises(InvalidQuantity):
        parse_eviction_threshold("lots")
    with pytest.raises(InvalidQuantity):
        parse_eviction_threshold("%")


@pytest.mark.parametrize(
    ("gibibytes", "mebibytes"),
    [(0.5, 255), (1, 256), (4, 1024), (8, 1844), (16, 2663), (256, 12166)],
)
def test_the_gke_strategy_reserves_a_falling_share_of_memory(
    gibibytes: float, mebibytes: int
) -> None:
    assert gke_reserved_memory(int(gibibytes * GIB)) == mebibytes * MIB


def test_the_class_can_choose_the_gke_strategy() -> None:
    kubelet = KubeletSettings(kube_reserved_memory_strategy=KubeReservedMemoryStrategy.GKE)
    reserved = overhead_of("m5.xlarge", kubelet).kube_reserved[MEMORY]
    assert reserved.rule is DerivationRule.KUBE_MEMORY_GKE
    assert reserved.amount == gke_reserved_memory(15155 * MIB)
    assert (
        overhead_of("m5.xlarge", kubelet).kube_reserved[CPU]
        == overhead_of("m5.xlarge").kube_reserved[CPU]
    )
