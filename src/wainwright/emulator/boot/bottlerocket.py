"""Bottlerocket: user data is a TOML document of settings."""

from collections.abc import Mapping
from typing import Any, Final

from wainwright.emulator.boot.user_data import (
    BootError,
    BootFailureReason,
    BootstrapConfig,
    BootstrapMethod,
)
from wainwright.manifests.user_data_formats import UnreadableUserData, parse_toml
from wainwright.model.taints import Taint

MAP_SETTINGS: Final = {
    "kube-reserved": "kube_reserved",
    "system-reserved": "system_reserved",
    "eviction-hard": "eviction_hard",
    "eviction-soft": "eviction_soft",
    "eviction-soft-grace-period": "eviction_soft_grace",
    "node-labels": "labels",
}
CLUSTER_SETTINGS: Final = {
    "cluster-name": "cluster",
    "api-server": "endpoint",
    "cluster-certificate": "certificate",
}
STRIPE_COMMAND: Final = ["apiclient", "ephemeral-storage", "init"]


def is_toml(text: str) -> bool:
    try:
        return "settings" in parse_toml(text)
    except UnreadableUserData:
        return False


def read_settings(text: str) -> BootstrapConfig:
    try:
        document = parse_toml(text)
    except UnreadableUserData as error:
        raise BootError(
            BootFailureReason.UNREADABLE, f"the user data is not TOML: {error}"
        ) from error
    settings = _get_table(document, "settings")
    config = BootstrapConfig(
        method=BootstrapMethod.BOTTLEROCKET, local_disks=_stripes_local_disks(settings)
    )
    kubernetes = _get_table(settings, "kubernetes")
    for name, field in CLUSTER_SETTINGS.items():
        if not isinstance(kubernetes.get(name), str) or not kubernetes[name]:
            raise BootError(BootFailureReason.NO_CLUSTER, f"settings.kubernetes.{name} is missing")
        setattr(config, field, kubernetes[name])
    _apply_kubernetes_settings(config, kubernetes)
    return config


def _apply_kubernetes_settings(config: BootstrapConfig, kubernetes: Mapping[str, Any]) -> None:
    for name, value in kubernetes.items():
        if name in MAP_SETTINGS:
            setattr(config, MAP_SETTINGS[name], _text_table(name, value))
        elif name == "node-taints":
            config.taints = tuple(_parse_taints(value))
        elif name == "max-pods":
            if not isinstance(value, int) or isinstance(value, bool):
                raise BootError(
                    BootFailureReason.REFUSED, f"max-pods is {value!r}, which is not a number"
                )
            config.max_pods = value
        elif name == "cluster-dns-ip":
            config.dns = tuple(value) if isinstance(value, list) else (value,)
        elif name not in CLUSTER_SETTINGS:
            config.other_config[name] = value


def _parse_taints(value: Any) -> list[Taint]:
    """Key to a list of `value:Effect`."""
    if not isinstance(value, dict):
        raise BootError(
            BootFailureReason.REFUSED, f"node-taints is {value!r}, which is not a table"
        )
    return [_parse_taint(key, each) for key, entries in value.items() for each in _as_list(entries)]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _parse_taint(key: str, text: Any) -> Taint:
    value, colon, effect = str(text).rpartition(":")
    if not colon:
        raise BootError(
            BootFailureReason.REFUSED, f"the taint {key} is {text!r}, which has no effect"
        )
    return Taint(key=key, value=value, effect=effect)


def _stripes_local_disks(settings: Mapping[str, Any]) -> bool:
    """Whether a boot command combines the local disks into one array."""
    commands = _get_table(settings, "bootstrap-commands")
    return any(
        isinstance(each, dict) and STRIPE_COMMAND in _as_list(each.get("commands"))
        for each in commands.values()
    )


def _text_table(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BootError(
            BootFailureReason.REFUSED, f"{name} is {value!r}, which is not a table of texts"
        )
    return dict(value)


def _get_table(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise BootError(BootFailureReason.UNREADABLE, f"{key} is {value!r}, which is not a table")
    return value
