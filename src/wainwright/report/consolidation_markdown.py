"""A consolidation as Markdown, for a comment or a ticket."""

from typing import Any

from wainwright.messages.formatting import MODELLED_PRICES, escape_unprintable
from wainwright.report.consolidation_rows import (
    answer,
    answer_notes,
    command_lines,
    figure_rows,
    has_modelled_prices,
    held_rows,
    held_title,
    more_commands,
    shown_commands,
    stay_lines,
)

Document = dict[str, Any]


def render_markdown(document: Document) -> str:
    notes = answer_notes(document)
    lines = [
        f"**{answer(document)}**",
        "",
        *([*notes, ""] if notes else []),
        *_commands(document),
        *([MODELLED_PRICES, ""] if has_modelled_prices(document) else []),
        *_held(document),
        *_stay(document),
        *_figures(document),
        *(f"> - {warning}" for warning in document["warnings"]),
    ]
    return "\n".join(map(escape_unprintable, lines)).rstrip() + "\n"


def _commands(document: Document) -> list[str]:
    lines: list[str] = []
    for command in shown_commands(document["commands"]):
        shown = command_lines(command)
        lines.append(f"{command['step']}. {shown.title}")
        lines += [f"   - − {line}" for line in shown.removed]
        lines += [f"   - + {line}" for line in shown.launched]
        lines += [f"   - {line}" for line in shown.moved]
    rest = more_commands(document)
    lines += [] if rest is None else ["", rest]
    return [*lines, ""] if lines else []


def _held(document: Document) -> list[str]:
    rows = [f"| {row.what} | {row.nodes} | {row.saving} |" for row in held_rows(document)]
    if not rows:
        return []
    return [
        f"**{held_title(document)}**",
        "",
        "| by | nodes | saving |",
        "|---|--:|--:|",
        *rows,
        "",
    ]


def _stay(document: Document) -> list[str]:
    lines = [f"- {line}" for line in stay_lines(document)]
    return [*lines, ""] if lines else []


def _figures(document: Document) -> list[str]:
    heading, *rows = figure_rows(document)
    table = [f"| {' | '.join(heading)} |", "|---|--:|--:|--:|"]
    return [*table, *(f"| {' | '.join(row)} |" for row in rows), ""]
