"""A launch split by template: as few as possible, and none for an InstanceType object."""

import asyncio
import tomllib
from base64 import b64decode
from collections.abc import Callable, Coroutine
from email import message_from_string
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import aws_account
from tests.support.aws_account import CheckedApi, run_in_virtual_time
from tests.support.catalogue_builders import build_catalogue, cloud_object, node_class_object

from wainwright.api.catalog_documents import Cloud, CloudSpec
from wainwright.api.catalog_documents import CloudReservation as Seeded
from wainwright.api.karpenter.ec2nodeclass import (
    AMISelectorTerm,
    CapacityReservationSelectorTerm,
    EC2NodeClassSpec,
    NetworkInterface,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from wainwright.aws.api.services import AwsResponse, Ec2, Params
from wainwright.aws.launchtemplate.launch_templates import (
    TEMPLATE_TTL,
    UNUSED_TEMPLATE_AGE,
    LaunchInstanceType,
    LaunchInstanceTypes,
    LaunchSpec,
    LaunchTemplateProvider,
    SubnetOffering,
    TemplateSplit,
    launch_instance_type,
    max_pods_mismatches,
    one_per_type_and_zone,
    split_by_template,
)
from wainwright.aws.launchtemplate.template_data import (
    LaunchTemplate,
    SharedTemplateSettings,
    TargetReservation,
)
from wainwright.aws.nodeclass.status import ResolvedImage
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.capacity import derive_resources, to_node_resources
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    CatalogOptions,
    KubeletSettings,
    NodeClassSettings,
    ResourceOverride,
)
from wainwright.catalogue.instancetypes.type_labels import type_requirements
from wainwright.catalogue.region_catalog import CatalogScope
from wainwright.clock import VirtualClock
from wainwright.emulator.boot.node_boot import BootedNode, boot_from_user_data
from wainwright.emulator.boot.user_data import InstanceFacts, decode_user_data
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.faults import FaultRule
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError
from wainwright.model.requirements import Requirements

SPEC = EC2NodeClassSpec(
    amiSelectorTerms=[AMISelectorTerm(alias="al2023@latest")],
    subnetSelectorTerms=[SubnetSelectorTerm(id="subnet-1")],
    securityGroupSelectorTerms=[SecurityGroupSelectorTerm(id="sg-1")],
)
BOOTSTRAP = BootstrapOptions(
    cluster="wain",
    endpoint="https://wain.example.com",
    ca="Y2E=",
    service_cidr="10.100.0.0/16",
    labels={"team": "web"},
)
NO_GPU: tuple[Any, ...] = ("karpenter.k8s.aws/instance-gpu-count", "DoesNotExist", (), None)
GPU: tuple[Any, ...] = ("karpenter.k8s.aws/instance-gpu-count", "Exists", (), None)


def arch(name: str) -> tuple[Any, ...]:
    return ("kubernetes.io/arch", "In", (name,), None)


def image(name: str, *entries: tuple[Any, ...]) -> ResolvedImage:
    return ResolvedImage(id=name, name=name, requirements=Requirements.from_entries(entries))


IMAGES = (
    image("ami-gpu", arch("amd64"), GPU),
    image("ami-amd", arch("amd64"), NO_GPU),
    image("ami-arm", arch("arm64"), NO_GPU),
)


def launch_types(
    *names: str, settings: NodeClassSettings | None = None, **pods: int
) -> dict[str, LaunchInstanceType]:
    """Types of the catalog; `pods` are those of InstanceType objects, dots as underscores."""
    used = settings or NodeClassSettings()
    declared = {name.replace("_", "."): amount for name, amount in pods.items()}
    described = type_requirements("us-east-1", used.ami_family.traits)
    made = {}
    for name in names:
        info = instance_type_info.built_in_instance_types()[name]
        override = ResourceOverride(resources={"pods": declared[name]} if name in declared else {})
        held = to_node_resources(derive_resources(info, used, override))
        made[name] = launch_instance_type(info, held, described[name], used)
    return made


def subnet_offering(name: str, zone: str = "a", price: float = 1.0, **more: Any) -> SubnetOffering:
    return SubnetOffering(
        instance_type=name, zone=f"us-east-1{zone}", subnet=f"subnet-{zone}", price=price, **more
    )


def split(
    known: dict[str, LaunchInstanceType],
    *offerings: SubnetOffering,
    family: AmiFamily = AmiFamily.AL2023,
    spec: dict[str, Any] | None = None,
    bootstrap: BootstrapOptions = BOOTSTRAP,
    capacity_type: str = "on-demand",
    **more: Any,
) -> TemplateSplit:
    shared = SharedTemplateSettings(
        spec=msgspec.structs.replace(SPEC, **(spec or {})),
        family=family,
        groups=("sg-1",),
        profile="wain_profile",
        tags={"team": "web"},
        capacity_type=capacity_type,
    )
    made = split_by_template(
        LaunchSpec(
            shared=shared,
            bootstrap=bootstrap,
            images=more.pop("images", IMAGES),
            instance_types=known,
            offerings=offerings or tuple(subnet_offering(name) for name in known),
            **more,
        )
    )
    check(made)
    return made


def check(made: TemplateSplit) -> None:
    """Validates as botocore does; and no type and zone twice, which EC2 rejects."""
    request = {
        "LaunchTemplateConfigs": [each.as_request() for each in made.configs],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1},
    }
    aws_account.check_params("ec2", "CreateFleet", request)
    pools = [(each["InstanceType"], each["AvailabilityZone"]) for each in overrides(made)]
    assert len(pools) == len(set(pools))


def overrides(made: TemplateSplit) -> list[Any]:
    return [each for config in made.configs for each in config.overrides]


def groups(made: TemplateSplit) -> dict[str, list[str]]:
    """Types by image."""
    return {
        config.template.data["ImageId"]: [each["InstanceType"] for each in config.overrides]
        for config in made.configs
    }


def text(made: TemplateSplit, number: int = 0) -> str:
    return b64decode(made.configs[number].template.data["UserData"]).decode()


def test_each_type_boots_the_first_image_that_it_can() -> None:
    made = split(launch_types("m5.large", "m6g.large", "g5.xlarge", "c5.large"))
    assert groups(made) == {
        "ami-amd": ["c5.large", "m5.large"],
        "ami-arm": ["m6g.large"],
        "ami-gpu": ["g5.xlarge"],
    }


def test_a_type_without_an_image_is_left_out_with_a_remark() -> None:
    made = split(launch_types("m5.large", "m6g.large"), images=IMAGES[:2])
    assert groups(made) == {"ami-amd": ["m5.large"]}
    assert made.remarks == ("m6g.large is left out: no image of the class is made for it",)


def test_an_override_names_type_subnet_zone_and_image() -> None:
    made = split(launch_types("m5.large"), subnet_offering("m5.large", "b", 0.1))
    assert made.configs[0].as_request() == {
        "LaunchTemplateSpecification": {
            "LaunchTemplateName": made.configs[0].template.name,
            "Version": "$Latest",
        },
        "Overrides": [
            {
                "InstanceType": "m5.large",
                "SubnetId": "subnet-b",
                "AvailabilityZone": "us-east-1b",
                "ImageId": "ami-amd",
            }
        ],
    }


def test_overridden_prices_are_passed_on_as_priorities() -> None:
    made = split(
        launch_types("m5.large"), subnet_offering("m5.large", price=0.25), prioritised=True
    )
    assert overrides(made)[0]["Priority"] == 0.25


def test_instance_type_objects_need_no_template_of_their_own() -> None:
    plain = launch_types("m5.large", "c5.large", "m5.xlarge")
    changed = launch_types("m5.large", "c5.large", "m5.xlarge", m5_large=10, c5_large=20)
    assert len(split(plain).configs) == len(split(changed).configs) == 1
    rows = text(split(changed)).splitlines()
    kept = {"c5.large=20=memory=475Mi", "m5.large=10=memory=365Mi"}
    assert kept | {"m5.xlarge=58", "*=10"} <= set(rows)


def test_a_template_does_not_depend_on_the_types_of_the_launch() -> None:
    known = launch_types("m5.large", "c5.large", "m5.xlarge")
    one = split(known, subnet_offering("m5.large"))
    other = split(known, subnet_offering("c5.large"), subnet_offering("m5.xlarge"))
    assert one.configs[0].template.name == other.configs[0].template.name


def test_the_table_has_fewer_types_if_the_users_user_data_is_long() -> None:
    offered = type_requirements("us-east-1", AmiFamily.AL2023.traits)
    known = launch_types(
        *(
            name
            for name in offered
            if instance_type_info.built_in_instance_types()[name].architecture == "amd64"
        )
    )
    long = msgspec.structs.replace(BOOTSTRAP, custom_user_data="#!/bin/bash\n" + "#" * 12_000)
    made = split(known, subnet_offering("m5.large"), subnet_offering("t3.large"), bootstrap=long)
    rows = text(made).partition("begin\n")[2].partition("\n# wain")[0].splitlines()
    assert rows == ["t3.large=35", "*=29"]
    assert len(text(split(known, subnet_offering("m5.large")))) < 11_000


def test_user_data_warnings_become_remarks() -> None:
    long = msgspec.structs.replace(BOOTSTRAP, custom_user_data="#!/bin/bash\n" + "#" * 14_500)
    assert "bytes that EC2 allows" in split(launch_types("m5.large"), bootstrap=long).remarks[0]


def test_the_capacity_type_becomes_a_label() -> None:
    made = split(launch_types("m5.large"), capacity_type="spot")
    assert "karpenter.sh/capacity-type=spot" in text(made)


# Bottlerocket cannot look anything up.

ROCKET = NodeClassSettings(ami_family=AmiFamily.BOTTLEROCKET)


def rocket_pods(made: TemplateSplit) -> dict[str, int | None]:
    """maxPods by type."""
    return {
        each["InstanceType"]: tomllib.loads(text(made, number))["settings"]["kubernetes"].get(
            "max-pods"
        )
        for number, config in enumerate(made.configs)
        for each in config.overrides
    }


def test_without_max_pods_bottlerocket_gets_no_number() -> None:
    made = split(
        launch_types("m5.large", "m5.xlarge", settings=ROCKET), family=AmiFamily.BOTTLEROCKET
    )
    assert rocket_pods(made) == {"m5.large": None, "m5.xlarge": None}
    assert len(made.configs) == 1


def test_bottlerocket_gets_max_pods_of_the_class() -> None:
    settings = NodeClassSettings(
        ami_family=AmiFamily.BOTTLEROCKET, kubelet=KubeletSettings(max_pods=42)
    )
    bootstrap = msgspec.structs.replace(BOOTSTRAP, max_pods=42)
    known = launch_types("m5.large", "m5.xlarge", settings=settings, m5_xlarge=50)
    made = split(known, family=AmiFamily.BOTTLEROCKET, bootstrap=bootstrap)
    assert rocket_pods(made) == {"m5.large": 42, "m5.xlarge": 42}
    assert made.remarks == ()


def test_types_are_made_with_the_settings_of_the_class_and_again_when_those_change() -> None:
    infos, types = instance_type_info.built_in_instance_types(), LaunchInstanceTypes()

    def max_pods(**spec: Any) -> int:
        cloud = cloud_object(instanceTypes=["m5.large"])
        scope = CatalogScope(node_class=node_class_object(**spec))
        built = build_catalogue(scope, cloud=cloud)
        return types.of(built, infos)["m5.large"].class_max_pods

    few = {"maxPods": 42}
    assert [max_pods(kubelet=few), max_pods(), max_pods(kubelet=few)] == [42, 29, 42]


@pytest.mark.parametrize("pods", [10, 200])
def test_types_with_another_max_pods_are_left_out_for_bottlerocket(pods: int) -> None:
    known = launch_types("m5.large", "m5.xlarge", settings=ROCKET, m5_xlarge=pods)
    made = split(known, family=AmiFamily.BOTTLEROCKET)
    assert rocket_pods(made) == {"m5.large": None}
    assert made.remarks == (
        f"m5.xlarge is left out: its InstanceType object says {pods} pods, "
        "but Bottlerocket cannot be told by type and would take 58",
    )
    assert list(max_pods_mismatches(AmiFamily.BOTTLEROCKET, known.values())) == ["m5.xlarge"]
    assert max_pods_mismatches(AmiFamily.AL2023, known.values()) == {}


def test_with_reserved_interfaces_bottlerocket_has_a_template_per_max_pods() -> None:
    settings = msgspec.structs.replace(ROCKET, options=CatalogOptions(reserved_enis=1))
    known = launch_types("m5.large", "c5.large", "m5.xlarge", settings=settings)
    made = split(known, family=AmiFamily.BOTTLEROCKET)
    assert rocket_pods(made) == {"m5.large": 20, "c5.large": 20, "m5.xlarge": 44}
    assert len(made.configs) == 2


# Interfaces for EFA


def test_if_pods_request_efa_there_is_a_template_per_number_of_interfaces() -> None:
    known = launch_types("c6in.32xlarge", "c5n.18xlarge", "m5n.24xlarge")
    assert len(split(known).configs) == 1
    made = split(known, efa=True)
    found = [
        ([each["InstanceType"] for each in config.overrides], len(interfaces(config.template.data)))
        for config in made.configs
    ]
    assert found == [(["c5n.18xlarge", "m5n.24xlarge"], 1), (["c6in.32xlarge"], 2)]


def interfaces(data: Any) -> list[Any]:
    found: list[Any] = data["NetworkInterfaces"]
    return found


def test_a_class_with_explicit_interfaces_has_one_template() -> None:
    listed = [NetworkInterface(networkCardIndex=0, deviceIndex=0, interfaceType="interface")]
    known = launch_types("c6in.32xlarge", "c5n.18xlarge")
    made = split(known, efa=True, spec={"networkInterfaces": listed})
    assert len(made.configs) == 1


# Reservations


def reserved(
    name: str, number: int, free: int, zone: str = "a", price: float = 0.0
) -> SubnetOffering:
    return subnet_offering(
        name, zone, price, reservation=TargetReservation(id=f"cr-{number}", available_count=free)
    )


TERMS = {
    "capacityReservationSelectorTerms": [CapacityReservationSelectorTerm(tags={"team": "web"})]
}


def targets(made: TemplateSplit) -> dict[str, list[tuple[str, str]]]:
    return {
        config.template.data["CapacityReservationSpecification"]["CapacityReservationTarget"][
            "CapacityReservationId"
        ]: [(each["InstanceType"], each["AvailabilityZone"]) for each in config.overrides]
        for config in made.configs
    }


def test_each_reservation_has_a_template_of_its_own() -> None:
    made = split(
        launch_types("m5.large", "m5.xlarge"),
        reserved("m5.large", 1, 5),
        reserved("m5.large", 2, 1, "b"),
        reserved("m5.xlarge", 3, 1),
        spec=TERMS,
        capacity_type="reserved",
    )
    assert targets(made) == {
        "cr-1": [("m5.large", "us-east-1a")],
        "cr-2": [("m5.large", "us-east-1b")],
        "cr-3": [("m5.xlarge", "us-east-1a")],
    }


def test_of_equal_reservations_the_most_available_is_targeted() -> None:
    made = split(
        launch_types("m5.large"),
        reserved("m5.large", 1, 2),
        reserved("m5.large", 2, 7),
        reserved("m5.large", 3, 7),
        spec=TERMS,
        capacity_type="reserved",
    )
    assert list(targets(made)) == ["cr-2"]


def test_full_reservations_are_left_out() -> None:
    made = split(
        launch_types("m5.large"),
        reserved("m5.large", 1, 0),
        spec=TERMS,
        capacity_type="reserved",
    )
    assert made.configs == ()


def test_of_two_subnets_of_a_zone_one_is_used() -> None:
    both = [
        subnet_offering("m5.large"),
        msgspec.structs.replace(subnet_offering("m5.large"), subnet="subnet-z"),
    ]
    assert [each.subnet for each in one_per_type_and_zone(reversed(both))] == ["subnet-a"]


def test_a_disk_sized_to_the_pods_is_set_in_the_override() -> None:
    settings = NodeClassSettings(options=CatalogOptions(storage_per_pod=2 * 2**30))
    made = split(launch_types("m5.large", "m5.xlarge", settings=settings))
    found = {
        each["InstanceType"]: each["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"]
        for each in overrides(made)
    }
    assert found == {"m5.large": 66, "m5.xlarge": 130}
    assert len(made.configs) == 1


SOME = ["m5.large", "m5.xlarge", "m6g.large", "g5.xlarge", "t3.large"]
KNOWN = launch_types(*SOME)
OFFERS = st.lists(
    st.builds(
        subnet_offering,
        st.sampled_from(SOME),
        st.sampled_from("abc"),
        st.floats(0.01, 9),
    ),
    min_size=1,
    max_size=12,
)


@given(OFFERS, st.permutations(SOME), st.randoms(use_true_random=False))
def test_every_type_and_zone_is_there_once_whatever_the_order(
    offerings: list[SubnetOffering], names: list[str], random: Any
) -> None:
    known = KNOWN
    made = split(known, *offerings)
    wanted = {(each.instance_type, each.zone) for each in offerings}
    assert {(each["InstanceType"], each["AvailabilityZone"]) for each in overrides(made)} == wanted
    random.shuffle(offerings)
    assert split({name: known[name] for name in names}, *offerings) == made


def test_user_data_is_for_the_family() -> None:
    made = split(launch_types("m5.large"))
    kinds_found = [each.get_content_type() for each in message_from_string(text(made)).walk()]
    assert kinds_found == ["multipart/mixed", "application/node.eks.aws"]


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
