"""Labels beyond the sample: Windows, accelerators, types that lack something."""

import pytest

from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily
from wainwright.catalogue.instancetypes.type_labels import LabelValues, instance_type_labels
from wainwright.model import labels


def made(name: str, family: AmiFamily = AmiFamily.AL2023) -> LabelValues:
    return instance_type_labels(
        instance_type_info.built_in_instance_types()[name], family.traits, "us-east-1"
    )


def test_windows_classes_name_system_and_build() -> None:
    windows = made("m5.large", AmiFamily.WINDOWS2019)
    assert windows[labels.OS] == ("windows",)
    assert windows[labels.WINDOWS_BUILD] == ("10.0.17763",)


@pytest.mark.parametrize(
    ("family", "build"),
    [(AmiFamily.WINDOWS2022, "10.0.20348"), (AmiFamily.WINDOWS2025, "10.0.26100")],
)
def test_each_windows_has_its_own_build(family: AmiFamily, build: str) -> None:
    assert made("m5.large", family)[labels.WINDOWS_BUILD] == (build,)


def test_arm_machines_have_no_operating_system_under_windows() -> None:
    assert labels.OS not in made("m6g.large", AmiFamily.WINDOWS2022)


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.BOTTLEROCKET, AmiFamily.CUSTOM])
def test_the_other_families_are_linux_without_a_build(family: AmiFamily) -> None:
    linux = made("m5.large", family)
    assert linux[labels.OS] == ("linux",)
    assert labels.WINDOWS_BUILD not in linux


def test_neuron_devices_are_accelerators_made_by_aws() -> None:
    trainium = made("trn2.48xlarge")
    assert trainium[labels.INSTANCE_ACCELERATOR_NAME] == ("trainium2",)
    assert trainium[labels.INSTANCE_ACCELERATOR_MANUFACTURER] == ("aws",)
    assert trainium[labels.INSTANCE_ACCELERATOR_COUNT] == ("16",)


def test_other_accelerators_keep_their_maker() -> None:
    cards = made("dl2q.24xlarge")
    assert cards[labels.INSTANCE_ACCELERATOR_NAME] == ("qualcomm-ai100",)
    assert cards[labels.INSTANCE_ACCELERATOR_MANUFACTURER] == ("qualcomm",)


def test_disks_that_are_not_nvme_give_no_label() -> None:
    assert instance_type_info.built_in_instance_types()["m1.small"].local_storage_gb > 0
    assert labels.INSTANCE_LOCAL_NVME not in made("m1.small")


def test_flex_families_are_marked() -> None:
    assert made("c7i-flex.large")[labels.INSTANCE_CAPABILITY_FLEX] == ("true",)
    assert made("c7i.large")[labels.INSTANCE_CAPABILITY_FLEX] == ("false",)


def test_bandwidth_that_ec2_only_has_words_for_gives_no_label() -> None:
    assert labels.INSTANCE_NETWORK_BANDWIDTH not in made("m4.large")
    assert labels.INSTANCE_EBS_BANDWIDTH not in made("t2.micro")


def test_a_machine_with_several_cards_has_the_bandwidth_stated_for_the_whole() -> None:
    assert made("c6in.32xlarge")[labels.INSTANCE_NETWORK_BANDWIDTH] == ("200000",)
    assert made("p4d.24xlarge")[labels.INSTANCE_NETWORK_BANDWIDTH] == ("400000",)


def test_a_macintosh_has_an_architecture_that_no_image_is_for() -> None:
    assert made("mac2.metal")[labels.ARCH] == ("[arm64_mac]",)


def test_every_type_may_be_on_shared_or_dedicated_hardware() -> None:
    assert made("t3.nano")[labels.INSTANCE_TENANCY] == ("dedicated", "default")
