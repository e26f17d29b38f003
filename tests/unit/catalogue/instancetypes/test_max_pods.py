"""The maximum number of pods of a node, by node class and InstanceType object."""

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


def max_pods_of(
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
def test_each_pod_uses_one_secondary_address(name: str, amount: int) -> None:
    assert max_pods_of(name).amount == amount
    assert max_pods_of(name).rule is DerivationRule.ENI_DENSITY


def test_only_interfaces_of_the_default_network_card_count() -> None:
    info = instance_type_info.built_in_instance_types()["m6idn.32xlarge"]
    assert info.all_network_interfaces > info.network_interfaces


def test_reserved_interfaces_have_no_addresses_for_pods() -> None:
    assert (
        max_pods_of("t3.large", NodeClassSettings(options=CatalogOptions(reserved_enis=1))).amount
        == 24
    )


def test_max_pods_is_zero_when_every_interface_is_reserved() -> None:
    no_pods = max_pods_of("t3.large", NodeClassSettings(options=CatalogOptions(reserved_enis=9)))
    assert no_pods == DerivedAmount(
        0, DerivationRule.NO_INTERFACES, {"of": 3, "reserved": 9, "efa_only": 0}
    )


def test_efa_only_interfaces_of_the_default_card_have_no_addresses_for_pods() -> None:
    attached = (
        NetworkInterfaceSettings(card=0),
        NetworkInterfaceSettings(card=0, efa_only=True),
        NetworkInterfaceSettings(card=1, efa_only=True),
    )
    plain = max_pods_of("c6in.32xlarge").amount
    assert (
        max_pods_of("c6in.32xlarge", NodeClassSettings(network_interfaces=attached)).amount
        == plain - 49
    )


def test_windows_has_110_pods_independent_of_interfaces() -> None:
    assert max_pods_of("t3.nano", WINDOWS) == DerivedAmount(110, DerivationRule.NO_ENI_DENSITY)


def test_max_pods_of_the_class_overrides_the_interfaces() -> None:
    assert max_pods_of("t3.nano", kubelet(max_pods=30)) == DerivedAmount(
        30, DerivationRule.MAX_PODS
    )


@pytest.mark.parametrize(("max_pods", "amount"), [(30, 10), (5, 5)])
def test_the_smaller_of_class_and_instance_type_object_counts(max_pods: int, amount: int) -> None:
    override = ResourceOverride(resources={"pods": 10})
    assert max_pods_of("m5.xlarge", kubelet(max_pods=max_pods), override).amount == amount


def test_an_instance_type_object_may_allow_more_than_the_interfaces() -> None:
    override = ResourceOverride(resources={"pods": 200})
    assert max_pods_of("m5.xlarge", NodeClassSettings(), override) == DerivedAmount(
        200, DerivationRule.DECLARED_PODS
    )


def test_pods_per_core_limits_the_other_rules() -> None:
    assert max_pods_of("m5.xlarge", kubelet(per_core=4)).amount == 16
    assert max_pods_of("m5.xlarge", kubelet(per_core=4, max_pods=12)).amount == 12
    assert (
        max_pods_of(
            "m5.xlarge", kubelet(per_core=4), ResourceOverride(resources={"pods": 99})
        ).amount
        == 16
    )


def test_pods_per_core_has_the_other_limit_among_its_inputs() -> None:
    assert max_pods_of("m5.xlarge", kubelet(per_core=4)) == DerivedAmount(
        16, DerivationRule.PODS_PER_CORE, {"pods_per_core": 4, "vcpus": 4, "otherwise": 58}
    )


def test_pods_per_core_of_zero_is_ignored() -> None:
    assert max_pods_of("m5.xlarge", kubelet(per_core=0)).amount == 58


def test_bottlerocket_ignores_pods_per_core() -> None:
    settings = NodeClassSettings(
        ami_family=AmiFamily.BOTTLEROCKET, kubelet=KubeletSettings(pods_per_core=1)
    )
    assert max_pods_of("m5.xlarge", settings).amount == 58


def test_windows_honours_pods_per_core() -> None:
    settings = NodeClassSettings(
        ami_family=AmiFamily.WINDOWS2022, kubelet=KubeletSettings(pods_per_core=1)
    )
    assert max_pods_of("m5.xlarge", settings).amount == 4


@pytest.mark.parametrize(
    ("name", "amount"), [("t3.nano", 34), ("m5.large", 110), ("m5.24xlarge", 250)]
)
def test_prefix_delegation_gives_sixteen_times_the_pods_up_to_the_recommended_maximum(
    name: str, amount: int
) -> None:
    settings = NodeClassSettings(options=CatalogOptions(prefix_delegation=True))
    assert max_pods_of(name, settings).amount == amount


def test_types_on_xen_have_no_prefix_delegation() -> None:
    settings = NodeClassSettings(options=CatalogOptions(prefix_delegation=True))
    assert max_pods_of("m4.large", settings).amount == max_pods_of("m4.large").amount


def memory_pods(settings: NodeClassSettings, override: ResourceOverride = NO_OVERRIDE) -> int:
    info = instance_type_info.built_in_instance_types()["t3.large"]
    in_force = compute_max_pods(info, settings, override)
    return pods_for_reserved_memory(info, settings, override, in_force).amount


def test_reserved_memory_is_for_the_eni_limit_where_the_image_computes_it() -> None:
    assert memory_pods(kubelet(max_pods=8)) == 35
    assert memory_pods(NodeClassSettings(options=CatalogOptions(reserved_enis=1))) == 35
    assert memory_pods(NodeClassSettings(options=CatalogOptions(prefix_delegation=True))) == 35


def test_reserved_memory_is_for_max_pods_on_bottlerocket_and_windows() -> None:
    rocket = NodeClassSettings(
        ami_family=AmiFamily.BOTTLEROCKET, options=CatalogOptions(reserved_enis=1)
    )
    assert memory_pods(rocket) == 24
    assert memory_pods(WINDOWS) == 110


def test_reserved_memory_is_for_the_pods_of_an_instance_type_object() -> None:
    override = ResourceOverride(resources={"pods": 10})
    assert memory_pods(kubelet(max_pods=8), override) == 10
    rocket = NodeClassSettings(
        ami_family=AmiFamily.BOTTLEROCKET, kubelet=KubeletSettings(max_pods=8)
    )
    assert memory_pods(rocket, override) == 8
