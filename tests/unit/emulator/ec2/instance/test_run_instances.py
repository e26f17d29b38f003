"""RunInstances with and without a template, for real and as a dry run; and quotas of vCPUs."""

from base64 import b64encode
from typing import Any

import pytest
from tests.support.emulator_launches import (
    OPEN_RESERVATION,
    USER_DATA,
    A,
    B,
    LaunchAccount,
    capacity_rule,
    cloud_reservation,
    ec2_filter,
    ids_of,
    launch_error_codes,
    launch_errors,
    launched_capacity_pools,
    launched_ids,
    spot_price,
    tag_specifications,
    tags_of,
)

from wainwright.emulator.context import Response
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.settings import EmulatorSettings

TARGET = {"CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}}


@pytest.fixture
def account() -> LaunchAccount:
    return LaunchAccount(cloud_reservation(1))


def request(account: LaunchAccount, **more: Any) -> dict[str, Any]:
    return {
        "ImageId": account.image,
        "InstanceType": "m5.large",
        "SubnetId": account.subnets[A],
        "MinCount": 1,
        "MaxCount": 1,
        **more,
    }


def run(account: LaunchAccount, **more: Any) -> Response:
    return account.call("RunInstances", **request(account, **more))


def run_one(account: LaunchAccount, **more: Any) -> Response:
    (instance,) = run(account, **more)["Instances"]
    return dict(instance)


def test_run_instances_without_a_template(account: LaunchAccount) -> None:
    response = run(
        account,
        MaxCount=2,
        UserData=USER_DATA,
        TagSpecifications=tag_specifications("instance", Name="first"),
    )
    assert response["OwnerId"] == "111122223333"
    first, second = response["Instances"]
    assert first["State"] == {"Code": 0, "Name": "pending"}
    assert (first["AmiLaunchIndex"], second["AmiLaunchIndex"]) == (0, 1)
    assert tags_of(first) == {"Name": "first"}
    assert [each["GroupName"] for each in first["SecurityGroups"]] == ["default"]
    runs = account.call("DescribeInstances")["Reservations"]
    assert [each["ReservationId"] for each in runs] == [response["ReservationId"]]
    assert account.describe(first["InstanceId"]) == [first]


def test_the_request_overrides_its_template(account: LaunchAccount) -> None:
    name = account.template(
        "base", InstanceType="c5.large", KeyName="template", Monitoring={"Enabled": True}
    )
    instance = account.call(
        "RunInstances",
        LaunchTemplate={"LaunchTemplateName": name, "Version": "$Latest"},
        NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": account.subnets[B]}],
        KeyName="mine",
        MinCount=1,
        MaxCount=1,
    )["Instances"][0]
    assert (instance["InstanceType"], instance["KeyName"]) == ("c5.large", "mine")
    assert instance["Monitoring"]["State"] == "enabled"
    assert instance["SubnetId"] == account.subnets[B]
    # The interface of the request and that of the template are the same one.
    assert [each["GroupId"] for each in instance["SecurityGroups"]] == [account.group]
    assert tags_of(instance)["aws:ec2launchtemplate:version"] == "1"


def test_run_instances_can_target_a_reservation(account: LaunchAccount) -> None:
    specification = {"CapacityReservationSpecification": TARGET}
    instance = run_one(account, **specification)
    assert instance["CapacityReservationId"] == "cr-00000001"
    assert account.free("cr-00000001") == 1
    refused = account.refused(
        "RunInstances", **request(account, MinCount=2, MaxCount=2, **specification)
    )
    assert refused == ("ReservationCapacityExceeded", 400)
    assert account.free("cr-00000001") == 1
    wrong = {"CapacityReservationPreference": "none", **TARGET}
    refused = account.refused(
        "RunInstances", **request(account, CapacityReservationSpecification=wrong)
    )
    assert refused == ("InvalidParameterCombination", 400)


def test_run_instances_uses_open_reservations() -> None:
    account = LaunchAccount(cloud_reservation(1, **OPEN_RESERVATION))
    assert run_one(account)["CapacityReservationId"] == "cr-00000001"


def test_run_instances_launches_between_min_and_max_count() -> None:
    account = LaunchAccount(
        settings=EmulatorSettings(capacity_rules=(capacity_rule(3, "m5.large", A),))
    )
    refused = account.refused("RunInstances", **request(account, MinCount=4, MaxCount=9))
    assert refused == ("InsufficientInstanceCapacity", 400)
    (subnet,) = account.call("DescribeSubnets", SubnetIds=[account.subnets[A]])["Subnets"]
    assert subnet["AvailableIpAddressCount"] == 8187
    assert account.describe() == []
    assert len(run(account, MinCount=2, MaxCount=9)["Instances"]) == 3
    (subnet,) = account.call("DescribeSubnets", SubnetIds=[account.subnets[A]])["Subnets"]
    assert subnet["AvailableIpAddressCount"] == 8184


def test_spot() -> None:
    account = LaunchAccount(prices=[spot_price(0.05, "m5.large", A)])
    options = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.06"}}
    instance = run_one(account, InstanceMarketOptions=options)
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["SpotInstanceRequestId"]
    options = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.04"}}
    refused = account.refused("RunInstances", **request(account, InstanceMarketOptions=options))
    assert refused == ("SpotMaxPriceTooLow", 400)


def test_a_client_token_launches_once_and_returns_the_current_state(account: LaunchAccount) -> None:
    first = run(account, ClientToken="once")
    account.wait(10)
    again = run(account, ClientToken="once")
    assert ids_of(again["Instances"]) == ids_of(first["Instances"])
    assert again["Instances"][0]["State"]["Name"] == "running"
    assert ids_of(account.describe(Filters=[ec2_filter("client-token", "once")])) == ids_of(
        first["Instances"]
    )
    refused = account.refused("RunInstances", **request(account, ClientToken="once", MaxCount=2))
    assert refused == ("IdempotentParameterMismatch", 400)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": ""}, "MissingParameter"),
        ({"InstanceType": "m5.8xhuge"}, "InvalidParameterValue"),
        ({"InstanceType": "m6g.large"}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"SecurityGroups": ["absent"]}, "InvalidGroup.NotFound"),
        (
            {"SecurityGroupIds": ["sg-1"], "NetworkInterfaces": [{"DeviceIndex": 0}]},
            "InvalidParameterCombination",
        ),
        ({"IamInstanceProfile": {"Name": "absent"}}, "InvalidParameterValue"),
        ({"UserData": b64encode(b"x" * 16385).decode()}, "InvalidUserData.Malformed"),
        ({"Placement": {"AvailabilityZone": B}}, "InvalidParameterValue"),
        ({"MinCount": 0}, "InvalidParameterValue"),
        ({"MinCount": 2}, "InvalidParameterValue"),
        ({"InstanceMarketOptions": {"MarketType": "barter"}}, "InvalidParameterValue"),
        ({"LaunchTemplate": {"LaunchTemplateName": "absent"}}, "InvalidLaunchTemplateName"),
        ({"InstanceMarketOptions": {"MarketType": "capacity-block"}}, "InvalidParameterComb"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_invalid_run_instances_requests_are_rejected(
    account: LaunchAccount, more: dict[str, Any], code: str, dry: bool
) -> None:
    found, status = account.refused("RunInstances", **request(account, **more, DryRun=dry))
    assert found.startswith(code)
    assert status == 400
    assert account.describe() == []


def test_a_missing_instance_profile_has_the_error_of_ec2(account: LaunchAccount) -> None:
    profile = {"Name": "absent"}
    with pytest.raises(Exception, match="Invalid IAM Instance Profile name"):
        run(account, IamInstanceProfile=profile, DryRun=True)
    account.call_service("iam", "CreateInstanceProfile", {"InstanceProfileName": "absent"})
    refused = account.refused(
        "RunInstances", **request(account, IamInstanceProfile=profile, DryRun=True)
    )
    assert refused == ("DryRunOperation", 412)
    assert account.describe() == []
    arn = run_one(account, IamInstanceProfile=profile)["IamInstanceProfile"]["Arn"]
    assert run_one(account, IamInstanceProfile={"Arn": arn})["IamInstanceProfile"]["Arn"] == arn


def test_a_security_group_of_another_vpc_is_not_found(account: LaunchAccount) -> None:
    vpc = account.call("CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    group = account.call(
        "CreateSecurityGroup", GroupName="elsewhere", Description="elsewhere", VpcId=vpc
    )["GroupId"]
    for named_by in ({"SecurityGroupIds": [group]}, {"SecurityGroups": ["elsewhere"]}):
        refused = account.refused("RunInstances", **request(account, **named_by))
        assert refused == ("InvalidGroup.NotFound", 400)


def test_security_groups_can_be_given_by_name(account: LaunchAccount) -> None:
    instance = run_one(account, SecurityGroups=["wain-nodes"])
    assert [each["GroupId"] for each in instance["SecurityGroups"]] == [account.group]


def test_block_devices_of_the_image_can_be_changed_and_removed(account: LaunchAccount) -> None:
    added = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 5}}
    changed = {"DeviceName": "/dev/xvda", "Ebs": {"DeleteOnTermination": False}}
    instance = run_one(account, BlockDeviceMappings=[changed, added])
    disks = {
        each["DeviceName"]: each["Ebs"]["DeleteOnTermination"]
        for each in instance["BlockDeviceMappings"]
    }
    assert disks == {"/dev/xvda": False, "/dev/sdf": True}
    assert len({each["Ebs"]["VolumeId"] for each in instance["BlockDeviceMappings"]}) == 2
    without = run_one(account, BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "NoDevice": ""}])
    assert without["BlockDeviceMappings"] == []


LIMIT = "VcpuLimitExceeded"
SPOT_LIMIT = "MaxSpotInstanceCountExceeded"
MANY = (("m5.large", A), ("m5.large", B))  # two vCPUs each


def account_with_quota(**limits: dict[str, int]) -> LaunchAccount:
    return LaunchAccount(settings=EmulatorSettings(quota=QuotaLimits(**limits)))  # type: ignore[arg-type]


def test_launches_beyond_the_quota_fail_in_every_capacity_pool() -> None:
    account = account_with_quota(onDemand={"standard": 5})
    response = account.fleet(account.config(*MANY), count=4)
    assert [count for *_, count in launched_capacity_pools(response)] == [2]
    assert {code for *_, code in launch_errors(response)} == {LIMIT}
    assert len(response["Errors"]) == 2
    assert "limit of 5" in response["Errors"][0]["ErrorMessage"]


def test_spot_has_its_own_quota_and_error_code() -> None:
    account = account_with_quota(spot={"standard": 2}, onDemand={"standard": 2})
    response = account.fleet(account.config(*MANY), count=2, capacity_type="spot")
    assert (len(launched_ids(response)), launch_error_codes(response)) == (1, {SPOT_LIMIT})
    account.launch()
    assert launch_error_codes(account.fleet(account.config(*MANY))) == {LIMIT}


def test_quota_groups_are_counted_separately() -> None:
    account = account_with_quota(onDemand={"p": 0})
    account.launch("m5.xlarge")
    assert launch_error_codes(account.fleet(account.config(("p5.48xlarge", A)))) == {LIMIT}


@pytest.mark.parametrize("capacity_type", ["on-demand", "spot"])
def test_terminated_instances_do_not_count_against_the_quota(capacity_type: str) -> None:
    account = account_with_quota(onDemand={"standard": 2}, spot={"standard": 2})
    (first,) = account.launch(capacity_type=capacity_type)
    assert launch_error_codes(account.fleet(account.config(*MANY), capacity_type=capacity_type))
    account.call("TerminateInstances", InstanceIds=[first])
    account.launch(capacity_type=capacity_type)


def test_reserved_capacity_counts_once_whether_used_or_not() -> None:
    held = (
        cloud_reservation(1, total=2, **OPEN_RESERVATION),
        cloud_reservation(2, "c5.large", A, total=9, ownerID="444455556666", **OPEN_RESERVATION),
    )
    account = LaunchAccount(
        *held, settings=EmulatorSettings(quota=QuotaLimits(onDemand={"standard": 6}))
    )
    quota = account.cloud.services.quota
    assert quota.used("standard", "on-demand") == 4  # not what belongs to another account
    account.launch("m5.large", A, count=2)
    assert quota.used("standard", "on-demand") == 4
    account.launch("c5.large", A, count=3)
    assert quota.used("standard", "on-demand") == 4
    account.launch("m5.large", A)
    assert quota.used("standard", "on-demand") == 6
    assert launch_error_codes(account.fleet(account.config(("m5.large", A)))) == {LIMIT}


def test_there_is_no_quota_by_default() -> None:
    account = LaunchAccount()
    assert len(account.launch("p5.48xlarge", A, count=50)) == 50


def test_quotas_are_recounted_after_loading() -> None:
    account = account_with_quota(onDemand={"standard": 4})
    account.launch()
    saved = account.cloud.save()
    again = type(account.cloud).load(saved, clock=account.clock)
    response = again.answer("ec2", "CreateFleet", account.request(account.config(*MANY), count=2))
    assert (len(launched_ids(response)), launch_error_codes(response)) == (1, {LIMIT})


def test_a_subnet_gives_each_of_its_addresses_once_and_again_when_it_is_free() -> None:
    account = LaunchAccount()
    vpc = account.call("DescribeVpcs")["Vpcs"][0]["VpcId"]
    block = {"CidrBlock": "192.168.255.0/24", "VpcId": vpc, "AvailabilityZone": A}
    subnet = account.call("CreateSubnet", **block)["Subnet"]["SubnetId"]
    whole = run(account, SubnetId=subnet, MinCount=251, MaxCount=251)["Instances"]
    addresses = {each["PrivateIpAddress"] for each in whole}
    assert addresses == {f"192.168.255.{number}" for number in range(4, 255)}
    chosen = whole[100]
    account.call("TerminateInstances", InstanceIds=[chosen["InstanceId"]])
    account.clock.time += 600
    again = run_one(account, SubnetId=subnet)
    assert again["PrivateIpAddress"] == chosen["PrivateIpAddress"]
