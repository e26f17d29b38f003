"""The emulated account: operations, dry runs, throttling, faults, lost responses, the log, waiting;
and what a new account contains.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.emulator_accounts import CheckedAccount, expect_error

from wainwright.api.catalog_documents import Cloud, CloudReservation, CloudSpec
from wainwright.catalogue.diagnostics import InvalidCatalogInput
from wainwright.clock import VirtualClock
from wainwright.emulator.emulated_account import ApiCall, EmulatedAwsAccount
from wainwright.emulator.faults import FaultRule, FaultTiming, RateLimit
from wainwright.emulator.settings import EmulatorSettings

SPEC = CloudSpec(region="us-west-2", instanceTypes=["m5.large"])


def account_with(**settings: Any) -> CheckedAccount:
    return CheckedAccount(SPEC, settings=EmulatorSettings(**settings))


@pytest.mark.parametrize(
    ("service", "operation"),
    [("ec2", "MakeTea"), ("ec2", "GetParameter"), ("teahouse", "MakeTea"), ("iam", "")],
)
def test_an_unknown_operation_is_an_invalid_action(service: str, operation: str) -> None:
    cloud = account_with().cloud
    assert expect_error(lambda: cloud.answer(service, operation, {})) == ("InvalidAction", 400)


OPERATIONS = {
    "ec2": """CancelCapacityReservation CreateCapacityReservation CreateFleet CreateLaunchTemplate
        CreateSecurityGroup CreateSubnet CreateTags CreateVpc DeleteLaunchTemplate
        DescribeAvailabilityZones DescribeCapacityReservations DescribeImages
        DescribeInstanceAttribute DescribeInstanceStatus DescribeInstanceTypeOfferings
        DescribeInstanceTypes DescribeInstances DescribeLaunchTemplates DescribePlacementGroups
        DescribeSecurityGroups DescribeSpotPriceHistory DescribeSubnets DescribeTags DescribeVpcs
        ModifyCapacityReservation ModifyInstanceCapacityReservationAttributes RegisterImage
        RunInstances TerminateInstances""",
    "pricing": "GetProducts",
    "ssm": "GetParameter PutParameter",
    "eks": "CreateCluster DescribeCluster",
    "iam": """AddRoleToInstanceProfile CreateInstanceProfile CreateRole DeleteInstanceProfile
        GetInstanceProfile GetRole ListInstanceProfiles RemoveRoleFromInstanceProfile""",
    "sqs": "CreateQueue DeleteMessage GetQueueAttributes GetQueueUrl ReceiveMessage SendMessage",
}


@pytest.mark.parametrize("service", OPERATIONS)
def test_the_operations_that_clients_use_exist(service: str) -> None:
    cloud = account_with().cloud
    known = {
        operation
        for part in cloud.services.all()
        if part.name == service
        for operation in part.operations()
    }
    assert set(OPERATIONS[service].split()) <= known


def test_each_operation_has_one_handler() -> None:
    named = [
        (part.name, operation)
        for part in account_with().cloud.services.all()
        for operation in part.operations()
    ]
    assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("DescribeInstanceTypes", {}),
        ("CreateVpc", {"CidrBlock": "10.0.0.0/16"}),
        ("CreateTags", {"Resources": ["vpc-1"], "Tags": [{"Key": "a", "Value": "b"}]}),
        ("CreateLaunchTemplate", {"LaunchTemplateName": "new", "LaunchTemplateData": {}}),
    ],
)
def test_a_dry_run_changes_nothing(operation: str, params: dict[str, Any]) -> None:
    context = account_with()
    before = context.cloud.save()
    assert context.refused(operation, DryRun=True, **params) == ("DryRunOperation", 412)
    assert context.cloud.save() == before


def test_calls_are_not_throttled_by_default() -> None:
    context = account_with()
    for _ in range(500):
        context.cloud.answer("ec2", "DescribeVpcs", {})


def test_throttling_is_per_operation_and_recovers_over_time() -> None:
    context = account_with(throttling=(RateLimit(operation="Describe*", rate=1, burst=2),))
    for operation in ("DescribeVpcs", "DescribeSubnets"):
        context.call(operation)
        context.call(operation)
        assert context.refused(operation) == ("RequestLimitExceeded", 503)
    context.clock.time += 1
    context.call("DescribeVpcs")
    assert context.refused("DescribeVpcs") == ("RequestLimitExceeded", 503)
    context.call("CreateVpc", CidrBlock="10.0.0.0/16")


def test_a_fault_before_the_handler_has_no_effect() -> None:
    fault = FaultRule(operation="CreateVpc", code="InternalError", status=500, times=1)
    context = account_with(faults=(fault,))
    assert context.refused("CreateVpc", CidrBlock="10.0.0.0/16") == ("InternalError", 500)
    assert len(context.call("DescribeVpcs")["Vpcs"]) == 1
    context.call("CreateVpc", CidrBlock="10.0.0.0/16")


def test_an_operation_with_a_lost_response_has_taken_effect() -> None:
    context = account_with(
        faults=(FaultRule(operation="CreateVpc", when=FaultTiming.AFTER, times=1),)
    )
    assert context.refused("CreateVpc", CidrBlock="10.0.0.0/16")[1] == 0
    assert len(context.call("DescribeVpcs")["Vpcs"]) == 2


def test_the_call_log_has_every_call_with_its_outcome() -> None:
    context, seen = account_with(), list[ApiCall]()
    context.cloud.on_call = seen.append
    context.call("DescribeVpcs", MaxResults=5)
    context.refused("DescribeVpcs", VpcIds=["vpc-1"])
    assert [(call.operation, call.params) for call in seen] == [
        ("DescribeVpcs", {"MaxResults": 5}),
        ("DescribeVpcs", {"VpcIds": ["vpc-1"]}),
    ]
    assert seen[0].error is None
    assert seen[1].error is not None
    assert seen[1].error.code == "InvalidVpcID.NotFound"


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    created = VirtualClock()
    yield created
    created.close()


def emulated(clock: VirtualClock, **settings: Any) -> EmulatedAwsAccount:
    return EmulatedAwsAccount(Cloud(spec=SPEC), clock=clock, settings=EmulatorSettings(**settings))


def test_call_and_answer_return_the_same(clock: VirtualClock) -> None:
    cloud = emulated(clock)
    assert clock.run(cloud.call("ec2", "DescribeVpcs", {})) == cloud.answer(
        "ec2", "DescribeVpcs", {}
    )


def test_latency_passes_on_the_clock(clock: VirtualClock) -> None:
    cloud, before = emulated(clock, latency=0.25), clock.now()
    clock.run(cloud.call("ec2", "DescribeVpcs", {}))
    assert clock.now() - before == pytest.approx(0.25)


def receive(cloud: EmulatedAwsAccount, seconds: int) -> Any:
    request = {"QueueUrl": cloud.account.queue_url, "WaitTimeSeconds": seconds}
    return cloud.call("sqs", "ReceiveMessage", request)


def test_a_long_poll_waits_for_its_wait_time(clock: VirtualClock) -> None:
    cloud, before = emulated(clock), clock.now()
    assert clock.run(receive(cloud, 20)) == {}
    assert clock.now() - before == pytest.approx(20)


def test_a_long_poll_wakes_up_for_a_message(clock: VirtualClock) -> None:
    cloud, before = emulated(clock), clock.now()

    async def both() -> Any:
        waiting = asyncio.create_task(receive(cloud, 20))
        await clock.sleep(3)
        sent = {"QueueUrl": cloud.account.queue_url, "MessageBody": "hello"}
        await cloud.call("sqs", "SendMessage", sent)
        return await waiting

    (message,) = clock.run(both())["Messages"]
    assert message["Body"] == "hello"
    assert clock.now() - before == pytest.approx(3)


def test_a_long_poll_is_logged_throttled_and_rejected_like_any_call(clock: VirtualClock) -> None:
    limits = (RateLimit(service="sqs", rate=0.001, burst=1),)
    cloud, seen = emulated(clock, throttling=limits), list[ApiCall]()
    cloud.on_call = seen.append
    clock.run(receive(cloud, 1))
    with pytest.raises(Exception, match="Throttling"):
        clock.run(receive(cloud, 1))
    assert [call.error and call.error.code for call in seen] == [None, "ThrottlingException"]


def test_the_same_seed_gives_the_same_account() -> None:
    worlds = [CheckedAccount(SPEC, seed=seed).cloud.save() for seed in (1, 1, 2)]
    assert worlds[0] == worlds[1] != worlds[2]


DISCOVERY = [{"Name": "tag:karpenter.sh/discovery", "Values": ["wain"]}]
IMAGE = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/{}/standard/recommended/image_id"


@pytest.fixture
def account() -> CheckedAccount:
    return CheckedAccount(
        CloudSpec(region="us-west-2", zones=["us-west-2a", "us-west-2c"], instanceTypes=["m5.*"]),
        settings=EmulatorSettings(
            kubernetes="1.34", control_plane=("https://127.0.0.1:6443", "Q0E=")
        ),
    )


def test_the_network_is_found_by_its_tag(account: CheckedAccount) -> None:
    subnet = account.cloud.account
    subnets = account.call("DescribeSubnets", Filters=DISCOVERY)["Subnets"]
    assert {each["AvailabilityZone"]: each["SubnetId"] for each in subnets} == subnet.subnets
    assert set(subnet.subnets) == {"us-west-2a", "us-west-2c"}
    assert all(each["AvailableIpAddressCount"] == 2**13 - 5 for each in subnets)
    assert not any(each["MapPublicIpOnLaunch"] for each in subnets)
    (group,) = account.call("DescribeSecurityGroups", Filters=DISCOVERY)["SecurityGroups"]
    assert (group["GroupId"], group["VpcId"]) == (subnet.security_group, subnet.vpc)


def test_the_cluster_has_the_configured_endpoint(account: CheckedAccount) -> None:
    cluster = account.call_service("eks", "DescribeCluster", {"name": "wain"})["cluster"]
    assert (cluster["version"], cluster["endpoint"]) == ("1.34", "https://127.0.0.1:6443")
    assert cluster["certificateAuthority"] == {"data": "Q0E="}
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"]
    assert cluster["resourcesVpcConfig"]["vpcId"] == account.cloud.account.vpc


def test_role_and_queue_exist(account: CheckedAccount) -> None:
    role = account.call_service("iam", "GetRole", {"RoleName": "KarpenterNodeRole-wain"})["Role"]
    assert role["RoleName"] == account.cloud.account.role
    url = account.call_service("sqs", "GetQueueUrl", {"QueueName": "wain"})["QueueUrl"]
    assert url == account.cloud.account.queue_url


@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_the_recommended_images_exist(account: CheckedAccount, architecture: str) -> None:
    request = {"Name": IMAGE.format(architecture)}
    identity = account.call_service("ssm", "GetParameter", request)["Parameter"]["Value"]
    filters = [
        {"Name": "image-id", "Values": [identity]},
        {"Name": "state", "Values": ["available"]},
    ]
    response = account.call(
        "DescribeImages", Filters=filters, IncludeDeprecated=True, MaxResults=1000
    )
    assert [each["Architecture"] for each in response["Images"]] == [architecture]


def test_every_image_behind_a_parameter_exists(account: CheckedAccount) -> None:
    known = account.cloud.services.images.state.images
    assert {image.id for image in account.cloud.services.ssm.images()} == known.keys()


def launch(account: CheckedAccount, capacity_type: str = "on-demand") -> dict[str, Any]:
    """Launches as a provider does: instance profile, launch template, fleet."""
    profile = {"InstanceProfileName": "wain_1"}
    account.call_service("iam", "CreateInstanceProfile", profile)
    role = {**profile, "RoleName": account.cloud.account.role}
    account.call_service("iam", "AddRoleToInstanceProfile", role)
    parameter = account.call_service("ssm", "GetParameter", {"Name": IMAGE.format("x86_64")})[
        "Parameter"
    ]
    account.call(
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
    response: dict[str, Any] = account.call(
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
    return response


def test_an_instance_can_be_launched_tagged_and_terminated(account: CheckedAccount) -> None:
    response = launch(account)
    (fleet,) = response["Instances"]
    assert fleet["InstanceType"] == "m5.large"
    (identity,) = fleet["InstanceIds"]
    account.call("CreateTags", Resources=[identity], Tags=[{"Key": "Name", "Value": "node"}])
    filters = [{"Name": "tag:Name", "Values": ["node"]}]
    (reservation,) = account.call("DescribeInstances", Filters=filters)["Reservations"]
    (instance,) = reservation["Instances"]
    assert instance["InstanceId"] == identity
    account.call("TerminateInstances", InstanceIds=[identity])
    (reservation,) = account.call("DescribeInstances", InstanceIds=[identity])["Reservations"]
    assert reservation["Instances"][0]["State"]["Name"] == "shutting-down"


def test_addresses_and_capacity_are_taken_and_released_with_instances(
    account: CheckedAccount,
) -> None:
    account.cloud.change({"stock": [{"instanceType": "m5.*", "free": 1}]})

    def free() -> int:
        rows = account.call("DescribeSubnets")["Subnets"]
        return sum(row["AvailableIpAddressCount"] for row in rows)

    before = free()
    (fleet,) = launch(account)["Instances"]
    zone = fleet["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"]
    assert free() == before - 1
    assert account.cloud.services.capacity_market.free("m5.large", zone, "on-demand") == 0
    account.call("TerminateInstances", InstanceIds=fleet["InstanceIds"])
    account.clock.time += 600
    assert free() == before
    assert account.cloud.services.capacity_market.free("m5.large", zone, "on-demand") == 1


def test_instance_events_arrive_in_the_queue(account: CheckedAccount) -> None:
    (fleet,) = launch(account, "spot")["Instances"]
    (identity,) = fleet["InstanceIds"]
    account.clock.time += 60
    account.cloud.change({"interruptions": [{"instance": identity, "kind": "spot"}]})
    url = account.cloud.account.queue_url
    request = {"QueueUrl": url, "MaxNumberOfMessages": 10}
    bodies = [
        each["Body"] for each in account.call_service("sqs", "ReceiveMessage", request)["Messages"]
    ]
    warnings = [body for body in bodies if "EC2 Spot Instance Interruption Warning" in body]
    assert len(warnings) == 1
    assert identity in warnings[0]
    account.clock.time += 130
    filters = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    assert account.call("DescribeInstances", Filters=filters)["Reservations"] == []


def test_reservations_of_the_cloud_exist() -> None:
    entry = CloudReservation(
        id="cr-0a", instanceType="m5.large", availabilityZone="us-west-2a", total=5, available=2
    )
    account = CheckedAccount(
        CloudSpec(region="us-west-2", instanceTypes=["m5.*"], capacityReservations=[entry])
    )
    (row,) = account.call("DescribeCapacityReservations")["CapacityReservations"]
    assert (row["CapacityReservationId"], row["AvailableInstanceCount"]) == ("cr-0a", 2)


def reservation_in(zone: str, *zones: str) -> CloudSpec:
    entry = CloudReservation(id="cr-0a", instanceType="m5.large", availabilityZone=zone, total=5)
    return CloudSpec(
        region="us-west-2",
        zones=list(zones) or None,
        instanceTypes=["m5.*"],
        capacityReservations=[entry],
    )


def test_a_reservation_in_an_unknown_zone_is_rejected() -> None:
    with pytest.raises(InvalidCatalogInput, match="cr-0a lies in us-west-2z") as raised:
        CheckedAccount(reservation_in("us-west-2z"))
    (remark,) = raised.value.diagnostics
    assert remark.field_error.path == ("spec", "capacityReservations", 0, "availabilityZone")


def test_a_reservation_in_an_excluded_zone_is_skipped_with_a_warning() -> None:
    account = CheckedAccount(reservation_in("us-west-2b", "us-west-2a"))
    assert account.call("DescribeCapacityReservations")["CapacityReservations"] == []
    assert ["cr-0a lies in us-west-2b" in str(each) for each in account.cloud.remarks] == [True]
    assert CheckedAccount(reservation_in("us-west-2a", "us-west-2a")).cloud.remarks == ()


def test_the_price_list_has_the_prices_of_the_capacity_market() -> None:
    account = CheckedAccount(CloudSpec(region="us-west-2", instanceTypes=["m5.large"]))
    price = [{"instanceType": "m5.large", "capacityType": "on-demand", "price": 7.5}]
    account.cloud.change({"prices": price})
    request = {
        "ServiceCode": "AmazonEC2",
        "Filters": [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"}],
    }
    (entry,) = account.call_service("pricing", "GetProducts", request)["PriceList"]
    assert '"7.5000000000"' in entry
    elsewhere = [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "eu-west-1"}]
    response = account.call_service("pricing", "GetProducts", {**request, "Filters": elsewhere})
    assert len(response["PriceList"]) == 100
