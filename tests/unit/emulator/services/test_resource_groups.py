"""Resource groups of capacity reservations, and EC2's view of them."""

from typing import Any

from tests.support.emulator_accounts import CheckedAccount, expect_error

from wainwright.api.catalog_documents import CloudReservation, CloudSpec
from wainwright.emulator.emulated_account import EmulatedAwsAccount

GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group"


def reservation(number: int, *groups: str, **more: Any) -> CloudReservation:
    return CloudReservation(
        id=f"cr-{number}",
        instanceType="m5.large",
        availabilityZone="us-east-1a",
        total=1,
        groups=[f"{GROUP}/{each}" for each in groups] or None,
        **more,
    )


def account(*reservations: CloudReservation) -> CheckedAccount:
    spec = CloudSpec(
        region="us-east-1", instanceTypes=["m5.large"], capacityReservations=list(reservations)
    )
    return CheckedAccount(spec)


def call(aws: CheckedAccount, operation: str, **params: Any) -> dict[str, Any]:
    return aws.call_service("resource-groups", operation, params)


def refused(aws: CheckedAccount, operation: str, **params: Any) -> tuple[str, int]:
    return expect_error(lambda: call(aws, operation, **params))


def arn(number: int, owner: str = "111122223333") -> str:
    return f"arn:aws:ec2:us-east-1:{owner}:capacity-reservation/cr-{number}"


def members(aws: CheckedAccount, group: str) -> list[str]:
    rows = call(aws, "ListGroupResources", Group=group)["Resources"]
    return [row["Identifier"]["ResourceArn"] for row in rows]


def test_a_group_is_created_filled_emptied_and_deleted() -> None:
    aws = account(reservation(1), reservation(2, ownerID="444455556666"))
    configuration = [{"Type": "AWS::EC2::CapacityReservationPool"}]
    created = call(aws, "CreateGroup", Name="web", Configuration=configuration)["Group"]
    assert created["GroupArn"] == f"{GROUP}/web"
    both = [arn(1), arn(2, "444455556666")]
    answer = call(aws, "GroupResources", Group="web", ResourceArns=[*both, arn(9)])
    assert answer["Succeeded"] == both
    assert [each["ResourceArn"] for each in answer["Failed"]] == [arn(9)]
    assert members(aws, f"{GROUP}/web") == members(aws, "web") == both
    call(aws, "UngroupResources", Group="web", ResourceArns=[arn(1)])
    assert members(aws, "web") == both[1:]
    call(aws, "DeleteGroup", Group="web")
    assert call(aws, "ListGroups")["Groups"] == []


def test_a_group_that_does_not_exist_is_an_error() -> None:
    aws = account()
    for operation in ("GetGroup", "DeleteGroup", "ListGroupResources"):
        assert refused(aws, operation, Group="none") == ("NotFoundException", 404)
    assert refused(aws, "ListGroupResources") == ("BadRequestException", 400)


def test_names_are_unique_and_checked() -> None:
    aws = account()
    call(aws, "CreateGroup", Name="web")
    for name in ("web", "a b", "aws-web"):
        assert refused(aws, "CreateGroup", Name=name) == ("BadRequestException", 400)


def test_lists_come_in_pages() -> None:
    aws = account(*(reservation(number, "web") for number in range(5)))
    first = call(aws, "ListGroupResources", Group="web", MaxResults=3)
    rest = call(aws, "ListGroupResources", Group="web", MaxResults=3, NextToken=first["NextToken"])
    assert len(first["Resources"]) == 3
    assert len(rest["Resources"]) == 2
    assert "NextToken" not in rest
    only = [{"Name": "resource-type", "Values": ["AWS::EC2::Host"]}]
    assert call(aws, "ListGroupResources", Group="web", Filters=only)["Resources"] == []


def test_a_cloud_states_the_groups_of_its_reservations() -> None:
    aws = account(reservation(1, "web", "all"), reservation(2, "all"), reservation(3))
    assert members(aws, "web") == [arn(1)]
    assert members(aws, "all") == [arn(1), arn(2)]
    groups = aws.call("GetGroupsForCapacityReservation", CapacityReservationId="cr-1")
    assert groups["CapacityReservationGroups"] == [
        {"GroupArn": f"{GROUP}/{name}", "OwnerId": "111122223333"} for name in ("web", "all")
    ]
    assert aws.refused("GetGroupsForCapacityReservation", CapacityReservationId="cr-9") == (
        "InvalidCapacityReservationId.NotFound",
        400,
    )


def test_a_change_moves_a_reservation_to_other_groups_and_the_groups_are_saved() -> None:
    aws = account(reservation(1, "web"))
    entry = {
        "id": "cr-1",
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "total": 1,
    }
    aws.cloud.change({"capacityReservations": [entry]})
    assert members(aws, "web") == [arn(1)]
    aws.cloud.change({"capacityReservations": [{**entry, "groups": [f"{GROUP}/db"]}]})
    assert (members(aws, "web"), members(aws, "db")) == ([], [arn(1)])
    loaded = EmulatedAwsAccount.load(aws.cloud.save(), clock=aws.clock)
    rows = loaded.answer("resource-groups", "ListGroupResources", {"Group": "db"})["Resources"]
    assert len(rows) == 1
