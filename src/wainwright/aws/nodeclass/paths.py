"""Paths: the SSM parameters under which AWS publishes its images for Kubernetes.

An alias such as al2023@latest stands for several images: one for each architecture and each kind of
machine. Which of them a machine boots is said by requirements on its labels.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from wainwright.catalogue.ami import AmiFamily
from wainwright.model.labels import (
    ARCH,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_GPU_COUNT,
    OS,
    WINDOWS_BUILD,
)
from wainwright.model.requirements import Entry

LATEST: Final = "latest"
ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
"""As EC2 spells them, and as Kubernetes does."""

STANDARD: Final[Sequence[Entry]] = (
    (INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", (), None),
    (INSTANCE_GPU_COUNT, "DoesNotExist", (), None),
)
NVIDIA: Final[Sequence[Entry]] = (
    (INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", (), None),
    (INSTANCE_GPU_COUNT, "Exists", (), None),
)
NEURON: Final[Sequence[Entry]] = (
    (INSTANCE_ACCELERATOR_COUNT, "Exists", (), None),
    (INSTANCE_GPU_COUNT, "DoesNotExist", (), None),
)
LAST_AL2: Final = (1, 32)
FIRST_WINDOWS2025: Final = (1, 35)
EKS: Final = "/aws/service/eks/optimized-ami"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter that holds the id of an image, and what the image is for."""

    parameter: str
    kinds: tuple[Sequence[Entry], ...] = (STANDARD,)
    mutable: bool = False
    """Whether the parameter will point to another image one day."""


def published(alias: str, version: str) -> list[Published]:
    """What an alias stands for on that version of Kubernetes."""
    family, _, release = alias.partition("@")
    newest = release == LATEST
    match family.lower():
        case "al2023":
            found = _al2023(version, release)
        case "al2":
            found = _al2(version, release)
        case "bottlerocket":
            found = _bottlerocket(version, release.removeprefix("v"))
        case windows:
            found = _windows(version, windows.removeprefix("windows"))
    return [msgspec.structs.replace(each, mutable=newest) for each in found]


def unpublished(alias: str, version: str) -> str:
    """Why there are no such images for this version of Kubernetes; empty where there are."""
    family = alias.partition("@")[0].lower()
    number = _number(version)
    if family == "al2" and number > LAST_AL2:
        return f"Amazon Linux 2 has no images for Kubernetes {version}, only up to 1.32: use al2023"
    if family == "windows2025" and number < FIRST_WINDOWS2025:
        return f"Windows 2025 has no images for Kubernetes {version}, only from 1.35 on"
    return ""


def system(family: AmiFamily) -> Iterator[Entry]:
    """What is asked of machines for the sake of the operating system."""
    build = family.traits.windows_build
    if build:
        yield (OS, "In", ("windows",), None)
        yield (WINDOWS_BUILD, "In", (build,), None)


def architecture(name: str) -> Entry | None:
    """What an image asks of machines; None for one that no node can boot."""
    spelt = ARCHITECTURES.get(name)
    return None if spelt is None else (ARCH, "In", (spelt,), None)


def _al2023(version: str, release: str) -> list[Published]:
    variants = (
        ("x86_64", "standard", STANDARD),
        ("arm64", "standard", STANDARD),
        ("x86_64", "nvidia", NVIDIA),
        ("arm64", "nvidia", NVIDIA),
        ("x86_64", "neuron", NEURON),
    )
    return [
        Published(
            parameter=f"{EKS}/{version}/amazon-linux-2023/{cpu}/{variant}/"
            + _release(release, f"amazon-eks-node-al2023-{cpu}-{variant}-{version}"),
            kinds=(kind,),
        )
        for cpu, variant, kind in variants
    ]


def _al2(version: str, release: str) -> list[Published]:
    """The image with drivers has those of NVIDIA and of AWS."""
    variants = (
        ("", "", (STANDARD,)),
        ("-arm64", "arm64-", (STANDARD,)),
        ("-gpu", "gpu-", (NVIDIA, NEURON)),
    )
    return [
        Published(
            parameter=f"{EKS}/{version}/amazon-linux-2{folder}/"
            + _release(release, f"amazon-eks-{word}node-{version}"),
            kinds=kinds,
        )
        for folder, word, kinds in variants
    ]


def _bottlerocket(version: str, release: str) -> list[Published]:
    """Without the driver of NVIDIA the one image is also for the accelerators of AWS."""
    variants = (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    )
    folder = f"/aws/service/bottlerocket/aws-k8s-{version}"
    return [
        Published(parameter=f"{folder}{ending}/{cpu}/{release}/image_id", kinds=kinds)
        for ending, cpu, kinds in variants
    ]


def _windows(version: str, year: str) -> list[Published]:
    name = f"Windows_Server-{year}-English-Core-EKS_Optimized-{version}"
    return [Published(parameter=f"/aws/service/ami-windows-latest/{name}/image_id")]


def _release(release: str, name: str) -> str:
    return "recommended/image_id" if release == LATEST else f"{name}-{release}/image_id"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
