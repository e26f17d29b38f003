"""Expectations judged while states pass by are those judged on the list of all states."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.simulated_states import SimulatedState, simulated_node

from wainwright.model.simulation import EventEntry, Totals
from wainwright.sim.expectations import Expectations, holds, outcome_of
from wainwright.sim.scenario import (
    END,
    EventExpectation,
    Expectation,
    NodeExpectation,
    NodeMatch,
    StateExpectation,
    ValueComparison,
    Window,
)

LAST = 20.0
MOMENTS = st.integers(0, int(LAST)).map(float)
COMPARISONS = st.builds(
    lambda name, bound: ValueComparison(**{name: float(bound)}),
    st.sampled_from(["equal", "lt", "lte", "gt", "gte"]),
    st.integers(0, 4),
)
WINDOWS = st.one_of(
    st.tuples(MOMENTS, MOMENTS).map(lambda pair: Window(start=min(pair), end=max(pair))),
    MOMENTS.map(lambda at: Window(start=at, end=at)),
    MOMENTS.map(lambda at: Window(start=at, end=END)),
    st.just(Window(start=END, end=END)),
)
PENDING = ("pods", "pending")
EXPECTATIONS = st.one_of(
    st.builds(
        lambda window, comparison: StateExpectation(
            line=1, window=window, values={PENDING: comparison}
        ),
        WINDOWS,
        COMPARISONS,
    ),
    st.builds(
        lambda window, count: NodeExpectation(
            line=1,
            window=window,
            selector=NodeMatch(name="*"),
            values={("ready",): ValueComparison(equal=True)},
            count=count,
        ),
        WINDOWS,
        st.none() | COMPARISONS,
    ),
    st.builds(
        lambda window, count: EventExpectation(
            line=1, window=window, reason="Seen", kind=None, count=count
        ),
        WINDOWS,
        COMPARISONS,
    ),
)


@st.composite
def simulated_runs(draw: st.DrawFn) -> list[SimulatedState]:
    """States in order, several of one moment among them; the first at 0, the last at the end."""
    moments = [0.0, *sorted(draw(st.lists(MOMENTS, max_size=12))), LAST]
    return [
        SimulatedState(
            at=at,
            pending_pods=draw(st.integers(0, 4)),
            node_list=[
                simulated_node(f"ip-{index}", ready=draw(st.booleans()))
                for index in range(draw(st.integers(0, 3)))
            ],
            new_events=[EventEntry(at=at, object="Node/x", reason="Seen")]
            * draw(st.integers(0, 2)),
        )
        for at in moments
    ]


def settled(states: list[SimulatedState]) -> list[SimulatedState]:
    """The last state of each moment."""
    return list({state.at: state for state in states}.values())


def judged_slowly(expectation: Expectation, states: list[SimulatedState]) -> bool:
    window = getattr(expectation, "window", Window(start=0, end=END))
    if isinstance(expectation, EventExpectation):
        events = [event for state in states for event in state.new_events]
        inside = [event for event in events if window.start <= event.at <= window.end]
        return holds(expectation.count, len(inside))
    lasting = settled(states)
    start, end = min(window.start, LAST), min(window.end, LAST)
    before = [state for state in lasting if state.at <= start][-1:]
    inside_window = [state for state in lasting if start < state.at <= end]
    assert isinstance(expectation, StateExpectation | NodeExpectation)
    return all(outcome_of(expectation, state).held for state in [*before, *inside_window])


def with_moments(states: list[SimulatedState], moments: tuple[float, ...]) -> list[SimulatedState]:
    """The states, and the one in effect at each of the moments once more."""
    merged = list(states)
    for at in moments:
        [latest] = [state for state in states if state.at <= at][-1:]
        again = {"pending_pods": latest.pending_pods, "node_list": latest.node_list}
        merged.append(SimulatedState(at=at, **again))  # type: ignore[arg-type]
    return sorted(merged, key=lambda state: state.at)


@given(simulated_runs(), st.lists(EXPECTATIONS, min_size=1, max_size=4))
def test_judging_as_states_pass_by_is_judging_the_list_of_them(
    states: list[SimulatedState], expect: list[Expectation]
) -> None:
    expectations = Expectations(expect)
    observed = with_moments(states, expectations.moments)
    for state in observed:
        expectations.observe(state)
    results = expectations.finish(observed[-1], Totals())
    assert [each.held for each in results] == [judged_slowly(each, states) for each in expect]


@given(simulated_runs(), EXPECTATIONS, MOMENTS)
def test_a_run_that_stops_earlier_never_says_the_opposite(
    states: list[SimulatedState], expectation: Expectation, until: float
) -> None:
    expectations = Expectations([expectation])
    observed = [
        state for state in with_moments(states, (*expectations.moments, until)) if state.at <= until
    ]
    for state in observed:
        expectations.observe(state)
    [result] = expectations.finish(observed[-1], Totals(), is_complete=False)
    assert result.held in (None, judged_slowly(expectation, states))
