"""DescribeInstanceStatus: only what is asked for, as every event it returns drains a node."""

from typing import Any

import pytest
from tests.support.launches import A, B, Yard, ids_of, named

from wainwright.emulator.interruptions import Check, Code

IMPAIRED = "impaired"


@pytest.fixture
def yard() -> Yard:
    return Yard()


def found(yard: Yard, *filters: dict[str, Any], **params: Any) -> list[str]:
    answer = yard.ask("DescribeInstanceStatus", Filters=list(filters), **params)
    return ids_of(answer["InstanceStatuses"])


def test_a_healthy_machine_is_shown_as_such(yard: Yard) -> None:
    (machine,) = yard.launch()
    yard.wait(10)
    (shown,) = yard.ask("DescribeInstanceStatus", InstanceIds=[machine])["InstanceStatuses"]
    assert shown["InstanceState"]["Name"] == "running"
    assert (shown["AvailabilityZone"], shown["Events"]) == (A, [])
    passed = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
    for check in ("InstanceStatus", "SystemStatus", "AttachedEbsStatus"):
        assert shown[check] == passed


def test_only_running_machines_unless_all_are_asked_for(yard: Yard) -> None:
    (machine,) = yard.launch()
    assert found(yard) == []
    assert found(yard, IncludeAllInstances=True) == [machine]
    answer = yard.ask("DescribeInstanceStatus", IncludeAllInstances=True)
    assert answer["InstanceStatuses"][0]["SystemStatus"] == {"Status": "not-applicable"}
    assert found(yard, named("instance-state-name", "pending"), IncludeAllInstances=True) == [
        machine
    ]


@pytest.mark.parametrize(
    ("check", "name", "field"),
    [
        (Check.INSTANCE, "instance-status", "InstanceStatus"),
        (Check.SYSTEM, "system-status", "SystemStatus"),
        (Check.EBS, "attached-ebs-status", "AttachedEbsStatus"),
    ],
)
def test_failing_checks_are_found_by_filter(
    yard: Yard, check: Check, name: str, field: str
) -> None:
    healthy, sick = yard.launch(count=2)
    yard.wait(10)
    assert found(yard, named(f"{name}.status", IMPAIRED)) == []
    yard.cloud.parts.interruptions.impair(sick, check)
    yard.wait(60)
    assert found(yard, named(f"{name}.status", IMPAIRED)) == [sick]
    assert found(yard, named(f"{name}.status", "ok")) == [healthy]
    (shown,) = yard.ask("DescribeInstanceStatus", InstanceIds=[sick])["InstanceStatuses"]
    (detail,) = shown[field]["Details"]
    assert (shown[field]["Status"], detail["Status"]) == (IMPAIRED, "failed")
    assert detail["ImpairedSince"].timestamp() == yard.clock.now() - 60
    yard.cloud.parts.interruptions.mend(sick)
    assert found(yard, named(f"{name}.status", IMPAIRED)) == []


def test_scheduled_events_are_found_by_their_code(yard: Yard) -> None:
    plain, struck = yard.launch(count=2)
    yard.wait(10)
    starts = yard.clock.now() + 3600
    yard.cloud.parts.interruptions.schedule(struck, Code.SYSTEM_REBOOT, starts=starts)
    codes = [each.value for each in Code]
    assert found(yard, named("event.code", *codes)) == [struck]
    assert found(yard, named("event.code", "instance-stop")) == []
    shown = yard.ask("DescribeInstanceStatus", InstanceIds=[plain, struck])["InstanceStatuses"]
    assert [len(each["Events"]) for each in shown] == [0, 1]
    (event,) = shown[1]["Events"]
    assert (event["Code"], event["NotBefore"].timestamp()) == ("system-reboot", starts)


def test_zones_unknown_filters_and_pages(yard: Yard) -> None:
    first = yard.launch(count=6)
    (second,) = yard.launch(zone=B)
    yard.wait(10)
    assert found(yard, named("availability-zone", B)) == [second]
    pages = yard.pages("DescribeInstanceStatus", "InstanceStatuses", MaxResults=5)
    assert [ids_of(page) for page in pages] == [first[:5], [first[5], second]]
    refused = yard.refused("DescribeInstanceStatus", Filters=[named("mood", "bad")])
    assert refused == ("InvalidParameterValue", 400)
    gone = yard.refused("DescribeInstanceStatus", InstanceIds=["i-0123456789abcdef0"])
    assert gone == ("InvalidInstanceID.NotFound", 400)
