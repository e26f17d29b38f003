"""NodePool, NodeClaim (karpenter.sh/v1beta1) and EC2NodeClass (karpenter.k8s.aws/v1beta1).

In v1beta1 the AMI family alone chose the image, expiry belonged to the pool's disruption settings
and kubelet settings to the pool.
"""

from typing import Annotated, ClassVar, Final

from wainwright.api.karpenter.ec2nodeclass import (
    AMI,
    SecurityGroup,
    SecurityGroupSelectorTerm,
    Subnet,
    SubnetSelectorTerm,
    Tags,
)
from wainwright.api.karpenter.nodeclaim import NodeClaimResources
from wainwright.api.karpenter.nodepool import SCHEDULE_PATTERN
from wainwright.api.karpenter.shared_fields import (
    DURATION_OR_NEVER_PATTERN,
    EXPECTED_DURATION_OR_NEVER,
)
from wainwright.api.legacy.legacy_fields import (
    LEGACY_AMI_FAMILIES,
    Annotations,
    BetaBlockDevice,
    BetaKubelet,
    BetaNodeClassRef,
    BetaRequirements,
    Labels,
    LegacyConditions,
    LegacyMetadataOptions,
    LegacyStartupTaints,
    LegacyTags,
    LegacyTaints,
)
from wainwright.api.wire import ObjectMeta, QuantityMap, Schema, WireStruct, cel_rule, field_meta


class BetaImageTerm(WireStruct, frozen=True, kw_only=True):
    """Machine images by id, name, owner or tags."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "has(self.tags) || has(self.id) || has(self.name)",
                "an empty term selects nothing; set one of tags, id, name",
            ),
            cel_rule(
                "!has(self.id) || !(has(self.tags) || has(self.name) || has(self.owner))",
                "id names one thing and goes with no other field",
                at=".id",
            ),
        ]
    }

    id: Annotated[
        str | None,
        field_meta("The image's id.", pattern="ami-[0-9a-z]+", expected="an id such as ami-0a1b2c"),
    ] = None
    name: Annotated[str | None, field_meta("The image's name.")] = None
    owner: Annotated[str | None, field_meta("The account that owns the image, or self.")] = None
    tags: Tags | None = None


class BetaNodeClassSpec(WireStruct, frozen=True, kw_only=True):
    """Where instances are placed, what they boot, and how."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "!has(self.role) || !has(self.instanceProfile)",
                "role and instanceProfile exclude each other",
                at=".instanceProfile",
            )
        ]
    }

    amiFamily: Annotated[
        str | None, field_meta("How the image is bootstrapped.", enum=LEGACY_AMI_FAMILIES)
    ] = None
    amiSelectorTerms: Annotated[
        list[BetaImageTerm] | None, field_meta("Which images; alternatives.", max_items=30)
    ] = None
    subnetSelectorTerms: Annotated[
        list[SubnetSelectorTerm] | None, field_meta("Which subnets; alternatives.", max_items=30)
    ] = None
    securityGroupSelectorTerms: Annotated[
        list[SecurityGroupSelectorTerm] | None,
        field_meta("Which groups; alternatives.", max_items=30),
    ] = None
    role: Annotated[str | None, field_meta("The role of the nodes.")] = None
    instanceProfile: Annotated[str | None, field_meta("The profile of the nodes.")] = None
    userData: Annotated[str | None, field_meta("Merged into what the instance boots with.")] = None
    blockDeviceMappings: Annotated[
        list[BetaBlockDevice] | None,
        field_meta(
            "The node's disks.",
            max_items=50,
            rules=[
                cel_rule(
                    "self.filter(d, has(d.rootVolume) && d.rootVolume).size() <= 1",
                    "only one disk can be the root volume",
                )
            ],
        ),
    ] = None
    instanceStorePolicy: Annotated[
        str | None, field_meta("What becomes of local disks.", enum=["RAID0"])
    ] = None
    associatePublicIPAddress: Annotated[
        bool | None, field_meta("Whether instances get a public address.")
    ] = None
    detailedMonitoring: Annotated[bool | None, field_meta("Whether metrics come every minute.")] = (
        None
    )
    metadataOptions: LegacyMetadataOptions | None = None
    context: Annotated[str | None, field_meta("Passed on to CreateFleet as it is.")] = None
    tags: LegacyTags | None = None


class BetaNodeClassStatus(WireStruct, frozen=True, kw_only=True):
    """What the terms had found."""

    subnets: list[Subnet] | None = None
    securityGroups: list[SecurityGroup] | None = None
    amis: list[AMI] | None = None
    instanceProfile: Annotated[str | None, field_meta("The profile made for the role.")] = None
    conditions: LegacyConditions | None = None


class EC2NodeClassV1Beta1(WireStruct, frozen=True, kw_only=True):
    """What the nodes of a pool are made of on EC2."""

    spec: BetaNodeClassSpec
    apiVersion: str = "karpenter.k8s.aws/v1beta1"
    kind: str = "EC2NodeClass"
    metadata: ObjectMeta = ObjectMeta()
    status: BetaNodeClassStatus | None = None


BETA_CONSOLIDATION_POLICIES: Final = ["WhenEmpty", "WhenUnderutilized"]
BetaDuration = Annotated[
    str, field_meta(pattern=DURATION_OR_NEVER_PATTERN, expected=EXPECTED_DURATION_OR_NEVER)
]


class BetaTemplateMetadata(WireStruct, frozen=True, kw_only=True):
    """Labels and annotations that every node of the pool gets."""

    labels: Labels | None = None
    annotations: Annotations | None = None


class BetaTemplateSpec(WireStruct, frozen=True, kw_only=True):
    """The nodes that the pool may launch."""

    nodeClassRef: BetaNodeClassRef | None = None
    requirements: BetaRequirements | None = None
    taints: LegacyTaints | None = None
    startupTaints: LegacyStartupTaints | None = None
    kubelet: BetaKubelet | None = None
    resources: NodeClaimResources | None = None


class BetaTemplate(WireStruct, frozen=True, kw_only=True):
    """What is stamped onto every claim of the pool."""

    spec: BetaTemplateSpec
    metadata: BetaTemplateMetadata | None = None


class BetaBudget(WireStruct, frozen=True, kw_only=True):
    """How many nodes may be disrupted at once, and when; reasons came later."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "has(self.schedule) == has(self.duration)",
                "schedule and duration belong together: set both or neither",
            )
        ]
    }

    nodes: Annotated[
        str | None,
        field_meta(
            "A count or a percentage of the pool's nodes.",
            pattern=r"^((100|[0-9]{1,2})%|[0-9]+)$",
            expected="a count such as 3, or 0% to 100%",
        ),
    ] = None
    schedule: Annotated[
        str | None,
        field_meta(
            "When it begins to hold: cron, in UTC.",
            pattern=SCHEDULE_PATTERN,
            expected="five cron fields, or @daily and the like",
        ),
    ] = None
    duration: Annotated[
        str | None,
        field_meta(
            "How long it holds from each begin.",
            pattern=r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$",
            expected="hours and minutes without seconds, such as 8h or 1h30m",
        ),
    ] = None


class BetaDisruption(WireStruct, frozen=True, kw_only=True):
    """When nodes of the pool may be replaced or removed, and how long they live."""

    consolidationPolicy: Annotated[
        str | None, field_meta("Which nodes.", enum=BETA_CONSOLIDATION_POLICIES)
    ] = None
    consolidateAfter: BetaDuration | None = None
    expireAfter: BetaDuration | None = None
    budgets: Annotated[list[BetaBudget] | None, field_meta("Limits on it.", max_items=50)] = None


class BetaNodePoolSpec(WireStruct, frozen=True, kw_only=True):
    """What may be launched, in which order, and how much."""

    template: BetaTemplate
    disruption: BetaDisruption | None = None
    limits: Annotated[QuantityMap | None, field_meta("The most that the pool may hold.")] = None
    weight: Annotated[
        int | None,
        field_meta("Higher ones are tried first.", minimum=1, maximum=100, format="int32"),
    ] = None


class BetaNodePoolStatus(WireStruct, frozen=True, kw_only=True):
    """What the pool held."""

    resources: Annotated[QuantityMap | None, field_meta("The sum over its nodes.")] = None
    conditions: LegacyConditions | None = None


class NodePoolV1Beta1(WireStruct, frozen=True, kw_only=True):
    """Allowed nodes to be launched for pods that lack one."""

    spec: BetaNodePoolSpec
    apiVersion: str = "karpenter.sh/v1beta1"
    kind: str = "NodePool"
    metadata: ObjectMeta = ObjectMeta()
    status: BetaNodePoolStatus | None = None


class BetaNodeClaimSpec(WireStruct, frozen=True, kw_only=True):
    """What is wanted."""

    nodeClassRef: BetaNodeClassRef | None = None
    requirements: BetaRequirements | None = None
    resources: NodeClaimResources | None = None
    taints: LegacyTaints | None = None
    startupTaints: LegacyStartupTaints | None = None
    kubelet: BetaKubelet | None = None


class BetaNodeClaimStatus(WireStruct, frozen=True, kw_only=True):
    """What came of it."""

    nodeName: Annotated[str | None, field_meta("The node that joined.")] = None
    providerID: Annotated[str | None, field_meta("The instance, as the cloud names it.")] = None
    imageID: Annotated[str | None, field_meta("The image it booted from.")] = None
    capacity: Annotated[QuantityMap | None, field_meta("Its capacity.")] = None
    allocatable: Annotated[QuantityMap | None, field_meta("What pods may use of it.")] = None
    conditions: LegacyConditions | None = None


class NodeClaimV1Beta1(WireStruct, frozen=True, kw_only=True):
    """A node that has been decided on."""

    spec: BetaNodeClaimSpec
    apiVersion: str = "karpenter.sh/v1beta1"
    kind: str = "NodeClaim"
    metadata: ObjectMeta = ObjectMeta()
    status: BetaNodeClaimStatus | None = None
