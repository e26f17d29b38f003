"""Memory: what the kubelet really finds, which is never quite what was estimated.

The firmware and the kernel keep some for themselves: between 6 and 7.7 percent, another share for
every type and always the same for one. Planners reckon with 7.5, so that most machines have a
little more than they were believed to have, and about one type in eight has less.
"""

from hashlib import blake2b
from typing import Final

from wainwright.catalogue.capacity import ARM_MIB
from wainwright.catalogue.figure import MIB
from wainwright.catalogue.machine import Machine

KIB: Final = 1024
LEAST, MOST = 600, 770
"""Ten-thousandths of the memory."""


def true_memory(machine: Machine) -> int:
    """Bytes, in whole KiB as the kernel counts them."""
    mib = machine.memory_mib - (ARM_MIB if machine.architecture == "arm64" else 0)
    draw = int.from_bytes(blake2b(machine.name.encode(), digest_size=8).digest())
    share = LEAST * 1000 + draw % ((MOST - LEAST) * 1000)
    kept = mib * MIB * share // 10_000_000
    return (mib * MIB - kept) // KIB * KIB
