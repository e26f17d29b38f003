"""The AWS services that the provider calls: EC2, IAM, SSM, EKS, SQS, Resource Groups, price list.

`Seam` is the one narrow interface to AWS, implemented by boto3 (`boto`) and by the emulator;
its implementations neither retry nor rate-limit nor log: that is done once, on top of them
(`middleware`). Each service has one method per operation; lists are complete, all pages joined.
Page sizes are those that EC2 serves quickly. With explicit ids there is no page size: EC2
accepts one or the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from wainwright.errors import AwsError

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


LIVE_STATES: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
"""States of instances that still exist."""
DEFAULT_IMAGE_OWNERS: Final = ("self", "amazon")


class Ec2:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def call(self, operation: str, params: Params) -> AwsResponse:
        return await self._seam.call("ec2", operation, params)

    async def _list(self, operation: str, field: str, params: Params) -> list[Row]:
        return await list_all_pages(self._seam, "ec2", operation, params, field)

    async def describe_instance_types(self) -> list[Row]:
        """Every type that boots current images (HVM; x86_64 or arm64)."""
        filters = [
            filter_equals("supported-virtualization-type", "hvm"),
            filter_equals("processor-info.supported-architecture", "x86_64", "arm64"),
        ]
        params = {"Filters": filters, "MaxResults": 100}
        return await self._list("DescribeInstanceTypes", "InstanceTypes", params)

    async def describe_instance_type_offerings(self) -> list[Row]:
        """Which types are offered in which zone."""
        params = {"LocationType": "availability-zone", "MaxResults": 1000}
        return await self._list("DescribeInstanceTypeOfferings", "InstanceTypeOfferings", params)

    async def describe_availability_zones(self) -> list[Row]:
        response = await self.call("DescribeAvailabilityZones", {})
        return list(response.get("AvailabilityZones") or ())

    async def describe_spot_price_history(self, since: Any) -> list[Row]:
        """Prices since then (a datetime); since now means the prices in effect."""
        params = {
            "ProductDescriptions": ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
            "StartTime": since,
            "MaxResults": 2000,
        }
        return await self._list("DescribeSpotPriceHistory", "SpotPriceHistory", params)

    async def describe_subnets(self, filters: Sequence[Filter]) -> list[Row]:
        return await self._list("DescribeSubnets", "Subnets", _paged_filters(filters, 500))

    async def describe_security_groups(self, filters: Sequence[Filter]) -> list[Row]:
        params = _paged_filters(filters, 500)
        return await self._list("DescribeSecurityGroups", "SecurityGroups", params)

    async def describe_images(
        self, filters: Sequence[Filter], owners: Sequence[str] = ()
    ) -> list[Row]:
        """Available images, deprecated ones included; of any owner unless owners are given."""
        params: dict[str, Any] = _paged_filters(
            [*filters, filter_equals("state", "available")], 1000
        )
        params["IncludeDeprecated"] = True
        if owners:
            params["Owners"] = list(owners)
        return await self._list("DescribeImages", "Images", params)

    async def describe_capacity_reservations(self, params: Params) -> list[Row]:
        """By a request of `capacity_reservations.describe_reservation_requests`."""
        paged = {} if "CapacityReservationIds" in params else {"MaxResults": 1000}
        operation = "DescribeCapacityReservations"
        return await self._list(operation, "CapacityReservations", {**params, **paged})

    async def describe_placement_groups(self, *, name: str = "", group_id: str = "") -> list[Row]:
        params = {"GroupNames": [name]} if name else {"GroupIds": [group_id]}
        response = await self.call("DescribePlacementGroups", params)
        return list(response.get("PlacementGroups") or ())

    async def describe_launch_templates(self, filters: Sequence[Filter]) -> list[Row]:
        params = _paged_filters(filters, 200)
        return await self._list("DescribeLaunchTemplates", "LaunchTemplates", params)

    async def create_launch_template(
        self, name: str, data: Params, tags: Mapping[str, str], token: str
    ) -> Row:
        params = {
            "LaunchTemplateName": name,
            "LaunchTemplateData": data,
            "TagSpecifications": tag_specifications(tags, "launch-template"),
            "ClientToken": token,
        }
        template: Row = (await self.call("CreateLaunchTemplate", params))["LaunchTemplate"]
        return template

    async def delete_launch_template(self, name: str) -> None:
        """A template that is already gone is not an error."""
        try:
            await self.call("DeleteLaunchTemplate", {"LaunchTemplateName": name})
        except AwsError as error:
            if not error.code.endswith((".NotFound", ".NotFoundException")):
                raise

    async def create_fleet(self, params: Params) -> AwsResponse:
        return await self.call("CreateFleet", params)

    async def describe_instances(
        self,
        *,
        ids: Sequence[str] = (),
        filters: Sequence[Filter] = (),
        states: Sequence[str] = LIVE_STATES,
    ) -> list[Row]:
        """The instances, taken out of the `Reservations` (launch requests) of the response."""
        all_filters = [*filters, filter_equals("instance-state-name", *states)]
        if ids:
            params: dict[str, Any] = {"InstanceIds": list(ids), "Filters": all_filters}
        else:
            params = _paged_filters(all_filters, 1000)
        reservations = await self._list("DescribeInstances", "Reservations", params)
        return [row for each in reservations for row in each.get("Instances") or ()]

    async def terminate_instances(self, ids: Sequence[str]) -> list[Row]:
        """Id, previous and current state of each."""
        response = await self.call("TerminateInstances", {"InstanceIds": list(ids)})
        return list(response.get("TerminatingInstances") or ())

    async def create_tags(self, ids: Sequence[str], tags: Mapping[str, str]) -> None:
        await self.call("CreateTags", {"Resources": list(ids), "Tags": to_tag_list(tags)})

    async def describe_instance_status(self, filters: Sequence[Filter]) -> list[Row]:
        params = {"Filters": list(filters)}
        return await self._list("DescribeInstanceStatus", "InstanceStatuses", params)

    async def dry_run(self, operation: str, params: Params) -> AwsError | None:
        """A dry run: None if the call would succeed, else the error of EC2."""
        try:
            await self.call(operation, {**params, "DryRun": True})
        except AwsError as error:
            return None if error.code == "DryRunOperation" else error
        return None


def _paged_filters(filters: Sequence[Filter], page_size: int) -> dict[str, Any]:
    return {"Filters": list(filters), "MaxResults": page_size}


NO_SUCH_ENTITY = "NoSuchEntity"


class Iam:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def _call(self, operation: str, params: Params) -> AwsResponse:
        return await self._seam.call("iam", operation, params)

    async def get_instance_profile(self, name: str) -> Row | None:
        """None if it does not exist."""
        try:
            response = await self._call("GetInstanceProfile", {"InstanceProfileName": name})
        except AwsError as error:
            if error.code == NO_SUCH_ENTITY:
                return None
            raise
        profile: Row = response["InstanceProfile"]
        return profile

    async def list_instance_profiles(self, path: str) -> list[Row]:
        """Those whose path starts with `path`."""
        rows: list[Row] = []
        params: dict[str, object] = {"PathPrefix": path}
        while True:
            response = await self._call("ListInstanceProfiles", params)
            rows.extend(response.get("InstanceProfiles") or ())
            if not response.get("IsTruncated") or not response.get("Marker"):
                return rows
            params = {**params, "Marker": response["Marker"]}

    async def create_instance_profile(self, name: str, path: str, tags: Mapping[str, str]) -> None:
        params = {"InstanceProfileName": name, "Path": path, "Tags": to_tag_list(tags)}
        await self._call("CreateInstanceProfile", params)

    async def tag_instance_profile(self, name: str, tags: Mapping[str, str]) -> None:
        params = {"InstanceProfileName": name, "Tags": to_tag_list(tags)}
        await self._call("TagInstanceProfile", params)

    async def add_role(self, name: str, role: str) -> None:
        params = {"InstanceProfileName": name, "RoleName": role}
        await self._call("AddRoleToInstanceProfile", params)

    async def remove_role(self, name: str, role: str) -> None:
        """A role that the profile does not have is not an error."""
        params = {"InstanceProfileName": name, "RoleName": role}
        await self._ignore_missing("RemoveRoleFromInstanceProfile", params)

    async def delete_instance_profile(self, name: str) -> None:
        """A profile that is already gone is not an error."""
        await self._ignore_missing("DeleteInstanceProfile", {"InstanceProfileName": name})

    async def _ignore_missing(self, operation: str, params: Params) -> None:
        try:
            await self._call(operation, params)
        except AwsError as error:
            if error.code != NO_SUCH_ENTITY:
                raise


POLL_SECONDS: Final = 20  # seconds that a long poll waits, and the visibility timeout of messages
MAX_MESSAGES: Final = 10  # in one response


class Ssm:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def get_parameter(self, name: str) -> str | None:
        """None if the parameter does not exist."""
        try:
            response = await self._seam.call("ssm", "GetParameter", {"Name": name})
        except AwsError as error:
            if error.code == "ParameterNotFound":
                return None
            raise
        return str(response["Parameter"]["Value"])


class Eks:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def describe_cluster(self, name: str) -> Row:
        response = await self._seam.call("eks", "DescribeCluster", {"name": name})
        cluster: Row = response["cluster"]
        return cluster


class Sqs:
    """One queue, by its name."""

    def __init__(self, seam: Seam, name: str) -> None:
        self._seam = seam
        self._name = name
        self._url = ""

    async def receive_messages(self) -> list[Row]:
        """Waits until messages arrive, or the long poll ends."""
        params = {
            "QueueUrl": await self._queue_url(),
            "MaxNumberOfMessages": MAX_MESSAGES,
            "VisibilityTimeout": POLL_SECONDS,
            "WaitTimeSeconds": POLL_SECONDS,
            "AttributeNames": ["SentTimestamp"],
            "MessageAttributeNames": ["All"],
        }
        response = await self._seam.call("sqs", "ReceiveMessage", params)
        return list(response.get("Messages") or ())

    async def delete_message(self, receipt: str) -> None:
        params = {"QueueUrl": await self._queue_url(), "ReceiptHandle": receipt}
        await self._seam.call("sqs", "DeleteMessage", params)

    async def _queue_url(self) -> str:
        if not self._url:
            response = await self._seam.call("sqs", "GetQueueUrl", {"QueueName": self._name})
            self._url = str(response["QueueUrl"])
        return self._url


class ResourceGroups:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def list_resources(self, group: str) -> list[str]:
        """The ARNs of the resources in the group, which is an ARN; none if it does not exist."""
        params = {"Group": group, "MaxResults": 50}
        try:
            rows = await list_all_pages(
                self._seam, "resource-groups", "ListGroupResources", params, "Resources"
            )
        except AwsError as error:
            if error.code == "NotFoundException":
                return []
            raise
        return [row["Identifier"]["ResourceArn"] for row in rows]


class PriceList:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def get_products(self, terms: Mapping[str, str]) -> list[Row]:
        """The EC2 products that match all terms; each with its prices, decoded."""
        params = {
            "ServiceCode": "AmazonEC2",
            "Filters": [
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in sorted(terms.items())
            ],
            "MaxResults": 100,
        }
        products = await list_all_pages(self._seam, "pricing", "GetProducts", params, "PriceList")
        return [msgspec.json.decode(str(text), type=Row) for text in products]


class AwsServices:
    def __init__(self, seam: Seam) -> None:
        self.seam = seam
        self.ec2 = Ec2(seam)
        self.iam = Iam(seam)
        self.ssm = Ssm(seam)
        self.eks = Eks(seam)
        self.resource_groups = ResourceGroups(seam)
        self.prices = PriceList(seam)
