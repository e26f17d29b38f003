"""Validation: whether launches of a class would be allowed, found out by dry runs.

The launch template of the dry run is written by the same code as those of launches, user data
included: what cannot be written, or what EC2 does not take, shows in the conditions of the class
and not in a launch that fails.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.karpenter.ec2nodeclass import RESTRICTED_TAGS, EC2NodeClass
from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.error_codes import is_access_denied, is_profile_propagating, is_transient
from wainwright.aws.api.seam import tag_specifications
from wainwright.aws.api.services import Ec2
from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.launch.launch_request import ClusterContext, LaunchContext, LaunchRequest
from wainwright.aws.launch.offering_selection import LaunchOffering, LaunchSelection
from wainwright.aws.launchtemplate.template_data import LaunchTemplate
from wainwright.aws.launchtemplate.template_provider import LaunchTemplateProvider
from wainwright.aws.nodeclass.status import (
    FALSE,
    VALIDATION_SUCCEEDED,
    ConditionState,
    ResolvedImage,
    ResolvedNodeClass,
    ResolvedPart,
    ResolvedSubnet,
    condition_false,
    condition_true,
    condition_unknown,
    select_image,
)
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    CatalogOptions,
    parse_node_class,
    resolve_ami_family,
)
from wainwright.clock import Clock
from wainwright.errors import AwsError, InvalidInputError
from wainwright.model.labels import ARCH, INSTANCE_ACCELERATOR_COUNT, INSTANCE_GPU_COUNT, ON_DEMAND
from wainwright.model.node_claim import NodeClaim

DRY_RUN_TYPES: Final[Mapping[tuple[str, str], str]] = {
    ("amd64", ""): "m5.large",
    ("arm64", ""): "m6g.large",
    ("amd64", INSTANCE_GPU_COUNT): "g4dn.xlarge",
    ("arm64", INSTANCE_GPU_COUNT): "g5g.xlarge",
    ("amd64", INSTANCE_ACCELERATOR_COUNT): "inf2.xlarge",
}
"""A type that nearly every region has, by architecture and device: nothing is launched with it."""


class DryRunTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A template that is there, and an instance to try it out with."""

    template: str
    """Its name."""
    image: ResolvedImage
    kind: str
    """An instance type that the image is for."""


class DryRunTemplateProvider(Protocol):
    """Whoever makes launch templates."""

    async def dry_run(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> DryRunTemplate:
        """Makes sure of a template as launches of the class use it.

        AwsError where EC2 refuses it, InvalidInputError where it cannot be written.
        """
        ...


class MinimalDryRunTemplates:
    """A template with what is known without the rest of the launch; it boots no node.

    Made in earnest: EC2 looks for the template of a fleet even where nothing is to be launched.
    """

    def __init__(self, templates: LaunchTemplateProvider, cluster: ClusterConfig) -> None:
        self._templates = templates
        self._cluster = cluster

    async def dry_run(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> DryRunTemplate:
        tags = self._cluster.class_tags(node_class.metadata.name, node_class.spec.tags)
        image = standard_images_first(resolved.images)[0]
        data = {
            "ImageId": image.id,
            "IamInstanceProfile": {"Name": resolved.profile},
            "NetworkInterfaces": [
                {"DeviceIndex": 0, "Groups": [each.id for each in resolved.security_groups]}
            ],
            "TagSpecifications": tag_specifications(tags, "network-interface"),
        }
        name = await self._templates.ensure(LaunchTemplate(data=data, tags=tags))
        return DryRunTemplate(template=name, image=image, kind=dry_run_type(image))


class DryRunLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """What a launch is rehearsed with."""

    made: DryRunTemplate
    subnet: ResolvedSubnet
    tags: Mapping[str, str]

    def fleet(self) -> dict[str, Any]:
        """CreateFleet for one instance on demand."""
        override = {
            "InstanceType": self.made.kind,
            "SubnetId": self.subnet.id,
            "ImageId": self.made.image.id,
        }
        return {
            "Type": "instant",
            "LaunchTemplateConfigs": [
                {"LaunchTemplateSpecification": self._template(), "Overrides": [override]}
            ],
            "TargetCapacitySpecification": {
                "DefaultTargetCapacityType": "on-demand",
                "TotalTargetCapacity": 1,
            },
            "TagSpecifications": tag_specifications(self.tags, "instance", "volume", "fleet"),
        }

    def run(self) -> dict[str, Any]:
        """RunInstances for the same instance: who may launch fleets may not launch instances."""
        return {
            "LaunchTemplate": self._template(),
            "InstanceType": self.made.kind,
            "MinCount": 1,
            "MaxCount": 1,
            "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": self.subnet.id}],
            "TagSpecifications": tag_specifications(
                self.tags, "instance", "volume", "network-interface"
            ),
        }

    def _template(self) -> dict[str, str]:
        return {"LaunchTemplateName": self.made.template, "Version": "$Latest"}


def standard_images_first(images: Sequence[ResolvedImage]) -> list[ResolvedImage]:
    """Those for ordinary instances before others: such instances are sold everywhere."""
    return sorted(images, key=lambda image: len(_device_labels(image)))


def dry_run_type(image: ResolvedImage) -> str:
    """A type that the image is for."""
    cpu = image.requirements.single_value(ARCH) or "amd64"
    return DRY_RUN_TYPES.get((cpu, "".join(_device_labels(image)[:1])), DRY_RUN_TYPES[cpu, ""])


def _device_labels(image: ResolvedImage) -> list[str]:
    """Labels of the devices that its instances must have."""
    asked = image.requirements
    counts = (INSTANCE_GPU_COUNT, INSTANCE_ACCELERATOR_COUNT)
    return [key for key in counts if key in asked and not asked[key].allowed.admits_absence]


VALIDATION_TTL: Final = 1800.0  # seconds for which a success stands
VALIDATION_FAILED_TTL: Final = 60.0
VALIDATION_REQUEUE_SECONDS: Final = 600.0
MAX_USER_DATA_BYTES: Final = 16384  # bytes that an instance can be given
CLUSTER_TAG_PREFIX: Final = "kubernetes.io/cluster"
AUTH_FAILED_REASONS: Final = {
    "CreateLaunchTemplate": "CreateLaunchTemplateAuthCheckFailed",
    "CreateFleet": "CreateFleetAuthCheckFailed",
    "RunInstances": "RunInstancesAuthCheckFailed",
}


class NodeClassValidator:
    """Remembers what it found as long as nothing that matters has changed."""

    def __init__(
        self,
        ec2: Ec2,
        cluster: ClusterConfig,
        dry_run_templates: DryRunTemplateProvider,
        clock: Clock,
    ) -> None:
        self._ec2 = ec2
        self._cluster = cluster
        self._dry_run_templates = dry_run_templates
        self._known: TtlCache[ConditionState] = TtlCache(
            clock, lambda finding: VALIDATION_TTL if finding.good else VALIDATION_FAILED_TTL
        )

    async def find(
        self,
        node_class: EC2NodeClass,
        resolved: ResolvedNodeClass,
        findings: Sequence[ConditionState],
    ) -> ResolvedPart[None]:
        """The class itself is looked at first; EC2 is asked once everything else is there."""
        wrong = next(spec_problems(node_class, resolved), None) or _dependencies_not_ready(findings)
        if wrong is not None:
            return ResolvedPart(value=None, finding=wrong, requeue_after=VALIDATION_FAILED_TTL)
        if not self._cluster.dry_runs:
            finding = condition_true(
                VALIDATION_SUCCEEDED, "dry runs are switched off: permissions are not tried out"
            )
            return ResolvedPart(value=None, finding=finding, requeue_after=VALIDATION_TTL)
        key = _validation_key(node_class, resolved)
        finding = await self._known.get(key, lambda: self._dry_run(node_class, resolved))
        requeue_after = VALIDATION_REQUEUE_SECONDS if finding.good else VALIDATION_FAILED_TTL
        return ResolvedPart(value=None, finding=finding, requeue_after=requeue_after)

    async def _dry_run(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> ConditionState:
        try:
            made = await self._dry_run_templates.dry_run(node_class, resolved)
        except AwsError as error:
            return _dry_run_failure("CreateLaunchTemplate", error)
        except InvalidInputError as error:
            return condition_false(VALIDATION_SUCCEEDED, "LaunchTemplateInvalid", error.message)
        tags = self._cluster.launch_tags(node_class.metadata.name, "", node_class.spec.tags)
        trials = [DryRunLaunch(made=made, subnet=subnet, tags=tags) for subnet in resolved.subnets]
        refused = await self._try(trials)
        return condition_true(VALIDATION_SUCCEEDED) if refused is None else refused

    async def _try(self, trials: Sequence[DryRunLaunch]) -> ConditionState | None:
        """A fleet and an instance; where the type is not sold in one subnet's zone, in the next."""
        for operation in ("CreateFleet", "RunInstances"):
            error: AwsError | None = None
            for trial in trials:
                request = trial.fleet() if operation == "CreateFleet" else trial.run()
                error = await self._ec2.dry_run(operation, request)
                if error is None or is_access_denied(error):
                    break
            if error is not None:
                return _dry_run_failure(operation, error)
        return None


def spec_problems(
    node_class: EC2NodeClass, resolved: ResolvedNodeClass
) -> Iterator[ConditionState]:
    """What is wrong with the class whatever EC2 says."""
    restricted = [
        key
        for key in sorted(node_class.spec.tags or {})
        if key in RESTRICTED_TAGS or key.startswith(CLUSTER_TAG_PREFIX)
    ]
    if restricted:
        message = f"these tags are set by the controller: {', '.join(restricted)}"
        yield condition_false(VALIDATION_SUCCEEDED, "TagValidationFailed", message)
    try:
        parse_node_class(node_class, CatalogOptions())
    except InvalidInputError as error:
        yield condition_false(VALIDATION_SUCCEEDED, "KubeletValidationFailed", error.message)
    size = len((node_class.spec.userData or "").encode())
    if size > MAX_USER_DATA_BYTES:
        message = f"userData has {size:,} bytes, an instance takes at most {MAX_USER_DATA_BYTES:,}"
        yield condition_false(VALIDATION_SUCCEEDED, "UserDataTooLarge", message)
    if resolve_ami_family(node_class.spec) is AmiFamily.AL2023 and not resolved.cluster_cidr:
        message = "EKS does not say the service CIDR of the cluster, without which no node can join"
        yield condition_unknown(VALIDATION_SUCCEEDED, "ClusterCIDRNotFound", message)


def _dependencies_not_ready(findings: Sequence[ConditionState]) -> ConditionState | None:
    """Nothing can be rehearsed while something is missing."""
    missing = [each for each in findings if not each.good]
    if not missing:
        return None
    message = f"waiting for {', '.join(each.type for each in missing)}"
    told = condition_false if any(each.status == FALSE for each in missing) else condition_unknown
    return told(VALIDATION_SUCCEEDED, "DependenciesNotReady", message)


def _dry_run_failure(operation: str, error: AwsError) -> ConditionState:
    """Refused for good, or only not clear yet: then it is tried again.

    An error that says nothing about the class is raised on: what was found last still stands.
    """
    if is_transient(error):
        raise error
    if is_access_denied(error):
        message = f"not allowed to call {operation}: {error.text}"
        return condition_false(VALIDATION_SUCCEEDED, AUTH_FAILED_REASONS[operation], message)
    if is_profile_propagating(error):
        message = "EC2 does not know the instance profile yet"
        return condition_unknown(VALIDATION_SUCCEEDED, "InstanceProfilePropagating", message)
    return condition_unknown(
        VALIDATION_SUCCEEDED, f"{operation}DryRunFailed", f"{error.code}: {error.text}"
    )


def _validation_key(node_class: EC2NodeClass, resolved: ResolvedNodeClass) -> tuple[object, ...]:
    return (
        node_class.metadata.uid or node_class.metadata.name,
        msgspec.json.encode(node_class.spec, order="deterministic"),
        resolved.profile,
        tuple(image.id for image in resolved.images),
        frozenset(each.id for each in resolved.subnets),
        resolved.security_groups,
    )


class LaunchDryRunTemplates:
    """Rehearses with the cheapest ordinary instance that the class can boot."""

    def __init__(
        self,
        templates: LaunchTemplateProvider,
        cluster_context: Callable[[], Awaitable[ClusterContext]],
        launch_context: Callable[[EC2NodeClass, ResolvedNodeClass], LaunchContext],
    ) -> None:
        self._templates = templates
        self._cluster_context = cluster_context
        self._launch_context = launch_context

    async def dry_run(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> DryRunTemplate:
        launch_context = self._launch_context(node_class, resolved)
        name = node_class.metadata.name
        claim = NodeClaim(name=f"a rehearsal of {name}", uid="", pool="", node_class=name)
        image, offerings = _bootable_offering(launch_context)
        choice = LaunchSelection(capacity_type=ON_DEMAND, offerings=offerings)
        order = LaunchRequest(
            claim=claim,
            choice=choice,
            launch_context=launch_context,
            cluster_context=await self._cluster_context(),
        )
        subnets = {subnet.zone: subnet for subnet in reversed(resolved.subnets)}
        made = order.divided(subnets, lambda _: 0)
        if not made.configs or image is None:
            why = "; ".join(made.remarks) or "none is sold in the zones of its subnets"
            raise InvalidInputError(f"no instance type can be launched from the class: {why}")
        template = await self._templates.ensure(made.configs[0].template)
        return DryRunTemplate(template=template, image=image, kind=offerings[0].kind)


def _bootable_offering(
    launch_context: LaunchContext,
) -> tuple[ResolvedImage | None, tuple[LaunchOffering, ...]]:
    """The first image for which some instance is sold, and that instance."""
    for image in standard_images_first(launch_context.resolved.images):
        offerings = _dry_run_offerings(launch_context, image)
        if offerings:
            return image, offerings
    return None, ()


def _dry_run_offerings(
    launch_context: LaunchContext, image: ResolvedImage
) -> tuple[LaunchOffering, ...]:
    """One instance for the image; the usual type for it where that is sold."""
    offers = [
        LaunchOffering(kind=kind.name, zone=offering.zone, price=offering.price)
        for kind in launch_context.built.types
        if select_image(launch_context.resolved.images, kind.requirements) == image
        for offering in kind.offerings
        if offering.zone is not None and offering.reservation_id is None
    ]
    usual = dry_run_type(image)
    ordered = sorted(
        offers, key=lambda offering: (offering.kind != usual, offering.price, offering.kind)
    )
    return tuple(ordered[:1])
