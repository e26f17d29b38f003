"""Launch templates, fleets and dry runs, and the errors in the response of a fleet."""

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


def sixty_types(client: HttpClient) -> list[str]:
    """Types that all three zones offer and that fit the image."""
    pages = fetch_pages(
        client,
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
    for each in (each for page in pages for each in page):
        counts[each["InstanceType"]] = counts.get(each["InstanceType"], 0) + 1
    everywhere = sorted(name for name, number in counts.items() if number == 3)
    return [name for name in everywhere if "metal" not in name][:60]


@client_check("calls DescribeLaunchTemplates", "needs 7")
def templates_by_name_and_by_tag(client: HttpClient) -> None:
    missing = expect_error(
        client, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=["karpenter.k8s.aws/none"]
    )
    assert missing == NOT_FOUND
    name = create_template(client)
    (found,) = client.call("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])[
        "LaunchTemplates"
    ]
    assert found["LaunchTemplateName"] == name
    by_tag = fetch_pages(
        client,
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
def everything_that_a_template_says_is_kept(client: HttpClient) -> None:
    name = create_template(client, "cr-0123456789abcdef0")
    (version,) = client.call("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateName=name)[
        "LaunchTemplateVersions"
    ]
    content = version["LaunchTemplateData"]
    assert content["UserData"] == b64encode(USER_DATA.encode()).decode()
    assert content["ImageId"] == image_id(client)
    assert content["IamInstanceProfile"]["Name"].startswith("wain_profile")
    assert content["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 20
    assert content["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    assert content["MetadataOptions"]["HttpTokens"] == "required"
    assert content["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert content["Monitoring"] == {"Enabled": False}
    assert content["EnclaveOptions"] == {"Enabled": False}
    assert content["NetworkInterfaces"] == [
        {"DeviceIndex": 0, "Groups": security_group_ids(client)}
    ]
    assert content["TagSpecifications"] == [tag_specification("network-interface", team="web")]
    assert content["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"},
    }
    (shown,) = client.call("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])[
        "LaunchTemplates"
    ]
    tags = {pair["Key"]: pair["Value"] for pair in shown["Tags"]}
    assert tags["karpenter.sh/nodepool"] == ""
    assert tags["markup"] == '<a> & "b"'


@client_check("calls CreateLaunchTemplate", own_account=True)
def why_a_template_is_refused(client: HttpClient) -> None:
    large = b64encode(b"x" * 16_385).decode()
    message = error_text(lambda: create_template(client, UserData=large))
    assert message.startswith("InvalidUserData.Malformed: User data is limited to ")
    for code, status in (("UnauthorizedOperation", 403), ("RequestLimitExceeded", 503)):
        rule = {"operation": "CreateLaunchTemplate", "code": code, "status": status, "times": 1}
        change_emulator(client, faults=[rule])
        assert error_of(lambda: create_template(client)) == (code, status)
    assert create_template(client)


@client_check("calls DeleteLaunchTemplate", "needs 7")
def templates_go_by_id_and_by_name_and_come_again(client: HttpClient) -> None:
    name = create_template(client)
    (found,) = client.call("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])[
        "LaunchTemplates"
    ]
    identity = found["LaunchTemplateId"]
    client.call("ec2", "DeleteLaunchTemplate", LaunchTemplateId=identity)
    code, _ = expect_error(client, "ec2", "DeleteLaunchTemplate", LaunchTemplateId=identity)
    assert code == "InvalidLaunchTemplateId.NotFound"
    for _ in range(2):
        client.call(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": image_id(client)},
        )
        client.call("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
    assert expect_error(client, "ec2", "DeleteLaunchTemplate", LaunchTemplateName=name) == NOT_FOUND


@client_check("calls CreateFleet", "needs 2")
def the_dry_run_of_a_fleet(client: HttpClient) -> None:
    bare = {"InstanceType": "m5.large", "SubnetId": subnets_by_zone(client)["us-east-1a"]}
    request = fleet_request(template_config(create_template(client), [bare]), DryRun=True)
    assert expect_error(client, "ec2", "CreateFleet", **request) == DRY
    request = fleet_request(template_config("karpenter.k8s.aws/none", [bare]), DryRun=True)
    assert expect_error(client, "ec2", "CreateFleet", **request) == NOT_FOUND


@client_check("calls CreateFleet")
def merged_launches_give_several_ids(client: HttpClient) -> None:
    request = fleet_request(
        template_config(
            create_template(client), [fleet_override(client, "m5.large", "us-east-1b")]
        ),
        number=2,
    )
    response = client.call("ec2", "CreateFleet", **request)
    (created,) = response["Instances"]
    assert len(set(created["InstanceIds"])) == 2
    assert created["InstanceType"] == "m5.large"
    overrides = created["LaunchTemplateAndOverrides"]["Overrides"]
    assert overrides["AvailabilityZone"] == "us-east-1b"
    assert overrides["SubnetId"] == subnets_by_zone(client)["us-east-1b"]
    assert response["FleetId"].startswith("fleet-")
    assert not response.get("Errors")


@client_check("calls CreateFleet")
def a_template_that_was_deleted_meanwhile(client: HttpClient) -> None:
    request = fleet_request(
        template_config(
            "karpenter.k8s.aws/none", [fleet_override(client, "m5.large", "us-east-1a")]
        )
    )
    assert expect_error(client, "ec2", "CreateFleet", **request) == NOT_FOUND


@client_check("calls CreateFleet", own_account=True)
def a_fleet_that_the_client_may_not_launch(client: HttpClient) -> None:
    rule = {"operation": "CreateFleet", "code": "UnauthorizedOperation", "status": 403}
    change_emulator(client, faults=[rule])
    request = fleet_request(
        template_config(
            create_template(client), [fleet_override(client, "m5.large", "us-east-1a")]
        ),
        DryRun=True,
    )
    assert expect_error(client, "ec2", "CreateFleet", **request) == ("UnauthorizedOperation", 403)


@client_check("calls RunInstances", "needs 2")
def the_dry_run_of_an_instance(client: HttpClient) -> None:
    assert (
        expect_error(client, "ec2", "RunInstances", **run_request(client, create_template(client)))
        == DRY
    )


def run_request(client: HttpClient, name: str) -> dict[str, Any]:
    kinds = ("instance", "volume", "network-interface")
    return {
        "DryRun": True,
        "MinCount": 1,
        "MaxCount": 1,
        "LaunchTemplate": {"LaunchTemplateName": name, "Version": "$Latest"},
        "InstanceType": "m5.large",
        "NetworkInterfaces": [
            {"DeviceIndex": 0, "SubnetId": subnets_by_zone(client)["us-east-1a"]}
        ],
        "TagSpecifications": [
            tag_specification(kind, **{"karpenter.sh/nodepool": ""}) for kind in kinds
        ],
    }


@client_check("calls RunInstances")
def a_profile_that_is_not_there_yet(client: HttpClient) -> None:
    name = profile_name(client)
    created = create_template(client, IamInstanceProfile={"Name": name})
    role = "KarpenterNodeRole-wain"
    client.call("iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=role)
    client.call("iam", "DeleteInstanceProfile", InstanceProfileName=name)
    message = error_text(lambda: client.call("ec2", "RunInstances", **run_request(client, created)))
    assert message.startswith("InvalidParameterValue: ")
    assert "Invalid IAM Instance Profile name" in message


@client_check("big fleet")
def a_fleet_of_180_overrides_in_three_configs(client: HttpClient) -> None:
    names, places = sixty_types(client), subnets_by_zone(client)
    assert len(names) == 60
    overrides: list[dict[str, Any]] = [
        {
            "InstanceType": name,
            "SubnetId": places[zone],
            "AvailabilityZone": zone,
            "ImageId": image_id(client),
            "Priority": 0.01 * number + 0.001,
        }
        for number, name in enumerate(names)
        for zone in ZONES
    ]
    configs = [
        template_config(create_template(client), part)
        for part in (overrides[:57], overrides[57:69], overrides[69:])
    ]
    response = client.call("ec2", "CreateFleet", **fleet_request(*configs))
    (created,) = response["Instances"]
    assert created["InstanceType"] in names
    assert created["LaunchTemplateAndOverrides"]["Overrides"]["ImageId"] == image_id(client)
    (instance,) = describe_instances(client, InstanceIds=created["InstanceIds"])
    assert instance["InstanceType"] == created["InstanceType"]


@client_check("big reserved fleet")
def a_reserved_fleet_is_on_demand_with_a_target(client: HttpClient) -> None:
    identity = create_reservation(client, 1)
    price = 0.00000007808000000000001
    overrides = [fleet_override(client, "m5.large", "us-east-1a", Priority=price)]
    response = client.call(
        "ec2",
        "CreateFleet",
        **fleet_request(template_config(create_template(client, identity), overrides)),
    )
    (created,) = response["Instances"]
    assert created["Lifecycle"] == "on-demand"
    assert created["LaunchTemplateAndOverrides"]["Overrides"]["Priority"] == price
    (instance,) = describe_instances(client, InstanceIds=created["InstanceIds"])
    assert instance["CapacityReservationId"] == identity
    specification = instance["CapacityReservationSpecification"]
    assert specification["CapacityReservationPreference"] == "capacity-reservations-only"


@client_check("needs 8")
def an_instance_is_made_of_template_and_override(client: HttpClient) -> None:
    (identity,) = launch_instances(client, zone="us-east-1c")
    (instance,) = describe_instances(client, InstanceIds=[identity])
    assert [each["GroupId"] for each in instance["SecurityGroups"]] == security_group_ids(client)
    assert ":instance-profile/karpenter/test/wain_profile" in instance["IamInstanceProfile"]["Arn"]
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["SubnetId"] == subnets_by_zone(client)["us-east-1c"]
    assert instance["Placement"]["AvailabilityZone"] == "us-east-1c"
    assert instance["Placement"]["AvailabilityZoneId"].startswith("use1-az")
    assert "SpotInstanceRequestId" not in instance
    tags = {pair["Key"]: pair["Value"] for pair in instance["Tags"]}
    assert tags["karpenter.sh/nodepool"] == "default"
    attribute = client.call(
        "ec2", "DescribeInstanceAttribute", InstanceId=identity, Attribute="userData"
    )
    assert attribute["UserData"]["Value"] == b64encode(USER_DATA.encode()).decode()


@client_check("needs 8")
def a_spot_instance_has_a_request(client: HttpClient) -> None:
    (instance,) = describe_instances(client, InstanceIds=launch_instances(client, spot=True))
    assert instance["SpotInstanceRequestId"].startswith("sir-")
    assert instance["InstanceLifecycle"] == "spot"


@client_check("needs 8")
def preference_none_does_not_join_an_open_reservation(client: HttpClient) -> None:
    identity = create_reservation(client, 1, "r5.large", InstanceMatchCriteria="open")
    (instance,) = describe_instances(client, InstanceIds=launch_instances(client, "r5.large"))
    assert "CapacityReservationId" not in instance
    (shown,) = client.call(
        "ec2", "DescribeCapacityReservations", CapacityReservationIds=[identity]
    )["CapacityReservations"]
    assert shown["AvailableInstanceCount"] == 1


@client_check("needs 8")
def a_token_that_is_sent_again_launches_nothing_new(client: HttpClient) -> None:
    overrides = [fleet_override(client, "m5.large", "us-east-1a")]
    request = fleet_request(
        template_config(create_template(client), overrides), ClientToken=unique_name("token")
    )
    first, second = (client.call("ec2", "CreateFleet", **request) for _ in range(2))
    assert first["Instances"] == second["Instances"]


def failed(client: HttpClient, *capacity_pools: dict[str, Any], **how: Any) -> list[Any]:
    """The errors of a fleet that launches nothing; each names its capacity pool."""
    response = client.call(
        "ec2",
        "CreateFleet",
        **fleet_request(template_config(create_template(client), list(capacity_pools)), **how),
    )
    assert not response.get("Instances")
    for error in response["Errors"]:
        overrides = error["LaunchTemplateAndOverrides"]["Overrides"]
        assert overrides["InstanceType"]
        assert overrides["AvailabilityZone"]
        assert overrides["SubnetId"]
        assert error["ErrorMessage"]
    return list(response["Errors"])


def codes(errors: list[Any]) -> list[str]:
    return [each["ErrorCode"] for each in errors]


@client_check("errors InsufficientInstanceCapacity", own_account=True)
def a_pool_without_stock(client: HttpClient) -> None:
    change_emulator(client, unavailable=[{"instanceType": "m5.large", "zone": "us-east-1a"}])
    empty = fleet_override(client, "m5.large", "us-east-1a")
    (error,) = failed(client, empty)
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert error["Lifecycle"] == "on-demand"
    assert "us-east-1a" in error["ErrorMessage"]
    (error,) = failed(client, empty, spot=True)
    assert (error["ErrorCode"], error["Lifecycle"]) == ("InsufficientInstanceCapacity", "spot")


@client_check("errors instances and errors", own_account=True)
def the_next_capacity_pool_is_used_and_the_failed_one_reported(client: HttpClient) -> None:
    change_emulator(client, stock=[{"instanceType": "m5.large", "free": 1}])
    first, second = (
        fleet_override(client, "m5.large", "us-east-1a"),
        fleet_override(client, "m5.xlarge", "us-east-1b"),
    )
    response = client.call(
        "ec2",
        "CreateFleet",
        **fleet_request(template_config(create_template(client), [second, first]), number=3),
    )
    got = {each["InstanceType"]: len(each["InstanceIds"]) for each in response["Instances"]}
    assert got == {"m5.large": 1, "m5.xlarge": 2}
    assert codes(response["Errors"]) == ["InsufficientInstanceCapacity"]


@client_check("errors VcpuLimitExceeded", own_account=True)
def more_vcpus_than_the_account_may_have(client: HttpClient) -> None:
    change_emulator(client, quota={"onDemand": {"standard": 1}})
    assert codes(failed(client, fleet_override(client, "m5.large", "us-east-1a"))) == [
        "VcpuLimitExceeded"
    ]


@client_check("errors MaxFleetCountExceeded", own_account=True)
def more_fleets_than_the_account_may_have(client: HttpClient) -> None:
    change_emulator(client, quota={"fleets": 1})
    single = fleet_override(client, "m5.large", "us-east-1a")
    response = client.call(
        "ec2", "CreateFleet", **fleet_request(template_config(create_template(client), [single]))
    )
    assert response["Instances"]
    assert codes(failed(client, single)) == ["MaxFleetCountExceeded"]


@client_check("errors MaxSpotInstanceCountExceeded", own_account=True)
def more_spot_vcpus_than_the_account_may_have(client: HttpClient) -> None:
    change_emulator(client, quota={"spot": {"standard": 1}})
    errors = failed(client, fleet_override(client, "m5.large", "us-east-1a"), spot=True)
    assert codes(errors) == ["MaxSpotInstanceCountExceeded"]


@client_check("errors AuthFailure.ServiceLinkedRoleCreationNotPermitted", own_account=True)
def spot_without_the_role_for_it(client: HttpClient) -> None:
    client.call("iam", "DeleteServiceLinkedRole", RoleName="AWSServiceRoleForEC2Spot")
    change_emulator(client, quota={"spotRole": False})
    errors = failed(client, fleet_override(client, "m5.large", "us-east-1a"), spot=True)
    assert codes(errors) == ["AuthFailure.ServiceLinkedRoleCreationNotPermitted"]


@client_check("errors Unsupported")
def a_zone_that_does_not_have_the_type(client: HttpClient) -> None:
    offered = client.call(
        "ec2",
        "DescribeInstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "location", "Values": ["us-east-1e"]}],
    )["InstanceTypeOfferings"]
    assert "m7i.large" not in {each["InstanceType"] for each in offered}
    assert codes(failed(client, fleet_override(client, "m7i.large", "us-east-1e"))) == [
        "Unsupported"
    ]


@client_check("errors InsufficientFreeAddressesInSubnet", "needs 10")
def a_subnet_without_addresses(client: HttpClient) -> None:
    home = client.call("ec2", "CreateVpc", CidrBlock="10.77.0.0/24")["Vpc"]["VpcId"]
    small = client.call(
        "ec2",
        "CreateSubnet",
        VpcId=home,
        CidrBlock="10.77.0.0/28",
        AvailabilityZone="us-east-1a",
    )["Subnet"]
    assert small["AvailableIpAddressCount"] == 11
    group = client.call(
        "ec2", "CreateSecurityGroup", GroupName="small", Description="small", VpcId=home
    )["GroupId"]
    name = create_template(client, NetworkInterfaces=[{"DeviceIndex": 0, "Groups": [group]}])
    only = {"InstanceType": "m5.large", "SubnetId": small["SubnetId"]}

    def free() -> int:
        (subnet,) = client.call("ec2", "DescribeSubnets", SubnetIds=[small["SubnetId"]])["Subnets"]
        return int(subnet["AvailableIpAddressCount"])

    response = client.call(
        "ec2", "CreateFleet", **fleet_request(template_config(name, [only]), number=11)
    )
    assert len(response["Instances"][0]["InstanceIds"]) == 11
    assert free() == 0
    response = client.call("ec2", "CreateFleet", **fleet_request(template_config(name, [only])))
    assert codes(response["Errors"]) == ["InsufficientFreeAddressesInSubnet"]
    overrides = response["Errors"][0]["LaunchTemplateAndOverrides"]["Overrides"]
    assert overrides["SubnetId"] == small["SubnetId"]


@client_check("errors ReservationCapacityExceeded", "needs 8")
def a_full_reservation_is_no_reason_to_launch_on_demand(client: HttpClient) -> None:
    identity = create_reservation(client, 1)
    request = fleet_request(
        template_config(
            create_template(client, identity), [fleet_override(client, "m5.large", "us-east-1a")]
        )
    )
    assert client.call("ec2", "CreateFleet", **request)["Instances"]
    response = client.call("ec2", "CreateFleet", **request)
    assert not response.get("Instances")
    (error,) = response["Errors"]
    assert error["ErrorCode"] == "ReservationCapacityExceeded"
    overrides = error["LaunchTemplateAndOverrides"]["Overrides"]
    assert (overrides["InstanceType"], overrides["AvailabilityZone"]) == ("m5.large", "us-east-1a")


@client_check("errors UnfulfillableCapacity")
def an_unfulfillable_request(client: HttpClient) -> None:
    """Templates with a target are not used where open reservations are used first."""
    name = create_template(client, create_reservation(client, 1))
    request = fleet_request(
        template_config(name, [fleet_override(client, "m5.large", "us-east-1a")])
    )
    request["OnDemandOptions"]["CapacityReservationOptions"] = {
        "UsageStrategy": "use-capacity-reservations-first"
    }
    response = client.call("ec2", "CreateFleet", **request)
    assert codes(response["Errors"]) == ["UnfulfillableCapacity"]


@client_check("needs 8")
def instances_of_a_partial_response_exist(client: HttpClient) -> None:
    identity = create_reservation(client, 1)
    name, mark = create_template(client, identity), unique_name("mark")
    request = fleet_request(
        template_config(name, [fleet_override(client, "m5.large", "us-east-1a")]), number=3
    )
    request["TagSpecifications"][0]["Tags"].append({"Key": "mark", "Value": mark})
    response = client.call("ec2", "CreateFleet", **request)
    (created,) = response["Instances"]
    assert len(created["InstanceIds"]) == 1
    assert codes(response["Errors"]) == ["ReservationCapacityExceeded"]
    instance = describe_instances(client, Filters=[{"Name": "tag:mark", "Values": [mark]}])
    assert [each["InstanceId"] for each in instance] == created["InstanceIds"]
