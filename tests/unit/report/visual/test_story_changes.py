"""A story and the one after it: what is told of the difference gives the later one."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.story_changes import apply_changes, without_defaults

from wainwright.model.cluster_history import ClusterHistory, NodeRecord, PodRecord
from wainwright.model.simulation import (
    PodSeries,
    ReservationSeries,
    RestartEntry,
    Series,
)
from wainwright.report.visual.story import MomentUnit, NodeNote, Story, StoryKind
from wainwright.report.visual.story_changes import StorySnapshot

numbers = st.integers(0, 5)


@st.composite
def series(draw: st.DrawFn) -> Series:
    length = draw(numbers)
    column = st.lists(numbers, min_size=length, max_size=length)
    prices = st.lists(st.floats(0, 9), min_size=length, max_size=length)
    reservation = st.builds(ReservationSeries, used=column, total=column)
    return Series(
        at=draw(prices),
        nodes=draw(column),
        pods=PodSeries(running=draw(column), pending=draw(column)),
        pricePerHour=draw(prices),
        # A name with a full stop in it is one name.
        reservations=draw(st.dictionaries(st.sampled_from(["cr-1", "cr.2"]), reservation)),
    )


@st.composite
def stories(draw: st.DrawFn, nodes: int = 0, pods: int = 0) -> Story:
    """Records come, and never go: they end."""
    node = st.builds(NodeRecord, id=st.just("i"), pool=st.text(max_size=2), launched=numbers)
    pod = st.builds(PodRecord, name=st.just("a/b"), node=st.none() | numbers, bound=numbers)
    event = st.builds(RestartEntry, at=numbers, object=st.just(""), message=st.text())
    return Story(
        kind=StoryKind.SIMULATION,
        name="day",
        answer=draw(st.text()),
        unit=MomentUnit.SECONDS,
        end=draw(st.floats(0, 9)),
        history=ClusterHistory(
            nodes=draw(st.lists(node, min_size=nodes, max_size=nodes + 3)),
            pods=draw(st.lists(pod, min_size=pods, max_size=pods + 3)),
        ),
        series=draw(series()),
        events=[*draw(st.lists(event))],
        notes=[NodeNote(node=each) for each in draw(st.lists(numbers, max_size=4))],
        warnings=draw(st.lists(st.text(), max_size=2)),
    )


@given(st.data())
def test_the_changes_applied_to_a_story_give_the_next(data: st.DataObject) -> None:
    first = data.draw(stories())
    known = first.history
    second = data.draw(stories(nodes=len(known.nodes), pods=len(known.pods)))
    found = StorySnapshot(second).changes_since(StorySnapshot(first))
    story = msgspec.to_builtins(first)
    if first.series is not None and second.series is not None:
        # A reservation that was there is there for good, in a simulation.
        for each in set(first.series.reservations) - set(second.series.reservations):
            del story["series"]["reservations"][each]
    apply_changes(story, msgspec.json.decode(msgspec.json.encode(found)))
    expected = msgspec.json.decode(msgspec.json.encode(second))
    assert without_defaults(story) == without_defaults(expected)


@given(stories())
def test_there_are_no_changes_where_nothing_changed(story: Story) -> None:
    assert not StorySnapshot(story).changes_since(StorySnapshot(story))


def test_a_record_that_changes_in_place_is_among_them() -> None:
    node = NodeRecord(id="i-1")
    story = Story(
        kind=StoryKind.SIMULATION, name="", answer="", unit=MomentUnit.SECONDS, end=0.0,
        history=ClusterHistory(nodes=[node, NodeRecord(id="i-2")]),
    )  # fmt: skip
    before = StorySnapshot(story)
    node.ended = 7.0
    found = StorySnapshot(story).changes_since(before)
    assert bytes(found.records["nodes"]["0"]) == b'{"id":"i-1","ended":7.0}'
    assert (list(found.records), list(found.records["nodes"])) == (["nodes"], ["0"])
    assert not found.lists
    assert not found.fields
