"""What a pod takes of a node besides resources: ports of its network, volumes attached to it."""

from typing import Final

import msgspec

ANY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})


class HostPort(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"

    def clashes_with(self, other: "HostPort") -> bool:
        """Whether both cannot be on one node; a wildcard address stands for every address."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        wild = self.address in ANY_ADDRESS or other.address in ANY_ADDRESS
        return wild or self.address == other.address


class Attachment(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A volume of a CSI driver; pods that share it on one node attach it once."""

    driver: str
    volume: str
    """What tells it apart from other volumes of the driver."""
