"""Settings of a Scenario as the controllers get them."""

from wainwright.model.disruption import MinimumSaving
from wainwright.sim.controller_options import disruption_options
from wainwright.sim.settings import FEATURE_GATES, SimulationSettings


def test_what_a_sweep_changes_reaches_the_decisions() -> None:
    options = disruption_options(
        SimulationSettings(
            balanced_k=4.0,
            spot_to_spot_types=3,
            minimum_saving=MinimumSaving(fraction=0.1),
            max_nodes_per_command=7,
            feature_gates={**FEATURE_GATES, "SpotToSpotConsolidation": True},
        )
    )
    assert options.balanced_k == 4.0
    assert (options.rules.spot_to_spot, options.rules.spot_to_spot_types) == (True, 3)
    assert options.minimum_saving == MinimumSaving(fraction=0.1)
    assert options.max_nodes == 7
