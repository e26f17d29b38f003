"""How many EBS volumes of pods nodes can attach, by instance type and class."""

import pytest

from wainwright.catalogue.instancetypes.attach_limits import attachable_volumes
from wainwright.catalogue.instancetypes.instance_type_info import built_in_instance_types
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    BlockDeviceSettings,
    NetworkInterfaceSettings,
    NodeClassSettings,
)

AL2023 = NodeClassSettings()


def volumes(name: str, settings: NodeClassSettings = AL2023) -> int:
    return attachable_volumes(built_in_instance_types()[name], settings).amount


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m5.large", 25),  # 28 attachments: two interfaces, the root volume
        ("m5d.large", 24),  # one local disk
        ("m5d.24xlarge", 21),  # four local disks
        ("g5.48xlarge", 7),  # GPUs and disks take most of them
        ("d3en.12xlarge", 1),
        ("m7i.large", 31),  # a limit for volumes alone
        ("m7i.16xlarge", 47),
        ("m7i.24xlarge", 63),
        ("m7i.48xlarge", 127),
        ("m7i.metal-24xl", 38),
        ("m8gd.2xlarge", 31),  # local disks do not count there
        ("c4.large", 38),  # Xen
        ("m4.xlarge", 38),
    ],
)
def test_what_the_type_attaches_less_what_the_node_itself_has(name: str, expected: int) -> None:
    assert volumes(name) == expected


def test_a_second_interface_counts_only_where_the_type_has_one() -> None:
    assert built_in_instance_types()["t3.nano"].all_network_interfaces == 2
    assert volumes("t3.nano") == 25
    single = [
        each for each in built_in_instance_types().values() if each.all_network_interfaces == 1
    ]
    for info in single:
        if info.hypervisor == "nitro" and not info.dedicated_ebs_attachments:
            assert attachable_volumes(info, AL2023).amount == info.ebs_attachments - 1


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        (NodeClassSettings(ami_family=AmiFamily.BOTTLEROCKET), 2),
        (NodeClassSettings(ami_family=AmiFamily.WINDOWS2022), 1),
        (NodeClassSettings(ami_family=AmiFamily.CUSTOM), 1),
        (NodeClassSettings(block_devices=(BlockDeviceSettings(device="/dev/xvda"),)), 1),
        (NodeClassSettings(block_devices=(BlockDeviceSettings(device="/dev/xvdb"),)), 2),
        (NodeClassSettings(block_devices=(BlockDeviceSettings(device="/dev/sdb", root=True),)), 1),
        (
            NodeClassSettings(
                ami_family=AmiFamily.CUSTOM,
                block_devices=(
                    BlockDeviceSettings(device="/dev/sda1"),
                    BlockDeviceSettings(device="/dev/sdb"),
                ),
            ),
            2,
        ),
    ],
)
def test_disks_of_class_and_image_are_not_for_pods(settings: NodeClassSettings, own: int) -> None:
    assert volumes("m7i.large", settings) == 32 - own
    assert volumes("m5.large", settings) == 26 - own


def test_interfaces_that_the_class_attaches_count() -> None:
    interfaces = tuple(NetworkInterfaceSettings(card=0) for _ in range(4))
    settings = NodeClassSettings(network_interfaces=interfaces)
    assert volumes("m5.24xlarge", settings) == volumes("m5.24xlarge") - 2
    assert volumes("m7i.24xlarge", settings) == volumes("m7i.24xlarge")


def test_it_is_explained() -> None:
    shared = attachable_volumes(built_in_instance_types()["m5.large"], AL2023)
    assert shared.explain() == (
        "27 attachments of the type, less 1 for further network interfaces and 1 for volumes of "
        "the node itself"
    )
    dedicated = attachable_volumes(built_in_instance_types()["m7i.large"], AL2023)
    assert dedicated.explain() == (
        "32 EBS volumes of the type, less 1 of the node itself; network interfaces do not count"
    )


def test_every_type_attaches_some() -> None:
    for info in built_in_instance_types().values():
        assert attachable_volumes(info, AL2023).amount >= 1
