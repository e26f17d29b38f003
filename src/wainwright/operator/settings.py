"""The settings of `wain run`: a flag goes before the environment variable, that before the default.

The names are Karpenter's, so that what is set for it can be kept; what has no effect here is
accepted, and said once in the log.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wainwright.api.field_error import did_you_mean
from wainwright.core.disruption.disruption_input import (
    BALANCED_K,
    MAX_NODES_PER_COMMAND,
    SPOT_TO_SPOT_TYPES,
)
from wainwright.errors import InvalidInputError
from wainwright.model.disruption import NO_MINIMUM_SAVING, MinimumSaving
from wainwright.model.plan import MinValuesPolicy, PackingPolicy, PreferencePolicy
from wainwright.sim.settings import FEATURE_GATES, NodeRepairMode
from wainwright.translate.disruption import parse_duration, parse_minimum_saving
from wainwright.translate.topology import DefaultConstraints

if TYPE_CHECKING:
    from wainwright.manifests.problems import Problem


class OperatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Every field is a setting: METRICS_PORT, --metrics-port."""

    cluster_name: str
    cluster_endpoint: str = ""
    cluster_ca_bundle: str = ""
    isolated_vpc: bool = False
    vm_memory_overhead_percent: float = 0.075
    interruption_queue: str = ""
    reserved_enis: int = 0
    disable_dry_run: bool = False
    """Of launches: whether permissions are not tried out before a class is ready."""
    metrics_port: int = 8080
    health_probe_port: int = 8081
    disable_cluster_state_observability: bool = False
    """Whether metrics with a series for each node, pod or offering are left out, and those of the
    conditions of Nodes and NodeClaims."""
    kube_client_qps: float = 200.0
    kube_client_burst: int = 300
    disable_leader_election: bool = False
    leader_election_name: str = "wainwright-leader-election"
    leader_election_namespace: str = ""
    """Empty: of the pod, outside a pod kube-system."""
    log_level: str = "info"
    batch_max_duration: float = 10.0
    batch_idle_duration: float = 1.0
    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    scheduler_config: DefaultConstraints = ()
    """The default constraints of the scheduler's configuration: nothing else of it counts."""
    breaker_share: float = 1.0
    """100%: off."""
    breaker_nodes: int = 10
    breaker_window: float = 600.0
    packing: PackingPolicy = PackingPolicy.FIRST_FIT
    strict_weights: bool = False
    min_saving: MinimumSaving = NO_MINIMUM_SAVING
    spot_to_spot_types: int = SPOT_TO_SPOT_TYPES
    max_nodes: int = MAX_NODES_PER_COMMAND
    """That one command of disruption may take."""
    balanced_k: float = BALANCED_K
    """Of the policy Balanced."""
    node_repair: NodeRepairMode = NodeRepairMode.FORCEFUL
    """Where the feature gate NodeRepair is on."""
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=lambda: {**FEATURE_GATES})


LOG_LEVELS: Final = ("debug", "info", "warning", "error")
WITHOUT_EFFECT: Final = (
    "KARPENTER_SERVICE",
    "ENABLE_PROFILING",
    "DISABLE_CONTROLLER_WARMUP",
    "MEMORY_LIMIT",
    "CPU_REQUESTS",
    "LOG_OUTPUT_PATHS",
    "LOG_ERROR_OUTPUT_PATHS",
    "IGNORE_DRA_REQUESTS",
    "EKS_CONTROL_PLANE",
    "ENABLE_ZONAL_SHIFT",
    "AMI_REFRESH_INTERVAL",
    "SUBNET_REFRESH_INTERVAL",
    "AWS_FEATURE_GATES",
)
"""Settings of Karpenter that change nothing here."""
GATE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")


class _Refused(Exception):
    """What was expected instead."""


class _RefusedDocument(Exception):
    """Its first error, with line and field."""

    def __init__(self, error: str, hint: str) -> None:
        super().__init__(error)
        self.hint = hint


def _boolean(text: str) -> bool:
    values = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
    if text.lower() not in values:
        raise _Refused("true or false")
    return values[text.lower()]


def _number(low: float, high: float, kind: type[float] | type[int]) -> Callable[[str], float]:
    def read(text: str) -> float:
        expected = f"{'a whole number' if kind is int else 'a number'} from {low:g} to {high:g}"
        try:
            value = kind(text)
        except ValueError:
            raise _Refused(expected) from None
        if not low <= value <= high:
            raise _Refused(expected)
        return value

    return read


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None or seconds < 0:
        raise _Refused("a duration such as 10s or 1m30s")
    return seconds


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise _Refused("a share such as 30% or 0.3")
    return value


def _one_of(*values: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in values:
            raise _Refused(did_you_mean(text, list(values)) or f"one of {', '.join(values)}")
        return text

    return read


def _saving(text: str) -> MinimumSaving:
    parsed = parse_minimum_saving(text)
    if parsed is None:
        raise _Refused("USD per hour such as 0.05, or a share such as 5%")
    return parsed


def _url(text: str) -> str:
    if not text.startswith(("https://", "http://")):
        raise _Refused("an absolute URL such as https://example.eks.amazonaws.com")
    return text


def _gates(text: str) -> dict[str, bool]:
    stated = _stated_gates(text)
    return {name: stated.get(name, default) for name, default in FEATURE_GATES.items()}


def _stated_gates(text: str) -> dict[str, bool]:
    """Those of other versions of Karpenter too, as it tolerates them: who keeps its setting must
    not be stopped by it. What looks like a misspelt gate would be off unnoticed, and is refused.
    """
    gates: dict[str, bool] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = map(str.strip, entry.partition("="))
        _check_gate(name)
        if not equals:
            raise _Refused(f"{name}=true or {name}=false")
        gates[name] = _boolean(value)
    return gates


def _check_gate(name: str) -> None:
    if name in FEATURE_GATES:
        return
    meant = did_you_mean(name, list(FEATURE_GATES))
    if meant or not GATE_NAME.fullmatch(name):
        known = meant or f"one of {', '.join(FEATURE_GATES)}"
        raise _Refused(f"gates such as StaticCapacity=true; {name} is none: {known}")


def _default_constraints(text: str) -> DefaultConstraints:
    if not text.strip():
        return ()
    if any(map(_is_surrogate, text)):
        raise _Refused("UTF-8 text")
    # Only a process that is given a document loads what reads manifests.
    from wainwright.manifests.scheduler_config import read_scheduler_config
    from wainwright.manifests.source_files import NamedText

    config = read_scheduler_config(NamedText("scheduler configuration", text))
    if config.errors:
        raise _refused_document(config.errors[0], text)
    return config.constraints


def _is_surrogate(letter: str) -> bool:
    """What Python makes of a byte of the environment that is not UTF-8."""
    return "\ud800" <= letter <= "\udfff"


def _refused_document(error: "Problem", text: str) -> _RefusedDocument:
    is_scalar = not error.path and error.found.startswith('"')
    hint = "write the document itself, not the name of its file" if is_scalar else error.hint
    place = [f"line {error.line}"] if "\n" in text.strip() else []
    place += [error.path] if error.path else []
    return _RefusedDocument(": ".join([*place, _sentence(error)]), hint)


def _sentence(error: "Problem") -> str:
    if not error.found:
        return error.message
    values = f"found {error.found}, expected {error.expected}"
    is_said = error.message in (error.expected, f"expected {error.expected}")
    return values if is_said else f"{error.message}: {values}"


PORT: Final = _number(0, 65_535, int)
READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "cluster_endpoint": _url,
    "isolated_vpc": _boolean,
    "vm_memory_overhead_percent": _number(0, 1, float),
    "reserved_enis": _number(0, 100, int),
    "disable_dry_run": _boolean,
    "metrics_port": PORT,
    "health_probe_port": PORT,
    "kube_client_qps": _number(1, 1e6, float),
    "kube_client_burst": _number(1, 1_000_000, int),
    "disable_cluster_state_observability": _boolean,
    "disable_leader_election": _boolean,
    "log_level": _one_of(*LOG_LEVELS),
    "batch_max_duration": _duration,
    "batch_idle_duration": _duration,
    "preference_policy": lambda text: PreferencePolicy(_one_of(*PreferencePolicy)(text)),
    "min_values_policy": lambda text: MinValuesPolicy(_one_of(*MinValuesPolicy)(text)),
    "scheduler_config": _default_constraints,
    "breaker_share": _share,
    "breaker_nodes": _number(0, 1_000_000, int),
    "breaker_window": _duration,
    "packing": lambda text: PackingPolicy(_one_of(*PackingPolicy)(text)),
    "strict_weights": _boolean,
    "min_saving": _saving,
    "spot_to_spot_types": _number(1, 1000, int),
    "max_nodes": _number(1, 10_000, int),
    "balanced_k": _number(0.01, 1000, float),
    "node_repair": lambda text: NodeRepairMode(_one_of(*NodeRepairMode)(text)),
    "feature_gates": _gates,
}
"""Of settings that are not a text."""


def read_settings(
    flags: Mapping[str, str | None], environment: Mapping[str, str]
) -> OperatorSettings:
    """InvalidInputError names the first setting that cannot be read."""
    values: dict[str, Any] = {}
    for field in OperatorSettings.__struct_fields__:
        source, text = _stated(field, flags, environment)
        if text is not None:
            values[field] = _read(field, source, text)
    if not values.get("cluster_name"):
        raise InvalidInputError(
            "the name of the cluster is not set", "set --cluster-name NAME or CLUSTER_NAME"
        )
    return OperatorSettings(**values)


def settings_without_effect(
    flags: Mapping[str, str | None], environment: Mapping[str, str]
) -> list[str]:
    """Of settings that can be read those that somebody has set; a scheduler's configuration without
    default constraints, and feature gates that are not known, too.
    """
    stated = (_stated(name.lower(), flags, environment) for name in WITHOUT_EFFECT)
    found = [source for source, text in stated if text is not None]
    source, text = _stated("scheduler_config", flags, environment)
    if text is not None and text.strip() and not _read("scheduler_config", source, text):
        found.append(source)
    return [*found, *_gates_without_effect(*_stated("feature_gates", flags, environment))]


def _gates_without_effect(source: str, text: str | None) -> list[str]:
    gates = {} if text is None else _stated_gates(text)
    return [f"{name} in {source}" for name in gates if name not in FEATURE_GATES]


def flag_of(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _stated(
    field: str, flags: Mapping[str, str | None], environment: Mapping[str, str]
) -> tuple[str, str | None]:
    flag = flags.get(field)
    if flag is not None:
        return flag_of(field), flag
    # An empty variable is one that is not set: charts write all of them.
    return field.upper(), environment.get(field.upper()) or None


def _read(field: str, source: str, text: str) -> Any:
    try:
        return READERS.get(field, str)(text)
    except _Refused as refused:
        raise InvalidInputError(f"{source}: found {text!r}, expected {refused}") from None
    except _RefusedDocument as refused:
        raise InvalidInputError(f"{source}: {refused}", refused.hint) from None
