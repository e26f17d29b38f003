"""How many pods a machine takes, by class and InstanceType object."""

import pytest

from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.max_pods import compute_max_pods, pods_for_reserved_memory
from wainwright.catalogue.instancetypes.node_class_settings import (
    NO_OVERRIDE,
    AmiFamily,
    CatalogOptions,
    KubeletSettings,
    NetworkInterfaceSettings,
    NodeClassSettings,
    ResourceOverride,
)

WINDOWS = NodeClassSettings(ami_family=AmiFamily.WINDOWS2022)


def density(
    name: str, settings: NodeClassSettings | None = None, override: ResourceOverride = NO_OVERRIDE
) -> DerivedAmount:
    return compute_max_pods(
        instance_type_info.built_in_instance_types()[name],
        settings or NodeClassSettings(),
        override,
    )


def kubelet(*, max_pods: int | None = None, per_core: int | None = None) -> NodeClassSettings:
    return NodeClassSettings(kubelet=KubeletSettings(max_pods=max_pods, pods_per_core=per_core))


@pytest.mark.parametrize(
    ("name", "amount"), [("m5.xlarge", 58), ("t3.large", 35), ("m6idn.32xlarge", 394)]
)
def test_pods_have_one_secondary_address_each(name: str, amount: int) -> None:
    assert density(name).amount == amount
    assert density(name).rule is DerivationRule.ENI_DENSITY


def test_only_the_default_network_card_gives_addresses() -> None:
    machine = instance_type_info.built_in_instance_types()["m6idn.32xlarge"]
    assert machine.all_network_interfaces > machine.network_interfaces


def test_reserved_interfaces_give_no_addresses() -> None:
    assert (
        density("t3.large", NodeClassSettings(options=CatalogOptions(reserved_enis=1))).amount == 24
    )


def test_no_pod_has_a_place_when_every_interface_is_reserved() -> None:
    none_left = density("t3.large", NodeClassSettings(options=CatalogOptions(reserved_enis=9)))
    assert none_left == DerivedAmount(
        0, DerivationRule.NO_INTERFACES, {"of": 3, "reserved": 9, "efa_only": 0}
    )


def test_efa_only_interfaces_of_the_first_card_give_no_addresses() -> None:
    attached = (
        NetworkInterfaceSettings(card=0),
        NetworkInterfaceSettings(card=0, efa_only=True),
        NetworkInterfaceSettings(card=1, efa_only=True),
    )
    plain = density("c6in.32xlarge").amount
    assert (
        density("c6in.32xlarge", NodeClassSettings(network_interfaces=attached)).amount
        == plain - 49
    )


def test_windows_takes_110_whatever_the_interfaces() -> None:
    assert density("t3.nano", WINDOWS) == DerivedAmount(110, DerivationRule.NO_ENI_DENSITY)


def test_max_pods_of_the_class_goes_before_the_interfaces() -> None:
    assert density("t3.nano", kubelet(max_pods=30)) == DerivedAmount(30, DerivationRule.MAX_PODS)


@pytest.mark.parametrize(("max_pods", "amount"), [(30, 10), (5, 5)])
def test_the_smaller_of_class_and_instance_type_object_counts(max_pods: int, amount: int) -> None:
    override = ResourceOverride(resources={"pods": 10})
    assert density("m5.xlarge", kubelet(max_pods=max_pods), override).amount == amount


def test_an_instance_type_object_may_allow_more_than_the_interfaces() -> None:
    override = ResourceOverride(resources={"pods": 200})
    assert density("m5.xlarge", NodeClassSettings(), override) == DerivedAmount(
        200, DerivationRule.DECLARED_PODS
    )


def test_pods_per_core_caps_whatever_was_found() -> None:
    assert density("m5.xlarge", kubelet(per_core=4)).amount == 16
    assert density("m5.xlarge", kubelet(per_core=4, max_pods=12)).amount == 12
    assert (
        density("m5.xlarge", kubelet(per_core=4), ResourceOverride(resources={"pods": 99})).amount
        == 16
    )


def test_pods_per_core_says_what_it_cut() -> None:
    assert density("m5.xlarge", kubelet(per_core=4)) == DerivedAmount(
        16, DerivationRule.PODS_PER_CORE, {"pods_per_core": 4, "vcpus": 4, "otherwise": 58}
    )


def test_pods_per_core_of_zero_is_ignored() -> None:
    assert density("m5.xlarge", kubelet(per_core=0)).amount == 58


def test_bottlerocket_ignores_pods_per_core() -> None:
    settings = NodeClassSettings(
        ami_family=AmiFamily.BOTTLEROCKET, kubelet=KubeletSettings(pods_per_core=1)
    )
    assert density("m5.xlarge", settings).amount == 58


def test_windows_honours_pods_per_core() -> None:
    settings = NodeClassSettings(
        ami_family=AmiFamily.WINDOWS2022, kubelet=KubeletSettings(pods_per_core=1)
    )
    assert density("m5.xlarge", settings).amount == 4


@pytest.mark.parametrize(
    ("name", "amount"), [("t3.nano", 34), ("m5.large", 110), ("m5.24xlarge", 250)]
)
def test_prefixes_give_sixteen_times_the_pods_up_to_what_is_advised(name: str, amount: int) -> None:
    settings = NodeClassSettings(options=CatalogOptions(prefix_delegation=True))
    assert density(name, settings).amount == amount


def test_machines_on_xen_have_no_prefixes() -> None:
    settings = NodeClassSettings(options=CatalogOptions(prefix_delegation=True))
    assert density("m4.large", settings).amount == density("m4.large").amount


def counted(settings: NodeClassSettings, override: ResourceOverride = NO_OVERRIDE) -> int:
    machine = instance_type_info.built_in_instance_types()["t3.large"]
    in_force = compute_max_pods(machine, settings, override)
    return pods_for_reserved_memory(machine, settings, override, in_force).amount


def test_reserved_memory_counts_the_interfaces_where_the_image_reckons_itself() -> None:
    assert counted(kubelet(max_pods=8)) == 35
    assert counted(NodeClassSettings(options=CatalogOptions(reserved_enis=1))) == 35
    assert counted(NodeClassSettings(options=CatalogOptions(prefix_delegation=True))) == 35


def test_reserved_memory_counts_the_pods_in_force_on_bottlerocket_and_windows() -> None:
    rocket = NodeClassSettings(
        ami_family=AmiFamily.BOTTLEROCKET, options=CatalogOptions(reserved_enis=1)
    )
    assert counted(rocket) == 24
    assert counted(WINDOWS) == 110


def test_reserved_memory_counts_the_pods_of_an_instance_type_object() -> None:
    override = ResourceOverride(resources={"pods": 10})
    assert counted(kubelet(max_pods=8), override) == 10
    rocket = NodeClassSettings(
        ami_family=AmiFamily.BOTTLEROCKET, kubelet=KubeletSettings(max_pods=8)
    )
    assert counted(rocket, override) == 8
