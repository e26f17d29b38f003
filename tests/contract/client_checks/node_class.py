"""Resources of a node class: networks, roles, reservations, the cluster."""

from typing import Any

from tests.contract.client_checks.setup import (
    DISCOVERY,
    create_reservation,
    subnets_by_zone,
    tag_specification,
    unique_name,
)
from tests.contract.clients import HttpClient, error_text, expect_error
from tests.contract.registry import client_check

ROLE = "KarpenterNodeRole-wain"
PATH = "/karpenter/us-east-1/wain/"
GONE = ("NoSuchEntity", 404)


@client_check("calls DescribeSubnets", "needs 4")
def subnets_by_tag_by_key_and_by_id(client: HttpClient) -> None:
    found = client.call("ec2", "DescribeSubnets", Filters=[DISCOVERY], MaxResults=500)["Subnets"]
    assert len(found) == 6
    for each in found:
        assert each["SubnetId"].startswith("subnet-")
        assert each["AvailabilityZone"].startswith("us-east-1")
        assert each["AvailabilityZoneId"].startswith("use1-az")
        assert each["AvailableIpAddressCount"] > 0
    by_key = [{"Name": "tag-key", "Values": ["karpenter.sh/discovery"]}]
    assert len(client.call("ec2", "DescribeSubnets", Filters=by_key)["Subnets"]) == 6
    service = found[0]["SubnetId"]
    by_id = [{"Name": "subnet-id", "Values": [service]}]
    (only,) = client.call("ec2", "DescribeSubnets", Filters=by_id, MaxResults=500)["Subnets"]
    assert only == found[0]


@client_check("calls DescribeSecurityGroups", "needs 4")
def groups_by_tag_by_key_by_id_and_by_name(client: HttpClient) -> None:
    response = client.call("ec2", "DescribeSecurityGroups", Filters=[DISCOVERY], MaxResults=500)
    (group,) = response["SecurityGroups"]
    for expected in (
        {"Name": "tag-key", "Values": ["karpenter.sh/discovery"]},
        {"Name": "group-id", "Values": [group["GroupId"]]},
        {"Name": "group-name", "Values": [group["GroupName"]]},
        {"Name": "group-name", "Values": ["wain-*"]},
    ):
        response = client.call("ec2", "DescribeSecurityGroups", Filters=[expected], MaxResults=500)
        assert [each["GroupId"] for each in response["SecurityGroups"]] == [group["GroupId"]]


@client_check("needs 4")
def an_unknown_filter_is_an_error_everywhere(client: HttpClient) -> None:
    wrong = [{"Name": "no-such-filter", "Values": ["x"]}]
    for operation in (
        *("DescribeSubnets", "DescribeSecurityGroups", "DescribeImages", "DescribeInstances"),
        *("DescribeInstanceStatus", "DescribeLaunchTemplates", "DescribeCapacityReservations"),
        *("DescribePlacementGroups", "DescribeInstanceTypes", "DescribeInstanceTypeOfferings"),
        "DescribeSpotPriceHistory",
    ):
        assert expect_error(client, "ec2", operation, Filters=wrong) == (
            "InvalidParameterValue",
            400,
        )


@client_check("calls DescribeCapacityReservations", "needs 4")
def reservations_by_tag_owner_and_criteria(client: HttpClient) -> None:
    team = unique_name("team")
    tags = [tag_specification("capacity-reservation", team=team)]
    identity = create_reservation(client, 3, "c5.large", TagSpecifications=tags)
    active = {"Name": "state", "Values": ["active"]}
    owner = reservation_ids(client, Filters=[active], MaxResults=1000)[identity]["OwnerId"]
    for more in (
        {"Name": "tag:team", "Values": [team]},
        {"Name": "tag-key", "Values": ["team"]},
        {"Name": "owner-id", "Values": [owner]},
        {"Name": "instance-match-criteria", "Values": ["targeted"]},
    ):
        found = reservation_ids(client, Filters=[active, more], MaxResults=1000)
        shown = found[identity]
        assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (3, 3)
        assert (shown["InstanceType"], shown["AvailabilityZone"]) == ("c5.large", "us-east-1a")
        assert shown["InstanceMatchCriteria"] == "targeted"
        assert shown["ReservationType"] == "default"
        assert shown["Interruptible"] is False


def reservation_ids(client: HttpClient, **params: Any) -> dict[str, Any]:
    found = client.call("ec2", "DescribeCapacityReservations", **params)["CapacityReservations"]
    return {each["CapacityReservationId"]: each for each in found}


@client_check("calls DescribeCapacityReservations")
def a_reservation_by_its_id_while_it_is_active(client: HttpClient) -> None:
    identity = create_reservation(client, 1)
    request = {
        "CapacityReservationIds": [identity],
        "Filters": [{"Name": "state", "Values": ["active"]}],
    }
    assert identity in reservation_ids(client, **request)
    client.call("ec2", "CancelCapacityReservation", CapacityReservationId=identity)
    assert reservation_ids(client, **request) == {}
    wrong = ["cr-0123456789abcdef0"]
    code = expect_error(client, "ec2", "DescribeCapacityReservations", CapacityReservationIds=wrong)
    assert code == ("InvalidCapacityReservationId.NotFound", 400)


@client_check("calls DescribePlacementGroups")
def placement_groups_by_name_and_by_id(client: HttpClient) -> None:
    name = unique_name("placement")
    client.call(
        "ec2", "CreatePlacementGroup", GroupName=name, Strategy="partition", PartitionCount=3
    )
    (found,) = client.call("ec2", "DescribePlacementGroups", GroupNames=[name])["PlacementGroups"]
    assert found["Strategy"] == "partition"
    assert found["PartitionCount"] == 3
    assert found["State"] == "available"
    by_id = client.call("ec2", "DescribePlacementGroups", GroupIds=[found["GroupId"]])
    assert by_id["PlacementGroups"] == [found]


@client_check("calls ListInstanceProfiles", "needs 4")
def only_the_profiles_under_a_path_are_listed(client: HttpClient) -> None:
    mine, other = (
        f"{PATH}{unique_name('uid')}/",
        f"/karpenter/us-east-1/another/{unique_name('uid')}/",
    )
    created = {path: create_profile(client, path) for path in (mine, other)}
    for prefix, name in ((mine, created[mine]), ("/karpenter/us-east-1/another/", created[other])):
        response = client.call("iam", "ListInstanceProfiles", PathPrefix=prefix)
        assert [each["InstanceProfileName"] for each in response["InstanceProfiles"]] == [name]
        assert response["IsTruncated"] is False


def create_profile(client: HttpClient, path: str) -> str:
    name = unique_name("wain_hash")
    tags = [
        {"Key": key, "Value": value}
        for key, value in {
            "eks:eks-cluster-name": "wain",
            "karpenter.k8s.aws/ec2nodeclass": "default",
            "kubernetes.io/cluster/wain": "owned",
            "topology.kubernetes.io/region": "us-east-1",
            "empty": "",
            "markup": "<a> & b",
        }.items()
    ]
    client.call("iam", "CreateInstanceProfile", InstanceProfileName=name, Path=path, Tags=tags)
    return name


@client_check("calls GetInstanceProfile", "needs 12")
def a_profile_has_its_role(client: HttpClient) -> None:
    name = create_profile(client, PATH)
    both = {"InstanceProfileName": name, "RoleName": ROLE}
    client.call("iam", "AddRoleToInstanceProfile", **both)
    found = client.call("iam", "GetInstanceProfile", InstanceProfileName=name)["InstanceProfile"]
    assert found["Roles"][0]["RoleName"] == ROLE
    assert expect_error(client, "iam", "GetInstanceProfile", InstanceProfileName="none") == GONE


@client_check("calls CreateInstanceProfile")
def errors_of_creating_a_profile(client: HttpClient) -> None:
    name = create_profile(client, PATH)
    again = expect_error(client, "iam", "CreateInstanceProfile", InstanceProfileName=name)
    assert again == ("EntityAlreadyExists", 409)
    nobody = {"InstanceProfileName": name, "RoleName": "none"}
    message = error_text(lambda: client.call("iam", "AddRoleToInstanceProfile", **nobody))
    assert message.startswith("NoSuchEntity: ")
    assert "role" in message


@client_check("calls DeleteInstanceProfile")
def a_profile_is_deleted_after_its_role(client: HttpClient) -> None:
    name = create_profile(client, PATH)
    both = {"InstanceProfileName": name, "RoleName": ROLE}
    client.call("iam", "AddRoleToInstanceProfile", **both)
    client.call("iam", "RemoveRoleFromInstanceProfile", **both)
    client.call("iam", "DeleteInstanceProfile", InstanceProfileName=name)
    assert expect_error(client, "iam", "RemoveRoleFromInstanceProfile", **both) == GONE
    assert expect_error(client, "iam", "DeleteInstanceProfile", InstanceProfileName=name) == GONE


@client_check("calls DescribeCluster", "needs 12")
def the_cluster_has_version_endpoint_and_service_cidr(client: HttpClient) -> None:
    cluster = client.call("eks", "DescribeCluster", name="wain")["cluster"]
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"].count(".") == 3
    assert cluster["endpoint"].startswith("https://")
    assert cluster["version"].startswith("1.")
    assert cluster["status"] == "ACTIVE"
    assert set(cluster["resourcesVpcConfig"]["subnetIds"]) == set(subnets_by_zone(client).values())
    assert expect_error(client, "eks", "DescribeCluster", name="x") == (
        "ResourceNotFoundException",
        404,
    )
