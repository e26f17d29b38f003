"""Drift: every reason, their order, and what is no drift."""

from typing import Any

import msgspec
import pytest
from tests.support.awsmachines import machine
from tests.support.seams import on_time

from wainwright.api.cloud import Reservation
from wainwright.aws.drift import Launched, Reason, Today, Unclear, current_drift, drift
from wainwright.aws.instance import Instance
from wainwright.aws.nodeclass.identity import HASH, HASH_VERSION, VERSION
from wainwright.aws.nodeclass.resolved import (
    Image,
    PlacementGroup,
    Resolved,
    SecurityGroup,
    Subnet,
)
from wainwright.catalogue.reservations import Selected, Standing
from wainwright.clock import VirtualClock
from wainwright.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_GPU_COUNT
from wainwright.model.requirements import Requirements

AMD64 = Requirements.from_labels({ARCH: "amd64"})
ARM64 = Requirements.from_labels({ARCH: "arm64"})
GPU = Requirements.from_labels({ARCH: "amd64", INSTANCE_GPU_COUNT: "1"})
WITHOUT_GPU = Requirements.from_entries(
    [(ARCH, "In", ("amd64",), None), (INSTANCE_GPU_COUNT, "DoesNotExist", (), None)]
)
WITH_GPU = Requirements.from_entries(
    [(ARCH, "In", ("amd64",), None), (INSTANCE_GPU_COUNT, "Exists", (), None)]
)


def selected(identity: str, standing: Standing = Standing.OFFERED) -> Selected:
    reservation = Reservation(
        id=identity, instanceType="m5.large", availabilityZone="us-east-1a", total=1
    )
    return Selected(reservation=reservation, standing=standing)


RESOLVED = Resolved(
    name="default",
    uid="uid",
    subnets=(Subnet(id="subnet-1", zone="us-east-1a", zone_id="use1-az1", free=10),),
    security_groups=(SecurityGroup(id="sg-1", name="nodes"),),
    images=(
        Image(id="ami-1", name="new", requirements=WITHOUT_GPU),
        Image(id="ami-gpu", name="gpu", requirements=WITH_GPU),
        Image(id="ami-arm", name="arm", requirements=ARM64),
    ),
    reservations=(selected("cr-1"), selected("cr-ending", Standing.ENDING)),
)


def today(**changes: Any) -> Today:
    annotations = {HASH: "a", HASH_VERSION: VERSION}
    return Today(annotations=annotations, resolved=msgspec.structs.replace(RESOLVED, **changes))


def launched(
    *,
    kind: Requirements = AMD64,
    capacity_type: str = "on-demand",
    hashed: str = "a",
    version: str = VERSION,
) -> Launched:
    return Launched(
        name="general-1",
        annotations={HASH: hashed, HASH_VERSION: version},
        labels={CAPACITY_TYPE: capacity_type},
        kind=kind,
    )


RESERVED = launched(capacity_type="reserved")
GROUP = PlacementGroup(id="pg-1", name="rack", strategy="cluster")


def test_what_is_as_it_should_be_is_not_drifted() -> None:
    assert drift(launched(), machine(), today()) is None


@pytest.mark.parametrize(
    ("claim", "instance", "now", "expected"),
    [
        (launched(hashed="b"), machine(), today(), Reason.NODE_CLASS),
        (launched(), machine(image_id="ami-0"), today(), Reason.AMI),
        (launched(), machine(image_id="ami-arm"), today(), Reason.AMI),
        (launched(kind=GPU), machine(), today(), Reason.AMI),
        (
            launched(),
            machine(security_groups=frozenset({"sg-1", "sg-2"})),
            today(),
            Reason.SECURITY_GROUP,
        ),
        (launched(), machine(security_groups=frozenset()), today(), Reason.SECURITY_GROUP),
        (
            launched(),
            machine(security_groups=frozenset({"sg-2"})),
            today(),
            Reason.SECURITY_GROUP,
        ),
        (launched(), machine(subnet_id="subnet-2"), today(), Reason.SUBNET),
        (RESERVED, machine(reservation_id="cr-2"), today(), Reason.CAPACITY_RESERVATION),
        (launched(), machine(), today(placement_group=GROUP), Reason.PLACEMENT_GROUP),
        (launched(), machine(placement_group="pg-2"), today(), Reason.PLACEMENT_GROUP),
    ],
)
def test_each_reason(claim: Launched, instance: Instance, now: Today, expected: Reason) -> None:
    assert drift(claim, instance, now) is expected


@pytest.mark.parametrize(
    ("claim", "instance", "now"),
    [
        # Hashes of different versions say nothing about each other.
        (launched(hashed="b", version="v6"), machine(), today()),
        (launched(kind=GPU), machine(image_id="ami-gpu"), today()),
        (launched(kind=ARM64), machine(image_id="ami-arm"), today()),
        (RESERVED, machine(reservation_id="cr-1"), today()),
        (RESERVED, machine(reservation_id="cr-ending"), today()),
        # Fallen out of its reservation: it is relabelled, not replaced.
        (RESERVED, machine(), today()),
        # Put into an open reservation by EC2 itself.
        (launched(), machine(reservation_id="cr-2", preference="open"), today()),
        (launched(), machine(reservation_id="cr-2"), today()),
        (launched(), machine(placement_group="pg-1"), today(placement_group=GROUP)),
        (launched(), machine(placement_group="rack"), today(placement_group=GROUP)),
    ],
)
def test_what_is_no_drift(claim: Launched, instance: Instance, now: Today) -> None:
    assert drift(claim, instance, now) is None


def test_the_first_reason_is_given() -> None:
    """Everything is wrong at first, and is put right one after the other."""
    instance = machine(
        image_id="ami-0",
        security_groups=frozenset(),
        subnet_id="subnet-2",
        reservation_id="cr-2",
        placement_group="pg-2",
    )
    found = [drift(launched(capacity_type="reserved", hashed="b"), instance, today())]
    for right in (
        {},
        {"image_id": "ami-1"},
        {"security_groups": frozenset({"sg-1"})},
        {"subnet_id": "subnet-1"},
        {"reservation_id": "cr-1"},
        {"placement_group": ""},
    ):
        instance = msgspec.structs.replace(instance, **right)
        found.append(drift(RESERVED, instance, today()))
    assert found == [*Reason, None]


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
            launched(kind=Requirements.from_labels({ARCH: "riscv"})),
            today(),
            "no image of default is for m5.large",
        ),
    ],
)
def test_what_cannot_be_said_is_not_drift(claim: Launched, now: Today, why: str) -> None:
    found = drift(claim, machine(), now)
    assert isinstance(found, Unclear)
    assert why in found.why


@pytest.mark.parametrize(
    ("fresh", "expected"),
    [
        (machine(), None),
        (machine(reservation_id="cr-1"), None),
        (machine(reservation_id="cr-2"), Reason.CAPACITY_RESERVATION),
        (None, None),
    ],
)
def test_a_reservation_is_looked_at_afresh_before_it_counts(
    fresh: Instance | None, expected: Reason | None
) -> None:
    asked: list[str] = []

    async def ask(identity: str) -> Instance | None:
        asked.append(identity)
        return fresh

    async def main(clock: VirtualClock) -> Reason | Unclear | None:
        del clock
        return await current_drift(RESERVED, machine(reservation_id="cr-2"), today(), ask)

    assert on_time(main) is expected
    assert asked == ["i-1"]


def test_nothing_is_asked_for_any_other_reason() -> None:
    async def ask(identity: str) -> Instance | None:
        raise AssertionError(identity)

    async def main(clock: VirtualClock) -> list[object]:
        del clock
        moved = machine(subnet_id="subnet-2")
        return [
            await current_drift(launched(), machine(), today(), ask),
            await current_drift(launched(), moved, today(), ask),
        ]

    assert on_time(main) == [None, Reason.SUBNET]
