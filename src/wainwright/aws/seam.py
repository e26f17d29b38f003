"""The seam: the one narrow entrance to AWS, be it the real one or the emulator."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

Params: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]


class Seam(Protocol):
    """Asks one operation of one service, in the shapes of boto3, or raises AwsError.

    `service` is boto's name for it (ec2, iam, ssm, eks, sqs, pricing), `operation` as in the API
    (CreateFleet). Nobody behind the seam retries, waits for its turn, or logs: that is done once,
    above it.
    """

    async def call(self, service: str, operation: str, params: Params) -> Answer: ...
