"""Placement: the placement group that a class names."""

from typing import Final

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.selectors import PlacementGroupSelector
from wainwright.aws.ec2 import Ec2
from wainwright.aws.nodeclass.conditions import PLACEMENT_GROUP, Part, bad, good
from wainwright.aws.nodeclass.resolved import PlacementGroup
from wainwright.aws.remember import Remembered
from wainwright.aws.wire import Row
from wainwright.clock import Clock
from wainwright.errors import AwsError

KEPT: Final = 24 * 3600.0  # seconds
NONE_KEPT: Final = 60.0


class PlacementGroups:
    """Asks EC2 once a day for a group that is there, each minute for one that is not."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._known: Remembered[PlacementGroup | None] = Remembered(
            clock, lambda found: NONE_KEPT if found is None else KEPT
        )

    async def find(self, node_class: EC2NodeClass) -> Part[PlacementGroup | None]:
        selector = node_class.spec.placementGroupSelector
        if selector is None:
            return Part(value=None, finding=good(PLACEMENT_GROUP), again=KEPT)
        key = (selector.id, selector.name)
        found = await self._known.get(key, lambda: self._ask(selector))
        if found is not None:
            return Part(value=found, finding=good(PLACEMENT_GROUP), again=KEPT)
        message = f"there is no placement group {selector.id or selector.name} that can be used"
        finding = bad(PLACEMENT_GROUP, "PlacementGroupNotFound", message)
        return Part(value=None, finding=finding, again=NONE_KEPT)

    async def _ask(self, selector: PlacementGroupSelector) -> PlacementGroup | None:
        try:
            rows = await self._ec2.describe_placement_groups(
                name=selector.name or "", identity=selector.id or ""
            )
        except AwsError as error:
            if error.code.startswith("InvalidPlacementGroup"):
                return None
            raise
        usable = [row for row in rows if row.get("State", "available") == "available"]
        return _group(usable[0]) if usable else None


def _group(row: Row) -> PlacementGroup:
    return PlacementGroup(
        id=row["GroupId"],
        name=row.get("GroupName", ""),
        strategy=row.get("Strategy", ""),
        partitions=row.get("PartitionCount") or 0,
    )
