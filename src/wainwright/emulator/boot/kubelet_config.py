"""The kubelet: its flags, its configuration, and the checks that prevent it from starting."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from wainwright.api.quantity import InvalidQuantity, Quantity, parse_quantity
from wainwright.api.wire import LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN
from wainwright.catalogue.instancetypes.node_class_settings import (
    EvictionThreshold,
    parse_eviction_threshold,
)
from wainwright.emulator.boot.user_data import BootError, BootFailureReason, BootstrapConfig
from wainwright.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint

MAP_FLAGS: Final = {
    "kube-reserved": ("kube_reserved", "="),
    "system-reserved": ("system_reserved", "="),
    "eviction-hard": ("eviction_hard", "<"),
    "eviction-soft": ("eviction_soft", "<"),
    "eviction-soft-grace-period": ("eviction_soft_grace", "="),
}
"""By flag, the field of BootstrapConfig and the separator of key and value."""
INT32_LIMIT: Final = 2**31
"""Of numbers in the kubelet's configuration."""
NUMBER_FLAGS: Final = {"max-pods": "max_pods", "pods-per-core": "pods_per_core"}


def apply_flags(line: str, config: BootstrapConfig) -> None:
    """Applies flags over the configuration; a repeated flag replaces, except labels and maps."""
    seen_flags: set[str] = set()
    for name, value in parse_flags(line):
        if name == "node-labels":
            config.labels |= parse_pairs(name, value, "=")
        elif name == "register-with-taints":
            config.taints = tuple(parse_flag_taint(each) for each in value.split(",") if each)
        elif name in MAP_FLAGS:
            field, separator = MAP_FLAGS[name]
            previous = getattr(config, field) if name in seen_flags else {}
            setattr(config, field, previous | parse_pairs(name, value, separator))
            config.replaced_maps.add(field)
        elif name in NUMBER_FLAGS:
            setattr(config, NUMBER_FLAGS[name], parse_flag_number(name, value))
        else:
            config.other_config[name] = value
        seen_flags.add(name)


def parse_flags(line: str) -> Iterator[tuple[str, str]]:
    """`--name=value`, `--name value`, or `--name` alone, which is true."""
    words = split_words(line)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            raise BootError(
                BootFailureReason.REFUSED, f"the kubelet does not know the argument {word!r}"
            )
        name, equals, value = word.removeprefix("--").partition("=")
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("--") else "true"
        yield name, value


def split_words(line: str) -> list[str]:
    """Words, without the quotes around them."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BootError(BootFailureReason.UNREADABLE, f"{error} in {line!r}") from error


def parse_pairs(name: str, text: str, separator: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in text.split(","):
        if not each:
            continue
        key, separated, value = each.partition(separator)
        if not separated:
            raise BootError(
                BootFailureReason.REFUSED,
                f"--{name} has {each!r}, which is not a key{separator}value",
            )
        pairs[key.strip()] = value.strip()
    return pairs


def parse_flag_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BootError(
            BootFailureReason.REFUSED, f"--{name} is {text!r}, which is not a number"
        ) from None


def parse_flag_taint(text: str) -> Taint:
    """`key=value:Effect` or `key:Effect`."""
    key_and_value, colon, effect = text.rpartition(":")
    key, _, value = key_and_value.partition("=")
    if not colon or not key:
        raise BootError(BootFailureReason.REFUSED, f"{text!r} is not a taint")
    return Taint(key=key, value=value, effect=effect)


RESERVABLE_RESOURCES: Final = frozenset({"cpu", "ephemeral-storage", "memory", "pid"})
EVICTION_SIGNALS: Final = frozenset(
    {
        "allocatableMemory.available",
        "containerfs.available",
        "containerfs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "pid.available",
    }
)
TAINT_EFFECTS: Final = frozenset({NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE})
DURATION_PATTERN: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+|0")

PROTECTED_DOMAINS: Final = ("kubernetes.io", "k8s.io")
KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
"""Subdomains of protected domains in which a kubelet may set labels (NodeRestriction)."""
KUBELET_LABELS: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)


def check_labels(labels: Mapping[str, str]) -> None:
    for key, value in labels.items():
        if not re.fullmatch(LABEL_KEY_PATTERN, key) or not re.fullmatch(LABEL_VALUE_PATTERN, value):
            raise BootError(BootFailureReason.UNREGISTERED, f"{key}={value} is not a label")
        if (
            _is_in_domain(key, PROTECTED_DOMAINS)
            and not _is_in_domain(key, KUBELET_DOMAINS)
            and key not in KUBELET_LABELS
        ):
            raise BootError(
                BootFailureReason.REFUSED, f"a kubelet may not give its own node the label {key}"
            )


def _is_in_domain(key: str, domains: Iterable[str]) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in domains)


def check_taints(taints: Iterable[Taint]) -> None:
    taints = tuple(taints)
    for taint in taints:
        if taint.effect not in TAINT_EFFECTS:
            raise BootError(BootFailureReason.REFUSED, f"the taint {taint} has no known effect")
        if not re.fullmatch(LABEL_KEY_PATTERN, taint.key) or not re.fullmatch(
            LABEL_VALUE_PATTERN, taint.value
        ):
            raise BootError(BootFailureReason.UNREGISTERED, f"{taint} is not a taint")
    for (key, effect), count in Counter((each.key, each.effect) for each in taints).items():
        if count > 1:
            raise BootError(
                BootFailureReason.UNREGISTERED,
                f"a node cannot have the taint {key}:{effect} {count} times",
            )


def check_non_negative(name: str, value: int) -> int:
    if value < 0:
        raise BootError(BootFailureReason.REFUSED, f"{name} is {value}, which is below zero")
    if value >= INT32_LIMIT:
        raise BootError(BootFailureReason.REFUSED, f"{name} has more than 32 bits")
    return value


def parse_reserved(name: str, reserved: Mapping[str, str]) -> dict[str, Quantity]:
    quantities: dict[str, Quantity] = {}
    for resource, text in reserved.items():
        if resource not in RESERVABLE_RESOURCES:
            raise BootError(BootFailureReason.REFUSED, f"{name} cannot reserve {resource}")
        quantities[resource] = _parse_quantity(f"{name}.{resource}", text)
    return quantities


def _parse_quantity(name: str, text: str) -> Quantity:
    try:
        quantity = parse_quantity(text)
    except InvalidQuantity as error:
        raise BootError(BootFailureReason.REFUSED, f"{name}: {error}") from error
    if quantity.nano < 0:
        raise BootError(BootFailureReason.REFUSED, f"{name} is {text}, which is below zero")
    return quantity


def parse_thresholds(name: str, thresholds: Mapping[str, str]) -> dict[str, EvictionThreshold]:
    """Thresholds by signal; an empty value sets none."""
    parsed: dict[str, EvictionThreshold] = {}
    for signal, text in thresholds.items():
        if signal not in EVICTION_SIGNALS:
            raise BootError(
                BootFailureReason.REFUSED, f"{name} has {signal}, which is not an eviction signal"
            )
        if text:
            _parse_quantity(f"{name}.{signal}", text.removesuffix("%"))
            parsed[signal] = parse_eviction_threshold(text)
    return parsed


def check_grace_periods(soft: Mapping[str, EvictionThreshold], grace: Mapping[str, str]) -> None:
    for signal in soft:
        if signal not in grace:
            raise BootError(BootFailureReason.REFUSED, f"evictionSoft.{signal} has no grace period")
    for signal, text in grace.items():
        if not DURATION_PATTERN.fullmatch(text):
            raise BootError(
                BootFailureReason.REFUSED,
                f"evictionSoftGracePeriod.{signal} is {text!r}, no duration",
            )
