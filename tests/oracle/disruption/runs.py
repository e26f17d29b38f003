"""One cluster through both: our preview, and the oracle looped like it: each command is applied
before the next is asked for, until nothing is left to do.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import fsum
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from tests.oracle.client import Oracle, OracleAnswer, OracleClaim
from tests.oracle.disruption.clusters import launch_node
from tests.oracle.random_catalog import Manifest
from tests.oracle.random_cluster import RandomCluster
from tests.oracle.runs import (
    NOW,
    CatalogMismatch,
    bind_pod,
    prepare_cluster,
    to_planned_claim,
)
from tests.support.disruption_checker import (
    CheckedCluster,
    CheckedCommand,
    CheckedRules,
    check_sequence,
)
from tests.support.random_inputs.unconstrained import PlannerInput

from wainwright.core.disruption.disruption_input import (
    DisruptionInput,
    DisruptionOptions,
    ReplacementRules,
)
from wainwright.core.disruption.preview import preview_disruption
from wainwright.core.launch.launch_choice import choose_offering, options_of_claim
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, ZONE
from wainwright.model.plan import NodeAssignment, PlannedLaunch, PlannedNodeClaim
from wainwright.offline import PreparedInput

MAX_COMMANDS: Final = 300


class DisruptionRun(msgspec.Struct, frozen=True, kw_only=True):
    """What one of both made of a cluster."""

    before: float
    """USD per hour of all nodes."""
    after: float
    commands: tuple[CheckedCommand, ...]
    complaints: tuple[str, ...] = ()
    """What the checker has to say."""
    settled: bool = True

    @property
    def saving(self) -> float:
        return self.before - self.after

    @property
    def moves(self) -> Counter[str]:
        """How often each pod was moved."""
        return Counter(pod for command in self.commands for pod, _ in command.targets())

    @property
    def evictions(self) -> int:
        return self.moves.total()

    @property
    def repeated(self) -> int:
        """Moves of pods that had been moved before."""
        return sum(count - 1 for count in self.moves.values())

    def lines(self) -> list[str]:
        return [
            f"{command.method} {', '.join(command.nodes)}"
            + "".join(
                f" -> {claim.launch.instance_type} {claim.launch.capacity_type}"
                f" {claim.launch.zone} {claim.launch.price:.5f}"
                f" ({len(claim.choices.instance_types)} types)"
                for claim in command.replacements
            )
            + f", {len(command.targets())} pods moved"
            for command in self.commands
        ]


def disruption_options(cluster: RandomCluster) -> DisruptionOptions:
    return DisruptionOptions(plan=cluster.options, rules=ReplacementRules(spot_to_spot=True))


def run_ours(cluster: RandomCluster) -> DisruptionRun:
    ready, options = prepare_cluster(cluster), disruption_options(cluster)
    catalogs = {name: built.index for name, built in ready.catalogs.items()}
    given = DisruptionInput(snapshot=ready.snapshot, catalogs=catalogs)
    found = preview_disruption(given, options, MAX_COMMANDS)
    start = _checked(ready, options)
    commands = tuple(map(CheckedCommand.of, found.commands))
    complaints, _ = check_sequence(start, commands)
    return DisruptionRun(
        before=start.price,
        after=found.price_after,
        commands=commands,
        complaints=tuple(complaints),
        settled=found.settled,
    )


def _checked(ready: PreparedInput, options: DisruptionOptions) -> CheckedCluster:
    types = {name: built.index.types for name, built in ready.catalogs.items()}
    cluster = PlannerInput(snapshot=ready.snapshot, types=types, options=options.plan)
    return CheckedCluster.start(cluster, CheckedRules.of(options))


def run_theirs(oracle: Oracle, cluster: RandomCluster) -> DisruptionRun:
    loop = _TheirLoop(cluster)
    for _ in range(MAX_COMMANDS):
        answer = oracle.schedule(disruption_question(loop.cluster))
        if answer.command is None:
            return loop.run(settled=True)
        loop.take(answer)
    return loop.run(settled=False)


def disruption_question(cluster: RandomCluster) -> dict[str, Any]:
    asked = cluster.question()
    options = asked["options"] | {"disrupt": True, "spotToSpot": True, "now": NOW.isoformat()}
    return asked | {"options": options}


class _TheirLoop:
    """The cluster as it is by now, and what was done to it."""

    def __init__(self, cluster: RandomCluster) -> None:
        self.cluster = cluster
        self._before = price_of_nodes(cluster)
        self._indexes = _indexes(cluster)
        self._commands: list[CheckedCommand] = []
        self._launched = 0

    def run(self, *, settled: bool) -> DisruptionRun:
        ready = _checked(prepare_cluster(self._start()), disruption_options(self.cluster))
        complaints, _ = check_sequence(ready, self._commands)
        return DisruptionRun(
            before=self._before,
            after=price_of_nodes(self.cluster),
            commands=tuple(self._commands),
            complaints=tuple(complaints),
            settled=settled,
        )

    def _start(self) -> RandomCluster:
        return self._first if self._commands else self.cluster

    def take(self, answer: OracleAnswer) -> None:
        """Replacements come up, pods move, and the nodes go."""
        assert answer.command is not None
        if not self._commands:
            self._first = self.cluster
        claims = [self._claim(each) for each in answer.claims]
        for claim in claims:
            self.cluster = launch_node(self.cluster, claim, claim.name)
        homes = {pod: each.name for each in answer.existing for pod in each.pods}
        homes |= {pod: claim.name for claim in claims for pod in claim.pods}
        objects = tuple(bind_pod(each, homes) for each in self.cluster.objects)
        self._remove(replace(self.cluster, objects=objects), set(answer.command.nodes))
        self._commands.append(
            CheckedCommand(
                method=answer.command.method,
                nodes=answer.command.nodes,
                placements=tuple(
                    NodeAssignment(node=each.name, pods=each.pods) for each in answer.existing
                ),
                replacements=tuple(claims),
            )
        )

    def _claim(self, claim: OracleClaim) -> PlannedNodeClaim:
        """The claim with what our launch choice takes of what is left to it."""
        planned, index = to_planned_claim(claim), self._indexes[claim.nodePool]
        available = {
            each["reservationID"]: each["available"]
            for kind in self.cluster.types
            for each in kind["offerings"]
        }
        try:
            choice = choose_offering(
                options_of_claim(planned, index), lambda name: int(available[name])
            )
        except AssertionError:
            raise CatalogMismatch(f"nothing that {claim} may buy is sold") from None
        self._launched += 1
        bought = choice.offering
        return replace(
            planned,
            name=f"r{self._launched:03}",
            launch=PlannedLaunch(
                instance_type=index.types[choice.type_number].name,
                zone=bought.zone,
                capacity_type=bought.capacity_type or "",
                price=bought.price,
                reservation_id=bought.reservation_id,
            ),
        )

    def _remove(self, cluster: RandomCluster, gone: set[str]) -> None:
        """Reserved instances are free again."""
        nodes = [each for each in cluster.kinds("Node") if each["metadata"]["name"] in gone]
        returned = Counter(each["metadata"]["labels"].get(RESERVATION_ID) for each in nodes)
        types = tuple(_with_returned(kind, returned) for kind in cluster.types)
        kept = tuple(each for each in cluster.objects if not _is_gone(each, gone))
        is_changed = types != self.cluster.types or any(returned.keys() - {None})
        self.cluster = replace(cluster, objects=kept, types=types)
        if is_changed:
            self._indexes = _indexes(self.cluster)


def _indexes(cluster: RandomCluster) -> Mapping[str, InstanceTypeIndex]:
    return {name: built.index for name, built in prepare_cluster(cluster).catalogs.items()}


def _with_returned(kind: Manifest, returned: Mapping[str | None, int]) -> Manifest:
    offerings = [
        each | {"available": each["available"] + returned[each["reservationID"]]}
        if each["reservationID"] is not None and returned.get(each["reservationID"])
        else each
        for each in kind["offerings"]
    ]
    return kind | {"offerings": offerings}


def _is_gone(item: Manifest, gone: set[str]) -> bool:
    match item["kind"]:
        case "Node":
            return item["metadata"]["name"] in gone
        case "NodeClaim":
            return item["status"].get("nodeName") in gone
        case "Pod":
            return item["spec"].get("nodeName") in gone
        case _:
            return False


def price_of_nodes(cluster: RandomCluster) -> float:
    """USD per hour, by the offering of each node."""
    sold = {
        (
            kind["name"],
            each["labels"][ZONE],
            each["labels"][CAPACITY_TYPE],
            each["reservationID"],
        ): (each["price"])
        for kind in cluster.types
        for each in kind["offerings"]
    }
    labels = (each["metadata"]["labels"] for each in cluster.kinds("Node"))
    return fsum(_prices(sold, labels))


def _prices(
    sold: Mapping[tuple[str, str, str, str | None], float], nodes: Iterable[dict[str, str]]
) -> Iterable[float]:
    for labels in nodes:
        place = (labels[INSTANCE_TYPE], labels[ZONE], labels[CAPACITY_TYPE])
        yield sold.get((*place, labels.get(RESERVATION_ID)), 0.0)
