"""Launch templates, fleets and dry runs."""

from base64 import b64encode
from typing import Any

from tests.contract.doors import OverHttp, complaint, pages, refusal, refused
from tests.contract.line import line
from tests.contract.lines.scene import (
    USER_DATA,
    change,
    config,
    fleet,
    groups,
    image,
    launched,
    machines,
    pool,
    profile,
    reserve,
    subnets,
    tagged,
    template,
    unique,
)

NOT_FOUND = ("InvalidLaunchTemplateName.NotFoundException", 400)
DRY = ("DryRunOperation", 412)
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")


def sixty_types(door: OverHttp) -> list[str]:
    """That all three zones have and the image fits."""
    found = pages(
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


@line("calls DescribeLaunchTemplates", "needs 7")
def templates_by_name_and_by_tag(door: OverHttp) -> None:
    missing = refusal(
        door, "ec2", "DescribeLaunchTemplates", LaunchTemplateNames=["karpenter.k8s.aws/none"]
    )
    assert missing == NOT_FOUND
    name = template(door)
    (found,) = door.ask("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])[
        "LaunchTemplates"
    ]
    assert found["LaunchTemplateName"] == name
    by_tag = pages(
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


@line("big launch template")
def everything_that_a_template_says_is_kept(door: OverHttp) -> None:
    name = template(door, "cr-0123456789abcdef0")
    (version,) = door.ask("ec2", "DescribeLaunchTemplateVersions", LaunchTemplateName=name)[
        "LaunchTemplateVersions"
    ]
    said = version["LaunchTemplateData"]
    assert said["UserData"] == b64encode(USER_DATA.encode()).decode()
    assert said["ImageId"] == image(door)
    assert said["IamInstanceProfile"]["Name"].startswith("wain_profile")
    assert said["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 20
    assert said["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    assert said["MetadataOptions"]["HttpTokens"] == "required"
    assert said["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert said["Monitoring"] == {"Enabled": False}
    assert said["EnclaveOptions"] == {"Enabled": False}
    assert said["NetworkInterfaces"] == [{"DeviceIndex": 0, "Groups": groups(door)}]
    assert said["TagSpecifications"] == [tagged("network-interface", team="web")]
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


@line("calls CreateLaunchTemplate", alone=True)
def why_a_template_is_refused(door: OverHttp) -> None:
    large = b64encode(b"x" * 16_385).decode()
    message = complaint(lambda: template(door, UserData=large))
    assert message.startswith("InvalidUserData.Malformed: User data is limited to ")
    for code, status in (("UnauthorizedOperation", 403), ("RequestLimitExceeded", 503)):
        rule = {"operation": "CreateLaunchTemplate", "code": code, "status": status, "times": 1}
        change(door, faults=[rule])
        assert refused(lambda: template(door)) == (code, status)
    assert template(door)


@line("calls DeleteLaunchTemplate", "needs 7")
def templates_go_by_id_and_by_name_and_come_again(door: OverHttp) -> None:
    name = template(door)
    (found,) = door.ask("ec2", "DescribeLaunchTemplates", LaunchTemplateNames=[name])[
        "LaunchTemplates"
    ]
    identity = found["LaunchTemplateId"]
    door.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateId=identity)
    code, _ = refusal(door, "ec2", "DeleteLaunchTemplate", LaunchTemplateId=identity)
    assert code == "InvalidLaunchTemplateId.NotFound"
    for _ in range(2):
        door.ask(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": image(door)},
        )
        door.ask("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
    assert refusal(door, "ec2", "DeleteLaunchTemplate", LaunchTemplateName=name) == NOT_FOUND


@line("calls CreateFleet", "needs 2")
def the_dry_run_of_a_fleet(door: OverHttp) -> None:
    bare = {"InstanceType": "m5.large", "SubnetId": subnets(door)["us-east-1a"]}
    request = fleet(config(template(door), [bare]), DryRun=True)
    assert refusal(door, "ec2", "CreateFleet", **request) == DRY
    request = fleet(config("karpenter.k8s.aws/none", [bare]), DryRun=True)
    assert refusal(door, "ec2", "CreateFleet", **request) == NOT_FOUND


@line("calls CreateFleet")
def merged_launches_give_several_ids(door: OverHttp) -> None:
    request = fleet(config(template(door), [pool(door, "m5.large", "us-east-1b")]), number=2)
    answer = door.ask("ec2", "CreateFleet", **request)
    (made,) = answer["Instances"]
    assert len(set(made["InstanceIds"])) == 2
    assert made["InstanceType"] == "m5.large"
    overrides = made["LaunchTemplateAndOverrides"]["Overrides"]
    assert overrides["AvailabilityZone"] == "us-east-1b"
    assert overrides["SubnetId"] == subnets(door)["us-east-1b"]
    assert answer["FleetId"].startswith("fleet-")
    assert not answer.get("Errors")


@line("calls CreateFleet")
def a_template_that_was_deleted_meanwhile(door: OverHttp) -> None:
    request = fleet(config("karpenter.k8s.aws/none", [pool(door, "m5.large", "us-east-1a")]))
    assert refusal(door, "ec2", "CreateFleet", **request) == NOT_FOUND


@line("calls CreateFleet", alone=True)
def a_fleet_that_the_client_may_not_launch(door: OverHttp) -> None:
    rule = {"operation": "CreateFleet", "code": "UnauthorizedOperation", "status": 403}
    change(door, faults=[rule])
    request = fleet(config(template(door), [pool(door, "m5.large", "us-east-1a")]), DryRun=True)
    assert refusal(door, "ec2", "CreateFleet", **request) == ("UnauthorizedOperation", 403)


@line("calls RunInstances", "needs 2")
def the_dry_run_of_a_machine(door: OverHttp) -> None:
    assert refusal(door, "ec2", "RunInstances", **run_request(door, template(door))) == DRY


def run_request(door: OverHttp, name: str) -> dict[str, Any]:
    kinds = ("instance", "volume", "network-interface")
    return {
        "DryRun": True,
        "MinCount": 1,
        "MaxCount": 1,
        "LaunchTemplate": {"LaunchTemplateName": name, "Version": "$Latest"},
        "InstanceType": "m5.large",
        "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": subnets(door)["us-east-1a"]}],
        "TagSpecifications": [tagged(kind, **{"karpenter.sh/nodepool": ""}) for kind in kinds],
    }


@line("calls RunInstances")
def a_profile_that_is_not_there_yet(door: OverHttp) -> None:
    name = profile(door)
    made = template(door, IamInstanceProfile={"Name": name})
    role = "KarpenterNodeRole-wain"
    door.ask("iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=role)
    door.ask("iam", "DeleteInstanceProfile", InstanceProfileName=name)
    message = complaint(lambda: door.ask("ec2", "RunInstances", **run_request(door, made)))
    assert message.startswith("InvalidParameterValue: ")
    assert "Invalid IAM Instance Profile name" in message


@line("big fleet")
def a_fleet_of_180_overrides_in_three_configs(door: OverHttp) -> None:
    names, places = sixty_types(door), subnets(door)
    assert len(names) == 60
    overrides: list[dict[str, Any]] = [
        {
            "InstanceType": name,
            "SubnetId": places[zone],
            "AvailabilityZone": zone,
            "ImageId": image(door),
            "Priority": 0.01 * number + 0.001,
        }
        for number, name in enumerate(names)
        for zone in ZONES
    ]
    configs = [
        config(template(door), part) for part in (overrides[:57], overrides[57:69], overrides[69:])
    ]
    answer = door.ask("ec2", "CreateFleet", **fleet(*configs))
    (made,) = answer["Instances"]
    assert made["InstanceType"] in names
    assert made["LaunchTemplateAndOverrides"]["Overrides"]["ImageId"] == image(door)
    (machine,) = machines(door, InstanceIds=made["InstanceIds"])
    assert machine["InstanceType"] == made["InstanceType"]


@line("big reserved fleet")
def a_reserved_fleet_is_on_demand_with_a_target(door: OverHttp) -> None:
    identity = reserve(door, 1)
    price = 0.00000007808000000000001
    overrides = [pool(door, "m5.large", "us-east-1a", Priority=price)]
    answer = door.ask("ec2", "CreateFleet", **fleet(config(template(door, identity), overrides)))
    (made,) = answer["Instances"]
    assert made["Lifecycle"] == "on-demand"
    assert made["LaunchTemplateAndOverrides"]["Overrides"]["Priority"] == price
    (machine,) = machines(door, InstanceIds=made["InstanceIds"])
    assert machine["CapacityReservationId"] == identity
    specification = machine["CapacityReservationSpecification"]
    assert specification["CapacityReservationPreference"] == "capacity-reservations-only"


@line("needs 8")
def a_machine_is_made_of_template_and_override(door: OverHttp) -> None:
    (identity,) = launched(door, zone="us-east-1c")
    (machine,) = machines(door, InstanceIds=[identity])
    assert [each["GroupId"] for each in machine["SecurityGroups"]] == groups(door)
    assert ":instance-profile/karpenter/test/wain_profile" in machine["IamInstanceProfile"]["Arn"]
    assert machine["MetadataOptions"]["HttpTokens"] == "required"
    assert machine["SubnetId"] == subnets(door)["us-east-1c"]
    assert machine["Placement"]["AvailabilityZone"] == "us-east-1c"
    assert machine["Placement"]["AvailabilityZoneId"].startswith("use1-az")
    assert "SpotInstanceRequestId" not in machine
    tags = {pair["Key"]: pair["Value"] for pair in machine["Tags"]}
    assert tags["karpenter.sh/nodepool"] == "default"
    attribute = door.ask(
        "ec2", "DescribeInstanceAttribute", InstanceId=identity, Attribute="userData"
    )
    assert attribute["UserData"]["Value"] == b64encode(USER_DATA.encode()).decode()


@line("needs 8")
def a_spot_machine_has_a_request(door: OverHttp) -> None:
    (machine,) = machines(door, InstanceIds=launched(door, spot=True))
    assert machine["SpotInstanceRequestId"].startswith("sir-")
    assert machine["InstanceLifecycle"] == "spot"


@line("needs 8")
def preference_none_does_not_join_an_open_reservation(door: OverHttp) -> None:
    identity = reserve(door, 1, "r5.large", InstanceMatchCriteria="open")
    (machine,) = machines(door, InstanceIds=launched(door, "r5.large"))
    assert "CapacityReservationId" not in machine
    (shown,) = door.ask("ec2", "DescribeCapacityReservations", CapacityReservationIds=[identity])[
        "CapacityReservations"
    ]
    assert shown["AvailableInstanceCount"] == 1


@line("needs 8")
def a_token_that_is_sent_again_launches_nothing_new(door: OverHttp) -> None:
    overrides = [pool(door, "m5.large", "us-east-1a")]
    request = fleet(config(template(door), overrides), ClientToken=unique("token"))
    first, second = (door.ask("ec2", "CreateFleet", **request) for _ in range(2))
    assert first["Instances"] == second["Instances"]
