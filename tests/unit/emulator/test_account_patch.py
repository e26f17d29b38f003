"""Patches of a running account, in the fields of the Cloud kind: applied completely or not."""

from typing import Any

import pytest
from tests.support.emulator_accounts import CheckedAccount

from wainwright.api.catalog_documents import CloudSpec
from wainwright.errors import InvalidInputError

PRICE = {"instanceType": "m5.large", "capacityType": "spot", "price": 0.5}
RESERVATION = {
    "id": "cr-0a",
    "instanceType": "m5.large",
    "availabilityZone": "us-west-2a",
    "total": 4,
}
POOL = ("m5.large", "us-west-2a", "spot")


@pytest.fixture
def account() -> CheckedAccount:
    return CheckedAccount(CloudSpec(region="us-west-2", instanceTypes=["m5.*"]))


def test_patched_prices_replace_previous_ones(account: CheckedAccount) -> None:
    capacity_market = account.cloud.services.capacity_market
    listed = capacity_market.price(*POOL)
    account.cloud.change({"prices": [PRICE]})
    assert capacity_market.price(*POOL) == 0.5
    account.cloud.change({"prices": []})
    assert capacity_market.price(*POOL) == listed != 0.5


def test_capacity_rules_and_unavailability_are_patched(account: CheckedAccount) -> None:
    capacity_market = account.cloud.services.capacity_market
    account.cloud.change({"stock": [{"instanceType": "m5.*", "capacityType": "spot", "free": 3}]})
    assert capacity_market.free(*POOL) == 3
    account.cloud.change({"unavailable": [{"zone": "us-west-2a"}]})
    assert capacity_market.free(*POOL) == 0
    assert capacity_market.free("m5.large", "us-west-2b", "spot") == 3
    account.cloud.change({"unavailable": [], "stock": []})
    assert capacity_market.free(*POOL) is None


def available_by_reservation(account: CheckedAccount) -> dict[str, int]:
    rows = account.call("DescribeCapacityReservations")["CapacityReservations"]
    return {row["CapacityReservationId"]: row["AvailableInstanceCount"] for row in rows}


def test_patched_reservations_are_added_and_changed(account: CheckedAccount) -> None:
    account.cloud.change({"capacityReservations": [RESERVATION]})
    account.cloud.change({"capacityReservations": [{**RESERVATION, "id": "cr-0b", "total": 1}]})
    assert available_by_reservation(account) == {"cr-0a": 4, "cr-0b": 1}
    account.cloud.change({"capacityReservations": [{**RESERVATION, "available": 2}]})
    assert available_by_reservation(account) == {"cr-0a": 2, "cr-0b": 1}


def test_faults_and_throttling_are_patched(account: CheckedAccount) -> None:
    account.cloud.change({"faults": [{"operation": "DescribeVpcs", "code": "InternalError"}]})
    assert account.refused("DescribeVpcs") == ("InternalError", 400)
    limit = {"operation": "DescribeVpcs", "rate": 1, "burst": 1}
    account.cloud.change({"faults": [], "throttling": [limit]})
    account.call("DescribeVpcs")
    assert account.refused("DescribeVpcs") == ("RequestLimitExceeded", 503)
    account.cloud.change({"throttling": False})
    account.call("DescribeVpcs")


def test_quota_and_timings_are_patched(account: CheckedAccount) -> None:
    account.cloud.change(
        {"quota": {"onDemand": {"standard": 8}}, "pace": {"boot": {"median": 30.0}}}
    )
    assert account.cloud.services.quota.state.limits.onDemand == {"standard": 8}
    assert account.cloud.services.instances.state.timings.boot.median == 30


def instance(account: CheckedAccount) -> str:
    image = account.call("RegisterImage", Name="mine", Architecture="x86_64")["ImageId"]
    request = {"ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    identity = str(account.call("RunInstances", **request)["Instances"][0]["InstanceId"])
    account.clock.time += 60
    return identity


@pytest.mark.parametrize(
    ("kind", "field", "expected"),
    [
        ("instance-check", "instance-status.status", "impaired"),
        ("system-check", "system-status.status", "impaired"),
        ("instance-retirement", "event.code", "instance-retirement"),
        ("system-reboot", "event.code", "system-reboot"),
    ],
)
def test_interruptions_are_carried_out_at_once(
    account: CheckedAccount, kind: str, field: str, expected: str
) -> None:
    identity = instance(account)
    filters = [{"Name": field, "Values": [expected]}]
    assert account.call("DescribeInstanceStatus", Filters=filters)["InstanceStatuses"] == []
    harm = {"instance": identity, "kind": kind, "seconds": 3600}
    account.cloud.change({"interruptions": [harm]})
    (row,) = account.call("DescribeInstanceStatus", Filters=filters)["InstanceStatuses"]
    assert row["InstanceId"] == identity


def test_failing_checks_can_recover(account: CheckedAccount) -> None:
    identity = instance(account)
    account.cloud.change({"interruptions": [{"instance": identity, "kind": "system-check"}]})
    account.cloud.change({"interruptions": [{"instance": identity, "kind": "recovered"}]})
    filters = [{"Name": "system-status.status", "Values": ["impaired"]}]
    assert account.call("DescribeInstanceStatus", Filters=filters)["InstanceStatuses"] == []


def test_names_of_earlier_releases_are_accepted(account: CheckedAccount) -> None:
    identity = instance(account)
    account.cloud.change({"interruptions": [{"instance": identity, "kind": "system-check"}]})
    harm = [{"instance": identity, "kind": "mended"}]
    account.cloud.change({"interruptions": harm, "pace": {"duds": 0.5}})
    filters = [{"Name": "system-status.status", "Values": ["impaired"]}]
    assert account.call("DescribeInstanceStatus", Filters=filters)["InstanceStatuses"] == []
    assert account.cloud.services.instances.state.timings.never_join_rate == 0.5


@pytest.mark.parametrize("kind", ["rebalance", "reservation", "instance-stop"])
def test_other_interruptions_arrive_in_the_queue(account: CheckedAccount, kind: str) -> None:
    identity = instance(account)
    account.cloud.change({"interruptions": [{"instance": identity, "kind": kind}]})
    request = {"QueueUrl": account.cloud.account.queue_url, "MaxNumberOfMessages": 10}
    bodies = [
        each["Body"] for each in account.call_service("sqs", "ReceiveMessage", request)["Messages"]
    ]
    messages = {
        "rebalance": "EC2 Instance Rebalance Recommendation",
        "reservation": "EC2 Capacity Reservation Instance Interruption Warning",
        "instance-stop": "AWS Health Event",
    }[kind]
    assert any(messages in body and identity in body for body in bodies)


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ({"price": []}, "price cannot be changed"),
        ({"region": "us-east-1"}, "region cannot be changed"),
        ({"prices": [{**PRICE, "price": -1}]}, r"prices\[0\].price"),
        ({"prices": [{**PRICE, "capacityType": "gift"}]}, "capacityType"),
        ({"prices": [{"instanceType": "m5.large"}]}, r"prices\[0\]"),
        ({"prices": "all"}, "prices"),
        ({"unavailable": [{"colour": "red"}]}, "colour"),
        ({"capacityReservations": [{**RESERVATION, "id": "mine"}]}, "id"),
        (
            {"capacityReservations": [{**RESERVATION, "availabilityZone": "us-west-2z"}]},
            "cr-0a is in us-west-2z, which us-west-2 does not have",
        ),
        ({"stock": [{"free": -1}]}, "stock"),
        ({"stock": [{"left": 1}]}, "stock"),
        ({"faults": [{"probability": 2}]}, "faults"),
        ({"throttling": [{"operation": "x"}]}, "throttling"),
        ({"quota": {"onDemand": 5}}, "quota"),
        ({"pace": {"boot": 5}}, "pace"),
        ({"interruptions": [{"instance": "i-1", "kind": "flood"}]}, "interruptions"),
        ({"interruptions": [{"instance": "i-1", "kind": "spot"}]}, "no machine i-1"),
    ],
)
def test_an_invalid_patch_changes_nothing(
    account: CheckedAccount, patch: dict[str, Any], says: str
) -> None:
    before = account.cloud.save()
    with pytest.raises(InvalidInputError, match=says):
        account.cloud.change({"unavailable": [{"zone": "us-west-2b"}], **patch})
    assert account.cloud.save() == before


def test_types_and_zones_of_other_regions_are_no_mistake(account: CheckedAccount) -> None:
    elsewhere = [{"instanceType": "p5.*", "zone": "us-east-1a"}, {"instanceType": "c5.large"}]
    account.cloud.change({"unavailable": elsewhere})
    assert len(account.cloud.services.capacity_market.state.capacity.unavailable) == 2


@pytest.mark.parametrize(
    ("patch", "says", "hint"),
    [
        (
            {"interruptions": [{"instance": "i-1", "kind": "sopt"}]},
            'interruptions[0].kind: found "sopt", expected one of',
            "did you mean spot?",
        ),
        (
            {"stock": [{"free": 3}, {"instanceTyp": "c5.*", "free": 3}]},
            "stock[1]: unknown field instanceTyp, expected one of",
            "did you mean instanceType?",
        ),
        (
            {"faults": [{"when": "befroe"}]},
            'faults[0].when: found "befroe", expected one of',
            "did you mean before?",
        ),
        (
            {"throttling": [{"operation": "CreateFleet", "raet": 1}]},
            "throttling[0]: unknown field raet, expected one of",
            "did you mean rate?",
        ),
        (
            {"quota": {"onDemnad": {}}},
            "quota: unknown field onDemnad, expected one of",
            "did you mean onDemand?",
        ),
        ({"stock": [{"free": -1}]}, "stock[0].free: Expected `int` >= 0", ""),
        (
            {"unavailable": [{"instanceType": "m5.*"}, {"instanceType": "m5.lrage"}]},
            "unavailable[1].instanceType: there is no instance type m5.lrage",
            "did you mean m5.large?",
        ),
        (
            {"unavailable": [{"zone": "us-wset-2a"}]},
            "unavailable[0].zone: there is no zone us-wset-2a",
            "did you mean us-west-2a?",
        ),
        (
            {"prices": [{**PRICE, "instanceType": "m5.lrage"}]},
            "prices[0].instanceType: there is no instance type m5.lrage",
            "did you mean m5.large?",
        ),
        (
            {"stock": [{"instanceType": "mm5.*", "free": 1}]},
            "stock[0].instanceType: there is no instance type mm5.*",
            "did you mean m5.*?",
        ),
        (
            {"stock": [{"capacityType": "sopt", "free": 1}]},
            'stock[0].capacityType: found "sopt", expected one of',
            "did you mean spot?",
        ),
        (
            {"capacityReservations": [{**RESERVATION, "instanceType": "m5.lrage"}]},
            "capacityReservations[0].instanceType: there is no instance type m5.lrage",
            "did you mean m5.large?",
        ),
        (
            {"capacityReservations": [{**RESERVATION, "availabilityZone": "us-wset-2a"}]},
            "capacityReservations: cr-0a is in us-wset-2a, which us-west-2 does not have",
            "did you mean us-west-2a?",
        ),
        (
            {"pace": {"neverJionRate": 0.1}},
            "pace: unknown field neverJionRate, expected one of",
            "did you mean neverJoinRate?",
        ),
        (
            {"pace": {"boot": {"medain": 3}}},
            "pace.boot: unknown field medain, expected one of",
            "did you mean median?",
        ),
    ],
)
def test_a_typo_in_a_patch_gets_the_field_and_the_word_that_was_meant(
    account: CheckedAccount, patch: dict[str, Any], says: str, hint: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        account.cloud.change(patch)
    assert refused.value.message.startswith(says)
    assert refused.value.hint == hint
