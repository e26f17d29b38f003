"""EKS: clusters as nodes must know them."""

from base64 import b64decode
from ipaddress import ip_network
from typing import Any

import pytest
from tests.support.emulator_accounts import SingleService

from wainwright.emulator.services.eks import Eks

ROLE = "arn:aws:iam::111122223333:role/cluster"
NETWORK = {"subnetIds": ["subnet-1", "subnet-2"], "securityGroupIds": ["sg-1"]}


def create(one: SingleService[Eks], name: str = "prod", **params: Any) -> dict[str, Any]:
    wanted = {"name": name, "roleArn": ROLE, "resourcesVpcConfig": NETWORK} | params
    return dict(one.ask("CreateCluster", **wanted)["cluster"])


def test_a_cluster_has_all_that_a_node_must_know() -> None:
    one = SingleService(Eks, "eu-west-1")
    made = create(one, tags={"team": "web"})
    assert one.ask("DescribeCluster", name="prod")["cluster"] == made
    assert made["status"] == "ACTIVE"
    assert made["version"] == "1.36"
    assert made["endpoint"].startswith("https://")
    assert made["endpoint"].endswith(".gr7.eu-west-1.eks.amazonaws.com")
    ip_network(made["kubernetesNetworkConfig"]["serviceIpv4Cidr"])
    assert b64decode(made["certificateAuthority"]["data"]).startswith(b"-----BEGIN CERTIFICATE-")
    assert made["arn"] == "arn:aws:eks:eu-west-1:111122223333:cluster/prod"
    assert made["tags"] == {"team": "web"}
    assert made["resourcesVpcConfig"]["subnetIds"] == ["subnet-1", "subnet-2"]
    assert "vpcId" not in made["resourcesVpcConfig"]


def test_two_clusters_are_two() -> None:
    one = SingleService(Eks)
    first, second = create(one, "a"), create(one, "b")
    assert first["endpoint"] != second["endpoint"]
    assert first["certificateAuthority"] != second["certificateAuthority"]


def test_the_vpc_is_that_of_the_subnets_where_somebody_knows() -> None:
    one = SingleService(lambda context: Eks(context, {"subnet-1": "vpc-9"}.get))
    assert create(one)["resourcesVpcConfig"]["vpcId"] == "vpc-9"


def test_service_addresses_are_chosen_or_given() -> None:
    one = SingleService(Eks)
    chosen = create(one, "a", kubernetesNetworkConfig={"serviceIpv4Cidr": "172.20.0.0/16"})
    assert chosen["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "172.20.0.0/16"
    given = create(one, "b", kubernetesNetworkConfig={"ipFamily": "ipv6"})
    network = given["kubernetesNetworkConfig"]
    assert ip_network(network["serviceIpv6Cidr"]).version == 6
    assert "serviceIpv4Cidr" not in network


@pytest.mark.parametrize(
    ("operation", "params", "expected"),
    [
        ("DescribeCluster", {"name": "x"}, ("ResourceNotFoundException", 404)),
        ("DeleteCluster", {"name": "x"}, ("ResourceNotFoundException", 404)),
        ("UpdateClusterVersion", {"name": "x"}, ("ResourceNotFoundException", 404)),
        (
            "CreateCluster",
            {"name": "prod", "roleArn": ROLE, "resourcesVpcConfig": {}},
            ("ResourceInUseException", 409),
        ),
        (
            "CreateCluster",
            {"name": "x", "roleArn": ROLE, "resourcesVpcConfig": {}, "version": "1.5"},
            ("InvalidParameterException", 400),
        ),
        ("CreateCluster", {"name": "x", "roleArn": ROLE}, ("InvalidParameterException", 400)),
        (
            "CreateCluster",
            {"name": "x", "resourcesVpcConfig": {}},
            ("InvalidParameterException", 400),
        ),
        (
            "CreateCluster",
            {"name": "-", "roleArn": ROLE, "resourcesVpcConfig": {}},
            ("InvalidParameterException", 400),
        ),
        ("DescribeCluster", {}, ("InvalidParameterException", 400)),
        ("ListClusters", {"maxResults": 101}, ("InvalidParameterException", 400)),
    ],
)
def test_what_is_refused(operation: str, params: dict[str, Any], expected: tuple[str, int]) -> None:
    one = SingleService(Eks)
    create(one)
    assert one.refused(operation, **params) == expected


def test_clusters_are_listed_in_pages_and_deleted() -> None:
    one = SingleService(Eks)
    for name in ("c", "a", "b"):
        create(one, name)
    first = one.ask("ListClusters", maxResults=2)
    second = one.ask("ListClusters", maxResults=2, nextToken=first["nextToken"])
    assert (first["clusters"], second) == (["a", "b"], {"clusters": ["c"]})
    assert one.ask("DeleteCluster", name="a")["cluster"]["status"] == "DELETING"
    assert one.ask("ListClusters")["clusters"] == ["b", "c"]


def test_a_cluster_is_upgraded_one_version_at_a_time() -> None:
    one = SingleService(Eks)
    create(one, version="1.34")
    one.ask("UpdateClusterVersion", name="prod", version="1.35")
    assert one.ask("DescribeCluster", name="prod")["cluster"]["version"] == "1.35"
    for version in ("1.34", "1.35", "1.37"):
        refused = one.refused("UpdateClusterVersion", name="prod", version=version)
        assert refused == ("InvalidParameterException", 400)


def test_a_seeded_cluster_leads_to_a_real_control_plane() -> None:
    one = SingleService(Eks)
    one.service.seed(
        "wain",
        subnets=["subnet-1"],
        version="1.35",
        control_plane=("https://127.0.0.1:6443", "Q0E="),
    )
    found = one.reborn().ask("DescribeCluster", name="wain")["cluster"]
    assert (found["endpoint"], found["version"]) == ("https://127.0.0.1:6443", "1.35")
    assert found["certificateAuthority"] == {"data": "Q0E="}
