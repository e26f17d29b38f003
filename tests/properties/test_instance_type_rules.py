"""Laws of the catalogue's rules, over every instance type and any class."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wainwright.api.quantity import Quantity
from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.capacity import (
    ARM64_RESERVED_MIB,
    compute_memory,
    derive_resources,
    node_resources_by_type,
)
from wainwright.catalogue.instancetypes.derived_amount import GIB, MIB
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.instancetypes.max_pods import compute_max_pods
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    BlockDeviceSettings,
    CatalogOptions,
    EvictionThreshold,
    InstanceStorePolicy,
    KubeletSettings,
    NetworkInterfaceSettings,
    NodeClassSettings,
    ResourceOverride,
    parse_eviction_threshold,
)
from wainwright.catalogue.instancetypes.overhead import gke_reserved_memory, kube_reserved_cpu
from wainwright.catalogue.instancetypes.type_labels import instance_type_labels, type_requirements
from wainwright.catalogue.offerings.built_in_offerings import on_demand_list_price, spot_prices
from wainwright.model.labels import ARCH
from wainwright.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from wainwright.translate.annotations import KubeReservedMemoryStrategy

INSTANCE_TYPES = tuple(instance_type_info.built_in_instance_types().values())
SHARE = Fraction(75, 1000)

instance_types = st.sampled_from(INSTANCE_TYPES)
amounts = st.integers(0, 64 * GIB)
percents = st.integers(0, 99).map(lambda percent: parse_eviction_threshold(f"{percent}%"))
quantities = amounts.map(lambda amount: Quantity(amount * 10**9))
thresholds = st.one_of(percents, quantities.map(lambda each: EvictionThreshold(quantity=each)))
reserved = st.dictionaries(st.sampled_from([CPU, MEMORY, EPHEMERAL_STORAGE, "pid"]), quantities)
kubelets = st.builds(
    KubeletSettings,
    max_pods=st.none() | st.integers(0, 300),
    pods_per_core=st.none() | st.integers(0, 20),
    kube_reserved=reserved,
    system_reserved=reserved,
    eviction_hard=st.dictionaries(
        st.sampled_from(["memory.available", "nodefs.available", "nodefs.inodesFree"]), thresholds
    ),
    eviction_soft=st.dictionaries(st.just("memory.available"), thresholds),
    kube_reserved_memory_strategy=st.sampled_from(KubeReservedMemoryStrategy),
)
devices = st.builds(
    BlockDeviceSettings,
    device=st.sampled_from(["/dev/xvda", "/dev/xvdb", "/dev/sda1"]),
    size=st.none() | st.integers(GIB, 1000 * GIB),
    root=st.booleans(),
)
interfaces = st.builds(NetworkInterfaceSettings, card=st.integers(0, 3), efa_only=st.booleans())
options = st.builds(
    CatalogOptions,
    vm_memory_overhead=st.fractions(0, Fraction(1, 2), max_denominator=1000),
    reserved_enis=st.integers(0, 4),
    prefix_delegation=st.booleans(),
    storage_per_pod=st.none() | st.integers(0, 10 * GIB),
)
classes = st.builds(
    NodeClassSettings,
    ami_family=st.sampled_from(AmiFamily),
    kubelet=kubelets,
    block_devices=st.lists(devices, max_size=3).map(tuple),
    instance_store_policy=st.none() | st.sampled_from(InstanceStorePolicy),
    network_interfaces=st.lists(interfaces, max_size=3).map(tuple),
    options=options,
)
names = st.sampled_from([CPU, MEMORY, EPHEMERAL_STORAGE, PODS, "vendor.example/device"])
overrides = st.builds(
    ResourceOverride,
    resources=st.dictionaries(names, amounts),
    overhead=st.dictionaries(st.sampled_from([CPU, MEMORY, EPHEMERAL_STORAGE]), amounts),
)


@given(instance_types, classes, overrides)
def test_allocatable_is_capacity_less_every_part_of_the_overhead(
    info: InstanceTypeInfo, settings: NodeClassSettings, override: ResourceOverride
) -> None:
    made = derive_resources(info, settings, override)
    left = made.allocatable()
    for resource, figure in made.capacity.items():
        taken = [part[resource].amount for part in made.overhead.parts if resource in part]
        assert left[resource] == figure.amount - sum(taken) <= figure.amount


@given(classes)
@settings(max_examples=10)
def test_equal_instance_types_have_equal_resources(node_class: NodeClassSettings) -> None:
    shared = node_resources_by_type(instance_type_info.built_in_instance_types(), node_class)
    for name, info in instance_type_info.built_in_instance_types().items():
        assert shared[name].derived == derive_resources(info, node_class), name


@pytest.mark.parametrize("family", [AmiFamily.AL2023, AmiFamily.WINDOWS2022])
def test_descriptions_are_the_labels_of_the_instance_type(family: AmiFamily) -> None:
    for name, described in type_requirements("us-east-1", family.traits).items():
        labels = instance_type_labels(
            instance_type_info.built_in_instance_types()[name], family.traits, "us-east-1"
        )
        stated = {key: described.allowed(key).values for key in described}
        legal = {
            key: frozenset(value.strip("[]") for value in values) for key, values in labels.items()
        }
        assert stated == legal


@given(instance_types, classes, overrides)
def test_every_number_can_say_where_it_comes_from(
    info: InstanceTypeInfo, settings: NodeClassSettings, override: ResourceOverride
) -> None:
    made = derive_resources(info, settings, override)
    for figures in (made.capacity, *made.overhead.parts):
        for figure in figures.values():
            assert "{" not in figure.explain()


@given(instance_types, classes, overrides)
def test_what_an_instance_type_object_declares_stands(
    info: InstanceTypeInfo, settings: NodeClassSettings, override: ResourceOverride
) -> None:
    made = derive_resources(info, settings, override)
    for resource, declared in override.resources.items():
        if resource == PODS:
            assert made.capacity[resource].amount <= declared
        else:
            assert made.capacity[resource].amount == declared


@given(instance_types, classes)
def test_pods_never_exceed_what_the_class_allows(
    info: InstanceTypeInfo, settings: NodeClassSettings
) -> None:
    kubelet, amount = settings.kubelet, compute_max_pods(info, settings).amount
    if kubelet.max_pods is not None:
        assert amount <= kubelet.max_pods
    if kubelet.pods_per_core and settings.ami_family is not AmiFamily.BOTTLEROCKET:
        assert amount <= kubelet.pods_per_core * info.vcpus


@given(instance_types, classes, st.integers(1, 4))
def test_reserving_interfaces_never_adds_pods(
    info: InstanceTypeInfo, settings: NodeClassSettings, more: int
) -> None:
    fewer = CatalogOptions(reserved_enis=settings.options.reserved_enis + more)
    same = CatalogOptions(reserved_enis=settings.options.reserved_enis)
    plain = NodeClassSettings(ami_family=settings.ami_family, options=same)
    tighter = NodeClassSettings(ami_family=settings.ami_family, options=fewer)
    assert compute_max_pods(info, tighter).amount <= compute_max_pods(info, plain).amount


@given(instance_types, kubelets, st.integers(0, 10 * GIB))
def test_a_volume_sized_to_the_pods_has_room_for_all_of_them(
    info: InstanceTypeInfo, kubelet: KubeletSettings, per_pod: int
) -> None:
    settings = NodeClassSettings(kubelet=kubelet, options=CatalogOptions(storage_per_pod=per_pod))
    left = derive_resources(info, settings).allocatable()
    assert left[EPHEMERAL_STORAGE] >= left[PODS] * per_pod


@given(st.integers(0, 2000 * 1000), st.integers(0, 4000))
def test_kube_reserved_cpu_grows_with_the_instance_type_but_never_faster(
    cpu: int, more: int
) -> None:
    assert kube_reserved_cpu(cpu) <= kube_reserved_cpu(cpu + more) <= kube_reserved_cpu(cpu) + more
    assert kube_reserved_cpu(cpu) <= cpu * 6 // 100


@given(st.integers(2**20, 2**45), st.integers(0, 2**40))
def test_kube_reserved_memory_grows_with_the_instance_type(amount: int, more: int) -> None:
    assert gke_reserved_memory(amount) <= gke_reserved_memory(amount + more)


@pytest.mark.parametrize("family", AmiFamily)
def test_only_types_of_a_gibibyte_or_less_may_have_nothing_for_pods(family: AmiFamily) -> None:
    settings = NodeClassSettings(ami_family=family)
    empty = {
        info.memory_mib
        for info in INSTANCE_TYPES
        if any(amount <= 0 for amount in derive_resources(info, settings).allocatable().values())
    }
    assert max(empty, default=0) <= 1024


@pytest.mark.parametrize("family", AmiFamily)
def test_within_a_family_the_larger_type_has_at_least_as_much(family: AmiFamily) -> None:
    settings = NodeClassSettings(ami_family=family)
    siblings = defaultdict(list)
    for info in INSTANCE_TYPES:
        siblings[info.family].append(info)
    for members in siblings.values():
        ordered = sorted(members, key=lambda each: (each.vcpus, each.memory_mib, each.name))
        for small, large in pairwise(ordered):
            if small.memory_mib <= large.memory_mib:
                below, above = (
                    derive_resources(each, settings).allocatable() for each in (small, large)
                )
                assert below[CPU] <= above[CPU]
                assert below[MEMORY] <= above[MEMORY], (small.name, large.name)


def test_memory_is_what_floating_point_arithmetic_gives_too() -> None:
    for info in INSTANCE_TYPES:
        deduction = ARM64_RESERVED_MIB if info.architecture == "arm64" else 0
        seen = (info.memory_mib - deduction) * MIB
        overhead = math.ceil(float(seen) * 0.075 / 1024 / 1024)
        assert compute_memory(info, SHARE).amount == seen - overhead * MIB


def test_every_instance_type_has_cpu_memory_addresses_and_an_architecture() -> None:
    traits = AmiFamily.AL2023.traits
    for info in INSTANCE_TYPES:
        assert info.vcpus > 0
        assert info.memory_mib > 0
        assert info.addresses_per_interface > 1
        assert 0 < info.network_interfaces <= info.all_network_interfaces
        (architecture,) = instance_type_labels(info, traits, "us-east-1")[ARCH]
        assert architecture in ("amd64", "arm64") or info.family.startswith("mac")


@pytest.mark.parametrize("region", ["us-east-1", "ap-south-1", "il-central-1"])
def test_every_spot_price_is_below_its_on_demand_price(region: str) -> None:
    for name, zones in regions.load_region(region).offered.items():
        price = on_demand_list_price(name, region)
        if price is None:
            continue
        found = spot_prices(
            instance_type_info.built_in_instance_types()[name],
            region=region,
            zones=[zone.name for zone in zones],
            on_demand=price.usd,
        )
        assert all(0 < each < price.usd for each in found.values())


def test_within_a_family_the_larger_type_never_costs_less() -> None:
    by_family = defaultdict(list)
    for info in INSTANCE_TYPES:
        price = on_demand_list_price(info.name, "us-east-1")
        plain = info.gpu is None and info.accelerator is None and not info.is_bare_metal
        if price is not None and plain:
            by_family[info.family].append((info.vcpus, info.memory_mib, price.usd))
    for members in by_family.values():
        for (_, _, small), (_, _, large) in pairwise(sorted(members)):
            assert small <= large
