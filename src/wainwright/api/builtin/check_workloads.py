"""Whatever makes pods: counts, selectors, templates."""

from collections.abc import Iterator
from typing import Final

import msgspec

from wainwright.api.builtin.check_labels import label_selector, selects
from wainwright.api.builtin.check_metadata import A_LABEL_NAME
from wainwright.api.builtin.check_pod import template
from wainwright.api.builtin.check_volumes import claim
from wainwright.api.builtin.pod import PodTemplate
from wainwright.api.builtin.selection import LabelSelector
from wainwright.api.builtin.volume import PersistentVolumeClaimTemplate
from wainwright.api.builtin.wording import among, broken, missing, wrong
from wainwright.api.builtin.workloads import (
    DaemonSetSpec,
    JobSpec,
    ReplicaSetSpec,
    ReplicationControllerSpec,
    StatefulSetSpec,
)
from wainwright.api.fault import Fault, Path

COMPLETION: Final = ("NonIndexed", "Indexed")
ENDING: Final = ("OnFailure", "Never")
UNMET: Final = "the template's labels do not meet the selector"


def replica_set(spec: ReplicaSetSpec, path: Path) -> Iterator[Fault]:
    yield from _not_negative(spec.replicas, (*path, "replicas"))
    yield from _selection(spec.selector, spec.template, path)
    yield from _lasting(spec.template, (*path, "template"))


def replication_controller(spec: ReplicationControllerSpec, path: Path) -> Iterator[Fault]:
    yield from _not_negative(spec.replicas, (*path, "replicas"))
    place, own = (*path, "selector"), spec.template.metadata.labels or {}
    if not spec.selected:
        yield missing(place, "labels that the template has")
    elif not spec.selected.items() <= own.items():
        yield broken(place, spec.selected, UNMET)
    yield from _lasting(spec.template, (*path, "template"))


def stateful_set(spec: StatefulSetSpec, path: Path) -> Iterator[Fault]:
    yield from _not_negative(spec.replicas, (*path, "replicas"))
    if spec.ordinals is not None:
        yield from _not_negative(spec.ordinals.start, (*path, "ordinals", "start"))
    yield from _selection(spec.selector, spec.template, path)
    claims = spec.volumeClaimTemplates or []
    yield from _lasting(_without_replaced(spec.template, claims), (*path, "template"))
    for index, one in enumerate(claims):
        place = (*path, "volumeClaimTemplates", index)
        if not one.metadata.name:
            yield missing((*place, "metadata", "name"), A_LABEL_NAME)
        yield from claim(one.spec, (*place, "spec"))


def _without_replaced(
    given: PodTemplate, claims: list[PersistentVolumeClaimTemplate]
) -> PodTemplate:
    """A claim's volume takes the place of the template's volume of that name, unseen."""
    names = {one.metadata.name for one in claims}
    if not any(volume.name in names for volume in given.spec.volumes or ()):
        return given
    kept = [volume for volume in given.spec.volumes or () if volume.name not in names]
    replace = msgspec.structs.replace
    return replace(given, spec=replace(given.spec, volumes=kept))


def daemon_set(spec: DaemonSetSpec, path: Path) -> Iterator[Fault]:
    yield from _selection(spec.selector, spec.template, path)
    yield from _lasting(spec.template, (*path, "template"))


def job(spec: JobSpec, path: Path) -> Iterator[Fault]:
    yield from _not_negative(spec.parallelism, (*path, "parallelism"))
    yield from _not_negative(spec.completions, (*path, "completions"))
    if spec.completionMode is not None and spec.completionMode not in COMPLETION:
        yield among((*path, "completionMode"), spec.completionMode, COMPLETION)
    if spec.completionMode == "Indexed" and _completions(spec) is None:
        message = "an Indexed job needs a number of completions"
        yield missing((*path, "completions"), "a whole number", message)
    yield from label_selector(spec.selector, (*path, "selector"))
    if spec.manualSelector:  # else the API server writes the selector, and the labels for it
        yield from _selection(spec.selector, spec.template, path, empty=True)
    yield from template(spec.template, (*path, "template"))
    yield from _ending(spec.template, (*path, "template", "spec", "restartPolicy"))


def _completions(spec: JobSpec) -> int | None:
    """Where neither number is given, the API server makes both one."""
    if spec.completions is None and spec.parallelism is None:
        return 1
    return spec.completions


def _ending(given: PodTemplate, path: Path) -> Iterator[Fault]:
    policy = given.spec.restartPolicy
    if not policy:
        message = "the pods of a job must end: restartPolicy is needed"
        yield missing(path, f"one of {', '.join(ENDING)}", message)
    elif policy == "Always":
        yield among(path, policy, ENDING)


def _lasting(given: PodTemplate, path: Path) -> Iterator[Fault]:
    """Pods of these workloads are started again whenever they end."""
    yield from template(given, path)
    if given.spec.restartPolicy in ENDING:
        yield wrong((*path, "spec", "restartPolicy"), given.spec.restartPolicy, "Always")


def _selection(
    selector: LabelSelector | None, given: PodTemplate, path: Path, *, empty: bool = False
) -> Iterator[Fault]:
    """A workload must find the pods that it makes."""
    if selector is None:
        yield missing((*path, "selector"), "a selector that the template's labels meet")
        return
    found = list(label_selector(selector, (*path, "selector")))
    if not empty and not selector.matchLabels and not selector.matchExpressions:
        message = "an empty selector would take every pod of the namespace"
        found.append(broken((*path, "selector"), {}, message))
    yield from found
    own = given.metadata.labels or {}
    if not found and not selects(selector, own):
        yield broken((*path, "template", "metadata", "labels"), own, UNMET)


def _not_negative(number: int | None, path: Path) -> Iterator[Fault]:
    if number is not None and number < 0:
        yield wrong(path, number, "0 or more")
