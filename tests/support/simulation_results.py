"""A result of a simulation made by hand, for tests of how results are shown."""

from typing import Any

import msgspec
from tests.support.simulated_states import simulated_claim, simulated_node

from wainwright.model.simulation import (
    EndState,
    EventEntry,
    EvictEntry,
    ExpectationResult,
    LabelEntry,
    LaunchEntry,
    LawResult,
    PendingPod,
    PendingSeconds,
    PodSeries,
    ReservationSeries,
    ReservationTotals,
    Series,
    SimulationResult,
    Totals,
)

HOUR = 3600.0


def simulation_result(**changes: Any) -> SimulationResult:
    """A day with a wave of pods, an idle reservation, a failed expectation and a broken law."""
    result = SimulationResult(
        scenario="sale-day",
        seed=7,
        start="2026-11-27T00:00:00Z",
        finish="2026-11-28T00:00:00Z",
        timeline=[
            LaunchEntry(
                at=60.0,
                object="NodeClaim/default-a",
                instance="i-1",
                nodePool="default",
                instanceType="c5.large",
                zone="us-west-2a",
                capacityType="reserved",
                reservationID="cr-1",
                pricePerHour=0.0000085,
                types=3,
                templates=["cr-1"],
            ),
            EventEntry(at=61.0, object="Pod/shop/web-0", reason="Nominated"),
            EvictEntry(at=7200.0, object="Pod/shop/web-0", node="ip-1", forced=False, daemon=False),
            LabelEntry(
                at=7300.0,
                object="Node/ip-1",
                key="karpenter.sh/capacity-type",
                before="reserved",
                after="on-demand",
            ),
        ],
        series=Series(
            at=[0.0, 2 * HOUR, 3 * HOUR, 9 * HOUR, 15 * HOUR, 24 * HOUR],
            nodes=[2, 2, 12, 7, 3, 2],
            pods=PodSeries(running=[10, 10, 60, 40, 20, 10], pending=[0, 50, 0, 2, 0, 0]),
            pricePerHour=[0.17, 0.17, 1.2, 0.7, 0.25, 0.17],
            reservations={"cr-1": ReservationSeries(used=[1] * 6, total=[3] * 6)},
        ),
        totals=Totals(
            cost=12.345,
            fees=0.5,
            nodeHours=120.5,
            podHours=800.0,
            launches=14,
            launchFailures=1,
            terminations=14,
            evictions=9,
            interruptions=2,
            disruptions={"Empty": 10, "interrupted": 2},
            pendingSeconds=PendingSeconds(p50=46.0, p95=61.5, max=130.0, total=4000.0),
            apiCalls={"CreateFleet": 9, "DescribeInstances": 40, "CreateTags": 9},
            reservations=[
                ReservationTotals(
                    id="cr-1",
                    slotHours=72.0,
                    usedHours=24.0,
                    idleHours=48.0,
                    idleCost=4.08,
                    usedValue=2.04,
                ),
                ReservationTotals(
                    id="cr-2",
                    slotHours=10.0,
                    usedHours=10.0,
                    idleHours=0.0,
                    idleCost=0.0,
                    usedValue=0.85,
                ),
                ReservationTotals(
                    id="cr-3",
                    slotHours=0.0,
                    usedHours=0.0,
                    idleHours=0.0,
                    idleCost=0.0,
                    usedValue=0.0,
                ),
            ],
        ),
        end=EndState(
            nodes=[simulated_node("ip-1", pods=["shop/web-0"])],
            pending=[PendingPod(pod="shop/big-0", reason="no instance type has 900 CPUs")],
            claims=[simulated_claim("default-a", conditions={"Ready": "True"})],
        ),
        expectations=[
            ExpectationResult(
                line=36, held=True, found={"pods": {"pending": 0}}, message="at the end: fine"
            ),
            ExpectationResult(
                line=38,
                held=False,
                found={"pods": {"pending": 50}},
                message="at 2h: pods.pending is 50, expected at most 20",
            ),
            ExpectationResult(line=40, held=None, message="not judged"),
        ],
        laws=[
            LawResult(law="no-orphans", held=True),
            LawResult(law="limits", held=False, at=7260.0, message="13 nodes of 12 allowed"),
        ],
        warnings=["nobody was there to interrupt"],
    )
    return msgspec.structs.replace(result, **changes)
