"""An emulated account that launches: a template, and short words for fleets and what they got."""

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
    """As the Cloud describes it: targeted, with two places, unless it says otherwise."""
    return CloudReservation(
        id=f"cr-{number:08}", instanceType=kind, availabilityZone=zone, **{"total": 2, **more}
    )


def capacity_stock(
    free: int, kind: str = "*", zone: str | None = None, market: str | None = None
) -> Any:
    return CapacityRule(instanceType=kind, zone=zone, capacityType=market, free=free)


def spot_price(price: float, kind: str, zone: str) -> CloudPrice:
    return CloudPrice(instanceType=kind, zone=zone, capacityType="spot", price=price)


def tag_specifications(kind: str, **tags: str) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": pairs}]


def ec2_filter(name: str, *values: str) -> dict[str, Any]:
    return {"Name": name, "Values": list(values)}


class LaunchAccount(CheckedAccount):
    """Machines of a few types in us-west-2, launched from a template named `plain`."""

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
        self.ask(
            "CreateLaunchTemplate", LaunchTemplateName=name, LaunchTemplateData={**base, **data}
        )
        return name

    def aiming(self, name: str, target: str | None, preference: str | None = None) -> str:
        """A template with a capacity reservation specification."""
        said: dict[str, Any] = {}
        if target is not None:
            said["CapacityReservationTarget"] = {"CapacityReservationId": target}
        if preference is not None:
            said["CapacityReservationPreference"] = preference
        return self.template(name, **({"CapacityReservationSpecification": said} if said else {}))

    def override(self, kind: str, zone: str, **more: Any) -> dict[str, Any]:
        return {
            "InstanceType": kind,
            "SubnetId": self.subnets[zone],
            "AvailabilityZone": zone,
            **more,
        }

    def config(
        self, *pools: tuple[str, str] | Mapping[str, Any], template: str = "plain"
    ) -> dict[str, Any]:
        """A template with the pools to launch it in: (type, zone), or an override in full."""
        return {
            "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Latest"},
            "Overrides": [
                dict(each) if isinstance(each, Mapping) else self.override(*each) for each in pools
            ],
        }

    def request(
        self, *configs: dict[str, Any], count: int = 1, market: str = "on-demand", **params: Any
    ) -> dict[str, Any]:
        return {
            "Type": "instant",
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": market,
            },
            "LaunchTemplateConfigs": list(configs),
            **params,
        }

    def fleet(self, *configs: dict[str, Any], **params: Any) -> Response:
        return self.ask("CreateFleet", **self.request(*configs, **params))

    def launch(
        self, kind: str = "m5.large", zone: str = A, *, count: int = 1, **params: Any
    ) -> list[str]:
        """Ids of machines of one pool; all of them, or the test is wrong."""
        answer = self.fleet(self.config((kind, zone)), count=count, **params)
        assert not answer["Errors"], answer["Errors"]
        return launched_ids(answer)

    def describe(self, *ids: str, **params: Any) -> list[Response]:
        """All machines unless some are named."""
        if ids:
            params["InstanceIds"] = list(ids)
        runs = self.ask("DescribeInstances", **params)["Reservations"]
        return [each for run in runs for each in run["Instances"]]

    def machine(self, instance: str) -> Response:
        (found,) = self.describe(instance)
        return found

    def state(self, instance: str) -> str:
        return str(self.machine(instance)["State"]["Name"])

    def reserved(self, reservation: str) -> Response:
        (found,) = self.ask("DescribeCapacityReservations", CapacityReservationIds=[reservation])[
            "CapacityReservations"
        ]
        return dict(found)

    def free(self, reservation: str) -> int:
        return int(self.reserved(reservation)["AvailableInstanceCount"])

    def inside(self, instance: str) -> str | None:
        """The reservation that the machine runs in."""
        found: str | None = self.machine(instance).get("CapacityReservationId")
        return found

    def wait(self, seconds: float) -> None:
        self.clock.time += seconds


def launched_ids(answer: Response) -> list[str]:
    return [each for entry in answer["Instances"] for each in entry["InstanceIds"]]


def launched_pools(answer: Response) -> list[tuple[str, str, int]]:
    """Where machines were got: type, zone, how many."""
    return [(*_pool(entry), len(entry["InstanceIds"])) for entry in answer["Instances"]]


def launch_errors(answer: Response) -> list[tuple[str, str, str]]:
    """What was refused where: type, zone, code."""
    return [(*_pool(entry), entry["ErrorCode"]) for entry in answer["Errors"]]


def launch_error_codes(answer: Response) -> set[str]:
    return {entry["ErrorCode"] for entry in answer["Errors"]}


def _pool(entry: Mapping[str, Any]) -> tuple[str, str]:
    override = entry["LaunchTemplateAndOverrides"]["Overrides"]
    return override["InstanceType"], override["AvailabilityZone"]


def tags_of(shown: Response) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in shown["Tags"]}


def ids_of(shown: Iterable[Response]) -> list[str]:
    return [each["InstanceId"] for each in shown]
