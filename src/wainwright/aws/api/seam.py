"""The seam: the one narrow interface to AWS, implemented by boto3 (`boto`) and by the emulator.

Also the few structures that AWS uses everywhere: pages, filters, tags. Implementations of the seam
neither retry nor rate-limit nor log: that is done once, on top of them (`middleware`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

Params: TypeAlias = Mapping[str, Any]
AwsResponse: TypeAlias = dict[str, Any]


class Seam(Protocol):
    """Calls one operation of one service, with the parameters of boto3, or raises AwsError.

    `service` is boto's name for it (ec2, iam, ssm, eks, sqs, resource-groups, pricing),
    `operation` as in the API (CreateFleet). Implementations do not retry, rate-limit or log:
    `middleware` does.
    """

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse: ...


Row: TypeAlias = dict[str, Any]
"""One item of a response, as boto3 returns it."""
Filter: TypeAlias = dict[str, Any]

ANY_VALUE: Final = "*"


async def list_all_pages(
    seam: Seam, service: str, operation: str, params: Params, field: str
) -> list[Row]:
    """All items of a paginated response; an empty token ends it like an absent one."""
    rows: list[Row] = []
    token = None
    while True:
        page = params if token is None else {**params, "NextToken": token}
        response: AwsResponse = await seam.call(service, operation, page)
        rows.extend(response.get(field) or ())
        token = response.get("NextToken")
        if not token:
            return rows


def filter_equals(name: str, *values: str) -> Filter:
    return {"Name": name, "Values": list(values)}


def tag_filters(tags: Mapping[str, str]) -> list[Filter]:
    """One filter for each tag: all must match; the value `*` matches any value of the key."""
    return [
        filter_equals("tag-key", key) if value == ANY_VALUE else filter_equals(f"tag:{key}", value)
        for key, value in sorted(tags.items())
    ]


def to_tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as requests have them, sorted by key."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def from_tag_list(pairs: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    return {pair["Key"]: pair.get("Value", "") for pair in pairs or ()}


def tag_specifications(tags: Mapping[str, str], *resource_types: str) -> list[dict[str, Any]]:
    """The same tags for all resources of these types that a call creates."""
    return [{"ResourceType": each, "Tags": to_tag_list(tags)} for each in resource_types]
