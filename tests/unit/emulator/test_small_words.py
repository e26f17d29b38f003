"""Ids and moments as EC2 has them."""

from datetime import UTC, datetime

import pytest
from tests.support.emulated import refusal

from wainwright.emulator import ids
from wainwright.emulator.times import iso, moment, seconds
from wainwright.emulator.world import World


def world(seed: int) -> World:
    return World(lambda: 0.0, region="us-east-1", seed=seed)


def test_ids_hang_on_the_seed_alone() -> None:
    one, same, other = world(1), world(1), world(2)
    first = [ids.new(one, "i") for _ in range(100)]
    assert first == [ids.new(same, "i") for _ in range(100)]
    assert len(set(first) | {ids.new(other, "i")}) == 101


def test_an_id_is_a_prefix_and_17_digits() -> None:
    prefix, _, digits = ids.new(world(3), "subnet").partition("-")
    assert (prefix, len(digits), digits[0]) == ("subnet", 17, "0")
    assert set(digits) <= set("0123456789abcdef")


AT = 1_767_225_600.0


@pytest.mark.parametrize(
    "written",
    [
        AT,
        int(AT),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1),  # noqa: DTZ001  as botocore lets people write it
        "2026-01-01T00:00:00Z",
        "2026-01-01T01:00:00.000+01:00",
        "2026-01-01T00:00:00",
    ],
)
def test_moments_of_requests(written: object) -> None:
    assert seconds(written) == AT


def test_moments_of_answers() -> None:
    assert moment(AT) == datetime(2026, 1, 1, tzinfo=UTC)
    assert iso(AT) == "2026-01-01T00:00:00.000Z"


@pytest.mark.parametrize("written", ["yesterday", None, True, [1]])
def test_what_is_no_moment_is_refused(written: object) -> None:
    assert refusal(lambda: seconds(written, "startTime")) == ("InvalidParameterValue", 400)
