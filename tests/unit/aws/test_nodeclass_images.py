"""Images of a class: by alias, id, name, owner, tags, parameter; newest first; who boots what."""

from typing import Any

import pytest
from tests.support.awsclasses import Bench, message, node_class, told
from tests.support.seams import Scripted, on_time

from wainwright.aws.account import Account
from wainwright.aws.cluster import Cluster, Facts
from wainwright.aws.nodeclass.conditions import AMI_DEPRECATED, AMIS
from wainwright.aws.nodeclass.images import Images
from wainwright.aws.nodeclass.parameters import Parameters
from wainwright.aws.nodeclass.resolved import Image, Resolved, status
from wainwright.aws.seam import Answer, Params
from wainwright.catalogue import builtin
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.labels import machine_labels
from wainwright.clock import EPOCH, VirtualClock
from wainwright.emulator.settings import Settings
from wainwright.model.requirements import Requirements

DAY = 86400.0


def resolved(version: str = "1.31", **spec: Any) -> Resolved:
    async def main(clock: VirtualClock) -> Resolved:
        bench = Bench(clock, settings=Settings(kubernetes=version))
        return await bench.resolve(node_class(**spec))

    return on_time(main)


def booted(found: Resolved, family: AmiFamily, *types: str) -> list[str]:
    """The names of the images that machines of these types boot."""
    names = []
    for kind in types:
        labels = machine_labels(builtin.machines()[kind], family.traits, "us-east-1")
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
def test_each_machine_boots_the_image_that_is_for_it(
    alias: str, family: AmiFamily, expected: dict[str, str]
) -> None:
    found = resolved(amiSelectorTerms=[{"alias": alias}])
    assert told(found, AMIS)[0] == "True"
    assert booted(found, family, *expected) == list(expected.values())


def test_bottlerocket_has_one_image_for_accelerators_and_ordinary_machines() -> None:
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
def test_an_alias_without_images_is_said(alias: str, version: str, why: str) -> None:
    found = resolved(version, amiSelectorTerms=[{"alias": alias}])
    assert told(found, AMIS) == ("False", "AMINotFound")
    assert why in message(found, AMIS)
    assert told(found, "Ready") == ("False", "UnhealthyDependents")
    assert found.images == ()


def test_the_version_stated_goes_before_that_of_eks() -> None:
    async def main(clock: VirtualClock) -> Resolved:
        bench = Bench(clock, settings=Settings(kubernetes="1.31"), kubernetes_version="1.29")
        return await bench.resolve(node_class())

    assert "1.29" in on_time(main).images[0].name


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
    seam = Scripted(
        {
            "DescribeImages": {"Images": rows},
            "GetParameter": {"Parameter": {"Value": "ami-parameter"}},
        }
    )

    async def main(clock: VirtualClock) -> tuple[Image, ...]:
        aws = Account(seam)
        facts = Facts(aws.eks, Cluster(name="wain", region="us-east-1"), clock)
        images = Images(aws.ec2, Parameters(aws.ssm, clock), facts, clock)
        wanted = node_class(amiFamily="Custom", amiSelectorTerms=terms)
        return (await images.find(wanted)).value

    found = on_time(main)
    return [each.id for each in found], seam.asked("DescribeImages")[-1]


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


def test_of_those_for_the_same_machines_the_newest_counts() -> None:
    rows = [
        image("ami-old", CreationDate="2024-01-01T00:00:00.000Z"),
        image("ami-new", CreationDate="2025-12-01T00:00:00.000Z"),
        image("ami-middle"),
        image("ami-arm", Architecture="arm64", CreationDate="2020-01-01T00:00:00.000Z"),
    ]
    assert found_by([{"name": "*"}], rows)[0] == ["ami-new", "ami-arm"]


def test_a_deprecated_image_counts_only_where_there_is_no_other() -> None:
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


def test_an_image_of_unknown_architecture_is_for_nobody() -> None:
    rows = [image("ami-1", Architecture="i386"), image("ami-2", Architecture="")]
    assert found_by([{"name": "*"}], rows)[0] == []


def test_a_class_on_a_deprecated_image_says_so_and_is_ready_all_the_same() -> None:
    async def main(clock: VirtualClock) -> Resolved:
        bench = Bench(clock, settings=Settings(kubernetes="1.31"))
        pinned = (await bench.resolve(node_class())).images[0].id
        await clock.sleep(800 * DAY)
        wanted = node_class(amiFamily="AL2023", amiSelectorTerms=[{"id": pinned}])
        return await bench.resolve(wanted)

    found = on_time(main)
    assert told(found, AMI_DEPRECATED) == ("True", AMI_DEPRECATED)
    assert told(found, AMIS)[0] == "True"
    assert found.ready
    assert [each.deprecated for each in status(found).amis or []] == [True]


def test_a_parameter_is_asked_for_once_a_day_unless_its_image_was_withdrawn() -> None:
    images = {"ami-1": "2026-01-01T06:00:00.000Z", "ami-2": "2030-01-01T00:00:00.000Z"}
    current = "ami-1"

    def parameter(params: Params) -> Answer:
        return {"Parameter": {"Name": params["Name"], "Value": current}}

    def describe(params: Params) -> Answer:
        ids = params["Filters"][0]["Values"]
        return {"Images": [image(each, DeprecationTime=images[each]) for each in ids]}

    seam = Scripted(
        {
            "GetParameter": parameter,
            "DescribeImages": describe,
            "DescribeCluster": {"cluster": {"version": "1.31"}},
        }
    )

    async def main(clock: VirtualClock) -> list[tuple[int, str, int]]:
        nonlocal current
        aws = Account(seam)
        facts = Facts(aws.eks, Cluster(name="wain", region="us-east-1"), clock)
        images = Images(aws.ec2, Parameters(aws.ssm, clock), facts, clock)
        wanted = node_class(amiSelectorTerms=[{"alias": "windows2022@latest"}])
        seen = []
        for hour in (0, 1, 5, 7, 8, 9, 20, 33, 34):
            await clock.sleep(EPOCH + hour * 3600 - clock.now())
            current = "ami-2" if hour > 4 else "ami-1"
            found = await images.find(wanted)
            seen.append((hour, found.value[0].id, len(seam.asked("GetParameter"))))
        return seen

    assert on_time(main) == [
        (0, "ami-1", 1),
        (1, "ami-1", 1),
        (5, "ami-1", 1),
        (7, "ami-1", 1),  # now deprecated, and so doubted
        (8, "ami-2", 2),
        (9, "ami-2", 2),
        (20, "ami-2", 2),
        (33, "ami-2", 3),  # a day later
        (34, "ami-2", 3),
    ]
