"""Labels beyond the reference sample: Windows, accelerators, types without some labels."""

import pytest

from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily
from wainwright.catalogue.instancetypes.type_labels import LabelValues, instance_type_labels
from wainwright.model import labels


def labels_of(name: str, family: AmiFamily = AmiFamily.AL2023) -> LabelValues:
    return instance_type_labels(
        instance_type_info.built_in_instance_types()[name], family.traits, "us-east-1"
    )


def test_windows_classes_have_labels_for_os_and_build() -> None:
    windows = labels_of("m5.large", AmiFamily.WINDOWS2019)
    assert windows[labels.OS] == ("windows",)
    assert windows[labels.WINDOWS_BUILD] == ("10.0.17763",)


@pytest.mark.parametrize(
    ("family", "build"),
    [(AmiFamily.WINDOWS2022, "10.0.20348"), (AmiFamily.WINDOWS2025, "10.0.26100")],
)
def test_each_windows_family_has_its_own_build(family: AmiFamily, build: str) -> None:
    assert labels_of("m5.large", family)[labels.WINDOWS_BUILD] == (build,)


def test_arm_types_have_no_os_label_in_windows_classes() -> None:
    assert labels.OS not in labels_of("m6g.large", AmiFamily.WINDOWS2022)


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.BOTTLEROCKET, AmiFamily.CUSTOM])
def test_the_other_families_are_linux_without_a_build(family: AmiFamily) -> None:
    linux = labels_of("m5.large", family)
    assert linux[labels.OS] == ("linux",)
    assert labels.WINDOWS_BUILD not in linux


def test_neuron_devices_are_accelerators_made_by_aws() -> None:
    trainium = labels_of("trn2.48xlarge")
    assert trainium[labels.INSTANCE_ACCELERATOR_NAME] == ("trainium2",)
    assert trainium[labels.INSTANCE_ACCELERATOR_MANUFACTURER] == ("aws",)
    assert trainium[labels.INSTANCE_ACCELERATOR_COUNT] == ("16",)


def test_other_accelerators_have_their_manufacturer() -> None:
    cards = labels_of("dl2q.24xlarge")
    assert cards[labels.INSTANCE_ACCELERATOR_NAME] == ("qualcomm-ai100",)
    assert cards[labels.INSTANCE_ACCELERATOR_MANUFACTURER] == ("qualcomm",)


def test_local_disks_without_nvme_have_no_label() -> None:
    assert instance_type_info.built_in_instance_types()["m1.small"].local_storage_gb > 0
    assert labels.INSTANCE_LOCAL_NVME not in labels_of("m1.small")


def test_flex_families_have_a_label() -> None:
    assert labels_of("c7i-flex.large")[labels.INSTANCE_CAPABILITY_FLEX] == ("true",)
    assert labels_of("c7i.large")[labels.INSTANCE_CAPABILITY_FLEX] == ("false",)


def test_bandwidth_that_ec2_only_describes_has_no_label() -> None:
    assert labels.INSTANCE_NETWORK_BANDWIDTH not in labels_of("m4.large")
    assert labels.INSTANCE_EBS_BANDWIDTH not in labels_of("t2.micro")


def test_the_bandwidth_of_several_network_cards_is_that_of_the_whole_type() -> None:
    assert labels_of("c6in.32xlarge")[labels.INSTANCE_NETWORK_BANDWIDTH] == ("200000",)
    assert labels_of("p4d.24xlarge")[labels.INSTANCE_NETWORK_BANDWIDTH] == ("400000",)


def test_a_mac_has_an_architecture_that_no_image_supports() -> None:
    assert labels_of("mac2.metal")[labels.ARCH] == ("[arm64_mac]",)


def test_every_type_has_both_tenancies() -> None:
    assert labels_of("t3.nano")[labels.INSTANCE_TENANCY] == ("dedicated", "default")
