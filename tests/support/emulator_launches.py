"""An emulated account with a launch template, and helpers for fleets and their results."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.emulator_accounts import CheckedAccount

from wainwright.api.catalog_documents import CloudPrice, CloudReservation, CloudSpec
from wainwright.emulator.context import Response
from wainwright.emulator.ec2.capacity_market import CapacityRule
from wainwright.emulator.settings import EmulatorSettings

A, B, C, D = (f"us-west-2{letter}" for letter in "abcd")
TYPES = ["m5.large", "m5.xlarge", "c5.large", "c5.xlarge", "c6in.large", "m6g.large", "p5.48xlarge"]
USER_DATA = b64encode(b"#!/bin/bash").decode()
OPEN_RESERVATION = {"instanceMatchCriteria": "open"}
USE_RESERVATIONS_FIRST = {
    "CapacityReservationOptions": {"UsageStrategy": "use-capacity-reservations-first"}
}


def cloud_reservation(
    number: int, kind: str = "m5.large", zone: str = A, **more: Any
) -> CloudReservation:
    """A reservation of the Cloud: by default targeted, for two instances."""
    return CloudReservation(
        id=f"cr-{number:08}", instanceType=kind, availabilityZone=zone, **{"total": 2, **more}
    )


def capacity_rule(
    free: int, kind: str = "*", zone: str | None = None, capacity_type: str | None = None
) -> Any:
    return CapacityRule(instanceType=kind, zone=zone, capacityType=capacity_type, free=free)


def spot_price(price: float, kind: str, zone: str) -> CloudPrice:
    return CloudPrice(instanceType=kind, zone=zone, capacityType="spot", price=price)


def tag_specifications(kind: str, **tags: str) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": pairs}]


def ec2_filter(name: str, *values: str) -> dict[str, Any]:
    return {"Name": name, "Values": list(values)}


class LaunchAccount(CheckedAccount):
    """Instances of a few types in us-west-2, launched from a template named `plain`."""

    def __init__(
        self,
        *reservations: CloudReservation,
        prices: Sequence[CloudPrice] = (),
        settings: EmulatorSettings | None = None,
        seed: int = 0,
    ) -> None:
        spec = CloudSpec(
            region="us-west-2",
            instanceTypes=TYPES,
            prices=list(prices),
            capacityReservations=list(reservations),
        )
        super().__init__(spec, seed=seed, settings=settings)
        images = self.cloud.services.images.state.images.values()
        self.image = next(each.id for each in images if each.architecture == "x86_64")
        self.arm_image = next(each.id for each in images if each.architecture == "arm64")
        self.windows_image = next(each.id for each in images if each.platform is not None)
        self.group = self.cloud.account.security_group
        self.subnets = self.cloud.account.subnets
        self.template("plain")

    def template(self, name: str, **data: Any) -> str:
        base = {
            "ImageId": self.image,
            "UserData": USER_DATA,
            "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [self.group]}],
        }
        self.call(
            "CreateLaunchTemplate", LaunchTemplateName=name, LaunchTemplateData={**base, **data}
        )
        return name

    def template_with_target(
        self, name: str, target: str | None, preference: str | None = None
    ) -> str:
        """A template with a capacity reservation specification."""
        content: dict[str, Any] = {}
        if target is not None:
            content["CapacityReservationTarget"] = {"CapacityReservationId": target}
        if preference is not None:
            content["CapacityReservationPreference"] = preference
        return self.template(
            name, **({"CapacityReservationSpecification": content} if content else {})
        )

    def override(self, kind: str, zone: str, **more: Any) -> dict[str, Any]:
        return {
            "InstanceType": kind,
            "SubnetId": self.subnets[zone],
            "AvailabilityZone": zone,
            **more,
        }

    def config(
        self, *capacity_pools: tuple[str, str] | Mapping[str, Any], template: str = "plain"
    ) -> dict[str, Any]:
        """A template with its overrides: (type, zone), or a complete override."""
        return {
            "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Latest"},
            "Overrides": [
                dict(each) if isinstance(each, Mapping) else self.override(*each)
                for each in capacity_pools
            ],
        }

    def request(
        self,
        *configs: dict[str, Any],
        count: int = 1,
        capacity_type: str = "on-demand",
        **params: Any,
    ) -> dict[str, Any]:
        return {
            "Type": "instant",
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": capacity_type,
            },
            "LaunchTemplateConfigs": list(configs),
            **params,
        }

    def fleet(self, *configs: dict[str, Any], **params: Any) -> Response:
        return self.call("CreateFleet", **self.request(*configs, **params))

    def launch(
        self, kind: str = "m5.large", zone: str = A, *, count: int = 1, **params: Any
    ) -> list[str]:
        """Ids of instances of one capacity pool; fails if not all were launched."""
        response = self.fleet(self.config((kind, zone)), count=count, **params)
        assert not response["Errors"], response["Errors"]
        return launched_ids(response)

    def describe(self, *ids: str, **params: Any) -> list[Response]:
        """The instances with these ids, by default all."""
        if ids:
            params["InstanceIds"] = list(ids)
        runs = self.call("DescribeInstances", **params)["Reservations"]
        return [each for run in runs for each in run["Instances"]]

    def describe_instance(self, instance: str) -> Response:
        (found,) = self.describe(instance)
        return found

    def state(self, instance: str) -> str:
        return str(self.describe_instance(instance)["State"]["Name"])

    def reserved(self, reservation: str) -> Response:
        (found,) = self.call("DescribeCapacityReservations", CapacityReservationIds=[reservation])[
            "CapacityReservations"
        ]
        return dict(found)

    def free(self, reservation: str) -> int:
        return int(self.reserved(reservation)["AvailableInstanceCount"])

    def reservation_of(self, instance: str) -> str | None:
        """The reservation that the instance runs in."""
        found: str | None = self.describe_instance(instance).get("CapacityReservationId")
        return found

    def wait(self, seconds: float) -> None:
        self.clock.time += seconds


def launched_ids(response: Response) -> list[str]:
    return [each for entry in response["Instances"] for each in entry["InstanceIds"]]


def launched_capacity_pools(response: Response) -> list[tuple[str, str, int]]:
    """Launched instances by capacity pool: type, zone, count."""
    return [(*_pool(entry), len(entry["InstanceIds"])) for entry in response["Instances"]]


def launch_errors(response: Response) -> list[tuple[str, str, str]]:
    """Errors by capacity pool: type, zone, code."""
    return [(*_pool(entry), entry["ErrorCode"]) for entry in response["Errors"]]


def launch_error_codes(response: Response) -> set[str]:
    return {entry["ErrorCode"] for entry in response["Errors"]}


def _pool(entry: Mapping[str, Any]) -> tuple[str, str]:
    override = entry["LaunchTemplateAndOverrides"]["Overrides"]
    return override["InstanceType"], override["AvailabilityZone"]


def tags_of(shown: Response) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in shown["Tags"]}


def ids_of(shown: Iterable[Response]) -> list[str]:
    return [each["InstanceId"] for each in shown]
