"""EC2: the calls that the provider makes, one method each; lists come whole, page by page.

Page sizes are those that EC2 serves quickly. Where ids are given there is no page size: EC2 takes
one or the other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wainwright.aws.seam import Answer, Params, Seam
from wainwright.aws.wire import Filter, Row, equals, listed, tagged, to_pairs
from wainwright.errors import AwsError

ALIVE: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
"""States of instances that are still there."""
OWNERS: Final = ("self", "amazon")


class Ec2:
    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    async def call(self, operation: str, params: Params) -> Answer:
        return await self._seam.call("ec2", operation, params)

    async def _list(self, operation: str, field: str, params: Params) -> list[Row]:
        return await listed(self._seam, "ec2", operation, params, field)

    async def describe_instance_types(self) -> list[Row]:
        """Every type that boots images of today."""
        filters = [
            equals("supported-virtualization-type", "hvm"),
            equals("processor-info.supported-architecture", "x86_64", "arm64"),
        ]
        params = {"Filters": filters, "MaxResults": 100}
        return await self._list("DescribeInstanceTypes", "InstanceTypes", params)

    async def describe_instance_type_offerings(self) -> list[Row]:
        """Which types are sold in which zone."""
        params = {"LocationType": "availability-zone", "MaxResults": 1000}
        return await self._list("DescribeInstanceTypeOfferings", "InstanceTypeOfferings", params)

    async def describe_availability_zones(self) -> list[Row]:
        answer = await self.call("DescribeAvailabilityZones", {})
        return list(answer.get("AvailabilityZones") or ())

    async def describe_spot_price_history(self, since: Any) -> list[Row]:
        """Prices since then (a datetime); with the present moment those in force."""
        params = {
            "ProductDescriptions": ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
            "StartTime": since,
            "MaxResults": 2000,
        }
        return await self._list("DescribeSpotPriceHistory", "SpotPriceHistory", params)

    async def describe_subnets(self, filters: Sequence[Filter]) -> list[Row]:
        return await self._list("DescribeSubnets", "Subnets", _filtered(filters, 500))

    async def describe_security_groups(self, filters: Sequence[Filter]) -> list[Row]:
        params = _filtered(filters, 500)
        return await self._list("DescribeSecurityGroups", "SecurityGroups", params)

    async def describe_images(
        self, filters: Sequence[Filter], owners: Sequence[str] = ()
    ) -> list[Row]:
        """Images that can be booted, deprecated ones included; of any owner unless named."""
        params: dict[str, Any] = _filtered([*filters, equals("state", "available")], 1000)
        params["IncludeDeprecated"] = True
        if owners:
            params["Owners"] = list(owners)
        return await self._list("DescribeImages", "Images", params)

    async def describe_capacity_reservations(self, params: Params) -> list[Row]:
        """By the request that `catalogue.reservation_filters` makes of selector terms."""
        paged = {} if "CapacityReservationIds" in params else {"MaxResults": 1000}
        operation = "DescribeCapacityReservations"
        return await self._list(operation, "CapacityReservations", {**params, **paged})

    async def describe_placement_groups(self, *, name: str = "", identity: str = "") -> list[Row]:
        named = {"GroupNames": [name]} if name else {"GroupIds": [identity]}
        answer = await self.call("DescribePlacementGroups", named)
        return list(answer.get("PlacementGroups") or ())

    async def describe_launch_templates(
        self, *, names: Sequence[str] = (), filters: Sequence[Filter] = ()
    ) -> list[Row]:
        named: Params = {"LaunchTemplateNames": list(names)} if names else _filtered(filters, 200)
        return await self._list("DescribeLaunchTemplates", "LaunchTemplates", named)

    async def create_launch_template(
        self, name: str, data: Params, tags: Mapping[str, str], token: str
    ) -> Row:
        params = {
            "LaunchTemplateName": name,
            "LaunchTemplateData": data,
            "TagSpecifications": tagged(tags, "launch-template"),
            "ClientToken": token,
        }
        made: Row = (await self.call("CreateLaunchTemplate", params))["LaunchTemplate"]
        return made

    async def delete_launch_template(self, *, name: str = "", identity: str = "") -> None:
        """One that is gone already is no error."""
        named = {"LaunchTemplateName": name} if name else {"LaunchTemplateId": identity}
        try:
            await self.call("DeleteLaunchTemplate", named)
        except AwsError as error:
            if not error.code.endswith((".NotFound", ".NotFoundException")):
                raise

    async def create_fleet(self, params: Params) -> Answer:
        return await self.call("CreateFleet", params)

    async def run_instances(self, params: Params) -> Answer:
        return await self.call("RunInstances", params)

    async def describe_instances(
        self,
        *,
        ids: Sequence[str] = (),
        filters: Sequence[Filter] = (),
        states: Sequence[str] = ALIVE,
    ) -> list[Row]:
        """The instances themselves, without the reservations that EC2 wraps them in."""
        wanted = [*filters, equals("instance-state-name", *states)]
        if ids:
            params: dict[str, Any] = {"InstanceIds": list(ids), "Filters": wanted}
        else:
            params = _filtered(wanted, 1000)
        wrapped = await self._list("DescribeInstances", "Reservations", params)
        return [row for each in wrapped for row in each.get("Instances") or ()]

    async def terminate_instances(self, ids: Sequence[str]) -> list[Row]:
        """What became of each: id, previous and current state."""
        answer = await self.call("TerminateInstances", {"InstanceIds": list(ids)})
        return list(answer.get("TerminatingInstances") or ())

    async def create_tags(self, ids: Sequence[str], tags: Mapping[str, str]) -> None:
        await self.call("CreateTags", {"Resources": list(ids), "Tags": to_pairs(tags)})

    async def describe_instance_status(self, filters: Sequence[Filter]) -> list[Row]:
        params = {"Filters": list(filters)}
        return await self._list("DescribeInstanceStatus", "InstanceStatuses", params)

    async def rehearse(self, operation: str, params: Params) -> AwsError | None:
        """A dry run: None where it would succeed, else what EC2 said against it."""
        try:
            await self.call(operation, {**params, "DryRun": True})
        except AwsError as error:
            return None if error.code == "DryRunOperation" else error
        return None


def _filtered(filters: Sequence[Filter], most: int) -> dict[str, Any]:
    return {"Filters": list(filters), "MaxResults": most}
