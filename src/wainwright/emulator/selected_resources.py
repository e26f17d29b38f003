"""Creates what an EC2NodeClass names or selects, so that every class finds its resources: subnets,
security groups, role and instance profile, images, placement group.

What exists already is left as it is, and nothing is created twice. A subnet that is selected by
tags exists in every zone, unless the status of the class says in which zones it has subnets.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final, Protocol

from wainwright.api.karpenter.ec2nodeclass import (
    AMISelectorTerm,
    EC2NodeClass,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.emulator.account_services import AccountServices, to_ec2_image
from wainwright.emulator.ec2.images import Image
from wainwright.emulator.ec2.instance.launcher import IMAGE_ARCHITECTURE_BY_TYPE
from wainwright.emulator.ec2.placement_groups import PlacementGroup
from wainwright.emulator.ec2.vpc.security_group_permissions import SecurityGroup, default_rules
from wainwright.emulator.ec2.vpc.vpc_network import Subnet, usable_addresses
from wainwright.emulator.services.public_images import list_alias_images

ANY_VALUE: Final = "*"
TAG_VALUE: Final = "selected"  # of a tag that a term wants with any value
FIRST_IMAGE: Final = datetime(2025, 12, 18, tzinfo=UTC).timestamp()
DISKS: Final = [
    {
        "DeviceName": "/dev/xvda",
        "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "DeleteOnTermination": True},
    }
]


class _Tagged(Protocol):
    tags: dict[str, str]


class SelectedResources:
    """Creates resources in one account."""

    def __init__(self, services: AccountServices, zones: Mapping[str, str], cluster: str) -> None:
        self._services = services
        self._zones = zones
        self._cluster = cluster

    def create_for(self, node_class: EC2NodeClass) -> None:
        """Creates what the class names and the account does not have."""
        self._create_subnets(node_class)
        self._create_security_groups(node_class)
        self._create_role(node_class)
        for term in node_class.spec.amiSelectorTerms or ():
            self._create_images(term)
        self._create_placement_group(node_class)

    def publish_image(self, alias: str) -> tuple[str, ...]:
        """New images of an alias such as al2023@latest; their ids."""
        published = datetime.fromtimestamp(self._services.context.now(), UTC)
        return self._publish(alias, published)

    # What an instance of a class has

    def subnet_of(self, node_class: EC2NodeClass, zone: str) -> Subnet | None:
        """The first subnet that the class selects in the zone."""
        terms = node_class.spec.subnetSelectorTerms or ()
        in_zone = [each for each in self._subnets() if each.zone == zone]
        matching = (
            each
            for term in terms
            for each in in_zone
            if term.id == each.id or (not term.id and _is_tagged(each.tags, term.tags or {}))
        )
        return next(matching, None) or next(iter(in_zone), None)

    def security_groups_of(self, node_class: EC2NodeClass) -> list[str]:
        """The ids of all that the class selects."""
        terms = node_class.spec.securityGroupSelectorTerms or ()
        return [
            group.id
            for group in self._services.network.state.groups.values()
            if any(_selects_group(term, group) for term in terms)
        ]

    def image_of(self, node_class: EC2NodeClass, instance_type: InstanceTypeInfo) -> str | None:
        """The image that an instance of this type boots; the newest of an alias."""
        architecture = IMAGE_ARCHITECTURE_BY_TYPE.get(
            instance_type.architecture, instance_type.architecture
        )
        for term in node_class.spec.amiSelectorTerms or ():
            found = [
                each
                for each in self._images_of(term)
                if each.architecture == architecture and _is_for(each, instance_type)
            ]
            if found:
                return found[-1].id
        return None

    def _images_of(self, term: AMISelectorTerm) -> list[Image]:
        images = self._services.images.state.images
        if term.alias:
            return [images[each] for each in self._alias_images(term.alias) if each in images]
        if term.id:
            return [images[term.id]] if term.id in images else []
        named = [each for each in images.values() if term.name in (None, each.name)]
        return [each for each in named if _is_tagged(each.tags, term.tags or {})]

    def _alias_images(self, alias: str) -> list[str]:
        """The ids of the images of an alias, the newest last."""
        services = self._services
        published = [
            value
            for name, value in services.ssm.all_parameters()
            if name.endswith("/image_id") and _is_parameter_of(name, alias, self._version)
        ]
        return list(dict.fromkeys(published))

    @property
    def _version(self) -> str:
        return self._services.eks.state.clusters[self._cluster].version

    # Subnets

    def _create_subnets(self, node_class: EC2NodeClass) -> None:
        status = node_class.status
        stated = {each.id: each.zone for each in (status and status.subnets) or ()}
        terms = node_class.spec.subnetSelectorTerms or ()
        for identity, zone in stated.items():
            tags = next((each.tags for each in terms if each.tags), None) or {}
            self._add_subnet(zone, tags, identity)
        named = [term.id for term in terms if term.id]
        for index, identity in enumerate(named):
            self._add_subnet([*self._zones][index % len(self._zones)], {}, identity)
        if not stated:
            for term in terms:
                self._create_tagged_subnets(term)

    def _create_tagged_subnets(self, term: SubnetSelectorTerm) -> None:
        tags = term.tags or {}
        for zone in self._zones if tags else ():
            subnets = [each for each in self._subnets() if each.zone == zone]
            if not _has_tagged(subnets, tags):
                self._add_subnet(zone, tags)

    def _subnets(self) -> Iterable[Subnet]:
        return self._services.network.state.subnets.values()

    def _add_subnet(self, zone: str, tags: Mapping[str, str], identity: str = "") -> None:
        network = self._services.network.state
        if identity in network.subnets or zone not in self._zones:
            return
        # Blocks that no VPC of the account has: addresses, and with them node names, are unique.
        block = f"10.{len(network.subnets) % 250}.0.0/17"
        identity = identity or _derived_id("subnet", f"{zone} {len(network.subnets)}")
        network.subnets[identity] = Subnet(
            id=identity,
            vpc_id=next(iter(network.vpcs)),
            zone=zone,
            zone_id=self._zones[zone],
            cidr=block,
            free=usable_addresses(block),
            tags=_tags_to_set(tags),
        )

    # Security groups

    def _create_security_groups(self, node_class: EC2NodeClass) -> None:
        for term in node_class.spec.securityGroupSelectorTerms or ():
            groups = self._services.network.state.groups.values()
            tags = term.tags or {}
            if term.id:
                exists = any(each.id == term.id for each in groups)
            elif term.name:
                exists = any(each.name == term.name for each in groups)
            else:
                exists = _has_tagged(groups, tags)
            if not exists:
                self._add_security_group(term.id or "", term.name or "", tags)

    def _add_security_group(self, identity: str, name: str, tags: Mapping[str, str]) -> None:
        network = self._services.network.state
        number = len(network.groups)
        group = SecurityGroup(
            id=identity or _derived_id("sg", f"{name} {number}"),
            name=name or f"selected-{number}",
            description="Nodes of the cluster",
            vpc_id=next(iter(network.vpcs)),
            tags=_tags_to_set(tags),
        )
        group.rules = default_rules(group)
        network.groups[group.id] = group

    # Role and instance profile

    def _create_role(self, node_class: EC2NodeClass) -> None:
        spec, iam = node_class.spec, self._services.iam
        role = (spec.role or "").rpartition("/")[2]
        if role and role not in iam.state.roles:
            iam.create_node_role(role)
        profile = (spec.instanceProfile or "").rpartition("/")[2]
        if profile and iam.find_profile(profile) is None:
            iam.create_node_profile(profile)

    # Images

    def _create_images(self, term: AMISelectorTerm) -> None:
        if term.alias:
            if not term.alias.endswith("@latest"):
                self._publish(term.alias, datetime.fromtimestamp(FIRST_IMAGE, UTC))
        elif term.ssmParameter:
            self._create_parameter(term.ssmParameter)
        elif term.id:
            self._add_images([term.id], term)
        elif not self._has_image(term):
            seed = f"{term.name} {sorted((term.tags or {}).items())} {term.owner}"
            ids = [_derived_id("ami", f"{seed} {each}") for each in ("x86_64", "arm64")]
            self._add_images(ids, term)

    def _publish(self, alias: str, published: datetime) -> tuple[str, ...]:
        services = self._services
        images = list_alias_images(services.context.region, self._version, alias, published)
        known = services.images.state.images
        services.images.add(to_ec2_image(each) for each in images if each.id not in known)
        services.ssm.publish(images)
        return tuple(each.id for each in images)

    def _create_parameter(self, name: str) -> None:
        ssm = self._services.ssm
        if name.startswith("arn:"):
            name = name.partition(":parameter")[2]
        if not ssm.has_parameter(name):
            identity = _derived_id("ami", name)
            ssm.put_parameter({"Name": name, "Value": identity, "Type": "String"})
            self._add_images([identity], AMISelectorTerm(name=f"image of {name}"))

    def _has_image(self, term: AMISelectorTerm) -> bool:
        images = self._services.images.state.images.values()
        named = [each for each in images if term.name in (None, each.name)]
        return _has_tagged(named, term.tags or {})

    def _add_images(self, ids: Sequence[str], term: AMISelectorTerm) -> None:
        own, owner = self._services.context.account, term.owner or "self"
        known = self._services.images.state.images
        self._services.images.add(
            Image(
                id=identity,
                name=(term.name or f"image-{identity}").replace("*", "0"),
                architecture=architecture,
                owner=owner if owner.isdecimal() else own,
                owner_alias=owner if owner.isalpha() and owner != "self" else None,
                created=FIRST_IMAGE,
                disks=[dict(each) for each in DISKS],
                tags=_tags_to_set(term.tags or {}),
            )
            for identity, architecture in zip(ids, ("x86_64", "arm64"), strict=False)
            if identity not in known
        )

    # Placement group

    def _create_placement_group(self, node_class: EC2NodeClass) -> None:
        selector = node_class.spec.placementGroupSelector
        if selector is None:
            return
        groups = self._services.placement.state.groups
        name = selector.name or f"group-{selector.id}"
        if not any(selector.id == each.id or name == each.name for each in groups.values()):
            identity = selector.id or _derived_id("pg", name)
            groups[identity] = PlacementGroup(id=identity, name=name, strategy="cluster")


FOLDERS: Final = {
    "al2023": "/{version}/amazon-linux-2023/",
    "al2": "/{version}/amazon-linux-2",
    "bottlerocket": "/bottlerocket/aws-k8s-{version}",
}
"""In the names of the SSM parameters of each AMI family."""


def _is_parameter_of(name: str, alias: str, version: str) -> bool:
    family, _, release = alias.lower().partition("@")
    year = family.removeprefix("windows")
    windows = f"Windows_Server-{year}-English-Core-EKS_Optimized-{{version}}/"
    folder = FOLDERS.get(family, windows).format(version=version)
    if folder not in name:
        return False
    if family not in FOLDERS:
        return True
    if release == "latest":
        return name.endswith(("/recommended/image_id", "/latest/image_id"))
    return f"{release.removeprefix('v')}/" in name


def _is_for(image: Image, instance_type: InstanceTypeInfo) -> bool:
    """Whether the image has the drivers that the type needs, and no others."""
    if image.owner_alias != "amazon" or "Windows" in image.name:
        return True
    name, is_gpu = image.name, instance_type.gpu is not None
    is_accelerated = instance_type.accelerator is not None
    if "-al2023-" in name:
        variant = "nvidia" if is_gpu else "neuron" if is_accelerated else "standard"
        return f"-{variant}-" in name
    if name.startswith("bottlerocket"):
        return ("-nvidia-" in name) == is_gpu
    return ("-gpu-" in name) == (is_gpu or is_accelerated)


def _selects_group(term: SecurityGroupSelectorTerm, group: SecurityGroup) -> bool:
    if term.id or term.name:
        return term.id == group.id or (not term.id and term.name == group.name)
    return _is_tagged(group.tags, term.tags or {})


def _has_tagged(resources: Iterable[_Tagged], tags: Mapping[str, str]) -> bool:
    return any(_is_tagged(each.tags, tags) for each in resources)


def _is_tagged(found: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(key in found and value in (ANY_VALUE, found[key]) for key, value in wanted.items())


def _tags_to_set(tags: Mapping[str, str]) -> dict[str, str]:
    return {key: TAG_VALUE if value == ANY_VALUE else value for key, value in tags.items()}


def _derived_id(prefix: str, seed: str) -> str:
    return f"{prefix}-0{blake2b(seed.encode(), digest_size=8).hexdigest()}"
