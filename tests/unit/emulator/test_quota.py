"""Quotas of vCPUs: per group of families, apart for spot."""

import pytest
from tests.support.launches import (
    OPEN_ONES,
    A,
    B,
    Yard,
    codes,
    errors,
    launched,
    pools,
    reservation,
)

from wainwright.emulator.ec2.quota import Limits
from wainwright.emulator.settings import Settings

LIMIT = "VcpuLimitExceeded"
SPOT_LIMIT = "MaxSpotInstanceCountExceeded"
MANY = (("m5.large", A), ("m5.large", B))  # two vCPUs each


def limited(**limits: dict[str, int]) -> Yard:
    return Yard(settings=Settings(quota=Limits(**limits)))  # type: ignore[arg-type]


def test_more_than_the_quota_is_refused_in_every_pool() -> None:
    yard = limited(onDemand={"standard": 5})
    answer = yard.fleet(yard.config(*MANY), count=4)
    assert [count for *_, count in pools(answer)] == [2]
    assert {code for *_, code in errors(answer)} == {LIMIT}
    assert len(answer["Errors"]) == 2
    assert "limit of 5" in answer["Errors"][0]["ErrorMessage"]


def test_spot_has_a_quota_and_a_code_of_its_own() -> None:
    yard = limited(spot={"standard": 2}, onDemand={"standard": 2})
    answer = yard.fleet(yard.config(*MANY), count=2, market="spot")
    assert (len(launched(answer)), codes(answer)) == (1, {SPOT_LIMIT})
    yard.launch()
    assert codes(yard.fleet(yard.config(*MANY))) == {LIMIT}


def test_other_families_are_counted_apart() -> None:
    yard = limited(onDemand={"p": 0})
    yard.launch("m5.xlarge")
    assert codes(yard.fleet(yard.config(("p5.48xlarge", A)))) == {LIMIT}


@pytest.mark.parametrize("market", ["on-demand", "spot"])
def test_ended_machines_no_longer_count(market: str) -> None:
    yard = limited(onDemand={"standard": 2}, spot={"standard": 2})
    (first,) = yard.launch(market=market)
    assert codes(yard.fleet(yard.config(*MANY), market=market))
    yard.ask("TerminateInstances", InstanceIds=[first])
    yard.launch(market=market)


def test_what_is_reserved_counts_once_whether_used_or_not() -> None:
    held = (
        reservation(1, total=2, **OPEN_ONES),
        reservation(2, "c5.large", A, total=9, ownerID="444455556666", **OPEN_ONES),
    )
    yard = Yard(*held, settings=Settings(quota=Limits(onDemand={"standard": 6})))
    quota = yard.cloud.parts.quota
    assert quota.used("standard", "on-demand") == 4  # not what belongs to another account
    yard.launch("m5.large", A, count=2)
    assert quota.used("standard", "on-demand") == 4
    yard.launch("c5.large", A, count=3)
    assert quota.used("standard", "on-demand") == 4
    yard.launch("m5.large", A)
    assert quota.used("standard", "on-demand") == 6
    assert codes(yard.fleet(yard.config(("m5.large", A)))) == {LIMIT}


def test_without_limits_there_are_none() -> None:
    yard = Yard()
    assert len(yard.launch("p5.48xlarge", A, count=50)) == 50


def test_a_saved_account_counts_on() -> None:
    yard = limited(onDemand={"standard": 4})
    yard.launch()
    saved = yard.cloud.save()
    again = type(yard.cloud).load(saved, clock=yard.clock)
    answer = again.answer("ec2", "CreateFleet", yard.request(yard.config(*MANY), count=2))
    assert (len(launched(answer)), codes(answer)) == (1, {LIMIT})
