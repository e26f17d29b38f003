"""Clusters."""

from typing import Any

from tests.contract.case import case, fresh_name
from tests.contract.cases.network import subnet, vpc
from tests.contract.doors import Door, refusal


def cluster(door: Door, name: str) -> Any:
    home = vpc(door)
    subnets = [subnet(door, home, third, zone)["SubnetId"] for third, zone in ZONES]
    return door.ask(
        "eks",
        "CreateCluster",
        name=name,
        version="1.33",
        roleArn="arn:aws:iam::123456789012:role/cluster",
        resourcesVpcConfig={"subnetIds": subnets},
        kubernetesNetworkConfig={"serviceIpv4Cidr": "10.100.0.0/16"},
    )["cluster"]


ZONES = ((1, "us-east-1a"), (2, "us-east-1b"))


@case()
def a_cluster_says_what_nodes_must_know(door: Door) -> None:
    name = fresh_name("cluster")
    made = cluster(door, name)
    assert made["name"] == name
    found = door.ask("eks", "DescribeCluster", name=name)["cluster"]
    assert found["version"] == "1.33"
    assert found["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16"
    assert found["endpoint"].startswith("https://")
    assert found["certificateAuthority"]["data"]
    assert found["status"] == "ACTIVE"
    assert found["createdAt"].tzinfo is not None


@case()
def a_cluster_that_does_not_exist_is_an_error(door: Door) -> None:
    code, status = refusal(door, "eks", "DescribeCluster", name="none")
    assert (code, status) == ("ResourceNotFoundException", 404)


@case()
def there_is_one_cluster_of_a_name(door: Door) -> None:
    name = fresh_name("cluster")
    cluster(door, name)
    code, status = refusal(
        door,
        "eks",
        "CreateCluster",
        name=name,
        roleArn="arn:aws:iam::123456789012:role/cluster",
        resourcesVpcConfig={"subnetIds": []},
    )
    assert (code, status) == ("ResourceInUseException", 409)


@case()
def clusters_are_listed(door: Door) -> None:
    name = fresh_name("cluster")
    cluster(door, name)
    assert name in door.ask("eks", "ListClusters")["clusters"]
