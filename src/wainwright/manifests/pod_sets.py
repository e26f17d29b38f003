"""Objects of other kinds expanded into pod sets: templates and how many pods of each.

A table says where each kind has its templates and counts. A PodTemplatePaths document of the input
adds a kind or replaces an entry. Kinds without an entry are expanded where every pod template in
the object has a number of replicas beside it. What cannot be counted is None.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from wainwright.api.field_error import FieldError, FieldPath
from wainwright.api.kubernetes.meta import TemplateObjectMeta
from wainwright.api.kubernetes.object_reader import ObjectReader
from wainwright.api.kubernetes.workloads import Autoscaler, Pod, PodSet, PodSetSpec, PodTemplateSpec
from wainwright.api.pod_template_paths import PodSetPaths, PodTemplatePathsSpec
from wainwright.api.wire import ObjectMeta
from wainwright.manifests.spark_pods import SPARK_GROUP, spark_pod_sets

JsonObject = dict[str, Any]

UNLIMITED: Final = 2**31 - 1  # what KubeRay writes where a group has no maximum
END_CONDITIONS: Final = ("Complete", "Completed", "Succeeded", "Failed")
STATED_REPLICAS: Final = [".spec.replicas"]


def _ray_cluster(kind: str, cluster: str, suspend: str | None = None) -> PodTemplatePathsSpec:
    return PodTemplatePathsSpec(
        group="ray.io",
        kind=kind,
        suspend=suspend,
        podSets=[
            PodSetPaths(name="head", template=[f"{cluster}.headGroupSpec.template"]),
            PodSetPaths(
                name="worker",
                forEach=f"{cluster}.workerGroupSpecs",
                template=[".template"],
                replicas=[".replicas", ".minReplicas"],
                defaultReplicas=0,
                maxReplicas=[".maxReplicas"],
                podsPerReplica=".numOfHosts",
            ),
        ],
    )


BUILT_IN_PATHS: Final = (
    PodTemplatePathsSpec(
        group="batch",
        kind="CronJob",
        suspend=".spec.suspend",
        podSets=[PodSetPaths(job=".spec.jobTemplate.spec")],
    ),
    PodTemplatePathsSpec(
        group="argoproj.io",
        kind="Rollout",
        podSets=[PodSetPaths(template=[".spec.template"], replicas=STATED_REPLICAS)],
    ),
    PodTemplatePathsSpec(
        group="leaderworkerset.x-k8s.io",
        kind="LeaderWorkerSet",
        podSets=[
            PodSetPaths(
                name="leader",
                template=[
                    ".spec.leaderWorkerTemplate.leaderTemplate",
                    ".spec.leaderWorkerTemplate.workerTemplate",
                ],
                replicas=STATED_REPLICAS,
            ),
            PodSetPaths(
                name="worker",
                template=[".spec.leaderWorkerTemplate.workerTemplate"],
                replicas=STATED_REPLICAS,
                podsPerReplica=".spec.leaderWorkerTemplate.size",
                lessPerReplica=1,
            ),
        ],
    ),
    PodTemplatePathsSpec(
        group="jobset.x-k8s.io",
        kind="JobSet",
        suspend=".spec.suspend",
        podSets=[
            PodSetPaths(
                forEach=".spec.replicatedJobs", job=".template.spec", replicas=[".replicas"]
            )
        ],
    ),
    PodTemplatePathsSpec(
        group="keda.sh",
        kind="ScaledJob",
        podSets=[
            PodSetPaths(
                job=".spec.jobTargetRef",
                replicas=[".spec.minReplicaCount"],
                defaultReplicas=0,
                maxReplicas=[".spec.maxReplicaCount"],
            )
        ],
    ),
    _ray_cluster("RayCluster", ".spec", suspend=".spec.suspend"),
    _ray_cluster("RayJob", ".spec.rayClusterSpec", suspend=".spec.suspend"),
    _ray_cluster("RayService", ".spec.rayClusterConfig"),
    PodTemplatePathsSpec(
        group="serving.knative.dev",
        kind="Service",
        podSets=[
            PodSetPaths(
                template=[".spec.template"],
                replicas=[
                    f".spec.template.metadata.annotations['autoscaling.knative.dev/{name}']"
                    for name in ("min-scale", "minScale", "initial-scale", "initialScale")
                ],
                maxReplicas=[
                    f".spec.template.metadata.annotations['autoscaling.knative.dev/{name}']"
                    for name in ("max-scale", "maxScale")
                ],
            )
        ],
    ),
)
"""Documented in docs/your-repository.md; SparkApplications are in `spark_pods.py`."""


class TemplateErrors(Exception):
    """A pod template was found and an API server would refuse its pods."""

    def __init__(self, field_errors: list[FieldError]) -> None:
        super().__init__("the pod template is not valid")
        self.field_errors = field_errors


class CannotCount(Exception):
    """The template or the number of pods is not where it should be."""


class PodSetFinder:
    """Expands objects by the built-in paths and those of the input."""

    def __init__(self, paths: Iterable[PodTemplatePathsSpec] = ()) -> None:
        self._paths = {(entry.group, entry.kind): entry for entry in (*BUILT_IN_PATHS, *paths)}
        self._reader = ObjectReader()

    def creates_pods(self, value: JsonObject) -> bool | None:
        """Whether the paths say so; without pod sets there are none. None for other kinds."""
        entry = self._paths.get(_kind_key(value))
        return None if entry is None else bool(entry.podSets)

    def find(self, value: JsonObject) -> list[PodSet] | None:
        """The object's pods; None where they cannot be counted; raises TemplateErrors."""
        key = _kind_key(value)
        entry = self._paths.get(key)
        try:
            metadata = msgspec.convert(value.get("metadata") or {}, ObjectMeta)
            if entry is not None:
                found = list(_listed_sets(value, entry))
            elif key[0] == SPARK_GROUP:
                found = [_FoundSet(*each) for each in spark_pod_sets(value) or _fail()]
            else:
                found = _discovered_sets(value)
            return [self._pod_set(value, metadata, each) for each in found] or None
        except (CannotCount, msgspec.ValidationError, RecursionError):
            return None

    def _pod_set(self, value: JsonObject, metadata: ObjectMeta, found: "_FoundSet") -> PodSet:
        spec = msgspec.structs.replace(found.spec, template=self._template(found))
        return PodSet(
            apiVersion=value["apiVersion"],
            kind=value["kind"],
            metadata=metadata,
            name=found.name,
            spec=spec,
        )

    def _template(self, found: "_FoundSet") -> PodTemplateSpec:
        """The template, read as the pod that it becomes; equal specs are read once."""
        metadata, spec = found.template.get("metadata"), _with_container_names(found.template)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": _pod_metadata(metadata), "spec": spec}
        read, field_errors = self._reader.read(pod)
        assert isinstance(read, Pod)
        errors = [each for each in field_errors if not each.is_accepted]
        if errors:
            raise TemplateErrors([_moved(each, found.path) for each in errors])
        labels, annotations = read.metadata.labels, read.metadata.annotations
        return PodTemplateSpec(
            metadata=TemplateObjectMeta(labels=labels, annotations=annotations), spec=read.spec
        )


class _FoundSet(msgspec.Struct, frozen=True):
    name: str
    path: FieldPath
    """Of the template in the object."""
    template: JsonObject
    spec: PodSetSpec


def _fail() -> list[Any]:
    raise CannotCount


def _kind_key(value: JsonObject) -> tuple[str, str]:
    group, slash, _ = value["apiVersion"].partition("/")
    return (group if slash else ""), value["kind"]


def _moved(field_error: FieldError, path: FieldPath) -> FieldError:
    return msgspec.structs.replace(field_error, path=(*path, *field_error.path))


def _pod_metadata(metadata: Any) -> JsonObject:
    """What a pod gets of its template's metadata; its name is made up later."""
    given = metadata if isinstance(metadata, dict) else {}
    kept = {key: given[key] for key in ("labels", "annotations") if given.get(key) is not None}
    return {"name": "pod", **kept}


def _with_container_names(template: JsonObject) -> JsonObject:
    """Operators name the containers that have no name, as Knative does."""
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(containers, list):
        raise CannotCount
    named = [
        {"name": f"container-{number}", **each}
        if isinstance(each, dict) and not each.get("name")
        else each
        for number, each in enumerate(containers)
    ]
    return {**spec, "containers": named}


# Paths of the table.


@cache
def parse_path(path: str) -> tuple[str, ...]:
    """The keys of a path: .spec['a.b/c'].d"""
    steps = re.findall(r"\.([A-Za-z0-9_-]+)|\['([^']+)'\]", path)
    return tuple(plain or quoted for plain, quoted in steps)


def _lookup(value: Any, path: str) -> Any:
    for key in parse_path(path):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _first(value: Any, paths: Iterable[str] | None) -> tuple[str, Any]:
    """The first path with a value, and the value."""
    found = ((path, _lookup(value, path)) for path in paths or ())
    return next(((path, each) for path, each in found if each is not None), ("", None))


def _count(value: Any) -> int | None:
    """A number of pods, also as text, as annotations have it; None where it is absent."""
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise CannotCount
    return value


def _largest(value: Any, paths: Iterable[str] | None) -> int | None:
    counts = [_count(_lookup(value, path)) for path in paths or ()]
    return max((count for count in counts if count is not None), default=None)


def _maximum(count: int | None) -> int | None:
    """None where there is no limit, which Knative writes as 0."""
    return count if count is not None and 0 < count < UNLIMITED else None


def _listed_sets(value: JsonObject, entry: PodTemplatePathsSpec) -> Iterator[_FoundSet]:
    suspended = entry.suspend is not None and _lookup(value, entry.suspend) is True
    suspended = suspended or _has_finished(value)
    for paths in entry.podSets:
        for name, start, part in _parts(value, paths):
            yield _listed_set(name, start, part, paths, suspended=suspended)


def _has_finished(value: JsonObject) -> bool:
    """Whether the object is a run that is over, as its status says."""
    conditions = _lookup(value, ".status.conditions")
    if not value["kind"].endswith(("Job", "JobSet")) or not isinstance(conditions, list):
        return False
    return any(
        isinstance(each, dict)
        and each.get("type") in END_CONDITIONS
        and each.get("status") == "True"
        for each in conditions
    )


def _parts(value: JsonObject, paths: PodSetPaths) -> Iterator[tuple[str, FieldPath, Any]]:
    """The parts of the object that the set's paths begin at, with a name for each."""
    if paths.forEach is None:
        yield paths.name or "", (), value
        return
    entries, start = _lookup(value, paths.forEach), parse_path(paths.forEach)
    if isinstance(entries, dict):
        yield from ((key.lower(), (*start, key), part) for key, part in entries.items())
    elif isinstance(entries, list):
        for number, part in enumerate(entries):
            yield _entry_name(part, number, paths.name or ""), (*start, number), part
    elif entries is not None:
        raise CannotCount


def _entry_name(part: Any, number: int, default: str) -> str:
    given = part.get("name") or part.get("groupName") if isinstance(part, dict) else None
    return given if isinstance(given, str) else f"{default or 'set'}-{number}"


def _listed_set(
    name: str, start: FieldPath, part: Any, paths: PodSetPaths, *, suspended: bool
) -> _FoundSet:
    per_replica = _count(_lookup(part, paths.podsPerReplica)) if paths.podsPerReplica else None
    pods_per_replica = max(0, (1 if per_replica is None else per_replica) - paths.lessPerReplica)
    if paths.job is not None:
        where, job = paths.job, _lookup(part, paths.job)
        pods_per_replica *= _job_pods(job)
        where, template = f"{where}.template", _lookup(job, ".template")
    else:
        where, template = _first(part, paths.template)
    if not isinstance(template, dict):
        raise CannotCount
    spec = PodSetSpec(
        replicas=_largest(part, paths.replicas),
        default_replicas=paths.defaultReplicas,
        maximum=_maximum(_largest(part, paths.maxReplicas)),
        pods_per_replica=pods_per_replica,
        suspended=suspended,
    )
    return _FoundSet(name, (*start, *parse_path(where)), template, spec)


def _job_pods(job: Any) -> int:
    """How many pods of a Job run at once when it starts."""
    if not isinstance(job, dict):
        raise CannotCount
    parallelism, completions = _count(job.get("parallelism")), _count(job.get("completions"))
    at_once = 1 if parallelism is None else parallelism
    return at_once if completions is None else min(at_once, completions)


# Kinds that are not in the table.


def _discovered_sets(value: JsonObject) -> list[_FoundSet]:
    """Every pod template of the object with the replicas beside it; raises CannotCount where there
    is a template without.
    """
    finished = _has_finished(value)
    found: list[_FoundSet] = []
    waiting: list[tuple[FieldPath, Any]] = [((), value)]
    while waiting:
        path, part = waiting.pop()
        entries: Iterable[tuple[Any, Any]] = ()
        if isinstance(part, dict):
            entries = part.items()
            if has_containers(part):
                raise CannotCount
            if _is_pod_template(part.get("template")) and part.get("replicas") is not None:
                found.append(_discovered_set(path, part, finished=finished))
                entries = [(key, each) for key, each in entries if key != "template"]
        elif isinstance(part, list):
            entries = enumerate(part)
        waiting.extend(
            ((*path, key), each) for key, each in entries if isinstance(each, dict | list)
        )
    return found


def _discovered_set(path: FieldPath, part: JsonObject, *, finished: bool) -> _FoundSet:
    last = path[-1] if path else ""
    name = (
        "" if last in ("spec", "") else _entry_name(part, 0, "") if isinstance(last, int) else last
    )
    spec = PodSetSpec(replicas=_count(part["replicas"]), suspended=finished)
    return _FoundSet(str(name).lower(), (*path, "template"), part["template"], spec)


def _is_pod_template(value: Any) -> bool:
    spec = value.get("spec") if isinstance(value, dict) else None
    return isinstance(spec, dict) and has_containers(spec)


def has_containers(part: Mapping[str, Any]) -> bool:
    """Whether this is the spec of a pod."""
    containers = part.get("containers")
    return isinstance(containers, list) and bool(containers) and isinstance(containers[0], dict)


# Autoscalers.

KEDA_DEFAULT_MAXIMUM: Final = 100


def read_autoscaler(value: JsonObject) -> Autoscaler | None:
    """What a HorizontalPodAutoscaler or ScaledObject says; None where it cannot be used."""
    try:
        metadata = msgspec.convert(value.get("metadata") or {}, ObjectMeta)
        minimum, maximum = _scaling_range(value)
    except (CannotCount, msgspec.ValidationError):
        return None
    target = _lookup(value, ".spec.scaleTargetRef.name")
    if not isinstance(target, str) or maximum is None:
        return None
    return Autoscaler(
        kind=value["kind"],
        metadata=metadata,
        target_kind=str(_lookup(value, ".spec.scaleTargetRef.kind") or "Deployment"),
        target_name=target,
        minimum=minimum,
        maximum=maximum,
        scales_from_zero=value["kind"] == "ScaledObject",
    )


def is_autoscaler(value: JsonObject) -> bool:
    return _kind_key(value) in AUTOSCALERS


AUTOSCALERS: Final = frozenset(
    {("autoscaling", "HorizontalPodAutoscaler"), ("keda.sh", "ScaledObject")}
)


def _scaling_range(value: JsonObject) -> tuple[int, int | None]:
    """The least and the most replicas, with the defaults of the kind."""
    if value["kind"] == "ScaledObject":
        least, most = ".spec.minReplicaCount", ".spec.maxReplicaCount"
        defaults: tuple[int, int | None] = (0, KEDA_DEFAULT_MAXIMUM)
    else:
        least, most, defaults = ".spec.minReplicas", ".spec.maxReplicas", (1, None)
    minimum, maximum = _count(_lookup(value, least)), _count(_lookup(value, most))
    return (
        defaults[0] if minimum is None else minimum,
        defaults[1] if maximum is None else maximum,
    )
