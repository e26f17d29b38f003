"""Provisioner (karpenter.sh/v1alpha5) and AWSNodeTemplate (karpenter.k8s.aws/v1alpha1).

A Provisioner could also carry the settings of an AWSNodeTemplate itself, under `spec.provider`.
"""

from typing import Annotated, ClassVar, Final

from wainwright.api.karpenter.ec2nodeclass import AMI, SecurityGroup, Subnet
from wainwright.api.legacy.legacy_fields import (
    LEGACY_AMI_FAMILIES,
    AlphaBlockDevice,
    AlphaKubelet,
    AlphaRequirements,
    Annotations,
    Labels,
    LegacyConditions,
    LegacyMetadataOptions,
    LegacyStartupTaints,
    LegacyTags,
    LegacyTaints,
    NodeClassName,
)
from wainwright.api.wire import (
    EXPECTED_QUANTITY,
    EXPECTED_TEXT_KEYWORD,
    QUANTITY_PATTERN,
    ObjectMeta,
    QuantityMap,
    Schema,
    Timestamp,
    WireStruct,
    cel_rule,
    field_meta,
)

IDS: Final = ("aws-ids", "aws::ids")
NAME_KEY: Final = "aws::name"
OWNERS_KEY: Final = "aws::owners"


def _selector_schema(description: str, prefix: str) -> object:
    """Tags by key; two keys stand for ids, which may be listed with commas."""
    one = f"{prefix}-[0-9a-z]+"
    return field_meta(
        description,
        max_properties=20,
        rules=[
            cel_rule("self.all(k, k != '')", "a selector needs a tag's key"),
            cel_rule(
                f"!('{IDS[0]}' in self) || !('{IDS[1]}' in self)",
                f"{IDS[0]} and {IDS[1]} mean the same: write one of them",
            ),
            cel_rule(
                f"self.all(k, !(k in ['{IDS[0]}', '{IDS[1]}']) "
                f"|| self[k].matches('^ *{one}( *, *{one})* *$'))",
                f"{IDS[0]} and {IDS[1]} list ids such as {prefix}-0a1b2c, separated by commas",
            ),
        ],
    )


class AWSNodeTemplateSpec(WireStruct, frozen=True, kw_only=True):
    """Where instances are placed, what they boot, and how."""

    amiFamily: Annotated[
        str | None, field_meta("How the image is bootstrapped.", enum=LEGACY_AMI_FAMILIES)
    ] = None
    amiSelector: Annotated[dict[str, str], _selector_schema("Which images.", "ami")] | None = None
    subnetSelector: (
        Annotated[dict[str, str], _selector_schema("Which subnets.", "subnet")] | None
    ) = None
    securityGroupSelector: (
        Annotated[dict[str, str], _selector_schema("Which security groups.", "sg")] | None
    ) = None
    instanceProfile: Annotated[str | None, field_meta("The profile of the nodes.")] = None
    launchTemplate: Annotated[str | None, field_meta("A launch template of the user's own.")] = None
    userData: Annotated[str | None, field_meta("Merged into what the instance boots with.")] = None
    blockDeviceMappings: Annotated[
        list[AlphaBlockDevice] | None, field_meta("The node's disks.", max_items=50)
    ] = None
    metadataOptions: LegacyMetadataOptions | None = None
    detailedMonitoring: Annotated[bool | None, field_meta("Whether metrics come every minute.")] = (
        None
    )
    context: Annotated[str | None, field_meta("Passed on to CreateFleet as it is.")] = None
    tags: LegacyTags | None = None


class AWSNodeTemplateStatus(WireStruct, frozen=True, kw_only=True):
    """What the selectors had found."""

    subnets: list[Subnet] | None = None
    securityGroups: list[SecurityGroup] | None = None
    amis: list[AMI] | None = None


class AWSNodeTemplate(WireStruct, frozen=True, kw_only=True):
    """What the nodes of a Provisioner are made of on EC2."""

    spec: AWSNodeTemplateSpec = AWSNodeTemplateSpec()
    apiVersion: str = "karpenter.k8s.aws/v1alpha1"
    kind: str = "AWSNodeTemplate"
    metadata: ObjectMeta = ObjectMeta()
    status: AWSNodeTemplateStatus | None = None


Seconds = Annotated[int, field_meta("Seconds.", minimum=0, format="int64")]


class AlphaLimits(WireStruct, frozen=True, kw_only=True):
    """The most that the pool may hold; older texts leave `resources` out and list them here."""

    SCHEMA: ClassVar[Schema] = {
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY_PATTERN,
            EXPECTED_TEXT_KEYWORD: EXPECTED_QUANTITY,
        }
    }

    resources: Annotated[QuantityMap | None, field_meta("Per resource.")] = None


class Consolidation(WireStruct, frozen=True, kw_only=True):
    enabled: Annotated[bool | None, field_meta("Whether nodes are replaced to save money.")] = None


class InlineProvider(AWSNodeTemplateSpec, frozen=True, kw_only=True):
    """The cloud's side of the node, carried by the Provisioner itself."""

    apiVersion: Annotated[str | None, field_meta("extensions.karpenter.sh/v1alpha1.")] = None
    kind: Annotated[str | None, field_meta("AWS.")] = None


class ProviderRef(WireStruct, frozen=True, kw_only=True):
    """Which AWSNodeTemplate holds the cloud's side of the node."""

    name: NodeClassName
    kind: Annotated[str | None, field_meta("AWSNodeTemplate when absent.")] = None
    apiVersion: Annotated[str | None, field_meta("Its group and version.")] = None


class ProvisionerSpec(WireStruct, frozen=True, kw_only=True):
    """What may be launched, how much of it, and when it goes."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "!has(self.provider) || !has(self.providerRef)",
                "provider and providerRef exclude each other",
                at=".provider",
            ),
            cel_rule(
                "!has(self.ttlSecondsAfterEmpty) || !has(self.consolidation) "
                "|| !has(self.consolidation.enabled) || !self.consolidation.enabled",
                "ttlSecondsAfterEmpty and consolidation.enabled exclude each other",
                at=".ttlSecondsAfterEmpty",
            ),
        ]
    }

    labels: Labels | None = None
    annotations: Annotations | None = None
    requirements: AlphaRequirements | None = None
    taints: LegacyTaints | None = None
    startupTaints: LegacyStartupTaints | None = None
    kubeletConfiguration: AlphaKubelet | None = None
    provider: InlineProvider | None = None
    providerRef: ProviderRef | None = None
    limits: AlphaLimits | None = None
    weight: Annotated[
        int | None,
        field_meta("Higher ones are tried first.", minimum=1, maximum=100, format="int32"),
    ] = None
    consolidation: Consolidation | None = None
    ttlSecondsAfterEmpty: Seconds | None = None
    ttlSecondsUntilExpired: Seconds | None = None


class ProvisionerStatus(WireStruct, frozen=True, kw_only=True):
    """What the pool held."""

    resources: Annotated[QuantityMap | None, field_meta("The sum over its nodes.")] = None
    lastScaleTime: Timestamp | None = None
    conditions: LegacyConditions | None = None


class Provisioner(WireStruct, frozen=True, kw_only=True):
    """Allowed nodes to be launched for pods that lack one."""

    spec: ProvisionerSpec = ProvisionerSpec()
    apiVersion: str = "karpenter.sh/v1alpha5"
    kind: str = "Provisioner"
    metadata: ObjectMeta = ObjectMeta()
    status: ProvisionerStatus | None = None
