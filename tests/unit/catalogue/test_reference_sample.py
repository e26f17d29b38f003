"""57 types × 7 classes, compared with the results of the reference provider, to the byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from wainwright.api.quantity import parse_quantity
from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info, type_labels
from wainwright.catalogue.instancetypes.capacity import derive_resources
from wainwright.catalogue.instancetypes.derived_amount import GIB, plain_amounts
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    BlockDeviceSettings,
    InstanceStorePolicy,
    KubeletSettings,
    NodeClassSettings,
    parse_eviction_threshold,
)
from wainwright.model import labels
from wainwright.model.resources import CPU

SAMPLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "instance_types.json").read_bytes()
)
TYPES: dict[str, Any] = SAMPLE["types"]

CLASSES = {
    "al2023": NodeClassSettings(),
    "bottlerocket": NodeClassSettings(ami_family=AmiFamily.BOTTLEROCKET),
    "windows2022": NodeClassSettings(ami_family=AmiFamily.WINDOWS2022),
    "maxpods30": NodeClassSettings(kubelet=KubeletSettings(max_pods=30)),
    "podspercore4": NodeClassSettings(kubelet=KubeletSettings(pods_per_core=4)),
    "reserved": NodeClassSettings(
        kubelet=KubeletSettings(
            kube_reserved={
                "cpu": parse_quantity("300m"),
                "memory": parse_quantity("1Gi"),
                "ephemeral-storage": parse_quantity("1Gi"),
            },
            system_reserved={"cpu": parse_quantity("100m"), "memory": parse_quantity("512Mi")},
            eviction_hard={
                "memory.available": parse_eviction_threshold("5%"),
                "nodefs.available": parse_eviction_threshold("15%"),
            },
        )
    ),
    "raid0volume": NodeClassSettings(
        instance_store_policy=InstanceStorePolicy.RAID0,
        block_devices=(BlockDeviceSettings(device="/dev/xvda", size=100 * GIB, root=True),),
    ),
}


def expected(name: str, node_class: str, what: str) -> dict[str, int]:
    """What the sample has; a class states only what sets it apart."""
    row = TYPES[name]
    quantities = row[what] | row.get(node_class, {}).get(what, {})
    return {key: amount(key, text) for key, text in quantities.items() if text is not None}


def amount(resource: str, text: str) -> int:
    return parse_quantity(text).milli if resource == CPU else parse_quantity(text).units


def without_zeros(resources: dict[str, int]) -> dict[str, int]:
    return {name: value for name, value in resources.items() if value}


@pytest.mark.parametrize("node_class", CLASSES)
@pytest.mark.parametrize("name", TYPES)
def test_capacity_and_allocatable_are_equal_to_the_byte(name: str, node_class: str) -> None:
    made = derive_resources(instance_type_info.built_in_instance_types()[name], CLASSES[node_class])
    assert without_zeros(plain_amounts(made.capacity)) == expected(name, node_class, "capacity")
    assert without_zeros(made.allocatable()) == expected(name, node_class, "allocatable")


@pytest.mark.parametrize("name", TYPES)
def test_labels_are_equal_to_the_byte(name: str) -> None:
    info = instance_type_info.built_in_instance_types()[name]
    zone = regions.load_region("us-east-1").zones[0]
    made = type_labels.instance_type_labels(info, AmiFamily.AL2023.traits, "us-east-1")
    made |= {labels.ZONE: (zone.name,), labels.ZONE_ID: (zone.id,)}
    made |= {labels.CAPACITY_TYPE: info.capacity_types}
    assert made == sample_labels(name)


def sample_labels(name: str) -> dict[str, tuple[str, ...]]:
    labels_of_type = SAMPLE["labels"] | TYPES[name]["labels"] | {labels.INSTANCE_TYPE: name}
    return {
        key if "/" in key else f"karpenter.k8s.aws/{key}": tuple(text.split(","))
        for key, text in labels_of_type.items()
    }


def test_the_sample_is_complete() -> None:
    assert len(TYPES) == 57
    assert {key for row in TYPES.values() for key in row} == {
        "labels",
        "capacity",
        "allocatable",
        # Bottlerocket differs from AL2023 only with settings that no class here has.
        *(CLASSES.keys() - {"al2023", "bottlerocket"}),
    }
