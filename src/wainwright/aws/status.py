"""Status: machines whose checks fail for long, and those that EC2 will do something to.

Beside the queue, as that may not be set up, and as a check that fails is announced nowhere. Three
questions a minute, each filtered by EC2. Who may not ask them does without.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final

from wainwright.aws.ec2 import Ec2
from wainwright.aws.operations import denied
from wainwright.aws.wire import Filter, Row, equals
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.metrics import Kind as MetricKind
from wainwright.metrics import Metric, Registry
from wainwright.model.interruption import Interruption, Kind

TOLERATED: Final = 120.0  # seconds for which a check may fail before the machine counts as lost
CHECKS: Final = ("InstanceStatus", "SystemStatus")
EVENTS: Final = (
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
)
OVER: Final = ("[Completed]", "[Canceled]")
"""What EC2 puts before the description of an event that will not happen any more."""
QUESTIONS: Final[tuple[Filter, ...]] = (
    equals("instance-status.status", "impaired"),
    equals("system-status.status", "impaired"),
    equals("event.code", *EVENTS),
)

UNHEALTHY: Final = Metric(
    name="karpenter_interruption_instance_status_unhealthy_total",
    about="Machines that were found unhealthy or due for maintenance, once for each time.",
    kind=MetricKind.COUNTER,
    labels=("category",),
)


class Statuses:
    def __init__(self, ec2: Ec2, clock: Clock, metrics: Registry) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._metrics = metrics
        self._known: set[tuple[Kind, str]] = set()

    async def look(self) -> list[Interruption]:
        """What is wrong now, each machine once for each kind. To be called every minute."""
        rows = [row for found in await asyncio.gather(*map(self._ask, QUESTIONS)) for row in found]
        now = self._clock.now()
        every = [each for row in rows for each in (*ailing(row, now), *scheduled(row, now))]
        found = {(each.kind, each.instance): each for each in every}
        for kind, _ in found.keys() - self._known:
            self._metrics.add(UNHEALTHY, category=kind.value)
        self._known = set(found)
        return [found[key] for key in sorted(found)]

    async def _ask(self, question: Filter) -> list[Row]:
        try:
            return await self._ec2.describe_instance_status([question])
        except AwsError as error:
            if denied(error):
                return []
            raise


def ailing(row: Row, now: float) -> Iterator[Interruption]:
    """A check that has failed for long enough."""
    for check in CHECKS:
        for detail in (row.get(check) or {}).get("Details") or ():
            since = detail.get("ImpairedSince")
            if since is not None and now - since.timestamp() >= TOLERATED:
                yield _about(row, Kind.UNHEALTHY, now, f"{check} {detail.get('Name', '')}")


def scheduled(row: Row, now: float) -> Iterator[Interruption]:
    """What EC2 will do to the machine, unless it has done so already."""
    events: Iterable[dict[str, Any]] = row.get("Events") or ()
    for event in events:
        description = event.get("Description") or ""
        if event.get("Code") in EVENTS and not description.startswith(OVER):
            begins = event.get("NotBefore")
            ends_at = None if begins is None else begins.timestamp()
            yield _about(row, Kind.SCHEDULED, now, str(event["Code"]), ends_at)


def _about(
    row: Row, kind: Kind, at: float, detail: str, ends_at: float | None = None
) -> Interruption:
    return Interruption(
        kind=kind, instance=row["InstanceId"], at=at, detail=detail.strip(), ends_at=ends_at
    )
