"""What is left of a launch beside its machines: the fleet, and the requests for spot capacity."""

import pytest
from tests.support.launches import A, B, Yard, launched, named, tagged

from wainwright.clock import EPOCH
from wainwright.emulator.cloud import EmulatedCloud

UNKNOWN = "fleet-00000000-0000-0000-0000-000000000000"


def test_a_fleet_shows_what_was_asked_for_and_what_came_of_it() -> None:
    yard = Yard()
    yard.cloud.change({"unavailable": [{"instanceType": "c5.large", "zone": A}]})
    config = yard.config(("c5.large", A), ("m5.large", A))
    answer = yard.fleet(
        config, count=2, ClientToken="mine", TagSpecifications=tagged("fleet", team="web")
    )
    (fleet,) = yard.ask("DescribeFleets", FleetIds=[answer["FleetId"]])["Fleets"]
    assert (fleet["Instances"], fleet["Errors"]) == (answer["Instances"], answer["Errors"])
    assert (fleet["Type"], fleet["FleetState"], fleet["ClientToken"]) == (
        "instant",
        "active",
        "mine",
    )
    assert (fleet["FulfilledCapacity"], fleet["FulfilledOnDemandCapacity"]) == (2, 2)
    assert fleet["TargetCapacitySpecification"]["TotalTargetCapacity"] == 2
    assert fleet["Tags"] == [{"Key": "team", "Value": "web"}]
    assert fleet["CreateTime"].timestamp() == EPOCH


def test_a_fleet_is_found_by_its_id_and_not_for_ever() -> None:
    yard = Yard()
    answer = yard.fleet(yard.config(("m5.large", A)))
    assert yard.ask("DescribeFleets")["Fleets"] == []
    assert yard.refused("DescribeFleets", FleetIds=[UNKNOWN])[0] == "InvalidFleetId.NotFound"
    yard.cloud = EmulatedCloud.load(yard.cloud.save(), clock=yard.clock)
    assert len(yard.ask("DescribeFleets", FleetIds=[answer["FleetId"]])["Fleets"]) == 1
    yard.wait(3600)
    lost = yard.refused("DescribeFleets", FleetIds=[answer["FleetId"]])
    assert lost == ("InvalidFleetId.NotFound", 400)


def test_every_spot_machine_has_a_request() -> None:
    yard = Yard()
    yard.launch("m5.large", A)
    (machine,) = yard.launch("c5.large", B, market="spot")
    (row,) = yard.ask("DescribeSpotInstanceRequests")["SpotInstanceRequests"]
    assert row["SpotInstanceRequestId"] == yard.machine(machine)["SpotInstanceRequestId"]
    assert (row["InstanceId"], row["State"], row["Status"]["Code"]) == (
        machine,
        "active",
        "fulfilled",
    )
    assert (row["LaunchedAvailabilityZone"], float(row["SpotPrice"])) == (B, 0.085)


@pytest.mark.parametrize(
    ("taken", "code"),
    [(True, "instance-terminated-no-capacity"), (False, "instance-terminated-by-user")],
)
def test_a_request_says_how_its_machine_ended(taken: bool, code: str) -> None:
    yard = Yard()
    config = yard.config(("m5.large", A))
    first, second = launched(yard.fleet(config, count=2, market="spot"))
    if taken:
        yard.cloud.change({"interruptions": [{"instance": first, "kind": "spot"}]})
        yard.wait(121)
    else:
        yard.ask("TerminateInstances", InstanceIds=[first])
    for state, expected in (("closed", first), ("active", second)):
        answer = yard.ask("DescribeSpotInstanceRequests", Filters=[named("state", state)])
        assert [each["InstanceId"] for each in answer["SpotInstanceRequests"]] == [expected]
    (row,) = yard.ask("DescribeSpotInstanceRequests", Filters=[named("instance-id", first)])[
        "SpotInstanceRequests"
    ]
    assert row["Status"]["Code"] == code


def test_an_unknown_request_is_not_found() -> None:
    yard = Yard()
    found = yard.refused("DescribeSpotInstanceRequests", SpotInstanceRequestIds=["sir-0123456789"])
    assert found == ("InvalidSpotInstanceRequestID.NotFound", 400)
