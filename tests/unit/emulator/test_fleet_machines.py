"""CreateFleet: what its machines get, and that they are launched once."""

from typing import Any

import pytest
from tests.support.launches import (
    A,
    B,
    C,
    D,
    Yard,
    errors,
    launched,
    pools,
    tagged,
    tags_of,
)

SPOT: dict[str, Any] = {"market": "spot"}


@pytest.fixture
def yard() -> Yard:
    return Yard()


def test_a_spot_machine_has_a_request(yard: Yard) -> None:
    (found,) = yard.launch(**SPOT)
    machine = yard.machine(found)
    assert machine["InstanceLifecycle"] == "spot"
    assert machine["SpotInstanceRequestId"].startswith("sir-")
    (plain,) = yard.launch()
    assert not {"InstanceLifecycle", "SpotInstanceRequestId"} & yard.machine(plain).keys()


def test_without_overrides_the_template_says_it_all(yard: Yard) -> None:
    interface = {"DeviceIndex": 0, "Groups": [yard.group], "SubnetId": yard.subnets[D]}
    name = yard.template("whole", InstanceType="c5.large", NetworkInterfaces=[interface])
    answer = yard.fleet(yard.config(template=name))
    assert pools(answer) == [("c5.large", D, 1)]
    assert yard.refused("CreateFleet", **yard.request(yard.config())) == ("MissingParameter", 400)


def test_zones_alone_need_a_default_network(yard: Yard) -> None:
    bare = {"InstanceType": "m5.large", "AvailabilityZone": B}
    home = yard.cloud.parts.network.state.vpcs[yard.cloud.account.vpc]
    home.default = False
    assert errors(yard.fleet(yard.config(bare))) == [("m5.large", B, "VPCIdNotSpecified")]
    home.default = True
    assert pools(yard.fleet(yard.config(bare))) == [("m5.large", B, 1)]


def test_tags_come_from_template_fleet_and_ec2(yard: Yard) -> None:
    name = yard.template("tagged", TagSpecifications=tagged("instance", a="template", b="template"))
    answer = yard.fleet(
        yard.config(("m5.large", A), template=name),
        TagSpecifications=tagged("instance", b="fleet", empty="") + tagged("volume", c="no"),
    )
    (machine,) = yard.describe(*launched(answer))
    found = tags_of(machine)
    assert {key: found[key] for key in ("a", "b", "empty")} == {
        "a": "template",
        "b": "fleet",
        "empty": "",
    }
    assert "c" not in found
    assert found["aws:ec2:fleet-id"] == answer["FleetId"]
    assert found["aws:ec2launchtemplate:version"] == "1"


def test_the_machine_is_made_from_template_and_override(yard: Yard) -> None:
    yard.ask_of("iam", "CreateInstanceProfile", {"InstanceProfileName": "nodes"})
    name = yard.template(
        "full",
        IamInstanceProfile={"Name": "nodes"},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        Monitoring={"Enabled": True},
        BlockDeviceMappings=[
            {"DeviceName": "/dev/xvdb", "Ebs": {"VolumeSize": 9, "DeleteOnTermination": False}}
        ],
    )
    override = yard.override("m6g.large", C, ImageId=yard.arm_image)
    (found,) = launched(yard.fleet(yard.config(override, template=name)))
    machine = yard.machine(found)
    groups = [{"GroupId": yard.group, "GroupName": "wain-nodes"}]
    (interface,) = machine["NetworkInterfaces"]
    assert machine["SecurityGroups"] == interface["Groups"] == groups
    assert machine["IamInstanceProfile"]["Arn"].endswith(":instance-profile/nodes")
    assert machine["MetadataOptions"]["HttpTokens"] == "required"
    assert machine["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert machine["MetadataOptions"]["HttpEndpoint"] == "enabled"
    assert machine["Monitoring"]["State"] == "enabled"
    assert (machine["ImageId"], machine["Architecture"]) == (yard.arm_image, "arm64")
    assert machine["SubnetId"] == interface["SubnetId"] == yard.subnets[C]
    assert machine["Placement"]["AvailabilityZoneId"] == "usw2-az3"
    disks = {
        each["DeviceName"]: each["Ebs"]["DeleteOnTermination"]
        for each in machine["BlockDeviceMappings"]
    }
    assert disks == {"/dev/xvda": True, "/dev/xvdb": False}
    assert interface["InterfaceType"] == "interface"


def test_a_dry_run_launches_nothing(yard: Yard) -> None:
    request = yard.request(yard.config(("m5.large", A)), DryRun=True)
    assert yard.refused("CreateFleet", **request) == ("DryRunOperation", 412)
    assert yard.describe() == []


def test_a_token_makes_the_call_happen_once(yard: Yard) -> None:
    request = yard.request(yard.config(("m5.large", A)), count=2, ClientToken="once")
    first = yard.ask("CreateFleet", **request)
    assert yard.ask("CreateFleet", **request) == first
    assert len(yard.describe()) == 2
    other = {**request, "Context": "another"}
    assert yard.refused("CreateFleet", **other) == ("IdempotentParameterMismatch", 400)
    first["Instances"].clear()  # what a caller does to an answer stays with the caller
    assert launched(yard.ask("CreateFleet", **request))


def test_a_refused_call_may_be_repeated_with_its_token(yard: Yard) -> None:
    config = yard.config(("m5.large", A), template="later")
    request = yard.request(config, ClientToken="again")
    assert yard.refused("CreateFleet", **request)[0] == (
        "InvalidLaunchTemplateName.NotFoundException"
    )
    yard.template("later")
    assert len(launched(yard.ask("CreateFleet", **request))) == 1


def test_a_token_is_forgotten_after_a_day(yard: Yard) -> None:
    request = yard.request(yard.config(("m5.large", A)), ClientToken="once")
    first = yard.ask("CreateFleet", **request)
    yard.wait(24 * 3600 + 1)
    assert yard.ask("CreateFleet", **request)["FleetId"] != first["FleetId"]
