"""A seam through which nothing in the account changes: that of a dry run.

Whatever is not known to only read is refused before it is sent, dry runs of EC2 included: a launch
that is only tried needs the permission to launch. ReceiveMessage is not among the reads: a message
that was received is hidden from others, such as a Karpenter that works on the same queue.
"""

from typing import Final

from wainwright.aws.api.services import AwsResponse, Params, Seam
from wainwright.errors import AwsError

READS: Final = ("Describe", "Get", "List")
READ_ONLY: Final = "ReadOnly"


class ReadOnlySeam:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        if not operation.startswith(READS):
            raise AwsError(READ_ONLY, f"a dry run does not call {service}:{operation}")
        return await self._seam.call(service, operation, params)
