"""Provisioner (karpenter.sh/v1alpha5): what became the NodePool."""

from typing import Annotated, ClassVar

from wainwright.api.old.awsnodetemplate import AWSNodeTemplateSpec
from wainwright.api.old.kubelet import AlphaKubelet
from wainwright.api.old.scheduling import (
    AlphaRequirements,
    Annotations,
    ClassName,
    Labels,
    OldConditions,
    OldStartupTaints,
    OldTaints,
)
from wainwright.api.schema import SAYS, Schema, rule, wire
from wainwright.api.wire import A_QUANTITY, QUANTITY, Metadata, Quantities, Timestamp, Wire

Seconds = Annotated[int, wire("Seconds.", minimum=0, format="int64")]


class AlphaLimits(Wire, frozen=True, kw_only=True):
    """The most that the pool may hold; older texts leave `resources` out and list them here."""

    SCHEMA: ClassVar[Schema] = {
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY,
            SAYS: A_QUANTITY,
        }
    }

    resources: Annotated[Quantities | None, wire("Per resource.")] = None


class Consolidation(Wire, frozen=True, kw_only=True):
    enabled: Annotated[bool | None, wire("Whether nodes are replaced to save money.")] = None


class InlineProvider(AWSNodeTemplateSpec, frozen=True, kw_only=True):
    """The cloud's side of the node, carried by the Provisioner itself."""

    apiVersion: Annotated[str | None, wire("extensions.karpenter.sh/v1alpha1.")] = None
    kind: Annotated[str | None, wire("AWS.")] = None


class ProviderRef(Wire, frozen=True, kw_only=True):
    """Which AWSNodeTemplate holds the cloud's side of the node."""

    name: ClassName
    kind: Annotated[str | None, wire("AWSNodeTemplate when absent.")] = None
    apiVersion: Annotated[str | None, wire("Its group and version.")] = None


class ProvisionerSpec(Wire, frozen=True, kw_only=True):
    """What may be launched, how much of it, and when it goes."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "!has(self.provider) || !has(self.providerRef)",
                "provider and providerRef exclude each other",
                at=".provider",
            ),
            rule(
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
    taints: OldTaints | None = None
    startupTaints: OldStartupTaints | None = None
    kubeletConfiguration: AlphaKubelet | None = None
    provider: InlineProvider | None = None
    providerRef: ProviderRef | None = None
    limits: AlphaLimits | None = None
    weight: Annotated[
        int | None,
        wire("Higher ones are tried first.", minimum=1, maximum=100, format="int32"),
    ] = None
    consolidation: Consolidation | None = None
    ttlSecondsAfterEmpty: Seconds | None = None
    ttlSecondsUntilExpired: Seconds | None = None


class ProvisionerStatus(Wire, frozen=True, kw_only=True):
    """What the pool held."""

    resources: Annotated[Quantities | None, wire("The sum over its nodes.")] = None
    lastScaleTime: Timestamp | None = None
    conditions: OldConditions | None = None


class Provisioner(Wire, frozen=True, kw_only=True):
    """Allowed nodes to be launched for pods that lack one."""

    spec: ProvisionerSpec = ProvisionerSpec()
    apiVersion: str = "karpenter.sh/v1alpha5"
    kind: str = "Provisioner"
    metadata: Metadata = Metadata()
    status: ProvisionerStatus | None = None
