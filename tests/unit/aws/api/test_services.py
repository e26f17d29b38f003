"""The calls of the provider against an emulated account: they are valid, and lists complete."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.aws_account import (
    DISCOVERY,
    ROLE,
    ResolverBench,
    ScriptedApi,
    run_in_virtual_time,
)

from wainwright.api.catalog_documents import CloudReservation
from wainwright.aws.api.services import AwsServices, Ec2, Iam, Sqs, filter_equals, tag_filters
from wainwright.clock import EPOCH, VirtualClock
from wainwright.errors import AwsError

TEMPLATE: dict[str, Any] = {"ImageId": "ami-1"}


def result_of(operation: Callable[[ResolverBench], Awaitable[Any]], **bench: Any) -> Any:
    async def main(clock: VirtualClock) -> Any:
        return await operation(ResolverBench(clock, **bench))

    return run_in_virtual_time(main)


def test_instance_types_and_their_zones() -> None:
    types = result_of(lambda bench: bench.aws.ec2.describe_instance_types())
    assert {row["InstanceType"] for row in types} == {"m5.large", "m6g.large", "g4dn.xlarge"}
    offered = result_of(lambda bench: bench.aws.ec2.describe_instance_type_offerings())
    zones = result_of(lambda bench: bench.aws.ec2.describe_availability_zones())
    assert {row["Location"] for row in offered} <= {row["ZoneName"] for row in zones}


def test_current_spot_prices() -> None:
    now = datetime.fromtimestamp(EPOCH, UTC)
    rows = result_of(lambda bench: bench.aws.ec2.describe_spot_price_history(now))
    assert {row["InstanceType"] for row in rows} >= {"m5.large"}
    assert all(float(row["SpotPrice"]) > 0 for row in rows)


def test_the_network_by_tags() -> None:
    filters = tag_filters(DISCOVERY)
    subnets = result_of(lambda bench: bench.aws.ec2.describe_subnets(filters))
    groups = result_of(lambda bench: bench.aws.ec2.describe_security_groups(filters))
    assert (len(subnets), len(groups)) == (6, 1)


def test_images_of_an_owner() -> None:
    named = [filter_equals("name", "amazon-eks-node-al2023-arm64-standard-1.31-*")]
    images = result_of(lambda bench: bench.aws.ec2.describe_images(named, ["amazon"]))
    assert len(images) == 3
    assert result_of(lambda bench: bench.aws.ec2.describe_images(named, ["self"])) == []


def test_reservations_by_filter_and_by_id() -> None:
    row = CloudReservation(
        id="cr-1", instanceType="m5.large", availabilityZone="us-east-1a", total=2, tags={"a": "b"}
    )

    async def main(bench: ResolverBench) -> list[str]:
        ec2 = bench.aws.ec2
        by_tag = await ec2.describe_capacity_reservations({"Filters": tag_filters({"a": "*"})})
        instance_batcher = await ec2.describe_capacity_reservations(
            {"CapacityReservationIds": ["cr-1"]}
        )
        return [each["CapacityReservationId"] for each in (*by_tag, *instance_batcher)]

    assert result_of(main, reservations=[row]) == ["cr-1", "cr-1"]


def test_creating_and_deleting_a_template_is_idempotent() -> None:
    async def main(bench: ResolverBench) -> list[int]:
        ec2 = bench.aws.ec2
        made = await ec2.create_launch_template("wain/1", TEMPLATE, {"team": "web"}, "token")
        again = await ec2.create_launch_template("wain/1", TEMPLATE, {"team": "web"}, "token")
        assert made["LaunchTemplateId"] == again["LaunchTemplateId"]
        counts = [
            len(await ec2.describe_launch_templates(tag_filters({"team": "web"}))),
            len(await ec2.describe_launch_templates(tag_filters({"team": "*"}))),
        ]
        for _ in range(2):
            await ec2.delete_launch_template("wain/1")
        return [*counts, len(await ec2.describe_launch_templates([]))]

    assert result_of(main) == [1, 1, 0]


def test_a_template_that_cannot_be_deleted_is_an_error() -> None:
    seam = ScriptedApi({"DeleteLaunchTemplate": AwsError("UnauthorizedOperation", "no", 403)})

    async def main(clock: VirtualClock) -> None:
        del clock
        with pytest.raises(AwsError, match="UnauthorizedOperation"):
            await Ec2(seam).delete_launch_template("wain/1")

    run_in_virtual_time(main)


def fleet(subnet: str) -> dict[str, Any]:
    template = {"LaunchTemplateName": "wain/1", "Version": "$Latest"}
    override = {"InstanceType": "m5.large", "SubnetId": subnet}
    return {
        "Type": "instant",
        "ClientToken": "batch-1",
        "LaunchTemplateConfigs": [
            {"LaunchTemplateSpecification": template, "Overrides": [override]}
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": 3,
            "DefaultTargetCapacityType": "on-demand",
        },
    }


def test_instances_are_launched_listed_tagged_and_terminated() -> None:
    async def main(bench: ResolverBench) -> list[int]:
        ec2 = bench.aws.ec2
        image = (await ec2.describe_images([filter_equals("architecture", "x86_64")]))[0]["ImageId"]
        await ec2.create_launch_template("wain/1", {"ImageId": image}, {}, "token")
        subnet = bench.cloud.account.subnets["us-east-1a"]
        answer = await ec2.create_fleet(fleet(subnet))
        ids = [each for row in answer["Instances"] for each in row["InstanceIds"]]
        await ec2.create_tags(ids, {"team": "web"})
        counts = [
            len(await ec2.describe_instances(filters=tag_filters({"team": "web"}))),
            len(await ec2.describe_instances(ids=ids[:2])),
            len(await ec2.describe_instance_status([])),
        ]
        ended = await ec2.terminate_instances(ids)
        await bench.clock.sleep(600)
        return [*counts, len(ended), len(await ec2.describe_instances(ids=ids))]

    counts = result_of(main)
    assert counts[:2] == [3, 2]
    assert counts[3:] == [3, 0]


def test_a_dry_run_returns_the_error() -> None:
    async def main(bench: ResolverBench) -> tuple[Any, Any]:
        ec2 = bench.aws.ec2
        bench.cloud.change({"faults": [{"operation": "CreateFleet", "code": "AccessDenied"}]})
        refused = await ec2.dry_run("CreateFleet", fleet("subnet-1"))
        return await ec2.dry_run("DescribeInstanceTypes", {}), refused and refused.code

    assert result_of(main) == (None, "AccessDenied")


def test_pages_of_instance_profiles_are_followed() -> None:
    pages = [
        {"InstanceProfiles": [{"InstanceProfileName": "a"}], "IsTruncated": True, "Marker": "m"},
        {"InstanceProfiles": [{"InstanceProfileName": "b"}], "IsTruncated": False},
    ]
    seam = ScriptedApi({"ListInstanceProfiles": pages})

    async def main(clock: VirtualClock) -> list[str]:
        del clock
        rows = await Iam(seam).list_instance_profiles("/karpenter/")
        return [row["InstanceProfileName"] for row in rows]

    assert run_in_virtual_time(main) == ["a", "b"]
    assert seam.calls_to("ListInstanceProfiles")[1] == {"PathPrefix": "/karpenter/", "Marker": "m"}


def test_an_instance_profile_is_created_and_deleted() -> None:
    async def main(bench: ResolverBench) -> list[Any]:
        iam = bench.aws.iam
        seen: list[Any] = [await iam.get_instance_profile("mine")]
        await iam.create_instance_profile("mine", "/karpenter/", {"team": "web"})
        await iam.add_role("mine", ROLE)
        seen.append(((await iam.get_instance_profile("mine")) or {})["Roles"][0]["RoleName"])
        for _ in range(2):
            await iam.remove_role("mine", ROLE)
        for _ in range(2):
            await iam.delete_instance_profile("mine")
        return [*seen, await iam.get_instance_profile("mine")]

    assert result_of(main) == [None, ROLE, None]


def test_parameters_and_the_cluster() -> None:
    async def main(bench: ResolverBench) -> tuple[Any, str, str]:
        missing = await bench.aws.ssm.get_parameter("/none")
        path = "/aws/service/eks/optimized-ami/1.31/amazon-linux-2023/x86_64/standard/"
        found = await bench.aws.ssm.get_parameter(f"{path}recommended/image_id")
        cluster = await bench.aws.eks.describe_cluster("wain")
        return missing, (found or "")[:4], cluster["name"]

    assert result_of(main) == (None, "ami-", "wain")


def test_prices_of_products() -> None:
    terms = {"regionCode": "us-east-1", "instanceType": "m5.large", "operatingSystem": "Linux"}
    found = result_of(lambda bench: bench.aws.prices.get_products(terms))
    assert {row["product"]["attributes"]["instanceType"] for row in found} == {"m5.large"}


def test_a_queue_is_polled_and_emptied() -> None:
    async def main(bench: ResolverBench) -> list[Any]:
        queue = Sqs(bench.seam, "wain")
        url = bench.cloud.account.queue_url
        bench.call_api("sqs", "SendMessage", QueueUrl=url, MessageBody="hello")
        (message,) = await queue.receive_messages()
        await queue.delete_message(message["ReceiptHandle"])
        begun = bench.clock.now()
        rest = await queue.receive_messages()
        return [message["Body"], rest, round(bench.clock.now() - begun), bench.count("GetQueueUrl")]

    assert result_of(main) == ["hello", [], 20, 1]


def test_the_account_is_one_seam() -> None:
    seam = ScriptedApi({"DescribeAvailabilityZones": {"AvailabilityZones": []}})

    async def main(clock: VirtualClock) -> list[Any]:
        del clock
        return await AwsServices(seam).ec2.describe_availability_zones()

    assert run_in_virtual_time(main) == []
