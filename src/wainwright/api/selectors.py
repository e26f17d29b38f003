"""Selector terms of an EC2NodeClass: which subnets, images and reservations it may use."""

from typing import Annotated, ClassVar, Final

from wainwright.api.schema import Schema, rule, wire
from wainwright.api.wire import Wire

FAMILIES: Final = ("al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025")
WINDOWS: Final = ("windows2019", "windows2022", "windows2025")
CRITERIA: Final = ["open", "targeted"]

Tags = Annotated[
    dict[str, str],
    wire(
        "Tags that the resource has; `*` stands for any value.",
        max_properties=20,
        rules=[rule("self.all(k, k != '' && self[k] != '')", "tags need a key and a value")],
    ),
]


def _some(*fields: str) -> dict[str, str]:
    cel = " || ".join(f"has(self.{field})" for field in fields)
    return rule(cel, f"an empty term selects nothing; set one of {', '.join(fields)}")


def _alone(field: str, *others: str) -> dict[str, str]:
    cel = " || ".join(f"has(self.{other})" for other in others)
    return rule(
        f"!has(self.{field}) || !({cel})",
        f"{field} selects by itself and cannot be combined with {', '.join(others)}",
        at=f".{field}",
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)


class SubnetTerm(Wire, frozen=True, kw_only=True):
    """Subnets by id, or by tags."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [_some("tags", "id"), _alone("id", "tags")]
    }

    id: Annotated[
        str | None,
        wire("The subnet's id.", pattern="subnet-[0-9a-z]+", says="an id such as subnet-0a1b2c"),
    ] = None
    tags: Tags | None = None


class SecurityGroupTerm(Wire, frozen=True, kw_only=True):
    """Security groups by id, by name, or by tags."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            _some("tags", "id", "name"),
            _alone("id", "tags", "name"),
            _alone("name", "tags", "id"),
        ]
    }

    id: Annotated[
        str | None, wire("The group's id.", pattern="sg-[0-9a-z]+", says="an id such as sg-0a1b2c")
    ] = None
    name: Annotated[str | None, wire("The group's name.")] = None
    tags: Tags | None = None


class ImageTerm(Wire, frozen=True, kw_only=True):
    """Machine images by alias, id, name, owner, tags or SSM parameter."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            _some("tags", "id", "name", "alias", "ssmParameter"),
            _alone("id", "alias", "tags", "name", "owner"),
            _alone("alias", "id", "tags", "name", "owner", "ssmParameter"),
        ]
    }

    alias: Annotated[
        str | None,
        wire(
            "A published family and version: al2023@latest.",
            max_length=30,
            rules=[
                rule(
                    "self.matches('^[a-zA-Z0-9]+@.+$')",
                    "an alias is written family@version, as in al2023@latest",
                ),
                rule(
                    f"self.split('@')[0] in [{_listed(FAMILIES)}]",
                    f"the family of an alias is one of {', '.join(FAMILIES)}",
                ),
                rule(
                    f"!(self.split('@')[0] in [{_listed(WINDOWS)}]) || self.endsWith('@latest')",
                    "Windows images are published as @latest only",
                ),
            ],
        ),
    ] = None
    id: Annotated[
        str | None,
        wire("The image's id.", pattern="ami-[0-9a-z]+", says="an id such as ami-0a1b2c"),
    ] = None
    name: Annotated[str | None, wire("The image's name.")] = None
    owner: Annotated[str | None, wire("The account that owns the image, or self.")] = None
    ssmParameter: Annotated[str | None, wire("The parameter that holds the image's id.")] = None
    tags: Tags | None = None


class ReservationTerm(Wire, frozen=True, kw_only=True):
    """Capacity reservations by id, or by everything that describes them."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            _some(
                "id",
                "ownerID",
                "tags",
                "instanceMatchCriteria",
                "instanceType",
                "availabilityZone",
            ),
            _alone(
                "id",
                "ownerID",
                "tags",
                "instanceMatchCriteria",
                "instanceType",
                "availabilityZone",
            ),
        ]
    }

    id: Annotated[
        str | None,
        wire("The reservation's id.", pattern="^cr-[0-9a-z]+$", says="an id such as cr-0a1b2c"),
    ] = None
    ownerID: Annotated[
        str | None,
        wire(
            "The account that owns it; absent: any that shares with us.",
            pattern="^[0-9]{12}$",
            says="an account number of 12 digits",
        ),
    ] = None
    tags: Tags | None = None
    instanceMatchCriteria: Annotated[
        str | None,
        wire("open takes any matching instance, targeted only named ones.", enum=CRITERIA),
    ] = None
    instanceType: Annotated[str | None, wire("The instance type it reserves.", min_length=1)] = None
    availabilityZone: Annotated[str | None, wire("The zone it lies in.", min_length=1)] = None


class PlacementGroupSelector(Wire, frozen=True, kw_only=True):
    """One placement group, by name or by id."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            _some("name", "id"),
            rule(
                "!(has(self.name) && has(self.id))",
                "name and id exclude each other",
                at=".id",
            ),
        ]
    }

    id: Annotated[
        str | None,
        wire("The group's id.", pattern="^pg-[0-9a-z]+$", says="an id such as pg-0a1b2c"),
    ] = None
    name: Annotated[str | None, wire("The group's name.", min_length=1)] = None
