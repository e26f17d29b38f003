"""A simulation as lines of text: the answer first, what failed, a plot, totals, and what each
capacity reservation was worth. At most 80 columns wide, but for sentences.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

import msgspec

from wainwright.messages.formatting import (
    MODELLED_PRICES,
    format_count,
    format_hourly,
    join_first,
    join_with_and,
)
from wainwright.model.simulation import (
    ReservationTotals,
    Series,
    SimulationResult,
    Totals,
)

WIDTH: Final = 80
LABEL_WIDTH: Final = 10
VALUE_WIDTH: Final = 9
PLOT_WIDTH: Final = WIDTH - LABEL_WIDTH - VALUE_WIDTH
BLOCKS: Final = " ▁▂▃▄▅▆▇█"
SMALLEST_SAVING: Final = 0.0005
"""USD per hour that are more than nothing with three digits."""
CALLS_WIDTH: Final = 60
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
TICK_STEPS: Final = (
    *(1.0, 5.0, 15.0, 30.0, MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 4 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY),
)


def format_seconds(seconds: float) -> str:
    """45s, 2m10s, 6h, 36h: two units at most, none of which a Scenario does not take."""
    whole = round(seconds)
    units = ((int(HOUR), "h"), (int(MINUTE), "m"), (1, "s"))
    parts = []
    for size, unit in units:
        amount, whole = divmod(whole, size)
        parts.append(f"{amount}{unit}" if amount else "")
    first = next((index for index, part in enumerate(parts) if part), None)
    return "0s" if first is None else "".join(parts[first : first + 2])


def format_dollars(amount: float, *, modelled: bool = False) -> str:
    """$12.34; ~$12.34 where it is an estimate."""
    mark = "~" if modelled and abs(amount) >= 0.005 else ""
    return f"{mark}${amount:,.2f}" if amount >= 0 else f"-{mark}${-amount:,.2f}"


def duration_of(result: SimulationResult) -> float:
    """Simulated seconds."""
    start, finish = map(datetime.fromisoformat, (result.start, result.finish))
    return (finish - start).total_seconds()


# The answer


def answer(result: SimulationResult, name: str = "") -> str:
    """Whether it held, and what it cost; the name is that of the scenario."""
    cost = format_dollars(result.totals.cost, modelled=result.modelledPrices)
    duration = format_seconds(duration_of(result))
    return f"{name or result.scenario}: {_verdict(result)} · {cost} in {duration}"


def _verdict(result: SimulationResult) -> str:
    broken = sum(not law.held for law in result.laws)
    judged = [each.held for each in result.expectations if each.held is not None]
    failed = judged.count(False)
    parts = []
    if failed:
        parts.append(f"{failed:,} of {format_count(len(judged), 'expectation')} failed")
    if broken:
        parts.append(f"{format_count(broken, 'law')} broken")
    if parts:
        return join_with_and(parts)
    return _held(len(judged), len(result.expectations))


def _held(judged: int, stated: int) -> str:
    if not stated:
        return "nothing was expected"
    if not judged:
        return f"none of {format_count(stated, 'expectation')} judged yet"
    every = "the expectation" if judged == 1 else f"all {judged:,} expectations"
    rest = stated - judged
    return f"{every} held" + (f", {rest:,} not judged" if rest else "")


class Finding(msgspec.Struct, frozen=True):
    """An expectation or a law, as one line."""

    text: str
    held: bool | None


def findings(result: SimulationResult) -> list[Finding]:
    """Broken laws, every expectation that was judged, and how many were not."""
    marks = {True: "✓", False: "✗"}
    expectations = [
        Finding(f"{marks[each.held]} line {each.line}: {each.message}", each.held)
        for each in result.expectations
        if each.held is not None
    ]
    laws = [
        Finding(f"✗ law {law.law}{_at(law.at)}: {law.message}", held=False)
        for law in result.laws
        if not law.held
    ]
    return [*laws, *expectations, *_not_judged(result)]


def _not_judged(result: SimulationResult) -> list[Finding]:
    lines = [str(each.line) for each in result.expectations if each.held is None]
    if not lines:
        return []
    where = f"line{'s' if len(lines) > 1 else ''} {join_first(lines, 8)}"
    return [Finding(f"– not judged, the simulation stopped before: {where}", None)]


def _at(seconds: float | None) -> str:
    return "" if seconds is None else f" at {format_seconds(seconds)}"


# The plot


class PlotRow(msgspec.Struct, frozen=True):
    """One line of the plot: a label, columns, and the value of its height."""

    label: str
    columns: str
    value: str

    def __str__(self) -> str:
        return f"{self.label:<{LABEL_WIDTH}}{self.columns}{self.value:>{VALUE_WIDTH}}".rstrip()


def plot_lines(series: Series) -> list[str]:
    """Nodes, pending pods and USD per hour over time, and the time below."""
    if len(series.at) < 2 or series.at[-1] <= 0:
        return []
    rows = [
        *_plot("nodes", series, series.nodes, _whole, height=3),
        *_plot("pending", series, series.pods.pending, _whole, height=2),
        *_plot("$/h", series, series.pricePerHour, _price, height=3),
    ]
    return [*map(str, rows), _time_axis(series.at[-1])]


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _price(value: float) -> str:
    return f"{value:,.3g}"


def _plot(
    label: str,
    series: Series,
    values: Sequence[float],
    describe: Callable[[float], str],
    *,
    height: int,
) -> list[PlotRow]:
    columns = column_peaks(series.at, values, PLOT_WIDTH)
    top = max(columns)
    eighths = [round(value / top * 8 * height) if top > 0 else 0 for value in columns]
    # What is there is seen, however little it is.
    eighths = [
        max(1, each) if value > 0 else 0 for each, value in zip(eighths, columns, strict=True)
    ]
    rows = []
    for row in reversed(range(height)):
        text = "".join(BLOCKS[min(8, max(0, each - 8 * row))] for each in eighths)
        is_top, is_bottom = row == height - 1, row == 0
        value = describe(top) if is_top else "0" if is_bottom else ""
        rows.append(PlotRow(label if is_top else "", text, value))
    return rows


def column_peaks(at: Sequence[float], values: Sequence[float], width: int) -> list[float]:
    """The highest value of a step function within each of `width` equal spans of time."""
    end = at[-1]
    peaks = [0.0] * width
    spans = [*pairwise(at), (end, end)]
    for (start, stop), value in zip(spans, values, strict=True):
        first = min(width - 1, int(start / end * width))
        # A step that ends where a column begins is not seen in that column.
        last = max(first, math.ceil(stop / end * width - 1e-9) - 1)
        for column in range(first, last + 1):
            peaks[column] = max(peaks[column], value)
    return peaks


def _time_axis(end: float) -> str:
    """Ticks at round times, as many as there is room for."""
    step = next((each for each in TICK_STEPS if end / each <= 5), TICK_STEPS[-1])
    axis = [" "] * WIDTH
    tick = 0.0
    while tick <= end:
        text = "0" if tick == 0 else format_seconds(tick)
        place = LABEL_WIDTH + min(PLOT_WIDTH - 1, int(tick / end * PLOT_WIDTH))
        for offset, character in enumerate(text[: WIDTH - place]):
            axis[place + offset] = character
        tick += step
    return "".join(axis).rstrip()


# Totals


def total_rows(result: SimulationResult) -> list[tuple[str, str]]:
    """What was paid, launched, moved and waited for: a name and a sentence each."""
    totals, series = result.totals, result.series
    rows = [
        ("cost", _cost(result)),
        ("nodes", _nodes(totals, series)),
        ("launches", _launches(totals)),
        ("pods", _pods(result)),
        ("waiting", _waiting(totals)),
        ("disrupted", _counted(totals.disruptions)),
        ("saved", _saved(totals, modelled=result.modelledPrices)),
        ("AWS calls", _calls(totals)),
    ]
    return [(name, text) for name, text in rows if text]


def _cost(result: SimulationResult) -> str:
    totals, hours = result.totals, duration_of(result) / HOUR
    modelled = result.modelledPrices
    parts = [format_dollars(totals.cost, modelled=modelled)]
    if totals.fees:
        parts.append(f"fees {format_dollars(totals.fees)}")
    if hours > 0:
        parts.append(f"{format_hourly(totals.cost / hours, modelled=modelled)} on average")
    if result.series.pricePerHour:
        last = format_hourly(result.series.pricePerHour[-1], modelled=modelled)
        parts.append(f"{last} at the end")
    return ", ".join(parts)


def _nodes(totals: Totals, series: Series) -> str:
    if not series.nodes:
        return ""
    most, last = max(series.nodes), series.nodes[-1]
    return f"at most {most:,} at once, {last:,} at the end, {totals.nodeHours:,.1f} node hours"


def _launches(totals: Totals) -> str:
    parts = [f"{totals.launches:,}", format_count(totals.terminations, "termination")]
    if totals.launchFailures:
        parts.append(format_count(totals.launchFailures, "launch failure"))
    if totals.interruptions:
        parts.append(format_count(totals.interruptions, "interruption"))
    return ", ".join(parts)


def _pods(result: SimulationResult) -> str:
    pods = result.series.pods
    parts = []
    if pods.running:
        parts.append(f"{pods.running[-1]:,} running and {pods.pending[-1]:,} pending at the end")
    parts.append(format_count(result.totals.evictions, "eviction"))
    return ", ".join(parts)


def _waiting(totals: Totals) -> str:
    waited = totals.pendingSeconds
    if waited.max == 0:
        return ""
    return (
        f"half of the pods {_within(waited.p50)}, 95% {_within(waited.p95)}, "
        f"the longest {format_seconds(waited.max)}"
    )


def _within(seconds: float) -> str:
    return f"up to {format_seconds(seconds)}" if seconds >= 1 else "less than 1s"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)


def _saved(totals: Totals, *, modelled: bool) -> str:
    """What the commands of disruption came to, and what they disturbed for it."""
    if not totals.commands:
        return ""
    commands = format_count(totals.commands, "command")
    is_nothing = abs(totals.savingsPerHour) < SMALLEST_SAVING
    saved = "nothing" if is_nothing else format_hourly(totals.savingsPerHour, modelled=modelled)
    moved = format_count(totals.moves, "pod")
    return f"{saved} by {commands} of disruption, which moved {moved}"


def _calls(totals: Totals) -> str:
    ordered = sorted(totals.apiCalls.items(), key=lambda entry: (-entry[1], entry[0]))
    total = sum(totals.apiCalls.values())
    if not total:
        return ""
    text = f"{total:,} ("
    for number, (name, count) in enumerate(ordered):
        part = f"{', ' if number else ''}{name} {count:,}"
        if len(text) + len(part) > CALLS_WIDTH:
            return f"{text}, …)"
        text += part
    return f"{text})"


# Reservations


def reservation_lines(result: SimulationResult) -> Iterator[str]:
    """One line on what each reservation was worth."""
    for each in result.totals.reservations:
        yield f"{each.id}: {reservation_worth(each, modelled=result.modelledPrices)}"


def reservation_worth(reservation: ReservationTotals, *, modelled: bool = False) -> str:
    """The on-demand price of what was used, and of what was not."""
    if reservation.slotHours <= 0:
        return "never active"
    share = reservation.usedHours / reservation.slotHours
    text = f"{share:.0%} of {reservation.slotHours:,.1f} h used"
    text += f", worth {format_dollars(reservation.usedValue, modelled=modelled)} on demand"
    if reservation.idleHours > 0:
        text += f"; {format_dollars(reservation.idleCost, modelled=modelled)} idle"
    return text


def estimate_notes(has_estimates: Iterable[bool]) -> list[str]:
    """What a price with `~` is, where a run has one."""
    return [MODELLED_PRICES] if any(has_estimates) else []


def end_line(result: SimulationResult) -> str:
    """What is left at the end, where pods wait."""
    pending = result.end.pending
    if not pending:
        return ""
    first = pending[0]
    rest = f" and {len(pending) - 1:,} more" if len(pending) > 1 else ""
    return f"pending at the end: {first.pod}{rest}: {first.reason}"
