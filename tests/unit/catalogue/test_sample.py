"""57 types × 7 classes, held against what the reference provider computes, to the byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from wainwright.api.quantity import parse
from wainwright.catalogue import builtin, labels, regions
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.figure import CPU, GIB, amounts
from wainwright.catalogue.settings import BlockDevice, ClassSettings, InstanceStorePolicy, Kubelet
from wainwright.catalogue.shapes import shape
from wainwright.catalogue.threshold import threshold

SAMPLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "instance_types.json").read_bytes()
)
TYPES: dict[str, Any] = SAMPLE["types"]

CLASSES = {
    "al2023": ClassSettings(),
    "bottlerocket": ClassSettings(ami_family=AmiFamily.BOTTLEROCKET),
    "windows2022": ClassSettings(ami_family=AmiFamily.WINDOWS2022),
    "maxpods30": ClassSettings(kubelet=Kubelet(max_pods=30)),
    "podspercore4": ClassSettings(kubelet=Kubelet(pods_per_core=4)),
    "reserved": ClassSettings(
        kubelet=Kubelet(
            kube_reserved={
                "cpu": parse("300m"),
                "memory": parse("1Gi"),
                "ephemeral-storage": parse("1Gi"),
            },
            system_reserved={"cpu": parse("100m"), "memory": parse("512Mi")},
            eviction_hard={
                "memory.available": threshold("5%"),
                "nodefs.available": threshold("15%"),
            },
        )
    ),
    "raid0volume": ClassSettings(
        instance_store_policy=InstanceStorePolicy.RAID0,
        block_devices=(BlockDevice(device="/dev/xvda", size=100 * GIB, root=True),),
    ),
}


def expected(name: str, node_class: str, what: str) -> dict[str, int]:
    """What the sample has; a class states only what sets it apart."""
    row = TYPES[name]
    quantities = row[what] | row.get(node_class, {}).get(what, {})
    return {key: amount(key, text) for key, text in quantities.items() if text is not None}


def amount(resource: str, text: str) -> int:
    return parse(text).milli if resource == CPU else parse(text).units


def without_zeros(resources: dict[str, int]) -> dict[str, int]:
    return {name: value for name, value in resources.items() if value}


@pytest.mark.parametrize("node_class", CLASSES)
@pytest.mark.parametrize("name", TYPES)
def test_capacity_and_allocatable_agree_to_the_byte(name: str, node_class: str) -> None:
    made = shape(builtin.machines()[name], CLASSES[node_class])
    assert without_zeros(amounts(made.capacity)) == expected(name, node_class, "capacity")
    assert without_zeros(made.allocatable()) == expected(name, node_class, "allocatable")


@pytest.mark.parametrize("name", TYPES)
def test_labels_agree_to_the_byte(name: str) -> None:
    machine = builtin.machines()[name]
    zone = regions.region("us-east-1").zones[0]
    made = labels.machine_labels(machine, AmiFamily.AL2023.traits, "us-east-1")
    made |= {labels.ZONE: (zone.name,), labels.ZONE_ID: (zone.id,)}
    made |= {labels.CAPACITY_TYPE: machine.capacity_types}
    assert made == sample_labels(name)


def sample_labels(name: str) -> dict[str, tuple[str, ...]]:
    stated = SAMPLE["labels"] | TYPES[name]["labels"] | {labels.INSTANCE_TYPE: name}
    return {
        key if "/" in key else f"karpenter.k8s.aws/{key}": tuple(text.split(","))
        for key, text in stated.items()
    }


def test_the_sample_is_whole() -> None:
    assert len(TYPES) == 57
    assert {key for row in TYPES.values() for key in row} == {
        "labels",
        "capacity",
        "allocatable",
        # Bottlerocket differs from AL2023 only with settings that no class here has.
        *(CLASSES.keys() - {"al2023", "bottlerocket"}),
    }
