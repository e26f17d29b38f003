"""The calls of the provider against an emulated account: they are legal, and lists are whole."""

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
from wainwright.aws.api.seam import filter_equals, tag_filters
from wainwright.aws.api.services import AwsServices, Ec2, Iam, Sqs
from wainwright.clock import EPOCH, VirtualClock
from wainwright.errors import AwsError

TEMPLATE: dict[str, Any] = {"ImageId": "ami-1"}


def asked(question: Callable[[ResolverBench], Awaitable[Any]], **bench: Any) -> Any:
    async def main(clock: VirtualClock) -> Any:
        return await question(ResolverBench(clock, **bench))

    return run_in_virtual_time(main)


def test_instance_types_and_where_they_are_sold() -> None:
    types = asked(lambda bench: bench.aws.ec2.describe_instance_types())
    assert {row["InstanceType"] for row in types} == {"m5.large", "m6g.large", "g4dn.xlarge"}
    sold = asked(lambda bench: bench.aws.ec2.describe_instance_type_offerings())
    zones = asked(lambda bench: bench.aws.ec2.describe_availability_zones())
    assert {row["Location"] for row in sold} <= {row["ZoneName"] for row in zones}


def test_spot_prices_of_this_moment() -> None:
    now = datetime.fromtimestamp(EPOCH, UTC)
    rows = asked(lambda bench: bench.aws.ec2.describe_spot_price_history(now))
    assert {row["InstanceType"] for row in rows} >= {"m5.large"}
    assert all(float(row["SpotPrice"]) > 0 for row in rows)


def test_the_network_by_tags() -> None:
    filters = tag_filters(DISCOVERY)
    subnets = asked(lambda bench: bench.aws.ec2.describe_subnets(filters))
    groups = asked(lambda bench: bench.aws.ec2.describe_security_groups(filters))
    assert (len(subnets), len(groups)) == (6, 1)


def test_images_of_an_owner() -> None:
    named = [filter_equals("name", "amazon-eks-node-al2023-arm64-standard-1.31-*")]
    images = asked(lambda bench: bench.aws.ec2.describe_images(named, ["amazon"]))
    assert len(images) == 3
    assert asked(lambda bench: bench.aws.ec2.describe_images(named, ["self"])) == []


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

    assert asked(main, reservations=[row]) == ["cr-1", "cr-1"]


def test_templates_are_made_found_and_deleted_twice() -> None:
    async def main(bench: ResolverBench) -> list[int]:
        ec2 = bench.aws.ec2
        made = await ec2.create_launch_template("wain/1", TEMPLATE, {"team": "web"}, "token")
        again = await ec2.create_launch_template("wain/1", TEMPLATE, {"team": "web"}, "token")
        assert made["LaunchTemplateId"] == again["LaunchTemplateId"]
        counts = [
            len(await ec2.describe_launch_templates(names=["wain/1"])),
            len(await ec2.describe_launch_templates(filters=tag_filters({"team": "*"}))),
        ]
        for _ in range(2):
            await ec2.delete_launch_template(name="wain/1")
            await ec2.delete_launch_template(identity=made["LaunchTemplateId"])
        return [*counts, len(await ec2.describe_launch_templates())]

    assert asked(main) == [1, 1, 0]


def test_a_template_that_cannot_be_deleted_is_an_error() -> None:
    seam = ScriptedApi({"DeleteLaunchTemplate": AwsError("UnauthorizedOperation", "no", 403)})

    async def main(clock: VirtualClock) -> None:
        del clock
        with pytest.raises(AwsError, match="UnauthorizedOperation"):
            await Ec2(seam).delete_launch_template(name="wain/1")

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


def test_machines_are_launched_listed_tagged_and_terminated() -> None:
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

    counts = asked(main)
    assert counts[:2] == [3, 2]
    assert counts[3:] == [3, 0]


def test_a_dry_run_says_what_stands_against_it() -> None:
    async def main(bench: ResolverBench) -> tuple[Any, Any]:
        ec2 = bench.aws.ec2
        bench.cloud.change({"faults": [{"operation": "CreateFleet", "code": "AccessDenied"}]})
        refused = await ec2.dry_run("CreateFleet", fleet("subnet-1"))
        return await ec2.dry_run("DescribeInstanceTypes", {}), refused and refused.code

    assert asked(main) == (None, "AccessDenied")


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
    assert seam.asked("ListInstanceProfiles")[1] == {"PathPrefix": "/karpenter/", "Marker": "m"}


def test_a_profile_lives_and_dies() -> None:
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

    assert asked(main) == [None, ROLE, None]


def test_parameters_and_the_cluster() -> None:
    async def main(bench: ResolverBench) -> tuple[Any, str, str]:
        missing = await bench.aws.ssm.parameter("/none")
        path = "/aws/service/eks/optimized-ami/1.31/amazon-linux-2023/x86_64/standard/"
        found = await bench.aws.ssm.parameter(f"{path}recommended/image_id")
        cluster = await bench.aws.eks.describe_cluster("wain")
        return missing, (found or "")[:4], cluster["name"]

    assert asked(main) == (None, "ami-", "wain")


def test_prices_of_products() -> None:
    terms = {"regionCode": "us-east-1", "instanceType": "m5.large", "operatingSystem": "Linux"}
    found = asked(lambda bench: bench.aws.prices.products(terms))
    assert {row["product"]["attributes"]["instanceType"] for row in found} == {"m5.large"}


def test_a_queue_is_polled_and_emptied() -> None:
    async def main(bench: ResolverBench) -> list[Any]:
        queue = Sqs(bench.seam, "wain")
        url = bench.cloud.account.queue_url
        bench.ask("sqs", "SendMessage", QueueUrl=url, MessageBody="hello")
        (message,) = await queue.receive()
        await queue.delete(message["ReceiptHandle"])
        begun = bench.clock.now()
        rest = await queue.receive()
        return [message["Body"], rest, round(bench.clock.now() - begun), bench.count("GetQueueUrl")]

    assert asked(main) == ["hello", [], 20, 1]


def test_the_account_is_one_seam() -> None:
    seam = ScriptedApi({"DescribeAvailabilityZones": {"AvailabilityZones": []}})

    async def main(clock: VirtualClock) -> list[Any]:
        del clock
        return await AwsServices(seam).ec2.describe_availability_zones()

    assert run_in_virtual_time(main) == []
