"""The router and its request log; an account kept in a file."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulator_accounts import ManualClock
from tests.unit.emulator.http.http_support import Asking
from tests.unit.emulator.http.test_protocols import operations, params

from wainwright.clock import VirtualClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.router import MAX_LOG_BYTES, RequestLog, RequestLogEntry
from wainwright.emulator.http.server import StateFile, resume_account
from wainwright.errors import AwsError, InvalidInputError


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


def entry(operation: str, size: int = 0) -> RequestLogEntry:
    return RequestLogEntry(
        at=0.0,
        seconds=0.0,
        service="ec2",
        operation=operation,
        status=200,
        code=None,
        params={"x": "x" * size},
    )


def test_the_journal_keeps_the_latest_that_fit() -> None:
    journal = RequestLog()
    for number in range(5):
        journal.add(entry(str(number), MAX_LOG_BYTES // 4))
    assert [b'"operation":"4"' in bytes(each) for each in journal.latest()][-1]
    assert len(list(journal.latest())) == 3
    assert len(list(journal.latest(1))) == 1
    assert b'"operation":"4"' in bytes(next(journal.latest(1)))


def test_questions_change_nothing() -> None:
    reads = ["DescribeInstances", "GetParameter", "ListQueues", ""]
    writes = ["CreateFleet", "ReceiveMessage", "TerminateInstances"]
    assert not any(entry(name).may_change_state for name in reads)
    assert all(entry(name).may_change_state for name in writes)


CLOUD = EmulatedAwsAccount(clock=ManualClock())


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


BASE = "http://127.0.0.1:5000"


def test_an_account_goes_on_under_its_new_address(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    clock = ManualClock()
    cloud = EmulatedAwsAccount(clock=clock)
    cloud.answer("ec2", "CreateVpc", {"CidrBlock": "10.1.0.0/16"})
    vpcs = cloud.answer("ec2", "DescribeVpcs", {})
    StateFile(file, cloud).write()
    again = resume_account(file, clock=clock, queue_base=BASE)
    assert again is not None
    assert again.answer("ec2", "DescribeVpcs", {}) == vpcs
    where = f"{BASE}/111122223333/wain"
    assert again.account.queue_url == where
    assert again.answer("sqs", "GetQueueUrl", {"QueueName": "wain"}) == {"QueueUrl": where}
    assert again.account.subnets == cloud.account.subnets


def test_no_file_no_account(tmp_path: Path) -> None:
    assert resume_account(tmp_path / "none", clock=ManualClock(), queue_base=BASE) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}'])
def test_a_file_that_is_something_else(text: str, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match="no saved emulator"):
        resume_account(file, clock=ManualClock(), queue_base=BASE)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        resume_account(tmp_path, clock=ManualClock(), queue_base=BASE)
    with pytest.raises(InvalidInputError, match="cannot be written"):
        StateFile(tmp_path / "none" / "x", EmulatedAwsAccount(clock=ManualClock())).write()


def test_changes_are_written_together_after_a_pause(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    clock = VirtualClock()
    cloud = EmulatedAwsAccount(clock=clock)

    async def story() -> list[bool]:
        state = StateFile(file, cloud)
        keeping = asyncio.create_task(state.write_changes())
        there = []
        await clock.sleep(10)
        there.append(file.exists())
        for _ in range(3):
            state.mark_changed()
            await clock.sleep(0.2)
        there.append(file.exists())
        await clock.sleep(1)
        there.append(file.exists())
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        return there

    assert clock.run(story()) == [False, False, True]
    assert json.loads(file.read_bytes())["account"]["cluster"] == "wain"
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]
    clock.close()
