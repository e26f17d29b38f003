"""Placement groups: created, and described by name, id and tags; they do not affect placement."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.emulator import api_conventions
from wainwright.emulator.api_conventions import PLACEMENT_GROUP, find_by_ids
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import FilterFields, apply_filters
from wainwright.emulator.ec2.tags import check_taggable_types, parse_tag_specifications, to_tag_list
from wainwright.errors import AwsError

PLACEMENT_STRATEGIES: Final = ("cluster", "partition", "spread")
MAX_PARTITIONS: Final = 7


class PlacementGroup(msgspec.Struct, kw_only=True):
    id: str
    name: str
    strategy: str
    partitions: int | None = None
    spread_level: str | None = None
    tags: dict[str, str] = {}


class PlacementGroupsState(msgspec.Struct, kw_only=True):
    groups: dict[str, PlacementGroup] = {}


PLACEMENT_GROUP_FILTERS: Final[FilterFields[PlacementGroup]] = {
    "group-name": lambda group: (group.name,),
    "state": lambda _: ("available",),
    "strategy": lambda group: (group.strategy,),
    "spread-level": lambda group: (group.spread_level,) if group.spread_level else (),
}


class PlacementGroups:
    name = "ec2"

    def __init__(self, context: AccountContext) -> None:
        self.state = PlacementGroupsState()
        self._context = context

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreatePlacementGroup": self.create,
            "DescribePlacementGroups": self.describe,
            "DeletePlacementGroup": self.delete,
        }

    def create(self, params: Params) -> Response:
        check_taggable_types(params, PLACEMENT_GROUP.resource)
        name, strategy = params.get("GroupName"), params.get("Strategy") or "cluster"
        if not name:
            raise AwsError("MissingParameter", "The request must contain the parameter groupName")
        if any(each.name == name for each in self.state.groups.values()):
            message = f"The Placement Group '{name}' already exists."
            raise AwsError("InvalidPlacementGroup.Duplicate", message)
        if strategy not in PLACEMENT_STRATEGIES:
            message = f"Value ({strategy}) for parameter strategy is invalid."
            raise AwsError("InvalidParameterValue", message)
        group = PlacementGroup(
            id=api_conventions.new_resource_id(self._context, PLACEMENT_GROUP.prefix),
            name=name,
            strategy=strategy,
            partitions=_partition_count(strategy, params.get("PartitionCount")),
            spread_level=(params.get("SpreadLevel") or "rack") if strategy == "spread" else None,
            tags=parse_tag_specifications(params, PLACEMENT_GROUP.resource),
        )
        self.state.groups[group.id] = group
        return {"PlacementGroup": self._view(group)}

    def describe(self, params: Params) -> Response:
        rows = find_by_ids(self.state.groups, params.get("GroupIds"), PLACEMENT_GROUP)
        names = params.get("GroupNames") or []
        for name in names:
            self._get_by_name(name)
        rows = [row for row in rows if not names or row.name in names]
        rows = apply_filters(
            rows, params.get("Filters"), PLACEMENT_GROUP_FILTERS, lambda row: row.tags
        )
        return {"PlacementGroups": [self._view(row) for row in rows]}

    def delete(self, params: Params) -> Response:
        del self.state.groups[self._get_by_name(params.get("GroupName")).id]
        return {}

    def _get_by_name(self, name: str | None) -> PlacementGroup:
        for group in self.state.groups.values():
            if group.name == name:
                return group
        message = f"The Placement Group '{name}' is unknown."
        raise AwsError("InvalidPlacementGroup.Unknown", message)

    def _view(self, group: PlacementGroup) -> Response:
        view: dict[str, Any] = {
            "GroupId": group.id,
            "GroupName": group.name,
            "GroupArn": PLACEMENT_GROUP.arn(
                self._context.region, self._context.account, group.name
            ),
            "State": "available",
            "Strategy": group.strategy,
            "Tags": to_tag_list(group.tags),
        }
        if group.partitions is not None:
            view["PartitionCount"] = group.partitions
        if group.spread_level is not None:
            view["SpreadLevel"] = group.spread_level
        return view


def _partition_count(strategy: str, requested: int | None) -> int | None:
    if strategy != "partition":
        return None
    if requested is not None and not 1 <= requested <= MAX_PARTITIONS:
        message = f"Value ({requested}) for parameter partitionCount is invalid."
        raise AwsError("InvalidParameterValue", message)
    return requested or 2
