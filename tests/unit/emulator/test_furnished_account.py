"""The account at the start: everything that a provider looks for is there, and can be launched."""

from typing import Any

import pytest
from tests.support.emulated import Account

from wainwright.api.cloud import CloudSpec, Reservation
from wainwright.catalogue.remarks import Refused
from wainwright.emulator.settings import Settings

DISCOVERY = [{"Name": "tag:karpenter.sh/discovery", "Values": ["wain"]}]
IMAGE = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/{}/standard/recommended/image_id"


@pytest.fixture
def account() -> Account:
    return Account(
        CloudSpec(region="us-west-2", zones=["us-west-2a", "us-west-2c"], instanceTypes=["m5.*"]),
        settings=Settings(kubernetes="1.34", control_plane=("https://127.0.0.1:6443", "Q0E=")),
    )


def test_the_network_is_found_by_its_tag(account: Account) -> None:
    found = account.cloud.account
    subnets = account.ask("DescribeSubnets", Filters=DISCOVERY)["Subnets"]
    assert {each["AvailabilityZone"]: each["SubnetId"] for each in subnets} == found.subnets
    assert set(found.subnets) == {"us-west-2a", "us-west-2c"}
    assert all(each["AvailableIpAddressCount"] == 2**13 - 5 for each in subnets)
    assert not any(each["MapPublicIpOnLaunch"] for each in subnets)
    (group,) = account.ask("DescribeSecurityGroups", Filters=DISCOVERY)["SecurityGroups"]
    assert (group["GroupId"], group["VpcId"]) == (found.security_group, found.vpc)


def test_the_cluster_is_where_it_was_said_to_be(account: Account) -> None:
    cluster = account.ask_of("eks", "DescribeCluster", {"name": "wain"})["cluster"]
    assert (cluster["version"], cluster["endpoint"]) == ("1.34", "https://127.0.0.1:6443")
    assert cluster["certificateAuthority"] == {"data": "Q0E="}
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"]
    assert cluster["resourcesVpcConfig"]["vpcId"] == account.cloud.account.vpc


def test_role_and_queue_are_there(account: Account) -> None:
    role = account.ask_of("iam", "GetRole", {"RoleName": "KarpenterNodeRole-wain"})["Role"]
    assert role["RoleName"] == account.cloud.account.role
    url = account.ask_of("sqs", "GetQueueUrl", {"QueueName": "wain"})["QueueUrl"]
    assert url == account.cloud.account.queue_url


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_the_recommended_images_exist(account: Account, architecture: str) -> None:
    asked = {"Name": IMAGE.format(architecture)}
    identity = account.ask_of("ssm", "GetParameter", asked)["Parameter"]["Value"]
    filters = [
        {"Name": "image-id", "Values": [identity]},
        {"Name": "state", "Values": ["available"]},
    ]
    answer = account.ask("DescribeImages", Filters=filters, IncludeDeprecated=True, MaxResults=1000)
    assert [each["Architecture"] for each in answer["Images"]] == [architecture]


def test_every_image_behind_a_parameter_exists(account: Account) -> None:
    known = account.cloud.parts.images.state.images
    assert {image.id for image in account.cloud.parts.ssm.images()} == known.keys()


def launch(account: Account, capacity_type: str = "on-demand") -> dict[str, Any]:
    """As a provider does: profile, template, fleet."""
    profile = {"InstanceProfileName": "wain_1"}
    account.ask_of("iam", "CreateInstanceProfile", profile)
    role = {**profile, "RoleName": account.cloud.account.role}
    account.ask_of("iam", "AddRoleToInstanceProfile", role)
    parameter = account.ask_of("ssm", "GetParameter", {"Name": IMAGE.format("x86_64")})["Parameter"]
    account.ask(
        "CreateLaunchTemplate",
        LaunchTemplateName="karpenter.k8s.aws/1",
        LaunchTemplateData={
            "ImageId": parameter["Value"],
            "IamInstanceProfile": {"Name": "wain_1"},
            "NetworkInterfaces": [
                {"DeviceIndex": 0, "Groups": [account.cloud.account.security_group]}
            ],
        },
    )
    answer: dict[str, Any] = account.ask(
        "CreateFleet",
        Type="instant",
        TargetCapacitySpecification={
            "DefaultTargetCapacityType": capacity_type,
            "TotalTargetCapacity": 1,
        },
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": "karpenter.k8s.aws/1",
                    "Version": "$Latest",
                },
                "Overrides": [
                    {"InstanceType": kind, "SubnetId": subnet}
                    for kind in ("m5.xlarge", "m5.large")
                    for subnet in account.cloud.account.subnets.values()
                ],
            }
        ],
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "karpenter.sh/nodepool", "Value": ""}]}
        ],
    )
    return answer


def test_a_machine_can_be_launched_tagged_and_terminated(account: Account) -> None:
    answer = launch(account)
    (fleet,) = answer["Instances"]
    assert fleet["InstanceType"] == "m5.large"
    (identity,) = fleet["InstanceIds"]
    account.ask("CreateTags", Resources=[identity], Tags=[{"Key": "Name", "Value": "node"}])
    filters = [{"Name": "tag:Name", "Values": ["node"]}]
    (reservation,) = account.ask("DescribeInstances", Filters=filters)["Reservations"]
    (instance,) = reservation["Instances"]
    assert instance["InstanceId"] == identity
    account.ask("TerminateInstances", InstanceIds=[identity])
    (reservation,) = account.ask("DescribeInstances", InstanceIds=[identity])["Reservations"]
    assert reservation["Instances"][0]["State"]["Name"] == "shutting-down"


def test_addresses_and_stock_come_and_go_with_machines(account: Account) -> None:
    account.cloud.change({"stock": [{"instanceType": "m5.*", "free": 1}]})

    def free() -> int:
        rows = account.ask("DescribeSubnets")["Subnets"]
        return sum(row["AvailableIpAddressCount"] for row in rows)

    before = free()
    (fleet,) = launch(account)["Instances"]
    zone = fleet["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"]
    assert free() == before - 1
    assert account.cloud.parts.shop.free("m5.large", zone, "on-demand") == 0
    account.ask("TerminateInstances", InstanceIds=fleet["InstanceIds"])
    account.clock.time += 600
    assert free() == before
    assert account.cloud.parts.shop.free("m5.large", zone, "on-demand") == 1


def test_what_happens_to_machines_is_told_in_the_queue(account: Account) -> None:
    (fleet,) = launch(account, "spot")["Instances"]
    (identity,) = fleet["InstanceIds"]
    account.clock.time += 60
    account.cloud.change({"interruptions": [{"instance": identity, "kind": "spot"}]})
    url = account.cloud.account.queue_url
    asked = {"QueueUrl": url, "MaxNumberOfMessages": 10}
    bodies = [each["Body"] for each in account.ask_of("sqs", "ReceiveMessage", asked)["Messages"]]
    warnings = [body for body in bodies if "EC2 Spot Instance Interruption Warning" in body]
    assert len(warnings) == 1
    assert identity in warnings[0]
    account.clock.time += 130
    filters = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    assert account.ask("DescribeInstances", Filters=filters)["Reservations"] == []


def test_reservations_of_the_cloud_are_there() -> None:
    entry = Reservation(
        id="cr-0a", instanceType="m5.large", availabilityZone="us-west-2a", total=5, available=2
    )
    account = Account(
        CloudSpec(region="us-west-2", instanceTypes=["m5.*"], capacityReservations=[entry])
    )
    (row,) = account.ask("DescribeCapacityReservations")["CapacityReservations"]
    assert (row["CapacityReservationId"], row["AvailableInstanceCount"]) == ("cr-0a", 2)


def lying_in(zone: str, *zones: str) -> CloudSpec:
    entry = Reservation(id="cr-0a", instanceType="m5.large", availabilityZone=zone, total=5)
    return CloudSpec(
        region="us-west-2",
        zones=list(zones) or None,
        instanceTypes=["m5.*"],
        capacityReservations=[entry],
    )


def test_a_reservation_in_a_zone_that_the_region_lacks_is_refused() -> None:
    with pytest.raises(Refused, match="cr-0a lies in us-west-2z") as raised:
        Account(lying_in("us-west-2z"))
    (remark,) = raised.value.remarks
    assert remark.fault.path == ("spec", "capacityReservations", 0, "availabilityZone")


def test_a_reservation_in_a_zone_that_the_cloud_leaves_out_is_left_out_too() -> None:
    account = Account(lying_in("us-west-2b", "us-west-2a"))
    assert account.ask("DescribeCapacityReservations")["CapacityReservations"] == []
    assert ["cr-0a lies in us-west-2b" in str(each) for each in account.cloud.remarks] == [True]
    assert Account(lying_in("us-west-2a", "us-west-2a")).cloud.remarks == ()


def test_on_demand_prices_are_the_shops() -> None:
    account = Account(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))
    price = [{"instanceType": "m5.large", "capacityType": "on-demand", "price": 7.5}]
    account.cloud.change({"prices": price})
    asked = {
        "ServiceCode": "AmazonEC2",
        "Filters": [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"}],
    }
    (entry,) = account.ask_of("pricing", "GetProducts", asked)["PriceList"]
    assert '"7.5000000000"' in entry
    elsewhere = [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "eu-west-1"}]
    answer = account.ask_of("pricing", "GetProducts", {**asked, "Filters": elsewhere})
    assert len(answer["PriceList"]) == 100
