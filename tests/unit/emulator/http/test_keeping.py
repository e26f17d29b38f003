"""An account in a file."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.emulated import HandClock

from wainwright.clock import VirtualClock
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.http.keeping import StateFile, resumed
from wainwright.errors import BadInput

BASE = "http://127.0.0.1:5000"


def test_an_account_goes_on_under_its_new_address(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    clock = HandClock()
    cloud = EmulatedCloud(clock=clock)
    cloud.answer("ec2", "CreateVpc", {"CidrBlock": "10.1.0.0/16"})
    vpcs = cloud.answer("ec2", "DescribeVpcs", {})
    StateFile(file, cloud).write()
    again = resumed(file, clock=clock, queue_base=BASE)
    assert again is not None
    assert again.answer("ec2", "DescribeVpcs", {}) == vpcs
    where = f"{BASE}/111122223333/wain"
    assert again.account.queue_url == where
    assert again.answer("sqs", "GetQueueUrl", {"QueueName": "wain"}) == {"QueueUrl": where}
    assert again.account.subnets == cloud.account.subnets


def test_no_file_no_account(tmp_path: Path) -> None:
    assert resumed(tmp_path / "none", clock=HandClock(), queue_base=BASE) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}'])
def test_a_file_that_is_something_else(text: str, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(text)
    with pytest.raises(BadInput, match="no saved emulator"):
        resumed(file, clock=HandClock(), queue_base=BASE)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        resumed(tmp_path, clock=HandClock(), queue_base=BASE)
    with pytest.raises(BadInput, match="cannot be written"):
        StateFile(tmp_path / "none" / "x", EmulatedCloud(clock=HandClock())).write()


def test_changes_are_written_together_after_a_pause(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    clock = VirtualClock()
    cloud = EmulatedCloud(clock=clock)

    async def story() -> list[bool]:
        state = StateFile(file, cloud)
        keeping = asyncio.create_task(state.keep())
        there = []
        await clock.sleep(10)
        there.append(file.exists())
        for _ in range(3):
            state.touch()
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
