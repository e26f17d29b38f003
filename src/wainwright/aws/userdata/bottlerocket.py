"""User data of Bottlerocket: settings in TOML. The user's are the base, ours replace our keys.

There are no scripts: nothing can be looked up at boot. The settings have the class's maxPods, or
none, and then the node computes it from its network interfaces; instance types that would need
another number are not launched (`launchtemplate/launch_templates.py`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, Final

from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.errors import InvalidInputError
from wainwright.manifests.user_data_formats import UnreadableUserData, parse_toml

BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(table: Mapping[str, Any]) -> str:
    """The document; equal tables give equal text, independent of the order of keys."""
    return "\n".join(_toml_lines(table, ())) + "\n"


def _toml_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Values first: after the header of a nested table, they would belong to that table."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (plain or not tables):
        yield f"[{'.'.join(map(_toml_key, path))}]"
    for key, value in sorted(plain.items()):
        yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, nested in sorted(tables.items()):
        yield from _toml_lines(nested, (*path, key))


def _toml_key(text: str) -> str:
    return text if BARE_KEY.fullmatch(text) else _toml_string(text)


def _toml_string(text: str) -> str:
    """JSON's escapes are valid TOML; only DEL, which JSON does not escape, must be in TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, Mapping):
        inside = (f"{_toml_key(key)} = {_toml_value(each)}" for key, each in sorted(value.items()))
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return repr(value)


INSTANCE_STORAGE_COMMAND: Final = "000-mount-instance-storage"
MOUNT_INSTANCE_STORAGE: Final = {
    "commands": [
        ["apiclient", "ephemeral-storage", "init"],
        [
            "apiclient",
            "ephemeral-storage",
            "bind",
            "--dirs",
            "/var/lib/containerd",
            "/var/lib/kubelet",
            "/var/log/pods",
        ],
    ],
    "essential": True,
    "mode": "always",
}
KUBELET_SETTING_NAMES: Final = {
    "kubeReserved": "kube-reserved",
    "systemReserved": "system-reserved",
    "evictionHard": "eviction-hard",
    "evictionSoft": "eviction-soft",
    "evictionSoftGracePeriod": "eviction-soft-grace-period",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "cpuCFSQuota": "cpu-cfs-quota-enforced",
}
STRING_SETTING_NAMES: Final = {
    "imageGCHighThresholdPercent": "image-gc-high-threshold-percent",
    "imageGCLowThresholdPercent": "image-gc-low-threshold-percent",
}
"""Numbers that Bottlerocket expects as strings."""


def bottlerocket_user_data(bootstrap: BootstrapOptions) -> str:
    document = _parse_custom_settings(bootstrap.custom_user_data)
    settings = _ensure_table(document, "settings")
    kubernetes = _ensure_table(settings, "kubernetes")
    kubernetes |= _cluster_settings(bootstrap) | _kubelet_settings(bootstrap)
    kubernetes["node-labels"] = _ensure_table(kubernetes, "node-labels") | bootstrap.node_labels
    kubernetes["node-taints"] = _taint_settings(bootstrap)
    if bootstrap.uses_raid0:
        _ensure_table(settings, "bootstrap-commands")[INSTANCE_STORAGE_COMMAND] = (
            MOUNT_INSTANCE_STORAGE
        )
    return to_toml(document)


def _parse_custom_settings(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except UnreadableUserData as error:
        raise InvalidInputError(
            f"the user data of a Bottlerocket class is TOML, and this is not: {error}",
            "write settings as in [settings.kubernetes]",
        ) from error


def _ensure_table(document: dict[str, Any], key: str) -> dict[str, Any]:
    """The table under the key, created if it is missing."""
    table = document.setdefault(key, {})
    if not isinstance(table, dict):
        raise InvalidInputError(
            f"expected {key} in the user data to be a table, found {table!r:.80}"
        )
    return table


def _cluster_settings(bootstrap: BootstrapOptions) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "cluster-name": bootstrap.cluster,
        "api-server": bootstrap.endpoint,
        "cluster-certificate": bootstrap.ca,
    }
    if len(bootstrap.dns_ips) == 1:
        settings["cluster-dns-ip"] = bootstrap.dns_ips[0]
    elif bootstrap.dns_ips:
        settings["cluster-dns-ip"] = list(bootstrap.dns_ips)
    return settings


def _kubelet_settings(bootstrap: BootstrapOptions) -> dict[str, Any]:
    settings = bootstrap.kubelet_settings
    result = {
        name: settings[field] for field, name in KUBELET_SETTING_NAMES.items() if field in settings
    }
    result |= {
        name: str(settings[field])
        for field, name in STRING_SETTING_NAMES.items()
        if field in settings
    }
    return result if bootstrap.max_pods is None else result | {"max-pods": bootstrap.max_pods}


def _taint_settings(bootstrap: BootstrapOptions) -> dict[str, list[str]]:
    taints: dict[str, list[str]] = {}
    for each in bootstrap.node_taints:
        taints.setdefault(each.key, []).append(f"{each.value}:{each.effect}")
    return taints
