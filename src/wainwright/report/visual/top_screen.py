"""What `wain top` shows: a header, a row for every node, and the pods that wait, as wide as asked.

Lines are made of spans with the name of a style each; whoever draws them knows the colours. Columns
are left out, the least important first, until a row fits: a row is never wrapped.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from wainwright.messages.formatting import (
    MODELLED_PRICES_SHORT,
    escape_unprintable,
    format_count,
    format_hourly,
    format_monthly,
)
from wainwright.model.resources import CPU, MEMORY, Resources
from wainwright.report.visual.cluster_view import (
    ClusterView,
    NodeView,
    PendingView,
    ReservationView,
)

PLAIN, DIM, HEADING, GOOD, BUSY, FULL, BAD = (
    "plain",
    "dim",
    "heading",
    "good",
    "busy",
    "full",
    "bad",
)
MIN_WIDTH: Final = 40
GAP: Final = "  "
NAME_WIDTH: Final = 36
MIN_NAME_WIDTH: Final = 12
BAR: Final = 8
GIB: Final = 2**30
REASON_LINES: Final = 4
"""At most so many for the reason of pending pods; a longer one is cut."""


class Span(NamedTuple):
    text: str
    style: str = PLAIN


Line = tuple[Span, ...]


class TopOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How rows are sorted and which are shown."""

    sort: str = "price"
    reverse: bool = False
    search: str = ""
    """Part of a name, NodePool, type, zone, capacity type or verdict."""


class TopScreen(msgspec.Struct, frozen=True, kw_only=True):
    header: tuple[Line, ...]
    columns: Line
    rows: tuple[Line, ...]
    pending: tuple[Line, ...]
    notes: tuple[Line, ...] = ()
    """What marks in the lines above mean."""


class Column(NamedTuple):
    heading: str
    rank: int
    """Columns of the highest rank are left out first."""
    span: Callable[[NodeView, float], Span]
    is_number: bool = False


# Sorting and searching


SORTS: Final[dict[str, Callable[[NodeView], tuple[float | str, ...]]]] = {
    "price": lambda node: (-(node.pricePerHour or 0.0),),
    "cpu": lambda node: (-_share(node, CPU),),
    "memory": lambda node: (-_share(node, MEMORY),),
    "pods": lambda node: (-node.workload_pods,),
    "age": lambda node: (node.record.created or node.record.launched,),
    "name": lambda node: (node.record.label,),
    "nodepool": lambda node: (node.record.pool,),
    "verdict": lambda node: (_verdict(node),),
}
"""By name what a node is compared by: dearest, fullest and oldest first."""


def sorted_nodes(view: ClusterView, order: TopOrder) -> list[NodeView]:
    """The nodes that are searched for, in order; equal ones by name."""
    wanted = order.search.casefold()
    found = [node for node in view.nodes if wanted in _searchable(node)]
    found.sort(key=lambda node: node.record.label)
    found.sort(key=SORTS[order.sort], reverse=order.reverse)
    return found


def _searchable(node: NodeView) -> str:
    record = node.record
    words = (record.label, record.claim, record.pool, record.instanceType, record.zone)
    return " ".join((*words, node.capacityType, _verdict(node))).casefold()


# Lines


def top_screen(
    view: ClusterView, order: TopOrder, *, width: int, now: float | None = None, title: str = ""
) -> TopScreen:
    """`now` is seconds since 1970, for the age of nodes; None: as the story counts."""
    room = max(width, MIN_WIDTH)
    nodes = sorted_nodes(view, order)
    table = _table(nodes, view.at if now is None else now, room, is_clock=now is not None)
    return TopScreen(
        header=tuple(_fitted(line, room) for line in _header(view, title)),
        columns=table[0],
        rows=tuple(table[1:]) or (_no_nodes(view, order),),
        pending=tuple(_pending_lines(view.pending, room)),
        notes=tuple(_fitted(line, room) for line in _notes(view)),
    )


def _notes(view: ClusterView) -> Iterable[Line]:
    if view.modelledPrices:
        yield (Span(MODELLED_PRICES_SHORT, DIM),)


def _no_nodes(view: ClusterView, order: TopOrder) -> Line:
    text = f"no node matches {order.search!r}" if view.nodes else "there are no nodes"
    return (Span(escape_unprintable(text), DIM),)


def _header(view: ClusterView, title: str) -> Iterable[Line]:
    if title:
        yield (Span(escape_unprintable(title), HEADING),)
    nodes = format_count(len(view.managed), "node")
    price, modelled = view.pricePerHour, view.modelledPrices
    hourly, monthly = (each(price, modelled=modelled) for each in (format_hourly, format_monthly))
    money = f"{hourly} · {monthly}"
    pods = f"{format_count(view.runningPods, 'pod')} running"
    waiting = f"{len(view.pending):,} pending" if view.pending else "none pending"
    yield (
        Span(f"{nodes} · {money} · {pods} · ", HEADING),
        Span(waiting, BAD if view.pending else GOOD),
    )
    for name, label, unit in ((CPU, "cpu", 1000), (MEMORY, "memory", GIB)):
        yield _usage_line(label, view.used, view.allocatable, name, unit)
    for each in view.reservations:
        if not each.total:
            text = f"{each.record.id} {each.record.instanceType}: not active"
            yield (Span(escape_unprintable(text), DIM),)
            continue
        idle = _describe_idle(each)
        text = f"{each.record.id} {each.record.instanceType}: {each.used} of {each.total} used"
        yield (
            Span(escape_unprintable(f"{text}, ")),
            Span(idle, BUSY if each.idle else DIM),
        )


def _describe_idle(view: ReservationView) -> str:
    """3 idle, worth ~$0.514/h on demand"""
    if not view.idle:
        return "none idle"
    price, modelled = view.idlePricePerHour, view.record.modelledPrice
    worth = "" if not price else f", worth {format_hourly(price, modelled=modelled)} on demand"
    return f"{view.idle} idle{worth}"


def _usage_line(label: str, used: Resources, allocatable: Resources, name: str, unit: int) -> Line:
    amount, total = used.get(name, 0) / unit, allocatable.get(name, 0) / unit
    share = amount / total if total else 0.0
    text = f"{label:<6} {amount:,.1f} / {total:,.1f}{'Gi' if unit == GIB else ''} "
    return (Span(f"{text:<30}"), Span(_bar(share, 20), _busyness(share)), Span(f" {share:.0%}"))


def _table(nodes: Sequence[NodeView], now: float, width: int, *, is_clock: bool) -> list[Line]:
    def age(node: NodeView, _: float) -> Span:
        since = node.record.created if is_clock else node.record.launched
        return Span("" if since is None else format_age(now - since), DIM)

    columns = [*COLUMNS]
    columns[-2:-2] = [Column("AGE", 6, age, is_number=True)]
    cells = [[column.span(node, now) for column in columns] for node in nodes]
    widths = [
        max([display_width(column.heading), *(display_width(row[n].text) for row in cells)])
        for n, column in enumerate(columns)
    ]
    widths[0] = min(widths[0], NAME_WIDTH)
    kept = _fitting_columns(columns, widths, width)
    lines = [[Span(column.heading, HEADING) for column in columns], *cells]
    return [_row(line, columns, widths, kept) for line in lines]


def _fitting_columns(columns: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Which columns fit; the first gives way before a column of rank 3 or less goes."""
    kept = list(range(len(columns)))

    def needed() -> int:
        return sum(widths[n] for n in kept) + len(GAP) * (len(kept) - 1)

    for rank in sorted({column.rank for column in columns if column.rank}, reverse=True):
        if needed() <= width:
            break
        if rank <= 3:
            widths[0] = max(MIN_NAME_WIDTH, min(widths[0], widths[0] - (needed() - width)))
        if needed() > width:
            kept = [n for n in kept if columns[n].rank != rank]
    widths[0] = max(1, min(widths[0], widths[0] - max(0, needed() - width)))
    return kept


def _row(
    cells: Sequence[Span], columns: Sequence[Column], widths: Sequence[int], kept: Sequence[int]
) -> Line:
    found = list[Span]()
    for n in kept:
        text = _cut(cells[n].text, widths[n])
        blank = " " * (widths[n] - display_width(text))
        aligned = f"{blank}{text}" if columns[n].is_number else f"{text}{blank}"
        found += [Span(aligned, cells[n].style), Span(GAP)]
    last = found[-2]
    return (*found[:-2], Span(last.text.rstrip(), last.style))


def _pending_lines(pending: Sequence[PendingView], width: int) -> Iterable[Line]:
    """Pods that wait for the same reason are one line."""
    groups: dict[str, list[str]] = {}
    for each in pending:
        groups.setdefault(each.reason or "not evaluated yet", []).append(each.pod.name)
    for reason, names in groups.items():
        others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        who = _cut(escape_unprintable(names[0]), width // 2) + others
        first, *more = _wrapped(escape_unprintable(reason), width - display_width(who), width)
        yield (Span(who, BAD), Span(first))
        yield from ((Span(each),) for each in more)


def _wrapped(text: str, first: int, others: int) -> list[str]:
    """A reason in at most `REASON_LINES` lines: so many cells in the first, so many in others."""
    lines, room = list[str](), first
    for word in text.split():
        if lines and display_width(lines[-1]) + 1 + display_width(word) <= room:
            lines[-1] += f" {word}"
            continue
        if len(lines) == REASON_LINES:
            lines[-1] = _cut(f"{lines[-1]} …", room)
            break
        room = first if not lines else others
        lines.append(_cut(f"  {word}", room))
    return lines or [""]


def _fitted(line: Line, width: int) -> Line:
    """What fits of a line that is made of no columns."""
    found, left = list[Span](), width
    for span in line:
        text = _cut(span.text, left)
        found.append(Span(text, span.style))
        left -= display_width(text)
    return tuple(found)


# Cells


def _name(node: NodeView, _: float) -> Span:
    """Without the domain of EC2's private names, which all nodes of a region share."""
    name = node.record.label
    short = name.partition(".")[0] if name.startswith("ip-") else name
    return Span(escape_unprintable(short), PLAIN if node.state == "ready" else DIM)


def _usage(resource: str) -> Callable[[NodeView, float], Span]:
    def span(node: NodeView, _: float) -> Span:
        share = _share(node, resource)
        return Span(f"{_bar(share, BAR)} {share:>4.0%}", _busyness(share))

    return span


def _share(node: NodeView, resource: str) -> float:
    total = node.record.allocatable.get(resource, 0)
    return node.used.get(resource, 0) / total if total else 0.0


def _busyness(share: float) -> str:
    return FULL if share >= 0.9 else BUSY if share >= 0.6 else GOOD


EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def _bar(share: float, width: int) -> str:
    filled = round(max(0.0, min(share, 1.0)) * width * 8)
    full, rest = divmod(filled, 8)
    return f"{'█' * full}{EIGHTHS[rest] if rest else ''}".ljust(width, "·")


def _price(node: NodeView, _: float) -> Span:
    price = node.pricePerHour
    if price is None:
        return Span("?")
    return Span(format_hourly(price, modelled=node.modelledPrice).removesuffix("/h"))


def _verdict(node: NodeView) -> str:
    if node.state != "ready":
        return node.state
    verdict = node.verdict
    if verdict is None:
        return "" if node.record.is_managed else "not-ours"
    # Simulations have the reason of an event, which says no more than the verdict.
    return verdict.reason if verdict.reason.islower() else verdict.verdict


def _verdict_span(node: NodeView, _: float) -> Span:
    verdict = node.verdict
    if node.state in ("not-ready", "deleting"):
        return Span(node.state, BAD)
    can_go = verdict is not None and verdict.verdict in ("removed", "replaced")
    return Span(escape_unprintable(_verdict(node)), GOOD if can_go else DIM)


def _text(read: Callable[[NodeView], str]) -> Callable[[NodeView, float], Span]:
    return lambda node, _: Span(escape_unprintable(read(node)))


COLUMNS: Final = (
    Column("NODE", 0, _name),
    Column("CPU", 1, _usage(CPU)),
    Column("MEMORY", 2, _usage(MEMORY)),
    Column("PODS", 3, _text(lambda node: str(node.workload_pods)), is_number=True),
    Column("NODEPOOL", 5, _text(lambda node: node.record.pool)),
    Column("TYPE", 4, _text(lambda node: node.record.instanceType)),
    Column("CAPACITY", 5, _text(lambda node: node.capacityType)),
    Column("ZONE", 7, _text(lambda node: node.record.zone)),
    Column("$/H", 0, _price, is_number=True),
    Column("VERDICT", 0, _verdict_span),
)


def format_age(seconds: float) -> str:
    """The largest unit, as kubectl has it: 45s, 12m, 5h, 3d."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def seconds_since_epoch(moment: str | None) -> float | None:
    return None if moment is None else datetime.fromisoformat(moment).timestamp()


def display_width(text: str) -> int:
    """In cells of a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def _cut(text: str, width: int) -> str:
    """At most so many cells; what is left out becomes an ellipsis."""
    if display_width(text) <= width:
        return text
    while text and display_width(text) >= width:
        text = text[:-1]
    return f"{text}…" if width > 0 else ""
