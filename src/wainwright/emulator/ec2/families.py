"""Families that differ from what their row in the catalogue would make one think, and spellings."""

from typing import Final

MAKERS: Final = {"aws": "AWS", "amd": "AMD", "nvidia": "NVIDIA"}
CHIPS: Final = {
    "gaudi-hl-205": "Gaudi HL-205",
    "qualcomm-ai100": "Qualcomm AI100",
    "radeon-pro-v520": "Radeon Pro V520",
    "rtx-pro-4500": "RTX PRO 4500",
    "rtx-pro-server-6000": "RTX PRO Server 6000",
    "t4g": "T4g",
}
"""Names of chips that are not simply their labels in capitals."""

# fmt: off
PREVIOUS: Final = frozenset((
    "a1", "c1", "c3", "c4", "c5", "c6gn", "d2", "g5", "i2", "m1", "m2", "m3", "m4", "m5", "m6i",
    "r3", "r4", "r5", "r6i", "r7g", "r7gd", "t1",
))
"""No longer of the current generation."""
PARAVIRTUAL: Final = frozenset(("c1", "c3", "m1", "m2", "m3", "t1"))
WITHOUT_IPV6: Final = PARAVIRTUAL - {"c3"}
ENA_ON_XEN: Final = frozenset(("h1", "i3", "m4.16xlarge", "r4", "x1", "x1e"))
WITHOUT_CLUSTERS: Final = frozenset(("t", "mac", "vt"))
"""Categories that cluster placement groups do not take."""
BURSTABLE: Final = frozenset(("t2", "t3", "t3a", "t4g"))
SLICED: Final = frozenset(("g6f", "gr6f"))
"""With a slice of a GPU, which EC2 counts as none."""
SINGLE_THREADED: Final = frozenset((
    "c1", "g7", "hpc6a", "hpc6id", "m1", "m2", "m3.medium", "t1", "t2", "u-6tb1.56xlarge",
))
"""Beside those that are so by their maker and generation."""
THIRTY_TWO_BITS: Final = frozenset((
    "c1.medium", "c3.large", "m1.medium", "m1.small", "t1.micro", "t2.medium", "t2.micro",
    "t2.nano", "t2.small",
))
# fmt: on
