"""The interactive screen of `wain top`, drawn by textual: keys, resizing, slow connections."""

from typing import ClassVar, Final

import msgspec
from rich.style import Style
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, Input, Static

from wainwright.cli.top import STYLES, StorySource, clock_of, opening_moment, title_of
from wainwright.errors import WainError
from wainwright.report.visual.cluster_view import cluster_at
from wainwright.report.visual.story import MomentUnit, Story
from wainwright.report.visual.top_screen import SORTS, Line, TopOrder, TopScreen, top_screen

FRAMES_PER_SECOND: Final = 5
FRAMES_OF_A_STORY: Final = 300
"""How many steps playing takes from the beginning to the end."""
PENDING_LINES: Final = 6


def to_text(line: Line) -> Text:
    text = Text(no_wrap=True, end="")
    for span in line:
        text.append(span.text, Style.parse(STYLES[span.style]) if STYLES[span.style] else None)
    return text


class NodeRows(ScrollView, can_focus=True):
    """Only the rows that can be seen are drawn: a cluster may have thousands."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: tuple[Line, ...] = ()

    def show(self, lines: tuple[Line, ...]) -> None:
        self._lines = lines
        self.virtual_size = Size(self.size.width, len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        if number >= len(self._lines):
            return Strip.blank(self.size.width)
        segments = list(to_text(self._lines[number]).render(self.app.console))
        return Strip(segments).adjust_cell_length(self.size.width)


class TopApp(App[None]):
    CSS = """
    #header, #columns, #pending, #notes { height: auto; padding: 0 1; }
    #columns { text-style: bold; }
    NodeRows { height: 1fr; padding: 0 1; }
    #search { display: none; height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "quit"),
        ("s", "sort", "sort"),
        ("r", "reverse", "reverse"),
        ("slash", "search", "search"),
        ("space", "play", "play"),
        # Before the rows, which would scroll sideways; both are one entry of a footer that has to
        # fit into 80 columns.
        Binding("left", "step(-1)", "step", priority=True, show=False),
        Binding("right", "step(1)", "step", priority=True, key_display="← →"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, source: StorySource, story: Story, order: TopOrder) -> None:
        super().__init__(ansi_color=True)  # the colours of the terminal, on its own background
        self._source = source
        self._story = story
        self._order = order
        self._at = opening_moment(story)
        self._is_playing = False
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield Static(id="header")
        yield Static(id="columns")
        yield NodeRows()
        yield Static(id="pending")
        yield Static(id="notes")
        yield Input(placeholder="name, NodePool, type, zone, capacity type or verdict", id="search")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(NodeRows).focus()
        if self._source.interval is not None:
            self.set_interval(self._source.interval, self._load)
        self.set_interval(1 / FRAMES_PER_SECOND, self._play_on)
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    # Drawing

    def _screen(self) -> TopScreen:
        return top_screen(
            cluster_at(self._story, self._at),
            self._order,
            width=self.size.width - 2,
            now=clock_of(self._story),
            title=self._problem or title_of(self._story, self._at),
        )

    def _draw(self) -> None:
        screen = self._screen()
        self._put("#header", screen.header)
        self._put("#columns", (screen.columns,))
        self.query_one(NodeRows).show(screen.rows)
        self._put("#pending", self._pending(screen.pending))
        self._put("#notes", screen.notes)

    def _put(self, place: str, lines: tuple[Line, ...]) -> None:
        self.query_one(place, Static).update(Text("\n").join(map(to_text, lines)))

    def _pending(self, lines: tuple[Line, ...]) -> tuple[Line, ...]:
        """The first few: rows of nodes must stay visible in a low window."""
        return lines[: min(PENDING_LINES, max(1, self.size.height // 4))]

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Keys that move time are there only where time passes."""
        return self._has_time or action not in ("play", "step")

    def action_sort(self) -> None:
        names = list(SORTS)
        following = names[(names.index(self._order.sort) + 1) % len(names)]
        self._order = msgspec.structs.replace(self._order, sort=following)
        self.notify(f"sorted by {following}", timeout=2)
        self._draw()

    def action_reverse(self) -> None:
        self._order = msgspec.structs.replace(self._order, reverse=not self._order.reverse)
        self._draw()

    def action_search(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._order = msgspec.structs.replace(self._order, search=event.value)
        self._draw()

    def on_input_submitted(self) -> None:
        self.query_one(Input).display = False
        self.query_one(NodeRows).focus()

    # Time

    @property
    def _frame(self) -> float:
        """How far one step goes."""
        return self._story.end / FRAMES_OF_A_STORY if self._has_time else 0.0

    @property
    def _has_time(self) -> bool:
        return self._story.unit is MomentUnit.SECONDS

    def action_play(self) -> None:
        if self._has_time:
            self._is_playing = not self._is_playing
            self._at = 0.0 if self._at >= self._story.end else self._at

    def action_step(self, frames: int) -> None:
        self._is_playing = False
        self._move(frames)

    def _play_on(self) -> None:
        if self._is_playing:
            self._move(1)
            self._is_playing = self._at < self._story.end

    def _move(self, frames: int) -> None:
        self._at = min(max(0.0, self._at + frames * self._frame), self._story.end)
        self._draw()

    @work(thread=True, exclusive=True)
    def _load(self) -> None:
        """Listing and deciding take time, in which keys must work."""
        try:
            story = self._source.load()
        except WainError as error:
            self.call_from_thread(self._show_problem, error.message)
        else:
            self.call_from_thread(self._show_story, story)

    def _show_problem(self, message: str) -> None:
        """The last screen stays, and says that it is old."""
        self._problem = f"not refreshed: {message}"
        self._draw()

    def _show_story(self, story: Story) -> None:
        self._story, self._at, self._problem = story, opening_moment(story), ""
        self._draw()
