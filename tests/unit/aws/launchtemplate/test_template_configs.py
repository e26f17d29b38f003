"""A launch divided among templates: as many as it needs, and not one for an InstanceType object."""

import tomllib
from base64 import b64decode
from email import message_from_string
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import aws_account

from wainwright.api.karpenter.ec2nodeclass import (
    AMISelectorTerm,
    CapacityReservationSelectorTerm,
    EC2NodeClassSpec,
    NetworkInterface,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from wainwright.aws.launchtemplate.template_configs import (
    LaunchInstanceType,
    LaunchSpec,
    SubnetOffering,
    TemplateSplit,
    launch_instance_type,
    max_pods_mismatches,
    one_per_type_and_zone,
    split_by_template,
)
from wainwright.aws.launchtemplate.template_data import SharedTemplateSettings, TargetReservation
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
    cidr="10.100.0.0/16",
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


def kinds(
    *names: str, settings: NodeClassSettings | None = None, **pods: int
) -> dict[str, LaunchInstanceType]:
    """Types of the catalogue; `pods` are those of InstanceType objects, dots as underscores."""
    used = settings or NodeClassSettings()
    declared = {name.replace("_", "."): amount for name, amount in pods.items()}
    described = type_requirements("us-east-1", used.ami_family.traits)
    made = {}
    for name in names:
        machine = instance_type_info.built_in_instance_types()[name]
        override = ResourceOverride(resources={"pods": declared[name]} if name in declared else {})
        held = to_node_resources(derive_resources(machine, used, override))
        made[name] = launch_instance_type(machine, held, described[name], used)
    return made


def offer(name: str, zone: str = "a", price: float = 1.0, **more: Any) -> SubnetOffering:
    return SubnetOffering(
        kind=name, zone=f"us-east-1{zone}", subnet=f"subnet-{zone}", price=price, **more
    )


def divided(
    known: dict[str, LaunchInstanceType],
    *offers: SubnetOffering,
    family: AmiFamily = AmiFamily.AL2023,
    spec: dict[str, Any] | None = None,
    bootstrap: BootstrapOptions = BOOTSTRAP,
    capacity_type: str = "on-demand",
    **more: Any,
) -> TemplateSplit:
    common = SharedTemplateSettings(
        spec=msgspec.structs.replace(SPEC, **(spec or {})),
        family=family,
        groups=("sg-1",),
        profile="wain_profile",
        tags={"team": "web"},
        capacity_type=capacity_type,
    )
    made = split_by_template(
        LaunchSpec(
            common=common,
            bootstrap=bootstrap,
            images=more.pop("images", IMAGES),
            kinds=known,
            offers=offers or tuple(offer(name) for name in known),
            **more,
        )
    )
    check(made)
    return made


def check(made: TemplateSplit) -> None:
    """As botocore would; and no type and zone twice, which EC2 refuses."""
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
    made = divided(kinds("m5.large", "m6g.large", "g5.xlarge", "c5.large"))
    assert groups(made) == {
        "ami-amd": ["c5.large", "m5.large"],
        "ami-arm": ["m6g.large"],
        "ami-gpu": ["g5.xlarge"],
    }


def test_a_type_without_an_image_is_left_out_with_a_word() -> None:
    made = divided(kinds("m5.large", "m6g.large"), images=IMAGES[:2])
    assert groups(made) == {"ami-amd": ["m5.large"]}
    assert made.remarks == ("m6g.large is left out: no image of the class is made for it",)


def test_an_override_names_type_subnet_zone_and_image() -> None:
    made = divided(kinds("m5.large"), offer("m5.large", "b", 0.1))
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


def test_prices_are_handed_on_where_they_are_not_ec2s() -> None:
    made = divided(kinds("m5.large"), offer("m5.large", price=0.25), prioritised=True)
    assert overrides(made)[0]["Priority"] == 0.25


def test_instance_type_objects_never_divide() -> None:
    plain = kinds("m5.large", "c5.large", "m5.xlarge")
    changed = kinds("m5.large", "c5.large", "m5.xlarge", m5_large=10, c5_large=20)
    assert len(divided(plain).configs) == len(divided(changed).configs) == 1
    rows = text(divided(changed)).splitlines()
    kept = {"c5.large=20=memory=475Mi", "m5.large=10=memory=365Mi"}
    assert kept | {"m5.xlarge=58", "*=10"} <= set(rows)


def test_a_template_does_not_depend_on_the_types_of_the_launch() -> None:
    known = kinds("m5.large", "c5.large", "m5.xlarge")
    one = divided(known, offer("m5.large"))
    other = divided(known, offer("c5.large"), offer("m5.xlarge"))
    assert one.configs[0].template.name == other.configs[0].template.name


def test_the_table_is_cut_down_where_the_users_text_is_long() -> None:
    sold = type_requirements("us-east-1", AmiFamily.AL2023.traits)
    known = kinds(
        *(
            name
            for name in sold
            if instance_type_info.built_in_instance_types()[name].architecture == "amd64"
        )
    )
    long = msgspec.structs.replace(BOOTSTRAP, text="#!/bin/bash\n" + "#" * 12_000)
    made = divided(known, offer("m5.large"), offer("t3.large"), bootstrap=long)
    rows = text(made).partition("begin\n")[2].partition("\n# wain")[0].splitlines()
    assert rows == ["t3.large=35", "*=29"]
    assert len(text(divided(known, offer("m5.large")))) < 11_000


def test_a_class_with_a_warning_passes_it_on() -> None:
    long = msgspec.structs.replace(BOOTSTRAP, text="#!/bin/bash\n" + "#" * 14_500)
    assert "bytes that EC2 allows" in divided(kinds("m5.large"), bootstrap=long).remarks[0]


def test_the_capacity_type_becomes_a_label() -> None:
    made = divided(kinds("m5.large"), capacity_type="spot")
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


def test_bottlerocket_reckons_itself_where_the_class_is_silent() -> None:
    made = divided(kinds("m5.large", "m5.xlarge", settings=ROCKET), family=AmiFamily.BOTTLEROCKET)
    assert rocket_pods(made) == {"m5.large": None, "m5.xlarge": None}
    assert len(made.configs) == 1


def test_bottlerocket_is_told_the_number_of_the_class() -> None:
    settings = NodeClassSettings(
        ami_family=AmiFamily.BOTTLEROCKET, kubelet=KubeletSettings(max_pods=42)
    )
    bootstrap = msgspec.structs.replace(BOOTSTRAP, max_pods=42)
    known = kinds("m5.large", "m5.xlarge", settings=settings, m5_xlarge=50)
    made = divided(known, family=AmiFamily.BOTTLEROCKET, bootstrap=bootstrap)
    assert rocket_pods(made) == {"m5.large": 42, "m5.xlarge": 42}
    assert made.remarks == ()


@pytest.mark.parametrize("pods", [10, 200])
def test_types_that_bottlerocket_cannot_be_told_are_left_out(pods: int) -> None:
    known = kinds("m5.large", "m5.xlarge", settings=ROCKET, m5_xlarge=pods)
    made = divided(known, family=AmiFamily.BOTTLEROCKET)
    assert rocket_pods(made) == {"m5.large": None}
    assert made.remarks == (
        f"m5.xlarge is left out: its InstanceType object says {pods} pods, "
        "but Bottlerocket cannot be told by type and would take 58",
    )
    assert list(max_pods_mismatches(AmiFamily.BOTTLEROCKET, known.values())) == ["m5.xlarge"]
    assert max_pods_mismatches(AmiFamily.AL2023, known.values()) == {}


def test_reserved_interfaces_divide_bottlerocket_by_number() -> None:
    settings = msgspec.structs.replace(ROCKET, options=CatalogOptions(reserved_enis=1))
    known = kinds("m5.large", "c5.large", "m5.xlarge", settings=settings)
    made = divided(known, family=AmiFamily.BOTTLEROCKET)
    assert rocket_pods(made) == {"m5.large": 20, "c5.large": 20, "m5.xlarge": 44}
    assert len(made.configs) == 2


# Interfaces for EFA


def test_types_are_divided_by_their_efa_interfaces_when_pods_ask_for_them() -> None:
    known = kinds("c6in.32xlarge", "c5n.18xlarge", "m5n.24xlarge")
    assert len(divided(known).configs) == 1
    made = divided(known, efa=True)
    found = [
        ([each["InstanceType"] for each in config.overrides], len(interfaces(config.template.data)))
        for config in made.configs
    ]
    assert found == [(["c5n.18xlarge", "m5n.24xlarge"], 1), (["c6in.32xlarge"], 2)]


def interfaces(data: Any) -> list[Any]:
    found: list[Any] = data["NetworkInterfaces"]
    return found


def test_a_class_with_interfaces_of_its_own_is_not_divided() -> None:
    listed = [NetworkInterface(networkCardIndex=0, deviceIndex=0, interfaceType="interface")]
    known = kinds("c6in.32xlarge", "c5n.18xlarge")
    made = divided(known, efa=True, spec={"networkInterfaces": listed})
    assert len(made.configs) == 1


# Reservations


def reserved(
    name: str, number: int, free: int, zone: str = "a", price: float = 0.0
) -> SubnetOffering:
    return offer(name, zone, price, reservation=TargetReservation(id=f"cr-{number}", free=free))


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
    made = divided(
        kinds("m5.large", "m5.xlarge"),
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


def test_of_equal_reservations_that_with_most_room_is_taken() -> None:
    made = divided(
        kinds("m5.large"),
        reserved("m5.large", 1, 2),
        reserved("m5.large", 2, 7),
        reserved("m5.large", 3, 7),
        spec=TERMS,
        capacity_type="reserved",
    )
    assert list(targets(made)) == ["cr-2"]


def test_full_reservations_are_left_out() -> None:
    made = divided(
        kinds("m5.large"),
        reserved("m5.large", 1, 0),
        spec=TERMS,
        capacity_type="reserved",
    )
    assert made.configs == ()


def test_of_two_subnets_of_a_zone_one_is_taken() -> None:
    both = [offer("m5.large"), msgspec.structs.replace(offer("m5.large"), subnet="subnet-z")]
    assert [each.subnet for each in one_per_type_and_zone(reversed(both))] == ["subnet-a"]


def test_a_disk_sized_to_the_pods_travels_with_its_type() -> None:
    settings = NodeClassSettings(options=CatalogOptions(storage_per_pod=2 * 2**30))
    made = divided(kinds("m5.large", "m5.xlarge", settings=settings))
    found = {
        each["InstanceType"]: each["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"]
        for each in overrides(made)
    }
    assert found == {"m5.large": 66, "m5.xlarge": 130}
    assert len(made.configs) == 1


SOME = ["m5.large", "m5.xlarge", "m6g.large", "g5.xlarge", "t3.large"]
KNOWN = kinds(*SOME)
OFFERS = st.lists(
    st.builds(
        offer,
        st.sampled_from(SOME),
        st.sampled_from("abc"),
        st.floats(0.01, 9),
    ),
    min_size=1,
    max_size=12,
)


@given(OFFERS, st.permutations(SOME), st.randoms(use_true_random=False))
def test_every_pool_is_there_once_whatever_the_order(
    offers: list[SubnetOffering], names: list[str], random: Any
) -> None:
    known = KNOWN
    made = divided(known, *offers)
    wanted = {(each.kind, each.zone) for each in offers}
    assert {(each["InstanceType"], each["AvailabilityZone"]) for each in overrides(made)} == wanted
    random.shuffle(offers)
    assert divided({name: known[name] for name in names}, *offers) == made


def test_user_data_is_for_the_family() -> None:
    made = divided(kinds("m5.large"))
    kinds_found = [each.get_content_type() for each in message_from_string(text(made)).walk()]
    assert kinds_found == ["multipart/mixed", "application/node.eks.aws"]
