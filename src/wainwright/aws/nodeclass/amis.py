"""AMIs: what the amiSelectorTerms of a class select, and which instance types each image is for.

An alias such as al2023@latest stands for several images: one for each architecture and each kind of
device. AWS publishes their ids as SSM parameters. Requirements on the labels of an instance type
decide which of them it boots. SSM parameters are cached for a day, and fetched again sooner if
their image was deprecated: the parameter probably has a new value.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import AMISelectorTerm, EC2NodeClass
from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.services import (
    DEFAULT_IMAGE_OWNERS,
    Ec2,
    Filter,
    Row,
    Ssm,
    filter_equals,
    tag_filters,
)
from wainwright.aws.cluster_config import ClusterInfoProvider
from wainwright.aws.nodeclass.status import (
    AMI_DEPRECATED,
    AMIS_READY,
    TRUE,
    ConditionState,
    ResolvedImage,
    ResolvedPart,
    condition_false,
    condition_true,
)
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, resolve_ami_family
from wainwright.catalogue.offerings.capacity_reservations import parse_reservation_time
from wainwright.clock import Clock
from wainwright.model.labels import (
    ARCH,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_GPU_COUNT,
    OS,
    WINDOWS_BUILD,
)
from wainwright.model.requirements import RequirementEntry, Requirements

LATEST: Final = "latest"
ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
"""Kubernetes' names by EC2's names."""

STANDARD: Final[Sequence[RequirementEntry]] = (
    (INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", (), None),
    (INSTANCE_GPU_COUNT, "DoesNotExist", (), None),
)
NVIDIA: Final[Sequence[RequirementEntry]] = (
    (INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", (), None),
    (INSTANCE_GPU_COUNT, "Exists", (), None),
)
NEURON: Final[Sequence[RequirementEntry]] = (
    (INSTANCE_ACCELERATOR_COUNT, "Exists", (), None),
    (INSTANCE_GPU_COUNT, "DoesNotExist", (), None),
)
LAST_AL2_VERSION: Final = (1, 32)
FIRST_WINDOWS2025_VERSION: Final = (1, 35)
EKS_AMI_PATH: Final = "/aws/service/eks/optimized-ami"


class PublishedAmi(msgspec.Struct, frozen=True, kw_only=True):
    """An SSM parameter with the id of an image, and the instance types that the image is for."""

    parameter: str
    requirement_sets: tuple[Sequence[RequirementEntry], ...] = (STANDARD,)
    mutable: bool = False
    """Whether the parameter will have another value one day."""


def published_amis(alias: str, version: str) -> list[PublishedAmi]:
    """The images of an alias for that version of Kubernetes."""
    family, _, release = alias.partition("@")
    match family.lower():
        case "al2023":
            amis = _al2023_amis(version, release)
        case "al2":
            amis = _al2_amis(version, release)
        case "bottlerocket":
            amis = _bottlerocket_amis(version, release.removeprefix("v"))
        case windows:
            amis = _windows_amis(version, windows.removeprefix("windows"))
    return [msgspec.structs.replace(each, mutable=release == LATEST) for each in amis]


def not_published_reason(alias: str, version: str) -> str:
    """Why there are no such images for this version of Kubernetes; empty if there are."""
    family = alias.partition("@")[0].lower()
    number = _version_tuple(version)
    if family == "al2" and number > LAST_AL2_VERSION:
        return f"Amazon Linux 2 has no images for Kubernetes {version}, only up to 1.32: use al2023"
    if family == "windows2025" and number < FIRST_WINDOWS2025_VERSION:
        return f"Windows 2025 has no images for Kubernetes {version}, only from 1.35 on"
    return ""


def os_requirements(family: AmiFamily) -> Iterator[RequirementEntry]:
    """Requirements on instance types for the operating system of the image."""
    build = family.traits.windows_build
    if build:
        yield (OS, "In", ("windows",), None)
        yield (WINDOWS_BUILD, "In", (build,), None)


def architecture_requirement(name: str) -> RequirementEntry | None:
    """The requirement for the architecture of an image; None if no node can boot it."""
    architecture = ARCHITECTURES.get(name)
    return None if architecture is None else (ARCH, "In", (architecture,), None)


def _al2023_amis(version: str, release: str) -> list[PublishedAmi]:
    variants = (
        ("x86_64", "standard", STANDARD),
        ("arm64", "standard", STANDARD),
        ("x86_64", "nvidia", NVIDIA),
        ("arm64", "nvidia", NVIDIA),
        ("x86_64", "neuron", NEURON),
    )
    return [
        PublishedAmi(
            parameter=f"{EKS_AMI_PATH}/{version}/amazon-linux-2023/{cpu}/{variant}/"
            + _release_path(release, f"amazon-eks-node-al2023-{cpu}-{variant}-{version}"),
            requirement_sets=(requirements,),
        )
        for cpu, variant, requirements in variants
    ]


def _al2_amis(version: str, release: str) -> list[PublishedAmi]:
    """The image with drivers has those for NVIDIA and for Neuron."""
    variants = (
        ("", "", (STANDARD,)),
        ("-arm64", "arm64-", (STANDARD,)),
        ("-gpu", "gpu-", (NVIDIA, NEURON)),
    )
    return [
        PublishedAmi(
            parameter=f"{EKS_AMI_PATH}/{version}/amazon-linux-2{folder}/"
            + _release_path(release, f"amazon-eks-{word}node-{version}"),
            requirement_sets=requirement_sets,
        )
        for folder, word, requirement_sets in variants
    ]


def _bottlerocket_amis(version: str, release: str) -> list[PublishedAmi]:
    """The x86_64 image without NVIDIA drivers is also for Neuron devices."""
    variants = (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    )
    folder = f"/aws/service/bottlerocket/aws-k8s-{version}"
    return [
        PublishedAmi(
            parameter=f"{folder}{ending}/{cpu}/{release}/image_id",
            requirement_sets=requirement_sets,
        )
        for ending, cpu, requirement_sets in variants
    ]


def _windows_amis(version: str, year: str) -> list[PublishedAmi]:
    name = f"Windows_Server-{year}-English-Core-EKS_Optimized-{version}"
    return [PublishedAmi(parameter=f"/aws/service/ami-windows-latest/{name}/image_id")]


def _release_path(release: str, name: str) -> str:
    return "recommended/image_id" if release == LATEST else f"{name}-{release}/image_id"


def _version_tuple(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


PARAMETER_TTL: Final = 24 * 3600.0  # seconds
PARAMETER_RECHECK_AGE: Final = 1800.0


class SsmParameterCache:
    """Values of existing parameters; a missing parameter is fetched again each time."""

    def __init__(self, ssm: Ssm, clock: Clock) -> None:
        self._ssm = ssm
        self._clock = clock
        self._cache: TtlCache[str | None] = TtlCache(
            clock, lambda found: 0.0 if found is None else PARAMETER_TTL
        )
        self._fetched_at: dict[str, float] = {}
        self._parameters_by_image: dict[str, set[str]] = {}

    async def get(self, name: str) -> str | None:
        return await self._cache.get(name, lambda: self._fetch(name))

    async def _fetch(self, name: str) -> str | None:
        self._fetched_at[name] = self._clock.now()
        return await self._ssm.get_parameter(name)

    def record_source(self, image: str, published: PublishedAmi) -> None:
        """Records the parameter of an image, if its value may change."""
        if published.mutable:
            self._parameters_by_image.setdefault(image, set()).add(published.parameter)

    def recheck(self, images: Iterable[str]) -> None:
        """Drops the parameters of these images from the cache, unless fetched recently."""
        now = self._clock.now()
        for image in images:
            for name in self._parameters_by_image.get(image, ()):
                if now - self._fetched_at.get(name, now) >= PARAMETER_RECHECK_AGE:
                    self._cache.forget(name)


AMI_TTL: Final = 300.0  # seconds
NO_AMI_TTL: Final = 60.0

AmiVariants = Mapping[str, tuple[Sequence[RequirementEntry], ...]]
"""By image id, the alternative requirements that it is published for."""


class ImageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One DescribeImages call."""

    filters: list[Filter]
    owners: tuple[str, ...] = ()


class AmiProvider:
    """Calls SSM and EC2 every five minutes for the same terms."""

    def __init__(
        self,
        ec2: Ec2,
        parameters: SsmParameterCache,
        cluster_info: ClusterInfoProvider,
        clock: Clock,
    ) -> None:
        self._ec2 = ec2
        self._parameters = parameters
        self._cluster_info = cluster_info
        self._clock = clock
        self._cache: TtlCache[tuple[ResolvedImage, ...]] = TtlCache(
            clock, lambda found: AMI_TTL if found else NO_AMI_TTL
        )

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[tuple[ResolvedImage, ...]]:
        terms, family = node_class.spec.amiSelectorTerms, resolve_ami_family(node_class.spec)
        version = await self._version(terms)
        for alias in _aliases(terms):
            if why := not_published_reason(alias, version):
                return ResolvedPart(
                    value=(),
                    condition=condition_false(AMIS_READY, "AMINotFound", why),
                    requeue_after=AMI_TTL,
                )
        key = (msgspec.json.encode(terms, order="deterministic"), family, version)
        images = await self._cache.get(key, lambda: self._fetch(terms, family, version))
        if images:
            return ResolvedPart(
                value=images, condition=condition_true(AMIS_READY), requeue_after=AMI_TTL
            )
        message = "amiSelectorTerms select no image that can be booted"
        return ResolvedPart(
            value=(),
            condition=condition_false(AMIS_READY, "AMINotFound", message),
            requeue_after=NO_AMI_TTL,
        )

    async def _version(self, terms: Iterable[AMISelectorTerm]) -> str:
        """Of Kubernetes; only aliases depend on it."""
        return await self._cluster_info.version() if _aliases(terms) else ""

    async def _fetch(
        self, terms: Sequence[AMISelectorTerm], family: AmiFamily, version: str
    ) -> tuple[ResolvedImage, ...]:
        variants = await self._published(terms, version)
        queries = [*_image_queries(terms), *await self._by_parameter(terms)]
        if variants:
            queries.append(ImageQuery(filters=[filter_equals("image-id", *sorted(variants))]))
        calls = [self._ec2.describe_images(each.filters, each.owners) for each in queries]
        rows = {row["ImageId"]: row for result in await asyncio.gather(*calls) for row in result}
        images = _parse_images(rows.values(), variants, family, self._clock.now())
        self._recheck_parameters(variants, images)
        return _newest_images(images)

    async def _published(self, terms: Iterable[AMISelectorTerm], version: str) -> AmiVariants:
        """The images of the aliases."""
        amis = [each for alias in _aliases(terms) for each in published_amis(alias, version)]
        ids = await asyncio.gather(*(self._parameters.get(each.parameter) for each in amis))
        variants: dict[str, tuple[Sequence[RequirementEntry], ...]] = {}
        for each, image in zip(amis, ids, strict=True):
            if image is not None:
                variants[image] = (*variants.get(image, ()), *each.requirement_sets)
                self._parameters.record_source(image, each)
        return variants

    async def _by_parameter(self, terms: Iterable[AMISelectorTerm]) -> list[ImageQuery]:
        """Terms with a parameter; their other fields narrow the selection."""
        with_parameter = [term for term in terms if term.ssmParameter is not None]
        ids = await asyncio.gather(
            *(self._parameters.get(term.ssmParameter or "") for term in with_parameter)
        )
        return [
            ImageQuery(
                filters=[filter_equals("image-id", image), *_image_filters(term)],
                owners=_image_owners(term),
            )
            for term, image in zip(with_parameter, ids, strict=True)
            if image is not None
        ]

    def _recheck_parameters(self, variants: AmiVariants, images: Iterable[ResolvedImage]) -> None:
        """The parameter of a deprecated or deregistered image probably has a new value."""
        current = {image.id for image in images if not image.deprecated}
        self._parameters.recheck(image for image in variants if image not in current)


def deprecation_conditions(images: Iterable[ResolvedImage]) -> list[ConditionState]:
    """The AMIDeprecated condition, if an image is deprecated; otherwise none."""
    deprecated = sorted({image.id for image in images if image.deprecated})
    if not deprecated:
        return []
    message = f"the owner has deprecated {', '.join(deprecated)}"
    return [
        ConditionState(type=AMI_DEPRECATED, status=TRUE, reason=AMI_DEPRECATED, message=message)
    ]


def _aliases(terms: Iterable[AMISelectorTerm]) -> list[str]:
    return [term.alias for term in terms if term.alias is not None]


def _image_queries(terms: Iterable[AMISelectorTerm]) -> list[ImageQuery]:
    """One call for all ids together, and one for every term with a name, owner or tags."""
    ids = sorted({term.id for term in terms if term.id is not None})
    by_id = [ImageQuery(filters=[filter_equals("image-id", *ids)])] if ids else []
    others = [term for term in terms if not (term.id or term.alias or term.ssmParameter)]
    return by_id + [
        ImageQuery(filters=_image_filters(term), owners=_image_owners(term) or DEFAULT_IMAGE_OWNERS)
        for term in others
    ]


def _image_filters(term: AMISelectorTerm) -> list[Filter]:
    by_name = [] if term.name is None else [filter_equals("name", term.name)]
    return by_name + tag_filters(term.tags or {})


def _image_owners(term: AMISelectorTerm) -> tuple[str, ...]:
    return () if term.owner is None else (term.owner,)


def _parse_images(
    rows: Iterable[Row], variants: AmiVariants, family: AmiFamily, now: float
) -> list[ResolvedImage]:
    """One per variant of an image; an image of unknown architecture is left out."""
    images: list[ResolvedImage] = []
    for row in rows:
        architecture = architecture_requirement(row.get("Architecture", ""))
        if architecture is None:
            continue
        for variant in variants.get(row["ImageId"], ((),)):
            entries = [architecture, *os_requirements(family), *variant]
            images.append(_parse_image(row, Requirements.from_entries(entries), now))
    return images


def _parse_image(row: Row, requirements: Requirements, now: float) -> ResolvedImage:
    ends: str | None = row.get("DeprecationTime")
    return ResolvedImage(
        id=row["ImageId"],
        name=row.get("Name", ""),
        requirements=requirements,
        created=parse_reservation_time(
            row.get("CreationDate") or "1970-01-01T00:00:00Z"
        ).timestamp(),
        deprecated=ends is not None and parse_reservation_time(ends).timestamp() <= now,
    )


def _newest_images(images: Iterable[ResolvedImage]) -> tuple[ResolvedImage, ...]:
    """Of the images with the same requirements the newest, deprecated ones last."""
    ordered = sorted(images, key=lambda each: (each.deprecated, -each.created, each.id))
    newest: dict[Requirements, ResolvedImage] = {}
    for image in ordered:
        newest.setdefault(image.requirements, image)
    return tuple(newest.values())
