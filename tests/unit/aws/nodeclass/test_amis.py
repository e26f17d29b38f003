"""AMIs of a class: by alias, id, name, owner, tags, parameter; newest first; what boots what."""

from typing import Any

import pytest
from tests.support.aws_account import (
    ResolverBench,
    ScriptedApi,
    condition_message,
    condition_status,
    discovered_node_class,
    run_in_virtual_time,
)

from wainwright.aws.api.services import AwsResponse, AwsServices, Params
from wainwright.aws.cluster_config import ClusterConfig, ClusterInfoProvider
from wainwright.aws.nodeclass.amis import (
    AmiProvider,
    SsmParameterCache,
    not_published_reason,
    published_amis,
)
from wainwright.aws.nodeclass.status import (
    AMI_DEPRECATED,
    AMIS_READY,
    ResolvedImage,
    ResolvedNodeClass,
    to_status,
)
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily
from wainwright.catalogue.instancetypes.type_labels import instance_type_labels
from wainwright.clock import EPOCH, VirtualClock
from wainwright.emulator.services.public_images import KUBERNETES_VERSIONS, list_public_parameters
from wainwright.emulator.settings import EmulatorSettings
from wainwright.model.requirements import Requirements

EKS = "/aws/service/eks/optimized-ami/1.31"


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        (
            "al2023@latest",
            [
                f"{EKS}/amazon-linux-2023/x86_64/standard/recommended/image_id",
                f"{EKS}/amazon-linux-2023/arm64/standard/recommended/image_id",
                f"{EKS}/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
                f"{EKS}/amazon-linux-2023/arm64/nvidia/recommended/image_id",
                f"{EKS}/amazon-linux-2023/x86_64/neuron/recommended/image_id",
            ],
        ),
        (
            "al2@v20251218",
            [
                f"{EKS}/amazon-linux-2/amazon-eks-node-1.31-v20251218/image_id",
                f"{EKS}/amazon-linux-2-arm64/amazon-eks-arm64-node-1.31-v20251218/image_id",
                f"{EKS}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.31-v20251218/image_id",
            ],
        ),
        (
            "bottlerocket@v1.50.0",
            [
                "/aws/service/bottlerocket/aws-k8s-1.31/x86_64/1.50.0/image_id",
                "/aws/service/bottlerocket/aws-k8s-1.31/arm64/1.50.0/image_id",
                "/aws/service/bottlerocket/aws-k8s-1.31-nvidia/x86_64/1.50.0/image_id",
                "/aws/service/bottlerocket/aws-k8s-1.31-nvidia/arm64/1.50.0/image_id",
            ],
        ),
        (
            "windows2022@latest",
            [
                "/aws/service/ami-windows-latest/"
                "Windows_Server-2022-English-Core-EKS_Optimized-1.31/image_id"
            ],
        ),
    ],
)
def test_an_alias_stands_for_its_parameters(alias: str, expected: list[str]) -> None:
    assert [each.parameter for each in published_amis(alias, "1.31")] == expected


@pytest.mark.parametrize(
    "alias",
    [
        "al2@latest",
        "al2@v20251120",
        "al2023@latest",
        "al2023@v20251120",
        "bottlerocket@latest",
        "bottlerocket@v1.50.0",
        "windows2019@latest",
        "windows2022@latest",
        "windows2025@latest",
    ],
)
@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_parameter_is_published_unless_we_say_why_not(alias: str, version: str) -> None:
    known = list_public_parameters("us-east-1")
    missing = [
        each.parameter for each in published_amis(alias, version) if each.parameter not in known
    ]
    assert bool(missing) is bool(not_published_reason(alias, version))


def test_only_parameters_of_latest_are_mutable() -> None:
    assert all(each.mutable for each in published_amis("al2023@latest", "1.31"))
    assert not any(each.mutable for each in published_amis("al2023@v20251218", "1.31"))


@pytest.mark.parametrize(
    ("alias", "version", "works"),
    [
        ("al2@latest", "1.32", True),
        ("al2@latest", "1.33", False),
        ("al2@latest", "2.0", False),
        ("al2023@latest", "1.36", True),
        ("windows2025@latest", "1.34", False),
        ("windows2025@latest", "1.35", True),
        ("windows2019@latest", "1.26", True),
    ],
)
def test_some_families_exist_only_for_some_kubernetes_versions(
    alias: str, version: str, works: bool
) -> None:
    assert (not_published_reason(alias, version) == "") is works


DAY = 86400.0


def resolved(version: str = "1.31", **spec: Any) -> ResolvedNodeClass:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        bench = ResolverBench(clock, settings=EmulatorSettings(kubernetes=version))
        return await bench.resolve(discovered_node_class(**spec))

    return run_in_virtual_time(main)


def booted(found: ResolvedNodeClass, family: AmiFamily, *types: str) -> list[str]:
    """The names of the images that instances of these types boot."""
    names = []
    for kind in types:
        labels = instance_type_labels(
            instance_type_info.built_in_instance_types()[kind], family.traits, "us-east-1"
        )
        entries = [(key, "In", values, None) for key, values in labels.items()]
        image = found.image_for(Requirements.from_entries(entries))
        names.append("" if image is None else image.name)
    return names


@pytest.mark.parametrize(
    ("alias", "family", "expected"),
    [
        (
            "al2023@latest",
            AmiFamily.AL2023,
            {
                "m5.large": "amazon-eks-node-al2023-x86_64-standard-1.31-v20251218",
                "m6g.large": "amazon-eks-node-al2023-arm64-standard-1.31-v20251218",
                "g5.xlarge": "amazon-eks-node-al2023-x86_64-nvidia-1.31-v20251218",
                "g5g.xlarge": "amazon-eks-node-al2023-arm64-nvidia-1.31-v20251218",
                "inf2.xlarge": "amazon-eks-node-al2023-x86_64-neuron-1.31-v20251218",
            },
        ),
        (
            "al2@v20251120",
            AmiFamily.AL2,
            {
                "m5.large": "amazon-eks-node-1.31-v20251120",
                "m6g.large": "amazon-eks-arm64-node-1.31-v20251120",
                "g5.xlarge": "amazon-eks-gpu-node-1.31-v20251120",
                "g5g.xlarge": "",
                "inf2.xlarge": "amazon-eks-gpu-node-1.31-v20251120",
            },
        ),
        (
            "windows2022@latest",
            AmiFamily.WINDOWS2022,
            {
                "m5.large": "Windows_Server-2022-English-Core-EKS_Optimized-1.31-2025.12.18",
                "m6g.large": "",
            },
        ),
    ],
)
def test_each_instance_type_boots_its_image(
    alias: str, family: AmiFamily, expected: dict[str, str]
) -> None:
    found = resolved(amiSelectorTerms=[{"alias": alias}])
    assert condition_status(found, AMIS_READY)[0] == "True"
    assert booted(found, family, *expected) == list(expected.values())


def test_bottlerocket_has_one_image_for_neuron_and_ordinary_types() -> None:
    found = resolved(amiSelectorTerms=[{"alias": "bottlerocket@latest"}])
    plain, neuron, nvidia = booted(
        found, AmiFamily.BOTTLEROCKET, "m5.large", "inf2.xlarge", "g5.xlarge"
    )
    assert plain == neuron
    assert plain.startswith("bottlerocket-aws-k8s-1.31-x86_64-v1.51.0")
    assert nvidia.startswith("bottlerocket-aws-k8s-1.31-nvidia-x86_64-v1.51.0")


@pytest.mark.parametrize(
    ("alias", "version", "why"),
    [
        ("al2@latest", "1.33", "Amazon Linux 2 has no images for Kubernetes 1.33"),
        ("windows2025@latest", "1.34", "Windows 2025 has no images for Kubernetes 1.34"),
        ("al2023@v19990101", "1.31", "select no image"),
    ],
)
def test_an_alias_without_images_is_reported(alias: str, version: str, why: str) -> None:
    found = resolved(version, amiSelectorTerms=[{"alias": alias}])
    assert condition_status(found, AMIS_READY) == ("False", "AMINotFound")
    assert why in condition_message(found, AMIS_READY)
    assert condition_status(found, "Ready") == ("False", "UnhealthyDependents")
    assert found.images == ()


def test_the_configured_version_takes_precedence_over_eks() -> None:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        bench = ResolverBench(
            clock, settings=EmulatorSettings(kubernetes="1.31"), kubernetes_version="1.29"
        )
        return await bench.resolve(discovered_node_class())

    assert "1.29" in run_in_virtual_time(main).images[0].name


def image(identity: str, **fields: Any) -> dict[str, Any]:
    return {
        "ImageId": identity,
        "Name": identity,
        "Architecture": "x86_64",
        "CreationDate": "2025-06-01T00:00:00.000Z",
        **fields,
    }


def found_by(terms: list[dict[str, Any]], rows: list[dict[str, Any]]) -> tuple[list[str], Params]:
    """Ids of the images, and the last DescribeImages call."""
    seam = ScriptedApi(
        {
            "DescribeImages": {"Images": rows},
            "GetParameter": {"Parameter": {"Value": "ami-parameter"}},
        }
    )

    async def main(clock: VirtualClock) -> tuple[ResolvedImage, ...]:
        aws = AwsServices(seam)
        facts = ClusterInfoProvider(aws.eks, ClusterConfig(name="wain", region="us-east-1"), clock)
        images = AmiProvider(aws.ec2, SsmParameterCache(aws.ssm, clock), facts, clock)
        wanted = discovered_node_class(amiFamily="Custom", amiSelectorTerms=terms)
        return (await images.find(wanted)).value

    found = run_in_virtual_time(main)
    return [each.id for each in found], seam.calls_to("DescribeImages")[-1]


STATE = {"Name": "state", "Values": ["available"]}


@pytest.mark.parametrize(
    ("terms", "filters", "owners"),
    [
        (
            [{"id": "ami-2"}, {"id": "ami-1"}],
            [{"Name": "image-id", "Values": ["ami-1", "ami-2"]}],
            None,
        ),
        ([{"name": "my-*"}], [{"Name": "name", "Values": ["my-*"]}], ["self", "amazon"]),
        (
            [{"name": "my-*", "owner": "111122223333"}],
            [{"Name": "name", "Values": ["my-*"]}],
            ["111122223333"],
        ),
        (
            [{"tags": {"team": "web", "stage": "*"}}],
            [
                {"Name": "tag-key", "Values": ["stage"]},
                {"Name": "tag:team", "Values": ["web"]},
            ],
            ["self", "amazon"],
        ),
        (
            [{"ssmParameter": "/my/image"}],
            [{"Name": "image-id", "Values": ["ami-parameter"]}],
            None,
        ),
    ],
)
def test_terms_become_filters(
    terms: list[dict[str, Any]], filters: list[dict[str, Any]], owners: list[str] | None
) -> None:
    _, asked = found_by(terms, [])
    assert asked["Filters"] == [*filters, STATE]
    assert asked.get("Owners") == owners
    assert asked["IncludeDeprecated"] is True


def test_of_images_for_the_same_types_the_newest_is_used() -> None:
    rows = [
        image("ami-old", CreationDate="2024-01-01T00:00:00.000Z"),
        image("ami-new", CreationDate="2025-12-01T00:00:00.000Z"),
        image("ami-middle"),
        image("ami-arm", Architecture="arm64", CreationDate="2020-01-01T00:00:00.000Z"),
    ]
    assert found_by([{"name": "*"}], rows)[0] == ["ami-new", "ami-arm"]


def test_a_deprecated_image_is_used_only_if_there_is_no_other() -> None:
    rows = [
        image(
            "ami-deprecated",
            CreationDate="2025-12-01T00:00:00.000Z",
            DeprecationTime="2025-12-31T00:00:00.000Z",
        ),
        image("ami-current", DeprecationTime="2026-12-31T00:00:00.000Z"),
    ]
    assert found_by([{"name": "*"}], rows)[0] == ["ami-current"]
    assert found_by([{"name": "*"}], rows[:1])[0] == ["ami-deprecated"]


def test_an_image_of_unknown_architecture_is_ignored() -> None:
    rows = [image("ami-1", Architecture="i386"), image("ami-2", Architecture="")]
    assert found_by([{"name": "*"}], rows)[0] == []


def test_a_class_on_a_deprecated_image_has_a_condition_and_is_ready() -> None:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        bench = ResolverBench(clock, settings=EmulatorSettings(kubernetes="1.31"))
        pinned = (await bench.resolve(discovered_node_class())).images[0].id
        await clock.sleep(800 * DAY)
        wanted = discovered_node_class(amiFamily="AL2023", amiSelectorTerms=[{"id": pinned}])
        return await bench.resolve(wanted)

    found = run_in_virtual_time(main)
    assert condition_status(found, AMI_DEPRECATED) == ("True", AMI_DEPRECATED)
    assert condition_status(found, AMIS_READY)[0] == "True"
    assert found.is_ready
    assert [each.deprecated for each in to_status(found).amis or []] == [True]


def test_a_parameter_is_fetched_once_a_day_unless_its_image_is_deprecated() -> None:
    images = {"ami-1": "2026-01-01T06:00:00.000Z", "ami-2": "2030-01-01T00:00:00.000Z"}
    current = "ami-1"

    def parameter(params: Params) -> AwsResponse:
        return {"Parameter": {"Name": params["Name"], "Value": current}}

    def describe(params: Params) -> AwsResponse:
        ids = params["Filters"][0]["Values"]
        return {"Images": [image(each, DeprecationTime=images[each]) for each in ids]}

    seam = ScriptedApi(
        {
            "GetParameter": parameter,
            "DescribeImages": describe,
            "DescribeCluster": {"cluster": {"version": "1.31"}},
        }
    )

    async def main(clock: VirtualClock) -> list[tuple[int, str, int]]:
        nonlocal current
        aws = AwsServices(seam)
        facts = ClusterInfoProvider(aws.eks, ClusterConfig(name="wain", region="us-east-1"), clock)
        images = AmiProvider(aws.ec2, SsmParameterCache(aws.ssm, clock), facts, clock)
        wanted = discovered_node_class(amiSelectorTerms=[{"alias": "windows2022@latest"}])
        seen = []
        for hour in (0, 1, 5, 7, 8, 9, 20, 33, 34):
            await clock.sleep(EPOCH + hour * 3600 - clock.now())
            current = "ami-2" if hour > 4 else "ami-1"
            found = await images.find(wanted)
            seen.append((hour, found.value[0].id, len(seam.calls_to("GetParameter"))))
        return seen

    assert run_in_virtual_time(main) == [
        (0, "ami-1", 1),
        (1, "ami-1", 1),
        (5, "ami-1", 1),
        (7, "ami-1", 1),  # deprecated, so it is fetched again
        (8, "ami-2", 2),
        (9, "ami-2", 2),
        (20, "ami-2", 2),
        (33, "ami-2", 3),  # a day later
        (34, "ami-2", 3),
    ]
