"""Validates every object of the input: its kind, its fields, duplicates."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from wainwright.api.field_error import FieldError, format_value
from wainwright.api.kinds import (
    KindFamily,
    KnownKind,
    is_misplaced_kind,
    is_own_group,
    known_kinds,
    suggest_kind,
)
from wainwright.api.kubernetes.object_reader import ObjectReader
from wainwright.api.pod_template_paths import PodTemplatePaths, PodTemplatePathsSpec
from wainwright.api.validation.object_validation import validate_object
from wainwright.gc_pause import gc_paused
from wainwright.manifests.annotation_warnings import find_annotation_problems
from wainwright.manifests.documents import (
    DEFAULT_READ_OPTIONS,
    ManifestDocument,
    ProgressCallback,
    ReadOptions,
    load_manifests,
    locate_error,
    no_progress,
)
from wainwright.manifests.duplicates import replace_duplicates
from wainwright.manifests.folder_scan import describe_skipped
from wainwright.manifests.misspellings import find_misspellings
from wainwright.manifests.other_kinds import OtherKinds
from wainwright.manifests.placeholders import name_placeholder
from wainwright.manifests.problems import Problem, ProblemReport, sort_problems

OWN_VERSION: Final = "wainwright.dev/v1alpha1"
OUTPUT_KINDS: Final = frozenset(
    (OWN_VERSION, kind)
    for kind in ("Consolidation", "Plan", "PlanDiff", "Reservations", "Simulation")
)
SCENARIO_KIND: Final = (OWN_VERSION, "Scenario")
SCHEDULER_CONFIG_KIND: Final = ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration")
TOO_DEEP: Final = FieldError(path=(), message="nested too deeply to be a manifest")


class ObjectFindings(msgspec.Struct, frozen=True):
    """An object's kind, where it is known, and its field errors."""

    kind: KnownKind | None
    field_errors: list[FieldError]
    is_other_kind: bool = False
    """Whether it is a well-formed object of a kind that is not read."""


def examine_object(value: Any, kubernetes_reader: ObjectReader) -> ObjectFindings:
    """Validate an object as `wain validate` does; never raises."""
    try:
        return _examine_known(value, kubernetes_reader)
    except RecursionError:
        return ObjectFindings(None, [TOO_DEEP])


def identify_kind(value: Any) -> ObjectFindings:
    """The kind of the value; a field error where it should be a known one and is not."""
    kind = _lookup_kind(value)
    if kind is not None:
        return ObjectFindings(kind, [])
    field_errors = header_errors(value) or _kind_errors(value["apiVersion"], value["kind"])
    return ObjectFindings(None, field_errors, is_other_kind=not field_errors)


def _lookup_kind(value: Any) -> KnownKind | None:
    try:
        return known_kinds().get((value["apiVersion"], value["kind"]))
    except (KeyError, TypeError):
        return None


def _examine_known(value: Any, kubernetes_reader: ObjectReader) -> ObjectFindings:
    findings = identify_kind(value)
    kind = findings.kind
    if kind is None:
        return findings
    match kind.family:
        case KindFamily.KUBERNETES:
            return ObjectFindings(kind, kubernetes_reader.read(value)[1])
        case KindFamily.LEGACY:
            return ObjectFindings(kind, [_legacy_kind_error(kind)])
        case _:
            return ObjectFindings(kind, validate_object(kind, value))


def header_errors(value: Any) -> list[FieldError]:
    """What keeps a value from being an object at all."""
    if not isinstance(value, dict):
        return [
            FieldError(
                path=(),
                message="not a Kubernetes object",
                found=format_value(value),
                expected="a mapping with apiVersion, kind and metadata",
            )
        ]
    return [
        FieldError(
            path=(key,) if key in value else (),
            message=f"{key} is missing" if value.get(key) is None else f"{key} is not text",
            found=format_value(value[key]) if key in value else "nothing",
            expected=f"{key}: {example}",
        )
        for key, example in (("apiVersion", "karpenter.sh/v1"), ("kind", "NodePool"))
        if not isinstance(value.get(key), str) or not value[key]
    ]


def _kind_errors(api_version: str, kind: str) -> list[FieldError]:
    """What is wrong with a kind that is not read; nothing where it belongs to somebody else."""
    message = ""
    if (api_version, kind) in OUTPUT_KINDS:
        message = f"a {kind} is what wain prints, not what it reads; it was ignored"
    elif (api_version, kind) == SCENARIO_KIND:
        message = "a Scenario is what wain simulate runs; the other documents were read without it"
    elif (api_version, kind) == SCHEDULER_CONFIG_KIND:
        message = f"a {kind} counts only where --scheduler-config names it; it was ignored"
    if message:
        return [FieldError(path=("kind",), message=message, found=kind, warning=True)]
    if is_own_group(api_version) or is_misplaced_kind(api_version, kind):
        return [_unknown_kind(api_version, kind)]
    return []


def _unknown_kind(api_version: str, kind: str) -> FieldError:
    return FieldError(
        path=("kind",),
        message=f"there is no kind {kind} in {api_version}",
        found=f"{kind} of {api_version}",
        expected="a kind that is known",
        hint=suggest_kind(api_version, kind),
    )


def _legacy_kind_error(kind: KnownKind) -> FieldError:
    return FieldError(
        path=("apiVersion",),
        message=f"{kind.name} of {kind.api_version} is an old kind that an API server of today "
        "does not have",
        found=kind.api_version,
        expected="karpenter.sh/v1 or karpenter.k8s.aws/v1",
        hint="turn it into v1 with: wain convert FILE",
    )


class ValidatedManifests:
    """The objects read, in order, with errors and warnings."""

    def __init__(self) -> None:
        self.objects: list[tuple[ManifestDocument, KnownKind | None]] = []
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []
        self.notes: list[Problem] = []
        self.other_kinds = OtherKinds()

    @property
    def report(self) -> ProblemReport:
        return ProblemReport(
            errors=sort_problems(self.errors),
            warnings=sort_problems(self.warnings),
            notes=self.notes,
        )


def validate_manifests(
    arguments: Iterable[str],
    progress: ProgressCallback = no_progress,
    options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> ValidatedManifests:
    """Read and validate all files of the arguments."""
    loaded, validated, kubernetes_reader = (
        load_manifests(arguments, progress, render=options.render),
        ValidatedManifests(),
        ObjectReader(),
    )
    validated.errors.extend(loaded.problems)
    validated.warnings.extend(loaded.warnings)
    with gc_paused():
        for document in loaded.documents:
            _validate_document(document, validated, kubernetes_reader)
    validated.warnings.extend(
        locate_error(document, warning)
        for document, warning in find_misspellings(loaded.documents, options.known_values)
    )
    validated.warnings.extend(
        locate_error(document, warning)
        for document, warning in find_annotation_problems(loaded.documents)
    )
    expansion = validated.other_kinds.expand(_stated_paths(validated), verbose=options.verbose)
    validated.warnings.extend(expansion.misspellings)
    validated.notes.extend(expansion.notes)
    if not options.quiet:
        validated.notes.extend(expansion.irrelevant)
        validated.notes.extend(describe_skipped(loaded.skipped, verbose=options.verbose))
    known_duplicates = replace_duplicates(validated.objects)[1]
    duplicates = [*loaded.duplicate_keys, *known_duplicates, *expansion.duplicates]
    (validated.errors if options.strict else validated.warnings).extend(duplicates)
    return validated


def _stated_paths(validated: ValidatedManifests) -> Iterator[PodTemplatePathsSpec]:
    for document, kind in validated.objects:
        if kind is not None and kind.type is PodTemplatePaths:
            with suppress(msgspec.ValidationError):  # reported as errors of the document
                yield msgspec.convert(document.value, PodTemplatePaths).spec


def _validate_document(
    document: ManifestDocument, validated: ValidatedManifests, kubernetes_reader: ObjectReader
) -> None:
    findings = examine_object(document.value, kubernetes_reader)
    validated.objects.append((document, findings.kind))
    if findings.is_other_kind:
        validated.other_kinds.add(document)
    for each in findings.field_errors:
        field_error = name_placeholder(document.value, each)
        accepted = field_error.warning and not field_error.placeholder
        (validated.warnings if accepted else validated.errors).append(
            locate_error(document, field_error)
        )
