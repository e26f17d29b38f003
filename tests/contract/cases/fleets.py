"""Instant fleets."""

from typing import Any

from tests.contract.case import case, fresh_name
from tests.contract.cases.machines import described, image
from tests.contract.cases.network import group, subnet, vpc
from tests.contract.cases.reservations import found, reserve
from tests.contract.doors import Door, refusal


class Ground:
    """A network and a template to launch on."""

    def __init__(self, door: Door, **data: Any) -> None:
        home = vpc(door)
        self.group = group(door, home, fresh_name("nodes"))
        self.subnets = {
            f"us-east-1{letter}": subnet(door, home, third, f"us-east-1{letter}")["SubnetId"]
            for third, letter in enumerate("ab")
        }
        self.template = fresh_name("fleet")
        door.ask(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName=self.template,
            LaunchTemplateData={
                "ImageId": image(door),
                "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [self.group]}],
                **data,
            },
        )

    def override(self, instance_type: str, zone: str = "us-east-1a") -> dict[str, Any]:
        return {
            "InstanceType": instance_type,
            "SubnetId": self.subnets[zone],
            "AvailabilityZone": zone,
        }

    def launch(self, door: Door, *overrides: dict[str, Any], **more: Any) -> dict[str, Any]:
        return door.ask("ec2", "CreateFleet", **self.request(*overrides, **more))

    def request(self, *overrides: dict[str, Any], **more: Any) -> dict[str, Any]:
        capacity = {"DefaultTargetCapacityType": "on-demand", "TotalTargetCapacity": 1}
        template = {"LaunchTemplateName": self.template, "Version": "$Latest"}
        config = {"LaunchTemplateSpecification": template, "Overrides": list(overrides)}
        return {
            "Type": "instant",
            "LaunchTemplateConfigs": [config],
            "TargetCapacitySpecification": capacity,
            "OnDemandOptions": {"AllocationStrategy": "lowest-price"},
            **more,
        }


@case(moto_wrong="it always takes the first override")
def the_cheapest_pool_is_taken(door: Door) -> None:
    ground = Ground(door)
    cheap, dear = ground.override("c5.large"), ground.override("m5.4xlarge", "us-east-1b")
    answer = ground.launch(door, dear, cheap)
    (made,) = answer["Instances"]
    assert made["InstanceType"] == "c5.large"
    assert made["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] == "us-east-1a"
    assert not answer.get("Errors")


@case(moto_wrong="its machines have no security group of the template")
def a_machine_of_a_fleet_has_what_the_template_says(door: Door) -> None:
    ground = Ground(door)
    answer = ground.launch(door, ground.override("c5.large"))
    (identity,) = answer["Instances"][0]["InstanceIds"]
    (machine,) = described(door, InstanceIds=[identity])
    assert [each["GroupId"] for each in machine["SecurityGroups"]] == [ground.group]
    assert machine["SubnetId"] == ground.subnets["us-east-1a"]
    assert machine["ImageId"] == image(door)


@case()
def a_template_that_does_not_exist_is_an_error(door: Door) -> None:
    ground = Ground(door)
    request = ground.request(ground.override("c5.large"))
    template = {"LaunchTemplateName": "none", "Version": "$Latest"}
    request["LaunchTemplateConfigs"][0]["LaunchTemplateSpecification"] = template
    code, status = refusal(door, "ec2", "CreateFleet", **request)
    assert (code, status) == ("InvalidLaunchTemplateName.NotFoundException", 400)


@case()
def a_dry_run_launches_nothing(door: Door) -> None:
    ground = Ground(door)
    request = ground.request(ground.override("c5.large"), DryRun=True)
    assert refusal(door, "ec2", "CreateFleet", **request) == ("DryRunOperation", 412)


@case(moto_wrong="it accepts the same pool twice")
def a_pool_can_be_named_once(door: Door) -> None:
    ground = Ground(door)
    same = ground.override("c5.large")
    code, status = refusal(door, "ec2", "CreateFleet", **ground.request(same, same))
    assert (code, status) == ("InvalidFleetConfig", 400)


@case(moto_wrong="it has no capacity reservations, and answers with a page of HTML")
def a_full_reservation_is_an_error_within_the_answer(door: Door) -> None:
    identity = reserve(door, 1)
    ground = Ground(
        door,
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": identity},
        },
    )
    pool = ground.override("c5.large")
    (made,) = ground.launch(door, pool)["Instances"]
    (machine,) = described(door, InstanceIds=made["InstanceIds"])
    assert machine["CapacityReservationId"] == identity
    (shown,) = found(door, CapacityReservationIds=[identity])
    assert shown["AvailableInstanceCount"] == 0
    answer = ground.launch(door, pool)
    assert not answer.get("Instances")
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "ReservationCapacityExceeded"
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] == "c5.large"


@case(moto_wrong="the same token launches again")
def the_same_token_launches_once(door: Door) -> None:
    ground = Ground(door)
    request = ground.request(ground.override("c5.large"), ClientToken=fresh_name("token"))
    first, second = (door.ask("ec2", "CreateFleet", **request) for _ in range(2))
    assert first["Instances"][0]["InstanceIds"] == second["Instances"][0]["InstanceIds"]
    assert first["FleetId"] == second["FleetId"]


@case(moto_wrong="its spot machines have no request, by which clients know them")
def spot_machines_say_so(door: Door) -> None:
    ground = Ground(door)
    request = ground.request(ground.override("c5.large"))
    request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] = "spot"
    del request["OnDemandOptions"]
    request["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    (made,) = door.ask("ec2", "CreateFleet", **request)["Instances"]
    assert made["Lifecycle"] == "spot"
    (machine,) = described(door, InstanceIds=made["InstanceIds"])
    assert machine["InstanceLifecycle"] == "spot"
    assert machine["SpotInstanceRequestId"].startswith("sir-")
