"""Bottlerocket: settings in TOML. The user's are the base, ours go over the keys we own.

There are no scripts: nothing can be looked up at boot. A machine is told the class's maxPods, or
nothing, and reckons by its network interfaces then; types that would have to be told another
number are not launched (`templates/split.py`).
"""

import tomllib
from typing import Any, Final

from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.aws.userdata.toml import toml
from wainwright.errors import BadInput

STORAGE: Final = "000-mount-instance-storage"
USE_LOCAL_DISKS: Final = {
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
NAMES: Final = {
    "kubeReserved": "kube-reserved",
    "systemReserved": "system-reserved",
    "evictionHard": "eviction-hard",
    "evictionSoft": "eviction-soft",
    "evictionSoftGracePeriod": "eviction-soft-grace-period",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "cpuCFSQuota": "cpu-cfs-quota-enforced",
}
IN_WORDS: Final = {
    "imageGCHighThresholdPercent": "image-gc-high-threshold-percent",
    "imageGCLowThresholdPercent": "image-gc-low-threshold-percent",
}
"""Numbers that Bottlerocket wants as text."""


def bottlerocket(bootstrap: Bootstrap) -> str:
    document = _of_user(bootstrap.text)
    settings = _table(document, "settings")
    kubernetes = _table(settings, "kubernetes")
    kubernetes |= _cluster(bootstrap) | _kubelet(bootstrap)
    kubernetes["node-labels"] = _table(kubernetes, "node-labels") | bootstrap.node_labels
    kubernetes["node-taints"] = _taints(bootstrap)
    if bootstrap.stripes_disks:
        _table(settings, "bootstrap-commands")[STORAGE] = USE_LOCAL_DISKS
    return toml(document)


def _of_user(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(
            f"the user data of a Bottlerocket class is TOML, and this is not: {error}",
            "write settings as in [settings.kubernetes]",
        ) from error


def _table(within: dict[str, Any], key: str) -> dict[str, Any]:
    """The table under the key, made where it is missing."""
    found = within.setdefault(key, {})
    if not isinstance(found, dict):
        raise BadInput(f"expected {key} in the user data to be a table, found {found!r}")
    return found


def _cluster(bootstrap: Bootstrap) -> dict[str, Any]:
    made: dict[str, Any] = {
        "cluster-name": bootstrap.cluster,
        "api-server": bootstrap.endpoint,
        "cluster-certificate": bootstrap.ca,
    }
    if len(bootstrap.dns_ips) == 1:
        made["cluster-dns-ip"] = bootstrap.dns_ips[0]
    elif bootstrap.dns_ips:
        made["cluster-dns-ip"] = list(bootstrap.dns_ips)
    return made


def _kubelet(bootstrap: Bootstrap) -> dict[str, Any]:
    settings = bootstrap.kubelet_settings
    made = {name: settings[field] for field, name in NAMES.items() if field in settings}
    made |= {name: str(settings[field]) for field, name in IN_WORDS.items() if field in settings}
    return made if bootstrap.max_pods is None else made | {"max-pods": bootstrap.max_pods}


def _taints(bootstrap: Bootstrap) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {}
    for each in bootstrap.node_taints:
        made.setdefault(each.key, []).append(f"{each.value}:{each.effect}")
    return made
