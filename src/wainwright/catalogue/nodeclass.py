"""Node classes: what an EC2NodeClass says that changes what a machine offers to pods."""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.api import ec2nodeclass as wire
from wainwright.api import kubelet as kubelet_wire
from wainwright.api.fault import Path
from wainwright.api.quantity import NotAQuantity, Quantity, parse
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.remarks import Refused, refusal
from wainwright.catalogue.settings import (
    BlockDevice,
    ClassSettings,
    InstanceStorePolicy,
    Kubelet,
    MemoryStrategy,
    NetworkInterface,
    Options,
)
from wainwright.catalogue.threshold import Threshold, threshold

MEMORY_STRATEGY: Final = "wainwright.dev/kube-reserved-memory-strategy"
STORAGE_PER_POD: Final = "wainwright.dev/storage-per-pod"
FAMILIES: Final = {family.value.lower(): family for family in AmiFamily}


def settings_of(node_class: wire.EC2NodeClass, options: Options) -> ClassSettings:
    """The class as the rules of the catalogue want it; Refused where they cannot use it."""
    spec = node_class.spec
    policy = spec.instanceStorePolicy
    return ClassSettings(
        ami_family=ami_family(spec),
        kubelet=_kubelet(node_class),
        block_devices=tuple(map(_device, spec.blockDeviceMappings or ())),
        instance_store_policy=None if policy is None else InstanceStorePolicy(policy),
        network_interfaces=tuple(
            NetworkInterface(card=each.networkCardIndex, efa_only=each.interfaceType == "efa-only")
            for each in spec.networkInterfaces or ()
        ),
        options=_options(node_class, options),
    )


def ami_family(spec: wire.EC2NodeClassSpec) -> AmiFamily:
    """The family that is named, else that of the alias."""
    if spec.amiFamily is not None:
        return AmiFamily(spec.amiFamily)
    aliases = [term.alias for term in spec.amiSelectorTerms if term.alias is not None]
    return FAMILIES[aliases[0].partition("@")[0].lower()] if aliases else AmiFamily.AL2023


def _device(mapping: wire.BlockDevice) -> BlockDevice:
    size = None if mapping.ebs is None else mapping.ebs.volumeSize
    return BlockDevice(
        device=mapping.deviceName or "",
        size=None if size is None else parse(size).units,
        root=mapping.rootVolume is True,
    )


def _kubelet(node_class: wire.EC2NodeClass) -> Kubelet:
    given = node_class.spec.kubelet or kubelet_wire.Kubelet()
    return Kubelet(
        max_pods=_max_pods(given.maxPods, node_class),
        pods_per_core=given.podsPerCore,
        kube_reserved=_reserved(given.kubeReserved, "kubeReserved", node_class),
        system_reserved=_reserved(given.systemReserved, "systemReserved", node_class),
        eviction_hard=_thresholds(given.evictionHard),
        eviction_soft=_thresholds(given.evictionSoft),
        kube_reserved_memory_strategy=_strategy(node_class),
    )


def _max_pods(given: int | str | None, node_class: wire.EC2NodeClass) -> int | None:
    if isinstance(given, str):
        if not given.isdecimal():
            raise _expression(node_class, ("spec", "kubelet", "maxPods"), given)
        return int(given)
    return given


def _reserved(
    given: Mapping[str, str] | None, field: str, node_class: wire.EC2NodeClass
) -> dict[str, Quantity]:
    amounts = {}
    for name, text in sorted((given or {}).items()):
        try:
            amounts[name] = parse(text)
        except NotAQuantity as error:
            raise _expression(node_class, ("spec", "kubelet", field, name), text) from error
    return amounts


def _expression(node_class: wire.EC2NodeClass, path: Path, text: str) -> Refused:
    return refusal(
        node_class.kind,
        node_class.metadata.name,
        path,
        f"expressions are not supported yet; found {text!r}",
        "write a number, or give the number per type in an InstanceType object",
    )


def _thresholds(given: Mapping[str, str] | None) -> dict[str, Threshold]:
    """An empty text sets nothing, as in the kubelet's own configuration."""
    return {signal: threshold(text) for signal, text in sorted((given or {}).items()) if text}


def _strategy(node_class: wire.EC2NodeClass) -> MemoryStrategy:
    text = (node_class.metadata.annotations or {}).get(MEMORY_STRATEGY, "EKS")
    known = [strategy.value for strategy in MemoryStrategy]
    if text not in known:
        raise _annotation(node_class, MEMORY_STRATEGY, text, f"one of {', '.join(known)}")
    return MemoryStrategy(text)


def _options(node_class: wire.EC2NodeClass, options: Options) -> Options:
    """What is set for all classes, unless this one says otherwise of itself."""
    text = (node_class.metadata.annotations or {}).get(STORAGE_PER_POD)
    if text is None:
        return options
    try:
        amount = parse(text)
    except NotAQuantity:
        amount = Quantity(-1)
    if amount.nano < 0:
        raise _annotation(node_class, STORAGE_PER_POD, text, "a quantity such as 2Gi")
    return msgspec.structs.replace(options, storage_per_pod=amount.units)


def _annotation(node_class: wire.EC2NodeClass, key: str, text: str, expected: str) -> Refused:
    path: Path = ("metadata", "annotations", key)
    message = f"expected {expected}, found {text!r}"
    return refusal(node_class.kind, node_class.metadata.name, path, message)
