"""Tags: a dict in our state, a list of pairs on the wire, the rules of EC2 about them, and the
operations CreateTags, DeleteTags and DescribeTags on everything that has an id.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from wainwright.emulator.api_conventions import ResourceType
from wainwright.emulator.context import EmptyState, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import FilterFields, apply_filters, paginate
from wainwright.errors import AwsError

MAX_TAGS: Final = 50
MAX_TAG_KEY_LENGTH: Final = 128
MAX_TAG_VALUE_LENGTH: Final = 256
RESERVED_TAG_PREFIX: Final = "aws:"

TagList = list[dict[str, str]]


def to_tag_list(tags: Mapping[str, str]) -> TagList:
    """As answers have them; made anew each time."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def parse_tags(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """As requests have them, checked; an empty value is a value."""
    tags: dict[str, str] = {}
    for pair in pairs or ():
        key, value = pair.get("Key"), pair.get("Value")
        if not key:
            raise AwsError("InvalidParameterValue", "Tag keys cannot be empty")
        if key in tags:
            raise AwsError("InvalidParameterValue", f"Duplicate tag key '{key}' specified.")
        tags[key] = "" if value is None else value
    check_tags(tags)
    return tags


def parse_tag_specifications(
    params: Mapping[str, Any], resource_type: str, field: str = "TagSpecifications"
) -> dict[str, str]:
    """The tags that a creating call gives to what it creates of that type."""
    pairs = [
        pair
        for each in params.get(field) or ()
        if each.get("ResourceType") == resource_type
        for pair in each.get("Tags") or ()
    ]
    return parse_tags(pairs)


def check_taggable_types(params: Mapping[str, Any], *resource_types: str) -> None:
    """Refuses tags for kinds of things that the call does not create."""
    for each in params.get("TagSpecifications") or ():
        kind = each.get("ResourceType")
        if kind not in resource_types:
            raise AwsError(
                "InvalidParameterValue",
                f"'{kind}' is not a valid taggable resource type for this operation.",
            )


def check_tags(tags: Mapping[str, str]) -> None:
    """What EC2 refuses in tags that a caller sets."""
    for key, value in tags.items():
        if key.lower().startswith(RESERVED_TAG_PREFIX):
            raise AwsError(
                "InvalidParameterValue",
                f"Tag keys starting with '{RESERVED_TAG_PREFIX}' are reserved for internal use",
            )
        if len(key) > MAX_TAG_KEY_LENGTH:
            raise _tag_too_long("key", key, MAX_TAG_KEY_LENGTH)
        if len(value) > MAX_TAG_VALUE_LENGTH:
            raise _tag_too_long("value", value, MAX_TAG_VALUE_LENGTH)
    if len(tags) > MAX_TAGS:
        raise tag_limit_exceeded()


def tag_limit_exceeded() -> AwsError:
    return AwsError("TagLimitExceeded", f"The maximum number of Tags for a resource is {MAX_TAGS}.")


def _tag_too_long(what: str, text: str, maximum: int) -> AwsError:
    return AwsError(
        "InvalidParameterValue",
        f"Tag {what} exceeds the maximum length of {maximum} characters: '{text}'",
    )


MAX_RESULTS: Final = 1000
NOT_FOUND_CODES: Final = {
    "eni": "InvalidNetworkInterfaceID.NotFound",
    "fleet": "InvalidFleetId.NotFound",
    "sir": "InvalidSpotInstanceRequestID.NotFound",
    "snap": "InvalidSnapshot.NotFound",
    "vol": "InvalidVolume.NotFound",
}
"""Kinds that nothing here is of: asked for, they are not found."""


class TaggedResource(Protocol):
    tags: dict[str, str]


class TaggableResources(NamedTuple):
    """Where the things of a kind are."""

    kind: ResourceType
    rows: Callable[[], Mapping[str, TaggedResource]]
    changed: Callable[[str], None]
    seen: Callable[[str], bool]


class TagRow(NamedTuple):
    key: str
    value: str
    resource: str
    resource_type: str


TAG_FILTERS: Final[FilterFields[TagRow]] = {
    "key": lambda tag: (tag.key,),
    "value": lambda tag: (tag.value,),
    "resource-id": lambda tag: (tag.resource,),
    "resource-type": lambda tag: (tag.resource_type,),
}


class ResourceTags:
    """Knows by the prefix of an id who has the thing."""

    name = "ec2"

    def __init__(self) -> None:
        self.state = EmptyState()
        self._holders: dict[str, TaggableResources] = {}

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateTags": self.create,
            "DeleteTags": self.delete,
            "DescribeTags": self.describe,
        }

    def register_resources(
        self,
        kind: ResourceType,
        rows: Callable[[], Mapping[str, TaggedResource]],
        changed: Callable[[str], None] = lambda _: None,
        seen: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Says where the things of a kind are, who wants to know of new tags, and which can be
        found yet."""
        self._holders[kind.prefix] = TaggableResources(kind, rows, changed, seen)

    def create(self, params: Params) -> Response:
        tags = parse_tags(params.get("Tags"))
        if not tags:
            raise AwsError("MissingParameter", "The request must contain the parameter tagSet")
        found = self._found(params)
        for row in found.values():
            own = [key for key in {**row.tags, **tags} if not key.startswith(RESERVED_TAG_PREFIX)]
            if len(own) > MAX_TAGS:
                raise tag_limit_exceeded()
        for row in found.values():
            row.tags.update(tags)
        self._tell(found)
        return {}

    def delete(self, params: Params) -> Response:
        """A tag given with a value goes only where it has that value; without tags all go."""
        asked = params.get("Tags")
        found = self._found(params)
        for row in found.values():
            for key in _keys_to_delete(row.tags, asked):
                del row.tags[key]
        self._tell(found)
        return {}

    def describe(self, params: Params) -> Response:
        rows = apply_filters(
            self._all(), params.get("Filters"), TAG_FILTERS, lambda tag: {tag.key: tag.value}
        )
        found, token = paginate(rows, params, maximum=MAX_RESULTS)
        return {"Tags": [_tag_view(tag) for tag in found], **token}

    def _found(self, params: Params) -> dict[str, TaggedResource]:
        """All that the call names; where one is missing nothing is changed."""
        asked = params.get("Resources")
        if not asked:
            raise AwsError(
                "MissingParameter", "The request must contain the parameter resourceIdSet"
            )
        return {identity: self._row(identity) for identity in asked}

    def _row(self, identity: str) -> TaggedResource:
        prefix = identity.rpartition("-")[0]
        holder = self._holders.get(prefix)
        if holder is None:
            if prefix in NOT_FOUND_CODES:
                raise AwsError(NOT_FOUND_CODES[prefix], f"The ID '{identity}' does not exist")
            raise AwsError("InvalidID", f"The ID '{identity}' is not valid")
        row = holder.rows().get(identity)
        if row is None or not holder.seen(identity):
            raise holder.kind.lost([identity])
        return row

    def _tell(self, found: Mapping[str, TaggedResource]) -> None:
        for identity in found:
            self._holders[identity.rpartition("-")[0]].changed(identity)

    def _all(self) -> Iterator[TagRow]:
        for holder in self._holders.values():
            for identity, row in holder.rows().items():
                for key, value in row.tags.items():
                    yield TagRow(key, value, identity, holder.kind.resource)


def _keys_to_delete(tags: Mapping[str, str], asked: list[Mapping[str, str]] | None) -> list[str]:
    if not asked:
        return [key for key in tags if not key.startswith(RESERVED_TAG_PREFIX)]
    values = {each.get("Key"): each.get("Value") for each in asked}
    return [key for key, value in tags.items() if key in values and values[key] in (None, value)]


def _tag_view(tag: TagRow) -> Response:
    return {
        "Key": tag.key,
        "Value": tag.value,
        "ResourceId": tag.resource,
        "ResourceType": tag.resource_type,
    }
