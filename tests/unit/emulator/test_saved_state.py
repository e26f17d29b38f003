"""An account that was saved and loaded behaves like the original."""

from typing import Any

import msgspec
import pytest
from tests.support.emulator_accounts import CheckedAccount, ManualClock

from wainwright.api.catalog_documents import CloudReservation, CloudSpec
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.faults import FaultRule, RateLimit
from wainwright.emulator.saved_state import decode_saved_account
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import InvalidInputError

RESERVATION = CloudReservation(
    id="cr-0a",
    instanceType="m5.large",
    availabilityZone="us-west-2a",
    total=3,
    instanceMatchCriteria="open",
    endTime="2026-01-01T00:10:00Z",
)


def busy_account() -> CheckedAccount:
    """An account with resources of every service, and with pending events."""
    account = CheckedAccount(
        CloudSpec(region="us-west-2", instanceTypes=["m5.*"], capacityReservations=[RESERVATION]),
        seed=7,
        settings=EmulatorSettings(
            moving_prices=True,
            faults=(FaultRule(operation="CreateVpc", times=1, code="InternalError"),),
            throttling=(RateLimit(operation="DescribeVpcs", rate=0.001, burst=3),),
        ),
    )
    account.cloud.change(
        {
            "stock": [{"instanceType": "m5.*", "free": 5}],
            "prices": [{"instanceType": "m5.large", "capacityType": "spot", "price": 0.5}],
        }
    )
    account.refused("CreateVpc", CidrBlock="10.0.0.0/16")
    account.call("DescribeVpcs")
    image = account.call("RegisterImage", Name="mine", Architecture="x86_64")["ImageId"]
    account.call(
        "CreateLaunchTemplate",
        LaunchTemplateName="one",
        LaunchTemplateData={"ImageId": image},
        ClientToken="token",
    )
    zone = account.cloud.account.subnets["us-west-2a"]
    request = {"ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 2}
    account.call("RunInstances", SubnetId=zone, **request)
    account.call_service(
        "sqs",
        "SendMessage",
        {"QueueUrl": account.cloud.account.queue_url, "MessageBody": "hello"},
    )
    account.call_service("ssm", "PutParameter", {"Name": "/x", "Value": "1", "Type": "String"})
    return account


REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("ec2", "DescribeInstances", {}),
    ("ec2", "DescribeInstanceStatus", {"IncludeAllInstances": True}),
    ("ec2", "DescribeCapacityReservations", {}),
    ("ec2", "DescribeSubnets", {}),
    ("ec2", "DescribeTags", {}),
    ("ec2", "DescribeImages", {"Owners": ["self"]}),
    ("ec2", "DescribeLaunchTemplates", {}),
    ("ec2", "DescribeSpotPriceHistory", {}),
    ("ec2", "DescribeVpcs", {}),
    ("iam", "GetRole", {"RoleName": "KarpenterNodeRole-wain"}),
    ("ssm", "GetParameter", {"Name": "/x"}),
    ("eks", "DescribeCluster", {"name": "wain"}),
    ("sqs", "GetQueueUrl", {"QueueName": "wain"}),
    ("ec2", "CreateVpc", {"CidrBlock": "10.0.0.0/16"}),
]


@pytest.mark.parametrize("later", [0.0, 30.0, 900.0])
def test_a_loaded_account_behaves_like_the_original(later: float) -> None:
    account = busy_account()
    clock = ManualClock(account.clock.time)
    loaded = EmulatedAwsAccount.load(account.cloud.save(), clock=clock)
    account.clock.time += later
    clock.time += later
    for service, operation, params in REQUESTS:
        expected = account.cloud.answer(service, operation, params)
        assert loaded.answer(service, operation, params) == expected, operation
    decode = msgspec.json.decode
    assert decode(loaded.save()) == decode(account.cloud.save())


def test_events_due_since_saving_are_handled_after_loading() -> None:
    account = busy_account()
    clock = ManualClock(account.clock.time + 3600)
    loaded = EmulatedAwsAccount.load(account.cloud.save(), clock=clock)
    (row,) = loaded.answer("ec2", "DescribeCapacityReservations", {})["CapacityReservations"]
    assert row["State"] == "expired"


def test_client_tokens_survive_saving() -> None:
    account = busy_account()
    loaded = EmulatedAwsAccount.load(account.cloud.save(), clock=ManualClock())
    template = account.cloud.services.templates.template({"LaunchTemplateName": "one"})
    request = {
        "LaunchTemplateName": "one",
        "LaunchTemplateData": {"ImageId": template.versions[0].data["ImageId"]},
        "ClientToken": "token",
    }
    again = loaded.answer("ec2", "CreateLaunchTemplate", request)["LaunchTemplate"]
    assert again["LaunchTemplateId"] == template.id


def test_the_saved_file_has_time_and_account() -> None:
    account = busy_account()
    saved = decode_saved_account(account.cloud.save())
    assert saved.at == account.clock.time
    assert saved.account == account.cloud.account


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"nonsense"])
def test_an_invalid_saved_account_is_rejected(data: bytes) -> None:
    with pytest.raises(InvalidInputError, match="not a saved emulator"):
        EmulatedAwsAccount.load(data, clock=ManualClock())


def test_another_version_is_rejected() -> None:
    written = msgspec.json.decode(busy_account().cloud.save())
    with pytest.raises(InvalidInputError, match="version 99"):
        EmulatedAwsAccount.load(
            msgspec.json.encode({**written, "version": 99}), clock=ManualClock()
        )


def test_a_file_of_an_earlier_release_is_read_with_its_names() -> None:
    account = busy_account()
    account.cloud.change({"pace": {"neverJoinRate": 0.25}})
    former = account.cloud.save().replace(b'"neverJoinRate"', b'"duds"')
    assert b'"duds":0.25' in former
    loaded = EmulatedAwsAccount.load(former, clock=ManualClock())
    assert loaded.services.instances.state.timings.never_join_rate == 0.25


def test_json_names_do_not_follow_renamed_fields() -> None:
    """Files of earlier releases must stay readable: JSON names are part of the format."""
    saved = msgspec.json.decode(busy_account().cloud.save())
    states = saved["states"]
    (event, *_) = saved["appointments"]
    (instance, *_) = states["Instances"]["instances"].values()
    assert saved.keys() >= {"version", "at", "cloud", "settings", "account", "chance", "states"}
    assert saved["settings"].keys() >= {"stock", "pace", "moving_prices", "kubernetes"}
    assert saved["settings"]["pace"].keys() >= {"boot", "invisible", "remembered", "neverJoinRate"}
    assert event.keys() == {"due", "number", "kind", "about"}
    assert instance.keys() >= {"run", "build", "visible", "joins"}
    assert states["Instances"].keys() == {"instances", "builds", "number", "pace"}
    assert states["Shop"].keys() >= {"opened", "priced", "moving", "stock"}
    assert states["Faults"].keys() == {"rules", "struck"}
    assert states["Ssm"].keys() == {"put", "gone"}
    assert "spot_share" in states["Interruptions"]
    (token,) = states["Templates"]["tokens"].values()
    assert token.keys() == {"asked", "answer", "at"}
