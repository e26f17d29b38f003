"""Placement groups: created, found by name, id and tags; they do not change where machines go."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.emulator import ids
from wainwright.emulator.ec2.lookup import PLACEMENT, named
from wainwright.emulator.filters import Fields, matching
from wainwright.emulator.tags import from_specifications, only_for, to_list
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

STRATEGIES: Final = ("cluster", "partition", "spread")
MOST_PARTITIONS: Final = 7


class PlacementGroup(msgspec.Struct, kw_only=True):
    id: str
    name: str
    strategy: str
    partitions: int | None = None
    spread_level: str | None = None
    tags: dict[str, str] = {}


class PlacementState(msgspec.Struct, kw_only=True):
    groups: dict[str, PlacementGroup] = {}


FIELDS: Final[Fields[PlacementGroup]] = {
    "group-name": lambda group: (group.name,),
    "state": lambda _: ("available",),
    "strategy": lambda group: (group.strategy,),
    "spread-level": lambda group: (group.spread_level,) if group.spread_level else (),
}


class Placement:
    name = "ec2"

    def __init__(self, world: World) -> None:
        self.state = PlacementState()
        self._world = world

    def operations(self) -> Mapping[str, Handler]:
        return {
            "CreatePlacementGroup": self.create,
            "DescribePlacementGroups": self.describe,
            "DeletePlacementGroup": self.delete,
        }

    def create(self, params: Params) -> Answer:
        only_for(params, PLACEMENT.resource)
        name, strategy = params.get("GroupName"), params.get("Strategy") or "cluster"
        if not name:
            raise AwsError("MissingParameter", "The request must contain the parameter groupName")
        if any(each.name == name for each in self.state.groups.values()):
            message = f"The Placement Group '{name}' already exists."
            raise AwsError("InvalidPlacementGroup.Duplicate", message)
        if strategy not in STRATEGIES:
            message = f"Value ({strategy}) for parameter strategy is invalid."
            raise AwsError("InvalidParameterValue", message)
        group = PlacementGroup(
            id=ids.new(self._world, PLACEMENT.prefix),
            name=name,
            strategy=strategy,
            partitions=_partitions(strategy, params.get("PartitionCount")),
            spread_level=(params.get("SpreadLevel") or "rack") if strategy == "spread" else None,
            tags=from_specifications(params, PLACEMENT.resource),
        )
        self.state.groups[group.id] = group
        return {"PlacementGroup": self._view(group)}

    def describe(self, params: Params) -> Answer:
        rows = named(self.state.groups, params.get("GroupIds"), PLACEMENT)
        names = params.get("GroupNames") or []
        for name in names:
            self._called(name)
        rows = [row for row in rows if not names or row.name in names]
        rows = matching(rows, params.get("Filters"), FIELDS, lambda row: row.tags)
        return {"PlacementGroups": [self._view(row) for row in rows]}

    def delete(self, params: Params) -> Answer:
        del self.state.groups[self._called(params.get("GroupName")).id]
        return {}

    def _called(self, name: str | None) -> PlacementGroup:
        for group in self.state.groups.values():
            if group.name == name:
                return group
        message = f"The Placement Group '{name}' is unknown."
        raise AwsError("InvalidPlacementGroup.Unknown", message)

    def _view(self, group: PlacementGroup) -> Answer:
        found: dict[str, Any] = {
            "GroupId": group.id,
            "GroupName": group.name,
            "GroupArn": PLACEMENT.arn(self._world.region, self._world.account, group.name),
            "State": "available",
            "Strategy": group.strategy,
            "Tags": to_list(group.tags),
        }
        if group.partitions is not None:
            found["PartitionCount"] = group.partitions
        if group.spread_level is not None:
            found["SpreadLevel"] = group.spread_level
        return found


def _partitions(strategy: str, asked: int | None) -> int | None:
    if strategy != "partition":
        return None
    if asked is not None and not 1 <= asked <= MOST_PARTITIONS:
        message = f"Value ({asked}) for parameter partitionCount is invalid."
        raise AwsError("InvalidParameterValue", message)
    return asked or 2
