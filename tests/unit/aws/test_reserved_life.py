"""The life of a reserved machine in the emulated account: launched, counted, moved out, drifted."""

from typing import Any

from tests.support.awsclasses import Bench, node_class
from tests.support.seams import on_time

from wainwright.api.cloud import Reservation
from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.aws.by_id import ById
from wainwright.aws.drift import Launched, Reason, Today, Unclear, current_drift
from wainwright.aws.instance import ONLY_RESERVATIONS, Instance
from wainwright.aws.nodeclass.conditions import timestamp
from wainwright.aws.nodeclass.identity import annotations
from wainwright.aws.nodeclass.resolved import Resolved
from wainwright.aws.reservations import Marked, demotions, to_be_drained
from wainwright.clock import VirtualClock
from wainwright.metrics import Registry
from wainwright.model.labels import ARCH, CAPACITY_TYPE, RESERVATION_ID
from wainwright.model.requirements import Requirements

TERMS = [{"tags": {"team": "web"}}]
LABELS = {CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-1"}
AMD64 = Requirements.from_labels({ARCH: "amd64"})


def row(**fields: Any) -> Reservation:
    stated: dict[str, Any] = {
        "id": "cr-1",
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "total": 2,
        "tags": {"team": "web"},
    }
    return Reservation(**(stated | fields))


class Story(Bench):
    """A class with a reservation, and the one machine that was launched into it."""

    wanted: EC2NodeClass = node_class(capacityReservationSelectorTerms=TERMS)

    async def launch(self) -> Instance:
        resolved = await self.resolve(self.wanted)
        image = resolved.image_for(AMD64)
        assert image is not None
        data = {
            "ImageId": image.id,
            "NetworkInterfaces": [
                {"DeviceIndex": 0, "Groups": [each.id for each in resolved.security_groups]}
            ],
            "CapacityReservationSpecification": {
                "CapacityReservationPreference": ONLY_RESERVATIONS,
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
        self.availability.launched("cr-1")
        return await self.look(answer["Instances"][0]["InstanceIds"][0])

    async def look(self, identity: str) -> Instance:
        found = await ById(self.aws.ec2, self.clock, Registry()).describe(identity)
        assert found is not None
        return found

    async def drift(
        self, instance: Instance, resolved: Resolved, labels: dict[str, str]
    ) -> Reason | Unclear | None:
        hashed = annotations(self.wanted)
        claim = Launched(name="general-1", annotations=hashed, labels=labels, kind=AMD64)
        today = Today(annotations=hashed, resolved=resolved)
        by_id = ById(self.aws.ec2, self.clock, Registry())
        return await current_drift(claim, instance, today, by_id.describe)


def claim(instance: Instance) -> Marked:
    return Marked(kind="NodeClaim", name="general-1", instance_id=instance.id, labels=LABELS)


def test_launches_and_terminations_are_counted_until_the_next_poll_agrees() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        story = Story(clock, reservations=[row()])
        await clock.sleep(1)
        instance = await story.launch()
        assert instance.reserved
        assert instance.capacity_type == "reserved"
        seen = [story.availability.free("cr-1")]
        await clock.sleep(61)
        await story.resolve(story.wanted)
        seen.append(story.availability.free("cr-1"))
        await ById(story.aws.ec2, clock, Registry()).terminate(instance.id)
        story.availability.terminated("cr-1")
        seen.append(story.availability.free("cr-1"))
        await clock.sleep(61)
        await story.resolve(story.wanted)
        return [*seen, story.availability.free("cr-1")]

    assert on_time(main) == [1, 1, 2, 2]


def test_a_machine_whose_reservation_is_cancelled_is_relabelled_and_not_drifted() -> None:
    async def main(clock: VirtualClock) -> None:
        story = Story(clock, reservations=[row()])
        before = await story.launch()
        resolved = await story.resolve(story.wanted)
        assert await story.drift(before, resolved, LABELS) is None
        assert demotions([claim(before)], {before.id: before}) == []
        story.ask("ec2", "CancelCapacityReservation", CapacityReservationId="cr-1")
        await clock.sleep(61)
        resolved = await story.resolve(story.wanted)
        assert resolved.reservations == ()
        assert await story.drift(before, resolved, LABELS) is None
        after = await story.look(before.id)
        assert (after.state, after.capacity_type) == ("running", "on-demand")
        (found,) = demotions([claim(before)], {after.id: after})
        assert found.change == {CAPACITY_TYPE: "on-demand"}

    on_time(main)


def test_a_machine_whose_reservation_is_no_longer_selected_is_drifted() -> None:
    async def main(clock: VirtualClock) -> Reason | Unclear | None:
        story = Story(clock, reservations=[row()])
        instance = await story.launch()
        story.ask("ec2", "CreateTags", Resources=["cr-1"], Tags=[{"Key": "team", "Value": "db"}])
        await clock.sleep(61)
        return await story.drift(instance, await story.resolve(story.wanted), LABELS)

    assert on_time(main) is Reason.CAPACITY_RESERVATION


def test_a_block_is_drained_in_its_last_forty_minutes() -> None:
    async def main(clock: VirtualClock) -> list[list[str]]:
        ends = timestamp(clock.now() + 7200)
        block = row(reservationType="capacity-block", endTime=ends)
        story = Story(clock, reservations=[block])
        marked = [Marked(kind="NodeClaim", name="general-1", instance_id="i-1", labels=LABELS)]
        seen = []
        for _ in range(3):
            resolved = await story.resolve(story.wanted)
            seen.append(to_be_drained(marked, resolved.reservations))
            await clock.sleep(41 * 60)
        return seen

    assert on_time(main) == [[], [], ["general-1"]]
