"""Public images: the EKS images of every AMI family, and the SSM parameters that reference them.

Three releases of each, of which the newest is the recommended one, so that pinned versions and
drift to a new image can be tested. Names, paths and owners are those of AWS; ids are made from the
name and the region, so that they differ between regions and never between two runs.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

import msgspec

KUBERNETES_VERSIONS: Final = tuple(f"1.{minor}" for minor in range(26, 37))
"""Kubernetes versions; the last is the default of new clusters."""
LAST_AL2_MINOR: Final = 32
FIRST_WINDOWS_2025_MINOR: Final = 35

RELEASE_DATES: Final = ((2025, 10, 23), (2025, 11, 20), (2025, 12, 18))
"""Release dates of the images: before the start of virtual time."""
BOTTLEROCKET_VERSIONS: Final = ("1.49.0", "1.50.0", "1.51.0")
DEPRECATION_AGE: Final = timedelta(days=730)

EKS_ACCOUNT, BOTTLEROCKET_ACCOUNT, WINDOWS_ACCOUNT = "602401143452", "149721548608", "801119661308"
EKS_PARAMETER_PREFIX: Final = "/aws/service/eks/optimized-ami"


class PublicImage(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    architecture: str
    """As EC2 spells it: x86_64 or arm64."""
    created: float
    deprecated: float
    owner: str
    """The account; its alias is amazon."""
    description: str
    platform: str | None = None
    """windows, or None."""
    root_device: str = "/dev/xvda"
    disks: tuple[tuple[str, int], ...] = (("/dev/xvda", 20),)
    """Device names with their size in GiB."""
    parameters: tuple[tuple[str, str], ...] = ()
    """The SSM parameters of this image: path and value."""

    def mappings(self) -> list[dict[str, Any]]:
        """The disks as block device mappings of the API."""
        return [
            {
                "DeviceName": device,
                "Ebs": {"VolumeSize": size, "VolumeType": "gp3", "DeleteOnTermination": True},
            }
            for device, size in self.disks
        ]


@cache
def list_public_images(region: str) -> tuple[PublicImage, ...]:
    """All public images, the oldest release first; cached, as they depend on the region alone."""
    images: list[PublicImage] = []
    for number, date in enumerate(RELEASE_DATES):
        for version in KUBERNETES_VERSIONS:
            images += _release_images(
                _ImageRelease(
                    region,
                    version,
                    BOTTLEROCKET_VERSIONS[number],
                    datetime(*date, tzinfo=UTC),
                )
            )
    return tuple(images)


def list_alias_images(
    region: str, version: str, alias: str, published: datetime
) -> tuple[PublicImage, ...]:
    """The images of an alias for that version of Kubernetes.

    Those of `@latest` are published at that time and are the recommended ones; those of a pinned
    release have the day of its name, and nobody recommends them.
    """
    family, _, release = alias.partition("@")
    is_latest = release == "latest"
    number = f"1.{published:%Y%m.%d%H%M%S}" if is_latest else release.removeprefix("v")
    day = published if is_latest else _release_day(release, published)
    images = _images_of_family(_ImageRelease(region, version, number, day, is_latest), family)
    if is_latest:
        return images
    return tuple(
        msgspec.structs.replace(
            image,
            parameters=tuple(each for each in image.parameters if not _is_recommended(each[0])),
        )
        for image in images
    )


def _release_day(release: str, otherwise: datetime) -> datetime:
    try:
        return datetime.strptime(release, "v%Y%m%d").replace(tzinfo=UTC)
    except ValueError:
        return otherwise


def _is_recommended(parameter: str) -> bool:
    return parameter.split("/")[-2] in ("recommended", "latest")


def _images_of_family(release: "_ImageRelease", family: str) -> tuple[PublicImage, ...]:
    match family.lower():
        case "al2023":
            return tuple(_al2023_images(release))
        case "al2":
            return tuple(_al2_images(release))
        case "bottlerocket":
            return tuple(_bottlerocket_images(release))
        case windows:
            year = windows.removeprefix("windows")
            return tuple(each for each in _windows_images(release) if f"-{year}-" in each.name)


@cache
def list_public_parameters(region: str) -> Mapping[str, str]:
    """SSM parameters by path; where releases share a path the newest applies."""
    return MappingProxyType(
        {path: value for image in list_public_images(region) for path, value in image.parameters}
    )


class _ImageRelease(msgspec.Struct, frozen=True):
    """The images of one day for one version of Kubernetes."""

    region: str
    version: str
    bottlerocket: str
    """The release of Bottlerocket."""
    day: datetime
    several_a_day: bool = False
    """Whether names have the time of day too, so that each is another image."""

    @property
    def minor(self) -> int:
        return int(self.version.partition(".")[2])

    def image(
        self,
        name: str,
        architecture: str,
        *,
        folders: tuple[str, ...],
        parameters: Mapping[str, str],
        **fields: Any,
    ) -> PublicImage:
        """The image; each folder has an SSM parameter with its id and those of `parameters`."""
        identity = _image_id(self.region, name)
        values = {"image_id": identity, **parameters}
        return PublicImage(
            id=identity,
            name=name,
            architecture=architecture,
            created=self.day.timestamp(),
            deprecated=(self.day + DEPRECATION_AGE).timestamp(),
            parameters=tuple(
                (f"{folder}/{key}", value) for folder in folders for key, value in values.items()
            ),
            **fields,
        )


def _release_images(release: _ImageRelease) -> Iterator[PublicImage]:
    yield from _al2023_images(release)
    if release.minor <= LAST_AL2_MINOR:
        yield from _al2_images(release)
    yield from _bottlerocket_images(release)
    yield from _windows_images(release)


def _al2023_images(release: _ImageRelease) -> Iterator[PublicImage]:
    for architecture, variant in (
        ("x86_64", "standard"),
        ("arm64", "standard"),
        ("x86_64", "nvidia"),
        ("arm64", "nvidia"),
        ("x86_64", "neuron"),
    ):
        name = f"amazon-eks-node-al2023-{architecture}-{variant}-{release.version}-v{_day(release)}"
        folder = (
            f"{EKS_PARAMETER_PREFIX}/{release.version}/amazon-linux-2023/{architecture}/{variant}"
        )
        yield release.image(
            name,
            architecture,
            owner=EKS_ACCOUNT,
            description=f"EKS node, Amazon Linux 2023, {variant}, Kubernetes {release.version}",
            parameters={"image_name": name},
            folders=(f"{folder}/{name}", f"{folder}/recommended"),
        )


def _al2_images(release: _ImageRelease) -> Iterator[PublicImage]:
    for architecture, word, ending in (
        ("x86_64", "", ""),
        ("arm64", "arm64-", "-arm64"),
        ("x86_64", "gpu-", "-gpu"),
    ):
        name = f"amazon-eks-{word}node-{release.version}-v{_day(release)}"
        folder = f"{EKS_PARAMETER_PREFIX}/{release.version}/amazon-linux-2{ending}"
        yield release.image(
            name,
            architecture,
            owner=EKS_ACCOUNT,
            description=f"EKS node, Amazon Linux 2, Kubernetes {release.version}",
            parameters={"image_name": name},
            folders=(f"{folder}/{name}", f"{folder}/recommended"),
        )


def _bottlerocket_images(release: _ImageRelease) -> Iterator[PublicImage]:
    number = release.bottlerocket
    for architecture in ("x86_64", "arm64"):
        for variant in (f"aws-k8s-{release.version}", f"aws-k8s-{release.version}-nvidia"):
            build = _name_digest(release.region, variant + number)[:8]
            folder = f"/aws/service/bottlerocket/{variant}/{architecture}"
            yield release.image(
                f"bottlerocket-{variant}-{architecture}-v{number}-{build}",
                architecture,
                owner=BOTTLEROCKET_ACCOUNT,
                description=f"Bottlerocket {number}, {variant}",
                disks=(("/dev/xvda", 2), ("/dev/xvdb", 20)),
                parameters={"image_version": f"{number}-{build}"},
                folders=(f"{folder}/{number}", f"{folder}/{number}-{build}", f"{folder}/latest"),
            )


def _windows_images(release: _ImageRelease) -> Iterator[PublicImage]:
    for year in (2019, 2022, 2025):
        if year == 2025 and release.minor < FIRST_WINDOWS_2025_MINOR:
            continue
        for edition in ("Core", "Full"):
            name = f"Windows_Server-{year}-English-{edition}-EKS_Optimized-{release.version}"
            yield release.image(
                f"{name}-{_day(release)}"
                if release.several_a_day
                else f"{name}-{release.day:%Y.%m.%d}",
                "x86_64",
                owner=WINDOWS_ACCOUNT,
                description=f"EKS node, Windows Server {year} {edition}, {release.version}",
                platform="windows",
                root_device="/dev/sda1",
                disks=(("/dev/sda1", 50),),
                parameters={},
                folders=(f"/aws/service/ami-windows-latest/{name}",),
            )


def _day(release: _ImageRelease) -> str:
    return f"{release.day:%Y%m%d%H%M%S}" if release.several_a_day else f"{release.day:%Y%m%d}"


def _image_id(region: str, name: str) -> str:
    return f"ami-0{_name_digest(region, name)}"


def _name_digest(region: str, name: str) -> str:
    return blake2b(f"{region} {name}".encode(), digest_size=8).hexdigest()
