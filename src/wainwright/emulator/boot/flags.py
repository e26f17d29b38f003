"""Flags: the kubelet's command line, as scripts and NodeConfigs give it."""

import shlex
from collections.abc import Iterator
from typing import Final

from wainwright.emulator.boot.reasons import Reason, Unbootable
from wainwright.emulator.boot.settings import Settings
from wainwright.model.taints import Taint

MAPS: Final = {
    "kube-reserved": ("kube_reserved", "="),
    "system-reserved": ("system_reserved", "="),
    "eviction-hard": ("eviction_hard", "<"),
    "eviction-soft": ("eviction_soft", "<"),
    "eviction-soft-grace-period": ("eviction_soft_grace", "="),
}
"""Where a flag goes, and what stands between key and value."""
NUMBERS: Final = {"max-pods": "max_pods", "pods-per-core": "pods_per_core"}


def apply(line: str, settings: Settings) -> None:
    """Flags go over what is there; the later of two wins, but labels and maps add up."""
    seen: set[str] = set()
    for name, value in flags(line):
        if name == "node-labels":
            settings.labels |= pairs(name, value, "=")
        elif name == "register-with-taints":
            settings.taints = tuple(taint(each) for each in value.split(",") if each)
        elif name in MAPS:
            field, between = MAPS[name]
            before = getattr(settings, field) if name in seen else {}
            setattr(settings, field, before | pairs(name, value, between))
            settings.replaced.add(field)
        elif name in NUMBERS:
            setattr(settings, NUMBERS[name], number(name, value))
        else:
            settings.rest[name] = value
        seen.add(name)


def flags(line: str) -> Iterator[tuple[str, str]]:
    """`--name=value`, `--name value`, or `--name` alone, which means true."""
    words = split(line)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            raise Unbootable(Reason.REFUSED, f"the kubelet does not know the argument {word!r}")
        name, equals, value = word.removeprefix("--").partition("=")
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("--") else "true"
        yield name, value


def split(line: str) -> list[str]:
    """Words, without the quotes around them."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise Unbootable(Reason.UNREADABLE, f"{error} in {line!r}") from error


def pairs(name: str, text: str, between: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for each in text.split(","):
        if not each:
            continue
        key, found, value = each.partition(between)
        if not found:
            raise Unbootable(
                Reason.REFUSED, f"--{name} has {each!r}, which is no key{between}value"
            )
        made[key.strip()] = value.strip()
    return made


def number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Unbootable(Reason.REFUSED, f"--{name} is {text!r}, which is no number") from None


def taint(text: str) -> Taint:
    """`key=value:Effect` or `key:Effect`."""
    said, colon, effect = text.rpartition(":")
    key, _, value = said.partition("=")
    if not colon or not key:
        raise Unbootable(Reason.REFUSED, f"{text!r} is no taint")
    return Taint(key=key, value=value, effect=effect)
