"""Instant fleets, launch templates and capacity reservations."""

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


def create_template(client: AccountClient, name: str, **tags: str) -> str:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    more = {"TagSpecifications": [{"ResourceType": "launch-template", "Tags": pairs}]}
    response = client.call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName=name,
        LaunchTemplateData=TEMPLATE_DATA,
        **(more if tags else {}),
    )
    return str(response["LaunchTemplate"]["LaunchTemplateId"])


@contract_case()
def a_template_is_found_by_its_name_and_by_its_id(client: AccountClient) -> None:
    name = fresh_name("found")
    identity = create_template(client, name)
    for how in ({"LaunchTemplateNames": [name]}, {"LaunchTemplateIds": [identity]}):
        (found,) = client.call("ec2", "DescribeLaunchTemplates", **how)["LaunchTemplates"]
        assert found["LaunchTemplateName"] == name
        assert found["LaunchTemplateId"] == identity
        assert found["DefaultVersionNumber"] == found["LatestVersionNumber"] == 1


@contract_case()
def an_unknown_template_name_is_an_error(client: AccountClient) -> None:
    assert (
        expect_error(client, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=["none"])
        == TEMPLATE_NOT_FOUND
    )


@contract_case()
def a_template_name_is_unique(client: AccountClient) -> None:
    name = fresh_name("twice")
    create_template(client, name)
    expected = ("InvalidLaunchTemplateName.AlreadyExistsException", 400)
    assert error_of(lambda: create_template(client, name)) == expected


@contract_case()
def template_data_round_trips(client: AccountClient) -> None:
    identity = create_template(client, fresh_name("kept"))
    (version,) = client.call("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateId=identity)[
        "LaunchTemplateVersions"
    ]
    content = version["LaunchTemplateData"]
    assert {key: content[key] for key in TEMPLATE_DATA} == TEMPLATE_DATA


@contract_case()
def a_template_deleted_by_id_frees_its_name(client: AccountClient) -> None:
    name = fresh_name("gone")
    identity = create_template(client, name)
    response = client.call("ec2", "DeleteLaunchTemplate", LaunchTemplateId=identity)
    assert response["LaunchTemplate"]["LaunchTemplateName"] == name
    assert (
        expect_error(client, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])
        == TEMPLATE_NOT_FOUND
    )
    assert create_template(client, name) != identity


@contract_case()
def a_template_can_be_deleted_by_name(client: AccountClient) -> None:
    name = fresh_name("named")
    create_template(client, name)
    client.call("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
    assert (
        expect_error(client, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])
        == TEMPLATE_NOT_FOUND
    )


@contract_case(moto_wrong="it answers MissingParameter")
def deleting_an_unknown_template_name_is_an_error(client: AccountClient) -> None:
    assert (
        expect_error(client, "ec2", "DeleteLaunchTemplate", LaunchTemplateName="none")
        == TEMPLATE_NOT_FOUND
    )


@contract_case(moto_wrong="it answers with the code for names")
def deleting_an_unknown_template_id_has_its_own_error(client: AccountClient) -> None:
    wrong = "lt-0123456789abcdef0"
    code, status = expect_error(client, "ec2", "DeleteLaunchTemplate", LaunchTemplateId=wrong)
    assert (code, status) == ("InvalidLaunchTemplateId.NotFound", 400)


@contract_case()
def templates_are_found_by_tag(client: AccountClient) -> None:
    team = fresh_name("team")
    identity = create_template(client, fresh_name("tagged"), team=team, empty="")
    create_template(client, fresh_name("tagged"), team="another")
    (found,) = client.call(
        "ec2", "DescribeLaunchTemplates", Filters=[{"Name": "tag:team", "Values": [team]}]
    )["LaunchTemplates"]
    assert found["LaunchTemplateId"] == identity
    tags = {pair["Key"]: pair["Value"] for pair in found["Tags"]}
    assert tags == {"team": team, "empty": ""}


@contract_case(moto_wrong="without MaxResults it gives 15 and no token")
def a_list_without_max_results_is_complete(client: AccountClient) -> None:
    names = {fresh_name("many") for _ in range(20)}
    for name in names:
        create_template(client, name)
    response = client.call("ec2", "DescribeLaunchTemplates")
    assert names <= {each["LaunchTemplateName"] for each in response["LaunchTemplates"]}


@contract_case(moto_wrong="it cuts the list and gives no token for the rest")
def templates_are_paginated(client: AccountClient) -> None:
    crowd = fresh_name("crowd")
    names = sorted(fresh_name("page") for _ in range(7))
    for name in names:
        create_template(client, name, crowd=crowd)
    found = fetch_pages(
        client,
        "ec2",
        "DescribeLaunchTemplates",
        "LaunchTemplates",
        Filters=[{"Name": "tag:crowd", "Values": [crowd]}],
        MaxResults=3,
    )
    assert [len(page) for page in found] == [3, 3, 1]
    assert sorted(each["LaunchTemplateName"] for page in found for each in page) == names


MOTO_LACKS_RESERVATIONS = "it has no capacity reservations, and answers with a page of HTML"


def create_reservation(client: AccountClient, number: int = 2, **more: Any) -> str:
    """Open ones have a type that no other case launches: they would adopt its instances."""
    targeted = more.setdefault("InstanceMatchCriteria", "targeted") == "targeted"
    created = client.call(
        "ec2",
        "CreateCapacityReservation",
        InstanceType="c5.large" if targeted else "r5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=number,
        **more,
    )["CapacityReservation"]
    return str(created["CapacityReservationId"])


def describe_reservations(client: AccountClient, **params: Any) -> list[Any]:
    return list(
        client.call("ec2", "DescribeCapacityReservations", **params)["CapacityReservations"]
    )


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def a_reservation_is_described_with_its_counts(client: AccountClient) -> None:
    identity = create_reservation(client, 3)
    (shown,) = describe_reservations(client, CapacityReservationIds=[identity])
    assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (3, 3)
    assert shown["InstanceType"] == "c5.large"
    assert shown["AvailabilityZone"] == "us-east-1a"
    assert shown["InstanceMatchCriteria"] == "targeted"
    assert shown["State"] == "active"
    assert shown["OwnerId"].isdigit()


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def reservations_are_found_by_tag_and_criteria(client: AccountClient) -> None:
    team = fresh_name("team")
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": team}]}]
    targeted = create_reservation(client, TagSpecifications=tags)
    create_reservation(client, InstanceMatchCriteria="open", TagSpecifications=tags)
    (shown,) = describe_reservations(
        client,
        Filters=[
            {"Name": "tag:team", "Values": [team]},
            {"Name": "instance-match-criteria", "Values": ["targeted"]},
            {"Name": "state", "Values": ["active"]},
        ],
        MaxResults=1000,
    )
    assert shown["CapacityReservationId"] == targeted


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def a_reservation_grows_and_shrinks(client: AccountClient) -> None:
    identity = create_reservation(client, 2)
    response = client.call(
        "ec2", "ModifyCapacityReservation", CapacityReservationId=identity, InstanceCount=5
    )
    assert response == {"Return": True}
    (shown,) = describe_reservations(client, CapacityReservationIds=[identity])
    assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (5, 5)


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def a_cancelled_reservation_has_no_available_instances(client: AccountClient) -> None:
    identity = create_reservation(client)
    assert client.call("ec2", "CancelCapacityReservation", CapacityReservationId=identity) == {
        "Return": True
    }
    (shown,) = describe_reservations(client, CapacityReservationIds=[identity])
    assert (shown["State"], shown["AvailableInstanceCount"]) == ("cancelled", 0)


@contract_case(moto_wrong=MOTO_LACKS_RESERVATIONS)
def a_reservation_that_does_not_exist_is_an_error(client: AccountClient) -> None:
    wrong = "cr-0123456789abcdef0"
    code, status = expect_error(
        client, "ec2", "DescribeCapacityReservations", CapacityReservationIds=[wrong]
    )
    assert (code, status) == ("InvalidCapacityReservationId.NotFound", 400)


class FleetSetup:
    """A VPC and a launch template."""

    def __init__(self, client: AccountClient, **data: Any) -> None:
        home = create_vpc(client)
        self.group = create_security_group(client, home, fresh_name("nodes"))
        self.subnets = {
            f"us-east-1{letter}": create_subnet(client, home, third, f"us-east-1{letter}")[
                "SubnetId"
            ]
            for third, letter in enumerate("ab")
        }
        self.template = fresh_name("fleet")
        client.call(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName=self.template,
            LaunchTemplateData={
                "ImageId": any_image(client),
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
        self, client: AccountClient, *overrides: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        return client.call("ec2", "CreateFleet", **self.request(*overrides, **more))

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
def the_cheapest_capacity_pool_is_used(client: AccountClient) -> None:
    ground = FleetSetup(client)
    cheap, dear = ground.override("c5.large"), ground.override("m5.4xlarge", "us-east-1b")
    response = ground.launch(client, dear, cheap)
    (created,) = response["Instances"]
    assert created["InstanceType"] == "c5.large"
    assert created["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] == "us-east-1a"
    assert not response.get("Errors")


@contract_case(moto_wrong="its machines have no security group of the template")
def an_instance_of_a_fleet_matches_its_template(client: AccountClient) -> None:
    ground = FleetSetup(client)
    response = ground.launch(client, ground.override("c5.large"))
    (identity,) = response["Instances"][0]["InstanceIds"]
    (instance,) = describe_instances(client, InstanceIds=[identity])
    assert [each["GroupId"] for each in instance["SecurityGroups"]] == [ground.group]
    assert instance["SubnetId"] == ground.subnets["us-east-1a"]
    assert instance["ImageId"] == any_image(client)


@contract_case()
def a_template_that_does_not_exist_is_an_error(client: AccountClient) -> None:
    ground = FleetSetup(client)
    request = ground.request(ground.override("c5.large"))
    template = {"LaunchTemplateName": "none", "Version": "$Latest"}
    request["LaunchTemplateConfigs"][0]["LaunchTemplateSpecification"] = template
    code, status = expect_error(client, "ec2", "CreateFleet", **request)
    assert (code, status) == ("InvalidLaunchTemplateName.NotFoundException", 400)


@contract_case()
def a_dry_run_launches_nothing(client: AccountClient) -> None:
    ground = FleetSetup(client)
    request = ground.request(ground.override("c5.large"), DryRun=True)
    assert expect_error(client, "ec2", "CreateFleet", **request) == ("DryRunOperation", 412)


@contract_case(moto_wrong="it accepts the same pool twice")
def a_duplicate_capacity_pool_is_an_error(client: AccountClient) -> None:
    ground = FleetSetup(client)
    same = ground.override("c5.large")
    code, status = expect_error(client, "ec2", "CreateFleet", **ground.request(same, same))
    assert (code, status) == ("InvalidFleetConfig", 400)


@contract_case(moto_wrong="it has no capacity reservations, and answers with a page of HTML")
def a_full_reservation_is_an_error_in_the_response(client: AccountClient) -> None:
    identity = create_reservation(client, 1)
    ground = FleetSetup(
        client,
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": identity},
        },
    )
    capacity_pool = ground.override("c5.large")
    (created,) = ground.launch(client, capacity_pool)["Instances"]
    (instance,) = describe_instances(client, InstanceIds=created["InstanceIds"])
    assert instance["CapacityReservationId"] == identity
    (shown,) = describe_reservations(client, CapacityReservationIds=[identity])
    assert shown["AvailableInstanceCount"] == 0
    response = ground.launch(client, capacity_pool)
    assert not response.get("Instances")
    (error,) = response["Errors"]
    assert error["ErrorCode"] == "ReservationCapacityExceeded"
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"] == "c5.large"


@contract_case(moto_wrong="the same token launches again")
def the_same_client_token_launches_once(client: AccountClient) -> None:
    ground = FleetSetup(client)
    request = ground.request(ground.override("c5.large"), ClientToken=fresh_name("token"))
    first, second = (client.call("ec2", "CreateFleet", **request) for _ in range(2))
    assert first["Instances"][0]["InstanceIds"] == second["Instances"][0]["InstanceIds"]
    assert first["FleetId"] == second["FleetId"]


@contract_case(moto_wrong="its spot machines have no request, by which clients know them")
def spot_instances_have_lifecycle_and_request(client: AccountClient) -> None:
    ground = FleetSetup(client)
    request = ground.request(ground.override("c5.large"))
    request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] = "spot"
    del request["OnDemandOptions"]
    request["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
    (created,) = client.call("ec2", "CreateFleet", **request)["Instances"]
    assert created["Lifecycle"] == "spot"
    (instance,) = describe_instances(client, InstanceIds=created["InstanceIds"])
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["SpotInstanceRequestId"].startswith("sir-")
