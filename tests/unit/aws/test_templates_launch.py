"""From a class to running machines: templates that an account takes, and nodes that boot."""

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from tests.support.seams import Checked, on_time

from wainwright.api.cloud import Cloud, CloudSpec
from wainwright.api.cloud import Reservation as Seeded
from wainwright.api.ec2nodeclass import EC2NodeClassSpec
from wainwright.api.selectors import ImageTerm, ReservationTerm, SecurityGroupTerm, SubnetTerm
from wainwright.aws.ec2 import Ec2
from wainwright.aws.nodeclass.resolved import Image
from wainwright.aws.templates.content import Common, Reservation
from wainwright.aws.templates.ensure import Templates
from wainwright.aws.templates.kinds import Kind, kind
from wainwright.aws.templates.split import Launch, Offer, split
from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.catalogue import builtin
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.description import descriptions
from wainwright.catalogue.settings import ClassSettings
from wainwright.catalogue.shapes import shape, size
from wainwright.clock import VirtualClock
from wainwright.emulator.boot.booted import Booted, boot
from wainwright.emulator.boot.encoding import decoded
from wainwright.emulator.boot.facts import Facts
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.model.requirements import Requirements

ZONE = "us-east-1a"
PROFILE = "wain_profile"
SPEC = EC2NodeClassSpec(
    amiSelectorTerms=[ImageTerm(alias="al2023@latest")],
    subnetSelectorTerms=[SubnetTerm(id="subnet-1")],
    securityGroupSelectorTerms=[SecurityGroupTerm(id="sg-1")],
)
WITH_TERMS = msgspec.structs.replace(
    SPEC, capacityReservationSelectorTerms=[ReservationTerm(id="cr-0123456789abcdef0")]
)
FAMILIES = {
    AmiFamily.AL2023: "eks/optimized-ami/{}/amazon-linux-2023/x86_64/standard/recommended",
    AmiFamily.BOTTLEROCKET: "bottlerocket/aws-k8s-{}/x86_64/latest",
    AmiFamily.WINDOWS2022: ("ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-{}"),
}
"""Where the ids of their images are found."""


def known(*names: str, family: AmiFamily) -> dict[str, Kind]:
    settings = ClassSettings(ami_family=family)
    described = descriptions("us-east-1", family.traits)
    machines = [builtin.machines()[name] for name in names]
    return {
        each.name: kind(each, size(shape(each, settings)), described[each.name], settings)
        for each in machines
    }


class World:
    """An emulated account with a cluster, and everything that a launch needs of it."""

    def __init__(self, clock: VirtualClock, *reservations: Seeded) -> None:
        spec = CloudSpec(region="us-east-1", capacityReservations=list(reservations))
        self.cloud = EmulatedCloud(Cloud(spec=spec), clock=clock)
        iam = {"InstanceProfileName": PROFILE}
        self.cloud.answer("iam", "CreateInstanceProfile", iam)
        role = iam | {"RoleName": self.cloud.account.role}
        self.cloud.answer("iam", "AddRoleToInstanceProfile", role)
        self.ec2 = Ec2(Checked(self.cloud))
        self.templates = Templates(self.ec2, clock)
        self.cluster = self.cloud.answer("eks", "DescribeCluster", {"name": "wain"})["cluster"]

    def launch(self, names: tuple[str, ...], family: AmiFamily, **more: Any) -> Launch:
        path = FAMILIES[family].format(self.cluster["version"])
        asked = {"Name": f"/aws/service/{path}/image_id"}
        found = self.cloud.answer("ssm", "GetParameter", asked)["Parameter"]["Value"]
        common = Common(
            spec=more.pop("spec", SPEC),
            family=family,
            groups=(self.cloud.account.security_group,),
            profile=PROFILE,
            tags={"team": "web"},
            capacity_type=more.pop("capacity_type", "on-demand"),
        )
        return Launch(
            common=common,
            bootstrap=self.bootstrap(),
            images=(Image(id=found, name="", requirements=Requirements()),),
            kinds=known(*names, family=family),
            offers=tuple(self.offer(name, **more) for name in names),
        )

    def bootstrap(self) -> Bootstrap:
        return Bootstrap(
            cluster="wain",
            endpoint=self.cluster["endpoint"],
            ca=self.cluster["certificateAuthority"]["data"],
            cidr=self.cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
            labels={"team": "web"},
        )

    def offer(self, name: str, **more: Any) -> Offer:
        subnet = self.cloud.account.subnets[ZONE]
        return Offer(kind=name, zone=ZONE, subnet=subnet, price=0.1, **more)

    async def fleet(self, launch: Launch) -> dict[str, Any]:
        configs = split(launch).configs
        request = {
            "Type": "instant",
            "LaunchTemplateConfigs": [each.as_request() for each in configs],
            "TargetCapacitySpecification": {
                "DefaultTargetCapacityType": "on-demand",
                "TotalTargetCapacity": 1,
            },
        }
        templates = [each.template for each in configs]
        return await self.templates.launch(templates, lambda: self.ec2.create_fleet(request))

    async def launched(self, launch: Launch) -> dict[str, Any]:
        answer = await self.fleet(launch)
        (identity,) = (each for group in answer["Instances"] for each in group["InstanceIds"])
        (row,) = await self.ec2.describe_instances(ids=[identity])
        return row

    def booted(self, row: dict[str, Any]) -> Booted:
        asked = {"InstanceId": row["InstanceId"], "Attribute": "userData"}
        answer = self.cloud.answer("ec2", "DescribeInstanceAttribute", asked)
        facts = Facts(
            machine=builtin.machines()[row["InstanceType"]],
            instance_id=row["InstanceId"],
            region="us-east-1",
            zone=ZONE,
            zone_id="use1-az1",
            private_dns="ip-10-0-0-1.ec2.internal",
        )
        made = boot(decoded(answer["UserData"]["Value"]), facts)
        assert isinstance(made, Booted), made
        return made


def run(test: Callable[[World], Coroutine[Any, Any, None]], *reservations: Seeded) -> None:
    on_time(lambda clock: test(World(clock, *reservations)))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("name", "pods"), [("m5.large", 29), ("t3.large", 35)])
def test_a_machine_is_made_as_the_class_has_it(family: AmiFamily, name: str, pods: int) -> None:
    async def test(world: World) -> None:
        row = await world.launched(world.launch((name,), family))
        assert row["InstanceType"] == name
        assert row["IamInstanceProfile"]["Arn"].endswith(PROFILE)
        assert [each["GroupId"] for each in row["SecurityGroups"]] == [
            world.cloud.account.security_group
        ]
        assert row["MetadataOptions"]["HttpTokens"] == "required"
        node = world.booted(row)
        assert node.labels["karpenter.sh/capacity-type"] == "on-demand"
        assert node.max_pods == (110 if family.traits.windows_build else pods)

    run(test)


def test_the_second_launch_needs_no_template() -> None:
    async def test(world: World) -> None:
        family = AmiFamily.AL2023
        names = ("m5.large", "c5.large", "m5.xlarge")
        everything = world.launch(names, family)
        for name in names:
            chosen = msgspec.structs.replace(everything, offers=(world.offer(name),))
            row = await world.launched(chosen)
            assert world.booted(row).max_pods == everything.kinds[name].density
        assert len(await world.ec2.describe_launch_templates()) == 1

    run(test)


def seeded(criteria: str, available: int = 1) -> Seeded:
    return Seeded(
        id="cr-0123456789abcdef0",
        instanceType="m5.large",
        availabilityZone=ZONE,
        total=1,
        available=available,
        instanceMatchCriteria=criteria,
    )


HELD = Reservation(id="cr-0123456789abcdef0", free=1)
MORE = {"spec": WITH_TERMS, "capacity_type": "reserved", "reservation": HELD}


def test_a_reserved_machine_is_in_its_reservation() -> None:
    async def test(world: World) -> None:
        launch = world.launch(("m5.large",), AmiFamily.AL2023, **MORE)
        row = await world.launched(launch)
        assert row["CapacityReservationId"] == HELD.id
        preference = row["CapacityReservationSpecification"]["CapacityReservationPreference"]
        assert preference == "capacity-reservations-only"
        assert world.booted(row).labels["karpenter.sh/capacity-type"] == "reserved"
        again = await world.fleet(launch)
        assert not again.get("Instances")
        assert {each["ErrorCode"] for each in again["Errors"]} == {"ReservationCapacityExceeded"}

    run(test, seeded("targeted"))


@pytest.mark.parametrize(
    ("spec", "joins"), [(WITH_TERMS, False), (SPEC, True)], ids=["with terms", "without"]
)
def test_only_classes_without_terms_fall_into_open_reservations(
    spec: EC2NodeClassSpec, joins: bool
) -> None:
    async def test(world: World) -> None:
        row = await world.launched(world.launch(("m5.large",), AmiFamily.AL2023, spec=spec))
        assert ("CapacityReservationId" in row) is joins

    run(test, seeded("open"))
