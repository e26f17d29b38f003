"""From user data to a node with its labels and capacity, or to the reason why there is none.

    text = decode_user_data(specification.user_data)
    outcome = boot_from_user_data(text, InstanceFacts(…))

What comes out is what the user data says, laid over the defaults of the image. Flags that are maps
(AL2, Windows) take the place of the image's own map, as the kubelet has it; NodeConfigs and
Bottlerocket's settings change it key by key.

Memory is what the kubelet really finds, which is never quite what was estimated: firmware and
kernel keep between 6 and 7.7 percent for themselves, another share for every type and always the
same for one. Planners reckon with 7.5, so that most instances have a little more than they were
believed to have, and about one type in eight has less.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec

from wainwright.api.quantity import Quantity
from wainwright.catalogue.instancetypes.capacity import ARM64_RESERVED_MIB, GB
from wainwright.catalogue.instancetypes.derived_amount import GIB, MIB
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.instancetypes.max_pods import DEFAULT_MAX_PODS, HOST_NETWORK_PODS
from wainwright.catalogue.instancetypes.node_class_settings import (
    TRAITS_BY_FAMILY,
    AmiFamily,
    EvictionThreshold,
)
from wainwright.catalogue.instancetypes.overhead import kube_reserved_cpu
from wainwright.emulator.boot import bootstrap_scripts, bottlerocket, kubelet_config, nodeadm
from wainwright.emulator.boot.user_data import (
    NODE_CONFIG_TYPE,
    BootError,
    BootFailure,
    BootFailureReason,
    BootstrapConfig,
    BootstrapMethod,
    ClusterEndpoint,
    InstanceFacts,
    UserDataPart,
    decode_user_data,
    split_parts,
)
from wainwright.emulator.ec2.images import Images
from wainwright.emulator.ec2.instance.instances import Instances, private_dns_name
from wainwright.emulator.ec2.instance.lifecycle import Instance
from wainwright.emulator.services.eks import Eks
from wainwright.model import labels
from wainwright.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from wainwright.model.taints import Taint

KIB: Final = 1024
MIN_KEPT_SHARE, MAX_KEPT_SHARE = 600, 770
"""Ten-thousandths of the memory."""


def actual_memory(machine: InstanceTypeInfo) -> int:
    """Bytes, in whole KiB as the kernel counts them."""
    mib = machine.memory_mib - (ARM64_RESERVED_MIB if machine.architecture == "arm64" else 0)
    draw = int.from_bytes(blake2b(machine.name.encode(), digest_size=8).digest())
    share = MIN_KEPT_SHARE * 1000 + draw % ((MAX_KEPT_SHARE - MIN_KEPT_SHARE) * 1000)
    kept = mib * MIB * share // 10_000_000
    return (mib * MIB - kept) // KIB * KIB


def read_user_data(text: str, facts: InstanceFacts) -> BootstrapConfig:
    """By the image where that is a public one, which reads its own language only."""
    if not text.strip():
        raise BootError(BootFailureReason.NOTHING, "there is no user data")
    return _read_cached(text, facts.family, facts.machine.name)


@lru_cache(maxsize=1024)
def _read_cached(text: str, image: BootstrapMethod | None, instance_type: str) -> BootstrapConfig:
    """Remembered, as machines of one launch have the same user data; not to be changed."""
    family = _select_method(text, image)
    match family:
        case BootstrapMethod.WINDOWS:
            return bootstrap_scripts.read_powershell_script(text, instance_type)
        case BootstrapMethod.BOTTLEROCKET:
            return bottlerocket.read_settings(text)
        case BootstrapMethod.NODEADM:
            return nodeadm.read_node_configs(split_parts(text), instance_type)
        case BootstrapMethod.SHELL:
            return bootstrap_scripts.read_shell_script(split_parts(text), instance_type)


def _select_method(text: str, image: BootstrapMethod | None) -> BootstrapMethod:
    found = detect_methods(text)
    if image is not None and found and image not in found:
        raise BootError(
            BootFailureReason.WRONG_IMAGE,
            f"the image is started by {image}, and the user data is for {found[0]}",
        )
    if found:
        return found[0] if image is None else image
    if image is BootstrapMethod.BOTTLEROCKET:
        return image  # which says better what is wrong with its TOML
    raise BootError(BootFailureReason.NO_BOOTSTRAP, "nothing in the user data makes a node join")


def detect_methods(text: str) -> list[BootstrapMethod]:
    """Those that the text makes sense in; more than one only where it has several parts."""
    if bootstrap_scripts.is_powershell(text):
        return [BootstrapMethod.WINDOWS]
    if bottlerocket.is_toml(text):
        return [BootstrapMethod.BOTTLEROCKET]
    return _methods_of_parts(split_parts(text))


def _methods_of_parts(found: Sequence[UserDataPart]) -> list[BootstrapMethod]:
    families: list[BootstrapMethod] = []
    if any(part.type == NODE_CONFIG_TYPE for part in found):
        families.append(BootstrapMethod.NODEADM)
    if any(bootstrap_scripts.calls_bootstrap_sh(part) for part in found):
        families.append(BootstrapMethod.SHELL)
    return families


ResourceAmounts: TypeAlias = dict[str, int]

DEFAULT_EVICTION_HARD: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
}
SIGNAL_BY_RESOURCE: Final = {MEMORY: "memory.available", EPHEMERAL_STORAGE: "nodefs.available"}
"""The signals that take something from pods."""


class BootedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that joins; amounts are cpu in thousandths, everything else in whole units."""

    family: BootstrapMethod
    cluster_name: str
    endpoint: str
    labels: dict[str, str]
    """Those that the user data gives."""
    taints: tuple[Taint, ...]
    max_pods: int
    """As the kubelet was told; capacity has fewer where it was also told pods per core."""
    kube_reserved: ResourceAmounts
    system_reserved: ResourceAmounts
    eviction_hard: dict[str, str]
    eviction_soft: dict[str, str]
    eviction_soft_grace: dict[str, str]
    dns: tuple[str, ...]
    local_disks: bool
    rest: dict[str, Any]
    """Whatever else the kubelet was told."""
    capacity: ResourceAmounts
    allocatable: ResourceAmounts


def boot_from_user_data(user_data: str, facts: InstanceFacts) -> BootedNode | BootFailure:
    """What becomes of a machine with this user data (decoded)."""
    try:
        return _build_node(read_user_data(user_data, facts), facts)
    except BootError as failure:
        return BootFailure(failure.reason, failure.detail)


def _build_node(settings: BootstrapConfig, facts: InstanceFacts) -> BootedNode:
    endpoint = _check_cluster(settings, facts)
    kubelet_config.check_labels(settings.labels)
    kubelet_config.check_taints(settings.taints)
    soft = kubelet_config.parse_thresholds("evictionSoft", settings.eviction_soft)
    kubelet_config.check_grace_periods(soft, settings.eviction_soft_grace)
    max_pods = _resolve_max_pods(settings, facts.machine)
    capacity = _node_capacity(settings, facts, max_pods)
    kube = _kube_reserved(settings, facts.machine, capacity[PODS])
    system = _to_amounts(kubelet_config.parse_reserved("systemReserved", settings.system_reserved))
    hard = _override(
        DEFAULT_EVICTION_HARD, settings.eviction_hard, "eviction_hard" in settings.replaced
    )
    kept = _eviction_amounts(kubelet_config.parse_thresholds("evictionHard", hard), capacity)
    return BootedNode(
        family=settings.family,
        cluster_name=settings.cluster,
        endpoint=endpoint,
        labels=dict(settings.labels),
        taints=settings.taints,
        max_pods=max_pods,
        kube_reserved=kube,
        system_reserved=system,
        eviction_hard=hard,
        eviction_soft=dict(settings.eviction_soft),
        eviction_soft_grace=dict(settings.eviction_soft_grace),
        dns=settings.dns,
        local_disks=settings.local_disks,
        rest=dict(settings.rest),
        capacity=capacity,
        allocatable=_allocatable(capacity, kube, system, kept),
    )


def _check_cluster(settings: BootstrapConfig, facts: InstanceFacts) -> str:
    """Scripts that are not told it ask EKS; whatever is told must be right."""
    if facts.clusters is None:
        return settings.endpoint
    known = facts.clusters.get(settings.cluster)
    if known is None:
        raise BootError(
            BootFailureReason.OTHER_CLUSTER, f"there is no cluster {settings.cluster!r}"
        )
    if settings.endpoint not in ("", known.endpoint):
        raise BootError(BootFailureReason.OTHER_CLUSTER, f"nobody answers at {settings.endpoint}")
    if settings.certificate not in ("", known.certificate):
        raise BootError(
            BootFailureReason.OTHER_CLUSTER, "the cluster has another certificate authority"
        )
    return known.endpoint


def _resolve_max_pods(settings: BootstrapConfig, machine: InstanceTypeInfo) -> int:
    if settings.max_pods is not None:
        return kubelet_config.check_non_negative("maxPods", settings.max_pods)
    if settings.family is BootstrapMethod.WINDOWS:
        return DEFAULT_MAX_PODS
    return max_pods_by_interfaces(machine)


def max_pods_by_interfaces(machine: InstanceTypeInfo) -> int:
    """What the image's own list says of the type."""
    each = machine.addresses_per_interface - 1
    return machine.network_interfaces * each + HOST_NETWORK_PODS


def _node_capacity(
    settings: BootstrapConfig, facts: InstanceFacts, max_pods: int
) -> ResourceAmounts:
    machine = facts.machine
    per_core = kubelet_config.check_non_negative("podsPerCore", settings.pods_per_core)
    return {
        CPU: machine.vcpus * 1000,
        MEMORY: actual_memory(machine),
        EPHEMERAL_STORAGE: _ephemeral_storage(settings, facts),
        PODS: min(max_pods, per_core * machine.vcpus) if per_core else max_pods,
    }


def _ephemeral_storage(settings: BootstrapConfig, facts: InstanceFacts) -> int:
    if settings.local_disks and facts.machine.local_storage_gb:
        return facts.machine.local_storage_gb * GB
    family = settings.family
    return facts.disks.get(family.pod_device, family.pod_device_gib) * GIB


def _kube_reserved(
    settings: BootstrapConfig, machine: InstanceTypeInfo, pods: int
) -> ResourceAmounts:
    """Images that look the type up know neither maxPods nor anything else but its interfaces."""
    looked_up = settings.family in (BootstrapMethod.NODEADM, BootstrapMethod.SHELL)
    counted = max_pods_by_interfaces(machine) if looked_up else pods
    reckoned = {
        CPU: f"{kube_reserved_cpu(machine.vcpus * 1000)}m",
        MEMORY: f"{255 + 11 * counted}Mi",
        EPHEMERAL_STORAGE: "1Gi",
    }
    said = _override(reckoned, settings.kube_reserved, "kube_reserved" in settings.replaced)
    return _to_amounts(kubelet_config.parse_reserved("kubeReserved", said))


def _override(below: Mapping[str, str], above: Mapping[str, str], replaced: bool) -> dict[str, str]:
    return dict(above) if replaced else {**below, **above}


def _to_amounts(given: Mapping[str, Quantity]) -> ResourceAmounts:
    return {name: each.milli if name == CPU else each.units for name, each in given.items()}


def _eviction_amounts(
    hard: Mapping[str, EvictionThreshold], capacity: ResourceAmounts
) -> ResourceAmounts:
    return {
        resource: hard[signal].amount_of(capacity[resource])
        for resource, signal in SIGNAL_BY_RESOURCE.items()
        if signal in hard
    }


def _allocatable(capacity: ResourceAmounts, *kept: Mapping[str, int]) -> ResourceAmounts:
    left: ResourceAmounts = {}
    for resource, amount in capacity.items():
        left[resource] = amount - sum(each.get(resource, 0) for each in kept)
        if left[resource] < 0:
            raise BootError(
                BootFailureReason.TOO_SMALL,
                f"{amount - left[resource]} of {resource} are reserved, and there are {amount}",
            )
    return left


WINDOWS_BUILDS: Final = {
    f"Windows_Server-{year}-": TRAITS_BY_FAMILY[AmiFamily(f"Windows{year}")].windows_build
    for year in (2019, 2022, 2025)
}


def node_labels(booted: BootedNode, facts: InstanceFacts) -> dict[str, str]:
    """Those of the user data, and over them what kubelet and cloud controller say themselves."""
    return dict(booted.labels) | _instance_labels(booted, facts) | _topology_labels(facts)


def _instance_labels(booted: BootedNode, facts: InstanceFacts) -> dict[str, str]:
    windows = booted.family is BootstrapMethod.WINDOWS
    system, machine = "windows" if windows else "linux", facts.machine
    build = next(
        (WINDOWS_BUILDS[each] for each in WINDOWS_BUILDS if facts.image_name.startswith(each)), None
    )
    return {
        "beta.kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/instance-type": machine.name,
        "beta.kubernetes.io/os": system,
        labels.ARCH: machine.architecture,
        labels.HOSTNAME: facts.private_dns,
        labels.INSTANCE_TYPE: machine.name,
        labels.OS: system,
        **({} if build is None else {labels.WINDOWS_BUILD: build}),
    }


def _topology_labels(facts: InstanceFacts) -> dict[str, str]:
    return {
        "failure-domain.beta.kubernetes.io/region": facts.region,
        "failure-domain.beta.kubernetes.io/zone": facts.zone,
        labels.REGION: facts.region,
        labels.ZONE: facts.zone,
        labels.ZONE_ID: facts.zone_id,
    }


class NodeBooter(msgspec.Struct, frozen=True, kw_only=True):
    """Where machines come up."""

    region: str
    machines: Mapping[str, InstanceTypeInfo]
    instances: Instances
    images: Images
    eks: Eks

    def outcome(self, instance: Instance) -> BootedNode | BootFailure:
        """The node that becomes of it, or why none does."""
        if not instance.joins:
            return BootFailure(BootFailureReason.DUD, "the machine never came up")
        try:
            text = decode_user_data(self.instances.specification_of(instance).user_data)
        except BootError as failure:
            return BootFailure(failure.reason, failure.detail)
        return boot_from_user_data(text, self.facts(instance))

    def facts(self, instance: Instance) -> InstanceFacts:
        build = self.instances.specification_of(instance)
        image = self.images.state.images.get(build.image)
        return InstanceFacts(
            machine=self.machines[instance.type],
            instance_id=instance.id,
            region=self.region,
            zone=instance.zone,
            zone_id=instance.zone_id,
            private_dns=private_dns_name(instance.address, self.region),
            image_name="" if image is None else image.name,
            disks=build.sizes,
            clusters=self._clusters(),
        )

    def _clusters(self) -> dict[str, ClusterEndpoint]:
        return {
            name: ClusterEndpoint(endpoint=each.endpoint, certificate=each.certificate)
            for name, each in self.eks.state.clusters.items()
        }
