"""Whatever an EC2NodeClass names or selects exists in the account, once."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from wainwright.api.catalog_documents import Cloud, CloudSpec
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.clock import VirtualClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.selected_resources import SelectedResources

ZONES = ["us-west-2a", "us-west-2b"]
BY_TAG = [{"tags": {"team": "web"}}]


@pytest.fixture
def account() -> Iterator[EmulatedAwsAccount]:
    clock = VirtualClock()
    cloud = Cloud(spec=CloudSpec(region="us-west-2", zones=ZONES, instanceTypes=["m5.large"]))
    yield EmulatedAwsAccount(cloud, clock=clock)
    clock.close()


@pytest.fixture
def resources(account: EmulatedAwsAccount) -> SelectedResources:
    return SelectedResources(account.services, account.zones, account.account.cluster)


def node_class(status: Any = None, **spec: Any) -> EC2NodeClass:
    stated = {
        "role": "node-role",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": BY_TAG,
        "securityGroupSelectorTerms": BY_TAG,
        **spec,
    }
    manifest = {"metadata": {"name": "web"}, "spec": stated, "status": status}
    return msgspec.convert(manifest, EC2NodeClass)


def subnets(account: EmulatedAwsAccount, name: str, *values: str) -> dict[str, str]:
    filters = [{"Name": name, "Values": list(values)}]
    rows = account.answer("ec2", "DescribeSubnets", {"Filters": filters})["Subnets"]
    return {row["SubnetId"]: row["AvailabilityZone"] for row in rows}


def images(account: EmulatedAwsAccount, *filters: tuple[str, str], **params: Any) -> list[Any]:
    stated = [{"Name": name, "Values": [value]} for name, value in filters]
    answer = account.answer("ec2", "DescribeImages", {"Filters": stated, **params})
    found: list[Any] = answer["Images"]
    return found


def test_a_tag_selects_a_subnet_in_every_zone(
    account: EmulatedAwsAccount, resources: SelectedResources
) -> None:
    resources.create_for(node_class())
    resources.create_for(node_class())

    assert sorted(subnets(account, "tag:team", "web").values()) == ZONES


def test_tags_with_any_value_are_met_by_what_is_there(
    account: EmulatedAwsAccount, resources: SelectedResources
) -> None:
    before = len(subnets(account, "vpc-id", account.account.vpc))

    resources.create_for(
        node_class(subnetSelectorTerms=[{"tags": {"karpenter.sh/discovery": "*"}}])
    )

    assert len(subnets(account, "vpc-id", account.account.vpc)) == before


def test_subnets_by_id_lie_in_one_zone_after_the_other(
    account: EmulatedAwsAccount, resources: SelectedResources
) -> None:
    resources.create_for(
        node_class(subnetSelectorTerms=[{"id": "subnet-1"}, {"id": "subnet-2"}, {"id": "subnet-3"}])
    )

    found = subnets(account, "subnet-id", "subnet-1", "subnet-2", "subnet-3")
    assert found == {"subnet-1": ZONES[0], "subnet-2": ZONES[1], "subnet-3": ZONES[0]}


def test_the_status_of_a_class_says_where_its_subnets_are(
    account: EmulatedAwsAccount, resources: SelectedResources
) -> None:
    status = {"subnets": [{"id": "subnet-b", "zone": ZONES[1], "zoneID": "usw2-az2"}]}

    resources.create_for(node_class(status=status))

    assert subnets(account, "tag:team", "web") == {"subnet-b": ZONES[1]}


@pytest.mark.parametrize(
    ("term", "found_by"),
    [
        ({"tags": {"team": "web"}}, ("tag:team", "web")),
        ({"id": "sg-1"}, ("group-id", "sg-1")),
        ({"name": "web-nodes"}, ("group-name", "web-nodes")),
    ],
)
def test_security_groups_exist(
    account: EmulatedAwsAccount,
    resources: SelectedResources,
    term: dict[str, Any],
    found_by: tuple[str, str],
) -> None:
    chosen = node_class(securityGroupSelectorTerms=[term])

    resources.create_for(chosen)
    resources.create_for(chosen)

    filters = [{"Name": found_by[0], "Values": [found_by[1]]}]
    groups = account.answer("ec2", "DescribeSecurityGroups", {"Filters": filters})
    ids = [each["GroupId"] for each in groups["SecurityGroups"]]
    assert len(ids) == 1
    assert resources.security_groups_of(chosen) == ids


def test_roles_and_instance_profiles_exist(
    account: EmulatedAwsAccount, resources: SelectedResources
) -> None:
    resources.create_for(node_class(role="web-role"))
    resources.create_for(node_class(role=None, instanceProfile="web-profile"))

    assert account.answer("iam", "GetRole", {"RoleName": "web-role"})["Role"]
    params = {"InstanceProfileName": "web-profile"}
    profile = account.answer("iam", "GetInstanceProfile", params)["InstanceProfile"]
    assert [role["RoleName"] for role in profile["Roles"]] == ["web-profile"]


@pytest.mark.parametrize(
    ("term", "query"),
    [
        ({"id": "ami-0123456789abcdef0"}, [("image-id", "ami-0123456789abcdef0")]),
        ({"name": "golden"}, [("name", "golden")]),
        ({"tags": {"team": "web"}}, [("tag:team", "web")]),
    ],
)
def test_images_exist(
    account: EmulatedAwsAccount,
    resources: SelectedResources,
    term: dict[str, Any],
    query: list[tuple[str, str]],
) -> None:
    chosen = node_class(amiFamily="AL2023", amiSelectorTerms=[term])

    resources.create_for(chosen)
    resources.create_for(chosen)

    found = images(account, *query)
    assert {"x86_64"} <= {each["Architecture"] for each in found}
    assert len(found) <= 2
    info = account.region_offerings.instance_types["m5.large"]
    assert resources.image_of(chosen, info) in {each["ImageId"] for each in found}


def test_the_image_of_an_ssm_parameter_exists(
    account: EmulatedAwsAccount, resources: SelectedResources
) -> None:
    resources.create_for(
        node_class(amiFamily="AL2023", amiSelectorTerms=[{"ssmParameter": "/golden/image"}])
    )

    value = account.answer("ssm", "GetParameter", {"Name": "/golden/image"})["Parameter"]["Value"]
    assert len(images(account, ImageIds=[value])) == 1


def version_of(account: EmulatedAwsAccount) -> str:
    params = {"name": account.account.cluster}
    return str(account.answer("eks", "DescribeCluster", params)["cluster"]["version"])


def recommended(account: EmulatedAwsAccount, release: str = "recommended") -> str:
    folder = "/aws/service/eks/optimized-ami"
    version = version_of(account)
    if release != "recommended":
        release = f"amazon-eks-node-al2023-x86_64-standard-{version}-{release}"
    name = f"{folder}/{version}/amazon-linux-2023/x86_64/standard/{release}/image_id"
    return str(account.answer("ssm", "GetParameter", {"Name": name})["Parameter"]["Value"])


def test_a_pinned_release_exists_and_is_not_the_recommended_one(
    account: EmulatedAwsAccount, resources: SelectedResources
) -> None:
    before = recommended(account)

    resources.create_for(node_class(amiSelectorTerms=[{"alias": "al2023@v20240807"}]))

    pinned = recommended(account, "v20240807")
    assert len(images(account, ImageIds=[pinned], IncludeDeprecated=True)) == 1
    assert recommended(account) == before != pinned


@pytest.mark.parametrize("alias", ["al2023@latest", "bottlerocket@latest", "windows2022@latest"])
def test_a_new_image_of_an_alias_takes_the_place_of_the_last_one(
    account: EmulatedAwsAccount, resources: SelectedResources, alias: str
) -> None:
    chosen = node_class(amiSelectorTerms=[{"alias": alias}])
    info = account.region_offerings.instance_types["m5.large"]
    before = resources.image_of(chosen, info)

    published = resources.publish_image(alias)

    assert before not in published
    assert resources.image_of(chosen, info) in published
    assert len(images(account, ImageIds=list(published))) == len(published)


def test_the_image_of_al2023_has_the_drivers_of_the_type(
    account: EmulatedAwsAccount, resources: SelectedResources
) -> None:
    assert resources.image_of(
        node_class(), account.region_offerings.instance_types["m5.large"]
    ) == recommended(account)


def test_the_placement_group_exists(
    account: EmulatedAwsAccount, resources: SelectedResources
) -> None:
    resources.create_for(node_class(placementGroupSelector={"name": "close"}))

    groups = account.answer("ec2", "DescribePlacementGroups", {"GroupNames": ["close"]})
    assert [each["GroupName"] for each in groups["PlacementGroups"]] == ["close"]
