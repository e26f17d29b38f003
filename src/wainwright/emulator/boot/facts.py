"""Facts: what a machine is before it reads its user data."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from wainwright.catalogue.machine import Machine


class Family(StrEnum):
    """How an image is told to join a cluster."""

    NODEADM = "nodeadm"
    BOTTLEROCKET = "bottlerocket"
    SHELL = "bootstrap.sh"
    WINDOWS = "windows"

    @property
    def pod_device(self) -> str:
        """The volume that holds pods."""
        special = {Family.BOTTLEROCKET: "/dev/xvdb", Family.WINDOWS: "/dev/sda1"}
        return special.get(self, "/dev/xvda")

    @property
    def pod_device_gib(self) -> int:
        """Its size where nobody chose one."""
        return 50 if self is Family.WINDOWS else 20


PREFIXES = {
    "amazon-eks-node-al2023-": Family.NODEADM,
    "amazon-eks-": Family.SHELL,
    "bottlerocket-": Family.BOTTLEROCKET,
    "Windows_Server-": Family.WINDOWS,
}
"""How the names of public images begin; the first that fits counts."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that can be joined."""

    endpoint: str
    certificate: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    instance_id: str
    region: str
    zone: str
    zone_id: str
    private_dns: str
    """What the node is called."""
    image_name: str = ""
    """Tells the family where it is the name of a public image; the user data tells it else."""
    disks: Mapping[str, int] = {}
    """Device names with GiB."""
    clusters: Mapping[str, Cluster] | None = None
    """Those that the machine can reach, by name; None takes whatever the user data says."""

    @property
    def family(self) -> Family | None:
        fitting = (PREFIXES[prefix] for prefix in PREFIXES if self.image_name.startswith(prefix))
        return next(fitting, None)

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.instance_id}"
