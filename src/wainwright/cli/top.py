"""`wain top`: nodes with what they hold and cost, the verdict on each, and the pods that wait."""

import os
import sys
from pathlib import Path
from typing import Any, Final, Protocol

import click
import msgspec

from wainwright.cli import printing
from wainwright.cli.consolidate import DisruptionArguments, disruption_options, read_consolidation
from wainwright.cli.options import Choice, cluster_options, file_arguments
from wainwright.cli.plan import Timings
from wainwright.cli.printing import print_notes
from wainwright.core.disruption.cluster_bound import cluster_lower_bound
from wainwright.core.disruption.preview import preview_disruption
from wainwright.errors import UsageError
from wainwright.gc_pause import gc_paused
from wainwright.offline import plan_snapshot
from wainwright.report.consolidation_json import consolidation_document
from wainwright.report.plan_input import PlanInput
from wainwright.report.plan_json import plan_document
from wainwright.report.visual.cluster_story import cluster_story
from wainwright.report.visual.cluster_view import cluster_at
from wainwright.report.visual.story import MomentUnit, Story
from wainwright.report.visual.top_screen import (
    SORTS,
    Line,
    TopOrder,
    seconds_since_epoch,
    top_screen,
)

DEMO: Final = Path(__file__).parent.parent / "data" / "demo" / "scenario.yaml"
PIPE_WIDTH: Final = 200
"""Nobody sees a pipe: reasons should not be cut for a window that is not there."""
TIMED_STEPS: Final = ("read", "compile", "decide", "explain")
STYLES: Final = {
    "plain": "",
    "dim": "dim",
    "heading": "bold",
    "good": "green",
    "busy": "yellow",
    "full": "red",
    "bad": "bold red",
}


class StorySource(Protocol):
    """Where the screen comes from."""

    @property
    def interval(self) -> float | None:
        """Seconds after which it is worth loading again; None: it never changes."""
        ...

    def load(self) -> Story: ...


class ClusterSource(msgspec.Struct, frozen=True, kw_only=True):
    """Files, or the cluster that kubectl speaks to."""

    arguments: DisruptionArguments
    interval: float | None = None

    def load(self) -> Story:
        if self.arguments.from_cluster:
            from wainwright.cli.cluster_input import cluster_text

            cluster_text.cache_clear()  # what was read before is old by now
        return story_of(read_consolidation(self.arguments, Timings(TIMED_STEPS)))


class ScenarioSource(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    interval: float | None = None

    def load(self) -> Story:
        from wainwright.cli.simulate import simulate_story

        return simulate_story(self.file)


def story_of(given: PlanInput) -> Story:
    """What is there, what disruption would do about it, and what pending pods would get."""
    settings = given.consolidation
    assert settings is not None
    with gc_paused():
        preview = preview_disruption(given.disruption, settings.options, settings.steps)
        plan = plan_snapshot(given.snapshot, given.indexes, given.options)
        bound = cluster_lower_bound(given.snapshot, given.indexes, given.options)
        return cluster_story(
            given,
            plan,
            preview,
            plan_document=plan_document(given, plan),
            consolidation_document=consolidation_document(given, preview, bound),
        )


@click.command()
@file_arguments
@cluster_options
@disruption_options
@click.option("--scenario", metavar="FILE", help="A Scenario to simulate and then play.")
@click.option("--demo", is_flag=True, help="A simulated sale day, without any file.")
@click.option("--once", is_flag=True, help="Print the screen once and exit, as in a pipe.")
@click.option(
    "--sort", type=Choice(list(SORTS)), default="price", show_default=True, help="Order of rows."
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--search", metavar="TEXT", default="", help="Only nodes in which the text occurs.")
@click.option(
    "--interval",
    type=click.FloatRange(1),
    default=10.0,
    show_default=True,
    help="Seconds between refreshes of a cluster.",
)
def top(scenario: str | None, demo: bool, once: bool, interval: float, **flags: Any) -> int:
    """Show nodes with the share of cpu and memory that pods request, prices and verdicts.

    Keys: s sort, r reverse, / search, arrows scroll, q quit; of a scenario also space to play or
    pause, and left and right to step.
    """
    order = TopOrder(**{name: flags.pop(name) for name in ("sort", "reverse", "search")})
    arguments = DisruptionArguments(**flags)
    source = _source(arguments, scenario, demo=demo, interval=interval)
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print_once(source, order)
        return 0
    story = source.load()
    # Loaded here: the library for terminal applications takes as long to import as a plan to make.
    from wainwright.cli.top_app import TopApp

    TopApp(source, story, order).run()
    return 0


def _source(
    arguments: DisruptionArguments, scenario: str | None, *, demo: bool, interval: float
) -> StorySource:
    named = bool(arguments.files or arguments.more or arguments.from_cluster)
    if named + (scenario is not None) + demo != 1:
        raise UsageError(
            "wain top shows one thing: files, a cluster, a scenario or the demo",
            "name a folder, or add --from-cluster, --scenario FILE or --demo",
        )
    if named:
        return ClusterSource(
            arguments=arguments, interval=interval if arguments.from_cluster else None
        )
    return ScenarioSource(file=str(DEMO) if scenario is None else scenario)


def _print_once(source: StorySource, order: TopOrder) -> None:
    """All of it, as wide as the terminal; colours only where they can be seen."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    story = source.load()
    for line in screen_lines(story, opening_moment(story), order, console.width):
        printing.echo("".join(_styled(line, is_plain=not console.is_terminal)))
    print_notes(story.warnings)


def _styled(line: Line, *, is_plain: bool) -> list[str]:
    if is_plain:
        return [span.text for span in line]
    colours = {"good": "green", "busy": "yellow", "full": "red", "bad": "red"}
    return [
        click.style(
            span.text,
            fg=colours.get(span.style),
            dim=span.style == "dim" or None,
            bold=span.style in ("heading", "bad") or None,
        )
        for span in line
    ]


def screen_lines(story: Story, at: float, order: TopOrder, width: int) -> list[Line]:
    """The whole screen from top to bottom."""
    screen = top_screen(
        cluster_at(story, at),
        order,
        width=width,
        now=clock_of(story),
        title=title_of(story, at),
    )
    pending = [(), *screen.pending] if screen.pending else []
    notes = [(), *screen.notes] if screen.notes else []
    return [*screen.header, (), screen.columns, *screen.rows, *pending, *notes]


def clock_of(story: Story) -> float | None:
    """The time that the ages of nodes count to; a story with seconds counts them itself."""
    return None if story.unit is MomentUnit.SECONDS else seconds_since_epoch(story.start)


def opening_moment(story: Story) -> float:
    return story.end if story.opensAt is None else story.opensAt


def title_of(story: Story, at: float) -> str:
    if story.unit is not MomentUnit.SECONDS:
        return story.answer
    hours, rest = divmod(int(at), 3600)
    return f"{story.name} at {hours}h{rest // 60:02}m{rest % 60:02}s"
