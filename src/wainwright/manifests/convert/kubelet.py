"""Kubelet settings of a Provisioner or of v1beta1, as a class of v1 writes them."""

from typing import Any, Final

from wainwright.api.fault import Path
from wainwright.api.old.kubelet import SIGNAL_OF
from wainwright.manifests.convert.draft import Draft

SOFT_GRACE: Final = "1m30s"
"""What a soft threshold without a grace period gets: v1 wants one, and the kubelet has no default.
It is the period of the example in the kubelet's own documentation."""

RESERVED: Final = ("kubeReserved", "systemReserved")
MOVED: Final = ("containerRuntime", "evictionThreshold")

Settings = dict[str, Any]


def kubelet(given: Settings, path: Path, draft: Draft) -> Settings:
    """The settings as v1 takes them; empty where nothing is left."""
    made = {key: item for key, item in given.items() if key not in MOVED}
    for field in RESERVED:
        if field in made:
            made[field] = {name: str(amount) for name, amount in made[field].items()}
    if "containerRuntime" in given:
        draft.lost(
            (*path, "containerRuntime"),
            "the container runtime cannot be chosen any more; nodes run containerd",
        )
    _unfold_thresholds(made, given.get("evictionThreshold", {}), path, draft)
    _pair_soft_thresholds(made, given, path, draft)
    return made


def _unfold_thresholds(
    made: Settings, thresholds: dict[str, dict[str, str]], path: Path, draft: Draft
) -> None:
    """evictionThreshold.hard.memoryAvailable is evictionHard["memory.available"] in v1."""
    for strength, field in (("hard", "evictionHard"), ("soft", "evictionSoft")):
        named = thresholds.get(strength, {})
        present = made.get(field, {})
        for name, threshold in named.items():
            signal = SIGNAL_OF[name]
            if present.get(signal, threshold) != threshold:
                draft.lost(
                    (*path, "evictionThreshold", strength, name),
                    f'{field}["{signal}"] says {present[signal]} and is the one that counts',
                )
        unfolded = {SIGNAL_OF[name]: threshold for name, threshold in named.items()}
        if unfolded or present:
            made[field] = {**unfolded, **present}


def _pair_soft_thresholds(made: Settings, given: Settings, path: Path, draft: Draft) -> None:
    """v1 wants a grace period for every soft threshold, and a threshold for every grace period."""
    soft, grace = made.get("evictionSoft", {}), made.pop("evictionSoftGracePeriod", {})
    for signal, place in _soft_places(given, path).items():
        if signal not in grace:
            draft.assumed(
                place, f"soft eviction at {signal} needs a grace period; {SOFT_GRACE} is assumed"
            )
    for signal in grace:
        if signal not in soft:
            draft.lost(
                (*path, "evictionSoftGracePeriod", signal),
                f"a grace period for {signal} without a soft threshold does nothing",
            )
    periods = {signal: grace.get(signal, SOFT_GRACE) for signal in soft}
    if periods:
        made["evictionSoftGracePeriod"] = periods


def _soft_places(given: Settings, path: Path) -> dict[str, Path]:
    """Where each soft threshold is written."""
    named = given.get("evictionThreshold", {}).get("soft", {})
    places = {SIGNAL_OF[name]: (*path, "evictionThreshold", "soft", name) for name in named}
    return places | {
        signal: (*path, "evictionSoft", signal) for signal in given.get("evictionSoft", {})
    }
