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
    capacity_stock,
    cloud_reservation,
    ec2_filter,
    ids_of,
    launch_error_codes,
    launch_errors,
    launched_ids,
    launched_pools,
    spot_price,
    tag_specifications,
    tags_of,
)

from wainwright.emulator.context import Response
from wainwright.emulator.ec2.instance.quotas import QuotaLimits
from wainwright.emulator.settings import EmulatorSettings

TARGET = {"CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}}


@pytest.fixture
def yard() -> LaunchAccount:
    return LaunchAccount(cloud_reservation(1))


def asked(yard: LaunchAccount, **more: Any) -> dict[str, Any]:
    return {
        "ImageId": yard.image,
        "InstanceType": "m5.large",
        "SubnetId": yard.subnets[A],
        "MinCount": 1,
        "MaxCount": 1,
        **more,
    }


def run(yard: LaunchAccount, **more: Any) -> Response:
    return yard.ask("RunInstances", **asked(yard, **more))


def one(yard: LaunchAccount, **more: Any) -> Response:
    (machine,) = run(yard, **more)["Instances"]
    return dict(machine)


def test_a_machine_without_a_template(yard: LaunchAccount) -> None:
    answer = run(
        yard,
        MaxCount=2,
        UserData=USER_DATA,
        TagSpecifications=tag_specifications("instance", Name="first"),
    )
    assert answer["OwnerId"] == "111122223333"
    first, second = answer["Instances"]
    assert first["State"] == {"Code": 0, "Name": "pending"}
    assert (first["AmiLaunchIndex"], second["AmiLaunchIndex"]) == (0, 1)
    assert tags_of(first) == {"Name": "first"}
    assert [each["GroupName"] for each in first["SecurityGroups"]] == ["default"]
    runs = yard.ask("DescribeInstances")["Reservations"]
    assert [each["ReservationId"] for each in runs] == [answer["ReservationId"]]
    assert yard.describe(first["InstanceId"]) == [first]


def test_the_request_goes_before_its_template(yard: LaunchAccount) -> None:
    name = yard.template(
        "base", InstanceType="c5.large", KeyName="template", Monitoring={"Enabled": True}
    )
    machine = yard.ask(
        "RunInstances",
        LaunchTemplate={"LaunchTemplateName": name, "Version": "$Latest"},
        NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": yard.subnets[B]}],
        KeyName="mine",
        MinCount=1,
        MaxCount=1,
    )["Instances"][0]
    assert (machine["InstanceType"], machine["KeyName"]) == ("c5.large", "mine")
    assert machine["Monitoring"]["State"] == "enabled"
    assert machine["SubnetId"] == yard.subnets[B]
    # The interface of the request and that of the template are the same one.
    assert [each["GroupId"] for each in machine["SecurityGroups"]] == [yard.group]
    assert tags_of(machine)["aws:ec2launchtemplate:version"] == "1"


def test_it_can_be_aimed_at_a_reservation(yard: LaunchAccount) -> None:
    specification = {"CapacityReservationSpecification": TARGET}
    machine = one(yard, **specification)
    assert machine["CapacityReservationId"] == "cr-00000001"
    assert yard.free("cr-00000001") == 1
    refused = yard.refused("RunInstances", **asked(yard, MinCount=2, MaxCount=2, **specification))
    assert refused == ("ReservationCapacityExceeded", 400)
    assert yard.free("cr-00000001") == 1
    wrong = {"CapacityReservationPreference": "none", **TARGET}
    refused = yard.refused("RunInstances", **asked(yard, CapacityReservationSpecification=wrong))
    assert refused == ("InvalidParameterCombination", 400)


def test_open_reservations_take_it_in() -> None:
    yard = LaunchAccount(cloud_reservation(1, **OPEN_RESERVATION))
    assert one(yard)["CapacityReservationId"] == "cr-00000001"


def test_it_gets_what_there_is_between_least_and_most() -> None:
    yard = LaunchAccount(settings=EmulatorSettings(capacity_rules=(capacity_stock(3, "m5.large", A),)))
    refused = yard.refused("RunInstances", **asked(yard, MinCount=4, MaxCount=9))
    assert refused == ("InsufficientInstanceCapacity", 400)
    (subnet,) = yard.ask("DescribeSubnets", SubnetIds=[yard.subnets[A]])["Subnets"]
    assert subnet["AvailableIpAddressCount"] == 8187
    assert yard.describe() == []
    assert len(run(yard, MinCount=2, MaxCount=9)["Instances"]) == 3
    (subnet,) = yard.ask("DescribeSubnets", SubnetIds=[yard.subnets[A]])["Subnets"]
    assert subnet["AvailableIpAddressCount"] == 8184


def test_spot() -> None:
    yard = LaunchAccount(prices=[spot_price(0.05, "m5.large", A)])
    options = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.06"}}
    machine = one(yard, InstanceMarketOptions=options)
    assert machine["InstanceLifecycle"] == "spot"
    assert machine["SpotInstanceRequestId"]
    options = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.04"}}
    refused = yard.refused("RunInstances", **asked(yard, InstanceMarketOptions=options))
    assert refused == ("SpotMaxPriceTooLow", 400)


def test_a_token_runs_once_and_shows_what_became_of_it(yard: LaunchAccount) -> None:
    first = run(yard, ClientToken="once")
    yard.wait(10)
    again = run(yard, ClientToken="once")
    assert ids_of(again["Instances"]) == ids_of(first["Instances"])
    assert again["Instances"][0]["State"]["Name"] == "running"
    assert ids_of(yard.describe(Filters=[ec2_filter("client-token", "once")])) == ids_of(
        first["Instances"]
    )
    refused = yard.refused("RunInstances", **asked(yard, ClientToken="once", MaxCount=2))
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
def test_what_cannot_be_run(
    yard: LaunchAccount, more: dict[str, Any], code: str, dry: bool
) -> None:
    found, status = yard.refused("RunInstances", **asked(yard, **more, DryRun=dry))
    assert found.startswith(code)
    assert status == 400
    assert yard.describe() == []


def test_a_missing_profile_is_told_as_clients_expect(yard: LaunchAccount) -> None:
    profile = {"Name": "absent"}
    with pytest.raises(Exception, match="Invalid IAM Instance Profile name"):
        run(yard, IamInstanceProfile=profile, DryRun=True)
    yard.ask_of("iam", "CreateInstanceProfile", {"InstanceProfileName": "absent"})
    refused = yard.refused("RunInstances", **asked(yard, IamInstanceProfile=profile, DryRun=True))
    assert refused == ("DryRunOperation", 412)
    assert yard.describe() == []
    arn = one(yard, IamInstanceProfile=profile)["IamInstanceProfile"]["Arn"]
    assert one(yard, IamInstanceProfile={"Arn": arn})["IamInstanceProfile"]["Arn"] == arn


def test_a_group_of_another_network_does_not_count(yard: LaunchAccount) -> None:
    vpc = yard.ask("CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    group = yard.ask(
        "CreateSecurityGroup", GroupName="elsewhere", Description="elsewhere", VpcId=vpc
    )["GroupId"]
    for named_by in ({"SecurityGroupIds": [group]}, {"SecurityGroups": ["elsewhere"]}):
        refused = yard.refused("RunInstances", **asked(yard, **named_by))
        assert refused == ("InvalidGroup.NotFound", 400)


def test_groups_can_be_named(yard: LaunchAccount) -> None:
    machine = one(yard, SecurityGroups=["wain-nodes"])
    assert [each["GroupId"] for each in machine["SecurityGroups"]] == [yard.group]


def test_disks_of_the_image_can_be_changed_and_left_out(yard: LaunchAccount) -> None:
    added = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 5}}
    changed = {"DeviceName": "/dev/xvda", "Ebs": {"DeleteOnTermination": False}}
    machine = one(yard, BlockDeviceMappings=[changed, added])
    disks = {
        each["DeviceName"]: each["Ebs"]["DeleteOnTermination"]
        for each in machine["BlockDeviceMappings"]
    }
    assert disks == {"/dev/xvda": False, "/dev/sdf": True}
    assert len({each["Ebs"]["VolumeId"] for each in machine["BlockDeviceMappings"]}) == 2
    without = one(yard, BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "NoDevice": ""}])
    assert without["BlockDeviceMappings"] == []


LIMIT = "VcpuLimitExceeded"
SPOT_LIMIT = "MaxSpotInstanceCountExceeded"
MANY = (("m5.large", A), ("m5.large", B))  # two vCPUs each


def limited(**limits: dict[str, int]) -> LaunchAccount:
    return LaunchAccount(settings=EmulatorSettings(quota=QuotaLimits(**limits)))  # type: ignore[arg-type]


def test_more_than_the_quota_is_refused_in_every_pool() -> None:
    yard = limited(onDemand={"standard": 5})
    answer = yard.fleet(yard.config(*MANY), count=4)
    assert [count for *_, count in launched_pools(answer)] == [2]
    assert {code for *_, code in launch_errors(answer)} == {LIMIT}
    assert len(answer["Errors"]) == 2
    assert "limit of 5" in answer["Errors"][0]["ErrorMessage"]


def test_spot_has_a_quota_and_a_code_of_its_own() -> None:
    yard = limited(spot={"standard": 2}, onDemand={"standard": 2})
    answer = yard.fleet(yard.config(*MANY), count=2, market="spot")
    assert (len(launched_ids(answer)), launch_error_codes(answer)) == (1, {SPOT_LIMIT})
    yard.launch()
    assert launch_error_codes(yard.fleet(yard.config(*MANY))) == {LIMIT}


def test_other_families_are_counted_apart() -> None:
    yard = limited(onDemand={"p": 0})
    yard.launch("m5.xlarge")
    assert launch_error_codes(yard.fleet(yard.config(("p5.48xlarge", A)))) == {LIMIT}


@pytest.mark.parametrize("market", ["on-demand", "spot"])
def test_ended_machines_no_longer_count(market: str) -> None:
    yard = limited(onDemand={"standard": 2}, spot={"standard": 2})
    (first,) = yard.launch(market=market)
    assert launch_error_codes(yard.fleet(yard.config(*MANY), market=market))
    yard.ask("TerminateInstances", InstanceIds=[first])
    yard.launch(market=market)


def test_what_is_reserved_counts_once_whether_used_or_not() -> None:
    held = (
        cloud_reservation(1, total=2, **OPEN_RESERVATION),
        cloud_reservation(2, "c5.large", A, total=9, ownerID="444455556666", **OPEN_RESERVATION),
    )
    yard = LaunchAccount(
        *held, settings=EmulatorSettings(quota=QuotaLimits(onDemand={"standard": 6}))
    )
    quota = yard.cloud.services.quota
    assert quota.used("standard", "on-demand") == 4  # not what belongs to another account
    yard.launch("m5.large", A, count=2)
    assert quota.used("standard", "on-demand") == 4
    yard.launch("c5.large", A, count=3)
    assert quota.used("standard", "on-demand") == 4
    yard.launch("m5.large", A)
    assert quota.used("standard", "on-demand") == 6
    assert launch_error_codes(yard.fleet(yard.config(("m5.large", A)))) == {LIMIT}


def test_without_limits_there_are_none() -> None:
    yard = LaunchAccount()
    assert len(yard.launch("p5.48xlarge", A, count=50)) == 50


def test_a_saved_account_counts_on() -> None:
    yard = limited(onDemand={"standard": 4})
    yard.launch()
    saved = yard.cloud.save()
    again = type(yard.cloud).load(saved, clock=yard.clock)
    answer = again.answer("ec2", "CreateFleet", yard.request(yard.config(*MANY), count=2))
    assert (len(launched_ids(answer)), launch_error_codes(answer)) == (1, {LIMIT})
