"""Tags: a dict in our state, a list of pairs on the wire, and the rules of EC2 about them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from wainwright.errors import AwsError

MOST_TAGS: Final = 50
LONGEST_KEY: Final = 128
LONGEST_VALUE: Final = 256
RESERVED: Final = "aws:"

TagList = list[dict[str, str]]


def to_list(tags: Mapping[str, str]) -> TagList:
    """As answers have them; made anew each time."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def from_list(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """As requests have them, checked; an empty value is a value."""
    tags: dict[str, str] = {}
    for pair in pairs or ():
        key, value = pair.get("Key"), pair.get("Value")
        if not key:
            raise AwsError("InvalidParameterValue", "Tag keys cannot be empty")
        if key in tags:
            raise AwsError("InvalidParameterValue", f"Duplicate tag key '{key}' specified.")
        tags[key] = "" if value is None else value
    check(tags)
    return tags


def from_specifications(
    params: Mapping[str, Any], resource_type: str, field: str = "TagSpecifications"
) -> dict[str, str]:
    """The tags that a creating call gives to what it creates of that type."""
    pairs = [
        pair
        for each in params.get(field) or ()
        if each.get("ResourceType") == resource_type
        for pair in each.get("Tags") or ()
    ]
    return from_list(pairs)


def only_for(params: Mapping[str, Any], *resource_types: str) -> None:
    """Refuses tags for kinds of things that the call does not create."""
    for each in params.get("TagSpecifications") or ():
        kind = each.get("ResourceType")
        if kind not in resource_types:
            raise AwsError(
                "InvalidParameterValue",
                f"'{kind}' is not a valid taggable resource type for this operation.",
            )


def check(tags: Mapping[str, str]) -> None:
    """What EC2 refuses in tags that a caller sets."""
    for key, value in tags.items():
        if key.lower().startswith(RESERVED):
            raise AwsError(
                "InvalidParameterValue",
                f"Tag keys starting with '{RESERVED}' are reserved for internal use",
            )
        if len(key) > LONGEST_KEY:
            raise _too_long("key", key, LONGEST_KEY)
        if len(value) > LONGEST_VALUE:
            raise _too_long("value", value, LONGEST_VALUE)
    if len(tags) > MOST_TAGS:
        raise limit_exceeded()


def limit_exceeded() -> AwsError:
    return AwsError(
        "TagLimitExceeded", f"The maximum number of Tags for a resource is {MOST_TAGS}."
    )


def _too_long(what: str, text: str, most: int) -> AwsError:
    return AwsError(
        "InvalidParameterValue",
        f"Tag {what} exceeds the maximum length of {most} characters: '{text}'",
    )
