"""Beside EC2 and IAM: the few calls to SSM, EKS, SQS and the price list."""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.aws.seam import Seam
from wainwright.aws.wire import Row, listed
from wainwright.errors import AwsError

POLL: Final = 20  # seconds that a poll waits, and that a message then stays hidden
MESSAGES: Final = 10  # in one answer


class Ssm:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def parameter(self, name: str) -> str | None:
        """None where there is no parameter of that name."""
        try:
            answer = await self._seam.call("ssm", "GetParameter", {"Name": name})
        except AwsError as error:
            if error.code == "ParameterNotFound":
                return None
            raise
        return str(answer["Parameter"]["Value"])


class Eks:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def describe_cluster(self, name: str) -> Row:
        answer = await self._seam.call("eks", "DescribeCluster", {"name": name})
        found: Row = answer["cluster"]
        return found


class Sqs:
    """One queue, known by its name."""

    def __init__(self, seam: Seam, name: str) -> None:
        self._seam = seam
        self._name = name
        self._url = ""

    async def receive(self) -> list[Row]:
        """Waits until messages come, or the poll is over."""
        params = {
            "QueueUrl": await self._address(),
            "MaxNumberOfMessages": MESSAGES,
            "VisibilityTimeout": POLL,
            "WaitTimeSeconds": POLL,
            "AttributeNames": ["SentTimestamp"],
            "MessageAttributeNames": ["All"],
        }
        answer = await self._seam.call("sqs", "ReceiveMessage", params)
        return list(answer.get("Messages") or ())

    async def delete(self, receipt: str) -> None:
        params = {"QueueUrl": await self._address(), "ReceiptHandle": receipt}
        await self._seam.call("sqs", "DeleteMessage", params)

    async def _address(self) -> str:
        if not self._url:
            answer = await self._seam.call("sqs", "GetQueueUrl", {"QueueName": self._name})
            self._url = str(answer["QueueUrl"])
        return self._url


class PriceList:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def products(self, terms: Mapping[str, str]) -> list[Row]:
        """The products of EC2 of which all this is true; each with its prices, decoded."""
        params = {
            "ServiceCode": "AmazonEC2",
            "Filters": [
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in sorted(terms.items())
            ],
            "MaxResults": 100,
        }
        found = await listed(self._seam, "pricing", "GetProducts", params, "PriceList")
        return [msgspec.json.decode(str(text), type=Row) for text in found]
