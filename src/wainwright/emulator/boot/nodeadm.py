"""nodeadm: NodeConfigs of AL2023, merged in order, later ones over earlier ones.

Maps are merged key by key, lists and plain values replaced; only the kubelet's flags add up. A
script beside them may look up the pods of its machine and what its kubelet keeps; what it finds
goes before what the NodeConfigs say.
"""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Final

import yaml

from wainwright.emulator.boot import flags
from wainwright.emulator.boot.density import lookup
from wainwright.emulator.boot.facts import Family
from wainwright.emulator.boot.parts import NODE_CONFIG, SHELL, Part
from wainwright.emulator.boot.reasons import Reason, Unbootable
from wainwright.emulator.boot.settings import Settings
from wainwright.model.taints import Taint

GROUP: Final = "node.eks.aws/"
MAPS: Final = {
    "kubeReserved": "kube_reserved",
    "systemReserved": "system_reserved",
    "evictionHard": "eviction_hard",
    "evictionSoft": "eviction_soft",
    "evictionSoftGracePeriod": "eviction_soft_grace",
}
NUMBERS: Final = {"maxPods": "max_pods", "podsPerCore": "pods_per_core"}
CLUSTER: Final = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")


def read(parts: Sequence[Part], instance_type: str) -> Settings:
    spec = _merged(_spec(part.text) for part in parts if part.type == NODE_CONFIG)
    settings = _cluster(_map(spec, "cluster"))
    kubelet = _map(spec, "kubelet")
    _configure(settings, _map(kubelet, "config"))
    flags.apply(" ".join(_flags(kubelet)), settings)
    strategy = _map(_map(spec, "instance"), "localStorage").get("strategy")
    settings.local_disks = strategy == "RAID0"
    for part in parts:
        found = lookup(part.text, instance_type) if part.type == SHELL else None
        if found is not None:
            settings.max_pods = flags.number("maxPods", found.pods)
            _keep(settings, found.reserved)
    return settings


def _keep(settings: Settings, reserved: str) -> None:
    """Goes into a file of settings, and so not before a flag."""
    if "kube_reserved" not in settings.replaced:
        settings.kube_reserved = settings.kube_reserved | flags.pairs("kubeReserved", reserved, "=")


def _spec(text: str) -> dict[str, Any]:
    try:
        found = next(iter(yaml.load_all(text, yaml.CSafeLoader)), None)
    except yaml.YAMLError as error:
        raise Unbootable(Reason.UNREADABLE, f"a NodeConfig is not YAML: {error}") from error
    if (
        not isinstance(found, dict)
        or found.get("kind") != "NodeConfig"
        or not str(found.get("apiVersion")).startswith(GROUP)
    ):
        raise Unbootable(Reason.UNREADABLE, f"a part that should be a NodeConfig is {found!r:.80}")
    return _map(found, "spec")


def _merged(specs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    lines: list[str] = []
    for spec in specs:
        lines += _flags(_map(spec, "kubelet"))
        made = laid_over(made, spec)
    return laid_over(made, {"kubelet": {"flags": lines}}) if lines else made


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """What is empty above leaves standing what is below."""
    made = dict(below)
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(made.get(key), dict):
            made[key] = laid_over(made[key], value)
        elif value not in (None, "", [], {}):
            made[key] = value
    return made


def _cluster(cluster: Mapping[str, Any]) -> Settings:
    missing = [name for name in CLUSTER if not cluster.get(name)]
    if missing:
        raise Unbootable(Reason.NO_CLUSTER, f"the NodeConfig lacks cluster.{missing[0]}")
    name, endpoint, certificate, cidr = (str(cluster[field]) for field in CLUSTER)
    try:
        ip_network(cidr, strict=False)
    except ValueError as error:
        raise Unbootable(Reason.NO_CLUSTER, f"cluster.cidr: {error}") from error
    return Settings(
        family=Family.NODEADM, cluster=name, endpoint=endpoint, certificate=certificate, cidr=cidr
    )


def _configure(settings: Settings, config: Mapping[str, Any]) -> None:
    for field, value in config.items():
        if field in MAPS:
            setattr(settings, MAPS[field], _texts(field, value))
        elif field in NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool):
                raise Unbootable(Reason.REFUSED, f"{field} is {value!r}, which is no number")
            setattr(settings, NUMBERS[field], value)
        elif field == "registerWithTaints":
            settings.taints = tuple(_taint(each) for each in value or ())
        elif field == "clusterDNS":
            settings.dns = tuple(value or ())
        else:
            settings.rest[field] = value


def _texts(field: str, value: Any) -> dict[str, str]:
    """The kubelet wants text in these maps, and starts with nothing else."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise Unbootable(Reason.REFUSED, f"{field} is {value!r}, which is no map of texts")
    return {str(key): each for key, each in value.items()}


def _taint(value: Any) -> Taint:
    if not isinstance(value, dict) or not value.get("key"):
        raise Unbootable(Reason.REFUSED, f"registerWithTaints has {value!r}, which is no taint")
    return Taint(key=value["key"], value=value.get("value") or "", effect=value.get("effect") or "")


def _flags(kubelet: Mapping[str, Any]) -> list[str]:
    found = kubelet.get("flags") or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise Unbootable(Reason.UNREADABLE, f"kubelet.flags is {found!r}, which is no list")
    return found


def _map(within: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = within.get(key) or {}
    if not isinstance(found, dict):
        raise Unbootable(Reason.UNREADABLE, f"{key} in the NodeConfig is {found!r}, not a map")
    return found
