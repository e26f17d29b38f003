"""The services other than EC2: IAM, EKS, SQS, SSM parameters."""

import json
from typing import Any

from tests.contract.cases.network import create_subnet, create_vpc
from tests.contract.clients import AccountClient, expect_error
from tests.contract.registry import contract_case, fresh_name

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "ec2.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)
NO_SUCH_ENTITY = ("NoSuchEntity", 404)


def create_role(client: AccountClient) -> str:
    name = fresh_name("role")
    client.call("iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=TRUST)
    return name


def create_profile(client: AccountClient, path: str = "/") -> str:
    name = fresh_name("profile")
    tags = [{"Key": "team", "Value": ""}, {"Key": "a&b", "Value": "<c>"}]
    client.call("iam", "CreateInstanceProfile", InstanceProfileName=name, Path=path, Tags=tags)
    return name


@contract_case()
def a_profile_has_its_path_its_tags_and_its_role(client: AccountClient) -> None:
    created, home = create_role(client), "/karpenter/us-east-1/test/"
    name = create_profile(client, home)
    client.call("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=created)
    described = client.call("iam", "GetInstanceProfile", InstanceProfileName=name)[
        "InstanceProfile"
    ]
    assert described["Path"] == home
    assert [each["RoleName"] for each in described["Roles"]] == [created]
    assert described["Arn"].endswith(f":instance-profile{home}{name}")
    tags = {pair["Key"]: pair["Value"] for pair in described["Tags"]}
    assert tags == {"team": "", "a&b": "<c>"}


@contract_case()
def what_does_not_exist_is_an_error(client: AccountClient) -> None:
    assert (
        expect_error(client, "iam", "GetInstanceProfile", InstanceProfileName="none")
        == NO_SUCH_ENTITY
    )
    assert expect_error(client, "iam", "GetRole", RoleName="none") == NO_SUCH_ENTITY
    assert (
        expect_error(client, "iam", "DeleteInstanceProfile", InstanceProfileName="none")
        == NO_SUCH_ENTITY
    )


@contract_case()
def an_unknown_role_cannot_be_added_to_a_profile(client: AccountClient) -> None:
    name = create_profile(client)
    where = {"InstanceProfileName": name, "RoleName": "none"}
    assert expect_error(client, "iam", "AddRoleToInstanceProfile", **where) == NO_SUCH_ENTITY


@contract_case()
def a_profile_name_is_unique(client: AccountClient) -> None:
    name = create_profile(client)
    code, status = expect_error(client, "iam", "CreateInstanceProfile", InstanceProfileName=name)
    assert (code, status) == ("EntityAlreadyExists", 409)


@contract_case()
def a_profile_has_one_role(client: AccountClient) -> None:
    name = create_profile(client)
    client.call(
        "iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=create_role(client)
    )
    second = {"InstanceProfileName": name, "RoleName": create_role(client)}
    code, status = expect_error(client, "iam", "AddRoleToInstanceProfile", **second)
    assert (code, status) == ("LimitExceeded", 409)


@contract_case()
def a_profile_with_a_role_cannot_be_deleted(client: AccountClient) -> None:
    name, created = create_profile(client), create_role(client)
    both = {"InstanceProfileName": name, "RoleName": created}
    client.call("iam", "AddRoleToInstanceProfile", **both)
    code, status = expect_error(client, "iam", "DeleteInstanceProfile", InstanceProfileName=name)
    assert (code, status) == ("DeleteConflict", 409)
    client.call("iam", "RemoveRoleFromInstanceProfile", **both)
    client.call("iam", "DeleteInstanceProfile", InstanceProfileName=name)
    assert (
        expect_error(client, "iam", "GetInstanceProfile", InstanceProfileName=name)
        == NO_SUCH_ENTITY
    )


@contract_case(moto_wrong="it gives the profiles of all paths, which a client would then delete")
def profiles_are_listed_by_path(client: AccountClient) -> None:
    mine, other = f"/{fresh_name('path')}/", f"/{fresh_name('path')}/"
    name, _ = create_profile(client, mine), create_profile(client, other)
    found = client.call("iam", "ListInstanceProfiles", PathPrefix=mine)
    assert [each["InstanceProfileName"] for each in found["InstanceProfiles"]] == [name]
    assert found["IsTruncated"] is False


def create_cluster(client: AccountClient, name: str) -> Any:
    home = create_vpc(client)
    subnets = [create_subnet(client, home, third, zone)["SubnetId"] for third, zone in ZONES]
    return client.call(
        "eks",
        "CreateCluster",
        name=name,
        version="1.33",
        roleArn="arn:aws:iam::123456789012:role/cluster",
        resourcesVpcConfig={"subnetIds": subnets},
        kubernetesNetworkConfig={"serviceIpv4Cidr": "10.100.0.0/16"},
    )["cluster"]


ZONES = ((1, "us-east-1a"), (2, "us-east-1b"))


@contract_case()
def a_cluster_says_what_nodes_must_know(client: AccountClient) -> None:
    name = fresh_name("cluster")
    created = create_cluster(client, name)
    assert created["name"] == name
    described = client.call("eks", "DescribeCluster", name=name)["cluster"]
    assert described["version"] == "1.33"
    assert described["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16"
    assert described["endpoint"].startswith("https://")
    assert described["certificateAuthority"]["data"]
    assert described["status"] == "ACTIVE"
    assert described["createdAt"].tzinfo is not None


@contract_case()
def a_cluster_that_does_not_exist_is_an_error(client: AccountClient) -> None:
    code, status = expect_error(client, "eks", "DescribeCluster", name="none")
    assert (code, status) == ("ResourceNotFoundException", 404)


@contract_case()
def there_is_one_cluster_of_a_name(client: AccountClient) -> None:
    name = fresh_name("cluster")
    create_cluster(client, name)
    code, status = expect_error(
        client,
        "eks",
        "CreateCluster",
        name=name,
        roleArn="arn:aws:iam::123456789012:role/cluster",
        resourcesVpcConfig={"subnetIds": []},
    )
    assert (code, status) == ("ResourceInUseException", 409)


@contract_case()
def clusters_are_listed(client: AccountClient) -> None:
    name = fresh_name("cluster")
    create_cluster(client, name)
    assert name in client.call("eks", "ListClusters")["clusters"]


NO_QUEUE = ("AWS.SimpleQueueService.NonExistentQueue", 400)


def create_queue(client: AccountClient) -> str:
    return str(client.call("sqs", "CreateQueue", QueueName=fresh_name("queue"))["QueueUrl"])


@contract_case()
def a_message_is_received_and_deleted(client: AccountClient) -> None:
    where = create_queue(client)
    body = '{"detail-type": "EC2 Spot Instance Interruption Warning", "x": "<&>"}'
    sent = client.call("sqs", "SendMessage", QueueUrl=where, MessageBody=body)
    (got,) = client.call("sqs", "ReceiveMessage", QueueUrl=where, VisibilityTimeout=0)["Messages"]
    assert (got["MessageId"], got["Body"]) == (sent["MessageId"], body)
    assert got["MD5OfBody"] == sent["MD5OfMessageBody"]
    (again,) = client.call("sqs", "ReceiveMessage", QueueUrl=where)["Messages"]
    client.call("sqs", "DeleteMessage", QueueUrl=where, ReceiptHandle=again["ReceiptHandle"])
    attributes = client.call(
        "sqs", "GetQueueAttributes", QueueUrl=where, AttributeNames=["ApproximateNumberOfMessages"]
    )
    assert attributes["Attributes"] == {"ApproximateNumberOfMessages": "0"}


@contract_case()
def a_message_in_hand_is_not_seen_by_others(client: AccountClient) -> None:
    where = create_queue(client)
    client.call("sqs", "SendMessage", QueueUrl=where, MessageBody="once")
    assert "Messages" in client.call("sqs", "ReceiveMessage", QueueUrl=where, VisibilityTimeout=60)
    assert "Messages" not in client.call("sqs", "ReceiveMessage", QueueUrl=where)


@contract_case()
def several_messages_come_at_once(client: AccountClient) -> None:
    where = create_queue(client)
    bodies = {f"message {number}" for number in range(5)}
    for body in bodies:
        client.call("sqs", "SendMessage", QueueUrl=where, MessageBody=body)
    response = client.call("sqs", "ReceiveMessage", QueueUrl=where, MaxNumberOfMessages=10)
    assert {each["Body"] for each in response["Messages"]} == bodies


@contract_case()
def the_sent_timestamp_is_an_attribute_on_request(client: AccountClient) -> None:
    where = create_queue(client)
    client.call("sqs", "SendMessage", QueueUrl=where, MessageBody="when")
    (got,) = client.call("sqs", "ReceiveMessage", QueueUrl=where, AttributeNames=["SentTimestamp"])[
        "Messages"
    ]
    assert got["Attributes"]["SentTimestamp"].isdigit()


@contract_case()
def an_empty_queue_gives_nothing_after_the_wait(client: AccountClient) -> None:
    assert (
        client.call("sqs", "ReceiveMessage", QueueUrl=create_queue(client), WaitTimeSeconds=1) == {}
    )


@contract_case()
def a_queue_that_does_not_exist_is_an_error(client: AccountClient) -> None:
    assert expect_error(client, "sqs", "GetQueueUrl", QueueName="none") == NO_QUEUE
    where = create_queue(client)
    client.call("sqs", "DeleteQueue", QueueUrl=where)
    assert expect_error(client, "sqs", "SendMessage", QueueUrl=where, MessageBody="x") == NO_QUEUE


@contract_case()
def a_queue_has_one_address(client: AccountClient) -> None:
    where = create_queue(client)
    name = where.rpartition("/")[2]
    assert client.call("sqs", "GetQueueUrl", QueueName=name)["QueueUrl"] == where
    assert client.call("sqs", "CreateQueue", QueueName=name)["QueueUrl"] == where


PUBLIC = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended"


@contract_case()
def a_parameter_comes_back_as_it_was_put(client: AccountClient) -> None:
    name = f"/{fresh_name('mine')}/value"
    client.call("ssm", "PutParameter", Name=name, Value="a <b> & c", Type="String")
    described = client.call("ssm", "GetParameter", Name=name)["Parameter"]
    assert (described["Value"], described["Type"], described["Version"]) == (
        "a <b> & c",
        "String",
        1,
    )


@contract_case()
def a_parameter_is_not_overwritten_unless_asked(client: AccountClient) -> None:
    name = f"/{fresh_name('mine')}/value"
    client.call("ssm", "PutParameter", Name=name, Value="one", Type="String")
    again = {"Name": name, "Value": "two", "Type": "String"}
    assert expect_error(client, "ssm", "PutParameter", **again) == ("ParameterAlreadyExists", 400)
    client.call("ssm", "PutParameter", Overwrite=True, **again)
    assert client.call("ssm", "GetParameter", Name=name)["Parameter"]["Value"] == "two"


@contract_case()
def a_parameter_that_does_not_exist_is_an_error(client: AccountClient) -> None:
    assert expect_error(client, "ssm", "GetParameter", Name="/none") == ("ParameterNotFound", 400)


@contract_case(moto_wrong="it has none of the images for EKS")
def the_images_of_eks_are_public_parameters(client: AccountClient) -> None:
    identity = client.call("ssm", "GetParameter", Name=f"{PUBLIC}/image_id")["Parameter"]["Value"]
    expected = [{"Name": "image-id", "Values": [identity]}]
    (image,) = client.call("ec2", "DescribeImages", Filters=expected)["Images"]
    assert image["Architecture"] == "x86_64"
    assert "1.33" in image["Name"]


@contract_case("it has no capacity reservations")
def a_resource_group_lists_its_reservations(client: AccountClient) -> None:
    created = client.call(
        "ec2",
        "CreateCapacityReservation",
        InstanceType="m5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=1,
    )["CapacityReservation"]
    name, arn = fresh_name("group"), created["CapacityReservationArn"]
    configuration = [
        {"Type": "AWS::EC2::CapacityReservationPool"},
        {
            "Type": "AWS::ResourceGroups::Generic",
            "Parameters": [
                {
                    "Name": "allowed-resource-types",
                    "Values": ["AWS::EC2::CapacityReservation"],
                }
            ],
        },
    ]
    group = client.call("resource-groups", "CreateGroup", Name=name, Configuration=configuration)
    group_arn = group["Group"]["GroupArn"]
    assert group_arn.endswith(f":group/{name}")
    client.call("resource-groups", "GroupResources", Group=group_arn, ResourceArns=[arn])
    listed = client.call("resource-groups", "ListGroupResources", Group=group_arn)["Resources"]
    assert [each["Identifier"]["ResourceArn"] for each in listed] == [arn]
    missing = expect_error(client, "resource-groups", "ListGroupResources", Group="none")
    assert missing == ("NotFoundException", 404)
