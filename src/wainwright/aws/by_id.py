"""By id: questions about single instances, gathered into few calls.

One id that EC2 does not know fails the whole call; the others are then asked about one by one.
"""

from collections.abc import Sequence
from typing import Final

from wainwright.aws.batch import IDS, Batcher, counted
from wainwright.aws.ec2 import Ec2
from wainwright.aws.instance import Instance, instance
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.metrics import Registry

NOT_FOUND: Final = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
ENDED: Final = ("shutting-down", "terminated")


class ById:
    def __init__(self, ec2: Ec2, clock: Clock, metrics: Registry) -> None:
        self._ec2 = ec2
        self._descriptions: Batcher[str, Instance | None] = Batcher(
            clock,
            IDS,
            self._describe,
            alone=True,
            watch=counted(metrics, "describe_instances"),
        )
        self._terminations: Batcher[str, bool] = Batcher(
            clock,
            IDS,
            self._terminate,
            alone=True,
            watch=counted(metrics, "terminate_instances"),
        )

    async def describe(self, identity: str) -> Instance | None:
        """The instance; None where it is gone, or was never there."""
        return await self._descriptions.add(identity)

    async def terminate(self, identity: str) -> bool:
        """Whether there was anything to terminate. To say it twice does no harm."""
        return await self._terminations.add(identity)

    async def _describe(self, ids: Sequence[str]) -> list[Instance | None]:
        try:
            rows = await self._ec2.describe_instances(ids=sorted(set(ids)))
        except AwsError as error:
            if len(ids) > 1 or error.code not in NOT_FOUND:
                raise
            return [None]
        found = {row["InstanceId"]: instance(row) for row in rows}
        return [found.get(identity) for identity in ids]

    async def _terminate(self, ids: Sequence[str]) -> list[bool | AwsError]:
        try:
            rows = await self._ec2.terminate_instances(sorted(set(ids)))
        except AwsError as error:
            if len(ids) > 1 or error.code not in NOT_FOUND:
                raise
            return [False]
        states = {row["InstanceId"]: row["CurrentState"]["Name"] for row in rows}
        return [await self._ended(identity, states.get(identity, "")) for identity in ids]

    async def _ended(self, identity: str, state: str) -> bool | AwsError:
        """What the answer left out, or left running, is asked for once more by itself."""
        if state in ENDED:
            return True
        try:
            rows = await self._ec2.terminate_instances([identity])
        except AwsError as error:
            return False if error.code in NOT_FOUND else error
        if any(row["CurrentState"]["Name"] in ENDED for row in rows):
            return True
        return AwsError("IncorrectInstanceState", f"{identity} is not being terminated", 0)
