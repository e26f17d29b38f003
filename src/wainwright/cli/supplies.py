"""Supplies: what the commands that look at the catalogue take, and the catalogue they get."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.fault import did_you_mean
from wainwright.api.nodepool import NodePool
from wainwright.catalogue.built import Built
from wainwright.catalogue.layers import Catalogues
from wainwright.catalogue.remarks import Refused, Remark
from wainwright.catalogue.settings import Options
from wainwright.catalogue.supply import Gates, Scope, Supply
from wainwright.cli.flags import LOOKING, with_flags
from wainwright.cli.inputs import progress
from wainwright.cli.places import problems
from wainwright.cli.problems import show
from wainwright.errors import Usage
from wainwright.manifests.problem import Report
from wainwright.manifests.refused import InputRefused
from wainwright.manifests.world import World, default_class, read
from wainwright.offline import Conditions, scope_of, supply_of

GATES: Final = {
    "CapacityReservations": "capacity_reservations",
    "ReservedCapacity": "capacity_reservations",
    "NodeOverlay": "node_overlay",
    "SpotToSpotConsolidation": "",
}
"""Gate to the field that it switches; empty where another command cares for it."""

supplied = with_flags(LOOKING)
"""Gives a command the flags that describe what there is to buy."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The flags and files of a command, as click hands them over."""

    files: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    cloud: str | None = None
    catalog: str | None = None
    region: str | None = None
    nodepool: str | None = None
    nodeclass: str | None = None
    now: str | None = None
    gates: tuple[str, ...] = ()
    vm_memory_overhead_percent: float = 7.5
    reserved_enis: int = 0
    prefix_delegation: bool = False

    @property
    def by_flag(self) -> list[str]:
        """The files that have a flag of their own."""
        return [name for name in (self.cloud, self.catalog) if name is not None]

    @property
    def arguments(self) -> list[str]:
        everything = [*self.files, *self.more]
        if [*everything, *self.by_flag].count("-") > 1:
            raise Usage("standard input can be read only once", hint="name - once")
        return everything


class Supplies:
    """The input of a command, and the catalogue that it asks for."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        with progress() as report:
            self.world = read(
                asked.arguments, cloud=asked.cloud, catalog=asked.catalog, progress=report
            )
        self.pool = _pool(self.world, asked.nodepool)
        self.scope = _scope(self.world, asked, self.pool)

    def built(self) -> Built:
        """The catalogue; notes about it go to standard error, and refusals name file and line."""
        try:
            made = Catalogues(supply(self.world, self.asked, self.scope)).of(self.scope)
        except Refused as refused:
            errors = self._placed(refused.remarks)
            raise InputRefused(Report(errors=errors, warnings=self.world.notes)) from refused
        notes = [*self.world.notes, *self._placed(made.remarks)]
        show(notes, word="note", colour="yellow")
        return made

    def _placed(self, remarks: Sequence[Remark]) -> list[Any]:
        return problems(remarks, [*self.asked.by_flag, *self.asked.arguments])


def supply(world: World, asked: Asked, scope: Scope) -> Supply:
    """Everything that the layers are made of. The clock is read here and nowhere else."""
    conditions = Conditions(
        now=moment(asked.now), region=asked.region, gates=gates(asked.gates), rules=rules(asked)
    )
    return supply_of(world, conditions, [scope])


def rules(asked: Asked) -> Options:
    return Options(
        vm_memory_overhead=Fraction(str(asked.vm_memory_overhead_percent)) / 100,
        reserved_enis=asked.reserved_enis,
        prefix_delegation=asked.prefix_delegation,
    )


def moment(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise Usage(f"--now: {text!r} is no time", "write it as 2026-01-31T08:00:00Z") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def gates(given: Sequence[str]) -> Gates:
    """The gates as switched; the last word about each counts."""
    switched: dict[str, bool] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in GATES:
            known = did_you_mean(name, list(GATES)) or f"there are {', '.join(GATES)}"
            raise Usage(f"there is no feature gate {name!r}", known)
        if value.lower() not in ("true", "false"):
            raise Usage(f"--feature-gate {text}: neither true nor false", f"write {name}=false")
        if GATES[name]:
            switched[GATES[name]] = value.lower() == "true"
    return Gates(**switched)


def _pool(world: World, name: str | None) -> NodePool | None:
    if name is None:
        return None
    found = [pool for pool in world.pools if pool.metadata.name == name]
    if not found:
        raise _unknown("NodePool", name, [pool.metadata.name for pool in world.pools])
    return found[0]


def _scope(world: World, asked: Asked, pool: NodePool | None) -> Scope:
    """The pool's, the class's, or the only one that there is."""
    if asked.nodepool is not None and asked.nodeclass is not None:
        raise Usage("--nodepool has a class of its own", "leave --nodeclass out")
    if pool is not None:
        return scope_of(world, pool)
    known = {each.metadata.name: each for each in map(world.class_of, world.pools)}
    known |= {each.metadata.name: each for each in world.classes}
    if asked.nodeclass is not None:
        if asked.nodeclass not in known:
            raise _unknown("EC2NodeClass", asked.nodeclass, sorted(known))
        return Scope(node_class=known[asked.nodeclass])
    return _only(world, list(known.values()))


def _only(world: World, classes: list[EC2NodeClass]) -> Scope:
    if any(not _alike(each, classes[0]) for each in classes[1:]):
        names = ", ".join(sorted(each.metadata.name for each in classes))
        hint = "name one with --nodeclass, or a pool with --nodepool"
        raise Usage(f"the input has several classes, and they differ: {names}", hint)
    if len(world.pools) == 1:
        return scope_of(world, world.pools[0])
    return Scope(node_class=classes[0] if classes else default_class())


def _alike(one: EC2NodeClass, other: EC2NodeClass) -> bool:
    return one.spec == other.spec and one.metadata.annotations == other.metadata.annotations


def _unknown(kind: str, name: str, known: list[str]) -> Usage:
    hint = did_you_mean(name, known) or (f"there are {', '.join(known)}" if known else "")
    return Usage(f"the input has no {kind} {name}", hint)
