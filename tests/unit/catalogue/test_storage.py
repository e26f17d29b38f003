"""Which disk holds the pods, in order of precedence."""

import pytest

from wainwright.catalogue import builtin
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.figure import EPHEMERAL_STORAGE, GIB, Figure, Rule
from wainwright.catalogue.settings import (
    BlockDevice,
    ClassSettings,
    InstanceStorePolicy,
    Kubelet,
    Options,
)
from wainwright.catalogue.shapes import shape
from wainwright.catalogue.storage import ephemeral_storage
from wainwright.catalogue.threshold import threshold

ROOT = BlockDevice(device="/dev/sdx", size=70 * GIB, root=True)
FIRST = BlockDevice(device="/dev/xvda", size=30 * GIB)
SECOND = BlockDevice(device="/dev/xvdb", size=40 * GIB)


def disk(
    *devices: BlockDevice,
    family: AmiFamily = AmiFamily.AL2023,
    policy: InstanceStorePolicy | None = None,
    name: str = "m5d.large",
) -> Figure:
    settings = ClassSettings(ami_family=family, block_devices=devices, instance_store_policy=policy)
    return ephemeral_storage(builtin.machines()[name], settings)


def test_striped_local_disks_go_before_every_volume() -> None:
    assert disk(ROOT, policy=InstanceStorePolicy.RAID0) == Figure(
        75 * 10**9, Rule.LOCAL_DISKS, {"local_storage_gb": 75}
    )


def test_a_machine_without_local_disks_has_nothing_to_stripe() -> None:
    found = disk(ROOT, policy=InstanceStorePolicy.RAID0, name="m5.large")
    assert found.rule is Rule.ROOT_VOLUME


def test_local_disks_count_only_when_the_class_stripes_them() -> None:
    assert disk() == Figure(20 * GIB, Rule.DEFAULT_VOLUME, {"device": "/dev/xvda"})


def test_a_flagged_root_volume_goes_before_the_device_of_the_family() -> None:
    assert disk(FIRST, ROOT) == Figure(70 * GIB, Rule.ROOT_VOLUME, {"device": "/dev/sdx"})


def test_a_root_volume_without_size_leaves_it_to_the_device_of_the_family() -> None:
    unsized = BlockDevice(device="/dev/sdx", root=True)
    assert disk(unsized, FIRST).amount == 30 * GIB


def test_each_family_keeps_pods_on_its_own_device() -> None:
    assert disk(FIRST, SECOND).amount == 30 * GIB
    assert disk(FIRST, SECOND, family=AmiFamily.BOTTLEROCKET).amount == 40 * GIB


def test_a_custom_image_is_taken_to_use_the_last_device() -> None:
    found = disk(FIRST, SECOND, family=AmiFamily.CUSTOM)
    assert found == Figure(40 * GIB, Rule.LAST_VOLUME, {"device": "/dev/xvdb"})


def test_a_custom_image_without_sizes_is_taken_to_have_20_gib() -> None:
    assert disk(family=AmiFamily.CUSTOM) == Figure(20 * GIB, Rule.PLAIN_DEFAULT)
    unsized = BlockDevice(device="/dev/xvda")
    assert disk(FIRST, unsized, family=AmiFamily.CUSTOM).rule is Rule.PLAIN_DEFAULT


@pytest.mark.parametrize(
    ("family", "size"),
    [
        (AmiFamily.AL2, 20),
        (AmiFamily.AL2023, 20),
        (AmiFamily.BOTTLEROCKET, 20),
        (AmiFamily.WINDOWS2019, 50),
        (AmiFamily.WINDOWS2025, 50),
    ],
)
def test_without_devices_the_family_decides(family: AmiFamily, size: int) -> None:
    assert disk(family=family).amount == size * GIB


def test_a_device_without_size_keeps_the_default_of_the_family() -> None:
    assert disk(BlockDevice(device="/dev/xvda")).rule is Rule.DEFAULT_VOLUME


def sized(per_pod: int, nodefs: str = "10%") -> dict[str, int]:
    settings = ClassSettings(
        kubelet=Kubelet(eviction_hard={"nodefs.available": threshold(nodefs)}),
        options=Options(storage_per_pod=per_pod),
    )
    made = shape(builtin.machines()["m5.xlarge"], settings)
    return {
        "capacity": made.capacity[EPHEMERAL_STORAGE].amount,
        "left": made.allocatable()[EPHEMERAL_STORAGE],
    }


@pytest.mark.parametrize("nodefs", ["10%", "100%", "5Gi"])
def test_a_volume_can_grow_until_a_full_node_has_enough_for_each_pod(nodefs: str) -> None:
    found = sized(2 * GIB, nodefs=nodefs)
    assert found["left"] >= 58 * 2 * GIB
    assert found["left"] - GIB < 58 * 2 * GIB
    assert found["capacity"] % GIB == 0


def test_a_volume_that_is_large_enough_does_not_grow() -> None:
    assert sized(100)["capacity"] == 20 * GIB


def test_local_disks_do_not_grow() -> None:
    settings = ClassSettings(
        instance_store_policy=InstanceStorePolicy.RAID0, options=Options(storage_per_pod=100 * GIB)
    )
    made = shape(builtin.machines()["m5d.large"], settings)
    assert made.capacity[EPHEMERAL_STORAGE].rule is Rule.LOCAL_DISKS
