"""From options and files to the catalogue of one class, for the commands that look at it.

The clock is read here and nowhere else. What the catalogue says about objects of the input is
given the file and line of the object; refusals end the command with all of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

import msgspec

from wainwright.api.field_error import did_you_mean, format_field_path
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.catalogue.class_catalog import CatalogBuilder, NodeClassCatalog
from wainwright.catalogue.diagnostics import InvalidCatalogInput, ObjectDiagnostic
from wainwright.catalogue.instancetypes.node_class_settings import CatalogOptions
from wainwright.catalogue.region_catalog import CatalogInputs, CatalogScope, FeatureGates
from wainwright.cli.options import CATALOG_OPTIONS, add_options, show_progress
from wainwright.cli.printing import print_problems
from wainwright.errors import UsageError
from wainwright.manifests.cluster_manifests import (
    ClusterManifests,
    default_node_class,
    read_manifests,
)
from wainwright.manifests.documents import STDIN, ManifestDocument, load_manifests, locate_error
from wainwright.manifests.problems import InvalidInput, Problem, ProblemReport
from wainwright.offline import PlanSettings, catalog_inputs, catalog_scope


def locate_remarks(remarks: Sequence[ObjectDiagnostic], arguments: Iterable[str]) -> list[Problem]:
    """The remarks with their places. The files are read again, as only few runs need this."""
    if not remarks:
        return []
    documents = load_manifests([name for name in arguments if name != STDIN]).documents
    return list(dict.fromkeys(_located_problems(remarks, documents)))


def _located_problems(
    remarks: Iterable[ObjectDiagnostic], documents: Sequence[ManifestDocument]
) -> Iterator[Problem]:
    for remark in remarks:
        home = next((each for each in documents if _is_about(remark, each)), None)
        yield _unlocated_problem(remark) if home is None else locate_error(home, remark.field_error)


def _is_about(remark: ObjectDiagnostic, document: ManifestDocument) -> bool:
    value = document.value
    if not isinstance(value, dict) or value.get("kind") != remark.kind:
        return False
    metadata = value.get("metadata")
    return (metadata.get("name") if isinstance(metadata, dict) else None) in (remark.name, None)


def _unlocated_problem(remark: ObjectDiagnostic) -> Problem:
    """Of an object that came through a pipe, or that a conversion made."""
    fault = remark.field_error
    return Problem(
        file=f"{remark.kind} {remark.name}".strip(),
        path=format_field_path(fault.path),
        found=fault.found,
        expected=fault.expected,
        message=fault.message,
        hint=fault.hint,
    )


FEATURE_GATES: Final = {
    "CapacityReservations": "capacity_reservations",
    "ReservedCapacity": "capacity_reservations",
    "NodeOverlay": "node_overlay",
    "SpotToSpotConsolidation": "",
}
"""Gate to the field that it switches; empty where another command cares for it."""

catalog_options = add_options(CATALOG_OPTIONS)
"""Gives a command the flags that describe what there is to buy."""


class CatalogArguments(msgspec.Struct, frozen=True, kw_only=True):
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
            raise UsageError("standard input can be read only once", hint="name - once")
        return everything


class CatalogInput:
    """The input of a command, and the catalogue that it asks for."""

    def __init__(self, asked: CatalogArguments) -> None:
        self.asked = asked
        with show_progress() as report:
            self.manifests = read_manifests(
                asked.arguments, cloud=asked.cloud, catalog=asked.catalog, progress=report
            )
        self.pool = _find_pool(self.manifests, asked.nodepool)
        self.scope = _find_scope(self.manifests, asked, self.pool)

    def built(self) -> NodeClassCatalog:
        """The catalogue; notes about it go to standard error, and refusals name file and line."""
        try:
            made = CatalogBuilder(catalog_inputs_for(self.manifests, self.asked, self.scope)).build(
                self.scope
            )
        except InvalidCatalogInput as refused:
            errors = self._placed(refused.diagnostics)
            raise InvalidInput(
                ProblemReport(errors=errors, warnings=self.manifests.notes)
            ) from refused
        notes = [*self.manifests.notes, *self._placed(made.diagnostics)]
        print_problems(notes, word="note", colour="yellow")
        return made

    def _placed(self, remarks: Sequence[ObjectDiagnostic]) -> list[Any]:
        return locate_remarks(remarks, [*self.asked.by_flag, *self.asked.arguments])


def catalog_inputs_for(
    manifests: ClusterManifests, asked: CatalogArguments, scope: CatalogScope
) -> CatalogInputs:
    """Everything that the layers are made of. The clock is read here and nowhere else."""
    conditions = PlanSettings(
        now=parse_time(asked.now),
        region=asked.region,
        gates=parse_feature_gates(asked.gates),
        rules=catalog_settings(asked),
    )
    return catalog_inputs(manifests, conditions, [scope])


def catalog_settings(asked: CatalogArguments) -> CatalogOptions:
    return CatalogOptions(
        vm_memory_overhead=Fraction(str(asked.vm_memory_overhead_percent)) / 100,
        reserved_enis=asked.reserved_enis,
        prefix_delegation=asked.prefix_delegation,
    )


def parse_time(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"--now: {text!r} is no time", "write it as 2026-01-31T08:00:00Z"
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def parse_feature_gates(given: Sequence[str]) -> FeatureGates:
    """The gates as switched; the last word about each counts."""
    switched: dict[str, bool] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in FEATURE_GATES:
            known = (
                did_you_mean(name, list(FEATURE_GATES)) or f"there are {', '.join(FEATURE_GATES)}"
            )
            raise UsageError(f"there is no feature gate {name!r}", known)
        if value.lower() not in ("true", "false"):
            raise UsageError(
                f"--feature-gate {text}: neither true nor false", f"write {name}=false"
            )
        if FEATURE_GATES[name]:
            switched[FEATURE_GATES[name]] = value.lower() == "true"
    return FeatureGates(**switched)


def _find_pool(manifests: ClusterManifests, name: str | None) -> NodePool | None:
    if name is None:
        return None
    found = [pool for pool in manifests.pools if pool.metadata.name == name]
    if not found:
        raise _unknown_object("NodePool", name, [pool.metadata.name for pool in manifests.pools])
    return found[0]


def _find_scope(
    manifests: ClusterManifests, asked: CatalogArguments, pool: NodePool | None
) -> CatalogScope:
    """The pool's, the class's, or the only one that there is."""
    if asked.nodepool is not None and asked.nodeclass is not None:
        raise UsageError("--nodepool has a class of its own", "leave --nodeclass out")
    if pool is not None:
        return catalog_scope(manifests, pool)
    known = {each.metadata.name: each for each in map(manifests.class_of, manifests.pools)}
    known |= {each.metadata.name: each for each in manifests.classes}
    if asked.nodeclass is not None:
        if asked.nodeclass not in known:
            raise _unknown_object("EC2NodeClass", asked.nodeclass, sorted(known))
        return CatalogScope(node_class=known[asked.nodeclass])
    return _only_scope(manifests, list(known.values()))


def _only_scope(manifests: ClusterManifests, classes: list[EC2NodeClass]) -> CatalogScope:
    if any(not _is_same_class(each, classes[0]) for each in classes[1:]):
        names = ", ".join(sorted(each.metadata.name for each in classes))
        hint = "name one with --nodeclass, or a pool with --nodepool"
        raise UsageError(f"the input has several classes, and they differ: {names}", hint)
    if len(manifests.pools) == 1:
        return catalog_scope(manifests, manifests.pools[0])
    return CatalogScope(node_class=classes[0] if classes else default_node_class())


def _is_same_class(one: EC2NodeClass, other: EC2NodeClass) -> bool:
    return one.spec == other.spec and one.metadata.annotations == other.metadata.annotations


def _unknown_object(kind: str, name: str, known: list[str]) -> UsageError:
    hint = did_you_mean(name, known) or (f"there are {', '.join(known)}" if known else "")
    return UsageError(f"the input has no {kind} {name}", hint)
