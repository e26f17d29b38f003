"""Solve: everything compiled for one set of pods, then the rounds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from wainwright.core.classes import Classes, Context
from wainwright.core.drafts import DraftTable
from wainwright.core.ladder import Ladder
from wainwright.core.nodes import NodeTable
from wainwright.core.opening import Openings, room
from wainwright.core.order import queue
from wainwright.core.placing import Placing
from wainwright.core.reservations import Shelf, Stock, numbered
from wainwright.core.rounds import Rounds
from wainwright.core.slack import Slack
from wainwright.core.templates import Template
from wainwright.core.topology.groups import SHUNNING, Kind
from wainwright.core.topology.registry import Registry
from wainwright.core.topology.topology import Topology
from wainwright.core.wishes import Ask, PodClass
from wainwright.model.index import TypeIndex
from wainwright.model.markets import Markets
from wainwright.model.options import Options
from wainwright.model.pod import Pod
from wainwright.model.taints import PREFER_NO_SCHEDULE, Taint

PlacingOf: TypeAlias = Callable[
    [Sequence[Template], NodeTable, DraftTable, Ladder, Classes, Topology | None], Placing
]
"""A way of placing pods, made of what it works with."""


class Manner(NamedTuple):
    """How pods are placed."""

    placing: PlacingOf = Placing
    patient: frozenset[Kind] = SHUNNING
    """Groups of these kinds do not make drafts settle before their round is over."""


FIRST_FIT: Final = Manner()


class Solution:
    """Where every pod went, and what is left to those that found no place."""

    __slots__ = ("classes", "free", "on_offer", "placing", "rounds")

    def __init__(self, classes: Classes, rounds: Rounds, free: Mapping[str, int]) -> None:
        self.classes = classes
        self.free = free
        """Slots of each reservation before anything was planned."""
        self.on_offer: Mapping[str, int] = free
        """The same with those that claims under way will take."""
        self.rounds = rounds
        self.placing = rounds.placing

    @property
    def left_out(self) -> int:
        """How many pods found no place."""
        return sum(len(run.pods) for run in self.rounds.failed)

    @property
    def left_out_by_others(self) -> bool:
        """Whether any of them might have found one, had others gone elsewhere."""
        return any(run.group.is_tied and self._is_servable(run.group) for run in self.rounds.failed)

    @property
    def leaves_only_hopeless(self) -> bool:
        """Whether all without a place would have none whatever became of the others."""
        return all(self._is_hopeless(run.group) for run in self.rounds.failed)

    def _is_hopeless(self, group: PodClass) -> bool:
        """Whether no node that stands and no type of any pool would do, be it for taint or size."""
        return not any(
            wish.ask.nodes or any(room(template, wish) for template in self.placing.templates)
            for wish in group.wishes
        )

    def _is_servable(self, group: PodClass) -> bool:
        """Whether a pool would launch a node for its pods if nobody else was there."""
        step = self.placing.ladder.step
        return any(step(stage, wish) for stage in group.stages for wish in stage.wishes)


def solve(
    pods: Sequence[Pod],
    templates: Sequence[Template],
    nodes: NodeTable,
    free: Mapping[str, int],
    options: Options,
    manner: Manner = FIRST_FIT,
) -> Solution:
    """Places the pods; `free` says how many slots each reservation has."""
    registry = Registry()
    registry.introduce(pods, (pod for node in nodes.nodes for pod in node.pods))
    classes = Classes(pods, registry, context(templates, nodes, options))
    slack = Slack(classes.wishes, len(classes.resources))
    stock = stocked(templates, free, gate=options.capacity_reservations)
    acquaint(classes, templates, nodes, slack)
    ladder = Ladder(templates, Openings(options.min_values_policy, stock))
    table = DraftTable(templates, slack)
    topology = Topology(registry, templates, nodes, table, stock) if registry.groups else None
    placing = manner.placing(templates, nodes, table, ladder, classes, topology)
    placing.strict_weights, placing.patient = options.strict_weights, manner.patient
    placing.introduce = lambda ask: introduce(ask, templates)
    rounds = Rounds(placing)
    rounds.run(queue(classes.all))
    return Solution(classes, rounds, free)


def introduce(ask: Ask, templates: Sequence[Template]) -> None:
    """Lets the pools say under which terms they take such pods."""
    ask.terms = [template.terms(ask) for template in templates]
    ask.refused_by = tuple(n for n, terms in enumerate(ask.terms) if terms is None)


def context(templates: Sequence[Template], nodes: NodeTable, options: Options) -> Context:
    """What the cluster and the options say about how pods come apart."""
    taints = [template.pool.taints for template in templates]
    taints += [node.lasting_taints for node in nodes.nodes]
    return Context(
        options=options,
        tainted=any(map(_asks_not_to_come, taints)),
        attachable=any(node.attach_limits for node in nodes.nodes),
    )


def _asks_not_to_come(taints: Iterable[Taint]) -> bool:
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)


def stocked(templates: Sequence[Template], free: Mapping[str, int], *, gate: bool) -> Stock:
    """The slots of reservations, made known to the pools that may use them."""
    numbers = numbered(template.index for template in templates) if gate else {}
    shelves: dict[tuple[TypeIndex, Markets], Shelf] = {}
    for template in templates if gate else ():
        index, admitted = template.index, template.base.reserved
        if (index, admitted) not in shelves:
            shelves[index, admitted] = Shelf(index, admitted, numbers)
        template.shelf = shelves[index, admitted]
    return Stock({name: free[name] for name in numbers}, numbers)


def acquaint(
    classes: Classes, templates: Sequence[Template], nodes: NodeTable, slack: Slack | None
) -> None:
    """Lets pools, nodes and the slack index of drafts know what will be asked of them."""
    resources = classes.resources
    for template in templates:
        template.number_resources(resources)
    node_slack = Slack(classes.wishes if nodes.nodes else (), len(resources))
    nodes.prepare(resources, node_slack)
    for ask in classes.asks.values():
        introduce(ask, templates)
        ask.nodes = nodes.admitting(ask)
    for wish in classes.wishes:
        wish.short = slack.places(wish.amounts) if slack is not None else ()
        wish.short_nodes = node_slack.places(wish.amounts) if nodes.nodes else ()
