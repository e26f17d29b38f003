"""nodeadm: NodeConfigs of AL2023, merged in order, later ones over earlier ones.

Maps are merged key by key, lists and scalars replaced; only the kubelet's flags are concatenated. A
script in the same user data may look up max pods and reserved resources of its instance type; these
take precedence over the NodeConfigs.
"""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Final

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
from wainwright.manifests.user_data_formats import UnreadableUserData, parse_yaml_documents
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
TAINT_FIELDS: Final = ("key", "value", "effect")
CLUSTER_FIELDS: Final = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")


def read_node_configs(parts: Sequence[UserDataPart], instance_type: str) -> BootstrapConfig:
    spec = _merge_specs(_parse_spec(part.text) for part in parts if part.type == NODE_CONFIG_TYPE)
    config = _cluster_config(_get_map(spec, "cluster"))
    kubelet = _get_map(spec, "kubelet")
    _apply_kubelet_config(config, _get_map(kubelet, "config"))
    kubelet_config.apply_flags(" ".join(_kubelet_flags(kubelet)), config)
    strategy = _get_map(_get_map(spec, "instance"), "localStorage").get("strategy")
    config.local_disks = strategy == "RAID0"
    for part in parts:
        row = look_up_max_pods(part.text, instance_type) if part.type == SHELL_SCRIPT_TYPE else None
        if row is not None:
            config.max_pods = kubelet_config.parse_flag_number("maxPods", row.pods)
            _set_kube_reserved(config, row.reserved)
    return config


def _set_kube_reserved(config: BootstrapConfig, reserved: str) -> None:
    """Written to the kubelet's configuration file, so a flag takes precedence."""
    if "kube_reserved" not in config.replaced_maps:
        config.kube_reserved = config.kube_reserved | kubelet_config.parse_pairs(
            "kubeReserved", reserved, "="
        )


def _parse_spec(text: str) -> dict[str, Any]:
    try:
        document = next(parse_yaml_documents(text), None)
    except UnreadableUserData as error:
        raise BootError(
            BootFailureReason.UNREADABLE, f"a NodeConfig is not YAML: {error}"
        ) from error
    if (
        not isinstance(document, dict)
        or document.get("kind") != "NodeConfig"
        or not str(document.get("apiVersion")).startswith(NODE_CONFIG_GROUP)
    ):
        raise BootError(
            BootFailureReason.UNREADABLE, f"a part that should be a NodeConfig is {document!r:.80}"
        )
    return _get_map(document, "spec")


def _merge_specs(specs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    flags: list[str] = []
    for spec in specs:
        flags += _kubelet_flags(_get_map(spec, "kubelet"))
        merged = merge_maps(merged, spec)
    return merge_maps(merged, {"kubelet": {"flags": flags}}) if flags else merged


def merge_maps(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """The overlay merged over the base; empty values of the overlay are ignored."""
    merged = dict(base)
    for key, value in overlay.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = merge_maps(merged[key], value)
        elif value not in (None, "", [], {}):
            merged[key] = value
    return merged


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
        method=BootstrapMethod.NODEADM,
        cluster=name,
        endpoint=endpoint,
        certificate=certificate,
        cidr=cidr,
    )


def _apply_kubelet_config(bootstrap: BootstrapConfig, config: Mapping[str, Any]) -> None:
    for field, value in config.items():
        if field in MAP_FIELDS:
            setattr(bootstrap, MAP_FIELDS[field], _text_map(field, value))
        elif field in NUMBER_FIELDS:
            if not isinstance(value, int) or isinstance(value, bool):
                raise BootError(
                    BootFailureReason.REFUSED, f"{field} is {value!r}, which is not a number"
                )
            setattr(bootstrap, NUMBER_FIELDS[field], value)
        elif field == "registerWithTaints":
            bootstrap.taints = tuple(_parse_taint(each) for each in _list(field, value))
        elif field == "clusterDNS":
            bootstrap.dns = tuple(map(str, _list(field, value)))
        else:
            bootstrap.other_config[field] = value


def _text_map(field: str, value: Any) -> dict[str, str]:
    """The kubelet accepts only strings in these maps."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BootError(
            BootFailureReason.REFUSED, f"{field} is {value!r}, which is not a map of texts"
        )
    return {str(key): each for key, each in value.items()}


def _list(field: str, value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise BootError(BootFailureReason.REFUSED, f"{field} is {value!r}, which is not a list")
    return value or []


def _parse_taint(value: Any) -> Taint:
    fields = [value.get(each) or "" for each in TAINT_FIELDS] if isinstance(value, dict) else [""]
    if not fields[0] or not all(isinstance(each, str) for each in fields):
        raise BootError(
            BootFailureReason.REFUSED, f"registerWithTaints has {value!r}, which is not a taint"
        )
    key, text, effect = fields
    return Taint(key=key, value=text, effect=effect)


def _kubelet_flags(kubelet: Mapping[str, Any]) -> list[str]:
    flags = kubelet.get("flags") or []
    if not isinstance(flags, list) or not all(isinstance(each, str) for each in flags):
        raise BootError(
            BootFailureReason.UNREADABLE, f"kubelet.flags is {flags!r}, which is not a list"
        )
    return flags


def _get_map(container: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = container.get(key) or {}
    if not isinstance(value, dict):
        raise BootError(
            BootFailureReason.UNREADABLE, f"{key} in the NodeConfig is {value!r}, not a map"
        )
    return value
