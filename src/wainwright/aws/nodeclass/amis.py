"""AMIs: what the amiSelectorTerms of a class select, and which instance types each image is for.

An alias such as al2023@latest stands for several images: one for each architecture and each kind of
device. AWS publishes their ids as SSM parameters. Which of them an instance boots is said by
requirements on its labels. What SSM says is cached for a day, and forgotten sooner where its image
was deprecated: the parameter has probably moved on.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import AMISelectorTerm, EC2NodeClass
from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.seam import Filter, Row, filter_equals, tag_filters
from wainwright.aws.api.services import DEFAULT_IMAGE_OWNERS, Ec2, Ssm
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
"""As EC2 spells them, and as Kubernetes does."""

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
    """A parameter that holds the id of an image, and what the image is for."""

    parameter: str
    kinds: tuple[Sequence[RequirementEntry], ...] = (STANDARD,)
    mutable: bool = False
    """Whether the parameter will point to another image one day."""


def published_amis(alias: str, version: str) -> list[PublishedAmi]:
    """What an alias stands for on that version of Kubernetes."""
    family, _, release = alias.partition("@")
    newest = release == LATEST
    match family.lower():
        case "al2023":
            found = _al2023_amis(version, release)
        case "al2":
            found = _al2_amis(version, release)
        case "bottlerocket":
            found = _bottlerocket_amis(version, release.removeprefix("v"))
        case windows:
            found = _windows_amis(version, windows.removeprefix("windows"))
    return [msgspec.structs.replace(each, mutable=newest) for each in found]


def not_published_reason(alias: str, version: str) -> str:
    """Why there are no such images for this version of Kubernetes; empty where there are."""
    family = alias.partition("@")[0].lower()
    number = _version_tuple(version)
    if family == "al2" and number > LAST_AL2_VERSION:
        return f"Amazon Linux 2 has no images for Kubernetes {version}, only up to 1.32: use al2023"
    if family == "windows2025" and number < FIRST_WINDOWS2025_VERSION:
        return f"Windows 2025 has no images for Kubernetes {version}, only from 1.35 on"
    return ""


def os_requirements(family: AmiFamily) -> Iterator[RequirementEntry]:
    """What is asked of instances for the sake of the operating system."""
    build = family.traits.windows_build
    if build:
        yield (OS, "In", ("windows",), None)
        yield (WINDOWS_BUILD, "In", (build,), None)


def architecture_requirement(name: str) -> RequirementEntry | None:
    """What an image asks of instances; None for one that no node can boot."""
    spelt = ARCHITECTURES.get(name)
    return None if spelt is None else (ARCH, "In", (spelt,), None)


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
            kinds=(kind,),
        )
        for cpu, variant, kind in variants
    ]


def _al2_amis(version: str, release: str) -> list[PublishedAmi]:
    """The image with drivers has those of NVIDIA and of AWS."""
    variants = (
        ("", "", (STANDARD,)),
        ("-arm64", "arm64-", (STANDARD,)),
        ("-gpu", "gpu-", (NVIDIA, NEURON)),
    )
    return [
        PublishedAmi(
            parameter=f"{EKS_AMI_PATH}/{version}/amazon-linux-2{folder}/"
            + _release_path(release, f"amazon-eks-{word}node-{version}"),
            kinds=kinds,
        )
        for folder, word, kinds in variants
    ]


def _bottlerocket_amis(version: str, release: str) -> list[PublishedAmi]:
    """Without the driver of NVIDIA the one image is also for the accelerators of AWS."""
    variants = (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    )
    folder = f"/aws/service/bottlerocket/aws-k8s-{version}"
    return [
        PublishedAmi(parameter=f"{folder}{ending}/{cpu}/{release}/image_id", kinds=kinds)
        for ending, cpu, kinds in variants
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
    """Values that were found; what is missing is asked for again each time."""

    def __init__(self, ssm: Ssm, clock: Clock) -> None:
        self._ssm = ssm
        self._clock = clock
        self._known: TtlCache[str | None] = TtlCache(
            clock, lambda found: 0.0 if found is None else PARAMETER_TTL
        )
        self._asked: dict[str, float] = {}
        self._named: dict[str, set[str]] = {}

    async def get(self, name: str) -> str | None:
        return await self._known.get(name, lambda: self._ask(name))

    async def _ask(self, name: str) -> str | None:
        self._asked[name] = self._clock.now()
        return await self._ssm.parameter(name)

    def names(self, image: str, published: PublishedAmi) -> None:
        """Says which parameter led to an image, where it may lead elsewhere one day."""
        if published.mutable:
            self._named.setdefault(image, set()).add(published.parameter)

    def recheck(self, images: Iterable[str]) -> None:
        """Forgets what led to these images, unless it was asked for not long ago."""
        now = self._clock.now()
        for image in images:
            for name in self._named.get(image, ()):
                if now - self._asked.get(name, now) >= PARAMETER_RECHECK_AGE:
                    self._known.forget(name)


AMI_TTL: Final = 300.0  # seconds
NO_AMI_TTL: Final = 60.0

AmiVariants = Mapping[str, tuple[Sequence[RequirementEntry], ...]]
"""Image ids, and the kinds of instances that each is published for."""


class ImageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One DescribeImages call."""

    filters: list[Filter]
    owners: tuple[str, ...] = ()


class AmiProvider:
    """Asks SSM and EC2 every five minutes for the same terms."""

    def __init__(
        self, ec2: Ec2, parameters: SsmParameterCache, facts: ClusterInfoProvider, clock: Clock
    ) -> None:
        self._ec2 = ec2
        self._parameters = parameters
        self._facts = facts
        self._clock = clock
        self._known: TtlCache[tuple[ResolvedImage, ...]] = TtlCache(
            clock, lambda found: AMI_TTL if found else NO_AMI_TTL
        )

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[tuple[ResolvedImage, ...]]:
        terms, family = node_class.spec.amiSelectorTerms, resolve_ami_family(node_class.spec)
        version = await self._version(terms)
        for alias in _aliases(terms):
            if why := not_published_reason(alias, version):
                return ResolvedPart(
                    value=(),
                    finding=condition_false(AMIS_READY, "AMINotFound", why),
                    requeue_after=AMI_TTL,
                )
        key = (msgspec.json.encode(terms, order="deterministic"), family, version)
        found = await self._known.get(key, lambda: self._ask(terms, family, version))
        if found:
            return ResolvedPart(
                value=found, finding=condition_true(AMIS_READY), requeue_after=AMI_TTL
            )
        message = "amiSelectorTerms select no image that can be booted"
        return ResolvedPart(
            value=(),
            finding=condition_false(AMIS_READY, "AMINotFound", message),
            requeue_after=NO_AMI_TTL,
        )

    async def _version(self, terms: Iterable[AMISelectorTerm]) -> str:
        """Of Kubernetes, which only an alias hangs on."""
        return await self._facts.version() if _aliases(terms) else ""

    async def _ask(
        self, terms: Sequence[AMISelectorTerm], family: AmiFamily, version: str
    ) -> tuple[ResolvedImage, ...]:
        kinds = await self._published(terms, version)
        queries = [*_image_queries(terms), *await self._by_parameter(terms)]
        if kinds:
            queries.append(ImageQuery(filters=[filter_equals("image-id", *sorted(kinds))]))
        asked = [self._ec2.describe_images(each.filters, each.owners) for each in queries]
        rows = {row["ImageId"]: row for found in await asyncio.gather(*asked) for row in found}
        images = _parse_images(rows.values(), kinds, family, self._clock.now())
        self._recheck_parameters(kinds, images)
        return _newest_images(images)

    async def _published(self, terms: Iterable[AMISelectorTerm], version: str) -> AmiVariants:
        """What the aliases lead to."""
        wanted = [each for alias in _aliases(terms) for each in published_amis(alias, version)]
        ids = await asyncio.gather(*(self._parameters.get(each.parameter) for each in wanted))
        found: dict[str, tuple[Sequence[RequirementEntry], ...]] = {}
        for each, image in zip(wanted, ids, strict=True):
            if image is not None:
                found[image] = (*found.get(image, ()), *each.kinds)
                self._parameters.names(image, each)
        return found

    async def _by_parameter(self, terms: Iterable[AMISelectorTerm]) -> list[ImageQuery]:
        """Terms with a parameter; what else they say narrows it."""
        named = [term for term in terms if term.ssmParameter is not None]
        ids = await asyncio.gather(*(self._parameters.get(_parameter_name(term)) for term in named))
        return [
            ImageQuery(
                filters=[filter_equals("image-id", image), *_image_filters(term)],
                owners=_image_owners(term),
            )
            for term, image in zip(named, ids, strict=True)
            if image is not None
        ]

    def _recheck_parameters(self, kinds: AmiVariants, images: Iterable[ResolvedImage]) -> None:
        """A parameter that leads to a withdrawn image has probably moved on by now."""
        fresh = {image.id for image in images if not image.deprecated}
        self._parameters.recheck(image for image in kinds if image not in fresh)


def deprecation_conditions(images: Iterable[ResolvedImage]) -> list[ConditionState]:
    """Said only where it is so."""
    old = sorted({image.id for image in images if image.deprecated})
    if not old:
        return []
    message = f"the owner has deprecated {', '.join(old)}"
    return [
        ConditionState(type=AMI_DEPRECATED, status=TRUE, reason=AMI_DEPRECATED, message=message)
    ]


def _aliases(terms: Iterable[AMISelectorTerm]) -> list[str]:
    return [term.alias for term in terms if term.alias is not None]


def _image_queries(terms: Iterable[AMISelectorTerm]) -> list[ImageQuery]:
    """One call for all ids together, and one for every term that describes its images."""
    ids = sorted({term.id for term in terms if term.id is not None})
    named = [ImageQuery(filters=[filter_equals("image-id", *ids)])] if ids else []
    described = [term for term in terms if not (term.id or term.alias or term.ssmParameter)]
    return named + [
        ImageQuery(filters=_image_filters(term), owners=_image_owners(term) or DEFAULT_IMAGE_OWNERS)
        for term in described
    ]


def _image_filters(term: AMISelectorTerm) -> list[Filter]:
    named = [] if term.name is None else [filter_equals("name", term.name)]
    return named + tag_filters(term.tags or {})


def _image_owners(term: AMISelectorTerm) -> tuple[str, ...]:
    return () if term.owner is None else (term.owner,)


def _parameter_name(term: AMISelectorTerm) -> str:
    return term.ssmParameter or ""


def _parse_images(
    rows: Iterable[Row], kinds: AmiVariants, family: AmiFamily, now: float
) -> list[ResolvedImage]:
    """One for every kind of instance; an image of unknown architecture is for none."""
    made: list[ResolvedImage] = []
    for row in rows:
        cpu = architecture_requirement(row.get("Architecture", ""))
        if cpu is None:
            continue
        for kind in kinds.get(row["ImageId"], ((),)):
            asked = Requirements.from_entries([cpu, *os_requirements(family), *kind])
            made.append(_parse_image(row, asked, now))
    return made


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
    """Of those that are for the same instances the newest that is not deprecated."""
    ordered = sorted(images, key=lambda each: (each.deprecated, -each.created, each.id))
    chosen: dict[Requirements, ResolvedImage] = {}
    for image in ordered:
        chosen.setdefault(image.requirements, image)
    return tuple(chosen.values())
