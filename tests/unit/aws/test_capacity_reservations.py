"""Capacity reservations of a class: terms, states, times, platforms; an instance in one."""

from typing import Any

import msgspec
import pytest
from tests.support.aws_account import (
    ResolverBench,
    ScriptedApi,
    condition_message,
    condition_status,
    discovered_node_class,
    run_in_virtual_time,
)

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.api.services import AwsServices
from wainwright.aws.drift import (
    CurrentNodeClass,
    DriftReason,
    DriftUnknown,
    LaunchedClaim,
    detect_current_drift,
    hash_annotations,
)
from wainwright.aws.instances import (
    RESERVATIONS_ONLY,
    Ec2Instance,
    InstanceBatcher,
    find_demotions,
    find_expiring_nodes,
)
from wainwright.aws.nodeclass.status import (
    CAPACITY_RESERVATIONS_READY,
    MAX_LISTED_RESERVATIONS,
    ResolvedNodeClass,
    to_status,
)
from wainwright.aws.reservation_availability import (
    CapacityReservationProvider,
    ReservationAvailability,
    parse_reservation,
)
from wainwright.catalogue.offerings.capacity_reservations import ReservationStanding
from wainwright.clock import EPOCH, VirtualClock, format_timestamp
from wainwright.cloud import ReservedNode
from wainwright.emulator.faults import FaultRule
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError
from wainwright.metrics import MetricsRegistry
from wainwright.model.labels import ARCH, CAPACITY_TYPE, RESERVATION_ID
from wainwright.model.requirements import Requirements

TEAM = [{"tags": {"team": "*"}}]
MINUTE = 60.0
IN_AN_HOUR = format_timestamp(EPOCH + 60 * MINUTE)


def reservation_row(identity: str = "cr-1", **fields: Any) -> CloudReservation:
    stated = {
        "id": identity,
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "total": 4,
        "ownerID": "111122223333",
        "tags": {"team": "web"},
    }
    return msgspec.convert(stated | fields, CloudReservation)


def resolved(
    terms: list[dict[str, Any]], *rows: CloudReservation, wait: float = 0, **spec: Any
) -> ResolvedNodeClass:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        bench = ResolverBench(clock, reservations=rows)
        await clock.sleep(wait)
        return await bench.resolve(
            discovered_node_class(capacityReservationSelectorTerms=terms, **spec)
        )

    return run_in_virtual_time(main)


def ids(found: ResolvedNodeClass) -> list[str]:
    return [each.reservation.id for each in found.reservations]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"id": "cr-a"}], ["cr-a"]),
        ([{"id": "cr-b"}, {"id": "cr-a"}], ["cr-a", "cr-b"]),
        ([{"id": "cr-none"}], []),
        ([{"id": "cr-none"}, {"id": "cr-a"}], ["cr-a"]),
        ([{"tags": {"team": "web"}}], ["cr-a"]),
        ([{"tags": {"team": "*"}}], ["cr-a", "cr-b"]),
        ([{"tags": {"team": "*"}, "ownerID": "444455556666"}], ["cr-b"]),
        ([{"ownerID": "444455556666"}], ["cr-b", "cr-c"]),
        ([{"instanceMatchCriteria": "open"}], ["cr-c"]),
        ([{"instanceType": "m6g.large"}], ["cr-b"]),
        ([{"availabilityZone": "us-east-1b"}], ["cr-c"]),
        (
            [{"id": "cr-a"}, {"tags": {"team": "web"}}, {"instanceMatchCriteria": "open"}],
            ["cr-a", "cr-c"],
        ),
    ],
)
def test_terms_select(terms: list[dict[str, Any]], expected: list[str]) -> None:
    rows = [
        reservation_row("cr-a"),
        reservation_row(
            "cr-b", tags={"team": "db"}, ownerID="444455556666", instanceType="m6g.large"
        ),
        reservation_row(
            "cr-c",
            tags=None,
            ownerID="444455556666",
            instanceMatchCriteria="open",
            availabilityZone="us-east-1b",
        ),
    ]
    found = resolved(terms, *rows)
    assert ids(found) == expected
    assert [each.id for each in to_status(found).capacityReservations or []] == expected
    assert condition_status(found, CAPACITY_RESERVATIONS_READY)[0] == "True"


def test_the_status_of_a_reservation_has_all_fields_of_the_api() -> None:
    ends = format_timestamp(EPOCH + 7200)
    found = resolved(TEAM, reservation_row(endTime=ends, interruptible=True))
    (shown,) = to_status(found).capacityReservations or []
    assert msgspec.to_builtins(shown) == {
        "id": "cr-1",
        "availabilityZone": "us-east-1a",
        "instanceType": "m5.large",
        "instanceMatchCriteria": "targeted",
        "ownerID": "111122223333",
        "endTime": ends,
        "interruptible": True,
    }


@pytest.mark.parametrize(
    ("fields", "minutes", "expected"),
    [
        ({}, 0, "active"),
        ({"endTime": IN_AN_HOUR}, 59, "active"),
        ({"endTime": IN_AN_HOUR}, 61, None),
        ({"endTime": IN_AN_HOUR, "reservationType": "capacity-block"}, 10, "active"),
        ({"endTime": IN_AN_HOUR, "reservationType": "capacity-block"}, 21, "expiring"),
        ({"state": "cancelled"}, 0, None),
        ({"state": "pending"}, 0, None),
        ({"state": "payment-pending"}, 0, None),
        ({"platform": "Windows"}, 0, None),
        ({"tenancy": "dedicated"}, 0, None),
    ],
)
def test_only_usable_reservations_are_listed(
    fields: dict[str, Any], minutes: float, expected: str | None
) -> None:
    found = resolved(TEAM, reservation_row(**fields), wait=minutes * MINUTE)
    shown = to_status(found).capacityReservations or []
    assert [each.state for each in shown] == ([] if expected is None else [expected])
    assert found.usable_reservations == (frozenset() if expected is None else {"cr-1"})
    assert condition_status(found, CAPACITY_RESERVATIONS_READY)[0] == "True"


def test_windows_reservations_are_for_windows() -> None:
    terms = [{"alias": "windows2022@latest"}]
    found = resolved(
        TEAM, reservation_row(platform="Windows"), reservation_row("cr-2"), amiSelectorTerms=terms
    )
    assert {each.reservation.id: each.standing for each in found.reservations} == {
        "cr-1": ReservationStanding.OFFERED,
        "cr-2": ReservationStanding.OTHER_PLATFORM,
    }


def test_without_terms_or_with_the_gate_off_nothing_is_described() -> None:
    async def main(clock: VirtualClock) -> tuple[int, list[bool]]:
        on, off = (
            ResolverBench(clock, reservations=[reservation_row()]),
            ResolverBench(clock, capacity_reservations=False),
        )
        selecting = discovered_node_class(capacityReservationSelectorTerms=TEAM)
        ready = [
            (await on.resolve(discovered_node_class())).is_ready,
            (await off.resolve(selecting)).is_ready,
        ]
        asked = "DescribeCapacityReservations"
        return on.count(asked) + off.count(asked), ready

    assert run_in_virtual_time(main) == (0, [True, True])


def test_a_cancelled_reservation_is_gone_within_a_minute() -> None:
    async def main(clock: VirtualClock) -> list[list[str]]:
        bench = ResolverBench(clock, reservations=[reservation_row(), reservation_row("cr-2")])
        wanted = discovered_node_class(capacityReservationSelectorTerms=TEAM)
        seen = [ids(await bench.resolve(wanted))]
        bench.call_api("ec2", "CancelCapacityReservation", CapacityReservationId="cr-1")
        await clock.sleep(60)
        return [*seen, ids(await bench.resolve(wanted))]

    assert run_in_virtual_time(main) == [["cr-1", "cr-2"], ["cr-2"]]


def test_classes_with_equal_terms_share_one_poll_per_minute() -> None:
    async def main(clock: VirtualClock) -> int:
        bench = ResolverBench(clock, reservations=[reservation_row()])
        for _ in range(5):
            for name in ("one", "two"):
                await bench.resolve(
                    discovered_node_class(name, capacityReservationSelectorTerms=TEAM)
                )
            await clock.sleep(61)
        return bench.count("DescribeCapacityReservations")

    assert run_in_virtual_time(main) == 5


def test_available_counts_are_recorded() -> None:
    async def main(clock: VirtualClock) -> int:
        bench = ResolverBench(clock, reservations=[reservation_row(available=3)])
        await bench.resolve(discovered_node_class(capacityReservationSelectorTerms=TEAM))
        return bench.availability.available_count("cr-1")

    assert run_in_virtual_time(main) == 3


def test_very_many_reservations_do_not_bloat_the_status() -> None:
    rows = [reservation_row(f"cr-{number:05}") for number in range(2500)]
    found = resolved(TEAM, *rows)
    shown = to_status(found)
    assert len(found.usable_reservations) == len(found.reservations) == 2500
    assert [each.id for each in shown.capacityReservations or []] == ids(found)[
        :MAX_LISTED_RESERVATIONS
    ]
    assert condition_message(found, CAPACITY_RESERVATIONS_READY) == (
        "2500 capacity reservations are in use by this class, 500 of them listed here"
    )
    assert len(msgspec.json.encode(shown)) < 200_000


def test_an_unknown_id_does_not_hide_the_others() -> None:
    known: dict[str, Any] = {
        "CapacityReservationId": "cr-2",
        "InstanceType": "m5.large",
        "AvailabilityZone": "us-east-1a",
        "OwnerId": "111122223333",
        "State": "active",
        "AvailableInstanceCount": 1,
        "TotalInstanceCount": 2,
    }
    unknown = AwsError("InvalidCapacityReservationId.NotFound", "no cr-1")
    seam = ScriptedApi(
        {"DescribeCapacityReservations": [unknown, unknown, {"CapacityReservations": [known]}]}
    )

    async def main(clock: VirtualClock) -> list[str]:
        found = await CapacityReservationProvider(
            AwsServices(seam), clock, ReservationAvailability(clock)
        ).find(
            discovered_node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}, {"id": "cr-2"}])
        )
        return [each.reservation.id for each in found.value]

    assert run_in_virtual_time(main) == ["cr-2"]
    asked = seam.calls_to("DescribeCapacityReservations")
    assert [params["CapacityReservationIds"] for params in asked] == [
        ["cr-1", "cr-2"],
        ["cr-1"],
        ["cr-2"],
    ]
    assert not any("MaxResults" in params for params in asked)


GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group"


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"reservationGroup": f"{GROUP}/web"}], ["cr-a", "cr-b"]),
        ([{"reservationGroup": f"{GROUP}/db"}], ["cr-b"]),
        ([{"reservationGroup": f"{GROUP}/none"}], []),
        ([{"reservationGroup": f"{GROUP}/web", "instanceType": "m6g.large"}], ["cr-b"]),
        ([{"reservationGroup": f"{GROUP}/db", "instanceType": "m5.large"}], []),
        (
            [
                {
                    "reservationGroup": f"{GROUP}/web",
                    "ownerID": "111122223333",
                    "tags": {"team": "*"},
                    "instanceMatchCriteria": "targeted",
                    "availabilityZone": "us-east-1a",
                }
            ],
            ["cr-a", "cr-b"],
        ),
        ([{"id": "cr-c"}, {"reservationGroup": f"{GROUP}/db"}], ["cr-b", "cr-c"]),
    ],
)
def test_a_group_selects_its_members(terms: list[dict[str, Any]], expected: list[str]) -> None:
    rows = [
        reservation_row("cr-a", groups=[f"{GROUP}/web"]),
        reservation_row("cr-b", groups=[f"{GROUP}/web", f"{GROUP}/db"], instanceType="m6g.large"),
        reservation_row("cr-c"),
    ]
    found = resolved(terms, *rows)
    assert ids(found) == expected
    assert condition_status(found, CAPACITY_RESERVATIONS_READY)[0] == "True"


def listed_groups(found: ResolvedNodeClass) -> dict[str, list[str] | None]:
    listed = to_status(found).capacityReservations or []
    return {each.id: each.reservationGroups for each in listed}


def test_the_status_has_the_groups_that_terms_name() -> None:
    row = reservation_row(groups=[f"{GROUP}/web", f"{GROUP}/db"])
    by_group = resolved([{"reservationGroup": f"{GROUP}/db"}], row)
    assert listed_groups(by_group) == {"cr-1": [f"{GROUP}/db"]}
    assert listed_groups(resolved([{"id": "cr-1"}], row)) == {"cr-1": None}


def test_a_large_group_is_described_in_parts_and_dangling_members_are_skipped() -> None:
    async def main(clock: VirtualClock) -> None:
        rows = [reservation_row(f"cr-{n:04}", groups=[f"{GROUP}/web"]) for n in range(450)]
        bench = ResolverBench(clock, reservations=rows)
        del bench.cloud.services.reservations.state.reservations["cr-0007"]
        wanted = discovered_node_class(
            capacityReservationSelectorTerms=[{"reservationGroup": f"{GROUP}/web"}]
        )
        assert len((await bench.resolve(wanted)).reservations) == 449
        asked = bench.seam.calls_to("DescribeCapacityReservations")
        assert max(len(each["CapacityReservationIds"]) for each in asked) == 200
        assert len(asked) < 25
        assert bench.count("ListGroupResources") == 9

    run_in_virtual_time(main)


def test_members_are_looked_up_again_after_a_minute() -> None:
    async def main(clock: VirtualClock) -> None:
        rows = [reservation_row("cr-a", groups=[f"{GROUP}/web"]), reservation_row("cr-b")]
        bench = ResolverBench(clock, reservations=rows)
        wanted = discovered_node_class(
            capacityReservationSelectorTerms=[{"reservationGroup": f"{GROUP}/web"}]
        )
        assert ids(await bench.resolve(wanted)) == ["cr-a"]
        added = "arn:aws:ec2:us-east-1:111122223333:capacity-reservation/cr-b"
        bench.call_api(
            "resource-groups", "GroupResources", Group=f"{GROUP}/web", ResourceArns=[added]
        )
        assert ids(await bench.resolve(wanted)) == ["cr-a"]
        await clock.sleep(MINUTE)
        assert ids(await bench.resolve(wanted)) == ["cr-a", "cr-b"]

    run_in_virtual_time(main)


def test_without_permission_for_groups_the_condition_says_so() -> None:
    fault = FaultRule(operation="ListGroupResources", code="ForbiddenException", status=403)

    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        bench = ResolverBench(clock, settings=EmulatorSettings(faults=(fault,)))
        return await bench.resolve(
            discovered_node_class(
                capacityReservationSelectorTerms=[{"reservationGroup": f"{GROUP}/web"}]
            )
        )

    found = run_in_virtual_time(main)
    assert condition_status(found, CAPACITY_RESERVATIONS_READY) == ("False", "NotAuthorized")
    assert not found.is_ready


def test_without_groups_in_terms_resource_groups_are_not_called() -> None:
    async def main(clock: VirtualClock) -> None:
        bench = ResolverBench(clock, reservations=[reservation_row(groups=[f"{GROUP}/web"])])
        await bench.resolve(discovered_node_class(capacityReservationSelectorTerms=TEAM))
        assert bench.count("ListGroupResources") == 0

    run_in_virtual_time(main)


def test_a_row_may_omit_optional_fields() -> None:
    found = parse_reservation(
        {
            "CapacityReservationId": "cr-1",
            "InstanceType": "m5.large",
            "AvailabilityZone": "us-east-1a",
        }
    )
    assert (found.interruptible, found.reservationType, found.tags) == (False, "default", None)


TERMS = [{"tags": {"team": "web"}}]
LABELS = {CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-1"}
AMD64 = Requirements.from_labels({ARCH: "amd64"})


def described_row(**fields: Any) -> CloudReservation:
    stated: dict[str, Any] = {
        "id": "cr-1",
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "total": 2,
        "tags": {"team": "web"},
    }
    return CloudReservation(**(stated | fields))


class ReservationScenario(ResolverBench):
    """A class with a reservation, and the one instance that was launched into it."""

    wanted: EC2NodeClass = discovered_node_class(capacityReservationSelectorTerms=TERMS)

    async def launch(self) -> Ec2Instance:
        resolved = await self.resolve(self.wanted)
        image = resolved.image_for(AMD64)
        assert image is not None
        data = {
            "ImageId": image.id,
            "NetworkInterfaces": [
                {"DeviceIndex": 0, "Groups": [each.id for each in resolved.security_groups]}
            ],
            "CapacityReservationSpecification": {
                "CapacityReservationPreference": RESERVATIONS_ONLY,
                "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
            },
        }
        await self.aws.ec2.create_launch_template("wain/reserved", data, {}, "template")
        template = {"LaunchTemplateName": "wain/reserved", "Version": "$Latest"}
        subnet = next(each.id for each in resolved.subnets if each.zone == "us-east-1a")
        override = {"InstanceType": "m5.large", "SubnetId": subnet}
        answer = await self.aws.ec2.create_fleet(
            {
                "Type": "instant",
                "LaunchTemplateConfigs": [
                    {"LaunchTemplateSpecification": template, "Overrides": [override]}
                ],
                "TargetCapacitySpecification": {
                    "TotalTargetCapacity": 1,
                    "DefaultTargetCapacityType": "on-demand",
                },
            }
        )
        assert not answer.get("Errors"), answer["Errors"]
        self.availability.record_launch("cr-1")
        return await self.look(answer["Instances"][0]["InstanceIds"][0])

    async def look(self, identity: str) -> Ec2Instance:
        found = await InstanceBatcher(self.aws.ec2, self.clock, MetricsRegistry()).describe(
            identity
        )
        assert found is not None
        return found

    async def drift(
        self, instance: Ec2Instance, resolved: ResolvedNodeClass, labels: dict[str, str]
    ) -> DriftReason | DriftUnknown | None:
        hashed = hash_annotations(self.wanted)
        claim = LaunchedClaim(
            name="general-1", annotations=hashed, labels=labels, type_requirements=AMD64
        )
        today = CurrentNodeClass(annotations=hashed, resolved=resolved)
        instance_batcher = InstanceBatcher(self.aws.ec2, self.clock, MetricsRegistry())
        return await detect_current_drift(claim, instance, today, instance_batcher.describe)


def claim(instance: Ec2Instance) -> ReservedNode:
    return ReservedNode(kind="NodeClaim", name="general-1", instance_id=instance.id, labels=LABELS)


def test_launches_and_terminations_are_counted_until_the_next_poll_agrees() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        scenario = ReservationScenario(clock, reservations=[described_row()])
        await clock.sleep(1)
        instance = await scenario.launch()
        assert instance.is_reserved
        assert instance.capacity_type == "reserved"
        seen = [scenario.availability.available_count("cr-1")]
        await clock.sleep(61)
        await scenario.resolve(scenario.wanted)
        seen.append(scenario.availability.available_count("cr-1"))
        await InstanceBatcher(scenario.aws.ec2, clock, MetricsRegistry()).terminate(instance.id)
        scenario.availability.record_termination("cr-1")
        seen.append(scenario.availability.available_count("cr-1"))
        await clock.sleep(61)
        await scenario.resolve(scenario.wanted)
        return [*seen, scenario.availability.available_count("cr-1")]

    assert run_in_virtual_time(main) == [1, 1, 2, 2]


def test_an_instance_whose_reservation_is_cancelled_is_relabelled_and_not_drifted() -> None:
    async def main(clock: VirtualClock) -> None:
        scenario = ReservationScenario(clock, reservations=[described_row()])
        before = await scenario.launch()
        resolved = await scenario.resolve(scenario.wanted)
        assert await scenario.drift(before, resolved, LABELS) is None
        assert find_demotions([claim(before)], {before.id: before}) == []
        scenario.call_api("ec2", "CancelCapacityReservation", CapacityReservationId="cr-1")
        await clock.sleep(61)
        resolved = await scenario.resolve(scenario.wanted)
        assert resolved.reservations == ()
        assert await scenario.drift(before, resolved, LABELS) is None
        after = await scenario.look(before.id)
        assert (after.state, after.capacity_type) == ("running", "on-demand")
        (found,) = find_demotions([claim(before)], {after.id: after})
        assert found.change == {CAPACITY_TYPE: "on-demand"}

    run_in_virtual_time(main)


def test_m13_an_instance_whose_reservation_has_expired_is_relabelled_and_not_drifted() -> None:
    async def main(clock: VirtualClock) -> None:
        scenario = ReservationScenario(clock, reservations=[described_row(endTime=IN_AN_HOUR)])
        before = await scenario.launch()
        await clock.sleep(61 * MINUTE)
        resolved = await scenario.resolve(scenario.wanted)
        after = await scenario.look(before.id)
        assert (after.state, after.capacity_type) == ("running", "on-demand")
        for seen in (before, after):
            assert await scenario.drift(seen, resolved, LABELS) is None
        (found,) = find_demotions([claim(before)], {after.id: after})
        assert found.change == {CAPACITY_TYPE: "on-demand"}

    run_in_virtual_time(main)


def test_an_instance_whose_reservation_is_no_longer_selected_is_drifted() -> None:
    async def main(clock: VirtualClock) -> DriftReason | DriftUnknown | None:
        scenario = ReservationScenario(clock, reservations=[described_row()])
        instance = await scenario.launch()
        scenario.call_api(
            "ec2", "CreateTags", Resources=["cr-1"], Tags=[{"Key": "team", "Value": "db"}]
        )
        await clock.sleep(61)
        return await scenario.drift(instance, await scenario.resolve(scenario.wanted), LABELS)

    assert run_in_virtual_time(main) is DriftReason.CAPACITY_RESERVATION


def test_a_block_is_drained_in_its_last_forty_minutes() -> None:
    async def main(clock: VirtualClock) -> list[list[str]]:
        ends = format_timestamp(clock.now() + 7200)
        block = described_row(reservationType="capacity-block", endTime=ends)
        scenario = ReservationScenario(clock, reservations=[block])
        nodes = [ReservedNode(kind="NodeClaim", name="general-1", instance_id="i-1", labels=LABELS)]
        seen = []
        for _ in range(3):
            resolved = await scenario.resolve(scenario.wanted)
            seen.append(find_expiring_nodes(nodes, resolved.reservations))
            await clock.sleep(41 * 60)
        return seen

    assert run_in_virtual_time(main) == [[], [], ["general-1"]]
