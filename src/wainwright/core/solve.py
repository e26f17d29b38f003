"""Solve: everything compiled for one set of pods, then the rounds."""

from collections.abc import Iterable, Mapping, Sequence

from wainwright.core.drafts import DraftTable
from wainwright.core.ladder import Ladder
from wainwright.core.nodes import NodeTable
from wainwright.core.opening import Openings
from wainwright.core.order import queue
from wainwright.core.reservations import Stock, numbered
from wainwright.core.rounds import Rounds
from wainwright.core.slack import Slack
from wainwright.core.templates import Template
from wainwright.core.wishes import Classes
from wainwright.model.options import Options
from wainwright.model.pod import Pod


class Solution:
    """Where every pod went, and what is left to those that found no place."""

    __slots__ = ("classes", "rounds")

    def __init__(self, classes: Classes, rounds: Rounds) -> None:
        self.classes = classes
        self.rounds = rounds


def solve(
    pods: Iterable[Pod],
    templates: Sequence[Template],
    nodes: NodeTable,
    free: Mapping[str, int],
    options: Options,
) -> Solution:
    """Places the pods; `free` says how many slots each reservation has."""
    classes = Classes(pods)
    slack = Slack(classes.wishes, len(classes.resources))
    stock = _stocked(templates, free, gate=options.capacity_reservations)
    _introduce(classes, templates, nodes, slack)
    ladder = Ladder(templates, Openings(options.min_values_policy, stock))
    table = DraftTable(templates, slack)
    rounds = Rounds(templates, nodes, table, ladder, classes.resources)
    rounds.strict_weights = options.strict_weights
    rounds.run(queue(classes.all))
    return Solution(classes, rounds)


def _stocked(templates: Sequence[Template], free: Mapping[str, int], *, gate: bool) -> Stock:
    numbers = numbered(template.index for template in templates) if gate else {}
    for template in templates if gate else ():
        template.stock_up(numbers)
    return Stock({name: free[name] for name in numbers}, numbers)


def _introduce(
    classes: Classes, templates: Sequence[Template], nodes: NodeTable, slack: Slack
) -> None:
    """Lets pools, nodes and the slack index know what will be asked of them."""
    resources = classes.resources
    for template in templates:
        template.number_resources(resources)
    node_slack = Slack(classes.wishes if nodes.nodes else (), len(resources))
    nodes.prepare(resources, node_slack)
    for ask in classes.asks.values():
        ask.terms = [template.terms(ask) for template in templates]
        ask.refused_by = tuple(n for n, terms in enumerate(ask.terms) if terms is None)
        ask.nodes = nodes.admitting(ask)
    for wish in classes.wishes:
        wish.short = slack.places(wish.amounts)
        wish.short_nodes = node_slack.places(wish.amounts) if nodes.nodes else ()
