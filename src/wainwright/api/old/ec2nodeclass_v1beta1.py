"""EC2NodeClass (karpenter.k8s.aws/v1beta1): the class while a family alone chose the image."""

from typing import Annotated, ClassVar

from wainwright.api.ec2nodeclass import Image, SecurityGroup, Subnet
from wainwright.api.old.instance import (
    OLD_FAMILIES,
    BetaBlockDevice,
    OldMetadataOptions,
    OldTags,
)
from wainwright.api.old.scheduling import OldConditions
from wainwright.api.schema import Schema, rule, wire
from wainwright.api.selectors import SecurityGroupTerm, SubnetTerm, Tags
from wainwright.api.wire import Metadata, Wire


class BetaImageTerm(Wire, frozen=True, kw_only=True):
    """Machine images by id, name, owner or tags."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "has(self.tags) || has(self.id) || has(self.name)",
                "an empty term selects nothing; set one of tags, id, name",
            ),
            rule(
                "!has(self.id) || !(has(self.tags) || has(self.name) || has(self.owner))",
                "id names one thing and goes with no other field",
                at=".id",
            ),
        ]
    }

    id: Annotated[
        str | None,
        wire("The image's id.", pattern="ami-[0-9a-z]+", says="an id such as ami-0a1b2c"),
    ] = None
    name: Annotated[str | None, wire("The image's name.")] = None
    owner: Annotated[str | None, wire("The account that owns the image, or self.")] = None
    tags: Tags | None = None


class BetaNodeClassSpec(Wire, frozen=True, kw_only=True):
    """Where instances are placed, what they boot, and how."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "!has(self.role) || !has(self.instanceProfile)",
                "role and instanceProfile exclude each other",
                at=".instanceProfile",
            )
        ]
    }

    amiFamily: Annotated[str | None, wire("How the image is bootstrapped.", enum=OLD_FAMILIES)] = (
        None
    )
    amiSelectorTerms: Annotated[
        list[BetaImageTerm] | None, wire("Which images; alternatives.", max_items=30)
    ] = None
    subnetSelectorTerms: Annotated[
        list[SubnetTerm] | None, wire("Which subnets; alternatives.", max_items=30)
    ] = None
    securityGroupSelectorTerms: Annotated[
        list[SecurityGroupTerm] | None, wire("Which groups; alternatives.", max_items=30)
    ] = None
    role: Annotated[str | None, wire("The role of the nodes.")] = None
    instanceProfile: Annotated[str | None, wire("The profile of the nodes.")] = None
    userData: Annotated[str | None, wire("Merged into what the instance boots with.")] = None
    blockDeviceMappings: Annotated[
        list[BetaBlockDevice] | None,
        wire(
            "The node's disks.",
            max_items=50,
            rules=[
                rule(
                    "self.filter(d, has(d.rootVolume) && d.rootVolume).size() <= 1",
                    "only one disk can be the root volume",
                )
            ],
        ),
    ] = None
    instanceStorePolicy: Annotated[
        str | None, wire("What becomes of local disks.", enum=["RAID0"])
    ] = None
    associatePublicIPAddress: Annotated[
        bool | None, wire("Whether instances get a public address.")
    ] = None
    detailedMonitoring: Annotated[bool | None, wire("Whether metrics come every minute.")] = None
    metadataOptions: OldMetadataOptions | None = None
    context: Annotated[str | None, wire("Passed on to CreateFleet as it is.")] = None
    tags: OldTags | None = None


class BetaNodeClassStatus(Wire, frozen=True, kw_only=True):
    """What the terms had found."""

    subnets: list[Subnet] | None = None
    securityGroups: list[SecurityGroup] | None = None
    amis: list[Image] | None = None
    instanceProfile: Annotated[str | None, wire("The profile made for the role.")] = None
    conditions: OldConditions | None = None


class EC2NodeClassV1Beta1(Wire, frozen=True, kw_only=True):
    """What the nodes of a pool are made of on EC2."""

    spec: BetaNodeClassSpec
    apiVersion: str = "karpenter.k8s.aws/v1beta1"
    kind: str = "EC2NodeClass"
    metadata: Metadata = Metadata()
    status: BetaNodeClassStatus | None = None
