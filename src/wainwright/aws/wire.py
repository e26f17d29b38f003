"""Wire: the few shapes that AWS uses everywhere: pages, filters, tags."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from wainwright.aws.seam import Answer, Params, Seam

Row: TypeAlias = dict[str, Any]
"""One item of an answer, as boto3 gives it."""
Filter: TypeAlias = dict[str, Any]

ANY_VALUE: Final = "*"


async def listed(seam: Seam, service: str, operation: str, params: Params, field: str) -> list[Row]:
    """All items of an answer that may come in pages; an empty token ends it as an absent one."""
    rows: list[Row] = []
    token = None
    while True:
        page = params if token is None else {**params, "NextToken": token}
        answer: Answer = await seam.call(service, operation, page)
        rows.extend(answer.get(field) or ())
        token = answer.get("NextToken")
        if not token:
            return rows


def equals(name: str, *values: str) -> Filter:
    return {"Name": name, "Values": list(values)}


def tag_filters(tags: Mapping[str, str]) -> list[Filter]:
    """One filter for each tag: all must be there; `*` asks for the key alone."""
    return [
        equals("tag-key", key) if value == ANY_VALUE else equals(f"tag:{key}", value)
        for key, value in sorted(tags.items())
    ]


def to_pairs(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As requests have tags, in the order of keys."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def from_pairs(pairs: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    return {pair["Key"]: pair.get("Value", "") for pair in pairs or ()}


def tagged(tags: Mapping[str, str], *resource_types: str) -> list[dict[str, Any]]:
    """The same tags for everything of these types that a call creates."""
    return [{"ResourceType": each, "Tags": to_pairs(tags)} for each in resource_types]
