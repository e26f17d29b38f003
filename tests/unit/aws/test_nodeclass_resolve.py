"""Resolving: conditions over time, what stands when AWS is away, and the placement group."""

from typing import Any

import pytest
from tests.support.awsclasses import Bench, message, node_class, told, with_status
from tests.support.seams import on_time

from wainwright.aws.nodeclass.conditions import (
    AMIS,
    CAPACITY_RESERVATIONS,
    INSTANCE_PROFILE,
    PLACEMENT_GROUP,
    READY,
    SECURITY_GROUPS,
    SUBNETS,
    VALIDATION,
)
from wainwright.aws.nodeclass.resolved import Resolved, status
from wainwright.clock import VirtualClock
from wainwright.emulator.settings import Settings

TERMS = [{"tags": {"team": "*"}}]
EVERY = {
    AMIS,
    SUBNETS,
    SECURITY_GROUPS,
    INSTANCE_PROFILE,
    CAPACITY_RESERVATIONS,
    PLACEMENT_GROUP,
    VALIDATION,
    READY,
}


def fails(operation: str, code: str = "InternalError", status: int = 500) -> dict[str, Any]:
    return {"faults": [{"operation": operation, "code": code, "status": status}]}


def test_every_condition_is_there_with_its_generation() -> None:
    async def main(clock: VirtualClock) -> Resolved:
        return await Bench(clock).resolve(node_class(generation=7))

    found = on_time(main)
    assert {each.type for each in found.conditions} == EVERY
    assert {each.observedGeneration for each in found.conditions} == {7}
    assert all(each.status == "True" for each in found.conditions)
    assert found.cluster_cidr
    assert set(found.zones) == {each.zone for each in found.subnets}


def test_the_status_has_the_shape_of_the_api() -> None:
    async def main(clock: VirtualClock) -> tuple[Resolved, str]:
        bench = Bench(clock)
        return await bench.resolve(node_class()), bench.cloud.account.security_group

    found, group = on_time(main)
    shown = status(found)
    assert [each.id for each in shown.securityGroups or []] == [group]
    assert [each.id for each in shown.subnets or []] == [each.id for each in found.subnets]
    assert shown.instanceProfile == found.profile
    assert shown.capacityReservations is None
    assert shown.conditions == list(found.conditions)


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, str]]:
        bench, wanted = Bench(clock), node_class()
        seen = []
        patches: list[dict[str, Any]] = [
            {"faults": []},
            fails("DescribeSubnets", "UnauthorizedOperation", 403),
            {"faults": []},
        ]
        for patch in patches:
            bench.cloud.change(patch)
            for _ in range(2):
                found = await bench.resolve(wanted)
                wanted = with_status(wanted, found)
                seen += [
                    (each.status, each.lastTransitionTime[11:])
                    for each in found.conditions
                    if each.type == SUBNETS
                ]
                await clock.sleep(60)
        return seen

    assert on_time(main) == [
        ("True", "00:00:00Z"),
        ("True", "00:00:00Z"),
        ("False", "00:02:00Z"),
        ("False", "00:02:00Z"),
        ("True", "00:04:00Z"),
        ("True", "00:04:00Z"),
    ]


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("DescribeSubnets", SUBNETS),
        ("DescribeSecurityGroups", SECURITY_GROUPS),
        ("DescribeImages", AMIS),
        ("GetParameter", AMIS),
        ("DescribeCapacityReservations", CAPACITY_RESERVATIONS),
        ("GetInstanceProfile", INSTANCE_PROFILE),
    ],
)
def test_what_aws_said_last_stands_while_it_cannot_be_reached(operation: str, kind: str) -> None:
    async def main(clock: VirtualClock) -> tuple[Resolved, Resolved, Resolved]:
        wanted = node_class(capacityReservationSelectorTerms=TERMS)
        bench, fresh = Bench(clock), Bench(clock)
        before = await bench.resolve(wanted)
        for each in (bench, fresh):
            each.cloud.change(fails(operation))
        await clock.sleep(25 * 3600)
        return before, await bench.resolve(wanted), await fresh.resolve(wanted)

    before, after, fresh = on_time(main)
    assert after.ready
    assert (after.subnets, after.images, after.profile) == (
        before.subnets,
        before.images,
        before.profile,
    )
    assert told(fresh, kind) == ("Unknown", "CloudUnavailable")
    assert told(fresh, READY)[0] == "Unknown"


def test_it_does_not_stand_for_other_terms() -> None:
    async def main(clock: VirtualClock) -> Resolved:
        bench = Bench(clock)
        await bench.resolve(node_class())
        bench.cloud.change(fails("DescribeSubnets"))
        changed = node_class(subnetSelectorTerms=[{"tags": {"team": "web"}}], generation=2)
        return await bench.resolve(changed)

    found = on_time(main)
    assert found.subnets == ()
    assert told(found, SUBNETS) == ("Unknown", "CloudUnavailable")


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("DescribeSubnets", SUBNETS),
        ("DescribeImages", AMIS),
        ("DescribeCapacityReservations", CAPACITY_RESERVATIONS),
    ],
)
def test_a_refusal_is_told_and_nothing_stands(operation: str, kind: str) -> None:
    async def main(clock: VirtualClock) -> Resolved:
        bench, wanted = Bench(clock), node_class(capacityReservationSelectorTerms=TERMS)
        await bench.resolve(wanted)
        bench.cloud.change(fails(operation, "UnauthorizedOperation", 403))
        await clock.sleep(400)
        return await bench.resolve(wanted)

    found = on_time(main)
    assert told(found, kind) == ("False", "NotAuthorized")
    assert "UnauthorizedOperation" in message(found, kind)
    assert message(found, READY) == f"{kind}=False, {VALIDATION}=False"


def test_a_hiccup_at_the_next_rehearsal_does_not_make_a_class_unready() -> None:
    async def main(clock: VirtualClock) -> Resolved:
        bench = Bench(clock)
        await bench.resolve(node_class())
        await clock.sleep(1900)
        bench.cloud.change(fails("CreateFleet", "RequestLimitExceeded", 503))
        return await bench.resolve(node_class())

    assert on_time(main).ready


def test_a_class_that_is_gone_leaves_nothing_behind() -> None:
    async def main(clock: VirtualClock) -> Resolved:
        bench = Bench(clock)
        await bench.resolve(node_class())
        bench.resolver.forget(node_class())
        bench.cloud.change(fails("DescribeSubnets"))
        await clock.sleep(120)
        return await bench.resolve(node_class())

    assert told(on_time(main), SUBNETS)[0] == "Unknown"


def test_a_placement_group_is_found_by_name_and_by_id() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, str]]:
        bench = Bench(clock)
        made = bench.ask(
            "ec2", "CreatePlacementGroup", GroupName="rack", Strategy="partition", PartitionCount=3
        )["PlacementGroup"]
        seen = []
        for selector in ({"name": "rack"}, {"id": made["GroupId"]}, {"name": "none"}):
            found = await bench.resolve(node_class(placementGroupSelector=selector))
            group = found.placement_group
            seen.append((told(found, PLACEMENT_GROUP)[0], "" if group is None else group.name))
            if group is not None:
                assert (group.strategy, group.partitions) == ("partition", 3)
        return seen

    assert on_time(main) == [("True", "rack"), ("True", "rack"), ("False", "")]


def test_a_placement_group_that_is_there_is_asked_for_once_a_day() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        bench = Bench(clock)
        bench.ask("ec2", "CreatePlacementGroup", GroupName="rack", Strategy="cluster")
        wanted = node_class(placementGroupSelector={"name": "rack"})
        for _ in range(5):
            await bench.resolve(wanted)
            await clock.sleep(3600)
        there = bench.count("DescribePlacementGroups")
        for _ in range(3):
            await bench.resolve(node_class(placementGroupSelector={"name": "none"}))
            await clock.sleep(61)
        return there, bench.count("DescribePlacementGroups") - there

    assert on_time(main) == (1, 3)


def test_a_quiet_minute_costs_little() -> None:
    """One class, everything known: subnets alone are asked for each minute."""

    async def main(clock: VirtualClock) -> list[str]:
        bench = Bench(clock, settings=Settings(latency=0.05))
        await bench.resolve(node_class())
        await clock.sleep(61)
        before = len(bench.seam.calls)
        await bench.resolve(node_class())
        return [operation for operation, _ in bench.seam.calls[before:]]

    assert on_time(main) == ["DescribeSubnets"]
