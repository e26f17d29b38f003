"""What a node class is resolved from: networks, roles, reservations, the cluster."""

from typing import Any

from tests.contract.doors import OverHttp, complaint, refusal
from tests.contract.line import line
from tests.contract.lines.scene import DISCOVERY, reserve, subnets, tagged, unique

ROLE = "KarpenterNodeRole-wain"
PATH = "/karpenter/us-east-1/wain/"
GONE = ("NoSuchEntity", 404)


@line("calls DescribeSubnets", "needs 4")
def subnets_by_tag_by_key_and_by_id(door: OverHttp) -> None:
    found = door.ask("ec2", "DescribeSubnets", Filters=[DISCOVERY], MaxResults=500)["Subnets"]
    assert len(found) == 6
    for each in found:
        assert each["SubnetId"].startswith("subnet-")
        assert each["AvailabilityZone"].startswith("us-east-1")
        assert each["AvailabilityZoneId"].startswith("use1-az")
        assert each["AvailableIpAddressCount"] > 0
    by_key = [{"Name": "tag-key", "Values": ["karpenter.sh/discovery"]}]
    assert len(door.ask("ec2", "DescribeSubnets", Filters=by_key)["Subnets"]) == 6
    one = found[0]["SubnetId"]
    by_id = [{"Name": "subnet-id", "Values": [one]}]
    (only,) = door.ask("ec2", "DescribeSubnets", Filters=by_id, MaxResults=500)["Subnets"]
    assert only == found[0]


@line("calls DescribeSecurityGroups", "needs 4")
def groups_by_tag_by_key_by_id_and_by_name(door: OverHttp) -> None:
    answer = door.ask("ec2", "DescribeSecurityGroups", Filters=[DISCOVERY], MaxResults=500)
    (group,) = answer["SecurityGroups"]
    for wanted in (
        {"Name": "tag-key", "Values": ["karpenter.sh/discovery"]},
        {"Name": "group-id", "Values": [group["GroupId"]]},
        {"Name": "group-name", "Values": [group["GroupName"]]},
        {"Name": "group-name", "Values": ["wain-*"]},
    ):
        answer = door.ask("ec2", "DescribeSecurityGroups", Filters=[wanted], MaxResults=500)
        assert [each["GroupId"] for each in answer["SecurityGroups"]] == [group["GroupId"]]


@line("needs 4")
def a_filter_that_nobody_supports_is_an_error_everywhere(door: OverHttp) -> None:
    wrong = [{"Name": "no-such-filter", "Values": ["x"]}]
    for operation in (
        *("DescribeSubnets", "DescribeSecurityGroups", "DescribeImages", "DescribeInstances"),
        *("DescribeInstanceStatus", "DescribeLaunchTemplates", "DescribeCapacityReservations"),
        *("DescribePlacementGroups", "DescribeInstanceTypes", "DescribeInstanceTypeOfferings"),
        "DescribeSpotPriceHistory",
    ):
        assert refusal(door, "ec2", operation, Filters=wrong) == ("InvalidParameterValue", 400)


@line("calls DescribeCapacityReservations", "needs 4")
def reservations_by_tag_owner_and_criteria(door: OverHttp) -> None:
    team = unique("team")
    tags = [tagged("capacity-reservation", team=team)]
    identity = reserve(door, 3, "c5.large", TagSpecifications=tags)
    active = {"Name": "state", "Values": ["active"]}
    owner = reservations(door, Filters=[active], MaxResults=1000)[identity]["OwnerId"]
    for more in (
        {"Name": "tag:team", "Values": [team]},
        {"Name": "tag-key", "Values": ["team"]},
        {"Name": "owner-id", "Values": [owner]},
        {"Name": "instance-match-criteria", "Values": ["targeted"]},
    ):
        found = reservations(door, Filters=[active, more], MaxResults=1000)
        shown = found[identity]
        assert (shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == (3, 3)
        assert (shown["InstanceType"], shown["AvailabilityZone"]) == ("c5.large", "us-east-1a")
        assert shown["InstanceMatchCriteria"] == "targeted"
        assert shown["ReservationType"] == "default"
        assert shown["Interruptible"] is False


def reservations(door: OverHttp, **params: Any) -> dict[str, Any]:
    found = door.ask("ec2", "DescribeCapacityReservations", **params)["CapacityReservations"]
    return {each["CapacityReservationId"]: each for each in found}


@line("calls DescribeCapacityReservations")
def a_reservation_by_its_id_while_it_is_active(door: OverHttp) -> None:
    identity = reserve(door, 1)
    asked = {
        "CapacityReservationIds": [identity],
        "Filters": [{"Name": "state", "Values": ["active"]}],
    }
    assert identity in reservations(door, **asked)
    door.ask("ec2", "CancelCapacityReservation", CapacityReservationId=identity)
    assert reservations(door, **asked) == {}
    wrong = ["cr-0123456789abcdef0"]
    code = refusal(door, "ec2", "DescribeCapacityReservations", CapacityReservationIds=wrong)
    assert code == ("InvalidCapacityReservationId.NotFound", 400)


@line("calls DescribePlacementGroups")
def placement_groups_by_name_and_by_id(door: OverHttp) -> None:
    name = unique("placement")
    door.ask("ec2", "CreatePlacementGroup", GroupName=name, Strategy="partition", PartitionCount=3)
    (found,) = door.ask("ec2", "DescribePlacementGroups", GroupNames=[name])["PlacementGroups"]
    assert found["Strategy"] == "partition"
    assert found["PartitionCount"] == 3
    assert found["State"] == "available"
    by_id = door.ask("ec2", "DescribePlacementGroups", GroupIds=[found["GroupId"]])
    assert by_id["PlacementGroups"] == [found]


@line("calls ListInstanceProfiles", "needs 4")
def only_the_profiles_under_a_path_are_listed(door: OverHttp) -> None:
    mine, other = f"{PATH}{unique('uid')}/", f"/karpenter/us-east-1/another/{unique('uid')}/"
    made = {path: profile(door, path) for path in (mine, other)}
    for prefix, name in ((mine, made[mine]), ("/karpenter/us-east-1/another/", made[other])):
        answer = door.ask("iam", "ListInstanceProfiles", PathPrefix=prefix)
        assert [each["InstanceProfileName"] for each in answer["InstanceProfiles"]] == [name]
        assert answer["IsTruncated"] is False


def profile(door: OverHttp, path: str) -> str:
    name = unique("wain_hash")
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
    door.ask("iam", "CreateInstanceProfile", InstanceProfileName=name, Path=path, Tags=tags)
    return name


@line("calls GetInstanceProfile", "needs 12")
def a_profile_says_its_role(door: OverHttp) -> None:
    name = profile(door, PATH)
    both = {"InstanceProfileName": name, "RoleName": ROLE}
    door.ask("iam", "AddRoleToInstanceProfile", **both)
    found = door.ask("iam", "GetInstanceProfile", InstanceProfileName=name)["InstanceProfile"]
    assert found["Roles"][0]["RoleName"] == ROLE
    assert refusal(door, "iam", "GetInstanceProfile", InstanceProfileName="none") == GONE


@line("calls CreateInstanceProfile")
def what_stands_in_the_way_of_a_profile(door: OverHttp) -> None:
    name = profile(door, PATH)
    again = refusal(door, "iam", "CreateInstanceProfile", InstanceProfileName=name)
    assert again == ("EntityAlreadyExists", 409)
    nobody = {"InstanceProfileName": name, "RoleName": "none"}
    message = complaint(lambda: door.ask("iam", "AddRoleToInstanceProfile", **nobody))
    assert message.startswith("NoSuchEntity: ")
    assert "role" in message


@line("calls DeleteInstanceProfile")
def a_profile_goes_after_its_role(door: OverHttp) -> None:
    name = profile(door, PATH)
    both = {"InstanceProfileName": name, "RoleName": ROLE}
    door.ask("iam", "AddRoleToInstanceProfile", **both)
    door.ask("iam", "RemoveRoleFromInstanceProfile", **both)
    door.ask("iam", "DeleteInstanceProfile", InstanceProfileName=name)
    assert refusal(door, "iam", "RemoveRoleFromInstanceProfile", **both) == GONE
    assert refusal(door, "iam", "DeleteInstanceProfile", InstanceProfileName=name) == GONE


@line("calls DescribeCluster", "needs 12")
def the_cluster_has_a_version_an_endpoint_and_addresses(door: OverHttp) -> None:
    cluster = door.ask("eks", "DescribeCluster", name="wain")["cluster"]
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"].count(".") == 3
    assert cluster["endpoint"].startswith("https://")
    assert cluster["version"].startswith("1.")
    assert cluster["status"] == "ACTIVE"
    assert set(cluster["resourcesVpcConfig"]["subnetIds"]) == set(subnets(door).values())
    assert refusal(door, "eks", "DescribeCluster", name="x") == ("ResourceNotFoundException", 404)
