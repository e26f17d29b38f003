"""Aliases: which parameters they stand for, on which machines, and where there are no images."""

import pytest

from wainwright.aws.nodeclass.paths import published, unpublished
from wainwright.emulator.services.public_images import VERSIONS, parameters

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
    assert [each.parameter for each in published(alias, "1.31")] == expected


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
@pytest.mark.parametrize("version", VERSIONS)
def test_every_parameter_is_published_unless_we_say_why_not(alias: str, version: str) -> None:
    known = parameters("us-east-1")
    missing = [each.parameter for each in published(alias, version) if each.parameter not in known]
    assert bool(missing) is bool(unpublished(alias, version))


def test_only_the_latest_moves_on() -> None:
    assert all(each.mutable for each in published("al2023@latest", "1.31"))
    assert not any(each.mutable for each in published("al2023@v20251218", "1.31"))


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
def test_some_families_end_or_begin_with_a_version(alias: str, version: str, works: bool) -> None:
    assert (unpublished(alias, version) == "") is works
