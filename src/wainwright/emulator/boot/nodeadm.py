"""nodeadm: NodeConfigs of AL2023, merged in order, later ones over earlier ones.

Maps are merged key by key, lists and plain values replaced; only the kubelet's flags add up. A
script beside them may look up the pods of its instance type and what its kubelet reserves; what it
finds goes before what the NodeConfigs say.
"""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Final

import yaml

from wainwright.emulator.boot import kubelet_config
from wainwright.emulator.boot.user_data import (
    NODE_CONFIG_TYPE,
    SHELL_SCRIPT_TYPE,
    BootError,
    BootFailureReason,
    BootstrapConfig,
    BootstrapMethod,
    UserDataPart,
    look_up_max_pods,
)
from wainwright.model.taints import Taint

NODE_CONFIG_GROUP: Final = "node.eks.aws/"
MAP_FIELDS: Final = {
    "kubeReserved": "kube_reserved",
    "systemReserved": "system_reserved",
    "evictionHard": "eviction_hard",
    "evictionSoft": "eviction_soft",
    "evictionSoftGracePeriod": "eviction_soft_grace",
}
NUMBER_FIELDS: Final = {"maxPods": "max_pods", "podsPerCore": "pods_per_core"}
CLUSTER_FIELDS: Final = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")


def read_node_configs(parts: Sequence[UserDataPart], instance_type: str) -> BootstrapConfig:
    spec = _merge_specs(_parse_spec(part.text) for part in parts if part.type == NODE_CONFIG_TYPE)
    settings = _cluster_config(_get_map(spec, "cluster"))
    kubelet = _get_map(spec, "kubelet")
    _apply_kubelet_config(settings, _get_map(kubelet, "config"))
    kubelet_config.apply_flags(" ".join(_kubelet_flags(kubelet)), settings)
    strategy = _get_map(_get_map(spec, "instance"), "localStorage").get("strategy")
    settings.local_disks = strategy == "RAID0"
    for part in parts:
        found = (
            look_up_max_pods(part.text, instance_type) if part.type == SHELL_SCRIPT_TYPE else None
        )
        if found is not None:
            settings.max_pods = kubelet_config.parse_flag_number("maxPods", found.pods)
            _set_kube_reserved(settings, found.reserved)
    return settings


def _set_kube_reserved(settings: BootstrapConfig, reserved: str) -> None:
    """Goes into a file of settings, and so not before a flag."""
    if "kube_reserved" not in settings.replaced:
        settings.kube_reserved = settings.kube_reserved | kubelet_config.parse_pairs(
            "kubeReserved", reserved, "="
        )


def _parse_spec(text: str) -> dict[str, Any]:
    try:
        found = next(iter(yaml.load_all(text, yaml.CSafeLoader)), None)
    except yaml.YAMLError as error:
        raise BootError(
            BootFailureReason.UNREADABLE, f"a NodeConfig is not YAML: {error}"
        ) from error
    if (
        not isinstance(found, dict)
        or found.get("kind") != "NodeConfig"
        or not str(found.get("apiVersion")).startswith(NODE_CONFIG_GROUP)
    ):
        raise BootError(
            BootFailureReason.UNREADABLE, f"a part that should be a NodeConfig is {found!r:.80}"
        )
    return _get_map(found, "spec")


def _merge_specs(specs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    lines: list[str] = []
    for spec in specs:
        lines += _kubelet_flags(_get_map(spec, "kubelet"))
        made = merge_maps(made, spec)
    return merge_maps(made, {"kubelet": {"flags": lines}}) if lines else made


def merge_maps(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """What is empty above leaves standing what is below."""
    made = dict(below)
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(made.get(key), dict):
            made[key] = merge_maps(made[key], value)
        elif value not in (None, "", [], {}):
            made[key] = value
    return made


def _cluster_config(cluster: Mapping[str, Any]) -> BootstrapConfig:
    missing = [name for name in CLUSTER_FIELDS if not cluster.get(name)]
    if missing:
        raise BootError(BootFailureReason.NO_CLUSTER, f"the NodeConfig lacks cluster.{missing[0]}")
    name, endpoint, certificate, cidr = (str(cluster[field]) for field in CLUSTER_FIELDS)
    try:
        ip_network(cidr, strict=False)
    except ValueError as error:
        raise BootError(BootFailureReason.NO_CLUSTER, f"cluster.cidr: {error}") from error
    return BootstrapConfig(
        family=BootstrapMethod.NODEADM,
        cluster=name,
        endpoint=endpoint,
        certificate=certificate,
        cidr=cidr,
    )


def _apply_kubelet_config(settings: BootstrapConfig, config: Mapping[str, Any]) -> None:
    for field, value in config.items():
        if field in MAP_FIELDS:
            setattr(settings, MAP_FIELDS[field], _text_map(field, value))
        elif field in NUMBER_FIELDS:
            if not isinstance(value, int) or isinstance(value, bool):
                raise BootError(
                    BootFailureReason.REFUSED, f"{field} is {value!r}, which is no number"
                )
            setattr(settings, NUMBER_FIELDS[field], value)
        elif field == "registerWithTaints":
            settings.taints = tuple(_parse_taint(each) for each in value or ())
        elif field == "clusterDNS":
            settings.dns = tuple(value or ())
        else:
            settings.rest[field] = value


def _text_map(field: str, value: Any) -> dict[str, str]:
    """The kubelet wants text in these maps, and starts with nothing else."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BootError(
            BootFailureReason.REFUSED, f"{field} is {value!r}, which is no map of texts"
        )
    return {str(key): each for key, each in value.items()}


def _parse_taint(value: Any) -> Taint:
    if not isinstance(value, dict) or not value.get("key"):
        raise BootError(
            BootFailureReason.REFUSED, f"registerWithTaints has {value!r}, which is no taint"
        )
    return Taint(key=value["key"], value=value.get("value") or "", effect=value.get("effect") or "")


def _kubelet_flags(kubelet: Mapping[str, Any]) -> list[str]:
    found = kubelet.get("flags") or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise BootError(
            BootFailureReason.UNREADABLE, f"kubelet.flags is {found!r}, which is no list"
        )
    return found


def _get_map(within: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = within.get(key) or {}
    if not isinstance(found, dict):
        raise BootError(
            BootFailureReason.UNREADABLE, f"{key} in the NodeConfig is {found!r}, not a map"
        )
    return found
