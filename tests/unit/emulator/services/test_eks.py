"""EKS: clusters, as far as nodes need them."""

from base64 import b64decode
from ipaddress import ip_network
from typing import Any

import pytest
from tests.support.emulator_accounts import SingleService

from wainwright.emulator.services.eks import Eks

ROLE = "arn:aws:iam::111122223333:role/cluster"
NETWORK = {"subnetIds": ["subnet-1", "subnet-2"], "securityGroupIds": ["sg-1"]}


def create(service: SingleService[Eks], name: str = "prod", **params: Any) -> dict[str, Any]:
    requested = {"name": name, "roleArn": ROLE, "resourcesVpcConfig": NETWORK} | params
    return dict(service.call("CreateCluster", **requested)["cluster"])


def test_a_cluster_has_the_fields_that_nodes_need() -> None:
    service = SingleService(Eks, "eu-west-1")
    created = create(service, tags={"team": "web"})
    assert service.call("DescribeCluster", name="prod")["cluster"] == created
    assert created["status"] == "ACTIVE"
    assert created["version"] == "1.36"
    assert created["endpoint"].startswith("https://")
    assert created["endpoint"].endswith(".gr7.eu-west-1.eks.amazonaws.com")
    ip_network(created["kubernetesNetworkConfig"]["serviceIpv4Cidr"])
    assert b64decode(created["certificateAuthority"]["data"]).startswith(b"-----BEGIN CERTIFICATE-")
    assert created["arn"] == "arn:aws:eks:eu-west-1:111122223333:cluster/prod"
    assert created["tags"] == {"team": "web"}
    assert created["resourcesVpcConfig"]["subnetIds"] == ["subnet-1", "subnet-2"]
    assert "vpcId" not in created["resourcesVpcConfig"]


def test_clusters_have_distinct_endpoints_and_certificates() -> None:
    service = SingleService(Eks)
    first, second = create(service, "a"), create(service, "b")
    assert first["endpoint"] != second["endpoint"]
    assert first["certificateAuthority"] != second["certificateAuthority"]


def test_the_vpc_is_that_of_the_subnets_where_known() -> None:
    service = SingleService(lambda context: Eks(context, {"subnet-1": "vpc-9"}.get))
    assert create(service)["resourcesVpcConfig"]["vpcId"] == "vpc-9"


def test_the_service_cidr_is_chosen_or_default() -> None:
    service = SingleService(Eks)
    chosen = create(service, "a", kubernetesNetworkConfig={"serviceIpv4Cidr": "172.20.0.0/16"})
    assert chosen["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "172.20.0.0/16"
    values = create(service, "b", kubernetesNetworkConfig={"ipFamily": "ipv6"})
    network = values["kubernetesNetworkConfig"]
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
def test_invalid_requests_are_rejected(
    operation: str, params: dict[str, Any], expected: tuple[str, int]
) -> None:
    service = SingleService(Eks)
    create(service)
    assert service.refused(operation, **params) == expected


def test_clusters_are_paginated_and_deleted() -> None:
    service = SingleService(Eks)
    for name in ("c", "a", "b"):
        create(service, name)
    first = service.call("ListClusters", maxResults=2)
    second = service.call("ListClusters", maxResults=2, nextToken=first["nextToken"])
    assert (first["clusters"], second) == (["a", "b"], {"clusters": ["c"]})
    assert service.call("DeleteCluster", name="a")["cluster"]["status"] == "DELETING"
    assert service.call("ListClusters")["clusters"] == ["b", "c"]


def test_a_cluster_is_upgraded_one_version_at_a_time() -> None:
    service = SingleService(Eks)
    create(service, version="1.34")
    service.call("UpdateClusterVersion", name="prod", version="1.35")
    assert service.call("DescribeCluster", name="prod")["cluster"]["version"] == "1.35"
    for version in ("1.34", "1.35", "1.37"):
        refused = service.refused("UpdateClusterVersion", name="prod", version=version)
        assert refused == ("InvalidParameterException", 400)


def test_a_seeded_cluster_has_the_given_control_plane() -> None:
    service = SingleService(Eks)
    service.service.seed(
        "wain",
        subnets=["subnet-1"],
        version="1.35",
        control_plane=("https://127.0.0.1:6443", "Q0E="),
    )
    found = service.reloaded().call("DescribeCluster", name="wain")["cluster"]
    assert (found["endpoint"], found["version"]) == ("https://127.0.0.1:6443", "1.35")
    assert found["certificateAuthority"] == {"data": "Q0E="}
