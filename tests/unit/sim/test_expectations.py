"""What is expected, judged on states: every kind, from the text of a Scenario to its result."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.simulated_states import SimulatedState, simulated_claim, simulated_node

from wainwright.api.wire import WireStruct
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.model.simulation import (
    EventEntry,
    ExpectationResult,
    PendingSeconds,
    ReservationTotals,
    Totals,
)
from wainwright.sim.expectations import Expectations, holds
from wainwright.sim.observed_state import ReservationCount
from wainwright.sim.scenario import ValueComparison
from wainwright.sim.scenario_reader import read_scenario

SCENARIO = """\
apiVersion: wainwright.dev/v1alpha1
kind: Scenario
metadata: {name: judged}
spec:
  duration: 24h
  expect:
    - %s
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec: {}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
metadata: {name: cloud}
spec:
  region: us-west-2
  capacityReservations: [{id: cr-1, instanceType: c5.large, availabilityZone: us-west-2a, total: 3}]
"""
END = 24 * 3600.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def judged(
    text: str,
    *states: SimulatedState,
    totals: Totals = Totals(),  # noqa: B008 - frozen
    is_complete: bool = True,
) -> ExpectationResult:
    Path("scenario.yaml").write_text(SCENARIO % text)
    expectations = Expectations(read_scenario("scenario.yaml").expect)
    observed: Sequence[SimulatedState] = states or (SimulatedState(at=END),)
    for state in observed:
        expectations.observe(state)
    [result] = expectations.finish(observed[-1], totals, is_complete=is_complete)
    assert result.line == 7
    return result


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("{at: end, pods: {pending: 2, running: 40}}", True),
        ("{at: end, pods: {pending: 1}}", False),
        ("{at: end, nodes: {count: {lte: 7, gte: 6}, reserved: 3, spot: 4, on-demand: 0}}", True),
        ("{at: end, nodes: {count: {lt: 7}}}", False),
        ("{at: end, pricePerHour: {lt: 0.4}}", True),
        ("{at: end, pricePerHour: 0.3000001}", True),
        ("{at: end, pricePerHour: 0.30001}", False),
        ("{at: end, pendingFor: 1m40s}", True),
        ("{at: end, pendingFor: {lt: 100s}}", False),
        ("{at: end, reservations: {cr-1: {used: 3, total: {gt: 3}}}}", True),
        ("{at: end, reservations: {cr-1: {used: 2}}}", False),
    ],
)
def test_a_state_is_compared(text: str, held: bool) -> None:
    state = SimulatedState(
        at=END,
        pending_pods=2,
        running_pods=40,
        longest_wait=100.0,
        nodes=7,
        nodes_by_capacity_type={"reserved": 3, "spot": 4},
        price_per_hour=0.3,
        reservations={"cr-1": ReservationCount(used=3, total=4)},
    )
    assert judged(text, state).held is held


def test_what_was_found_is_said() -> None:
    result = judged(
        "{at: 6h, pods: {pending: {gte: 1, lte: 2}, running: 3}}",
        SimulatedState(at=6 * 3600, pending_pods=5, running_pods=3),
    )
    assert result.found == {"pods": {"pending": 5, "running": 3}}
    assert result.message == "at 6h: pods.pending is 5, expected at least 1 and at most 2"
    waited = judged("{at: end, pendingFor: {lte: 2m}}", SimulatedState(at=END, longest_wait=130))
    assert waited.message == "at the end: pendingFor is 130 s, expected at most 120 s"


def test_a_window_that_held_says_from_where_to_where_values_went() -> None:
    states = [SimulatedState(at=at, pending_pods=count) for at, count in ((3600, 1), (4000, 7))]
    result = judged("{during: [1h, end], pods: {pending: {lte: 9}}}", *states)
    assert result.held
    assert result.found == {"pods": {"pending": {"min": 1, "max": 7}}}
    assert result.message == "from 1h to the end: pods.pending was 1 to 7"
    at = judged("{at: 1h, pods: {pending: {lte: 9}, running: 0}}", *states)
    assert at.message == "at 1h: pods.pending is 1, pods.running is 0"


def test_at_sees_the_last_state_of_its_moment() -> None:
    states = [SimulatedState(at=3600, pending_pods=count) for count in (3, 1, 0)]
    later = SimulatedState(at=3601, pending_pods=9)
    assert judged("{at: 1h, pods: {pending: 0}}", *states, later).held
    assert judged("{during: [1h, 1h], pods: {pending: 0}}", *states, later).held


def test_during_fails_at_the_first_state_that_is_otherwise() -> None:
    states = [SimulatedState(at=at, pending_pods=int(at / 1000)) for at in (0, 3600, 5000, 9000)]
    result = judged("{during: [1h, 2h], pods: {pending: {lte: 4}}}", *states)
    assert result.held is False
    assert result.message == "at 1h23m20s: pods.pending is 5, expected at most 4"
    assert judged("{during: [1h, 2h], pods: {pending: {lte: 5}}}", *states).held
    assert judged("{during: [1h, end], pods: {pending: {lte: 5}}}", *states).held is False


def test_moments_are_those_at_which_a_state_is_needed() -> None:
    Path("scenario.yaml").write_text(
        SCENARIO % "{during: [2h, end], pods: {pending: 0}}\n    - {at: 1h, pods: {pending: 0}}"
    )
    assert Expectations(read_scenario("scenario.yaml").expect).moments == (3600, 7200)


def test_expectations_after_until_are_neither_held_nor_failed() -> None:
    stopped = SimulatedState(at=3600, pending_pods=1)

    def held(text: str) -> bool | None:
        return judged(text, stopped, is_complete=False).held

    assert held("{at: 2h, pods: {pending: 0}}") is None
    assert held("{at: end, pods: {pending: 0}}") is None
    assert held("{total: {launches: 3}}") is None
    assert held("{event: {reason: Nominated}}") is None
    assert held("{during: [2h, 3h], pods: {pending: 0}}") is None
    assert held("{during: [1h, 3h], pods: {pending: 1}}") is None
    assert held("{during: [1h, 3h], pods: {pending: 0}}") is False  # that is known already
    assert held("{at: 1h, pods: {pending: 1}}") is True


class TestTotals:
    TOTALS = Totals(
        cost=12.25,
        launches=8,
        disruptions={"Drifted": 3},
        pendingSeconds=PendingSeconds(p95=61.0),
        apiCalls={"CreateFleet": 5},
        reservations=[
            ReservationTotals(
                id="cr-1", slotHours=72, usedHours=60, idleHours=12, idleCost=1.02, usedValue=5.1
            )
        ],
    )

    @pytest.mark.parametrize(
        ("text", "held"),
        [
            ("{total: {cost: {lte: 12.5}, launches: {gte: 7, lte: 9}, evictions: 0}}", True),
            ("{total: {cost: {lte: 12}}}", False),
            ("{total: {disruptions: {Drifted: 3, Empty: 0}}}", True),
            ("{total: {pendingSeconds: {p95: {lte: 60}}}}", False),
            ("{total: {pendingSeconds: {p95: {lte: 1m1s}}}}", True),
            ("{total: {apiCalls: {CreateFleet: {lt: 6}, RunInstances: 0}}}", True),
            ("{total: {reservations: {cr-1: {idleHours: 12, usedHours: {gt: 59}}}}}", True),
            ("{total: {reservations: {cr-1: {idleCost: 0}}}}", False),
        ],
    )
    def test_every_field_is_reached(self, text: str, held: bool) -> None:
        assert judged(text, totals=self.TOTALS).held is held

    def test_found_has_the_shape_of_the_totals(self) -> None:
        result = judged("{total: {disruptions: {Drifted: 2}, launches: 8}}", totals=self.TOTALS)
        assert result.found == {"disruptions": {"Drifted": 3}, "launches": 8}
        assert result.message == "disruptions.Drifted is 3, expected 2"


class TestNodes:
    NODES = (
        simulated_node("ip-1", pods=["shop/web-0", "shop/web-1"], instanceType="c5.large"),
        simulated_node("ip-2", pods=["shop/api-0"], capacityType="reserved", reservationID="cr-1"),
        simulated_node(None, claim="default-new", ready=False),
    )

    @pytest.mark.parametrize(
        ("text", "held"),
        [
            ("{node: {pods: [shop/web-0]}, at: end, instanceType: c5.large}", True),
            ("{node: {pods: ['shop/*']}, at: end, instanceType: c5.large}", False),
            ("{node: {pods: ['shop/*']}, at: end, instanceType: c5.large, count: 1}", True),
            ("{node: {pods: ['shop/web-0', 'shop/web-*']}, at: end, zone: us-west-2a}", True),
            ("{node: {reservationID: cr-1}, at: end, capacityType: reserved}", True),
            ("{node: {capacityType: spot}, at: end, reservationID: null}", True),
            ("{node: {nodePool: default}, at: end, count: 3}", True),
            ("{node: {nodePool: default}, at: end, ready: true, count: {gte: 3}}", False),
            ("{node: {name: ip-9}, at: end, ready: true}", False),
            ("{node: {name: ip-9}, at: end, count: 0}", True),
            ("{node: {name: 'ip-*'}, at: end, pricePerHour: {lt: 0.05}, pods: {gte: 1}}", True),
            ("{node: 'ip-?', at: end, instanceType: '*.large'}", True),
        ],
    )
    def test_nodes_are_selected_and_compared(self, text: str, held: bool) -> None:
        assert judged(text, SimulatedState(at=END, node_list=self.NODES)).held is held

    def test_the_node_that_fails_is_named(self) -> None:
        state = SimulatedState(at=END, node_list=self.NODES)
        result = judged("{node: {name: 'ip-*'}, at: end, instanceType: c5.large}", state)
        assert result.message == (
            "at the end: node ip-2: instanceType is m5.large, expected c5.large"
        )
        assert result.found == {"selected": 2, "passed": 1}
        nobody = judged("{node: {name: nobody}, at: end, ready: true}", state)
        assert nobody.message == "at the end: there is no such node"


class TestClaims:
    CLAIMS = (
        simulated_claim(
            "default-a",
            conditions={"Drifted": "True", "Initialized": "True"},
            labels={"karpenter.sh/capacity-type": "spot", "team": "shop"},
        ),
        simulated_claim("other-b", nodePool="other", conditions={"Initialized": "Unknown"}),
    )

    @pytest.mark.parametrize(
        ("text", "held"),
        [
            ("{claim: {nodePool: default}, at: end, conditions: {Drifted: 'True'}}", True),
            ("{claim: {name: '*'}, at: end, conditions: {Drifted: 'False'}, count: 1}", True),
            ("{claim: {name: '*'}, at: end, conditions: {Initialized: Unknown}}", False),
            ("{claim: {capacityType: spot}, at: end, labels: {team: shop}}", True),
            ("{claim: {pods: [shop/web-0]}, at: end, nodePool: default}", True),
            ("{claim: {name: default-a}, at: end, node: null}", True),
        ],
    )
    def test_claims_are_selected_and_compared(self, text: str, held: bool) -> None:
        node = simulated_node("ip-1", claim="default-a", pods=["shop/web-0"])
        state = SimulatedState(at=END, node_list=[node], claim_list=self.CLAIMS)
        assert judged(text, state).held is held


class TestObjects:
    @staticmethod
    def pool() -> WireStruct:
        Path("pool.yaml").write_text(SCENARIO.partition("---\n")[2].partition("---")[0])
        [pool] = read_manifests(["pool.yaml"]).pools
        return pool

    @pytest.mark.parametrize(
        ("text", "held"),
        [
            ("{object: {kind: NodePool, name: default}, at: end, conditions: {Ready: 'True'}}", 0),
            ("{object: {kind: NodePool, name: default}, at: end, conditions: {Ready: 'False'}}", 1),
            ("{object: {kind: NodePool, name: default}, at: end, count: 1}", 1),
            ("{object: {kind: Pod, namespace: shop, name: web-0}, at: end, count: 0}", 1),
            ("{object: {kind: Pod, namespace: shop, name: web-0}, at: end}", 0),
        ],
    )
    def test_objects_are_found_by_name(self, text: str, held: int) -> None:
        objects = {("NodePool", "", "default"): self.pool()}
        assert judged(text, SimulatedState(at=END, objects=objects)).held is bool(held)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{object: {kind: NodePool, name: 'def*'}, at: end}", "1 object passes"),
            ("{object: {kind: NodePool, name: '*'}, at: end}", "2 objects pass"),
            ("{object: {kind: NodePool, name: '*'}, at: end, count: 1}",
             "2 objects pass, expected 1"),
        ],
    )  # fmt: skip
    def test_globs_stand_for_objects_of_any_kind(self, text: str, message: str) -> None:
        pool = self.pool()
        objects = {("NodePool", "", name): pool for name in ("default", "other")}
        found = judged(text, SimulatedState(at=END, objects=objects))
        assert found.message == f"at the end: {message}"


class TestEvents:
    STATES = tuple(
        SimulatedState(
            at=at,
            new_events=[EventEntry(at=at, object=name, reason=reason)],
        )
        for at, name, reason in (
            (100.0, "Pod/shop/web-0", "Nominated"),
            (3600.0, "Node/ip-1", "Unconsolidatable"),
            (7200.0, "Node/ip-2", "Unconsolidatable"),
        )
    )

    @pytest.mark.parametrize(
        ("text", "held"),
        [
            ("{event: {reason: Unconsolidatable, object: Node}, during: [1h, 2h], count: 2}", True),
            ("{event: {reason: Unconsolidatable}, during: [0s, 1h], count: {gte: 2}}", False),
            ("{event: {reason: Nominated}}", True),
            ("{event: {reason: 'Un*', object: Node/ip-1}, count: 1}", True),
            ("{event: {object: Pod/shop/web-*}, count: 1}", True),
            ("{event: {object: Pod/web-0}, count: 1}", True),
            ("{event: {reason: FailedScheduling}}", False),
            ("{event: {reason: FailedScheduling}, count: 0}", True),
            ("{event: {reason: Nominated}, at: 1h, count: 0}", True),
        ],
    )
    def test_events_are_counted(self, text: str, held: bool) -> None:
        assert judged(text, *self.STATES).held is held

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "{event: {reason: Unconsolidatable, object: Node/ip-1}, count: 2}",
                "1 event Unconsolidatable of Node ip-1, expected 2",
            ),
            ("{event: {object: Pod}}", "1 event of Pod, expected at least 1"),
            ("{event: {reason: 'Un*'}}", "2 events Un*, expected at least 1"),
        ],
    )
    def test_a_message_says_which_events_were_counted(self, text: str, message: str) -> None:
        assert judged(text, *self.STATES).message == message


def test_bounds_hold_for_equal_numbers_only_where_they_include_them() -> None:
    almost = 0.1 + 0.2  # a little more than 0.3
    assert holds(ValueComparison(lte=0.3), almost)
    assert holds(ValueComparison(gte=0.3), almost)
    assert not holds(ValueComparison(gt=0.3), almost)
    assert not holds(ValueComparison(lt=0.3), 0.3 - 1e-9)
    assert not holds(ValueComparison(lte=3), None)
    assert not holds(ValueComparison(equal=1.0), True)
