"""Images: what the amiSelectorTerms of a class select, and which machines each image is for."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.selectors import ImageTerm
from wainwright.aws.cluster import Facts
from wainwright.aws.ec2 import OWNERS, Ec2
from wainwright.aws.nodeclass.conditions import (
    AMI_DEPRECATED,
    AMIS,
    TRUE,
    Finding,
    Part,
    bad,
    good,
)
from wainwright.aws.nodeclass.parameters import Parameters
from wainwright.aws.nodeclass.paths import architecture, published, system, unpublished
from wainwright.aws.nodeclass.resolved import Image
from wainwright.aws.remember import Remembered
from wainwright.aws.wire import Filter, Row, equals, tag_filters
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.nodeclass import ami_family
from wainwright.catalogue.reservations import moment
from wainwright.clock import Clock
from wainwright.model.requirements import Entry, Requirements

KEPT: Final = 300.0  # seconds
NONE_KEPT: Final = 60.0

Kinds = Mapping[str, tuple[Sequence[Entry], ...]]
"""Image ids, and the kinds of machines that each is published for."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """One DescribeImages call."""

    filters: list[Filter]
    owners: tuple[str, ...] = ()


class Images:
    """Asks SSM and EC2 every five minutes for the same terms."""

    def __init__(self, ec2: Ec2, parameters: Parameters, facts: Facts, clock: Clock) -> None:
        self._ec2 = ec2
        self._parameters = parameters
        self._facts = facts
        self._clock = clock
        self._known: Remembered[tuple[Image, ...]] = Remembered(
            clock, lambda found: KEPT if found else NONE_KEPT
        )

    async def find(self, node_class: EC2NodeClass) -> Part[tuple[Image, ...]]:
        terms, family = node_class.spec.amiSelectorTerms, ami_family(node_class.spec)
        version = await self._version(terms)
        for alias in _aliases(terms):
            if why := unpublished(alias, version):
                return Part(value=(), finding=bad(AMIS, "AMINotFound", why), again=KEPT)
        key = (msgspec.json.encode(terms, order="deterministic"), family, version)
        found = await self._known.get(key, lambda: self._ask(terms, family, version))
        if found:
            return Part(value=found, finding=good(AMIS), again=KEPT)
        message = "amiSelectorTerms select no image that can be booted"
        return Part(value=(), finding=bad(AMIS, "AMINotFound", message), again=NONE_KEPT)

    async def _version(self, terms: Iterable[ImageTerm]) -> str:
        """Of Kubernetes, which only an alias hangs on."""
        return await self._facts.version() if _aliases(terms) else ""

    async def _ask(
        self, terms: Sequence[ImageTerm], family: AmiFamily, version: str
    ) -> tuple[Image, ...]:
        kinds = await self._published(terms, version)
        queries = [*_queries(terms), *await self._by_parameter(terms)]
        if kinds:
            queries.append(Query(filters=[equals("image-id", *sorted(kinds))]))
        asked = [self._ec2.describe_images(each.filters, each.owners) for each in queries]
        rows = {row["ImageId"]: row for found in await asyncio.gather(*asked) for row in found}
        images = _images(rows.values(), kinds, family, self._clock.now())
        self._doubt(kinds, images)
        return _newest(images)

    async def _published(self, terms: Iterable[ImageTerm], version: str) -> Kinds:
        """What the aliases lead to."""
        wanted = [each for alias in _aliases(terms) for each in published(alias, version)]
        ids = await asyncio.gather(*(self._parameters.get(each.parameter) for each in wanted))
        found: dict[str, tuple[Sequence[Entry], ...]] = {}
        for each, image in zip(wanted, ids, strict=True):
            if image is not None:
                found[image] = (*found.get(image, ()), *each.kinds)
                self._parameters.names(image, each)
        return found

    async def _by_parameter(self, terms: Iterable[ImageTerm]) -> list[Query]:
        """Terms with a parameter; what else they say narrows it."""
        named = [term for term in terms if term.ssmParameter is not None]
        ids = await asyncio.gather(*(self._parameters.get(_name(term)) for term in named))
        return [
            Query(filters=[equals("image-id", image), *_filters(term)], owners=_owners(term))
            for term, image in zip(named, ids, strict=True)
            if image is not None
        ]

    def _doubt(self, kinds: Kinds, images: Iterable[Image]) -> None:
        """A parameter that leads to a withdrawn image has probably moved on by now."""
        fresh = {image.id for image in images if not image.deprecated}
        self._parameters.doubt(image for image in kinds if image not in fresh)


def deprecation(images: Iterable[Image]) -> list[Finding]:
    """Said only where it is so."""
    old = sorted({image.id for image in images if image.deprecated})
    if not old:
        return []
    message = f"the owner has deprecated {', '.join(old)}"
    return [Finding(type=AMI_DEPRECATED, status=TRUE, reason=AMI_DEPRECATED, message=message)]


def _aliases(terms: Iterable[ImageTerm]) -> list[str]:
    return [term.alias for term in terms if term.alias is not None]


def _queries(terms: Iterable[ImageTerm]) -> list[Query]:
    """One call for all ids together, and one for every term that describes its images."""
    ids = sorted({term.id for term in terms if term.id is not None})
    named = [Query(filters=[equals("image-id", *ids)])] if ids else []
    described = [term for term in terms if not (term.id or term.alias or term.ssmParameter)]
    return named + [
        Query(filters=_filters(term), owners=_owners(term) or OWNERS) for term in described
    ]


def _filters(term: ImageTerm) -> list[Filter]:
    named = [] if term.name is None else [equals("name", term.name)]
    return named + tag_filters(term.tags or {})


def _owners(term: ImageTerm) -> tuple[str, ...]:
    return () if term.owner is None else (term.owner,)


def _name(term: ImageTerm) -> str:
    return term.ssmParameter or ""


def _images(rows: Iterable[Row], kinds: Kinds, family: AmiFamily, now: float) -> list[Image]:
    """One for every kind of machine; an image of unknown architecture is for none."""
    made: list[Image] = []
    for row in rows:
        cpu = architecture(row.get("Architecture", ""))
        if cpu is None:
            continue
        for kind in kinds.get(row["ImageId"], ((),)):
            asked = Requirements.from_entries([cpu, *system(family), *kind])
            made.append(_image(row, asked, now))
    return made


def _image(row: Row, requirements: Requirements, now: float) -> Image:
    ends: str | None = row.get("DeprecationTime")
    return Image(
        id=row["ImageId"],
        name=row.get("Name", ""),
        requirements=requirements,
        created=moment(row.get("CreationDate") or "1970-01-01T00:00:00Z").timestamp(),
        deprecated=ends is not None and moment(ends).timestamp() <= now,
    )


def _newest(images: Iterable[Image]) -> tuple[Image, ...]:
    """Of those that are for the same machines the newest that is not deprecated."""
    ordered = sorted(images, key=lambda each: (each.deprecated, -each.created, each.id))
    chosen: dict[Requirements, Image] = {}
    for image in ordered:
        chosen.setdefault(image.requirements, image)
    return tuple(chosen.values())
