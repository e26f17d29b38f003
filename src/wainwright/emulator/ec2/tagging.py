"""Tags of everything that has an id: CreateTags, DeleteTags, DescribeTags."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from wainwright.emulator.ec2.catalogue import NoState
from wainwright.emulator.ec2.lookup import Kind
from wainwright.emulator.filters import Fields, matching
from wainwright.emulator.paging import page
from wainwright.emulator.tags import MOST_TAGS, RESERVED, from_list, limit_exceeded
from wainwright.emulator.world import Answer, Handler, Params
from wainwright.errors import AwsError

MOST: Final = 1000
ELSEWHERE: Final = {
    "eni": "InvalidNetworkInterfaceID.NotFound",
    "fleet": "InvalidFleetId.NotFound",
    "sir": "InvalidSpotInstanceRequestID.NotFound",
    "snap": "InvalidSnapshot.NotFound",
    "vol": "InvalidVolume.NotFound",
}
"""Kinds that nothing here is of: asked for, they are not found."""


class Tagged(Protocol):
    tags: dict[str, str]


class Holder(NamedTuple):
    """Where the things of a kind are."""

    kind: Kind
    rows: Callable[[], Mapping[str, Tagged]]
    changed: Callable[[str], None]
    seen: Callable[[str], bool]


class Tag(NamedTuple):
    key: str
    value: str
    resource: str
    resource_type: str


FIELDS: Final[Fields[Tag]] = {
    "key": lambda tag: (tag.key,),
    "value": lambda tag: (tag.value,),
    "resource-id": lambda tag: (tag.resource,),
    "resource-type": lambda tag: (tag.resource_type,),
}


class Tagging:
    """Knows by the prefix of an id who has the thing."""

    name = "ec2"

    def __init__(self) -> None:
        self.state = NoState()
        self._holders: dict[str, Holder] = {}

    def operations(self) -> Mapping[str, Handler]:
        return {
            "CreateTags": self.create,
            "DeleteTags": self.delete,
            "DescribeTags": self.describe,
        }

    def holds(
        self,
        kind: Kind,
        rows: Callable[[], Mapping[str, Tagged]],
        changed: Callable[[str], None] = lambda _: None,
        seen: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Says where the things of a kind are, who wants to know of new tags, and which can be
        found yet."""
        self._holders[kind.prefix] = Holder(kind, rows, changed, seen)

    def create(self, params: Params) -> Answer:
        tags = from_list(params.get("Tags"))
        if not tags:
            raise AwsError("MissingParameter", "The request must contain the parameter tagSet")
        found = self._found(params)
        for row in found.values():
            own = [key for key in {**row.tags, **tags} if not key.startswith(RESERVED)]
            if len(own) > MOST_TAGS:
                raise limit_exceeded()
        for row in found.values():
            row.tags.update(tags)
        self._tell(found)
        return {}

    def delete(self, params: Params) -> Answer:
        """A tag given with a value goes only where it has that value; without tags all go."""
        asked = params.get("Tags")
        found = self._found(params)
        for row in found.values():
            for key in _meant(row.tags, asked):
                del row.tags[key]
        self._tell(found)
        return {}

    def describe(self, params: Params) -> Answer:
        rows = matching(
            self._all(), params.get("Filters"), FIELDS, lambda tag: {tag.key: tag.value}
        )
        found, token = page(rows, params, most=MOST)
        return {"Tags": [_view(tag) for tag in found], **token}

    def _found(self, params: Params) -> dict[str, Tagged]:
        """All that the call names; where one is missing nothing is changed."""
        asked = params.get("Resources")
        if not asked:
            raise AwsError(
                "MissingParameter", "The request must contain the parameter resourceIdSet"
            )
        return {identity: self._row(identity) for identity in asked}

    def _row(self, identity: str) -> Tagged:
        prefix = identity.rpartition("-")[0]
        holder = self._holders.get(prefix)
        if holder is None:
            if prefix in ELSEWHERE:
                raise AwsError(ELSEWHERE[prefix], f"The ID '{identity}' does not exist")
            raise AwsError("InvalidID", f"The ID '{identity}' is not valid")
        row = holder.rows().get(identity)
        if row is None or not holder.seen(identity):
            raise holder.kind.lost([identity])
        return row

    def _tell(self, found: Mapping[str, Tagged]) -> None:
        for identity in found:
            self._holders[identity.rpartition("-")[0]].changed(identity)

    def _all(self) -> Iterator[Tag]:
        for holder in self._holders.values():
            for identity, row in holder.rows().items():
                for key, value in row.tags.items():
                    yield Tag(key, value, identity, holder.kind.resource)


def _meant(tags: Mapping[str, str], asked: list[Mapping[str, str]] | None) -> list[str]:
    if not asked:
        return [key for key in tags if not key.startswith(RESERVED)]
    values = {each.get("Key"): each.get("Value") for each in asked}
    return [key for key, value in tags.items() if key in values and values[key] in (None, value)]


def _view(tag: Tag) -> Answer:
    return {
        "Key": tag.key,
        "Value": tag.value,
        "ResourceId": tag.resource,
        "ResourceType": tag.resource_type,
    }
