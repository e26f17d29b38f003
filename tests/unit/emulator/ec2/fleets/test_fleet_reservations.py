"""Capacity reservations and capacity blocks in CreateFleet."""

from typing import Any

import msgspec
import pytest
from tests.support.emulator_launches import (
    OPEN_RESERVATION,
    USE_RESERVATIONS_FIRST,
    A,
    B,
    LaunchAccount,
    capacity_rule,
    cloud_reservation,
    launch_error_codes,
    launch_errors,
    launched_capacity_pools,
    launched_ids,
)

from wainwright.clock import EPOCH
from wainwright.emulator.api_conventions import iso_timestamp
from wainwright.emulator.settings import EmulatorSettings

CHEAP, DEAR = ("c5.large", A), ("m5.large", A)

EXCEEDED = "ReservationCapacityExceeded"

ONLY = "capacity-reservations-only"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Two reservations of one instance each, for a cheap and a dear capacity pool; a fleet of 4."""

    criteria: str
    target: bool
    use_first: bool = False
    preference: str | None = None
    reserved: int
    """Of the four instances, how many run in a reservation."""
    outside: int
    """And how many outside of reservations."""
    code: str | None = None


ROWS = {
    "1: targets are ignored where reservations are used first": Row(
        criteria="targeted",
        target=True,
        use_first=True,
        reserved=0,
        outside=0,
        code="UnfulfillableCapacity",
    ),
    "1, with open reservations": Row(
        criteria="open",
        target=True,
        use_first=True,
        reserved=0,
        outside=0,
        code="UnfulfillableCapacity",
    ),
    "2: open ones are used up first, then on-demand": Row(
        criteria="open", target=False, use_first=True, reserved=2, outside=2
    ),
    "2: targeted ones stay free even so": Row(
        criteria="targeted", target=False, use_first=True, reserved=0, outside=4
    ),
    "3: from one reservation to the next, and no further": Row(
        criteria="targeted", target=True, reserved=2, outside=0, code=EXCEEDED
    ),
    "3, with open reservations": Row(
        criteria="open", target=True, reserved=2, outside=0, code=EXCEEDED
    ),
    "4: by luck into an open one": Row(criteria="open", target=False, reserved=1, outside=3),
    "4: never into a targeted one": Row(criteria="targeted", target=False, reserved=0, outside=4),
    "5: never where none is wanted": Row(
        criteria="open", target=False, preference="none", reserved=0, outside=4
    ),
    "6: none with a target is an error": Row(
        criteria="targeted",
        target=True,
        preference="none",
        reserved=0,
        outside=0,
        code="InvalidParameterCombination",
    ),
    "6, with open reservations": Row(
        criteria="open",
        target=True,
        preference="none",
        reserved=0,
        outside=0,
        code="InvalidParameterCombination",
    ),
    "7: only reservations, with a target, is a target": Row(
        criteria="targeted", target=True, preference=ONLY, reserved=2, outside=0, code=EXCEEDED
    ),
    "7, with open reservations": Row(
        criteria="open", target=True, preference=ONLY, reserved=2, outside=0, code=EXCEEDED
    ),
    "7, used first: ignored like any target": Row(
        criteria="open",
        target=True,
        use_first=True,
        preference=ONLY,
        reserved=0,
        outside=0,
        code="UnfulfillableCapacity",
    ),
    "only reservations, without a target: open ones": Row(
        criteria="open", target=False, preference=ONLY, reserved=2, outside=0, code=EXCEEDED
    ),
    "none, used first: never": Row(
        criteria="open", target=False, use_first=True, preference="none", reserved=0, outside=4
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_capacity_reservation_use_by_template_and_strategy(row: Row) -> None:
    more: dict[str, Any] = {"total": 1, "instanceMatchCriteria": row.criteria}
    held = [cloud_reservation(1, *CHEAP, **more), cloud_reservation(2, *DEAR, **more)]
    account = LaunchAccount(*held)
    configs = []
    for capacity_pool, each in zip((CHEAP, DEAR), held, strict=True):
        name = account.template_with_target(
            f"to-{each.id}", each.id if row.target else None, row.preference
        )
        configs.append(account.config(capacity_pool, template=name))
    options = USE_RESERVATIONS_FIRST if row.use_first else {}
    response = account.fleet(*configs, count=4, OnDemandOptions=options)
    instances = account.describe(*launched_ids(response)) if launched_ids(response) else []
    inside = [each for each in instances if "CapacityReservationId" in each]
    assert (len(inside), len(instances) - len(inside)) == (row.reserved, row.outside)
    assert launch_error_codes(response) == (set() if row.code is None else {row.code})
    assert sum(account.free(each.id) for each in held) == 2 - row.reserved
    for instance in instances:
        content = instance["CapacityReservationSpecification"]
        assert content["CapacityReservationPreference"] == (row.preference or "open")


def test_open_reservations_are_used_first_even_if_dearer() -> None:
    account = LaunchAccount(cloud_reservation(1, *DEAR, total=2, **OPEN_RESERVATION))
    response = account.fleet(
        account.config(CHEAP, DEAR), count=3, OnDemandOptions=USE_RESERVATIONS_FIRST
    )
    assert launched_capacity_pools(response) == [(*DEAR, 2), (*CHEAP, 1)]
    assert response["Errors"] == []


def test_templates_without_a_target_are_used_while_targeting_ones_are_ignored() -> None:
    account = LaunchAccount(cloud_reservation(1, *CHEAP))
    name = account.template_with_target("aimed", "cr-00000001")
    configs = (account.config(CHEAP, template=name), account.config(DEAR))
    response = account.fleet(*configs, OnDemandOptions=USE_RESERVATIONS_FIRST)
    assert launched_capacity_pools(response) == [(*DEAR, 1)]
    assert response["Errors"] == []


def test_a_full_reservation_is_reported_with_the_instances_of_the_next_one() -> None:
    account = LaunchAccount(
        cloud_reservation(1, *CHEAP, total=1), cloud_reservation(2, *DEAR, total=5)
    )
    configs = [
        account.config(
            capacity_pool,
            template=account.template_with_target(f"to-{number}", f"cr-{number:08}", ONLY),
        )
        for number, capacity_pool in ((1, CHEAP), (2, DEAR))
    ]
    response = account.fleet(*configs, count=2)
    assert launched_capacity_pools(response) == [(*CHEAP, 1), (*DEAR, 1)]
    assert launch_errors(response) == [(*CHEAP, EXCEEDED)]
    (entry,) = response["Errors"]
    assert (entry["Lifecycle"], "sufficient compatible" in entry["ErrorMessage"]) == (
        "on-demand",
        True,
    )


def test_an_instance_in_a_reservation_shows_target_and_reservation() -> None:
    account = LaunchAccount(cloud_reservation(1, *DEAR))
    name = account.template_with_target("aimed", "cr-00000001", ONLY)
    (found,) = launched_ids(account.fleet(account.config(DEAR, template=name)))
    instance = account.describe_instance(found)
    assert instance["CapacityReservationId"] == "cr-00000001"
    assert instance["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": ONLY,
        "CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"},
    }
    assert "InstanceLifecycle" not in instance


def test_reserved_capacity_is_available_when_the_offering_is_empty() -> None:
    rules = (capacity_rule(0, "m5.large", A, "on-demand"),)
    account = LaunchAccount(
        cloud_reservation(1, *DEAR, **OPEN_RESERVATION),
        settings=EmulatorSettings(capacity_rules=rules),
    )
    response = account.fleet(account.config(DEAR), count=3)
    assert launched_capacity_pools(response) == [(*DEAR, 2)]
    assert launch_error_codes(response) == {"InsufficientInstanceCapacity"}


@pytest.mark.parametrize(
    "more",
    [
        {"availabilityZone": B},
        {"instanceType": "m5.xlarge"},
        {"platform": "Windows"},
        {"tenancy": "dedicated"},
        {"state": "expired"},
        {"available": 0},
        {"startTime": iso_timestamp(EPOCH + 3600)},
        {"endTime": iso_timestamp(EPOCH)},
    ],
)
@pytest.mark.parametrize("launch_into", [False, True])
def test_a_reservation_accepts_only_matching_instances(
    more: dict[str, Any], launch_into: bool
) -> None:
    messages: dict[str, Any] = {
        "instanceType": "m5.large",
        "availabilityZone": A,
        **OPEN_RESERVATION,
        **more,
    }
    where = (messages.pop("instanceType"), messages.pop("availabilityZone"))
    account = LaunchAccount(cloud_reservation(1, *where, **messages))
    name = account.template_with_target("aimed", "cr-00000001" if launch_into else None)
    response = account.fleet(account.config(DEAR, template=name))
    if launch_into:
        assert (launched_ids(response), launch_error_codes(response)) == ([], {EXCEEDED})
    else:
        assert account.reservation_of(launched_ids(response)[0]) is None


def test_an_unknown_target_is_not_found() -> None:
    account = LaunchAccount()
    name = account.template_with_target("aimed", "cr-0123456789abcdef0")
    response = account.fleet(account.config(DEAR, template=name))
    assert launch_error_codes(response) == {"InvalidCapacityReservationId.NotFound"}


def test_spot_instances_do_not_use_reservations() -> None:
    account = LaunchAccount(cloud_reservation(1, *DEAR, **OPEN_RESERVATION))
    assert account.reservation_of(account.launch(*DEAR, capacity_type="spot")[0]) is None
    name = account.template_with_target("aimed", "cr-00000001")
    response = account.fleet(account.config(DEAR, template=name), capacity_type="spot")
    assert launch_error_codes(response) == {"InvalidParameterCombination"}


def test_windows_instances_use_windows_reservations() -> None:
    account = LaunchAccount(cloud_reservation(1, *DEAR, platform="Windows", **OPEN_RESERVATION))
    config = account.config(account.override(*DEAR, ImageId=account.windows_image))
    (found,) = launched_ids(account.fleet(config))
    assert account.reservation_of(found) == "cr-00000001"
    assert account.describe_instance(found)["Platform"] == "Windows"


def test_a_group_of_reservations_is_not_emulated() -> None:
    account = LaunchAccount()
    target = {"CapacityReservationResourceGroupArn": "arn:aws:resource-groups:x"}
    name = account.template(
        "group", CapacityReservationSpecification={"CapacityReservationTarget": target}
    )
    request = account.request(account.config(DEAR, template=name))
    assert account.refused("CreateFleet", **request) == ("UnsupportedOperation", 400)


BLOCK = ("p5.48xlarge", A)

HOUR = 3600.0


def block(**more: Any) -> LaunchAccount:
    """A capacity block of two instances, from one hour from now until five."""
    window: dict[str, Any] = {
        "startTime": iso_timestamp(EPOCH + HOUR),
        "endTime": iso_timestamp(EPOCH + 5 * HOUR),
    }
    return LaunchAccount(
        cloud_reservation(1, *BLOCK, **{"reservationType": "capacity-block", **window, **more})
    )


def block_template(account: LaunchAccount, capacity_type: str | None = "capacity-block") -> str:
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}}
    data: dict[str, Any] = {"CapacityReservationSpecification": target}
    if capacity_type is not None:
        data["InstanceMarketOptions"] = {"MarketType": capacity_type}
    return account.template("block", **data)


@pytest.mark.parametrize(
    ("hours", "works"), [(0.9, False), (1.1, True), (4.4, True), (4.6, False), (5.1, False)]
)
def test_a_capacity_block_is_used_inside_its_window_only(hours: float, works: bool) -> None:
    account = block()
    name = block_template(account)
    account.wait(hours * HOUR)
    response = account.fleet(account.config(BLOCK, template=name), capacity_type="capacity-block")
    assert bool(launched_ids(response)) == works
    assert launch_error_codes(response) == (set() if works else {EXCEEDED})
    if works:
        (entry,) = response["Instances"]
        instance = account.describe_instance(entry["InstanceIds"][0])
        assert instance["InstanceLifecycle"] == entry["Lifecycle"] == "capacity-block"
        assert instance["CapacityReservationId"] == "cr-00000001"


@pytest.mark.parametrize(
    ("capacity_type", "params"),
    [(None, "capacity-block"), ("capacity-block", "on-demand"), ("spot", "on-demand")],
)
def test_template_and_fleet_must_both_request_a_capacity_block(
    capacity_type: str | None, params: str
) -> None:
    account = block()
    account.wait(2 * HOUR)
    config = account.config(BLOCK, template=block_template(account, capacity_type))
    assert launch_error_codes(account.fleet(config, capacity_type=params)) == {
        "InvalidParameterCombination"
    }


def test_an_on_demand_launch_cannot_use_a_capacity_block() -> None:
    account = block(**OPEN_RESERVATION)
    account.wait(2 * HOUR)
    assert account.reservation_of(account.launch(*BLOCK)[0]) is None
    config = account.config(BLOCK, template=block_template(account, None))
    assert launch_error_codes(account.fleet(config)) == {EXCEEDED}


def test_instances_of_a_capacity_block_end_half_an_hour_before_it() -> None:
    account = block()
    account.wait(2 * HOUR)
    config = account.config(BLOCK, template=block_template(account))
    (found,) = launched_ids(account.fleet(config, capacity_type="capacity-block"))
    account.wait(2.4 * HOUR)
    assert (account.state(found), account.free("cr-00000001")) == ("running", 1)
    account.wait(0.11 * HOUR)
    assert (account.state(found), account.free("cr-00000001")) == ("terminated", 2)
    account.wait(0.5 * HOUR)
    assert account.reserved("cr-00000001")["State"] == "expired"


RESERVED = "reserved-capacity"

INTERRUPTIBLE = "interruptible-capacity-reservation"


def test_interruptible_capacity_is_requested_as_reserved_capacity() -> None:
    account = LaunchAccount(cloud_reservation(1, *DEAR, interruptible=True))
    name = account.template(
        "on-call",
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": "cr-00000001"}
        },
        InstanceMarketOptions={"MarketType": INTERRUPTIBLE},
    )
    config, options = account.config(DEAR, template=name), {"ReservationTypes": [INTERRUPTIBLE]}
    response = account.fleet(
        config, capacity_type=RESERVED, count=3, ReservedCapacityOptions=options
    )
    assert launched_capacity_pools(response) == [(*DEAR, 2)]
    assert launch_error_codes(response) == {EXCEEDED}
    instance = account.describe_instance(launched_ids(response)[0])
    assert instance["InstanceLifecycle"] == INTERRUPTIBLE
    assert launch_error_codes(account.fleet(config)) == {"InvalidParameterCombination"}


def test_a_fleet_request_may_name_reservations_and_their_types() -> None:
    account = LaunchAccount(
        cloud_reservation(1, *DEAR, total=1, interruptible=True),
        cloud_reservation(2, *DEAR, total=1),
        cloud_reservation(3, *CHEAP, total=1),
    )
    target = {"CapacityReservationIds": ["cr-00000001", "cr-00000002", "cr-00000003"]}
    kinds = [INTERRUPTIBLE, "on-demand-capacity-reservation"]
    response = account.fleet(
        account.config(DEAR, CHEAP),
        capacity_type=RESERVED,
        count=4,
        ReservedCapacityOptions={"ReservationTypes": kinds, "CapacityReservationTarget": target},
    )
    inside = {account.reservation_of(each) for each in launched_ids(response)}
    assert inside == set(target["CapacityReservationIds"])
    assert launch_error_codes(response) == {EXCEEDED}


def test_reserved_capacity_without_a_target_uses_open_reservations_only() -> None:
    account = LaunchAccount(
        cloud_reservation(1, *DEAR, total=1, **OPEN_RESERVATION),
        cloud_reservation(2, *CHEAP),
    )
    options = {"ReservationTypes": ["on-demand-capacity-reservation"]}
    config = account.config(DEAR, CHEAP)
    response = account.fleet(
        config, capacity_type=RESERVED, count=2, ReservedCapacityOptions=options
    )
    assert launched_capacity_pools(response) == [(*DEAR, 1)]
    assert sorted(launch_errors(response)) == [
        (*CHEAP, EXCEEDED),
        (*DEAR, EXCEEDED),
    ]
    options = {"ReservationTypes": [INTERRUPTIBLE]}
    response = account.fleet(config, capacity_type=RESERVED, ReservedCapacityOptions=options)
    assert (launched_ids(response), launch_error_codes(response)) == ([], {EXCEEDED})


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "InvalidParameterValue"),
        ({"ReservationTypes": ["another"]}, "InvalidParameterValue"),
        (
            {
                "ReservationTypes": [INTERRUPTIBLE],
                "ReservedCapacityFallbackOptions": {"MarketTypes": ["spot"]},
            },
            "UnsupportedOperation",
        ),
    ],
)
def test_reserved_capacity_needs_reservation_types(options: dict[str, Any], code: str) -> None:
    account = LaunchAccount()
    request = account.request(
        account.config(DEAR), capacity_type=RESERVED, ReservedCapacityOptions=options
    )
    assert account.refused("CreateFleet", **request) == (code, 400)
