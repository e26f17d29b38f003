"""`spec.settings`, `spec.machines` and `spec.pods` of a Scenario."""

from typing import Any, Final, TypeVar

import msgspec

from wainwright.api.field_error import FieldPath, invalid_value
from wainwright.errors import UsageError
from wainwright.manifests.scheduler_config import default_constraints
from wainwright.model.disruption import NO_MINIMUM_SAVING, MinimumSaving
from wainwright.model.plan import (
    ClusterLimits,
    MinValuesPolicy,
    PackingPolicy,
    PreferencePolicy,
)
from wainwright.sim.scenario import InstanceBehaviour, PodBehaviour
from wainwright.sim.scenario_format.field_reader import FieldReader, ReadValue, is_number
from wainwright.sim.settings import (
    FEATURE_GATES,
    DisruptionBreaker,
    NodeRepairMode,
    Pause,
    SimulationSettings,
)
from wainwright.translate.cluster_limits import EXPECTED_AMOUNTS, translate_cluster_limits
from wainwright.translate.disruption import parse_minimum_saving
from wainwright.translate.topology import DefaultConstraints

T = TypeVar("T")
SETTING_NAMES: Final = {
    "batchIdleDuration": "batch_idle_duration",
    "batchMaxDuration": "batch_max_duration",
    "featureGates": "feature_gates",
    "minValuesPolicy": "min_values_policy",
    "preferencePolicy": "preference_policy",
    "schedulerConfig": "default_constraints",
    "minimumSaving": "minimum_saving",
    "priceRefresh": "price_refresh",
    "spotToSpotTypes": "spot_to_spot_types",
    "balancedK": "balanced_k",
    "strictWeights": "strict_weights",
    "packing": "packing",
    "clusterLimits": "cluster_limits",
    "nodeRepair": "node_repair",
    "disruptionBreaker": "disruption_breaker",
    "maxNodesPerCommand": "max_nodes_per_command",
    "pause": "pause",
}
RESERVATION_GATES: Final = ("CapacityReservations", "ReservedCapacity")
"""Two names of one gate."""
PAUSES: Final = tuple(each.value for each in Pause if each is not Pause.NOTHING)


class SettingsReader:
    def __init__(self, reader: FieldReader) -> None:
        self.reader = reader

    def settings(self, value: Any, path: FieldPath) -> SimulationSettings:
        reader = self.reader
        readers: dict[str, ReadValue[Any]] = {
            "batchIdleDuration": reader.duration,
            "batchMaxDuration": reader.duration,
            "featureGates": self._gates,
            "minValuesPolicy": self._chosen(MinValuesPolicy, MinValuesPolicy),
            "preferencePolicy": self._chosen(PreferencePolicy, PreferencePolicy),
            "schedulerConfig": self._default_constraints,
            "minimumSaving": self._minimum_saving,
            "priceRefresh": self._positive_duration,
            "spotToSpotTypes": reader.positive,
            "balancedK": self._positive_number,
            "strictWeights": reader.boolean,
            "packing": self._chosen(PackingPolicy, PackingPolicy),
            "clusterLimits": self._cluster_limits,
            "nodeRepair": self._chosen(NodeRepairMode, NodeRepairMode),
            "disruptionBreaker": self._breaker,
            "maxNodesPerCommand": reader.positive,
            "pause": self._chosen(Pause, PAUSES),
        }
        fields = reader.fields(value, path, SETTING_NAMES)
        return SimulationSettings(
            **{
                SETTING_NAMES[name]: fields.get(name, read, None)
                for name, read in readers.items()
                if name in fields
            }
        )

    def _chosen(self, kind: type[T], allowed: Any) -> ReadValue[T]:
        def read(value: Any, path: FieldPath) -> T:
            return kind(self.reader.choice(value, path, allowed))  # type: ignore[call-arg]

        return read

    def _gates(self, value: Any, path: FieldPath) -> dict[str, bool]:
        expected = "gates such as {SpotToSpotConsolidation: true}"
        entries = self.reader.mapping(value, path, FEATURE_GATES, expected)
        stated = {name: self.reader.boolean(each, (*path, name)) for name, each in entries.items()}
        for name in RESERVATION_GATES:
            if name in stated:
                stated |= dict.fromkeys(RESERVATION_GATES, stated[name])
        return {**FEATURE_GATES, **stated}

    def _default_constraints(self, value: Any, path: FieldPath) -> DefaultConstraints:
        constraints, errors = default_constraints(value)
        for each in errors:  # a warning too: what would have no effect is refused
            self.reader.add(msgspec.structs.replace(each, path=(*path, *each.path), warning=False))
        return constraints

    def _minimum_saving(self, value: Any, path: FieldPath) -> MinimumSaving:
        is_text = isinstance(value, str) or is_number(value)
        found = parse_minimum_saving(str(value)) if is_text else None
        if found is None:
            expected = "a share such as 5%, or USD per hour such as 0.05"
            self.reader.add(invalid_value(path, value, expected))
        return found or NO_MINIMUM_SAVING

    def _cluster_limits(self, value: Any, path: FieldPath) -> ClusterLimits:
        entries = self.reader.mapping(
            value, path, EXPECTED_AMOUNTS, f"a mapping with {', '.join(EXPECTED_AMOUNTS)}"
        )
        amounts = {name: str(each) for name, each in entries.items()}
        for name, amount in list(amounts.items()):
            try:
                translate_cluster_limits({name: amount})
            except UsageError:
                expected = EXPECTED_AMOUNTS[name]
                self.reader.add(invalid_value((*path, name), entries[name], expected))
                del amounts[name]
        return translate_cluster_limits(amounts)

    def _breaker(self, value: Any, path: FieldPath) -> DisruptionBreaker:
        fields = self.reader.fields(value, path, ("share", "nodes", "window"))
        default = DisruptionBreaker()
        return DisruptionBreaker(
            share=fields.get("share", self._share_or_percent, default.share),
            nodes=fields.get("nodes", self.reader.count, default.nodes),
            window=fields.get("window", self._positive_duration, default.window),
        )

    def _share_or_percent(self, value: Any, path: FieldPath) -> float:
        if isinstance(value, str) and value.endswith("%"):
            saving = parse_minimum_saving(value)
            if saving is not None and saving.fraction <= 1:
                return saving.fraction
            self.reader.add(invalid_value(path, value, "a share such as 30% or 0.3"))
            return 1.0
        return self.reader.share(value, path)

    def _positive_duration(self, value: Any, path: FieldPath) -> float:
        errors = len(self.reader.errors)
        seconds = self.reader.duration(value, path)
        if seconds <= 0 and len(self.reader.errors) == errors:
            self.reader.add(invalid_value(path, value, "a duration of more than 0"))
        return seconds

    def _positive_number(self, value: Any, path: FieldPath) -> float:
        if is_number(value) and value > 0:
            return float(value)
        self.reader.add(invalid_value(path, value, "a number of more than 0"))
        return 1.0

    def instances(self, value: Any, path: FieldPath) -> InstanceBehaviour:
        reader, default = self.reader, InstanceBehaviour()
        known = ("boot", "ready", "neverJoin", "less", "volumes")
        fields = reader.fields(value, path, known)
        return InstanceBehaviour(
            boot=fields.get("boot", reader.duration_range, default.boot),
            ready=fields.get("ready", reader.duration_range, default.ready),
            never_join=fields.get("neverJoin", reader.share, default.never_join),
            less=fields.optional("less", reader.quantities) or {},
            volumes=fields.optional("volumes", reader.count),
        )

    def pods(self, value: Any, path: FieldPath) -> PodBehaviour:
        reader, default = self.reader, PodBehaviour()
        fields = reader.fields(value, path, msgspec.structs.asdict(default))
        return PodBehaviour(
            start=fields.get("start", reader.duration_range, default.start),
            termination=fields.get("termination", reader.duration_range, default.termination),
        )
