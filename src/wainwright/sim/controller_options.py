"""What the controllers are given for the settings of a Scenario, or of `wain run`."""

from wainwright.controllers.settings import BreakerSettings, ControllerSettings
from wainwright.core.disruption.disruption_input import DisruptionOptions, ReplacementRules
from wainwright.model.disruption import Pause
from wainwright.model.plan import PlanOptions
from wainwright.sim.settings import NodeRepairMode, SimulationSettings


def plan_options(settings: SimulationSettings) -> PlanOptions:
    gates = settings.feature_gates
    return PlanOptions(
        min_values_policy=settings.min_values_policy,
        preference_policy=settings.preference_policy,
        packing=settings.packing,
        strict_weights=settings.strict_weights,
        capacity_reservations=gates["CapacityReservations"] and gates["ReservedCapacity"],
        cluster_limits=settings.cluster_limits,
        static_capacity=gates["StaticCapacity"],
    )


def disruption_options(settings: SimulationSettings) -> DisruptionOptions:
    gates = settings.feature_gates
    return DisruptionOptions(
        rules=ReplacementRules(
            spot_to_spot=gates["SpotToSpotConsolidation"],
            spot_to_spot_types=settings.spot_to_spot_types,
        ),
        max_nodes=settings.max_nodes_per_command,
        minimum_saving=settings.minimum_saving,
        balanced_k=settings.balanced_k,
        terminate_first_drift=gates["TerminateFirstDrift"],
        terminate_first_repair=gates["TerminateFirstRepair"],
        managed_deletion_cost=gates["PodDeletionCostManagement"],
    )


def controller_settings(settings: SimulationSettings) -> ControllerSettings:
    gates, breaker = settings.feature_gates, settings.disruption_breaker
    return ControllerSettings(
        batch_idle=settings.batch_idle_duration,
        batch_max=settings.batch_max_duration,
        plan_options=plan_options(settings),
        disruption_options=disruption_options(settings),
        default_constraints=settings.default_constraints,
        node_repair=gates["NodeRepair"],
        replace_before_repair=settings.node_repair is NodeRepairMode.REPLACE_FIRST,
        managed_deletion_cost=gates["PodDeletionCostManagement"],
        capacity_buffer=gates["CapacityBuffer"],
        pause=Pause(settings.pause.value) if settings.pause.value else None,
        breaker=BreakerSettings(share=breaker.share, nodes=breaker.nodes, window=breaker.window),
    )
