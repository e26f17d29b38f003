"""Instant fleets, and what they launch from: launch templates and capacity reservations."""

from base64 import b64encode
from typing import Any

from tests.contract.cases.instances import any_image, describe_instances
from tests.contract.cases.network import create_security_group, create_subnet, create_vpc
from tests.contract.clients import AccountClient, error_of, expect_error, fetch_pages
from tests.contract.registry import contract_case, fresh_name

TEMPLATE_NOT_FOUND = ("InvalidLaunchTemplateName.NotFoundException", 400)
TEMPLATE_DATA = {
    "ImageId": "ami-0123456789abcdef0",
    "UserData": b64encode(b"#!/bin/sh\n").decode(),
    "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
    "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-0123456789abcdef0"]}],
    "CapacityReservationSpecification": {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"},
    },
}


def create_template(door: AccountClient, name: str, **tags: str) -> str:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    more = {"TagSpecifications": [{"ResourceType": "launch-template", "Tags": pairs}]}
    answer = door.ask(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName=name,
        LaunchTemplateData=TEMPLATE_DATA,
        **(more if tags else {}),
    )
    return str(answer["LaunchTemplate"]["LaunchTemplateId"])


@contract_case()
def a_template_is_found_by_its_name_and_by_its_id(door: AccountClient) -> None:
    name = fresh_name("found")
    identity = create_template(door, name)
    for how in ({"LaunchTemplateNames": [name]}, {"LaunchTemplateIds": [identity]}):
        (found,) = door.ask("ec2", "DescribeLaunchTemplates", **how)["LaunchTemplates"]
        assert found["LaunchTemplateName"] == name
        assert found["LaunchTemplateId"] == identity
        assert found["DefaultVersionNumber"] == found["LatestVersionNumber"] == 1


@contract_case()
def a_name_that_nobody_has_is_an_error(door: AccountClient) -> None:
    assert (
        expect_error(door, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=["none"])
        == TEMPLATE_NOT_FOUND
    )


@contract_case()
def a_name_can_be_had_only_once(door: AccountClient) -> None:
    name = fresh_name("twice")
    create_template(door, name)
    expected = ("InvalidLaunchTemplateName.AlreadyExistsException", 400)
    assert error_of(lambda: create_template(door, name)) == expected


@contract_case()
def what_a_template_says_is_kept_whole(door: AccountClient) -> None:
    identity = create_template(door, fresh_name("kept"))
    (version,) = door.ask("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateId=identity)[
        "LaunchTemplateVersions"
    ]
    said = version["LaunchTemplateData"]
    assert {key: said[key] for key in TEMPLATE_DATA} == TEMPLATE_DATA


@contract_case()
def deleted_by_id_it_is_gone_and_its_name_is_free(door: AccountClient) -> None:
    name = fresh_name("gone")
    identity = create_template(door, name)
    answer = door.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateId=identity)
    assert answer["LaunchTemplate"]["LaunchTemplateName"] == name
    assert (
        expect_error(door, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])
        == TEMPLATE_NOT_FOUND
    )
    assert create_template(door, name) != identity


@contract_case()
def it_can_be_deleted_by_its_name(door: AccountClient) -> None:
    name = fresh_name("named")
    create_template(door, name)
    door.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
    assert (
        expect_error(door, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])
        == TEMPLATE_NOT_FOUND
    )


@contract_case(moto_wrong="it answers MissingParameter")
def deleting_a_name_that_nobody_has_is_an_error(door: AccountClient) -> None:
    assert (
        expect_error(door, "ec2", "DeleteLaunchTemplate", LaunchTemplateName="none")
        == TEMPLATE_NOT_FOUND
    )


@contract_case(moto_wrong="it answers with the code for names")
def deleting_an_id_that_nobody_has_is_an_error_of_its_own(door: AccountClient) -> None:
    wrong = "lt-0123456789abcdef0"
    code, status = expect_error(door, "ec2", "DeleteLaunchTemplate", LaunchTemplateId=wrong)
    assert (code, status) == ("InvalidLaunchTemplateId.NotFound", 400)


@contract_case()
def templates_are_found_by_tag(door: AccountClient) -> None:
    team = fresh_name("team")
    identity = create_template(door, fresh_name("tagged"), team=team, empty="")
    create_template(door, fresh_name("tagged"), team="another")
    (found,) = door.ask(
        "ec2", "DescribeLaunchTemplates", Filters=[{"Name": "tag:team", "Values": [team]}]
    )["LaunchTemplates"]
    assert found["LaunchTemplateId"] == identity
    tags = {pair["Key"]: pair["Value"] for pair in found["Tags"]}
    assert tags == {"team": team, "empty": ""}


@contract_case(moto_wrong="without MaxResults it gives 15 and no token")
def a_list_without_a_size_is_whole(door: AccountClient) -> None:
    names = {fresh_name("many") for _ in range(20)}
    for name in names:
        create_template(door, name)
    answer = door.ask("ec2", "DescribeLaunchTemplates")
    assert names <= {each["LaunchTemplateName"] for each in answer["LaunchTemplates"]}


@contract_case(moto_wrong="it cuts the list and gives no token for the rest")
def a_list_comes_in_pages(door: AccountClient) -> None:
    crowd = fresh_name("crowd")
    names = sorted(fresh_name("page") for _ in range(7))
    for name in names:
        create_template(door, name, crowd=crowd)
    found = fetch_pages(
        door,
        "ec2",
        "DescribeLaunchTemplates",
        "LaunchTemplates",
        Filters=[{"Name": "tag:crowd", "Values": [crowd]}],
        MaxResults=3,
    )
    assert [len(page) for page in found] == [3, 3, 1]
    assert sorted(each["LaunchTemplateName"] for page in found for each in page) == names


MOTO_LACKS_RESERVATIONS = "it has no capacity reservations, and answers with a page of HTML"


def create_reservation(door: AccountClient, number: int = 2, **more: Any) -> str:
    """Open ones are of a type that no other story launches: they would take its machines in."""
    targeted = more.setdefault("InstanceMatchCriteria", "targeted") == "targeted"
    made = door.ask(
        "ec2",
        "CreateCapacityReservation",
        InstanceType="c5.large" if targeted else "r5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=number,
        **more,
    )["CapacityReservation"]
    return str(made["CapacityReservationId"])


def describe_reservations(door: AccountClient, **params: Any) -> list[Any]:
    return list(door.ask("ec2", "DescribeCapacityReservations", **params)["CapacityReservations"])


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def a_reservation_is_described_with_its_counts(door: AccountClient) -> None:
    identity = create_reservation(door, 3)
    (shown,) = describe_reservations(door, CapacityReservationIds=[identity])
    assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (3, 3)
    assert shown["InstanceType"] == "c5.large"
    assert shown["AvailabilityZone"] == "us-east-1a"
    assert shown["InstanceMatchCriteria"] == "targeted"
    assert shown["State"] == "active"
    assert shown["OwnerId"].isdigit()


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def reservations_are_found_by_tag_and_criteria(door: AccountClient) -> None:
    team = fresh_name("team")
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": team}]}]
    targeted = create_reservation(door, TagSpecifications=tags)
    create_reservation(door, InstanceMatchCriteria="open", TagSpecifications=tags)
    (shown,) = describe_reservations(
        door,
        Filters=[
            {"Name": "tag:team", "Values": [team]},
            {"Name": "instance-match-criteria", "Values": ["targeted"]},
            {"Name": "state", "Values": ["active"]},
        ],
        MaxResults=1000,
    )
    assert shown["CapacityReservationId"] == targeted


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def a_reservation_grows_and_shrinks(door: AccountClient) -> None:
    identity = create_reservation(door, 2)
    answer = door.ask(
        "ec2", "ModifyCapacityReservation", CapacityReservationId=identity, InstanceCount=5
    )
    assert answer == {"Return": True}
    (shown,) = describe_reservations(door, CapacityReservationIds=[identity])
    assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (5, 5)


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def a_cancelled_reservation_has_nothing_left(door: AccountClient) -> None:
    identity = create_reservation(door)
    assert door.ask("ec2", "CancelCapacityReservation", CapacityReservationId=identity) == {
        "Return": True
    }
    (shown,) = describe_reservations(door, CapacityReservationIds=[identity])
    assert (shown["State"], shown["AvailableInstanceCount"]) == ("cancelled", 0)


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def a_reservation_that_does_not_exist_is_an_error(door: AccountClient) -> None:
    wrong = "cr-0123456789abcdef0"
    code, status = expect_error(
        door, "ec2", "DescribeCapacityReservations", CapacityReservationIds=[wrong]
    )
    assert (code, status) == ("InvalidCapacityReservationId.NotFound", 400)


class FleetSetup:
    """A network and a template to launch on."""

    def __init__(self, door: AccountClient, **data: Any) -> None:
        home = create_vpc(door)
        self.group = create_security_group(door, home, fresh_name("nodes"))
        self.subnets = {
            f"us-east-1{letter}": create_subnet(door, home, third, f"us-east-1{letter}")["SubnetId"]
            for third, letter in enumerate("ab")
        }
        self.template = fresh_name("fleet")
        door.ask(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName=self.template,
            LaunchTemplateData={
                "ImageId": any_image(door),
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

    def launch(
        self, door: AccountClient, *overrides: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
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


@contract_case(moto_wrong="it always takes the first override")
def the_cheapest_pool_is_taken(door: AccountClient) -> None:
    ground = FleetSetup(door)
    cheap, dear = ground.override("c5.large"), ground.override("m5.4xlarge", "us-east-1b")
    answer = ground.launch(door, dear, cheap)
    (made,) = answer["Instances"]
    assert made["InstanceType"] == "c5.large"
    assert made["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] == "us-east-1a"
    assert not answer.get("Errors")


@contract_case(moto_wrong="its machines have no security group of the template")
def a_machine_of_a_fleet_has_what_the_template_says(door: AccountClient) -> None:
    ground = FleetSetup(door)
    answer = ground.launch(door, ground.override("c5.large"))
    (identity,) = answer["Instances"][0]["InstanceIds"]
    (machine,) = describe_instances(door, InstanceIds=[identity])
    assert [each["GroupId"] for each in machine["SecurityGroups"]] == [ground.group]
    assert machine["SubnetId"] == ground.subnets["us-east-1a"]
    assert machine["ImageId"] == any_image(door)


@contract_case()
def a_template_that_does_not_exist_is_an_error(door: AccountClient) -> None:
    ground = FleetSetup(door)
    request = ground.request(ground.override("c5.large"))
    template = {"LaunchTemplateName": "none", "Version": "$Latest"}
    request["LaunchTemplateConfigs"][0]["LaunchTemplateSpecification"] = template
    code, status = expect_error(door, "ec2", "CreateFleet", **request)
    assert (code, status) == ("InvalidLaunchTemplateName.NotFoundException", 400)


@contract_case()
def a_dry_run_launches_nothing(door: AccountClient) -> None:
    ground = FleetSetup(door)
    request = ground.request(ground.override("c5.large"), DryRun=True)
    assert expect_error(door, "ec2", "CreateFleet", **request) == ("DryRunOperation", 412)


@contract_case(moto_wrong="it accepts the same pool twice")
def a_pool_can_be_named_once(door: AccountClient) -> None:
    ground = FleetSetup(door)
    same = ground.override("c5.large")
    code, status = expect_error(door, "ec2", "CreateFleet", **ground.request(same, same))
    assert (code, status) == ("InvalidFleetConfig", 400)


@contract_case(moto_wrong="it has no capacity reservations, and answers with a page of HTML")
def a_full_reservation_is_an_error_within_the_answer(door: AccountClient) -> None:
    identity = create_reservation(door, 1)
    ground = FleetSetup(
        door,
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": identity},
        },
    )
    pool = ground.override("c5.large")
    (made,) = ground.launch(door, pool)["Instances"]
    (machine,) = describe_instances(door, InstanceIds=made["InstanceIds"])
    assert machine["CapacityReservationId"] == identity
    (shown,) = describe_reservations(door, CapacityReservationIds=[identity])
    assert shown["AvailableInstanceCount"] == 0
    answer = ground.launch(door, pool)
    assert not answer.get("Instances")
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "ReservationCapacityExceeded"
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] == "c5.large"


@contract_case(moto_wrong="the same token launches again")
def the_same_token_launches_once(door: AccountClient) -> None:
    ground = FleetSetup(door)
    request = ground.request(ground.override("c5.large"), ClientToken=fresh_name("token"))
    first, second = (door.ask("ec2", "CreateFleet", **request) for _ in range(2))
    assert first["Instances"][0]["InstanceIds"] == second["Instances"][0]["InstanceIds"]
    assert first["FleetId"] == second["FleetId"]


@contract_case(moto_wrong="its spot machines have no request, by which clients know them")
def spot_machines_say_so(door: AccountClient) -> None:
    ground = FleetSetup(door)
    request = ground.request(ground.override("c5.large"))
    request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] = "spot"
    del request["OnDemandOptions"]
    request["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    (made,) = door.ask("ec2", "CreateFleet", **request)["Instances"]
    assert made["Lifecycle"] == "spot"
    (machine,) = describe_instances(door, InstanceIds=made["InstanceIds"])
    assert machine["InstanceLifecycle"] == "spot"
    assert machine["SpotInstanceRequestId"].startswith("sir-")
