"""A launched machine boots by itself, from what its launch has given it."""

from base64 import b64encode
from typing import Any

import pytest
from tests.support.emulated import Account

from wainwright.catalogue import builtin
from wainwright.emulator.boot.booted import Booted
from wainwright.emulator.boot.machine import Nursery
from wainwright.emulator.boot.reasons import NeverJoins, Reason
from wainwright.emulator.ec2.lifecycle import Pace
from wainwright.emulator.ec2.machines import Instance
from wainwright.emulator.settings import Settings


def nursery(account: Account) -> Nursery:
    parts = account.cloud.parts
    return Nursery(
        region=parts.world.region,
        machines=builtin.machines(),
        instances=parts.instances,
        images=parts.images,
        eks=parts.eks,
    )


def config(account: Account, **changed: str) -> str:
    cluster = account.ask_of("eks", "DescribeCluster", {"name": "wain"})["cluster"]
    known = {
        "name": "wain",
        "apiServerEndpoint": cluster["endpoint"],
        "certificateAuthority": cluster["certificateAuthority"]["data"],
        "cidr": cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
    }
    lines = [f"    {key}: {value}" for key, value in (known | changed).items()]
    head = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n"
    return head + "\n".join(lines)


def image(account: Account, folder: str = "amazon-linux-2023/x86_64/standard") -> str:
    name = f"/aws/service/eks/optimized-ami/1.32/{folder}/recommended/image_id"
    return str(account.ask_of("ssm", "GetParameter", {"Name": name})["Parameter"]["Value"])


def launched(
    account: Account, text: str | None, folder: str | None = None, **more: Any
) -> Instance:
    params: dict[str, Any] = {
        "ImageId": image(account) if folder is None else image(account, folder),
        "InstanceType": "m5.large",
        "MinCount": 1,
        "MaxCount": 1,
    }
    params |= more
    if text is not None:
        params["UserData"] = b64encode(text.encode()).decode()
    (row,) = account.ask("RunInstances", **params)["Instances"]
    made = account.cloud.parts.instances.get(row["InstanceId"])
    assert made is not None
    return made


def test_a_machine_joins_the_cluster_that_it_was_told() -> None:
    account = Account()
    machine = launched(account, config(account))
    node = nursery(account).outcome(machine)
    assert isinstance(node, Booted)
    assert node.cluster_name == "wain"
    assert node.capacity["cpu"] == 2000
    assert node.capacity["ephemeral-storage"] == 20 * 2**30


def disk(device: str = "/dev/xvda", **said: Any) -> dict[str, Any]:
    return {"DeviceName": device, "Ebs": said}


def storage(account: Account, machine: Instance) -> int:
    node = nursery(account).outcome(machine)
    assert isinstance(node, Booted), node
    return node.capacity["ephemeral-storage"] // 2**30


@pytest.mark.parametrize(
    ("disks", "gib"),
    [
        ([disk(VolumeSize=80)], 80),
        ([disk(VolumeSize=80), disk("/dev/xvdb", VolumeSize=500)], 80),
        ([disk(Encrypted=True)], 20),
        ([disk("/dev/xvdb", VolumeSize=500)], 20),
    ],
)
def test_pods_have_the_disk_that_the_launch_asked_for(disks: list[Any], gib: int) -> None:
    account = Account()
    machine = launched(account, config(account), BlockDeviceMappings=disks)
    assert storage(account, machine) == gib


@pytest.mark.parametrize(
    ("template", "override", "gib"),
    [
        (None, None, 20),
        ([disk(VolumeSize=30)], None, 30),
        ([disk(VolumeSize=30)], [disk(VolumeSize=90)], 90),
        ([disk(VolumeSize=30)], [disk(Encrypted=True)], 30),
        ([disk(VolumeSize=30)], [disk("/dev/xvdb", VolumeSize=90)], 30),
        (None, [disk(VolumeSize=90)], 90),
    ],
)
def test_an_override_changes_the_disks_of_its_template_one_by_one(
    template: list[Any] | None, override: list[Any] | None, gib: int
) -> None:
    account = Account()
    data: dict[str, Any] = {
        "ImageId": image(account),
        "UserData": b64encode(config(account).encode()).decode(),
    }
    data |= {} if template is None else {"BlockDeviceMappings": template}
    account.ask("CreateLaunchTemplate", LaunchTemplateName="mine", LaunchTemplateData=data)
    pool: dict[str, Any] = {"InstanceType": "m5.large", "AvailabilityZone": "us-east-1a"}
    pool |= {} if override is None else {"BlockDeviceMappings": override}
    named = {"LaunchTemplateName": "mine", "Version": "$Latest"}
    answer = account.ask(
        "CreateFleet",
        Type="instant",
        TargetCapacitySpecification={
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "on-demand",
        },
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": named, "Overrides": [pool]}],
    )
    machine = account.cloud.parts.instances.get(answer["Instances"][0]["InstanceIds"][0])
    assert machine is not None
    assert storage(account, machine) == gib


def test_the_disk_of_a_machine_outlives_its_image() -> None:
    account = Account()
    mine = account.ask(
        "RegisterImage",
        Name="mine",
        Architecture="x86_64",
        BlockDeviceMappings=[disk(VolumeSize=44)],
    )["ImageId"]
    machine = launched(account, config(account), ImageId=mine)
    account.ask("DeregisterImage", ImageId=mine)
    assert storage(account, machine) == 44


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"name": "other"}, Reason.OTHER_CLUSTER),
        ({"apiServerEndpoint": "https://nowhere"}, Reason.OTHER_CLUSTER),
        ({"cidr": "''"}, Reason.NO_CLUSTER),
    ],
)
def test_a_machine_that_was_told_wrong_never_joins(changed: dict[str, str], reason: Reason) -> None:
    account = Account()
    outcome = nursery(account).outcome(launched(account, config(account, **changed)))
    assert isinstance(outcome, NeverJoins)
    assert outcome.reason is reason


def test_a_machine_without_user_data_and_one_with_the_wrong_image() -> None:
    account = Account()
    bare = nursery(account).outcome(launched(account, None))
    other = nursery(account).outcome(launched(account, config(account), "amazon-linux-2"))
    assert isinstance(bare, NeverJoins)
    assert isinstance(other, NeverJoins)
    assert (bare.reason, other.reason) == (Reason.NOTHING, Reason.WRONG_IMAGE)


def test_a_dud_never_joins_whatever_it_was_told() -> None:
    account = Account(settings=Settings(pace=Pace(duds=1.0)))
    outcome = nursery(account).outcome(launched(account, config(account)))
    assert isinstance(outcome, NeverJoins)
    assert outcome.reason is Reason.DUD
