"""Launch templates, fleets and dry runs, and the errors within the answer of a fleet."""

from base64 import b64encode
from typing import Any

from tests.contract.client_checks.setup import (
    USER_DATA,
    change_emulator,
    create_reservation,
    create_template,
    describe_instances,
    fleet_override,
    fleet_request,
    image_id,
    launch_instances,
    profile_name,
    security_group_ids,
    subnets_by_zone,
    tag_specification,
    template_config,
    unique_name,
)
from tests.contract.clients import HttpClient, error_of, error_text, expect_error, fetch_pages
from tests.contract.registry import client_check

NOT_FOUND = ("InvalidLaunchTemplateName.NotFoundException", 400)
DRY = ("DryRunOperation", 412)
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")


def sixty_types(door: HttpClient) -> list[str]:
    """That all three zones have and the image fits."""
    found = fetch_pages(
        door,
        "ec2",
        "DescribeInstanceTypeOfferings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[
            {"Name": "instance-type", "Values": ["c5*", "m5*", "r5*", "c6i*", "m6i*", "r6i*"]},
            {"Name": "location", "Values": list(ZONES)},
        ],
        MaxResults=1000,
    )
    counts: dict[str, int] = {}
    for each in (each for page in found for each in page):
        counts[each["InstanceType"]] = counts.get(each["InstanceType"], 0) + 1
    everywhere = sorted(name for name, number in counts.items() if number == 3)
    return [name for name in everywhere if "metal" not in name][:60]


@client_check("calls DescribeLaunchTemplates", "needs 7")
def templates_by_name_and_by_tag(door: HttpClient) -> None:
    missing = expect_error(
        door, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=["karpenter.k8s.aws/none"]
    )
    assert missing == NOT_FOUND
    name = create_template(door)
    (found,) = door.ask("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])[
        "LaunchTemplates"
    ]
    assert found["LaunchTemplateName"] == name
    by_tag = fetch_pages(
        door,
        "ec2",
        "DescribeLaunchTemplates",
        "LaunchTemplates",
        Filters=[
            {"Name": "tag:eks:eks-cluster-name", "Values": ["wain"]},
            {"Name": "tag:karpenter.k8s.aws/ec2nodeclass", "Values": ["default"]},
        ],
        MaxResults=200,
    )
    assert found in [each for page in by_tag for each in page]


@client_check("big launch template")
def everything_that_a_template_says_is_kept(door: HttpClient) -> None:
    name = create_template(door, "cr-0123456789abcdef0")
    (version,) = door.ask("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateName=name)[
        "LaunchTemplateVersions"
    ]
    said = version["LaunchTemplateData"]
    assert said["UserData"] == b64encode(USER_DATA.encode()).decode()
    assert said["ImageId"] == image_id(door)
    assert said["IamInstanceProfile"]["Name"].startswith("wain_profile")
    assert said["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 20
    assert said["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    assert said["MetadataOptions"]["HttpTokens"] == "required"
    assert said["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert said["Monitoring"] == {"Enabled": False}
    assert said["EnclaveOptions"] == {"Enabled": False}
    assert said["NetworkInterfaces"] == [{"DeviceIndex": 0, "Groups": security_group_ids(door)}]
    assert said["TagSpecifications"] == [tag_specification("network-interface", team="web")]
    assert said["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"},
    }
    (shown,) = door.ask("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])[
        "LaunchTemplates"
    ]
    tags = {pair["Key"]: pair["Value"] for pair in shown["Tags"]}
    assert tags["karpenter.sh/nodepool"] == ""
    assert tags["markup"] == '<a> & "b"'


@client_check("calls CreateLaunchTemplate", alone=True)
def why_a_template_is_refused(door: HttpClient) -> None:
    large = b64encode(b"x" * 16_385).decode()
    message = error_text(lambda: create_template(door, UserData=large))
    assert message.startswith("InvalidUserData.Malformed: User data is limited to ")
    for code, status in (("UnauthorizedOperation", 403), ("RequestLimitExceeded", 503)):
        rule = {"operation": "CreateLaunchTemplate", "code": code, "status": status, "times": 1}
        change_emulator(door, faults=[rule])
        assert error_of(lambda: create_template(door)) == (code, status)
    assert create_template(door)


@client_check("calls DeleteLaunchTemplate", "needs 7")
def templates_go_by_id_and_by_name_and_come_again(door: HttpClient) -> None:
    name = create_template(door)
    (found,) = door.ask("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])[
        "LaunchTemplates"
    ]
    identity = found["LaunchTemplateId"]
    door.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateId=identity)
    code, _ = expect_error(door, "ec2", "DeleteLaunchTemplate", LaunchTemplateId=identity)
    assert code == "InvalidLaunchTemplateId.NotFound"
    for _ in range(2):
        door.ask(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": image_id(door)},
        )
        door.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
    assert expect_error(door, "ec2", "DeleteLaunchTemplate", LaunchTemplateName=name) == NOT_FOUND


@client_check("calls CreateFleet", "needs 2")
def the_dry_run_of_a_fleet(door: HttpClient) -> None:
    bare = {"InstanceType": "m5.large", "SubnetId": subnets_by_zone(door)["us-east-1a"]}
    request = fleet_request(template_config(create_template(door), [bare]), DryRun=True)
    assert expect_error(door, "ec2", "CreateFleet", **request) == DRY
    request = fleet_request(template_config("karpenter.k8s.aws/none", [bare]), DryRun=True)
    assert expect_error(door, "ec2", "CreateFleet", **request) == NOT_FOUND


@client_check("calls CreateFleet")
def merged_launches_give_several_ids(door: HttpClient) -> None:
    request = fleet_request(
        template_config(create_template(door), [fleet_override(door, "m5.large", "us-east-1b")]),
        number=2,
    )
    answer = door.ask("ec2", "CreateFleet", **request)
    (made,) = answer["Instances"]
    assert len(set(made["InstanceIds"])) == 2
    assert made["InstanceType"] == "m5.large"
    overrides = made["LaunchTemplateAndOverrides"]["Overrides"]
    assert overrides["AvailabilityZone"] == "us-east-1b"
    assert overrides["SubnetId"] == subnets_by_zone(door)["us-east-1b"]
    assert answer["FleetId"].startswith("fleet-")
    assert not answer.get("Errors")


@client_check("calls CreateFleet")
def a_template_that_was_deleted_meanwhile(door: HttpClient) -> None:
    request = fleet_request(
        template_config("karpenter.k8s.aws/none", [fleet_override(door, "m5.large", "us-east-1a")])
    )
    assert expect_error(door, "ec2", "CreateFleet", **request) == NOT_FOUND


@client_check("calls CreateFleet", alone=True)
def a_fleet_that_the_client_may_not_launch(door: HttpClient) -> None:
    rule = {"operation": "CreateFleet", "code": "UnauthorizedOperation", "status": 403}
    change_emulator(door, faults=[rule])
    request = fleet_request(
        template_config(create_template(door), [fleet_override(door, "m5.large", "us-east-1a")]),
        DryRun=True,
    )
    assert expect_error(door, "ec2", "CreateFleet", **request) == ("UnauthorizedOperation", 403)


@client_check("calls RunInstances", "needs 2")
def the_dry_run_of_a_machine(door: HttpClient) -> None:
    assert (
        expect_error(door, "ec2", "RunInstances", **run_request(door, create_template(door))) == DRY
    )


def run_request(door: HttpClient, name: str) -> dict[str, Any]:
    kinds = ("instance", "volume", "network-interface")
    return {
        "DryRun": True,
        "MinCount": 1,
        "MaxCount": 1,
        "LaunchTemplate": {"LaunchTemplateName": name, "Version": "$Latest"},
        "InstanceType": "m5.large",
        "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": subnets_by_zone(door)["us-east-1a"]}],
        "TagSpecifications": [
            tag_specification(kind, **{"karpenter.sh/nodepool": ""}) for kind in kinds
        ],
    }


@client_check("calls RunInstances")
def a_profile_that_is_not_there_yet(door: HttpClient) -> None:
    name = profile_name(door)
    made = create_template(door, IamInstanceProfile={"Name": name})
    role = "KarpenterNodeRole-wain"
    door.ask("iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=role)
    door.ask("iam", "DeleteInstanceProfile", InstanceProfileName=name)
    message = error_text(lambda: door.ask("ec2", "RunInstances", **run_request(door, made)))
    assert message.startswith("InvalidParameterValue: ")
    assert "Invalid IAM Instance Profile name" in message


@client_check("big fleet")
def a_fleet_of_180_overrides_in_three_configs(door: HttpClient) -> None:
    names, places = sixty_types(door), subnets_by_zone(door)
    assert len(names) == 60
    overrides: list[dict[str, Any]] = [
        {
            "InstanceType": name,
            "SubnetId": places[zone],
            "AvailabilityZone": zone,
            "ImageId": image_id(door),
            "Priority": 0.01 * number + 0.001,
        }
        for number, name in enumerate(names)
        for zone in ZONES
    ]
    configs = [
        template_config(create_template(door), part)
        for part in (overrides[:57], overrides[57:69], overrides[69:])
    ]
    answer = door.ask("ec2", "CreateFleet", **fleet_request(*configs))
    (made,) = answer["Instances"]
    assert made["InstanceType"] in names
    assert made["LaunchTemplateAndOverrides"]["Overrides"]["ImageId"] == image_id(door)
    (machine,) = describe_instances(door, InstanceIds=made["InstanceIds"])
    assert machine["InstanceType"] == made["InstanceType"]


@client_check("big reserved fleet")
def a_reserved_fleet_is_on_demand_with_a_target(door: HttpClient) -> None:
    identity = create_reservation(door, 1)
    price = 0.00000007808000000000001
    overrides = [fleet_override(door, "m5.large", "us-east-1a", Priority=price)]
    answer = door.ask(
        "ec2",
        "CreateFleet",
        **fleet_request(template_config(create_template(door, identity), overrides)),
    )
    (made,) = answer["Instances"]
    assert made["Lifecycle"] == "on-demand"
    assert made["LaunchTemplateAndOverrides"]["Overrides"]["Priority"] == price
    (machine,) = describe_instances(door, InstanceIds=made["InstanceIds"])
    assert machine["CapacityReservationId"] == identity
    specification = machine["CapacityReservationSpecification"]
    assert specification["CapacityReservationPreference"] == "capacity-reservations-only"


@client_check("needs 8")
def a_machine_is_made_of_template_and_override(door: HttpClient) -> None:
    (identity,) = launch_instances(door, zone="us-east-1c")
    (machine,) = describe_instances(door, InstanceIds=[identity])
    assert [each["GroupId"] for each in machine["SecurityGroups"]] == security_group_ids(door)
    assert ":instance-profile/karpenter/test/wain_profile" in machine["IamInstanceProfile"]["Arn"]
    assert machine["MetadataOptions"]["HttpTokens"] == "required"
    assert machine["SubnetId"] == subnets_by_zone(door)["us-east-1c"]
    assert machine["Placement"]["AvailabilityZone"] == "us-east-1c"
    assert machine["Placement"]["AvailabilityZoneId"].startswith("use1-az")
    assert "SpotInstanceRequestId" not in machine
    tags = {pair["Key"]: pair["Value"] for pair in machine["Tags"]}
    assert tags["karpenter.sh/nodepool"] == "default"
    attribute = door.ask(
        "ec2", "DescribeInstanceAttribute", InstanceId=identity, Attribute="userData"
    )
    assert attribute["UserData"]["Value"] == b64encode(USER_DATA.encode()).decode()


@client_check("needs 8")
def a_spot_machine_has_a_request(door: HttpClient) -> None:
    (machine,) = describe_instances(door, InstanceIds=launch_instances(door, spot=True))
    assert machine["SpotInstanceRequestId"].startswith("sir-")
    assert machine["InstanceLifecycle"] == "spot"


@client_check("needs 8")
def preference_none_does_not_join_an_open_reservation(door: HttpClient) -> None:
    identity = create_reservation(door, 1, "r5.large", InstanceMatchCriteria="open")
    (machine,) = describe_instances(door, InstanceIds=launch_instances(door, "r5.large"))
    assert "CapacityReservationId" not in machine
    (shown,) = door.ask("ec2", "DescribeCapacityReservations", CapacityReservationIds=[identity])[
        "CapacityReservations"
    ]
    assert shown["AvailableInstanceCount"] == 1


@client_check("needs 8")
def a_token_that_is_sent_again_launches_nothing_new(door: HttpClient) -> None:
    overrides = [fleet_override(door, "m5.large", "us-east-1a")]
    request = fleet_request(
        template_config(create_template(door), overrides), ClientToken=unique_name("token")
    )
    first, second = (door.ask("ec2", "CreateFleet", **request) for _ in range(2))
    assert first["Instances"] == second["Instances"]


def failed(door: HttpClient, *pools: dict[str, Any], **how: Any) -> list[Any]:
    """The errors of a fleet that launches nothing; each says which pool it was."""
    answer = door.ask(
        "ec2",
        "CreateFleet",
        **fleet_request(template_config(create_template(door), list(pools)), **how),
    )
    assert not answer.get("Instances")
    for error in answer["Errors"]:
        overrides = error["LaunchTemplateAndOverrides"]["Overrides"]
        assert overrides["InstanceType"]
        assert overrides["AvailabilityZone"]
        assert overrides["SubnetId"]
        assert error["ErrorMessage"]
    return list(answer["Errors"])


def codes(errors: list[Any]) -> list[str]:
    return [each["ErrorCode"] for each in errors]


@client_check("errors InsufficientInstanceCapacity", alone=True)
def a_pool_without_stock(door: HttpClient) -> None:
    change_emulator(door, unavailable=[{"instanceType": "m5.large", "zone": "us-east-1a"}])
    empty = fleet_override(door, "m5.large", "us-east-1a")
    (error,) = failed(door, empty)
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert error["Lifecycle"] == "on-demand"
    assert "us-east-1a" in error["ErrorMessage"]
    (error,) = failed(door, empty, spot=True)
    assert (error["ErrorCode"], error["Lifecycle"]) == ("InsufficientInstanceCapacity", "spot")


@client_check("errors instances and errors", alone=True)
def the_next_pool_is_taken_and_the_failed_one_told(door: HttpClient) -> None:
    change_emulator(door, stock=[{"instanceType": "m5.large", "free": 1}])
    first, second = (
        fleet_override(door, "m5.large", "us-east-1a"),
        fleet_override(door, "m5.xlarge", "us-east-1b"),
    )
    answer = door.ask(
        "ec2",
        "CreateFleet",
        **fleet_request(template_config(create_template(door), [second, first]), number=3),
    )
    got = {each["InstanceType"]: len(each["InstanceIds"]) for each in answer["Instances"]}
    assert got == {"m5.large": 1, "m5.xlarge": 2}
    assert codes(answer["Errors"]) == ["InsufficientInstanceCapacity"]


@client_check("errors VcpuLimitExceeded", alone=True)
def more_vcpus_than_the_account_may_have(door: HttpClient) -> None:
    change_emulator(door, quota={"onDemand": {"standard": 1}})
    assert codes(failed(door, fleet_override(door, "m5.large", "us-east-1a"))) == [
        "VcpuLimitExceeded"
    ]


@client_check("errors MaxFleetCountExceeded", alone=True)
def more_fleets_than_the_account_may_have(door: HttpClient) -> None:
    change_emulator(door, quota={"fleets": 1})
    one = fleet_override(door, "m5.large", "us-east-1a")
    answer = door.ask(
        "ec2", "CreateFleet", **fleet_request(template_config(create_template(door), [one]))
    )
    assert answer["Instances"]
    assert codes(failed(door, one)) == ["MaxFleetCountExceeded"]


@client_check("errors MaxSpotInstanceCountExceeded", alone=True)
def more_spot_vcpus_than_the_account_may_have(door: HttpClient) -> None:
    change_emulator(door, quota={"spot": {"standard": 1}})
    errors = failed(door, fleet_override(door, "m5.large", "us-east-1a"), spot=True)
    assert codes(errors) == ["MaxSpotInstanceCountExceeded"]


@client_check("errors AuthFailure.ServiceLinkedRoleCreationNotPermitted", alone=True)
def spot_without_the_role_for_it(door: HttpClient) -> None:
    door.ask("iam", "DeleteServiceLinkedRole", RoleName="AWSServiceRoleForEC2Spot")
    change_emulator(door, quota={"spotRole": False})
    errors = failed(door, fleet_override(door, "m5.large", "us-east-1a"), spot=True)
    assert codes(errors) == ["AuthFailure.ServiceLinkedRoleCreationNotPermitted"]


@client_check("errors Unsupported")
def a_zone_that_does_not_have_the_type(door: HttpClient) -> None:
    offered = door.ask(
        "ec2",
        "DescribeInstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "location", "Values": ["us-east-1e"]}],
    )["InstanceTypeOfferings"]
    assert "m7i.large" not in {each["InstanceType"] for each in offered}
    assert codes(failed(door, fleet_override(door, "m7i.large", "us-east-1e"))) == ["Unsupported"]


@client_check("errors InsufficientFreeAddressesInSubnet", "needs 10")
def a_subnet_without_addresses(door: HttpClient) -> None:
    home = door.ask("ec2", "CreateVpc", CidrBlock="10.77.0.0/24")["Vpc"]["VpcId"]
    small = door.ask(
        "ec2",
        "CreateSubnet",
        VpcId=home,
        CidrBlock="10.77.0.0/28",
        AvailabilityZone="us-east-1a",
    )["Subnet"]
    assert small["AvailableIpAddressCount"] == 11
    group = door.ask(
        "ec2", "CreateSecurityGroup", GroupName="small", Description="small", VpcId=home
    )["GroupId"]
    name = create_template(door, NetworkInterfaces=[{"DeviceIndex": 0, "Groups": [group]}])
    only = {"InstanceType": "m5.large", "SubnetId": small["SubnetId"]}

    def free() -> int:
        (found,) = door.ask("ec2", "DescribeSubnets", SubnetIds=[small["SubnetId"]])["Subnets"]
        return int(found["AvailableIpAddressCount"])

    answer = door.ask(
        "ec2", "CreateFleet", **fleet_request(template_config(name, [only]), number=11)
    )
    assert len(answer["Instances"][0]["InstanceIds"]) == 11
    assert free() == 0
    answer = door.ask("ec2", "CreateFleet", **fleet_request(template_config(name, [only])))
    assert codes(answer["Errors"]) == ["InsufficientFreeAddressesInSubnet"]
    overrides = answer["Errors"][0]["LaunchTemplateAndOverrides"]["Overrides"]
    assert overrides["SubnetId"] == small["SubnetId"]


@client_check("errors ReservationCapacityExceeded", "needs 8")
def a_full_reservation_is_no_reason_to_launch_on_demand(door: HttpClient) -> None:
    identity = create_reservation(door, 1)
    request = fleet_request(
        template_config(
            create_template(door, identity), [fleet_override(door, "m5.large", "us-east-1a")]
        )
    )
    assert door.ask("ec2", "CreateFleet", **request)["Instances"]
    answer = door.ask("ec2", "CreateFleet", **request)
    assert not answer.get("Instances")
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "ReservationCapacityExceeded"
    overrides = error["LaunchTemplateAndOverrides"]["Overrides"]
    assert (overrides["InstanceType"], overrides["AvailabilityZone"]) == ("m5.large", "us-east-1a")


@client_check("errors UnfulfillableCapacity")
def a_request_that_leaves_nothing_to_try(door: HttpClient) -> None:
    """Templates with a target are not used by those who use up open reservations first."""
    name = create_template(door, create_reservation(door, 1))
    request = fleet_request(template_config(name, [fleet_override(door, "m5.large", "us-east-1a")]))
    request["OnDemandOptions"]["CapacityReservationOptions"] = {
        "UsageStrategy": "use-capacity-reservations-first"
    }
    answer = door.ask("ec2", "CreateFleet", **request)
    assert codes(answer["Errors"]) == ["UnfulfillableCapacity"]


@client_check("needs 8")
def the_machines_of_a_partial_answer_exist(door: HttpClient) -> None:
    identity = create_reservation(door, 1)
    name, mark = create_template(door, identity), unique_name("mark")
    request = fleet_request(
        template_config(name, [fleet_override(door, "m5.large", "us-east-1a")]), number=3
    )
    request["TagSpecifications"][0]["Tags"].append({"Key": "mark", "Value": mark})
    answer = door.ask("ec2", "CreateFleet", **request)
    (made,) = answer["Instances"]
    assert len(made["InstanceIds"]) == 1
    assert codes(answer["Errors"]) == ["ReservationCapacityExceeded"]
    found = describe_instances(door, Filters=[{"Name": "tag:mark", "Values": [mark]}])
    assert [each["InstanceId"] for each in found] == made["InstanceIds"]
