"""Misspelt label values: the known value that was probably meant. Another zone, family or type is
not a misspelling, however similar its name is.
"""

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_CAPABILITY_FLEX,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_ENCRYPTION_IN_TRANSIT,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_HYPERVISOR,
    INSTANCE_TENANCY,
    ON_DEMAND,
    OS,
    RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE,
    RESERVED,
    SPOT,
    normalize_label,
)

MIN_NAME_SIMILARITY: Final = 0.9  # of the letters, in order; less is another name
MIN_WORD_SIMILARITY: Final = 0.6
WORD: Final = re.compile("[a-z]{4,}")
"""In a shorter run of letters each one has a meaning: m6id and m6idn are two families."""

BOOLEANS: Final = ("false", "true")
CLOSED_VALUES: Final[dict[str, tuple[str, ...]]] = {
    ARCH: ("amd64", "arm64"),
    OS: ("linux", "windows"),
    CAPACITY_TYPE: (ON_DEMAND, RESERVED, SPOT),
    INSTANCE_TENANCY: ("dedicated", "default"),
    RESERVATION_TYPE: ("capacity-block", "default"),
    RESERVATION_INTERRUPTIBLE: BOOLEANS,
    INSTANCE_CAPABILITY_FLEX: BOOLEANS,
    INSTANCE_ENCRYPTION_IN_TRANSIT: BOOLEANS,
    INSTANCE_HYPERVISOR: ("nitro", "xen"),
    INSTANCE_CPU_MANUFACTURER: ("amd", "apple", "aws", "intel"),
    INSTANCE_GPU_MANUFACTURER: ("amd", "nvidia"),
    INSTANCE_ACCELERATOR_MANUFACTURER: ("aws", "habana", "qualcomm", "xilinx"),
}
"""Words of which there are few, so that anything similar to one of them is a misspelling of it."""
OTHER_NAMES: Final = {"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64"}


@lru_cache(maxsize=1024)
def closest_spelling(key: str, value: str, known: tuple[str, ...]) -> str | None:
    """The known value of the label that was probably meant; None where the value may be right.

    Cached, as every pod with the same wrong value is compared with every known one.
    """
    words = CLOSED_VALUES.get(normalize_label(key))
    if value in known or value in (words or ()):
        return None
    if words is None:
        named = (each for each in known if _may_be_misspelt_name(value, each))
        return _most_similar(value, tuple(named), MIN_NAME_SIMILARITY)
    if OTHER_NAMES.get(value.lower()) in known:
        return OTHER_NAMES[value.lower()]
    return _most_similar(value, known, MIN_WORD_SIMILARITY)


def _most_similar(value: str, known: tuple[str, ...], least: float) -> str | None:
    ranked = sorted((-_similarity(value, other), other) for other in known)
    return ranked[0][1] if ranked and -ranked[0][0] >= least else None


def _similarity(value: str, other: str) -> float:
    """1.0 where letters only changed places: a ratio by their order would rate that too low."""
    one, two = _alphanumerics(value), _alphanumerics(other)
    if sorted(one) == sorted(two):
        return 1.0
    ratio = SequenceMatcher(None, one, two, autojunk=False).ratio()
    return max(ratio, MIN_NAME_SIMILARITY) if _lacks_one_letter(one, two) else ratio


def _lacks_one_letter(one: str, two: str) -> bool:
    """Whether a letter is missing or too many in a word: larg, lage, metall."""
    short, long = sorted((one, two), key=len)
    if len(long) - len(short) != 1 or not WORD.search(long):
        return False
    return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))


def _may_be_misspelt_name(value: str, other: str) -> bool:
    """Other digits, or another first or last letter, make another zone or type."""
    one, two = _alphanumerics(value), _alphanumerics(other)
    same_start = bool(one) and one[:1] == two[:1]
    same_end = _same_end(one, two) or _is_swapped(one, two)
    return same_start and same_end and _digits(one) == _digits(two)


def _is_swapped(one: str, two: str) -> bool:
    """Whether two neighbours changed places, which the last letters may be."""
    differing = [
        place for place in range(len(one)) if one[place : place + 1] != two[place : place + 1]
    ]
    return sorted(one) == sorted(two) and len(differing) == 2 and differing[1] - differing[0] == 1


def _same_end(one: str, two: str) -> bool:
    """Or the last letter of a word is missing; us-west-2 is a region, not half a zone."""
    short, long = sorted((one, two), key=len)
    is_cut = long[:-1] == short and short[-1:].isalpha() and WORD.search(long) is not None
    return one[-1:] == two[-1:] or is_cut


def _alphanumerics(value: str) -> str:
    return "".join(filter(str.isalnum, value.lower()))


def _digits(value: str) -> str:
    return "".join(filter(str.isdigit, value))
