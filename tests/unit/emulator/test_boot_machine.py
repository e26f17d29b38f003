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


def launched(account: Account, text: str | None, folder: str | None = None) -> Any:
    params: dict[str, Any] = {
        "ImageId": image(account) if folder is None else image(account, folder),
        "InstanceType": "m5.large",
        "MinCount": 1,
        "MaxCount": 1,
    }
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
    larger = nursery(account).outcome(machine, {"/dev/xvda": 80})
    assert isinstance(larger, Booted)
    assert larger.capacity["ephemeral-storage"] == 80 * 2**30


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
