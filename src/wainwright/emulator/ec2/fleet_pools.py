"""The pools of a fleet: every type in every zone that it may use, and what is launched there."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from wainwright.emulator.ec2.fleet_goals import not_emulated
from wainwright.emulator.ec2.joining import specified
from wainwright.emulator.ec2.launch_places import Places
from wainwright.emulator.ec2.state import LaunchTemplate, Subnet, TemplateVersion
from wainwright.emulator.ec2.templates import Templates
from wainwright.emulator.world import Answer, Params
from wainwright.errors import AwsError

MOST_CONFIGS: Final = 50
MOST_OVERRIDES: Final = 300
ECHOED: Final = (
    "MaxPrice",
    "WeightedCapacity",
    "Priority",
    "ImageId",
    "BlockDeviceMappings",
    "AvailabilityZoneId",
)
"""What answers repeat of an override, beside type and place."""
OWN: Final = (
    "ImageId",
    "KeyName",
    "IamInstanceProfile",
    "MetadataOptions",
)
"""What an override says of the machine itself."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A launch template that the fleet names, read once for all of its overrides."""

    template: LaunchTemplate
    version: TemplateVersion
    preference: str
    target: str | None
    market: str | None
    """What its InstanceMarketOptions say."""
    most_price: str | None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A pool: a type in a zone, launched from one template."""

    index: int
    source: Source
    override: Mapping[str, Any]
    type: str
    zone: str
    subnet: Subnet | None
    flaw: AwsError | None = None
    """Why there is no subnet."""

    @property
    def weight(self) -> float:
        """How much of the target a machine fulfils."""
        return float(self.override.get("WeightedCapacity") or 1)

    @property
    def most_price(self) -> float | None:
        asked = self.override.get("MaxPrice") or self.source.most_price
        return None if asked is None else float(asked)

    def data(self) -> dict[str, Any]:
        """What the machine is made from: the template, and what the override has of its own."""
        template = self.source.version.data
        merged = {
            **template,
            **{name: self.override[name] for name in OWN if name in self.override},
        }
        if "BlockDeviceMappings" in self.override:
            # Device by device: what the override does not say is the template's.
            disks = template.get("BlockDeviceMappings") or ()
            merged["BlockDeviceMappings"] = [*disks, *self.override["BlockDeviceMappings"]]
        if "Placement" in self.override:
            merged["Placement"] = {
                **(template.get("Placement") or {}),
                **self.override["Placement"],
            }
        return merged

    def shown(self) -> Answer:
        """LaunchTemplateAndOverrides; whoever reads it finds the pool in it."""
        subnet = self.override.get("SubnetId") if self.subnet is None else self.subnet.id
        overrides = {"InstanceType": self.type, "AvailabilityZone": self.zone, "SubnetId": subnet}
        overrides |= {name: self.override[name] for name in ECHOED if name in self.override}
        group = (self.override.get("Placement") or {}).get("GroupName")
        if group:
            overrides["Placement"] = {"GroupName": group}
        return {
            "LaunchTemplateSpecification": {
                "LaunchTemplateId": self.source.template.id,
                "Version": str(self.source.version.number),
            },
            "Overrides": {name: each for name, each in overrides.items() if each},
        }


class Site(NamedTuple):
    """Where an override puts its machines, or why nowhere."""

    zone: str
    subnet: Subnet | None
    flaw: AwsError | None


class Pools:
    """Reads the pools out of a request; what is wrong with all of it is raised."""

    def __init__(self, templates: Templates, places: Places) -> None:
        self._templates = templates
        self._places = places

    def read(self, params: Params) -> list[Choice]:
        configs = params.get("LaunchTemplateConfigs") or ()
        _check_size(configs)
        found: list[Choice] = []
        for config in configs:
            source = self._source(config.get("LaunchTemplateSpecification") or {})
            sites: dict[Any, Site] = {}
            overrides: Sequence[Mapping[str, Any]] = config.get("Overrides") or ({},)
            for override in overrides:
                site = self._site(source, override, sites)
                found.append(_choice(len(found), source, override, site))
        _check_distinct(found)
        return found

    def _source(self, specification: Mapping[str, Any]) -> Source:
        template, version = self._templates.resolve(specification)
        preference, target = specified(version.data.get("CapacityReservationSpecification"))
        market = version.data.get("InstanceMarketOptions") or {}
        return Source(
            template=template,
            version=version,
            preference=preference,
            target=target,
            market=market.get("MarketType"),
            most_price=(market.get("SpotOptions") or {}).get("MaxPrice"),
        )

    def _site(self, source: Source, override: Mapping[str, Any], seen: dict[Any, Site]) -> Site:
        """Overrides have many types and few places: each of these is looked up once."""
        said = override.get
        if said("Placement"):
            return self._found(source, override)
        key = (said("SubnetId"), said("AvailabilityZone"), said("AvailabilityZoneId"))
        if key not in seen:
            seen[key] = self._found(source, override)
        return seen[key]

    def _found(self, source: Source, override: Mapping[str, Any]) -> Site:
        try:
            subnet = self._places.subnet(override, source.version.data)
        except AwsError as flaw:
            return Site(override.get("AvailabilityZone") or "", None, flaw)
        return Site(subnet.zone, subnet, None)


def _choice(index: int, source: Source, override: Mapping[str, Any], site: Site) -> Choice:
    data = source.version.data
    if override.get("InstanceRequirements") or data.get("InstanceRequirements"):
        raise not_emulated("InstanceRequirements")
    kind = override.get("InstanceType") or data.get("InstanceType")
    if not kind:
        raise _missing("InstanceType")
    return Choice(
        index=index,
        source=source,
        override=override,
        type=kind,
        zone=site.zone,
        subnet=site.subnet,
        flaw=site.flaw,
    )


def _check_size(configs: Any) -> None:
    if not configs:
        raise _missing("LaunchTemplateConfigs")
    overrides = sum(len(each.get("Overrides") or ()) for each in configs)
    if len(configs) > MOST_CONFIGS or overrides > MOST_OVERRIDES:
        raise AwsError(
            "InvalidParameterValue",
            f"A fleet can have at most {MOST_CONFIGS} launch templates and {MOST_OVERRIDES} "
            "overrides.",
        )


def _check_distinct(choices: list[Choice]) -> None:
    """EC2 takes a type in a zone only once, even from templates that differ."""
    placed = [(each.type, each.zone) for each in choices if each.subnet is not None]
    if len(set(placed)) < len(placed):
        raise AwsError(
            "InvalidFleetConfig", "The fleet configuration contains duplicate instance pools."
        )


def _missing(name: str) -> AwsError:
    return AwsError("MissingParameter", f"The request must contain the parameter {name}")
