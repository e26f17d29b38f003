"""The services beside EC2: IAM, EKS, SQS, SSM parameters."""

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


def create_role(door: AccountClient) -> str:
    name = fresh_name("role")
    door.ask("iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=TRUST)
    return name


def create_profile(door: AccountClient, path: str = "/") -> str:
    name = fresh_name("profile")
    tags = [{"Key": "team", "Value": ""}, {"Key": "a&b", "Value": "<c>"}]
    door.ask("iam", "CreateInstanceProfile", InstanceProfileName=name, Path=path, Tags=tags)
    return name


@contract_case()
def a_profile_has_its_path_its_tags_and_its_role(door: AccountClient) -> None:
    made, home = create_role(door), "/karpenter/us-east-1/test/"
    name = create_profile(door, home)
    door.ask("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=made)
    found = door.ask("iam", "GetInstanceProfile", InstanceProfileName=name)["InstanceProfile"]
    assert found["Path"] == home
    assert [each["RoleName"] for each in found["Roles"]] == [made]
    assert found["Arn"].endswith(f":instance-profile{home}{name}")
    tags = {pair["Key"]: pair["Value"] for pair in found["Tags"]}
    assert tags == {"team": "", "a&b": "<c>"}


@contract_case()
def what_does_not_exist_is_an_error(door: AccountClient) -> None:
    assert (
        expect_error(door, "iam", "GetInstanceProfile", InstanceProfileName="none")
        == NO_SUCH_ENTITY
    )
    assert expect_error(door, "iam", "GetRole", RoleName="none") == NO_SUCH_ENTITY
    assert (
        expect_error(door, "iam", "DeleteInstanceProfile", InstanceProfileName="none")
        == NO_SUCH_ENTITY
    )


@contract_case()
def a_profile_takes_no_role_that_does_not_exist(door: AccountClient) -> None:
    name = create_profile(door)
    where = {"InstanceProfileName": name, "RoleName": "none"}
    assert expect_error(door, "iam", "AddRoleToInstanceProfile", **where) == NO_SUCH_ENTITY


@contract_case()
def there_is_one_profile_of_a_name(door: AccountClient) -> None:
    name = create_profile(door)
    code, status = expect_error(door, "iam", "CreateInstanceProfile", InstanceProfileName=name)
    assert (code, status) == ("EntityAlreadyExists", 409)


@contract_case()
def a_profile_has_one_role(door: AccountClient) -> None:
    name = create_profile(door)
    door.ask(
        "iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=create_role(door)
    )
    second = {"InstanceProfileName": name, "RoleName": create_role(door)}
    code, status = expect_error(door, "iam", "AddRoleToInstanceProfile", **second)
    assert (code, status) == ("LimitExceeded", 409)


@contract_case()
def a_profile_with_a_role_cannot_be_deleted(door: AccountClient) -> None:
    name, made = create_profile(door), create_role(door)
    both = {"InstanceProfileName": name, "RoleName": made}
    door.ask("iam", "AddRoleToInstanceProfile", **both)
    code, status = expect_error(door, "iam", "DeleteInstanceProfile", InstanceProfileName=name)
    assert (code, status) == ("DeleteConflict", 409)
    door.ask("iam", "RemoveRoleFromInstanceProfile", **both)
    door.ask("iam", "DeleteInstanceProfile", InstanceProfileName=name)
    assert (
        expect_error(door, "iam", "GetInstanceProfile", InstanceProfileName=name) == NO_SUCH_ENTITY
    )


@contract_case(moto_wrong="it gives the profiles of all paths, which a client would then delete")
def profiles_are_listed_by_path(door: AccountClient) -> None:
    mine, other = f"/{fresh_name('path')}/", f"/{fresh_name('path')}/"
    name, _ = create_profile(door, mine), create_profile(door, other)
    found = door.ask("iam", "ListInstanceProfiles", PathPrefix=mine)
    assert [each["InstanceProfileName"] for each in found["InstanceProfiles"]] == [name]
    assert found["IsTruncated"] is False


def create_cluster(door: AccountClient, name: str) -> Any:
    home = create_vpc(door)
    subnets = [create_subnet(door, home, third, zone)["SubnetId"] for third, zone in ZONES]
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


@contract_case()
def a_cluster_says_what_nodes_must_know(door: AccountClient) -> None:
    name = fresh_name("cluster")
    made = create_cluster(door, name)
    assert made["name"] == name
    found = door.ask("eks", "DescribeCluster", name=name)["cluster"]
    assert found["version"] == "1.33"
    assert found["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16"
    assert found["endpoint"].startswith("https://")
    assert found["certificateAuthority"]["data"]
    assert found["status"] == "ACTIVE"
    assert found["createdAt"].tzinfo is not None


@contract_case()
def a_cluster_that_does_not_exist_is_an_error(door: AccountClient) -> None:
    code, status = expect_error(door, "eks", "DescribeCluster", name="none")
    assert (code, status) == ("ResourceNotFoundException", 404)


@contract_case()
def there_is_one_cluster_of_a_name(door: AccountClient) -> None:
    name = fresh_name("cluster")
    create_cluster(door, name)
    code, status = expect_error(
        door,
        "eks",
        "CreateCluster",
        name=name,
        roleArn="arn:aws:iam::123456789012:role/cluster",
        resourcesVpcConfig={"subnetIds": []},
    )
    assert (code, status) == ("ResourceInUseException", 409)


@contract_case()
def clusters_are_listed(door: AccountClient) -> None:
    name = fresh_name("cluster")
    create_cluster(door, name)
    assert name in door.ask("eks", "ListClusters")["clusters"]


NO_QUEUE = ("AWS.SimpleQueueService.NonExistentQueue", 400)


def create_queue(door: AccountClient) -> str:
    return str(door.ask("sqs", "CreateQueue", QueueName=fresh_name("queue"))["QueueUrl"])


@contract_case()
def a_message_is_received_and_deleted(door: AccountClient) -> None:
    where = create_queue(door)
    body = '{"detail-type": "EC2 Spot Instance Interruption Warning", "x": "<&>"}'
    sent = door.ask("sqs", "SendMessage", QueueUrl=where, MessageBody=body)
    (got,) = door.ask("sqs", "ReceiveMessage", QueueUrl=where, VisibilityTimeout=0)["Messages"]
    assert (got["MessageId"], got["Body"]) == (sent["MessageId"], body)
    assert got["MD5OfBody"] == sent["MD5OfMessageBody"]
    (again,) = door.ask("sqs", "ReceiveMessage", QueueUrl=where)["Messages"]
    door.ask("sqs", "DeleteMessage", QueueUrl=where, ReceiptHandle=again["ReceiptHandle"])
    attributes = door.ask(
        "sqs", "GetQueueAttributes", QueueUrl=where, AttributeNames=["ApproximateNumberOfMessages"]
    )
    assert attributes["Attributes"] == {"ApproximateNumberOfMessages": "0"}


@contract_case()
def a_message_in_hand_is_not_seen_by_others(door: AccountClient) -> None:
    where = create_queue(door)
    door.ask("sqs", "SendMessage", QueueUrl=where, MessageBody="once")
    assert "Messages" in door.ask("sqs", "ReceiveMessage", QueueUrl=where, VisibilityTimeout=60)
    assert "Messages" not in door.ask("sqs", "ReceiveMessage", QueueUrl=where)


@contract_case()
def several_messages_come_at_once(door: AccountClient) -> None:
    where = create_queue(door)
    bodies = {f"message {number}" for number in range(5)}
    for body in bodies:
        door.ask("sqs", "SendMessage", QueueUrl=where, MessageBody=body)
    answer = door.ask("sqs", "ReceiveMessage", QueueUrl=where, MaxNumberOfMessages=10)
    assert {each["Body"] for each in answer["Messages"]} == bodies


@contract_case()
def the_time_of_sending_is_told_to_those_who_ask(door: AccountClient) -> None:
    where = create_queue(door)
    door.ask("sqs", "SendMessage", QueueUrl=where, MessageBody="when")
    (got,) = door.ask("sqs", "ReceiveMessage", QueueUrl=where, AttributeNames=["SentTimestamp"])[
        "Messages"
    ]
    assert got["Attributes"]["SentTimestamp"].isdigit()


@contract_case()
def an_empty_queue_gives_nothing_after_the_wait(door: AccountClient) -> None:
    assert door.ask("sqs", "ReceiveMessage", QueueUrl=create_queue(door), WaitTimeSeconds=1) == {}


@contract_case()
def a_queue_that_does_not_exist_is_an_error(door: AccountClient) -> None:
    assert expect_error(door, "sqs", "GetQueueUrl", QueueName="none") == NO_QUEUE
    where = create_queue(door)
    door.ask("sqs", "DeleteQueue", QueueUrl=where)
    assert expect_error(door, "sqs", "SendMessage", QueueUrl=where, MessageBody="x") == NO_QUEUE


@contract_case()
def a_queue_has_one_address(door: AccountClient) -> None:
    where = create_queue(door)
    name = where.rpartition("/")[2]
    assert door.ask("sqs", "GetQueueUrl", QueueName=name)["QueueUrl"] == where
    assert door.ask("sqs", "CreateQueue", QueueName=name)["QueueUrl"] == where


PUBLIC = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended"


@contract_case()
def a_parameter_comes_back_as_it_was_put(door: AccountClient) -> None:
    name = f"/{fresh_name('mine')}/value"
    door.ask("ssm", "PutParameter", Name=name, Value="a <b> & c", Type="String")
    found = door.ask("ssm", "GetParameter", Name=name)["Parameter"]
    assert (found["Value"], found["Type"], found["Version"]) == ("a <b> & c", "String", 1)


@contract_case()
def a_parameter_is_not_overwritten_unless_asked(door: AccountClient) -> None:
    name = f"/{fresh_name('mine')}/value"
    door.ask("ssm", "PutParameter", Name=name, Value="one", Type="String")
    again = {"Name": name, "Value": "two", "Type": "String"}
    assert expect_error(door, "ssm", "PutParameter", **again) == ("ParameterAlreadyExists", 400)
    door.ask("ssm", "PutParameter", Overwrite=True, **again)
    assert door.ask("ssm", "GetParameter", Name=name)["Parameter"]["Value"] == "two"


@contract_case()
def a_parameter_that_does_not_exist_is_an_error(door: AccountClient) -> None:
    assert expect_error(door, "ssm", "GetParameter", Name="/none") == ("ParameterNotFound", 400)


@contract_case(moto_wrong="it has none of the images for EKS")
def the_images_of_eks_are_public_parameters(door: AccountClient) -> None:
    identity = door.ask("ssm", "GetParameter", Name=f"{PUBLIC}/image_id")["Parameter"]["Value"]
    wanted = [{"Name": "image-id", "Values": [identity]}]
    (image,) = door.ask("ec2", "DescribeImages", Filters=wanted)["Images"]
    assert image["Architecture"] == "x86_64"
    assert "1.33" in image["Name"]
