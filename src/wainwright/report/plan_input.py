"""The exact input of a plan and of its outputs, as one value that can be saved and read again.

`wain plan --save-input FILE` writes what was decided on: the snapshot, the instance types of each
NodePool, the options, and the notes about the files that it came from. `wain plan FILE` then gives
the same bytes on any machine, without the files: this is how bugs are reported. The same holds for
`wain consolidate`, whose settings are saved beside.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.wire import to_manifest
from wainwright.core.disruption.disruption_input import (
    MAX_STEPS,
    DisruptionInput,
    DisruptionOptions,
)
from wainwright.errors import InvalidInputError
from wainwright.manifests.problems import Problem
from wainwright.messages.input_remarks import region_note
from wainwright.model.disruption import FailedStart, Pause, RepairPolicy
from wainwright.model.input_remarks import RegionChoice
from wainwright.model.instance_type import InstanceType, OfferedTypes
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.overlays import AppliedOverlays
from wainwright.model.plan import PlanOptions
from wainwright.model.serialization import decode_model, encode_model, from_plain
from wainwright.model.snapshot import Snapshot
from wainwright.offline import PreparedInput, plan_depends_on_time
from wainwright.report.pool_warnings import pool_warnings
from wainwright.translate.disruption import paused_by_annotation

API_VERSION: Final = "wainwright.dev/v1alpha1"
KIND: Final = "PlanInput"
HEAD: Final = f'{{"apiVersion":"{API_VERSION}","kind":"{KIND}",'.encode()
"""How a saved file begins: nothing else is read of a file to tell whether it is one."""
RECORDED_INPUT: Final = "input.json"
RECORDED_OUTPUT: Final = "output.json"
"""The two files of a decision that `wain run --record` keeps."""


class ClassFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What nodes of a NodePool get from its EC2NodeClass, as far as they drift when it changes."""

    hash: str
    deselected: tuple[str, ...] = ()
    """Active reservations that the class does not select."""


class LiveDisruption(msgspec.Struct, frozen=True, kw_only=True):
    """What controllers know besides the objects of the cluster."""

    nominated: frozenset[str] = frozenset()
    paused: frozenset[str] = frozenset()
    repair_policies: tuple[RepairPolicy, ...] = ()
    failed_starts: tuple[FailedStart, ...] = ()


class ConsolidationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `wain consolidate` depends on besides the input of a plan."""

    options: DisruptionOptions
    steps: int = MAX_STEPS
    offered: Mapping[str, OfferedTypes] = {}
    """By NodePool what exists of the types that its nodes have, without a price included."""
    shows_time: bool = True
    """Whether the time was given, or anything is compared with it."""
    live: LiveDisruption | None = None
    """None for the input of manifests."""


class PlanInput(msgspec.Struct, frozen=True, kw_only=True):
    """All that a plan, or a consolidation, and its outputs are made of."""

    now: str
    shows_time: bool = True
    """Whether the time was given, or anything in a plan depends on it."""
    options: PlanOptions
    snapshot: Snapshot
    indexes: Mapping[str, InstanceTypeIndex]
    """The compiled instance types of each NodePool, by name."""
    file_notes: tuple[Problem, ...]
    """Notes that refer to a place in a file."""
    other_notes: tuple[Problem, ...] = ()
    """Those that do not change the plan."""
    input_notes: tuple[str, ...]
    """The same as the plan's JSON has them."""
    warnings: tuple[str, ...]
    """Those that refer to no place."""
    node_pools: Mapping[str, NodePool]
    region: RegionChoice
    overlays: Mapping[str, AppliedOverlays] = {}
    classes: Mapping[str, ClassFacts] = {}
    """By NodePool; empty where nobody has asked for it."""
    consolidation: ConsolidationSettings | None = None
    """None for the input of a plan."""

    @property
    def disruption(self) -> DisruptionInput:
        """The cluster, and what can be launched for it."""
        live = None if self.consolidation is None else self.consolidation.live
        if live is not None:
            return DisruptionInput(
                snapshot=self.snapshot,
                catalogs=self.indexes,
                nominated=live.nominated,
                paused=live.paused,
                repair_policies=live.repair_policies,
                failed_starts=live.failed_starts,
                is_live=True,
            )
        stated = {} if self.consolidation is None else self.consolidation.offered
        indexes = {id(index): index for index in self.indexes.values()}
        known = {key: _offered_types(index) for key, index in indexes.items()}
        offered = {
            name: {**known[id(index)], **stated[name]} if name in stated else known[id(index)]
            for name, index in self.indexes.items()
        }
        return DisruptionInput(
            snapshot=self.snapshot,
            catalogs=self.indexes,
            offered=offered,
            paused=paused_by_annotation(self.snapshot.pools, Pause.DISRUPTION),
        )


def _offered_types(index: InstanceTypeIndex) -> OfferedTypes:
    return {
        each.name: tuple(offering.requirements for offering in each.offerings)
        for each in index.types
    }


class SavedInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A PlanInput as it is written; NodePools with the same instance types share one list."""

    api_version: str = API_VERSION
    kind: str = KIND
    wainwright: str
    """The version that wrote it."""
    now: str
    shows_time: bool = True
    options: PlanOptions
    snapshot: Snapshot
    instance_types: tuple[tuple[InstanceType, ...], ...]
    instance_types_of: dict[str, int]
    zones: tuple[tuple[str, ...], ...]
    """By list of instance types: an offering that names no zone is in each of them."""
    file_notes: tuple[Problem, ...]
    other_notes: tuple[Problem, ...] = ()
    input_notes: tuple[str, ...]
    warnings: tuple[str, ...]
    node_pools: dict[str, dict[str, Any]]
    region: RegionChoice
    overlays: dict[str, AppliedOverlays]
    classes: dict[str, ClassFacts] = {}
    consolidation: ConsolidationSettings | None = None


def plan_input(
    prepared: PreparedInput,
    *,
    now: str,
    is_time_given: bool = False,
    file_notes: tuple[Problem, ...] = (),
    other_notes: tuple[Problem, ...] = (),
) -> PlanInput:
    """The input of a plan made from manifests; overlays are added by `with_overlays`."""
    manifests = prepared.manifests
    notes = [*map(_format_problem, manifests.notes), *map(str, prepared.diagnostics)]
    notes += map(_format_problem, manifests.other_notes)
    if not prepared.region.is_stated:
        notes.insert(0, region_note(prepared.region))
    return PlanInput(
        now=now,
        shows_time=is_time_given or plan_depends_on_time(prepared),
        options=prepared.settings.options,
        snapshot=prepared.snapshot,
        indexes={name: catalog.index for name, catalog in prepared.catalogs.items()},
        file_notes=file_notes,
        other_notes=other_notes,
        input_notes=tuple(notes),
        warnings=(*pool_warnings(prepared), *prepared.warnings),
        node_pools={pool.metadata.name: pool for pool in manifests.pools},
        region=prepared.region,
    )


def with_overlays(given: PlanInput, prepared: PreparedInput) -> PlanInput:
    """Which overlays apply is asked of every offering, and needed for NodeClaims only."""
    overlays = {name: each.applied_overlays() for name, each in prepared.catalogs.items()}
    return msgspec.structs.replace(given, overlays=overlays)


def with_classes(given: PlanInput, prepared: PreparedInput) -> PlanInput:
    """What the classes say, for the drift that a change of them causes."""
    from wainwright.offline_disruption import ClassDrift  # a plan does not need it

    drift = ClassDrift(prepared)
    classes = {
        pool.metadata.name: ClassFacts(
            hash=drift.class_hash(pool.metadata.name),
            deselected=drift.deselected_reservations(pool.metadata.name),
        )
        for pool in prepared.manifests.pools
    }
    return msgspec.structs.replace(given, classes=classes)


def with_consolidation(
    given: PlanInput,
    prepared: PreparedInput,
    *,
    options: DisruptionOptions,
    steps: int,
    time_given: bool,
) -> PlanInput:
    """With the drift of its nodes, and what `wain consolidate` depends on besides."""
    from wainwright.offline_disruption import (  # a plan does not need it
        depends_on_time,
        disruption_input,
        disruption_warnings,
    )

    disruption = disruption_input(prepared)
    settings = ConsolidationSettings(
        options=options,
        steps=steps,
        offered=disruption.offered,
        shows_time=time_given or depends_on_time(prepared),
    )
    return msgspec.structs.replace(
        given,
        snapshot=disruption.snapshot,
        warnings=(*given.warnings, *disruption_warnings(prepared)),
        consolidation=settings,
    )


def _format_problem(problem: Problem) -> str:
    if not problem.file:
        return problem.message
    place = f"{problem.file}:{problem.line}" if problem.line is not None else problem.file
    return (
        f"{place}: {problem.path}: {problem.message}"
        if problem.path
        else (f"{place}: {problem.message}")
    )


def save_plan_input(given: PlanInput, file: str, *, version: str) -> None:
    """Write the input; a file that cannot be written is an error of the caller's."""
    Path(file).write_bytes(encode_plan_input(given, version=version))


def redact_plan_input(
    given: PlanInput, redact: Callable[[dict[str, Any]], dict[str, Any]]
) -> PlanInput:
    """The input as it would be saved, without what `redact` takes from it."""
    plain = msgspec.json.decode(encode_plan_input(given, version=""))
    saved = from_plain(redact(plain), SavedInput)
    return decode_plan_input(encode_model(saved))


def encode_plan_input(given: PlanInput, *, version: str) -> bytes:
    indexes = list({id(index): index for index in given.indexes.values()}.values())
    numbers = {id(index): number for number, index in enumerate(indexes)}
    saved = SavedInput(
        wainwright=version,
        now=given.now,
        shows_time=given.shows_time,
        options=given.options,
        snapshot=given.snapshot,
        instance_types=tuple(index.types for index in indexes),
        instance_types_of={name: numbers[id(index)] for name, index in given.indexes.items()},
        zones=tuple(index.zones for index in indexes),
        file_notes=given.file_notes,
        other_notes=given.other_notes,
        input_notes=given.input_notes,
        warnings=given.warnings,
        node_pools={name: to_manifest(pool) for name, pool in given.node_pools.items()},
        region=given.region,
        overlays=dict(given.overlays),
        classes=dict(given.classes),
        consolidation=given.consolidation,
    )
    return encode_model(saved) + b"\n"


def is_saved_input(path: str) -> bool:
    """Whether the file was written by `--save-input`, or the folder by `wain run --record`."""
    file = _input_file(path)
    if not os.path.isfile(file):  # noqa: PTH113  # Path.is_file raises for a name that is too long
        return False
    try:
        with Path(file).open("rb") as opened:
            return opened.read(len(HEAD)) == HEAD
    except OSError:  # reported where the file is read
        return False


def _input_file(path: str) -> str:
    is_folder = os.path.isdir(path)  # noqa: PTH112  # as above
    return str(Path(path) / RECORDED_INPUT) if is_folder else path


def load_plan_input(path: str) -> PlanInput:
    file = _input_file(path)
    try:
        return decode_plan_input(Path(file).read_bytes())
    except msgspec.DecodeError as error:
        raise InvalidInputError(
            f"{file} is not an input that this version of wain can read: {error}",
            hint="write it again with: wain plan … --save-input FILE",
        ) from error


def decode_plan_input(encoded: bytes) -> PlanInput:
    """Raises msgspec.DecodeError."""
    saved = decode_model(encoded, SavedInput)
    pools = {name: msgspec.convert(pool, NodePool) for name, pool in saved.node_pools.items()}
    indexes = [
        InstanceTypeIndex(types, zones=zones)
        for types, zones in zip(saved.instance_types, saved.zones, strict=True)
    ]
    return PlanInput(
        now=saved.now,
        shows_time=saved.shows_time,
        options=saved.options,
        snapshot=saved.snapshot,
        indexes={name: indexes[number] for name, number in saved.instance_types_of.items()},
        file_notes=saved.file_notes,
        other_notes=saved.other_notes,
        input_notes=saved.input_notes,
        warnings=saved.warnings,
        node_pools=pools,
        region=saved.region,
        overlays=saved.overlays,
        classes=saved.classes,
        consolidation=saved.consolidation,
    )
