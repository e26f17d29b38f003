"""Launch templates: which ones a launch needs, created when it needs them, deleted when unused.

A launch over several instance types and zones is split into as few as possible. Templates differ by
image, architecture, number of EFA interfaces, reservation, and, where user data can hold only one
max-pods value (Bottlerocket), by the max-pods that the class gives the type.
InstanceType objects never need a template of their own: nodes that can look up their max-pods do so
(`userdata/bootstrap_options.py`), and for the other families a type whose object sets another value
than the class is left out, with a remark.

The max-pods table covers every type of the class, not only those of the launch, so that one
template serves all launches of a NodePool. If the user's own user data leaves no room for that, the
table has only the types of the launch.

A template is created at its first use, without checking first: if it exists already that is as
good, since the name is a hash of its content. It is then assumed to exist for a while; a launch
that finds it missing creates it again. It is kept for an hour after its last use, as the next
launch of the NodePool is likely to use the same one, and is deleted with its class at the latest.
Templates of an earlier process are adopted at the start, so that they are deleted one day too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from wainwright.api.quantity import NANO, Quantity, QuantityFormat
from wainwright.aws.api.services import Ec2, Filter, tag_filters
from wainwright.aws.cluster_config import CLUSTER_NAME_TAG
from wainwright.aws.launchtemplate.template_data import (
    TEMPLATE_NAME_PREFIX,
    LaunchTemplate,
    SharedTemplateSettings,
    TargetReservation,
    TemplateVariant,
    build_template,
    resized_block_devices,
)
from wainwright.aws.nodeclass.status import ResolvedImage, select_image
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.aws.userdata.user_data import (
    MAX_PODS_LOOKUP_FAMILIES,
    UserData,
    UserDataTooLarge,
    build_user_data,
)
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.instancetypes.capacity import NodeResources
from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.instancetypes.max_pods import compute_max_pods, eni_limited_pods
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, NodeClassSettings
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.model.labels import CAPACITY_TYPE, EC2NODECLASS
from wainwright.model.requirements import Requirements
from wainwright.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

DEFAULT_CLASS_SETTINGS = NodeClassSettings()
KUBE_RESERVED_BY_FAMILY: Final = {
    AmiFamily.AL2: (CPU, EPHEMERAL_STORAGE, MEMORY),
    AmiFamily.AL2023: (MEMORY,),
}
"""The resources in the kube-reserved value that a node gets. A flag (AL2) replaces everything that
the image has computed, so it must have all resources; configuration files (AL2023) are merged.
Bottlerocket cannot have values by type, Windows computes the right value, and a Custom image is
configured by its owner."""


class LaunchInstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type with the settings of a class."""

    name: str
    architecture: str
    requirements: Requirements
    """Its labels, which select the image."""
    max_pods: int
    """The max-pods in effect, as used in plans."""
    class_max_pods: int
    """Its max-pods without an InstanceType object."""
    eni_limited_max_pods: int
    """The max-pods that an image computes from the type's network interfaces by default."""
    efa_interfaces: int = 0
    pod_disk_bytes: int | None = None
    """Bytes of the disk for pods, if it must be larger than the class has it."""
    kube_reserved: str = ""
    """The value of --kube-reserved, if the image would compute it from another max-pods."""


def launch_instance_type(
    info: InstanceTypeInfo,
    resources: NodeResources,
    requirements: Requirements,
    settings: NodeClassSettings,
) -> LaunchInstanceType:
    storage = resources.derived.capacity[EPHEMERAL_STORAGE]
    return LaunchInstanceType(
        name=info.name,
        architecture=info.architecture,
        requirements=requirements,
        max_pods=resources.capacity[PODS],
        class_max_pods=compute_max_pods(info, settings).amount,
        eni_limited_max_pods=eni_limited_pods(info, DEFAULT_CLASS_SETTINGS, reserved=0).amount,
        efa_interfaces=info.efa_interfaces,
        pod_disk_bytes=storage.amount if storage.rule is DerivationRule.SIZED_TO_PODS else None,
        kube_reserved=_kube_reserved(resources.derived.overhead.kube_reserved, settings.ami_family),
    )


def _kube_reserved(kube_reserved: Mapping[str, DerivedAmount], family: AmiFamily) -> str:
    """Empty unless memory was derived from the max-pods of an InstanceType object."""
    memory = kube_reserved.get(MEMORY)
    if memory is None or memory.rule is not DerivationRule.KUBE_MEMORY_DECLARED:
        return ""
    return ",".join(
        f"{each}={_format_amount(each, kube_reserved[each].amount)}"
        for each in KUBE_RESERVED_BY_FAMILY.get(family, ())
    )


def _format_amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount}m"
    return str(Quantity(amount * NANO, QuantityFormat.BINARY))


class LaunchInstanceTypes:
    """The instance types of a class's catalogs, each made once: most catalogs differ from the one
    before in prices, counts and availability alone, and there are a thousand types.
    """

    def __init__(self) -> None:
        self._settings: NodeClassSettings | None = None
        self._made: dict[str, tuple[tuple[Any, ...], LaunchInstanceType]] = {}

    def of(
        self, catalog: NodeClassCatalog, infos: Mapping[str, InstanceTypeInfo]
    ) -> dict[str, LaunchInstanceType]:
        """Every type of the catalog, by name."""
        settings = catalog.settings or DEFAULT_CLASS_SETTINGS
        if settings != self._settings:
            self._settings, self._made = settings, {}
        return {
            each.name: self._type(
                infos[each.name], catalog.resources[each.name], each.requirements, settings
            )
            for each in catalog.types
            if each.name in infos
        }

    def _type(
        self,
        info: InstanceTypeInfo,
        resources: NodeResources,
        requirements: Requirements,
        settings: NodeClassSettings,
    ) -> LaunchInstanceType:
        known = self._made.get(info.name)
        if known is not None:
            (known_info, known_resources, known_requirements), made = known
            if (
                known_info is info
                and known_resources is resources
                and known_requirements is requirements
            ):
                return made
        made = launch_instance_type(info, resources, requirements, settings)
        self._made[info.name] = (info, resources, requirements), made
        return made


class SubnetOffering(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type in a zone, with the subnet to launch it in."""

    instance_type: str
    zone: str
    subnet: str
    price: float
    reservation: TargetReservation | None = None


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the launch templates of one launch."""

    shared: SharedTemplateSettings
    bootstrap: BootstrapOptions
    """Labels, taints and settings; max-pods by type is added here."""
    images: tuple[ResolvedImage, ...]
    """In the order of preference."""
    instance_types: Mapping[str, LaunchInstanceType]
    """Every type of the class, by name."""
    offerings: tuple[SubnetOffering, ...]
    """Of one capacity type."""
    efa: bool = False
    """Whether pods request EFA interfaces."""
    prioritised: bool = False
    """Whether prices are passed on as priorities: EC2 does not know those of overlays."""


class LaunchTemplateConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A launch template with its overrides: instance types and zones."""

    template: LaunchTemplate
    overrides: tuple[Mapping[str, Any], ...]

    def as_request(self) -> dict[str, Any]:
        """One item of LaunchTemplateConfigs of CreateFleet."""
        specification = {"LaunchTemplateName": self.template.name, "Version": "$Latest"}
        return {
            "LaunchTemplateSpecification": specification,
            "Overrides": [*map(dict, self.overrides)],
        }


class TemplateSplit(msgspec.Struct, frozen=True, kw_only=True):
    configs: tuple[LaunchTemplateConfig, ...]
    """Empty if no offering can be launched."""
    remarks: tuple[str, ...] = ()


class TemplateKey(msgspec.Struct, frozen=True, order=True):
    """The fields in which offerings must agree to share one template."""

    image: str
    architecture: str
    max_pods: int
    """-1: as the class or the image has it."""
    efa: int
    reservation: str


def split_by_template(launch: LaunchSpec) -> TemplateSplit:
    """Templates in a fixed order, each with its offerings, cheapest first."""
    images, remarks = _select_images(launch)
    launchable = [
        each for each in one_per_type_and_zone(launch.offerings) if each.instance_type in images
    ]
    groups: dict[TemplateKey, list[SubnetOffering]] = {}
    for offering in sorted(
        launchable, key=lambda each: (each.price, each.instance_type, each.zone)
    ):
        groups.setdefault(
            _template_key(launch, offering, images[offering.instance_type]), []
        ).append(offering)
    configs = []
    for key, offerings in sorted(groups.items()):
        config, warnings = _build_config(launch, key, offerings)
        configs.append(config)
        remarks += warnings
    return TemplateSplit(configs=tuple(configs), remarks=tuple(dict.fromkeys(remarks)))


def one_per_type_and_zone(offerings: Iterable[SubnetOffering]) -> list[SubnetOffering]:
    """Each type and zone once, as EC2 requires: of several reservations the one most available.

    A reservation without available instances is left out.
    """
    best: dict[tuple[str, str], SubnetOffering] = {}
    for offering in sorted(offerings, key=_most_available_first):
        if offering.reservation is None or offering.reservation.available_count > 0:
            best.setdefault((offering.instance_type, offering.zone), offering)
    return list(best.values())


def _most_available_first(offering: SubnetOffering) -> tuple[int, float, str, str]:
    reservation = offering.reservation
    if reservation is None:
        return 0, offering.price, "", offering.subnet
    return -reservation.available_count, offering.price, reservation.id, offering.subnet


def max_pods_mismatches(
    family: AmiFamily, instance_types: Iterable[LaunchInstanceType]
) -> dict[str, str]:
    """Types whose nodes would have another max-pods than planned, by name, with the reason.

    Bottlerocket has one value for the class, or computes its own: a value by type cannot be set.
    """
    if family is not AmiFamily.BOTTLEROCKET:
        return {}
    return {
        each.name: f"{each.name} is left out: its InstanceType object says {each.max_pods} pods, "
        f"but {family.value} cannot be told by type and would take {each.class_max_pods}"
        for each in instance_types
        if each.max_pods != each.class_max_pods
    }


def _select_images(launch: LaunchSpec) -> tuple[dict[str, str], list[str]]:
    """The id of the image for each type that can be launched, and the remarks about the others."""
    offered = [
        launch.instance_types[name]
        for name in sorted({offering.instance_type for offering in launch.offerings})
    ]
    left_out = max_pods_mismatches(launch.shared.family, offered)
    images: dict[str, str] = {}
    for each in offered:
        image = select_image(launch.images, each.requirements)
        if image is None:
            left_out[each.name] = f"{each.name} is left out: no image of the class is made for it"
        elif each.name not in left_out:
            images[each.name] = image.id
    return images, list(left_out.values())


def _template_key(launch: LaunchSpec, offering: SubnetOffering, image: str) -> TemplateKey:
    instance_type = launch.instance_types[offering.instance_type]
    default_interfaces = not launch.shared.spec.networkInterfaces
    return TemplateKey(
        image=image,
        architecture=instance_type.architecture,
        max_pods=_template_max_pods(launch, instance_type),
        efa=instance_type.efa_interfaces if launch.efa and default_interfaces else 0,
        reservation="" if offering.reservation is None else offering.reservation.id,
    )


def _template_max_pods(launch: LaunchSpec, instance_type: LaunchInstanceType) -> int:
    """The max-pods value that the template must set, -1 for none.

    Without maxPods Bottlerocket computes the right value, unless interfaces are reserved or
    prefixes are used.
    """
    if launch.shared.family is not AmiFamily.BOTTLEROCKET or launch.bootstrap.max_pods is not None:
        return -1
    is_default = instance_type.class_max_pods == instance_type.eni_limited_max_pods
    return -1 if is_default else instance_type.class_max_pods


def _build_config(
    launch: LaunchSpec, key: TemplateKey, offerings: Sequence[SubnetOffering]
) -> tuple[LaunchTemplateConfig, tuple[str, ...]]:
    user_data = _template_user_data(launch, key, offerings)
    variant = TemplateVariant(
        image=key.image,
        user_data=user_data,
        efa=key.efa,
        reservation=offerings[0].reservation,
    )
    overrides = tuple(_fleet_override(launch, key, offering) for offering in offerings)
    config = LaunchTemplateConfig(
        template=build_template(launch.shared, variant), overrides=overrides
    )
    return config, user_data.warnings


def _template_user_data(
    launch: LaunchSpec, key: TemplateKey, offerings: Sequence[SubnetOffering]
) -> UserData:
    labels = {**launch.bootstrap.labels, CAPACITY_TYPE: launch.shared.capacity_type}
    bootstrap = msgspec.structs.replace(launch.bootstrap, labels=labels)
    if key.max_pods >= 0:
        bootstrap = msgspec.structs.replace(bootstrap, max_pods=key.max_pods)
    launched = {offering.instance_type for offering in offerings}
    try:
        return _render_user_data(
            launch, bootstrap, lambda instance_type: instance_type.architecture == key.architecture
        )
    except UserDataTooLarge:
        return _render_user_data(
            launch, bootstrap, lambda instance_type: instance_type.name in launched
        )


def _render_user_data(
    launch: LaunchSpec, bootstrap: BootstrapOptions, in_table: Callable[[LaunchInstanceType], bool]
) -> UserData:
    family = launch.shared.family
    if family in MAX_PODS_LOOKUP_FAMILIES:
        types = [each for each in launch.instance_types.values() if in_table(each)]
        bootstrap = msgspec.structs.replace(
            bootstrap,
            max_pods_by_type={each.name: each.max_pods for each in types},
            kube_reserved_by_type={
                each.name: each.kube_reserved for each in types if each.kube_reserved
            },
        )
    return build_user_data(family, bootstrap)


def _fleet_override(
    launch: LaunchSpec, key: TemplateKey, offering: SubnetOffering
) -> dict[str, Any]:
    override: dict[str, Any] = {
        "InstanceType": offering.instance_type,
        "SubnetId": offering.subnet,
        "AvailabilityZone": offering.zone,
        "ImageId": key.image,
    }
    if launch.prioritised:
        override["Priority"] = offering.price
    pod_disk_bytes = launch.instance_types[offering.instance_type].pod_disk_bytes
    if pod_disk_bytes is not None:
        override["BlockDeviceMappings"] = resized_block_devices(
            launch.shared.spec, launch.shared.family, pod_disk_bytes
        )
    return {name: value for name, value in override.items() if value != []}


Result = TypeVar("Result")

TEMPLATE_TTL: Final = 600.0
"""Seconds for which a template is assumed to exist; saves a CreateLaunchTemplate per launch."""
UNUSED_TEMPLATE_AGE: Final = 3600.0
"""Seconds after its last use after which a template is deleted."""
MANAGED_BY_TAG: Final = "wainwright.dev/managed-by"
"""Distinguishes our templates from those of another controller of the same cluster."""

TEMPLATE_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"
TEMPLATE_NOT_FOUND_CODES: Final = frozenset(
    {
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
    }
)


class _TemplateEntry(msgspec.Struct):
    """The state of one template."""

    valid_until: float = 0.0
    """Until when it is assumed to exist."""
    last_used: float = 0.0
    users: int = 0
    """Launches in flight; it is not deleted meanwhile."""


class LaunchTemplateProvider:
    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._entries: dict[str, _TemplateEntry] = {}
        self._creating: dict[str, asyncio.Task[None]] = {}
        self._deleting: dict[str, asyncio.Task[None]] = {}
        self._created = 0

    async def ensure(self, template: LaunchTemplate) -> str:
        """Its name, once it exists. Concurrent callers share one creation."""
        while template.name in self._deleting:
            await asyncio.wait([self._deleting[template.name]])
        entry = self._entry(template.name)
        entry.last_used = self._clock.now()
        if entry.valid_until <= entry.last_used:
            # Shielded: a caller that is cancelled must not cancel the creation that others share.
            await asyncio.shield(self._creation(template))
        return template.name

    async def call_with_templates(
        self, templates: Sequence[LaunchTemplate], action: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Runs the action once its templates exist; again, once, if EC2 reports one missing."""
        self._change_users(templates, 1)
        try:
            await self._ensure_all(templates)
            try:
                return await action()
            except AwsError as error:
                if error.code not in TEMPLATE_NOT_FOUND_CODES:
                    raise
            self.forget(each.name for each in templates)
            await self._ensure_all(templates)
            return await action()
        finally:
            self._change_users(templates, -1)

    def forget(self, names: Iterable[str]) -> None:
        """They may be gone: the next use creates them again."""
        for name in names:
            self._entry(name).valid_until = 0.0

    async def adopt(self, cluster: str) -> int:
        """Takes over the templates of an earlier process; returns their number."""
        names = await self._names(tag_filters({CLUSTER_NAME_TAG: cluster, MANAGED_BY_TAG: "*"}))
        for name in names:
            entry = self._entry(name)
            entry.last_used = max(entry.last_used, self._clock.now())
            entry.valid_until = max(entry.valid_until, self._clock.now() + TEMPLATE_TTL)
        return len(names)

    async def delete_unused(self) -> tuple[str, ...]:
        """Deletes templates unused for long; returns their names. To be called periodically."""
        latest = self._clock.now() - UNUSED_TEMPLATE_AGE
        idle = [
            name
            for name, entry in sorted(self._entries.items())
            if not entry.users and entry.last_used <= latest and name not in self._creating
        ]
        await self._delete_all(idle)
        return tuple(idle)

    async def delete_class(self, cluster: str, node_class: str) -> tuple[str, ...]:
        """Deletes all templates of a class that is being deleted; returns their names."""
        filters = tag_filters({CLUSTER_NAME_TAG: cluster, EC2NODECLASS: node_class})
        names = tuple(
            name for name in await self._names(filters) if name.startswith(TEMPLATE_NAME_PREFIX)
        )
        await self._delete_all(names)
        return names

    def _entry(self, name: str) -> _TemplateEntry:
        return self._entries.setdefault(name, _TemplateEntry(last_used=self._clock.now()))

    def _change_users(self, templates: Sequence[LaunchTemplate], change: int) -> None:
        for each in templates:
            entry = self._entry(each.name)
            entry.users += change
            entry.last_used = self._clock.now()

    async def _ensure_all(self, templates: Sequence[LaunchTemplate]) -> None:
        await asyncio.gather(*map(self.ensure, templates))

    def _creation(self, template: LaunchTemplate) -> "asyncio.Task[None]":
        task = self._creating.get(template.name)
        if task is None:
            task = self._creating[template.name] = _start_detached(self._create(template))
        return task

    async def _create(self, template: LaunchTemplate) -> None:
        try:
            token = self._token(template.name)
            tags = {**template.tags, MANAGED_BY_TAG: "wainwright"}
            await self._ec2.create_launch_template(template.name, template.data, tags, token)
        except AwsError as error:
            if error.code != TEMPLATE_EXISTS:
                raise
        finally:
            del self._creating[template.name]
        self._entry(template.name).valid_until = self._clock.now() + TEMPLATE_TTL

    def _token(self, name: str) -> str:
        """Unique for each call: for a known token EC2 returns the template created earlier."""
        self._created += 1
        return f"{name.removeprefix(TEMPLATE_NAME_PREFIX)}-{self._clock.now():.3f}-{self._created}"

    async def _names(self, filters: Sequence[Filter]) -> list[str]:
        rows = await self._ec2.describe_launch_templates(filters)
        return sorted(row["LaunchTemplateName"] for row in rows)

    async def _delete_all(self, names: Sequence[str]) -> None:
        deletions = [self._deletion(name) for name in names]
        for outcome in await asyncio.gather(*deletions, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _deletion(self, name: str) -> "asyncio.Task[None]":
        task = self._deleting.get(name)
        if task is None:
            task = self._deleting[name] = _start_detached(self._delete(name))
        return task

    async def _delete(self, name: str) -> None:
        """A use that begins meanwhile waits for the deletion, and creates the template again."""
        self.forget([name])
        try:
            await self._ec2.delete_launch_template(name)
            if not self._entry(name).users:
                self._entries.pop(name, None)
        finally:
            del self._deleting[name]


def _start_detached(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """A task that continues if all its waiters are cancelled; its error may then go unseen."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
