"""Bottlerocket: TOML, and nothing but settings."""

import tomllib
from collections.abc import Mapping
from typing import Any, Final

from wainwright.emulator.boot.facts import Family
from wainwright.emulator.boot.reasons import Reason, Unbootable
from wainwright.emulator.boot.settings import Settings
from wainwright.model.taints import Taint

MAPS: Final = {
    "kube-reserved": "kube_reserved",
    "system-reserved": "system_reserved",
    "eviction-hard": "eviction_hard",
    "eviction-soft": "eviction_soft",
    "eviction-soft-grace-period": "eviction_soft_grace",
    "node-labels": "labels",
}
CLUSTER: Final = {
    "cluster-name": "cluster",
    "api-server": "endpoint",
    "cluster-certificate": "certificate",
}
STRIPE: Final = ["apiclient", "ephemeral-storage", "init"]


def is_toml(text: str) -> bool:
    try:
        return "settings" in tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False


def read(text: str) -> Settings:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Unbootable(Reason.UNREADABLE, f"the user data is not TOML: {error}") from error
    settings = _table(document, "settings")
    made = Settings(family=Family.BOTTLEROCKET, local_disks=_stripes(settings))
    kubernetes = _table(settings, "kubernetes")
    for name, field in CLUSTER.items():
        if not isinstance(kubernetes.get(name), str) or not kubernetes[name]:
            raise Unbootable(Reason.NO_CLUSTER, f"settings.kubernetes.{name} is missing")
        setattr(made, field, kubernetes[name])
    _configure(made, kubernetes)
    return made


def _configure(made: Settings, kubernetes: Mapping[str, Any]) -> None:
    for name, value in kubernetes.items():
        if name in MAPS:
            setattr(made, MAPS[name], _texts(name, value))
        elif name == "node-taints":
            made.taints = tuple(_taints(value))
        elif name == "max-pods":
            if not isinstance(value, int) or isinstance(value, bool):
                raise Unbootable(Reason.REFUSED, f"max-pods is {value!r}, which is no number")
            made.max_pods = value
        elif name == "cluster-dns-ip":
            made.dns = tuple(value) if isinstance(value, list) else (value,)
        elif name not in CLUSTER:
            made.rest[name] = value


def _taints(value: Any) -> list[Taint]:
    """Key to a list of `value:Effect`."""
    if not isinstance(value, dict):
        raise Unbootable(Reason.REFUSED, f"node-taints is {value!r}, which is no table")
    return [_taint(key, each) for key, listed in value.items() for each in _list(listed)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _taint(key: str, text: Any) -> Taint:
    value, colon, effect = str(text).rpartition(":")
    if not colon:
        raise Unbootable(Reason.REFUSED, f"the taint {key} is {text!r}, which has no effect")
    return Taint(key=key, value=value, effect=effect)


def _stripes(settings: Mapping[str, Any]) -> bool:
    """Whether some command at boot makes one disk of the machine's own."""
    commands = _table(settings, "bootstrap-commands")
    return any(
        isinstance(each, dict) and STRIPE in each.get("commands", []) for each in commands.values()
    )


def _texts(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise Unbootable(Reason.REFUSED, f"{name} is {value!r}, which is no table of texts")
    return dict(value)


def _table(within: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = within.get(key, {})
    if not isinstance(found, dict):
        raise Unbootable(Reason.UNREADABLE, f"{key} is {found!r}, which is no table")
    return found
