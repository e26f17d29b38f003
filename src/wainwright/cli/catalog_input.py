"""From options and files to the catalog of one class, for the commands that use it.
The clock is read here and nowhere else. Diagnostics of the catalog get the file and line of their
object; errors end the command, all at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from wainwright.api.field_error import closest_match, did_you_mean, format_field_path
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.catalogue.class_catalog import CatalogBuilder, NodeClassCatalog
from wainwright.catalogue.diagnostics import InvalidCatalogInput, ObjectDiagnostic
from wainwright.catalogue.instancetypes.node_class_settings import CatalogOptions
from wainwright.catalogue.region_catalog import CatalogInputs, CatalogScope, FeatureGates
from wainwright.cli.options import CATALOG_OPTIONS, ReadingArguments, add_options, show_progress
from wainwright.cli.printing import print_problems
from wainwright.errors import UsageError
from wainwright.manifests.cluster_manifests import (
    ClusterManifests,
    default_node_class,
    read_manifests,
)
from wainwright.manifests.documents import ManifestDocument, load_manifests, locate_error
from wainwright.manifests.problems import InvalidInput, Problem, ProblemReport
from wainwright.manifests.source_files import STDIN
from wainwright.messages.input_remarks import region_note
from wainwright.model.input_remarks import RegionChoice, RegionSource
from wainwright.offline import PlanSettings, catalog_inputs, catalog_scope, choose_region
from wainwright.sim.settings import FEATURE_GATES


def locate_diagnostics(
    diagnostics: Sequence[ObjectDiagnostic], paths: Iterable[str]
) -> list[Problem]:
    """The diagnostics with file and line.

    The files are read again: few runs have diagnostics, and keeping all documents costs memory.
    """
    if not diagnostics:
        return []
    documents = load_manifests([name for name in paths if name != STDIN]).documents
    return list(dict.fromkeys(_located_problems(diagnostics, documents)))


def _located_problems(
    diagnostics: Iterable[ObjectDiagnostic], documents: Sequence[ManifestDocument]
) -> Iterator[Problem]:
    for diagnostic in diagnostics:
        document = next(
            (candidate for candidate in documents if _is_about(diagnostic, candidate)), None
        )
        yield (
            _unlocated_problem(diagnostic)
            if document is None
            else locate_error(document, diagnostic.field_error)
        )


def _is_about(diagnostic: ObjectDiagnostic, document: ManifestDocument) -> bool:
    value = document.value
    if not isinstance(value, dict) or value.get("kind") != diagnostic.kind:
        return False
    metadata = value.get("metadata")
    return (metadata.get("name") if isinstance(metadata, dict) else None) in (diagnostic.name, None)


def _unlocated_problem(diagnostic: ObjectDiagnostic) -> Problem:
    """For an object from standard input, or one that a conversion created."""
    error = diagnostic.field_error
    return Problem(
        file=f"{diagnostic.kind} {diagnostic.name}".strip(),
        path=format_field_path(error.path),
        found=error.found,
        expected=error.expected,
        message=error.message,
        hint=error.hint,
    )


CATALOGUE_GATES: Final = {
    "CapacityReservations": "capacity_reservations",
    "ReservedCapacity": "capacity_reservations",
    "NodeOverlay": "node_overlay",
    "StaticCapacity": "static_capacity",
}
"""The feature gates that catalogues depend on, by the field of each."""

catalog_options = add_options(CATALOG_OPTIONS)
"""Adds the options that describe the catalog to a command."""


class CatalogArguments(ReadingArguments, frozen=True, kw_only=True):
    """The options and files of a command, as click passes them."""

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
    def flag_files(self) -> list[str]:
        """Files named by an option of their own."""
        return [name for name in (self.cloud, self.catalog) if name is not None]

    @property
    def paths(self) -> list[str]:
        paths = self.named_inputs
        if [*paths, *self.flag_files].count("-") > 1:
            raise UsageError("standard input can be read only once", hint="name - once")
        return paths


class CatalogInput:
    """The manifests of a command, and the scope of its catalog."""

    def __init__(self, arguments: CatalogArguments) -> None:
        self.arguments = arguments
        with show_progress() as report:
            self.manifests = read_manifests(
                arguments.paths,
                cloud=arguments.cloud,
                catalog=arguments.catalog,
                progress=report,
                options=arguments.read_options,
            )
        self.region = choose_region(self.manifests, arguments.region)
        self.pool = _find_pool(self.manifests, arguments.nodepool)
        self.scope = _find_scope(self.manifests, arguments, self.pool)

    def build_catalog(self) -> NodeClassCatalog:
        """The catalog; warnings go to standard error, errors name file and line."""
        try:
            catalog = CatalogBuilder(
                catalog_inputs_for(self.manifests, self.arguments, self.region, self.scope)
            ).build(self.scope)
        except InvalidCatalogInput as error:
            errors = self._locate(error.diagnostics)
            report = ProblemReport(errors=errors, warnings=self.manifests.notes)
            raise InvalidInput(report) from error
        notes = [
            *assumed_region_notes(self.region),
            *self.manifests.notes,
            *self._locate(catalog.diagnostics),
        ]
        print_problems(notes, word="note")
        return catalog

    def print_other_notes(self) -> None:
        """What does not change the answer; to be called after it was printed."""
        inferred = inferred_region_notes(self.region, quiet=self.arguments.quiet)
        print_problems([*inferred, *self.manifests.other_notes], word="note")

    def _locate(self, diagnostics: Sequence[ObjectDiagnostic]) -> list[Any]:
        return locate_diagnostics(diagnostics, [*self.arguments.flag_files, *self.arguments.paths])


def assumed_region_notes(region: RegionChoice) -> list[Problem]:
    """Before the answer: prices and zones are those of a region that nobody named."""
    if region.source is not RegionSource.DEFAULT:
        return []
    return [Problem(file="", message=region_note(region))]


def inferred_region_notes(region: RegionChoice, *, quiet: bool) -> list[Problem]:
    """After the answer: which object of the input told the region."""
    if quiet or region.is_stated or region.source is RegionSource.DEFAULT:
        return []
    return [Problem(file="", message=region_note(region))]


def catalog_inputs_for(
    manifests: ClusterManifests,
    arguments: CatalogArguments,
    region: RegionChoice,
    scope: CatalogScope,
) -> CatalogInputs:
    """The inputs of the catalog's layers. The clock is read here and nowhere else."""
    settings = PlanSettings(
        now=parse_time(arguments.now),
        region=arguments.region,
        gates=parse_feature_gates(arguments.gates),
        rules=catalog_settings(arguments),
    )
    return catalog_inputs(manifests, settings, region, [scope])


def catalog_settings(arguments: CatalogArguments) -> CatalogOptions:
    return CatalogOptions(
        vm_memory_overhead=Fraction(str(arguments.vm_memory_overhead_percent)) / 100,
        reserved_enis=arguments.reserved_enis,
        prefix_delegation=arguments.prefix_delegation,
    )


def parse_time(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"--now: {text!r} is not a time", "write it as 2026-01-31T08:00:00Z"
        ) from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def parse_feature_gates(gates: Sequence[str]) -> FeatureGates:
    """The gates of the catalogue as set; the last value of each counts."""
    enabled = gate_values(gates)
    return FeatureGates(
        **{CATALOGUE_GATES[name]: on for name, on in enabled.items() if name in CATALOGUE_GATES}
    )


def gate_values(gates: Sequence[str]) -> dict[str, bool]:
    """All gates that were set, by name. One that is not known is refused, however it is spelt: it
    is written for this command, not kept from Karpenter as the setting of `wain run` may be.
    """
    enabled: dict[str, bool] = {}
    for text in gates:
        name, _, value = text.partition("=")
        if name not in FEATURE_GATES:
            hint = did_you_mean(name, list(FEATURE_GATES)) or f"one of {', '.join(FEATURE_GATES)}"
            raise UsageError(f"there is no feature gate {name!r}", hint)
        if value.lower() not in ("true", "false"):
            meant = closest_match(value, ["true", "false"])
            hint = (
                f"did you mean {name}={meant}?" if meant else f"write {name}=true or {name}=false"
            )
            raise UsageError(f"--feature-gate {text}: neither true nor false", hint)
        enabled[name] = value.lower() == "true"
    return enabled


def _find_pool(manifests: ClusterManifests, name: str | None) -> NodePool | None:
    if name is None:
        return None
    found = [pool for pool in manifests.pools if pool.metadata.name == name]
    if not found:
        raise _unknown_object("NodePool", name, [pool.metadata.name for pool in manifests.pools])
    return found[0]


def _find_scope(
    manifests: ClusterManifests, arguments: CatalogArguments, pool: NodePool | None
) -> CatalogScope:
    """The scope of --nodepool, of --nodeclass, or the only one of the input."""
    if arguments.nodepool is not None and arguments.nodeclass is not None:
        raise UsageError("--nodepool has a class of its own", "leave --nodeclass out")
    if pool is not None:
        return catalog_scope(manifests, pool)
    known = {each.metadata.name: each for each in map(manifests.class_of, manifests.pools)}
    known |= {each.metadata.name: each for each in manifests.auto_mode_classes}
    known |= {each.metadata.name: each for each in manifests.classes}
    if arguments.nodeclass is not None:
        if arguments.nodeclass not in known:
            raise _unknown_object("EC2NodeClass", arguments.nodeclass, sorted(known))
        return CatalogScope(node_class=known[arguments.nodeclass])
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
    hint = did_you_mean(name, known) or (f"the input has {', '.join(known)}" if known else "")
    return UsageError(f"the input has no {kind} {name}", hint)
