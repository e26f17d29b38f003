"""Drift: the hash of a class, every reason, their order, and differences that are not drift."""

from typing import Any

import msgspec
import pytest
from tests.support.aws_account import discovered_node_class, run_in_virtual_time
from tests.support.aws_provider import running_instance

from wainwright.api.catalog_documents import CloudReservation
from wainwright.aws.drift import (
    CURRENT_HASH_VERSION,
    NODE_CLASS_HASH,
    NODE_CLASS_HASH_VERSION,
    CurrentNodeClass,
    DriftReason,
    DriftUnknown,
    LaunchedClaim,
    detect_current_drift,
    detect_drift,
    hash_annotations,
    migrated_hash_annotations,
    node_class_hash,
)
from wainwright.aws.instances import Ec2Instance
from wainwright.aws.nodeclass.status import (
    ResolvedImage,
    ResolvedNodeClass,
    ResolvedPlacementGroup,
    ResolvedSecurityGroup,
    ResolvedSubnet,
)
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    SelectedReservation,
)
from wainwright.clock import VirtualClock
from wainwright.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_GPU_COUNT
from wainwright.model.requirements import Requirements

PLAIN = discovered_node_class(
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
def test_static_fields_change_the_hash(spec: dict[str, Any]) -> None:
    before = discovered_node_class(tags={"a": "1", "b": "2"})
    stated: dict[str, Any] = {"tags": {"a": "1", "b": "2"}} | spec
    assert node_class_hash(discovered_node_class(**stated)) != node_class_hash(before)


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
def test_selectors_and_defaults_do_not_change_the_hash(spec: dict[str, Any]) -> None:
    assert node_class_hash(discovered_node_class(**spec)) == node_class_hash(
        discovered_node_class()
    )


def test_order_and_class_name_do_not_change_the_hash() -> None:
    turned = discovered_node_class(
        "other",
        generation=9,
        tags={"b": "2", "a": "1"},
        blockDeviceMappings=[
            {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "30Gi"}},
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}},
        ],
    )
    assert node_class_hash(turned) == node_class_hash(PLAIN)


def test_the_cluster_ca_changes_the_hash() -> None:
    assert node_class_hash(PLAIN, "one") != node_class_hash(PLAIN, "two")


def test_the_hash_is_stable_across_processes_and_releases() -> None:
    """A change here would replace every node: then the hash version must change as well."""
    assert hash_annotations(PLAIN, "ca") == {
        NODE_CLASS_HASH: "32501f715dc15991",
        NODE_CLASS_HASH_VERSION: "wain-1",
    }


def test_claims_of_another_hash_version_get_the_new_hash() -> None:
    current = hash_annotations(PLAIN)
    assert (
        migrated_hash_annotations({NODE_CLASS_HASH: "1234", NODE_CLASS_HASH_VERSION: "v6"}, current)
        == current
    )
    assert migrated_hash_annotations({}, current) == current
    assert (
        migrated_hash_annotations(
            {NODE_CLASS_HASH: "1234", NODE_CLASS_HASH_VERSION: "wain-1"}, current
        )
        == {}
    )


AMD64 = Requirements.from_labels({ARCH: "amd64"})
ARM64 = Requirements.from_labels({ARCH: "arm64"})
GPU = Requirements.from_labels({ARCH: "amd64", INSTANCE_GPU_COUNT: "1"})
WITHOUT_GPU = Requirements.from_entries(
    [(ARCH, "In", ("amd64",), None), (INSTANCE_GPU_COUNT, "DoesNotExist", (), None)]
)
WITH_GPU = Requirements.from_entries(
    [(ARCH, "In", ("amd64",), None), (INSTANCE_GPU_COUNT, "Exists", (), None)]
)


def selected(
    identity: str, standing: ReservationStanding = ReservationStanding.OFFERED
) -> SelectedReservation:
    reservation = CloudReservation(
        id=identity, instanceType="m5.large", availabilityZone="us-east-1a", total=1
    )
    return SelectedReservation(reservation=reservation, standing=standing)


RESOLVED = ResolvedNodeClass(
    name="default",
    uid="uid",
    subnets=(
        ResolvedSubnet(id="subnet-1", zone="us-east-1a", zone_id="use1-az1", free_addresses=10),
    ),
    security_groups=(ResolvedSecurityGroup(id="sg-1", name="nodes"),),
    images=(
        ResolvedImage(id="ami-1", name="new", requirements=WITHOUT_GPU),
        ResolvedImage(id="ami-gpu", name="gpu", requirements=WITH_GPU),
        ResolvedImage(id="ami-arm", name="arm", requirements=ARM64),
    ),
    reservations=(selected("cr-1"), selected("cr-ending", ReservationStanding.ENDING)),
)


def today(**changes: Any) -> CurrentNodeClass:
    annotations = {NODE_CLASS_HASH: "a", NODE_CLASS_HASH_VERSION: CURRENT_HASH_VERSION}
    return CurrentNodeClass(
        annotations=annotations, resolved=msgspec.structs.replace(RESOLVED, **changes)
    )


def launched(
    *,
    type_requirements: Requirements = AMD64,
    capacity_type: str = "on-demand",
    hashed: str = "a",
    version: str = CURRENT_HASH_VERSION,
) -> LaunchedClaim:
    return LaunchedClaim(
        name="general-1",
        annotations={NODE_CLASS_HASH: hashed, NODE_CLASS_HASH_VERSION: version},
        labels={CAPACITY_TYPE: capacity_type},
        type_requirements=type_requirements,
    )


RESERVED = launched(capacity_type="reserved")
GROUP = ResolvedPlacementGroup(id="pg-1", name="rack", strategy="cluster")


def test_an_unchanged_instance_is_not_drifted() -> None:
    assert detect_drift(launched(), running_instance(), today()) is None


@pytest.mark.parametrize(
    ("claim", "instance", "now", "expected"),
    [
        (launched(hashed="b"), running_instance(), today(), DriftReason.NODE_CLASS),
        (launched(), running_instance(image_id="ami-0"), today(), DriftReason.AMI),
        (launched(), running_instance(image_id="ami-arm"), today(), DriftReason.AMI),
        (launched(type_requirements=GPU), running_instance(), today(), DriftReason.AMI),
        (
            launched(),
            running_instance(security_groups=frozenset({"sg-1", "sg-2"})),
            today(),
            DriftReason.SECURITY_GROUP,
        ),
        (
            launched(),
            running_instance(security_groups=frozenset()),
            today(),
            DriftReason.SECURITY_GROUP,
        ),
        (
            launched(),
            running_instance(security_groups=frozenset({"sg-2"})),
            today(),
            DriftReason.SECURITY_GROUP,
        ),
        (launched(), running_instance(subnet_id="subnet-2"), today(), DriftReason.SUBNET),
        (
            RESERVED,
            running_instance(reservation_id="cr-2"),
            today(),
            DriftReason.CAPACITY_RESERVATION,
        ),
        (launched(), running_instance(), today(placement_group=GROUP), DriftReason.PLACEMENT_GROUP),
        (
            launched(),
            running_instance(placement_group="pg-2"),
            today(),
            DriftReason.PLACEMENT_GROUP,
        ),
    ],
)
def test_each_reason(
    claim: LaunchedClaim, instance: Ec2Instance, now: CurrentNodeClass, expected: DriftReason
) -> None:
    assert detect_drift(claim, instance, now) is expected


@pytest.mark.parametrize(
    ("claim", "instance", "now"),
    [
        # Hashes of different versions are not comparable.
        (launched(hashed="b", version="v6"), running_instance(), today()),
        (launched(type_requirements=GPU), running_instance(image_id="ami-gpu"), today()),
        (launched(type_requirements=ARM64), running_instance(image_id="ami-arm"), today()),
        (RESERVED, running_instance(reservation_id="cr-1"), today()),
        (RESERVED, running_instance(reservation_id="cr-ending"), today()),
        # No longer in its reservation: it is relabelled, not replaced.
        (RESERVED, running_instance(), today()),
        # Put into an open reservation by EC2 itself.
        (
            launched(),
            running_instance(reservation_id="cr-2", reservation_preference="open"),
            today(),
        ),
        (launched(), running_instance(reservation_id="cr-2"), today()),
        (launched(), running_instance(placement_group="pg-1"), today(placement_group=GROUP)),
        (launched(), running_instance(placement_group="rack"), today(placement_group=GROUP)),
    ],
)
def test_these_differences_are_not_drift(
    claim: LaunchedClaim, instance: Ec2Instance, now: CurrentNodeClass
) -> None:
    assert detect_drift(claim, instance, now) is None


def test_the_first_reason_is_given() -> None:
    """Every property differs at first, and is corrected one after the other."""
    instance = running_instance(
        image_id="ami-0",
        security_groups=frozenset(),
        subnet_id="subnet-2",
        reservation_id="cr-2",
        placement_group="pg-2",
    )
    found = [detect_drift(launched(capacity_type="reserved", hashed="b"), instance, today())]
    for right in (
        {},
        {"image_id": "ami-1"},
        {"security_groups": frozenset({"sg-1"})},
        {"subnet_id": "subnet-1"},
        {"reservation_id": "cr-1"},
        {"placement_group": ""},
    ):
        instance = msgspec.structs.replace(instance, **right)
        found.append(detect_drift(RESERVED, instance, today()))
    assert found == [*DriftReason, None]


@pytest.mark.parametrize(
    ("claim", "now", "why"),
    [
        (
            msgspec.structs.replace(launched(), annotations={}),
            today(),
            "does not say which class settings",
        ),
        (launched(), today(images=()), "has no images"),
        (
            launched(),
            today(subnets=(), security_groups=()),
            "has no security groups and no subnets",
        ),
        (
            launched(type_requirements=Requirements.from_labels({ARCH: "riscv"})),
            today(),
            "no image of default is for m5.large",
        ),
    ],
)
def test_unknown_state_is_not_drift(claim: LaunchedClaim, now: CurrentNodeClass, why: str) -> None:
    found = detect_drift(claim, running_instance(), now)
    assert isinstance(found, DriftUnknown)
    assert why in found.why


@pytest.mark.parametrize(
    ("fresh", "expected"),
    [
        (running_instance(), None),
        (running_instance(reservation_id="cr-1"), None),
        (running_instance(reservation_id="cr-2"), DriftReason.CAPACITY_RESERVATION),
        (None, None),
    ],
)
def test_reservation_drift_is_checked_again_with_a_fresh_description(
    fresh: Ec2Instance | None, expected: DriftReason | None
) -> None:
    asked: list[str] = []

    async def describe(identity: str) -> Ec2Instance | None:
        asked.append(identity)
        return fresh

    async def main(clock: VirtualClock) -> DriftReason | DriftUnknown | None:
        del clock
        return await detect_current_drift(
            RESERVED, running_instance(reservation_id="cr-2"), today(), describe
        )

    assert run_in_virtual_time(main) is expected
    assert asked == ["i-1"]


def test_other_reasons_need_no_fresh_description() -> None:
    async def describe(identity: str) -> Ec2Instance | None:
        raise AssertionError(identity)

    async def main(clock: VirtualClock) -> list[object]:
        del clock
        moved = running_instance(subnet_id="subnet-2")
        return [
            await detect_current_drift(launched(), running_instance(), today(), describe),
            await detect_current_drift(launched(), moved, today(), describe),
        ]

    assert run_in_virtual_time(main) == [None, DriftReason.SUBNET]
