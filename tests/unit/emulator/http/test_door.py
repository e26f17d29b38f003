"""The door: what is noted of a request, and that no request ends in a mistake of ours."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulated import HandClock
from tests.unit.emulator.http.asking import Asking
from tests.unit.emulator.http.test_codec import operations, params

from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.http.journal import MOST_BYTES, Entry, Journal
from wainwright.errors import AwsError


def noted(asking: Asking) -> list[tuple[str, str, int, str | None]]:
    found: list[tuple[str, str, int, str | None]] = []
    asking.journal.listeners.append(
        lambda entry: found.append((entry.service, entry.operation, entry.status, entry.code))
    )
    return found


def test_every_request_is_noted_with_its_end() -> None:
    asking = Asking()
    found = noted(asking)
    asking.ec2("DescribeSubnets")
    asking.ec2("DescribeInstances", **{"InstanceId.1": "i-0123456789abcdef0"})
    asking.ec2("Nothing")
    asking.cloud.change({"faults": [{"operation": "DescribeVpcs", "when": "after"}]})
    assert asking.ec2("DescribeVpcs") is None
    assert found == [
        ("ec2", "DescribeSubnets", 200, None),
        ("ec2", "DescribeInstances", 400, "InvalidInstanceID.NotFound"),
        ("ec2", "", 400, "InvalidAction"),
        ("ec2", "DescribeVpcs", 0, "ConnectionClosed"),
    ]


def test_each_request_has_an_id_of_its_own() -> None:
    asking = Asking()
    replies = [asking.ec2("DescribeSubnets") for _ in range(3)]
    assert len({reply.headers["x-amzn-RequestId"] for reply in replies if reply}) == 3


def entry(operation: str, size: int = 0) -> Entry:
    return Entry(
        at=0.0,
        seconds=0.0,
        service="ec2",
        operation=operation,
        status=200,
        code=None,
        params={"x": "x" * size},
    )


def test_the_journal_keeps_the_latest_that_fit() -> None:
    journal = Journal()
    for number in range(5):
        journal.note(entry(str(number), MOST_BYTES // 4))
    assert [b'"operation":"4"' in bytes(each) for each in journal.latest()][-1]
    assert len(list(journal.latest())) == 3
    assert len(list(journal.latest(1))) == 1
    assert b'"operation":"4"' in bytes(next(journal.latest(1)))


def test_questions_change_nothing() -> None:
    reads = ["DescribeInstances", "GetParameter", "ListQueues", ""]
    writes = ["CreateFleet", "ReceiveMessage", "TerminateInstances"]
    assert not any(entry(name).changes for name in reads)
    assert all(entry(name).changes for name in writes)


CLOUD = EmulatedCloud(clock=HandClock())


@given(st.data())
def test_no_request_however_odd_ends_in_a_mistake_of_ours(data: st.DataObject) -> None:
    service, operation = data.draw(st.sampled_from(operations()))
    strategy = params(service, operation)
    asked: dict[str, Any] = {} if strategy is None else data.draw(strategy)
    asked.pop("DryRun", None)
    try:
        CLOUD.answer(service, operation, asked)
    except AwsError as error:
        assert error.status < 500  # noqa: PT017 — whether it is refused at all is left open
