"""Misspelt label values: the known value that was probably meant. Another zone, family or type is
not a misspelling, however similar its name is.
"""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Final

import msgspec

from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_CAPABILITY_FLEX,
    INSTANCE_CATEGORY,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_ENCRYPTION_IN_TRANSIT,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_NAME,
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
MAX_LETTERS: Final = 253  # of the name of an object; longer text is no misspelt name
MAX_COMPARED: Final = 50
"""Names whose letters are compared in order: of more that are similar none is probably meant."""
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
SHORT_NAMES: Final = {
    INSTANCE_ACCELERATOR_NAME: 0.85,
    INSTANCE_CATEGORY: 0.65,
    INSTANCE_GPU_NAME: 0.85,
}
"""Labels with few, short values, and how similar a misspelling must be: h1000 is no GPU, but b300
may be one that the catalogue does not have yet."""
OTHER_NAMES: Final = {"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64"}


class _Name(msgspec.Struct, frozen=True):
    """A name and what is compared of it, computed once: most names differ in their letters."""

    text: str
    letters: str
    ordered: str
    different: frozenset[str]


def _name(text: str) -> _Name:
    letters = _alphanumerics(text)
    return _Name(text, letters, "".join(sorted(letters)), frozenset(letters))


class KnownSpellings:
    """Known values, found by what a misspelling has in common with the one that was meant.

    An unknown value is compared with a few of them rather than with every instance type, which is
    what makes a file with thousands of unknown values as quick to read as any other.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self.values = tuple(values)
        self._set = frozenset(self.values)

    def __contains__(self, value: str) -> bool:
        return value in self._set

    @cached_property
    def _by_start(self) -> dict[tuple[str, str], list[_Name]]:
        found: dict[tuple[str, str], list[_Name]] = {}
        for each in map(_name, self.values):
            found.setdefault(_start(each.letters), []).append(each)
        return found

    def count_candidates(self, value: str) -> int:
        """How many names a value has to be compared with."""
        return len(self._candidates(value))

    def _candidates(self, value: str) -> list[_Name]:
        if len(value) > MAX_LETTERS:
            return []
        letters = _alphanumerics(value)
        return self._by_start.get(_start(letters), []) if letters else []

    def closest_name(self, value: str) -> str | None:
        """Other digits, or another first or last letter, make another zone or type."""
        candidates = self._candidates(value)
        if not candidates:
            return None
        name = _name(value)
        similar = [each for each in candidates if _may_be_similar(name, each)]
        moved = [each.text for each in similar if each.ordered == name.ordered]
        if moved:
            return min(moved)  # nothing is more similar
        similar.sort(key=lambda each: abs(len(each.letters) - len(name.letters)))
        texts = (each.text for each in similar[:MAX_COMPARED])
        return _most_similar(value, texts, MIN_NAME_SIMILARITY)


def _start(letters: str) -> tuple[str, str]:
    return letters[:1], _digits(letters)


def _may_be_similar(one: _Name, two: _Name) -> bool:
    """The cheap conditions first: they leave few pairs whose letters are compared in order."""
    if one.ordered == two.ordered:
        return _same_end(one.letters, two.letters) or _is_swapped(one.letters, two.letters)
    if not _same_end(one.letters, two.letters):
        return False
    lengths, here, there = (len(one.letters), len(two.letters)), one.different, two.different
    if abs(lengths[0] - lengths[1]) == 1 and (here <= there or there <= here):
        return True  # a letter may be missing
    common = min(lengths[0] - len(here - there), lengths[1] - len(there - here))
    return 2 * common / sum(lengths) >= MIN_NAME_SIMILARITY


def closest_spelling(key: str, value: str, known: tuple[str, ...] | KnownSpellings) -> str | None:
    """The known value of the label that was probably meant; None where the value may be right, or
    where several are as likely.
    """
    found = likely_spellings(key, value, known)
    return found[0] if len(found) == 1 else None


def likely_spellings(
    key: str, value: str, known: tuple[str, ...] | KnownSpellings
) -> tuple[str, ...]:
    """The known values of the label that were probably meant: more than one if as likely."""
    spellings = known if isinstance(known, KnownSpellings) else _spellings(known)
    return () if value in spellings else _likely(key, value, spellings)


@lru_cache(maxsize=64)
def _spellings(known: tuple[str, ...]) -> KnownSpellings:
    return KnownSpellings(known)


@lru_cache(maxsize=4096)
def _likely(key: str, value: str, known: KnownSpellings) -> tuple[str, ...]:
    """Cached, as thousands of pods may have the same wrong value."""
    label = normalize_label(key)
    if label in SHORT_NAMES:
        return _all_most_similar(value, known.values, SHORT_NAMES[label])
    words = CLOSED_VALUES.get(label)
    found = known.closest_name(value) if words is None else _closest_word(value, words, known)
    return () if found is None else (found,)


def _closest_word(value: str, words: tuple[str, ...], known: KnownSpellings) -> str | None:
    if value in words:
        return None
    if OTHER_NAMES.get(value.lower()) in known.values:
        return OTHER_NAMES[value.lower()]
    return _most_similar(value, known.values, MIN_WORD_SIMILARITY)


def _most_similar(value: str, known: Iterable[str], least: float) -> str | None:
    """The first of them by name."""
    return next(iter(_all_most_similar(value, known, least)), None)


def _all_most_similar(value: str, known: Iterable[str], least: float) -> tuple[str, ...]:
    if len(value) > MAX_LETTERS:
        return ()
    similarity = {other: _similarity(value, other) for other in known}
    most = max(similarity.values(), default=0.0)
    return tuple(sorted(other for other, own in similarity.items() if own == most >= least))


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


def _is_swapped(one: str, two: str) -> bool:
    """Whether two neighbours changed places, which the last letters may be."""
    if sorted(one) != sorted(two):
        return False
    differing = [place for place, letter in enumerate(one) if letter != two[place]]
    return len(differing) == 2 and differing[1] - differing[0] == 1


def _same_end(one: str, two: str) -> bool:
    """Or the last letter of a word is missing; us-west-2 is a region, not half a zone."""
    if one[-1:] == two[-1:]:
        return True
    short, long = sorted((one, two), key=len)
    return long[:-1] == short and short[-1:].isalpha() and WORD.search(long) is not None


def _alphanumerics(value: str) -> str:
    return "".join(filter(str.isalnum, value.lower()))


def _digits(value: str) -> str:
    return "".join(filter(str.isdigit, value))
