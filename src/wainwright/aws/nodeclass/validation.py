"""Validation: whether launches of a class would be allowed, checked with dry runs.

The launch template of the dry run is written by the same code as those of launches, user data
included: a template that cannot be written, or that EC2 rejects, appears in the conditions of the
class and not as a failed launch.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.karpenter.ec2nodeclass import RESTRICTED_TAGS, EC2NodeClass
from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.error_codes import is_access_denied, is_profile_propagating, is_transient
from wainwright.aws.api.services import Ec2, tag_specifications
from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.launch.launch_request import ClusterContext, LaunchContext, LaunchRequest
from wainwright.aws.launch.offering_selection import LaunchOffering, LaunchSelection
from wainwright.aws.launchtemplate.launch_templates import LaunchTemplateProvider
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
from wainwright.aws.userdata.user_data import MAX_USER_DATA_BYTES
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    CatalogOptions,
    parse_node_class,
    resolve_ami_family,
)
from wainwright.clock import Clock
from wainwright.errors import AwsError, InvalidInputError
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import ARCH, INSTANCE_ACCELERATOR_COUNT, INSTANCE_GPU_COUNT, ON_DEMAND
from wainwright.model.node_claim import NodeClaim

DRY_RUN_TYPES: Final[Mapping[tuple[str, str], str]] = {
    ("amd64", ""): "m5.large",
    ("arm64", ""): "m6g.large",
    ("amd64", INSTANCE_GPU_COUNT): "g4dn.xlarge",
    ("arm64", INSTANCE_GPU_COUNT): "g5g.xlarge",
    ("amd64", INSTANCE_ACCELERATOR_COUNT): "inf2.xlarge",
}
"""A type that nearly every region has, by architecture and device; only for dry runs."""


class DryRunTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """An existing launch template, and an instance type for its dry run."""

    name: str
    image: ResolvedImage
    instance_type: str
    """A type that the image is for."""


class DryRunTemplateProvider(Protocol):
    """Creates launch templates for dry runs."""

    async def ensure_template(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> DryRunTemplate:
        """Ensures that a template as used by launches of the class exists.

        AwsError if EC2 rejects it, InvalidInputError if it cannot be written.
        """
        ...


class DryRunLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a dry run of a launch."""

    template: DryRunTemplate
    subnet: ResolvedSubnet
    tags: Mapping[str, str]

    def create_fleet_request(self) -> dict[str, Any]:
        """CreateFleet for one on-demand instance."""
        override = {
            "InstanceType": self.template.instance_type,
            "SubnetId": self.subnet.id,
            "ImageId": self.template.image.id,
        }
        return {
            "Type": "instant",
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": self._template_specification(),
                    "Overrides": [override],
                }
            ],
            "TargetCapacitySpecification": {
                "DefaultTargetCapacityType": "on-demand",
                "TotalTargetCapacity": 1,
            },
            "TagSpecifications": tag_specifications(self.tags, "instance", "volume", "fleet"),
        }

    def run_instances_request(self) -> dict[str, Any]:
        """RunInstances for the same instance: CreateFleet also needs that permission."""
        return {
            "LaunchTemplate": self._template_specification(),
            "InstanceType": self.template.instance_type,
            "MinCount": 1,
            "MaxCount": 1,
            "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": self.subnet.id}],
            "TagSpecifications": tag_specifications(
                self.tags, "instance", "volume", "network-interface"
            ),
        }

    def _template_specification(self) -> dict[str, str]:
        return {"LaunchTemplateName": self.template.name, "Version": "$Latest"}


def standard_images_first(images: Sequence[ResolvedImage]) -> list[ResolvedImage]:
    """Images for types without GPUs and accelerators first: such types are offered everywhere."""
    return sorted(images, key=lambda image: len(_device_labels(image)))


def dry_run_type(image: ResolvedImage) -> str:
    """An instance type that the image is for."""
    architecture = image.requirements.single_value(ARCH) or "amd64"
    device = "".join(_device_labels(image)[:1])
    return DRY_RUN_TYPES.get((architecture, device), DRY_RUN_TYPES[architecture, ""])


def _device_labels(image: ResolvedImage) -> list[str]:
    """Labels of the devices that its instances must have."""
    requirements = image.requirements
    return [
        key
        for key in (INSTANCE_GPU_COUNT, INSTANCE_ACCELERATOR_COUNT)
        if key in requirements and not requirements[key].allowed.admits_absence
    ]


VALIDATION_TTL: Final = 1800.0  # seconds for which a success is cached
VALIDATION_FAILED_TTL: Final = 60.0
VALIDATION_REQUEUE_SECONDS: Final = 600.0

CLUSTER_TAG_PREFIX: Final = "kubernetes.io/cluster"
AUTH_FAILED_REASONS: Final = {
    "CreateLaunchTemplate": "CreateLaunchTemplateAuthCheckFailed",
    "CreateFleet": "CreateFleetAuthCheckFailed",
    "RunInstances": "RunInstancesAuthCheckFailed",
}


class NodeClassValidator:
    """Caches its result as long as none of the inputs of the dry run has changed."""

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
        self._cache: TtlCache[ConditionState] = TtlCache(
            clock, lambda condition: VALIDATION_TTL if condition.is_true else VALIDATION_FAILED_TTL
        )

    async def find(
        self,
        node_class: EC2NodeClass,
        resolved: ResolvedNodeClass,
        conditions: Sequence[ConditionState],
    ) -> ResolvedPart[None]:
        """Checks the spec first; dry runs follow once all other conditions are true."""
        problem = next(spec_problems(node_class, resolved), None) or _dependencies_not_ready(
            conditions
        )
        if problem is not None:
            return ResolvedPart(value=None, condition=problem, requeue_after=VALIDATION_FAILED_TTL)
        if self._cluster.read_only or not self._cluster.dry_runs:
            condition = condition_true(
                VALIDATION_SUCCEEDED, "dry runs are switched off: permissions are not tried out"
            )
            return ResolvedPart(value=None, condition=condition, requeue_after=VALIDATION_TTL)
        key = _validation_key(node_class, resolved)
        condition = await self._cache.get(key, lambda: self._dry_run(node_class, resolved))
        requeue_after = VALIDATION_REQUEUE_SECONDS if condition.is_true else VALIDATION_FAILED_TTL
        return ResolvedPart(value=None, condition=condition, requeue_after=requeue_after)

    async def _dry_run(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> ConditionState:
        try:
            template = await self._dry_run_templates.ensure_template(node_class, resolved)
        except AwsError as error:
            return _dry_run_failure("CreateLaunchTemplate", error)
        except InvalidInputError as error:
            return condition_false(VALIDATION_SUCCEEDED, "LaunchTemplateInvalid", error.message)
        tags = self._cluster.launch_tags(node_class.metadata.name, "", node_class.spec.tags)
        launches = [
            DryRunLaunch(template=template, subnet=subnet, tags=tags) for subnet in resolved.subnets
        ]
        failure = await self._dry_run_launches(launches)
        return condition_true(VALIDATION_SUCCEEDED) if failure is None else failure

    async def _dry_run_launches(self, launches: Sequence[DryRunLaunch]) -> ConditionState | None:
        """CreateFleet and RunInstances; if the type is not offered in a zone, in the next one."""
        for operation in ("CreateFleet", "RunInstances"):
            error: AwsError | None = None
            for launch in launches:
                params = (
                    launch.create_fleet_request()
                    if operation == "CreateFleet"
                    else launch.run_instances_request()
                )
                error = await self._ec2.dry_run(operation, params)
                if error is None or is_access_denied(error):
                    break
            if error is not None:
                return _dry_run_failure(operation, error)
        return None


def spec_problems(
    node_class: EC2NodeClass, resolved: ResolvedNodeClass
) -> Iterator[ConditionState]:
    """Problems of the spec that need no call to EC2."""
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
        message = "EKS does not report the service CIDR of the cluster, which nodes need to join"
        yield condition_unknown(VALIDATION_SUCCEEDED, "ClusterCIDRNotFound", message)


def _dependencies_not_ready(conditions: Sequence[ConditionState]) -> ConditionState | None:
    """Dry runs are not possible while another condition is not true."""
    missing = [each for each in conditions if not each.is_true]
    if not missing:
        return None
    message = f"waiting for {', '.join(each.type for each in missing)}"
    to_condition = (
        condition_false if any(each.status == FALSE for each in missing) else condition_unknown
    )
    return to_condition(VALIDATION_SUCCEEDED, "DependenciesNotReady", message)


def _dry_run_failure(operation: str, error: AwsError) -> ConditionState:
    """The condition after a failed dry run: False if denied, Unknown if it may still succeed.

    A transient error is raised again: it says nothing about the class, and the last result stays.
    """
    if is_transient(error):
        raise error
    if is_access_denied(error):
        message = f"not allowed to call {operation}: {error.text}"
        return condition_false(VALIDATION_SUCCEEDED, AUTH_FAILED_REASONS[operation], message)
    if is_profile_propagating(error):
        message = "the instance profile is not visible to EC2 yet"
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
    """Templates for dry runs with the cheapest ordinary instance type that the class can boot."""

    def __init__(
        self,
        templates: LaunchTemplateProvider,
        cluster_context: Callable[[EC2NodeClass], Awaitable[ClusterContext]],
        launch_context: Callable[[EC2NodeClass, ResolvedNodeClass], LaunchContext],
    ) -> None:
        self._templates = templates
        self._cluster_context = cluster_context
        self._launch_context = launch_context

    async def ensure_template(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> DryRunTemplate:
        launch_context = self._launch_context(node_class, resolved)
        name = node_class.metadata.name
        claim = NodeClaim(name=f"a rehearsal of {name}", uid="", pool="", node_class=name)
        image, offerings = _bootable_offering(launch_context)
        selection = LaunchSelection(capacity_type=ON_DEMAND, offerings=offerings)
        request = LaunchRequest(
            claim=claim,
            selection=selection,
            launch_context=launch_context,
            cluster_context=await self._cluster_context(node_class),
        )
        subnets = {subnet.zone: subnet for subnet in reversed(resolved.subnets)}
        split = request.split_templates(subnets, lambda _: 0)
        if not split.configs or image is None:
            why = "; ".join(split.remarks) or "none is sold in the zones of its subnets"
            raise InvalidInputError(f"no instance type can be launched from the class: {why}")
        template = await self._templates.ensure(split.configs[0].template)
        return DryRunTemplate(name=template, image=image, instance_type=offerings[0].instance_type)


def _bootable_offering(
    launch_context: LaunchContext,
) -> tuple[ResolvedImage | None, tuple[LaunchOffering, ...]]:
    """The first image for which an instance type is offered, and that offering."""
    for image in standard_images_first(launch_context.resolved.images):
        offerings = _dry_run_offerings(launch_context, image)
        if offerings:
            return image, offerings
    return None, ()


def _dry_run_offerings(
    launch_context: LaunchContext, image: ResolvedImage
) -> tuple[LaunchOffering, ...]:
    """One offering for the image; of the usual dry-run type if that is offered."""
    preferred, types = dry_run_type(image), launch_context.catalog.types
    # All others are looked at only where the usual one is not offered: there are a thousand.
    offerings = _bootable_offerings(
        launch_context, image, [each for each in types if each.name == preferred]
    ) or _bootable_offerings(launch_context, image, types)
    ordered = sorted(offerings, key=lambda each: (each.price, each.instance_type))
    return tuple(ordered[:1])


def _bootable_offerings(
    launch_context: LaunchContext, image: ResolvedImage, types: Iterable[InstanceType]
) -> list[LaunchOffering]:
    return [
        LaunchOffering(instance_type=instance_type.name, zone=offering.zone, price=offering.price)
        for instance_type in types
        if select_image(launch_context.resolved.images, instance_type.requirements) == image
        for offering in instance_type.offerings
        if offering.zone is not None and offering.reservation_id is None
    ]
