"""Bootstrap: all that a machine must be told to become a node of the cluster."""

import re
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from typing import Any, Final

import msgspec

from wainwright.api.kubelet import Kubelet
from wainwright.api.wire import LABEL_KEY, LABEL_VALUE
from wainwright.aws.userdata.density import Table, table
from wainwright.catalogue.settings import InstanceStorePolicy
from wainwright.errors import BadInput
from wainwright.model.labels import DO_NOT_SYNC_TAINTS
from wainwright.model.taints import UNREGISTERED, Taint

KUBELET_MAY_NOT_SET: Final = ("kubernetes.io", "k8s.io")
"""Domains whose labels the API server takes from no kubelet; they come with the registration."""

THRESHOLDS: Final = ("evictionHard", "evictionSoft")


class IpFamily(Enum):
    IPV4 = "ipv4"
    IPV6 = "ipv6"


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What user data is written from. Equal values give equal bytes."""

    cluster: str
    endpoint: str
    ca: str
    """The cluster's certificate authority, in base64 as EKS gives it."""
    cidr: str = ""
    """Of the cluster's services; only AL2023 must have it."""
    dns_ip: str = ""
    """Of the cluster's DNS, where the class names none; empty leaves it to the image."""
    ip_family: IpFamily = IpFamily.IPV4
    kubelet: Kubelet = Kubelet()
    """As the class has it; its maxPods is not looked at, `max_pods` is."""
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    instance_store: InstanceStorePolicy | None = None
    text: str = ""
    """The user's own."""
    max_pods: int | None = None
    """What the class says; None leaves it to the densities, or else to the image."""
    densities: Mapping[str, int] = {}
    """The pods in force by instance type."""
    reserved: Mapping[str, str] = {}
    """What the kubelet must keep, as its flag takes it, by the types whose image would not know."""

    @cached_property
    def table(self) -> Table | None:
        return table(self.densities, self.max_pods, self.reserved)

    @property
    def stripes_disks(self) -> bool:
        return self.instance_store is InstanceStorePolicy.RAID0

    @property
    def node_labels(self) -> dict[str, str]:
        """Those the kubelet may set, in order; and the one that says that taints come with it."""
        found = {
            key: value for key, value in self.labels.items() if not _is_in(key, KUBELET_MAY_NOT_SET)
        }
        for key, value in found.items():
            _check("label key", key, LABEL_KEY)
            _check(f"value of the label {key}", value, LABEL_VALUE)
        return dict(sorted((found | {DO_NOT_SYNC_TAINTS: "true"}).items()))

    @property
    def node_taints(self) -> tuple[Taint, ...]:
        """Each key and effect once, in order: a node with the same taint twice is refused."""
        found: dict[tuple[str, str], Taint] = {}
        for taint in (*self.taints, *self.startup_taints, UNREGISTERED):
            _check("taint key", taint.key, LABEL_KEY)
            _check(f"value of the taint {taint.key}", taint.value, LABEL_VALUE)
            found.setdefault((taint.key, taint.effect), taint)
        return tuple(found[key] for key in sorted(found))

    @property
    def dns_ips(self) -> tuple[str, ...]:
        return tuple(self.kubelet.clusterDNS or (self.dns_ip,) * bool(self.dns_ip))

    @property
    def kubelet_settings(self) -> dict[str, Any]:
        """What the class sets, spelt as in the kubelet's own configuration, maps in order."""
        made: dict[str, Any] = msgspec.to_builtins(self.kubelet)
        made.pop("maxPods", None)
        if self.dns_ips:
            made["clusterDNS"] = list(self.dns_ips)
        for name, value in made.items():
            if isinstance(value, dict):
                made[name] = {key: each for key, each in sorted(value.items()) if _set(name, each)}
        return dict(sorted(made.items()))


def _set(name: str, value: str) -> bool:
    """An empty threshold sets nothing, as for the kubelet; on its command line it is an error."""
    return name not in THRESHOLDS or bool(value)


def _is_in(key: str, domains: tuple[str, ...]) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in domains)


def _check(what: str, text: str, pattern: str) -> None:
    """What Kubernetes refuses would make a machine that never becomes a node."""
    if re.fullmatch(pattern, text) is None:
        raise BadInput(f"Kubernetes accepts no {what} like {text!r}")
