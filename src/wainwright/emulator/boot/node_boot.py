"""From user data to a node with its labels and capacity, or to the reason why there is none.

    text = decode_user_data(specification.user_data)
    outcome = boot_from_user_data(text, InstanceFacts(…))

The result is the configuration of the user data over the defaults of the image. Flags that are maps
(AL2, Windows) replace the image's map, as in the kubelet; NodeConfigs and Bottlerocket settings
change it key by key.

Memory is what the kubelet detects, which never equals the estimate: firmware and kernel use between
6 and 7.7 percent, a fixed share for each instance type. Planners assume 7.5 percent, so most
instances have a little more memory than estimated, and about one type in eight has less.
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
"""Memory used by firmware and kernel, in ten-thousandths."""


def actual_memory(type_info: InstanceTypeInfo) -> int:
    """Memory that the kubelet detects: bytes, in whole KiB as the kernel counts them."""
    available_mib = type_info.memory_mib - (
        ARM64_RESERVED_MIB if type_info.architecture == "arm64" else 0
    )
    digest = int.from_bytes(blake2b(type_info.name.encode(), digest_size=8).digest())
    share = MIN_KEPT_SHARE * 1000 + digest % ((MAX_KEPT_SHARE - MIN_KEPT_SHARE) * 1000)
    kernel_bytes = available_mib * MIB * share // 10_000_000
    return (available_mib * MIB - kernel_bytes) // KIB * KIB


def read_user_data(text: str, facts: InstanceFacts) -> BootstrapConfig:
    """The bootstrap configuration; a public image reads only the format of its own method."""
    if not text.strip():
        raise BootError(BootFailureReason.NOTHING, "there is no user data")
    return _read_cached(text, facts.image_method, facts.type_info.name)


@lru_cache(maxsize=1024)
def _read_cached(
    text: str, image_method: BootstrapMethod | None, instance_type: str
) -> BootstrapConfig:
    """Cached, as instances of one launch have the same user data: parsing MIME, YAML and TOML is
    most of the cost of a boot. The result is shared and must not be changed."""
    method = _select_method(text, image_method)
    match method:
        case BootstrapMethod.WINDOWS:
            return bootstrap_scripts.read_powershell_script(text, instance_type)
        case BootstrapMethod.BOTTLEROCKET:
            return bottlerocket.read_settings(text)
        case BootstrapMethod.NODEADM:
            return nodeadm.read_node_configs(split_parts(text), instance_type)
        case BootstrapMethod.SHELL:
            return bootstrap_scripts.read_shell_script(split_parts(text), instance_type)


def _select_method(text: str, image_method: BootstrapMethod | None) -> BootstrapMethod:
    methods = detect_methods(text)
    if image_method is not None and methods and image_method not in methods:
        raise BootError(
            BootFailureReason.WRONG_IMAGE,
            f"the image is started by {image_method}, and the user data is for {methods[0]}",
        )
    if methods:
        return methods[0] if image_method is None else image_method
    if image_method is BootstrapMethod.BOTTLEROCKET:
        return image_method  # its parser gives the better error message
    raise BootError(BootFailureReason.NO_BOOTSTRAP, "nothing in the user data makes a node join")


def detect_methods(text: str) -> list[BootstrapMethod]:
    """Methods that the text is valid for; several only where it has several parts."""
    if bootstrap_scripts.is_powershell(text):
        return [BootstrapMethod.WINDOWS]
    if bottlerocket.is_toml(text):
        return [BootstrapMethod.BOTTLEROCKET]
    return _methods_of_parts(split_parts(text))


def _methods_of_parts(parts: Sequence[UserDataPart]) -> list[BootstrapMethod]:
    methods: list[BootstrapMethod] = []
    if any(part.type == NODE_CONFIG_TYPE for part in parts):
        methods.append(BootstrapMethod.NODEADM)
    if any(bootstrap_scripts.calls_bootstrap_sh(part) for part in parts):
        methods.append(BootstrapMethod.SHELL)
    return methods


ResourceAmounts: TypeAlias = dict[str, int]

DEFAULT_EVICTION_HARD: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
}
SIGNAL_BY_RESOURCE: Final = {MEMORY: "memory.available", EPHEMERAL_STORAGE: "nodefs.available"}
"""Eviction signals that reduce allocatable resources."""


class BootedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that joins; amounts are CPU in millicores, other resources in whole units."""

    method: BootstrapMethod
    cluster_name: str
    endpoint: str
    labels: dict[str, str]
    """Labels of the user data."""
    taints: tuple[Taint, ...]
    max_pods: int
    """maxPods of the kubelet; capacity has fewer pods where podsPerCore is lower."""
    kube_reserved: ResourceAmounts
    system_reserved: ResourceAmounts
    eviction_hard: dict[str, str]
    eviction_soft: dict[str, str]
    eviction_soft_grace: dict[str, str]
    dns: tuple[str, ...]
    local_disks: bool
    other_config: dict[str, Any]
    """Other kubelet configuration."""
    capacity: ResourceAmounts
    allocatable: ResourceAmounts


def boot_from_user_data(user_data: str, facts: InstanceFacts) -> BootedNode | BootFailure:
    """The node of an instance with this (decoded) user data, or why it never joins."""
    try:
        return _build_node(read_user_data(user_data, facts), facts)
    except BootError as failure:
        return BootFailure(failure.reason, failure.detail)


def _build_node(config: BootstrapConfig, facts: InstanceFacts) -> BootedNode:
    endpoint = _check_cluster(config, facts)
    kubelet_config.check_labels(config.labels)
    kubelet_config.check_taints(config.taints)
    soft = kubelet_config.parse_thresholds("evictionSoft", config.eviction_soft)
    kubelet_config.check_grace_periods(soft, config.eviction_soft_grace)
    max_pods = _resolve_max_pods(config, facts.type_info)
    capacity = _node_capacity(config, facts, max_pods)
    kube = _kube_reserved(config, facts.type_info, capacity[PODS])
    system = _to_amounts(kubelet_config.parse_reserved("systemReserved", config.system_reserved))
    hard = _override(
        DEFAULT_EVICTION_HARD, config.eviction_hard, "eviction_hard" in config.replaced_maps
    )
    evicted = _eviction_amounts(kubelet_config.parse_thresholds("evictionHard", hard), capacity)
    return BootedNode(
        method=config.method,
        cluster_name=config.cluster,
        endpoint=endpoint,
        labels=dict(config.labels),
        taints=config.taints,
        max_pods=max_pods,
        kube_reserved=kube,
        system_reserved=system,
        eviction_hard=hard,
        eviction_soft=dict(config.eviction_soft),
        eviction_soft_grace=dict(config.eviction_soft_grace),
        dns=config.dns,
        local_disks=config.local_disks,
        other_config=dict(config.other_config),
        capacity=capacity,
        allocatable=_allocatable(capacity, kube, system, evicted),
    )


def _check_cluster(config: BootstrapConfig, facts: InstanceFacts) -> str:
    """The endpoint: scripts without one get it from EKS; one that is set must be correct."""
    if facts.clusters is None:
        return config.endpoint
    cluster = facts.clusters.get(config.cluster)
    if cluster is None:
        raise BootError(BootFailureReason.OTHER_CLUSTER, f"there is no cluster {config.cluster!r}")
    if config.endpoint not in ("", cluster.endpoint):
        raise BootError(BootFailureReason.OTHER_CLUSTER, f"nobody answers at {config.endpoint}")
    if config.certificate not in ("", cluster.certificate):
        raise BootError(
            BootFailureReason.OTHER_CLUSTER, "the cluster has another certificate authority"
        )
    return cluster.endpoint


def _resolve_max_pods(config: BootstrapConfig, type_info: InstanceTypeInfo) -> int:
    if config.max_pods is not None:
        return kubelet_config.check_non_negative("maxPods", config.max_pods)
    if config.method is BootstrapMethod.WINDOWS:
        return DEFAULT_MAX_PODS
    return max_pods_by_interfaces(type_info)


def max_pods_by_interfaces(type_info: InstanceTypeInfo) -> int:
    """max-pods of the instance type in the list of the image."""
    pod_addresses = type_info.addresses_per_interface - 1
    return type_info.network_interfaces * pod_addresses + HOST_NETWORK_PODS


def _node_capacity(config: BootstrapConfig, facts: InstanceFacts, max_pods: int) -> ResourceAmounts:
    type_info = facts.type_info
    per_core = kubelet_config.check_non_negative("podsPerCore", config.pods_per_core)
    return {
        CPU: type_info.vcpus * 1000,
        MEMORY: actual_memory(type_info),
        EPHEMERAL_STORAGE: _ephemeral_storage(config, facts),
        PODS: min(max_pods, per_core * type_info.vcpus) if per_core else max_pods,
    }


def _ephemeral_storage(config: BootstrapConfig, facts: InstanceFacts) -> int:
    if config.local_disks and facts.type_info.local_storage_gb:
        return facts.type_info.local_storage_gb * GB
    method = config.method
    return facts.disks.get(method.pod_device, method.pod_device_gib) * GIB


def _kube_reserved(
    config: BootstrapConfig, type_info: InstanceTypeInfo, pods: int
) -> ResourceAmounts:
    """AL2 and AL2023 derive reserved memory from network interfaces and ignore maxPods."""
    by_interfaces = config.method in (BootstrapMethod.NODEADM, BootstrapMethod.SHELL)
    max_pods = max_pods_by_interfaces(type_info) if by_interfaces else pods
    defaults = {
        CPU: f"{kube_reserved_cpu(type_info.vcpus * 1000)}m",
        MEMORY: f"{255 + 11 * max_pods}Mi",
        EPHEMERAL_STORAGE: "1Gi",
    }
    reserved = _override(defaults, config.kube_reserved, "kube_reserved" in config.replaced_maps)
    return _to_amounts(kubelet_config.parse_reserved("kubeReserved", reserved))


def _override(
    defaults: Mapping[str, str], overrides: Mapping[str, str], replaced: bool
) -> dict[str, str]:
    return dict(overrides) if replaced else {**defaults, **overrides}


def _to_amounts(quantities: Mapping[str, Quantity]) -> ResourceAmounts:
    return {name: each.milli if name == CPU else each.units for name, each in quantities.items()}


def _eviction_amounts(
    hard: Mapping[str, EvictionThreshold], capacity: ResourceAmounts
) -> ResourceAmounts:
    return {
        resource: hard[signal].amount_of(capacity[resource])
        for resource, signal in SIGNAL_BY_RESOURCE.items()
        if signal in hard
    }


def _allocatable(capacity: ResourceAmounts, *reservations: Mapping[str, int]) -> ResourceAmounts:
    allocatable: ResourceAmounts = {}
    for resource, amount in capacity.items():
        allocatable[resource] = amount - sum(each.get(resource, 0) for each in reservations)
        if allocatable[resource] < 0:
            raise BootError(
                BootFailureReason.TOO_SMALL,
                f"{amount - allocatable[resource]} of {resource} are reserved, and there are "
                f"{amount}",
            )
    return allocatable


WINDOWS_BUILDS: Final = {
    f"Windows_Server-{year}-": TRAITS_BY_FAMILY[AmiFamily(f"Windows{year}")].windows_build
    for year in (2019, 2022, 2025)
}


def node_labels(booted: BootedNode, facts: InstanceFacts) -> dict[str, str]:
    """Labels of the user data, and over them those of kubelet and cloud controller."""
    return dict(booted.labels) | _instance_labels(booted, facts) | _topology_labels(facts)


def _instance_labels(booted: BootedNode, facts: InstanceFacts) -> dict[str, str]:
    is_windows = booted.method is BootstrapMethod.WINDOWS
    operating_system, type_info = "windows" if is_windows else "linux", facts.type_info
    build = next(
        (WINDOWS_BUILDS[each] for each in WINDOWS_BUILDS if facts.image_name.startswith(each)), None
    )
    return {
        "beta.kubernetes.io/arch": type_info.architecture,
        "beta.kubernetes.io/instance-type": type_info.name,
        "beta.kubernetes.io/os": operating_system,
        labels.ARCH: type_info.architecture,
        labels.HOSTNAME: facts.private_dns,
        labels.INSTANCE_TYPE: type_info.name,
        labels.OS: operating_system,
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
    """Boots instances of the account."""

    region: str
    instance_types: Mapping[str, InstanceTypeInfo]
    instances: Instances
    images: Images
    eks: Eks

    def outcome(self, instance: Instance) -> BootedNode | BootFailure:
        """The node of the instance, or why it never joins."""
        if not instance.joins_cluster:
            return BootFailure(BootFailureReason.NEVER_JOINS, "the machine never came up")
        try:
            text = decode_user_data(self.instances.specification_of(instance).user_data)
        except BootError as failure:
            return BootFailure(failure.reason, failure.detail)
        return boot_from_user_data(text, self.facts(instance))

    def facts(self, instance: Instance) -> InstanceFacts:
        specification = self.instances.specification_of(instance)
        image = self.images.state.images.get(specification.image)
        return InstanceFacts(
            type_info=self.instance_types[instance.type],
            instance_id=instance.id,
            region=self.region,
            zone=instance.zone,
            zone_id=instance.zone_id,
            private_dns=private_dns_name(instance.address, self.region),
            image_name="" if image is None else image.name,
            disks=specification.sizes,
            clusters=self._clusters(),
        )

    def _clusters(self) -> dict[str, ClusterEndpoint]:
        return {
            name: ClusterEndpoint(endpoint=each.endpoint, certificate=each.certificate)
            for name, each in self.eks.state.clusters.items()
        }
