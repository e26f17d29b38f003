"""Kinds that are not read field by field: those that create pods are expanded into pod sets, those
that scale them become autoscalers, and of the rest there is one line.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from wainwright.api.field_error import FieldError
from wainwright.api.kinds import KindFamily, KnownKind, known_kinds
from wainwright.api.kubernetes.workloads import OwnedObject
from wainwright.api.pod_template_paths import PodTemplatePathsSpec
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.manifests.builtin_kinds import misspelt_kind
from wainwright.manifests.documents import ManifestDocument, locate_error
from wainwright.manifests.duplicates import replace_duplicates
from wainwright.manifests.pod_sets import (
    PodSetFinder,
    TemplateErrors,
    has_containers,
    is_autoscaler,
    read_autoscaler,
)
from wainwright.manifests.problems import Problem
from wainwright.messages.formatting import format_count

MAX_LISTED_KINDS: Final = 5  # the most frequent ones; --verbose lists all
POD_COUNT_KINDS: Final = frozenset(
    {
        *("CronJob", "SparkApplication", "ScheduledSparkApplication", "RayCluster", "RayJob"),
        *("RayService", "HorizontalPodAutoscaler", "ScaledObject", "ScaledJob", "Rollout"),
        *("LeaderWorkerSet", "JobSet", "VerticalPodAutoscaler", "Workflow", "CronWorkflow"),
        *("PipelineRun", "TaskRun", "InferenceService", "VirtualMachine", "HelmRelease"),
        *(
            "Prometheus",
            "Alertmanager",
            "ThanosRuler",
            "PrometheusAgent",
            "Kafka",
            "FlinkDeployment",
        ),
    }
)
"""Kinds that create pods without listing containers, or change how many there are."""
DEPLOYING_KINDS: Final = frozenset(
    {
        ("argoproj.io", "Application"),
        ("argoproj.io", "ApplicationSet"),
        ("helm.cattle.io", "HelmChart"),
        ("kustomize.toolkit.fluxcd.io", "Kustomization"),
        ("serving.knative.dev", "Service"),
    }
)
"""The same, of kinds whose name alone is too common."""
POLICY_GROUPS: Final = ("kyverno.io", "gatekeeper.sh")
"""Their objects have containers in patterns."""
NODE_KIND_WORDS: Final = ("Machine", "Node")
"""Replicas of kinds with such a word in their name are instances."""


class Expansion(msgspec.Struct, frozen=True, kw_only=True):
    """What other kinds add to the input, and notes on them."""

    objects: list[WireStruct]
    misspellings: list[Problem]
    """Kinds and versions that Kubernetes does not have."""
    duplicates: list[Problem]
    notes: list[Problem]
    """On pods: which were counted, and which not."""
    irrelevant: list[Problem]


class OtherKinds:
    """Collects objects of kinds that are not read."""

    def __init__(self) -> None:
        self._documents: list[ManifestDocument] = []

    def add(self, document: ManifestDocument) -> None:
        self._documents.append(document)

    def expand(self, paths: Iterable[PodTemplatePathsSpec], *, verbose: bool) -> Expansion:
        """The pods that the objects create, as far as they can be counted."""
        finder = PodSetFinder(paths)
        relevant, irrelevant = self._split(finder)
        remaining, duplicates = replace_duplicates(relevant)
        counted, uncounted = Counter[str](), Counter[str]()
        objects: list[WireStruct] = []
        notes: list[Problem] = []
        for document, _ in remaining:
            found = _expand_object(document, finder, notes)
            objects.extend(found)
            if not is_autoscaler(document.value) or not found:
                (counted if found else uncounted)[_kind_text(document.value)] += 1
        notes.extend(_note("expanded into pods by their templates", counted, verbose))
        notes.extend(_note("create or scale pods, which are not counted", uncounted, verbose))
        return Expansion(
            objects=[*objects, *(self._owned_objects() if objects else [])],
            misspellings=list(self._misspellings()),
            duplicates=duplicates,
            notes=notes,
            irrelevant=_note("not relevant to scheduling", irrelevant, verbose),
        )

    def _split(
        self, finder: PodSetFinder
    ) -> tuple[list[tuple[ManifestDocument, KnownKind]], "Counter[str]"]:
        """The objects that matter, and how many others there are of each kind."""
        relevant, irrelevant = [], Counter[str]()
        for document in self._documents:
            value = document.value
            creates_pods = finder.creates_pods(value)
            if creates_pods is None:
                creates_pods = creates_or_scales_pods(value)
            if not creates_pods:
                if _misspelt_kind(value) is None:
                    irrelevant[_kind_text(value)] += 1
            elif not _has_owner(value):  # otherwise its owner stands for it
                relevant.append((document, _namespaced_kind(value)))
        return relevant, irrelevant

    def _misspellings(self) -> Iterator[Problem]:
        for document in self._documents:
            warning = _misspelt_kind(document.value)
            if warning is not None:
                yield locate_error(document, warning)

    def _owned_objects(self) -> Iterator[WireStruct]:
        for document in self._documents:
            metadata = _metadata(document.value) if _has_owner(document.value) else None
            if metadata is not None:
                yield OwnedObject(kind=document.value["kind"], metadata=metadata)


def _misspelt_kind(value: dict[str, Any]) -> FieldError | None:
    return misspelt_kind(value["apiVersion"], value["kind"])


def _expand_object(
    document: ManifestDocument, finder: PodSetFinder, notes: list[Problem]
) -> list[WireStruct]:
    if is_autoscaler(document.value):
        autoscaler = read_autoscaler(document.value)
        return [] if autoscaler is None else [autoscaler]
    try:
        return list(finder.find(document.value) or [])
    except TemplateErrors as error:
        notes.extend(_template_note(document, each) for each in error.field_errors)
        return []


def _template_note(document: ManifestDocument, field_error: FieldError) -> Problem:
    message = f"its pods are not counted: {field_error.message}"
    return locate_error(document, msgspec.structs.replace(field_error, message=message))


def _metadata(value: dict[str, Any]) -> ObjectMeta | None:
    try:
        return msgspec.convert(value.get("metadata") or {}, ObjectMeta)
    except msgspec.ValidationError:
        return None


def _has_owner(value: dict[str, Any]) -> bool:
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("ownerReferences"))


def _namespaced_kind(value: dict[str, Any]) -> KnownKind:
    """By which duplicates are told."""
    family = KindFamily.KUBERNETES
    return KnownKind(
        api_version=value["apiVersion"], name=value["kind"], family=family, type=WireStruct
    )


def creates_or_scales_pods(value: dict[str, Any]) -> bool:
    group, kind = value["apiVersion"].rpartition("/")[0], value["kind"]
    if kind in POD_COUNT_KINDS or (group, kind) in DEPLOYING_KINDS:
        return True
    if group.endswith(POLICY_GROUPS):
        return False
    is_third_party = "." in group and not group.endswith("k8s.io")
    counts_nodes = any(word in kind for word in NODE_KIND_WORDS)
    signs = _any_pod_sign if is_third_party and not counts_nodes else has_containers
    return _any_part(value, signs)


def _any_pod_sign(part: dict[str, Any]) -> bool:
    """Whether an operator makes pods of this: a container, a number of replicas, requests."""
    if has_containers(part) or any(_is_count(part.get(name)) for name in ("replicas", "instances")):
        return True
    container, steps = part.get("container"), part.get("steps")
    if isinstance(container, dict) and "image" in container:
        return True
    if isinstance(steps, list) and any(
        isinstance(step, dict) and "image" in step for step in steps
    ):
        return True
    resources = part.get("resources")
    return isinstance(resources, dict) and isinstance(resources.get("requests"), dict)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _any_part(value: dict[str, Any], has_sign: Callable[[dict[str, Any]], bool]) -> bool:
    """Whether some mapping in the object has the sign; its status says nothing of what it makes."""
    waiting: list[Any] = [part for key, part in value.items() if key != "status"]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if has_sign(part):
                return True
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return False


def _kind_text(value: dict[str, Any]) -> str:
    """With the version where the kind alone would be taken for one that is read."""
    kind: str = value["kind"]
    return f"{kind} of {value['apiVersion']}" if kind in _known_names() else kind


@cache
def _known_names() -> frozenset[str]:
    return frozenset(kind for _, kind in known_kinds())


def _note(what: str, counts: "Counter[str]", verbose: bool) -> list[Problem]:
    if not counts:
        return []
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = ordered if verbose else ordered[:MAX_LISTED_KINDS]
    parts = [format_count(count, kind, _plural(kind)) for kind, count in listed]
    if len(ordered) > 1:
        parts.append(f"{counts.total():,} in all")
    return [Problem(file="", message=f"{what}: {', '.join(parts)}")]


def _plural(kind: str) -> str:
    """Ingresses, NetworkPolicies, Gateways; the version of a kind stays behind it."""
    name, of, version = kind.partition(" of ")
    if name.endswith(("s", "x", "ch")):
        name += "es"
    elif name.endswith("y") and name[-2:-1] not in "aeiou":
        name = f"{name[:-1]}ies"
    else:
        name += "s"
    return f"{name}{of}{version}"
