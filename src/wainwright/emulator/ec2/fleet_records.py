"""Fleets afterwards: what was asked for and what came of it, for an hour."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from wainwright.emulator.ec2.lookup import FLEET, named
from wainwright.emulator.filters import Fields, matching
from wainwright.emulator.paging import page
from wainwright.emulator.tags import from_specifications, to_list
from wainwright.emulator.times import moment
from wainwright.emulator.world import Answer, Params, World

MOST: Final = 1000
KEPT_FOR: Final = 3600.0
ASKED: Final = (
    "ClientToken",
    "TargetCapacitySpecification",
    "OnDemandOptions",
    "SpotOptions",
    "ReservedCapacityOptions",
    "Context",
)
"""What of a request is shown again. Its overrides are not kept: there may be hundreds."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    at: float
    said: str
    """JSON: what was asked for, and what came of it."""
    tags: dict[str, str]


FIELDS: Final[Fields[Record]] = {
    "fleet-state": lambda _: ("active",),
    "type": lambda _: ("instant",),
    "replace-unhealthy-instances": lambda _: ("false",),
}


class Records:
    """`kept` is part of the state of whoever has the fleets."""

    def __init__(self, world: World, kept: dict[str, Record]) -> None:
        self._world = world
        self._kept = kept

    def keep(self, params: Params, answer: Mapping[str, Any]) -> None:
        self._forget()
        said = {name: params[name] for name in ASKED if name in params}
        said |= {name: answer[name] for name in ("Instances", "Errors")}
        self._kept[answer["FleetId"]] = Record(
            id=answer["FleetId"],
            at=self._world.now(),
            said=msgspec.json.encode(said).decode(),
            tags=from_specifications(params, FLEET.resource),
        )

    def describe(self, params: Params) -> Answer:
        """Fleets of type instant are found by their ids only."""
        self._forget()
        asked = params.get("FleetIds")
        rows = named(self._kept, asked, FLEET) if asked else []
        rows = matching(rows, params.get("Filters"), FIELDS)
        shown, token = page(rows, params, most=MOST, least=1)
        return {"Fleets": [_shown(each) for each in shown], **token}

    def _forget(self) -> None:
        """The oldest come first."""
        limit = self._world.now() - KEPT_FOR
        while self._kept:
            oldest = next(iter(self._kept))
            if self._kept[oldest].at > limit:
                return
            del self._kept[oldest]


def _shown(record: Record) -> Answer:
    said: Answer = msgspec.json.decode(record.said)
    return {
        **said,
        "FleetId": record.id,
        "FleetState": "active",
        "CreateTime": moment(int(record.at)),
        "Type": "instant",
        "FulfilledCapacity": _count(said["Instances"]),
        "FulfilledOnDemandCapacity": _count(
            each for each in said["Instances"] if each["Lifecycle"] == "on-demand"
        ),
        "TerminateInstancesWithExpiration": False,
        "ReplaceUnhealthyInstances": False,
        "Tags": to_list(record.tags),
    }


def _count(entries: Iterable[Answer]) -> float:
    return float(sum(len(each["InstanceIds"]) for each in entries))
