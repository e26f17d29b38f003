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
    """Tags as in responses, a new list each time."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def parse_tags(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """Validated tags of a request; an empty value is allowed."""
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
    """The tags that a create request sets on new resources of that type."""
    pairs = [
        pair
        for each in params.get(field) or ()
        if each.get("ResourceType") == resource_type
        for pair in each.get("Tags") or ()
    ]
    return parse_tags(pairs)


def check_taggable_types(params: Mapping[str, Any], *resource_types: str) -> None:
    """Raises for tags on resource types that the request does not create."""
    for each in params.get("TagSpecifications") or ():
        kind = each.get("ResourceType")
        if kind not in resource_types:
            raise AwsError(
                "InvalidParameterValue",
                f"'{kind}' is not a valid taggable resource type for this operation.",
            )


def check_tags(tags: Mapping[str, str]) -> None:
    """Raises for tags that EC2 does not accept from a caller."""
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
"""Resource types that are not emulated: no id of them exists."""


class TaggedResource(Protocol):
    tags: dict[str, str]


class TaggableResources(NamedTuple):
    """Access to the resources of one type."""

    kind: ResourceType
    rows: Callable[[], Mapping[str, TaggedResource]]
    on_change: Callable[[str], None]
    is_visible: Callable[[str], bool]


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
    """Finds the resources of an id by its prefix."""

    name = "ec2"

    def __init__(self) -> None:
        self.state = EmptyState()
        self._resources_by_prefix: dict[str, TaggableResources] = {}

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
        on_change: Callable[[str], None] = lambda _: None,
        is_visible: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Registers a resource type: its resources, a callback for changed tags, and a test of
        whether the API finds a resource yet."""
        self._resources_by_prefix[kind.prefix] = TaggableResources(
            kind, rows, on_change, is_visible
        )

    def create(self, params: Params) -> Response:
        tags = parse_tags(params.get("Tags"))
        if not tags:
            raise AwsError("MissingParameter", "The request must contain the parameter tagSet")
        resources = self._requested_resources(params)
        for resource in resources.values():
            user_keys = [
                key for key in {**resource.tags, **tags} if not key.startswith(RESERVED_TAG_PREFIX)
            ]
            if len(user_keys) > MAX_TAGS:
                raise tag_limit_exceeded()
        for resource in resources.values():
            resource.tags.update(tags)
        self._notify_changed(resources)
        return {}

    def delete(self, params: Params) -> Response:
        """A tag with a value is deleted only if it has that value; without tags all are."""
        tags = params.get("Tags")
        resources = self._requested_resources(params)
        for resource in resources.values():
            for key in _keys_to_delete(resource.tags, tags):
                del resource.tags[key]
        self._notify_changed(resources)
        return {}

    def describe(self, params: Params) -> Response:
        rows = apply_filters(
            self._all_tags(), params.get("Filters"), TAG_FILTERS, lambda tag: {tag.key: tag.value}
        )
        page, token = paginate(rows, params, maximum=MAX_RESULTS)
        return {"Tags": [_tag_view(tag) for tag in page], **token}

    def _requested_resources(self, params: Params) -> dict[str, TaggedResource]:
        """All resources of the request; where one is missing nothing is changed."""
        requested = params.get("Resources")
        if not requested:
            raise AwsError(
                "MissingParameter", "The request must contain the parameter resourceIdSet"
            )
        return {identity: self._find_resource(identity) for identity in requested}

    def _find_resource(self, identity: str) -> TaggedResource:
        prefix = identity.rpartition("-")[0]
        resources = self._resources_by_prefix.get(prefix)
        if resources is None:
            if prefix in NOT_FOUND_CODES:
                raise AwsError(NOT_FOUND_CODES[prefix], f"The ID '{identity}' does not exist")
            raise AwsError("InvalidID", f"The ID '{identity}' is not valid")
        resource = resources.rows().get(identity)
        if resource is None or not resources.is_visible(identity):
            raise resources.kind.not_found_error([identity])
        return resource

    def _notify_changed(self, resource_ids: Iterable[str]) -> None:
        for identity in resource_ids:
            self._resources_by_prefix[identity.rpartition("-")[0]].on_change(identity)

    def _all_tags(self) -> Iterator[TagRow]:
        for resources in self._resources_by_prefix.values():
            for identity, resource in resources.rows().items():
                for key, value in resource.tags.items():
                    yield TagRow(key, value, identity, resources.kind.resource)


def _keys_to_delete(
    tags: Mapping[str, str], requested: list[Mapping[str, str]] | None
) -> list[str]:
    if not requested:
        return [key for key in tags if not key.startswith(RESERVED_TAG_PREFIX)]
    values = {each.get("Key"): each.get("Value") for each in requested}
    return [key for key, value in tags.items() if key in values and values[key] in (None, value)]


def _tag_view(tag: TagRow) -> Response:
    return {
        "Key": tag.key,
        "Value": tag.value,
        "ResourceId": tag.resource,
        "ResourceType": tag.resource_type,
    }
