"""Settings: what user data says, in whatever language it says it."""

from typing import Any

import msgspec

from wainwright.emulator.boot.facts import Family
from wainwright.model.taints import Taint


class Settings(msgspec.Struct, kw_only=True):
    """As written: nothing is checked yet, and no default of the image is in it."""

    family: Family
    cluster: str = ""
    endpoint: str = ""
    certificate: str = ""
    cidr: str = ""
    dns: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    max_pods: Any = None
    """None leaves it to the interfaces of the machine."""
    pods_per_core: Any = 0
    kube_reserved: dict[str, str] = {}
    system_reserved: dict[str, str] = {}
    eviction_hard: dict[str, str] = {}
    eviction_soft: dict[str, str] = {}
    eviction_soft_grace: dict[str, str] = {}
    replaced: set[str] = set()
    """Maps that stand in place of the image's own: flags do that. Other maps are laid over it."""
    local_disks: bool = False
    """Whether pods live on the machine's own disks, striped."""
    rest: dict[str, Any] = {}
    """Whatever else the kubelet was told, by the name it was told under."""
