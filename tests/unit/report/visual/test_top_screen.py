"""What `wain top` shows: numbers are those of the view, and a line is never wider than asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.model.cluster_history import (
    ClusterHistory,
    NodeRecord,
    PodRecord,
    ReservationRecord,
)
from wainwright.report.visual.cluster_view import ClusterView, cluster_at
from wainwright.report.visual.story import MomentUnit, Story, StoryKind, VerdictRecord
from wainwright.report.visual.top_screen import (
    SORTS,
    Line,
    TopOrder,
    TopScreen,
    display_width,
    format_age,
    top_screen,
)

HOSTILE = ["<script>", "\u202egpj.exe", "\x1b[2J", "名前" * 20, "e\u0301" * 30, "a\nb", "🙂" * 9]


def node(name: str, **fields: object) -> NodeRecord:
    known: dict[str, object] = {
        "pool": "default",
        "instanceType": "m5.large",
        "zone": "us-west-2a",
        "capacityType": "spot",
        "allocatable": {"cpu": 2000, "memory": 8 << 30},
        "created": 1_000_000.0,
        "joined": 0.0,
        "ready": [0.0],
        "prices": [(0.0, 0.1)],
    }
    return NodeRecord(id=name, name=name, **{**known, **fields})  # type: ignore[arg-type]


def view_of(*nodes: NodeRecord, pods: tuple[PodRecord, ...] = (), verdict: str = "") -> ClusterView:
    verdicts = [VerdictRecord(at=0.0, node=0, verdict="blocked", reason=verdict)] if verdict else []
    story = Story(
        kind=StoryKind.CLUSTER,
        name="cluster",
        answer="",
        unit=MomentUnit.STEPS,
        end=0.0,
        history=ClusterHistory(
            nodes=[*nodes],
            pods=[*pods],
            reservations=[ReservationRecord(id="cr-1", counts=[(0.0, 1, 3, 2)])],
        ),
        verdicts=verdicts,
    )
    return cluster_at(story, 0.0)


def pod(name: str, on: int | None, cpu: int = 500, memory: int = 1 << 30) -> PodRecord:
    bound = None if on is None else 0.0
    return PodRecord(name=name, cpu=cpu, memory=memory, node=on, bound=bound, running=bound)


def text(line: Line) -> str:
    return "".join(span.text for span in line)


def shown(view: ClusterView, width: int = 200, **order: object) -> TopScreen:
    return top_screen(view, TopOrder(**order), width=width, now=1_007_200.0, title="title")  # type: ignore[arg-type]


def lines(screen: TopScreen) -> list[str]:
    return [text(each) for each in (*screen.header, screen.columns, *screen.rows, *screen.pending)]


def test_a_row_has_use_price_age_and_verdict() -> None:
    view = view_of(node("a"), pods=(pod("x/web-0", 0), pod("x/web-1", 0)), verdict="pdb")
    (row,) = shown(view).rows
    assert text(row).split() == [
        *("a", "████····", "50%", "██······", "25%", "2", "default", "m5.large", "spot"),
        *("us-west-2a", "2h", "$0.100", "pdb"),
    ]


def test_the_header_adds_up_what_the_rows_have() -> None:
    view = view_of(node("a"), node("b"), pods=(pod("x/web-0", 0), pod("x/web-1", None)))
    said = lines(shown(view))
    assert said[:5] == [
        "title",
        "2 nodes · $0.200/h · $146/month · 1 pod running · 1 pending",
        "cpu    0.5 / 4.0              ██▌················· 12%",
        "memory 1.0 / 16.0Gi           █▎·················· 6%",
        "cr-1 : 1 of 3 used, 2 idle",
    ]


def test_estimated_prices_are_marked_in_rows_and_sums() -> None:
    screen = shown(view_of(node("a"), node("b", modelled=[0.0])))
    assert text(screen.header[1]).startswith("2 nodes · ~$0.200/h · ~$146/month")
    assert ["$0.100" in text(row).split() for row in screen.rows] == [True, False]
    assert "~$0.100" in text(screen.rows[1]).split()
    assert [text(each) for each in screen.notes] == [
        "~ estimated price, not one that AWS lists; a Cloud object can state yours"
    ]
    assert shown(view_of(node("a"))).notes == ()


def test_a_long_reason_is_wrapped_and_ends_within_four_lines() -> None:
    waiting = pod("x/web-0", None)
    waiting.waits = [(0.0, "word " * 99)]
    said = [text(each) for each in shown(view_of(node("a"), pods=(waiting,)), 60).pending]
    assert len(said) == 4
    assert said[0].startswith("x/web-0  word word")
    assert said[-1].endswith("word …")


def test_pods_that_wait_for_one_reason_are_one_line() -> None:
    waiting = [pod(f"x/web-{n}", None) for n in range(3)]
    for each in waiting:
        each.waits = [(0.0, "no NodePool allows arm64")]
    (line,) = shown(view_of(node("a"), pods=tuple(waiting))).pending
    assert text(line) == "x/web-0 and 2 more  no NodePool allows arm64"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_no_line_is_wider_than_the_terminal_whatever_names_are(width: int, name: str) -> None:
    nodes = (node(name, pool=name), node("ip-10-0-1-1.us-west-2.compute.internal"))
    waits = pod(f"x/{name}", None)
    waits.waits = [(0.0, name * 9)]
    screen = shown(view_of(*nodes, pods=(waits,), verdict="do-not-disrupt-pod"), width)
    for line in lines(screen):
        assert display_width(line) <= width
        assert not set(line) & set("\x1b\n\u202e")


def test_narrow_terminals_lose_the_least_important_columns() -> None:
    view = view_of(node("ip-10-0-1-1.us-west-2.compute.internal"), verdict="consolidate-after")
    headings = {width: text(shown(view, width).columns).split() for width in (200, 100, 80, 60, 40)}
    assert headings[200][-4:] == ["ZONE", "AGE", "$/H", "VERDICT"]
    assert "ZONE" not in headings[100]
    assert headings[80] == ["NODE", "CPU", "MEMORY", "PODS", "$/H", "VERDICT"]
    assert headings[60] == ["NODE", "CPU", "$/H", "VERDICT"]
    assert headings[40] == ["NODE", "$/H", "VERDICT"]


@pytest.mark.parametrize(
    ("sort", "first"),
    [("price", "dear"), ("cpu", "busy"), ("pods", "busy"), ("age", "old"), ("name", "busy")],
)
def test_rows_are_sorted_by_what_was_asked_for(sort: str, first: str) -> None:
    nodes = (node("dear", prices=[(0.0, 9.0)]), node("old", created=1.0), node("busy"))
    view = view_of(*nodes, pods=(pod("x/web-0", 2),))
    ordered = [text(row).split()[0] for row in shown(view, sort=sort).rows]
    assert ordered[0] == first
    turned = [text(row).split()[0] for row in shown(view, sort=sort, reverse=True).rows]
    assert turned[-1] == first


@pytest.mark.parametrize("sort", list(SORTS))
def test_equal_nodes_are_in_the_order_of_their_names(sort: str) -> None:
    view = view_of(node("b"), node("a"), node("c"))
    assert [text(row).split()[0] for row in shown(view, sort=sort).rows] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("search", "found"),
    [("GPU", ["b"]), ("us-west-2a", ["a", "b"]), ("m5", ["a", "b"]), ("nothing", ["no"])],
)
def test_a_search_keeps_nodes_in_which_the_text_occurs(search: str, found: list[str]) -> None:
    view = view_of(node("a"), node("b", pool="gpu"))
    assert [text(row).split()[0] for row in shown(view, search=search).rows] == found


def test_a_cluster_without_nodes_says_so() -> None:
    assert lines(shown(view_of()))[-1] == "there are no nodes"


@pytest.mark.parametrize(
    ("seconds", "age"), [(-5, "0s"), (59, "59s"), (60, "1m"), (7199, "1h"), (200_000, "2d")]
)
def test_ages_are_in_the_largest_unit(seconds: float, age: str) -> None:
    assert format_age(seconds) == age


@given(st.text(max_size=60), st.integers(20, 220))
def test_any_name_fits_any_width(name: str, width: int) -> None:
    screen = shown(view_of(node(name or "a")), width)
    assert all(display_width(text(row)) <= max(width, 40) for row in screen.rows)
