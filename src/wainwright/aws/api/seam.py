"""The seam: the one narrow entrance to AWS, be it the real one (`boto`) or the emulator.

Also the few shapes that AWS uses everywhere: pages, filters, tags. Whatever stands behind the seam
neither retries nor waits for its turn nor logs: that is done once, above it (`middleware`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

Params: TypeAlias = Mapping[str, Any]
AwsResponse: TypeAlias = dict[str, Any]


class Seam(Protocol):
    """Asks one operation of one service, in the shapes of boto3, or raises AwsError.

    `service` is boto's name for it (ec2, iam, ssm, eks, sqs, pricing), `operation` as in the API
    (CreateFleet). Nobody behind the seam retries, waits for its turn, or logs: that is done once,
    above it.
    """

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse: ...


Row: TypeAlias = dict[str, Any]
"""One item of an answer, as boto3 gives it."""
Filter: TypeAlias = dict[str, Any]

ANY_VALUE: Final = "*"


async def list_all_pages(
    seam: Seam, service: str, operation: str, params: Params, field: str
) -> list[Row]:
    """All items of an answer that may come in pages; an empty token ends it as an absent one."""
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
    """One filter for each tag: all must be there; `*` asks for the key alone."""
    return [
        filter_equals("tag-key", key) if value == ANY_VALUE else filter_equals(f"tag:{key}", value)
        for key, value in sorted(tags.items())
    ]


def to_tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As requests have tags, in the order of keys."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def from_tag_list(pairs: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    return {pair["Key"]: pair.get("Value", "") for pair in pairs or ()}


def tag_specifications(tags: Mapping[str, str], *resource_types: str) -> list[dict[str, Any]]:
    """The same tags for everything of these types that a call creates."""
    return [{"ResourceType": each, "Tags": to_tag_list(tags)} for each in resource_types]
