"""The hash of a class: what changes it, what does not, and hashes of other versions."""

from typing import Any

import pytest
from tests.support.awsclasses import node_class

from wainwright.aws.nodeclass.identity import (
    HASH,
    HASH_VERSION,
    annotations,
    class_hash,
    rewritten,
)

PLAIN = node_class(
    tags={"a": "1", "b": "2"},
    blockDeviceMappings=[
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}},
        {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "30Gi"}},
    ],
)


@pytest.mark.parametrize(
    "spec",
    [
        {"role": "other"},
        {"role": None, "instanceProfile": "mine"},
        {"userData": "echo"},
        {"tags": {"a": "1"}},
        {"kubelet": {"maxPods": 20}},
        {"kubelet": {"evictionHard": {"memory.available": "5%"}}},
        {"kubelet": {"clusterDNS": ["10.0.0.10"]}},
        {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "21Gi"}}]},
        {"instanceStorePolicy": "RAID0"},
        {"associatePublicIPAddress": False},
        {"ipPrefixCount": 1},
        {"detailedMonitoring": True},
        {"metadataOptions": {"httpTokens": "optional"}},
        {"metadataOptions": {"httpPutResponseHopLimit": 2}},
        {"connectionTracking": {"udpTimeout": 40}},
        {"cpuOptions": {"nestedVirtualization": "enabled"}},
        {"context": "spot-fleet"},
        {"networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
        ]},
        {"amiFamily": "Custom"},
        {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
    ],
)  # fmt: skip
def test_what_a_node_got_at_its_launch_changes_the_hash(spec: dict[str, Any]) -> None:
    before = node_class(tags={"a": "1", "b": "2"})
    stated: dict[str, Any] = {"tags": {"a": "1", "b": "2"}} | spec
    assert class_hash(node_class(**stated)) != class_hash(before)


@pytest.mark.parametrize(
    "spec",
    [
        {"subnetSelectorTerms": [{"id": "subnet-1"}]},
        {"securityGroupSelectorTerms": [{"id": "sg-1"}]},
        {"amiSelectorTerms": [{"alias": "al2023@v20251218"}]},
        {"amiFamily": "AL2023"},
        {"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-1"}]},
        {"capacityReservationSelectorTerms": [{"id": "cr-1"}]},
        {"placementGroupSelector": {"name": "rack"}},
        {"metadataOptions": {"httpTokens": "required"}},
    ],
)
def test_what_selects_and_what_is_the_default_does_not(spec: dict[str, Any]) -> None:
    assert class_hash(node_class(**spec)) == class_hash(node_class())


def test_neither_does_the_order_nor_the_name_of_the_class() -> None:
    turned = node_class(
        "other",
        generation=9,
        tags={"b": "2", "a": "1"},
        blockDeviceMappings=[
            {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "30Gi"}},
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}},
        ],
    )
    assert class_hash(turned) == class_hash(PLAIN)


def test_the_ca_of_the_cluster_is_part_of_it() -> None:
    assert class_hash(PLAIN, "one") != class_hash(PLAIN, "two")


def test_it_is_the_same_on_every_machine_and_in_every_release() -> None:
    """A change here replaces every node of everybody: then the version must change as well."""
    assert annotations(PLAIN, "ca") == {HASH: "32501f715dc15991", HASH_VERSION: "wain-1"}


def test_claims_of_another_version_are_given_the_new_hash() -> None:
    current = annotations(PLAIN)
    assert rewritten({HASH: "1234", HASH_VERSION: "v6"}, current) == current
    assert rewritten({}, current) == current
    assert rewritten({HASH: "1234", HASH_VERSION: "wain-1"}, current) == {}
