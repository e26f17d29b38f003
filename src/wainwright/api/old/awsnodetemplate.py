"""AWSNodeTemplate (karpenter.k8s.aws/v1alpha1): what became the EC2NodeClass.

A Provisioner could also carry the same settings itself, under `spec.provider`.
"""

from typing import Annotated, Final

from wainwright.api.ec2nodeclass import Image, SecurityGroup, Subnet
from wainwright.api.old.instance import (
    OLD_FAMILIES,
    AlphaBlockDevice,
    OldMetadataOptions,
    OldTags,
)
from wainwright.api.schema import rule, wire
from wainwright.api.wire import Metadata, Wire

IDS: Final = ("aws-ids", "aws::ids")
NAME: Final = "aws::name"
OWNERS: Final = "aws::owners"


def _selector(description: str, prefix: str) -> object:
    """Tags by key; two keys stand for ids, which may be listed with commas."""
    one = f"{prefix}-[0-9a-z]+"
    return wire(
        description,
        max_properties=20,
        rules=[
            rule("self.all(k, k != '')", "a selector needs a tag's key"),
            rule(
                f"!('{IDS[0]}' in self) || !('{IDS[1]}' in self)",
                f"{IDS[0]} and {IDS[1]} mean the same: write one of them",
            ),
            rule(
                f"self.all(k, !(k in ['{IDS[0]}', '{IDS[1]}']) "
                f"|| self[k].matches('^ *{one}( *, *{one})* *$'))",
                f"{IDS[0]} and {IDS[1]} list ids such as {prefix}-0a1b2c, separated by commas",
            ),
        ],
    )


class AWSNodeTemplateSpec(Wire, frozen=True, kw_only=True):
    """Where instances are placed, what they boot, and how."""

    amiFamily: Annotated[str | None, wire("How the image is bootstrapped.", enum=OLD_FAMILIES)] = (
        None
    )
    amiSelector: Annotated[dict[str, str], _selector("Which images.", "ami")] | None = None
    subnetSelector: Annotated[dict[str, str], _selector("Which subnets.", "subnet")] | None = None
    securityGroupSelector: (
        Annotated[dict[str, str], _selector("Which security groups.", "sg")] | None
    ) = None
    instanceProfile: Annotated[str | None, wire("The profile of the nodes.")] = None
    launchTemplate: Annotated[str | None, wire("A launch template of the user's own.")] = None
    userData: Annotated[str | None, wire("Merged into what the instance boots with.")] = None
    blockDeviceMappings: Annotated[
        list[AlphaBlockDevice] | None, wire("The node's disks.", max_items=50)
    ] = None
    metadataOptions: OldMetadataOptions | None = None
    detailedMonitoring: Annotated[bool | None, wire("Whether metrics come every minute.")] = None
    context: Annotated[str | None, wire("Passed on to CreateFleet as it is.")] = None
    tags: OldTags | None = None


class AWSNodeTemplateStatus(Wire, frozen=True, kw_only=True):
    """What the selectors had found."""

    subnets: list[Subnet] | None = None
    securityGroups: list[SecurityGroup] | None = None
    amis: list[Image] | None = None


class AWSNodeTemplate(Wire, frozen=True, kw_only=True):
    """What the nodes of a Provisioner are made of on EC2."""

    spec: AWSNodeTemplateSpec = AWSNodeTemplateSpec()
    apiVersion: str = "karpenter.k8s.aws/v1alpha1"
    kind: str = "AWSNodeTemplate"
    metadata: Metadata = Metadata()
    status: AWSNodeTemplateStatus | None = None
