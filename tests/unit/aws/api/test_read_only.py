"""A seam of a dry run: reads go through it, and nothing else does."""

import asyncio
from typing import Any

import pytest
from tests.support.aws_account import ScriptedApi

from wainwright.aws.api.error_codes import is_retryable
from wainwright.aws.api.read_only import ReadOnlySeam
from wainwright.errors import AwsError

TEMPLATE = {"LaunchTemplateName": "wain", "LaunchTemplateData": {"ImageId": "ami-1"}}
QUEUE = {"QueueUrl": "https://sqs.us-east-1.amazonaws.com/111122223333/shop"}


@pytest.mark.parametrize(
    ("service", "operation", "params"),
    [
        ("ec2", "DescribeSubnets", {}),
        ("ec2", "DescribeInstances", {}),
        ("iam", "GetInstanceProfile", {"InstanceProfileName": "shop"}),
        ("iam", "ListInstanceProfiles", {}),
        ("ssm", "GetParameter", {"Name": "/aws/service/x"}),
        ("eks", "DescribeCluster", {"name": "shop"}),
        ("resource-groups", "ListGroupResources", {"Group": "shop"}),
        ("pricing", "GetProducts", {"ServiceCode": "AmazonEC2"}),
    ],
)
def test_what_only_reads_is_answered(service: str, operation: str, params: Any) -> None:
    account = ScriptedApi({operation: {"Found": 1}})
    assert asyncio.run(ReadOnlySeam(account).call(service, operation, params)) == {"Found": 1}
    assert account.calls == [(operation, params)]


@pytest.mark.parametrize(
    ("service", "operation", "params"),
    [
        ("ec2", "CreateLaunchTemplate", TEMPLATE),
        ("ec2", "RunInstances", {"MinCount": 1, "MaxCount": 1, "DryRun": True}),
        ("ec2", "TerminateInstances", {"InstanceIds": ["i-1"]}),
        ("ec2", "CreateTags", {"Resources": ["i-1"], "Tags": []}),
        ("iam", "TagInstanceProfile", {"InstanceProfileName": "shop", "Tags": []}),
        ("iam", "DeleteInstanceProfile", {"InstanceProfileName": "shop"}),
        ("sqs", "ReceiveMessage", QUEUE),
        ("sqs", "DeleteMessage", {**QUEUE, "ReceiptHandle": "1"}),
    ],
)
def test_everything_else_is_refused_and_not_sent(service: str, operation: str, params: Any) -> None:
    account = ScriptedApi({operation: {}})
    with pytest.raises(AwsError, match=f"a dry run does not call {service}:{operation}") as refused:
        asyncio.run(ReadOnlySeam(account).call(service, operation, params))
    assert account.calls == []
    assert not is_retryable(refused.value, operation, params), "it would be refused again"
