"""The router and its request log; an account in a state file."""

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulator_accounts import ManualClock
from tests.unit.emulator.http.http_support import RequestSender
from tests.unit.emulator.http.test_protocols import operations, request_params

from wainwright.clock import VirtualClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.admin_api import MAX_LOG_BYTES, RequestLog, RequestLogEntry
from wainwright.emulator.http.server import (
    EmulatorHttpServer,
    StateFile,
    endpoint_url,
    listen,
    resume_account,
)
from wainwright.errors import AwsError, InvalidInputError


def logged(requests: RequestSender) -> list[tuple[str, str, int, str | None]]:
    found: list[tuple[str, str, int, str | None]] = []
    requests.request_log.listeners.append(
        lambda entry: found.append((entry.service, entry.operation, entry.status, entry.code))
    )
    return found


def test_every_request_is_logged_with_its_outcome() -> None:
    requests = RequestSender()
    found = logged(requests)
    requests.ec2("DescribeSubnets")
    requests.ec2("DescribeInstances", **{"InstanceId.1": "i-0123456789abcdef0"})
    requests.ec2("Nothing")
    requests.cloud.change({"faults": [{"operation": "DescribeVpcs", "when": "after"}]})
    assert requests.ec2("DescribeVpcs") is None
    assert found == [
        ("ec2", "DescribeSubnets", 200, None),
        ("ec2", "DescribeInstances", 400, "InvalidInstanceID.NotFound"),
        ("ec2", "", 400, "InvalidAction"),
        ("ec2", "DescribeVpcs", 0, "ConnectionClosed"),
    ]


def test_each_request_has_its_own_id() -> None:
    requests = RequestSender()
    replies = [requests.ec2("DescribeSubnets") for _ in range(3)]
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


def test_the_request_log_keeps_the_latest_entries_that_fit() -> None:
    request_log = RequestLog()
    for number in range(5):
        request_log.add(entry(str(number), MAX_LOG_BYTES // 4))
    assert [b'"operation":"4"' in bytes(each) for each in request_log.latest()][-1]
    assert len(list(request_log.latest())) == 3
    assert len(list(request_log.latest(1))) == 1
    assert b'"operation":"4"' in bytes(next(request_log.latest(1)))


def test_read_only_operations_do_not_change_state() -> None:
    reads = ["DescribeInstances", "GetParameter", "ListQueues", ""]
    writes = ["CreateFleet", "ReceiveMessage", "TerminateInstances"]
    assert not any(entry(name).may_change_state for name in reads)
    assert all(entry(name).may_change_state for name in writes)


CLOUD = EmulatedAwsAccount(clock=ManualClock())


@given(st.data())
def test_no_request_causes_an_internal_error(data: st.DataObject) -> None:
    service, operation = data.draw(st.sampled_from(operations()))
    strategy = request_params(service, operation)
    request: dict[str, Any] = {} if strategy is None else data.draw(strategy)
    request.pop("DryRun", None)
    try:
        CLOUD.answer(service, operation, request)
    except AwsError as error:
        assert error.status < 500  # noqa: PT017 — it may or may not be rejected


BASE = "http://127.0.0.1:5000"


def test_a_resumed_account_has_queue_urls_of_the_new_endpoint(tmp_path: Path) -> None:
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


def test_without_a_state_file_there_is_no_account(tmp_path: Path) -> None:
    assert resume_account(tmp_path / "none", clock=ManualClock(), queue_base=BASE) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}'])
def test_an_invalid_state_file_is_an_error(text: str, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match="not a saved emulator"):
        resume_account(file, clock=ManualClock(), queue_base=BASE)


@pytest.mark.parametrize("random_state", [[3, [1, 2], None], [3, [2**63] * 625, None]])
def test_a_state_file_with_values_that_cannot_be_restored_is_an_error(
    random_state: list[Any], tmp_path: Path
) -> None:
    file = tmp_path / "state.json"
    document = json.loads(EmulatedAwsAccount(clock=ManualClock()).save())
    file.write_text(json.dumps({**document, "chance": random_state}))
    with pytest.raises(InvalidInputError, match="damaged: this is not a saved emulator") as caught:
        resume_account(file, clock=ManualClock(), queue_base=BASE)
    assert "remove this one" in caught.value.hint


def test_a_device_as_state_file_is_refused_instead_of_read_to_its_end() -> None:
    with pytest.raises(InvalidInputError, match="/dev/full cannot be read: it is not an ordinary"):
        resume_account(Path("/dev/full"), clock=ManualClock(), queue_base=BASE)


def test_a_folder_as_state_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read"):
        resume_account(tmp_path, clock=ManualClock(), queue_base=BASE)
    with pytest.raises(InvalidInputError, match="cannot be written"):
        StateFile(tmp_path / "none" / "x", EmulatedAwsAccount(clock=ManualClock())).write()


def test_a_link_prepared_beside_the_state_file_is_not_followed(tmp_path: Path) -> None:
    """In a folder that others may write to: its name must not be one that can be guessed."""
    other, file = tmp_path / "other", tmp_path / "state.json"
    other.write_text("precious")
    (tmp_path / f"state.json.{os.getpid()}.new").symlink_to(other)
    StateFile(file, EmulatedAwsAccount(clock=ManualClock())).write()
    assert other.read_text() == "precious"
    assert not file.is_symlink()
    assert file.stat().st_mode & 0o077 == 0


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


@pytest.mark.parametrize("path", ["/", "/_wain/state"])
def test_a_body_that_is_not_encoded_as_it_says_is_refused_without_a_traceback(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> list[int]:
        account, statuses = EmulatedAwsAccount(clock=ManualClock()), []
        with listen(0) as sock:
            async with EmulatorHttpServer(account, sock).running(), ClientSession() as session:
                for encoding in ("gzip", "deflate", "gzip"):
                    headers = {"Content-Encoding": encoding}
                    url = f"{endpoint_url(sock)}{path}"
                    async with session.post(url, data=b"no gzip", headers=headers) as answer:
                        statuses.append(answer.status)
        return statuses

    assert asyncio.run(main()) == [400, 400, 400]
    assert not [each for each in caplog.records if each.exc_info]
