"""Launch templates: created once, there when needed, deleted when unused; launches from them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import CheckedApi, run_in_virtual_time

from wainwright.api.catalog_documents import Cloud, CloudSpec
from wainwright.api.catalog_documents import CloudReservation as Seeded
from wainwright.api.karpenter.ec2nodeclass import (
    AMISelectorTerm,
    CapacityReservationSelectorTerm,
    EC2NodeClassSpec,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from wainwright.aws.api.services import AwsResponse, Ec2, Params
from wainwright.aws.launchtemplate.template_configs import (
    LaunchInstanceType,
    LaunchSpec,
    SubnetOffering,
    launch_instance_type,
    split_by_template,
)
from wainwright.aws.launchtemplate.template_data import (
    LaunchTemplate,
    SharedTemplateSettings,
    TargetReservation,
)
from wainwright.aws.launchtemplate.template_provider import (
    TEMPLATE_TTL,
    UNUSED_TEMPLATE_AGE,
    LaunchTemplateProvider,
)
from wainwright.aws.nodeclass.status import ResolvedImage
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.capacity import derive_resources, to_node_resources
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, NodeClassSettings
from wainwright.catalogue.instancetypes.type_labels import type_requirements
from wainwright.clock import VirtualClock
from wainwright.emulator.boot.node_boot import BootedNode, boot_from_user_data
from wainwright.emulator.boot.user_data import InstanceFacts, decode_user_data
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.faults import FaultRule
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError
from wainwright.model.requirements import Requirements

OWNED = {"eks:eks-cluster-name": "wain", "karpenter.k8s.aws/ec2nodeclass": "default"}


def written(number: int = 1, node_class: str = "default") -> LaunchTemplate:
    tags = OWNED | {"karpenter.k8s.aws/ec2nodeclass": node_class}
    return LaunchTemplate(data={"ImageId": f"ami-{number}"}, tags=tags)


class SlowSeam:
    """A seam on which deletions are overtaken by later calls."""

    def __init__(self, cloud: EmulatedAwsAccount) -> None:
        self._cloud = cloud

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        if operation.startswith("Delete"):
            await self._cloud.clock.sleep(5)
        return await self._cloud.call(service, operation, params)


class TemplateScenario:
    """An emulated account, where every call takes a second, and the templates under test."""

    def __init__(self, clock: VirtualClock, settings: EmulatorSettings) -> None:
        self.clock = clock
        self.cloud = EmulatedAwsAccount(clock=clock, settings=settings)
        self.seam = CheckedApi(SlowSeam(self.cloud))
        self.ec2 = Ec2(self.seam)
        self.templates = LaunchTemplateProvider(self.ec2, clock)

    def count(self, operation: str) -> int:
        return len(self.seam.calls_to(operation))

    async def there(self) -> set[str]:
        rows = await Ec2(self.cloud).describe_launch_templates([])
        return {row["LaunchTemplateName"] for row in rows}

    async def fleet(self, template: LaunchTemplate) -> None:
        """The error of a launch whose template is gone."""
        await self.ec2.call("DescribeLaunchTemplates", {"LaunchTemplateNames": [template.name]})


def run_scenario(
    test: Callable[[TemplateScenario], Coroutine[Any, Any, None]], *faults: FaultRule
) -> None:
    settings = EmulatorSettings(latency=1.0, faults=faults)
    run_in_virtual_time(lambda clock: test(TemplateScenario(clock, settings)))


def test_a_template_is_created_at_its_first_use() -> None:
    async def test(world: TemplateScenario) -> None:
        template = written()
        assert await world.templates.ensure(template) == template.name
        (row,) = await world.ec2.describe_launch_templates([])
        tags = {each["Key"]: each["Value"] for each in row["Tags"]}
        assert tags == OWNED | {"wainwright.dev/managed-by": "wainwright"}
        await world.templates.ensure(template)
        assert world.count("CreateLaunchTemplate") == 1

    run_scenario(test)


def test_concurrent_callers_share_one_creation() -> None:
    async def test(world: TemplateScenario) -> None:
        await asyncio.gather(*(world.templates.ensure(written()) for _ in range(20)))
        assert world.count("CreateLaunchTemplate") == 1

    run_scenario(test)


def test_a_cancelled_caller_does_not_cancel_the_creation() -> None:
    async def test(world: TemplateScenario) -> None:
        impatient = asyncio.ensure_future(world.templates.ensure(written()))
        patient = asyncio.ensure_future(world.templates.ensure(written()))
        await world.clock.sleep(0.5)
        impatient.cancel()
        assert await patient == written().name
        assert world.count("CreateLaunchTemplate") == 1

    run_scenario(test)


def test_a_failure_is_raised_for_all_callers_and_not_cached() -> None:
    async def test(world: TemplateScenario) -> None:
        both = [world.templates.ensure(written()) for _ in range(2)]
        failed = await asyncio.gather(*both, return_exceptions=True)
        assert [each.code for each in failed if isinstance(each, AwsError)] == ["Denied"] * 2
        assert world.count("CreateLaunchTemplate") == 1
        assert await world.templates.ensure(written()) == written().name

    run_scenario(test, FaultRule(operation="CreateLaunchTemplate", code="Denied", times=1))


def test_a_template_of_another_process_is_used() -> None:
    async def test(world: TemplateScenario) -> None:
        await LaunchTemplateProvider(world.ec2, world.clock).ensure(written())
        assert await world.templates.ensure(written()) == written().name
        assert world.count("CreateLaunchTemplate") == 2
        assert await world.there() == {written().name}

    run_scenario(test)


def test_an_expired_template_is_created_again() -> None:
    async def test(world: TemplateScenario) -> None:
        await world.templates.ensure(written())
        await world.clock.sleep(TEMPLATE_TTL - 1)
        await world.templates.ensure(written())
        assert world.count("CreateLaunchTemplate") == 1
        await world.clock.sleep(2)
        await world.templates.ensure(written())
        assert world.count("CreateLaunchTemplate") == 2

    run_scenario(test)


def test_a_launch_whose_template_is_gone_is_retried_once() -> None:
    async def test(world: TemplateScenario) -> None:
        template = written()
        await world.templates.ensure(template)
        await Ec2(world.cloud).delete_launch_template(template.name)
        await world.templates.call_with_templates([template], lambda: world.fleet(template))
        assert world.count("CreateLaunchTemplate") == 2
        assert world.count("DescribeLaunchTemplates") == 2

    run_scenario(test)


def test_a_launch_is_not_retried_for_ever() -> None:
    async def test(world: TemplateScenario) -> None:
        with pytest.raises(AwsError, match="NotFoundException"):
            await world.templates.call_with_templates([written(1)], lambda: world.fleet(written(2)))
        assert world.count("DescribeLaunchTemplates") == 2

    run_scenario(test)


def test_other_errors_of_a_launch_are_raised() -> None:
    async def test(world: TemplateScenario) -> None:
        with pytest.raises(AwsError, match="Refused"):
            await world.templates.call_with_templates([written()], lambda: world.fleet(written()))
        assert world.count("DescribeLaunchTemplates") == 1

    run_scenario(test, FaultRule(operation="DescribeLaunchTemplates", code="Refused"))


def test_several_templates_are_created_concurrently() -> None:
    async def test(world: TemplateScenario) -> None:
        wanted = [written(number) for number in range(5)]
        before = world.clock.now()
        await world.templates.call_with_templates(wanted, lambda: world.fleet(wanted[0]))
        assert world.clock.now() - before == pytest.approx(2)

    run_scenario(test)


def test_unused_templates_are_deleted() -> None:
    async def test(world: TemplateScenario) -> None:
        await world.templates.ensure(written(1))
        await world.clock.sleep(UNUSED_TEMPLATE_AGE - 100)
        await world.templates.ensure(written(2))
        assert await world.templates.delete_unused() == ()
        await world.clock.sleep(200)
        assert await world.templates.delete_unused() == (written(1).name,)
        assert await world.there() == {written(2).name}
        await world.templates.ensure(written(1))
        assert await world.there() == {written(1).name, written(2).name}

    run_scenario(test)


def test_a_template_in_use_is_kept_however_long_the_launch_takes() -> None:
    async def test(world: TemplateScenario) -> None:
        async def slow() -> None:
            await world.clock.sleep(2 * UNUSED_TEMPLATE_AGE)
            assert await world.templates.delete_unused() == ()
            await world.fleet(written())

        await world.templates.call_with_templates([written()], slow)
        assert world.count("DeleteLaunchTemplate") == 0

    run_scenario(test)


def test_a_template_being_deleted_is_created_again_for_a_launch() -> None:
    async def test(world: TemplateScenario) -> None:
        await world.templates.ensure(written())
        await world.clock.sleep(2 * UNUSED_TEMPLATE_AGE)
        sweeping = asyncio.ensure_future(world.templates.delete_unused())
        await world.clock.sleep(0.5)
        await world.templates.call_with_templates([written()], lambda: world.fleet(written()))
        await sweeping
        assert await world.there() == {written().name}
        assert world.count("DescribeLaunchTemplates") == 1

    run_scenario(test)


def test_a_failed_deletion_is_retried() -> None:
    async def test(world: TemplateScenario) -> None:
        await world.templates.ensure(written())
        await world.clock.sleep(2 * UNUSED_TEMPLATE_AGE)
        with pytest.raises(AwsError, match="Denied"):
            await world.templates.delete_unused()
        assert await world.templates.delete_unused() == (written().name,)
        assert await world.there() == set()

    run_scenario(test, FaultRule(operation="DeleteLaunchTemplate", code="Denied", times=1))


def test_templates_of_an_earlier_process_are_adopted() -> None:
    async def test(world: TemplateScenario) -> None:
        await LaunchTemplateProvider(world.ec2, world.clock).ensure(written())
        token = "theirs"
        await world.ec2.create_launch_template(
            "karpenter.k8s.aws/9", {"ImageId": "x"}, OWNED, token
        )
        assert await world.templates.adopt("wain") == 1
        await world.templates.ensure(written())
        assert world.count("CreateLaunchTemplate") == 2
        await world.clock.sleep(2 * UNUSED_TEMPLATE_AGE)
        assert await world.templates.delete_unused() == (written().name,)
        assert await world.there() == {"karpenter.k8s.aws/9"}

    run_scenario(test)


def test_the_templates_of_a_class_are_deleted_with_it() -> None:
    async def test(world: TemplateScenario) -> None:
        for number in range(3):
            await world.templates.ensure(written(number))
        await world.templates.ensure(written(1, "other"))
        await world.ec2.create_launch_template("somebody-elses", {"ImageId": "x"}, OWNED, "token")
        gone = await world.templates.delete_class("wain", "default")
        assert set(gone) == {written(number).name for number in range(3)}
        assert await world.there() == {written(1, "other").name, "somebody-elses"}
        assert await world.templates.delete_class("wain", "default") == ()

    run_scenario(test)


ZONE = "us-east-1a"
PROFILE = "wain_profile"
SPEC = EC2NodeClassSpec(
    amiSelectorTerms=[AMISelectorTerm(alias="al2023@latest")],
    subnetSelectorTerms=[SubnetSelectorTerm(id="subnet-1")],
    securityGroupSelectorTerms=[SecurityGroupSelectorTerm(id="sg-1")],
)
WITH_TERMS = msgspec.structs.replace(
    SPEC,
    capacityReservationSelectorTerms=[CapacityReservationSelectorTerm(id="cr-0123456789abcdef0")],
)
FAMILIES = {
    AmiFamily.AL2023: "eks/optimized-ami/{}/amazon-linux-2023/x86_64/standard/recommended",
    AmiFamily.BOTTLEROCKET: "bottlerocket/aws-k8s-{}/x86_64/latest",
    AmiFamily.WINDOWS2022: ("ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-{}"),
}
"""The SSM parameters of their image ids."""


def known(*names: str, family: AmiFamily) -> dict[str, LaunchInstanceType]:
    settings = NodeClassSettings(ami_family=family)
    described = type_requirements("us-east-1", family.traits)
    infos = [instance_type_info.built_in_instance_types()[name] for name in names]
    return {
        each.name: launch_instance_type(
            each,
            to_node_resources(derive_resources(each, settings)),
            described[each.name],
            settings,
        )
        for each in infos
    }


class LaunchScenario:
    """An emulated account with a cluster, and the inputs of launches in it."""

    def __init__(self, clock: VirtualClock, *reservations: Seeded) -> None:
        spec = CloudSpec(region="us-east-1", capacityReservations=list(reservations))
        self.cloud = EmulatedAwsAccount(Cloud(spec=spec), clock=clock)
        iam = {"InstanceProfileName": PROFILE}
        self.cloud.answer("iam", "CreateInstanceProfile", iam)
        role = iam | {"RoleName": self.cloud.account.role}
        self.cloud.answer("iam", "AddRoleToInstanceProfile", role)
        self.ec2 = Ec2(CheckedApi(self.cloud))
        self.templates = LaunchTemplateProvider(self.ec2, clock)
        self.cluster = self.cloud.answer("eks", "DescribeCluster", {"name": "wain"})["cluster"]

    def launch(self, names: tuple[str, ...], family: AmiFamily, **more: Any) -> LaunchSpec:
        path = FAMILIES[family].format(self.cluster["version"])
        asked = {"Name": f"/aws/service/{path}/image_id"}
        found = self.cloud.answer("ssm", "GetParameter", asked)["Parameter"]["Value"]
        shared = SharedTemplateSettings(
            spec=more.pop("spec", SPEC),
            family=family,
            groups=(self.cloud.account.security_group,),
            profile=PROFILE,
            tags={"team": "web"},
            capacity_type=more.pop("capacity_type", "on-demand"),
        )
        return LaunchSpec(
            shared=shared,
            bootstrap=self.bootstrap(),
            images=(ResolvedImage(id=found, name="", requirements=Requirements()),),
            instance_types=known(*names, family=family),
            offerings=tuple(self.subnet_offering(name, **more) for name in names),
        )

    def bootstrap(self) -> BootstrapOptions:
        return BootstrapOptions(
            cluster="wain",
            endpoint=self.cluster["endpoint"],
            ca=self.cluster["certificateAuthority"]["data"],
            service_cidr=self.cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
            labels={"team": "web"},
        )

    def subnet_offering(self, name: str, **more: Any) -> SubnetOffering:
        subnet = self.cloud.account.subnets[ZONE]
        return SubnetOffering(instance_type=name, zone=ZONE, subnet=subnet, price=0.1, **more)

    async def fleet(self, launch: LaunchSpec) -> dict[str, Any]:
        configs = split_by_template(launch).configs
        request = {
            "Type": "instant",
            "LaunchTemplateConfigs": [each.as_request() for each in configs],
            "TargetCapacitySpecification": {
                "DefaultTargetCapacityType": "on-demand",
                "TotalTargetCapacity": 1,
            },
        }
        templates = [each.template for each in configs]
        return await self.templates.call_with_templates(
            templates, lambda: self.ec2.create_fleet(request)
        )

    async def launched(self, launch: LaunchSpec) -> dict[str, Any]:
        answer = await self.fleet(launch)
        (identity,) = (each for group in answer["Instances"] for each in group["InstanceIds"])
        (row,) = await self.ec2.describe_instances(ids=[identity])
        return row

    def booted(self, row: dict[str, Any]) -> BootedNode:
        asked = {"InstanceId": row["InstanceId"], "Attribute": "userData"}
        answer = self.cloud.answer("ec2", "DescribeInstanceAttribute", asked)
        instance_facts = InstanceFacts(
            type_info=instance_type_info.built_in_instance_types()[row["InstanceType"]],
            instance_id=row["InstanceId"],
            region="us-east-1",
            zone=ZONE,
            zone_id="use1-az1",
            private_dns="ip-10-0-0-1.ec2.internal",
        )
        made = boot_from_user_data(decode_user_data(answer["UserData"]["Value"]), instance_facts)
        assert isinstance(made, BootedNode), made
        return made


def run_launches(
    test: Callable[[LaunchScenario], Coroutine[Any, Any, None]], *reservations: Seeded
) -> None:
    run_in_virtual_time(lambda clock: test(LaunchScenario(clock, *reservations)))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("name", "pods"), [("m5.large", 29), ("t3.large", 35)])
def test_an_instance_is_launched_with_the_settings_of_the_class(
    family: AmiFamily, name: str, pods: int
) -> None:
    async def test(world: LaunchScenario) -> None:
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

    run_launches(test)


def test_the_second_launch_creates_no_template() -> None:
    async def test(world: LaunchScenario) -> None:
        family = AmiFamily.AL2023
        names = ("m5.large", "c5.large", "m5.xlarge")
        everything = world.launch(names, family)
        for name in names:
            chosen = msgspec.structs.replace(everything, offerings=(world.subnet_offering(name),))
            row = await world.launched(chosen)
            assert world.booted(row).max_pods == everything.instance_types[name].max_pods
        assert len(await world.ec2.describe_launch_templates([])) == 1

    run_launches(test)


def seeded(criteria: str, available: int = 1) -> Seeded:
    return Seeded(
        id="cr-0123456789abcdef0",
        instanceType="m5.large",
        availabilityZone=ZONE,
        total=1,
        available=available,
        instanceMatchCriteria=criteria,
    )


HELD = TargetReservation(id="cr-0123456789abcdef0", available_count=1)
MORE = {"spec": WITH_TERMS, "capacity_type": "reserved", "reservation": HELD}


def test_a_reserved_instance_is_in_its_reservation() -> None:
    async def test(world: LaunchScenario) -> None:
        launch = world.launch(("m5.large",), AmiFamily.AL2023, **MORE)
        row = await world.launched(launch)
        assert row["CapacityReservationId"] == HELD.id
        preference = row["CapacityReservationSpecification"]["CapacityReservationPreference"]
        assert preference == "capacity-reservations-only"
        assert world.booted(row).labels["karpenter.sh/capacity-type"] == "reserved"
        again = await world.fleet(launch)
        assert not again.get("Instances")
        assert {each["ErrorCode"] for each in again["Errors"]} == {"ReservationCapacityExceeded"}

    run_launches(test, seeded("targeted"))


@pytest.mark.parametrize(
    ("spec", "joins"), [(WITH_TERMS, False), (SPEC, True)], ids=["with terms", "without"]
)
def test_only_classes_without_terms_use_open_reservations(
    spec: EC2NodeClassSpec, joins: bool
) -> None:
    async def test(world: LaunchScenario) -> None:
        row = await world.launched(world.launch(("m5.large",), AmiFamily.AL2023, spec=spec))
        assert ("CapacityReservationId" in row) is joins

    run_launches(test, seeded("open"))
