"""Flags: the kubelet's settings as its command line takes them (AL2 and Windows)."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.errors import BadInput

PLAIN: Final = {
    "podsPerCore": "pods-per-core",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "imageGCHighThresholdPercent": "image-gc-high-threshold",
    "imageGCLowThresholdPercent": "image-gc-low-threshold",
    "cpuCFSQuota": "cpu-cfs-quota",
}
MAPS: Final = {
    "systemReserved": ("system-reserved", "="),
    "kubeReserved": ("kube-reserved", "="),
    "evictionHard": ("eviction-hard", "<"),
    "evictionSoft": ("eviction-soft", "<"),
    "evictionSoftGracePeriod": ("eviction-soft-grace-period", "="),
}
"""Name of the flag, and what stands between key and value."""

UNSPEAKABLE: Final = re.compile(r"""[\s'"`\\$,]""")


def flags(bootstrap: Bootstrap) -> str:
    """All but max-pods. Lists are in double quotes, which the service manager takes off again."""
    return " ".join(_flags(bootstrap))


def _flags(bootstrap: Bootstrap) -> Iterator[str]:
    settings = bootstrap.kubelet_settings
    for field, name in PLAIN.items():
        if field in settings:
            yield f"--{name}={str(settings[field]).lower()}"
    for field, (name, between) in MAPS.items():
        if settings.get(field):
            yield _list(
                name, (f"{key}{between}{_said(value)}" for key, value in _in(settings, field))
            )
    yield _list("node-labels", (f"{key}={value}" for key, value in bootstrap.node_labels.items()))
    yield _list(
        "register-with-taints",
        (f"{each.key}={each.value}:{each.effect}" for each in bootstrap.node_taints),
    )


def _in(settings: Mapping[str, Mapping[str, str]], field: str) -> list[tuple[str, str]]:
    return list(settings[field].items())


def _list(name: str, items: Iterator[str]) -> str:
    return f'--{name}="{",".join(items)}"'


def _said(value: str) -> str:
    """The value, if it comes through two programs that split and unquote it on the way."""
    if UNSPEAKABLE.search(value):
        raise BadInput(
            f"{value!r} cannot be written on the kubelet's command line",
            "leave blanks, commas, quotes, dollars and backslashes out of the kubelet's settings",
        )
    return value
