"""SparkApplications as pod sets: the operator makes the pods' requests of Spark's own settings.

A driver and its executors. A ScheduledSparkApplication counts as one run.
"""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Any, Final

from wainwright.api.kubernetes.workloads import PodSetSpec

JsonObject = dict[str, Any]

SPARK_GROUP: Final = "sparkoperator.k8s.io"
APPLICATION_PATHS: Final = {
    "SparkApplication": ("spec",),
    "ScheduledSparkApplication": ("spec", "template"),
}
END_STATES: Final = ("COMPLETED", "FAILED")
JVM_MEMORY: Final = re.compile(r"(?P<number>[0-9]+)\s*(?P<unit>[kmgtp]?)i?b?", re.IGNORECASE)
KIB_PER_UNIT: Final = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3, "p": 1024**4}
DEFAULT_MEMORY: Final = "1g"
LEAST_OVERHEAD_MIB: Final = 384
JVM_OVERHEAD: Final = Fraction(1, 10)
OTHER_OVERHEAD: Final = Fraction(4, 10)
"""Of the memory, for Python and R, whose processes are beside the JVM."""
POD_FIELDS: Final = (
    *("nodeSelector", "tolerations", "affinity", "schedulerName", "hostNetwork"),
    *("initContainers", "priorityClassName", "terminationGracePeriodSeconds"),
)


def spark_pod_sets(
    value: JsonObject,
) -> list[tuple[str, tuple[str, ...], JsonObject, PodSetSpec]] | None:
    """Name, path, pod template and number of driver and executors, where they are there."""
    path = APPLICATION_PATHS.get(value["kind"])
    spec: Any = value
    for key in path or ("",):
        spec = spec.get(key) if isinstance(spec, dict) else None
    if path is None or not isinstance(spec, dict):
        return None
    parts = [(name, spec.get(name)) for name in ("driver", "executor")]
    if not all(isinstance(part, dict) for _, part in parts):
        return None
    application = _Application(spec, suspended=_is_suspended(value))
    try:
        return [
            (name, (*path, name), application.template(name, part), application.count(name))
            for name, part in parts
            if isinstance(part, dict)
        ]
    except (ValueError, TypeError, KeyError):  # an amount that is none, such as a placeholder
        return None


def _is_suspended(value: JsonObject) -> bool:
    state = _dict(_dict(value.get("status")).get("applicationState")).get("state")
    return value["spec"].get("suspend") is True or state in END_STATES


class _Application:
    """The spec of a SparkApplication; its fields go before sparkConf."""

    def __init__(self, spec: JsonObject, *, suspended: bool) -> None:
        self._spec = spec
        self._suspended = suspended
        conf = spec.get("sparkConf")
        self._conf: Mapping[str, Any] = conf if isinstance(conf, dict) else {}

    def count(self, name: str) -> PodSetSpec:
        replicas, maximum = (1, None) if name == "driver" else self._executors()
        return PodSetSpec(replicas=replicas, maximum=maximum, suspended=self._suspended)

    def _executors(self) -> tuple[int, int | None]:
        """How many to begin with, and how many at most."""
        stated = self._spec["executor"].get("instances", self._conf.get("spark.executor.instances"))
        if not self._is_dynamic:
            return 1 if stated is None else int(stated), None
        least = (stated, self._allocation("initialExecutors"), self._allocation("minExecutors"))
        maximum = self._allocation("maxExecutors")
        replicas = max([int(each) for each in least if each is not None], default=0)
        return replicas, None if maximum is None else int(maximum)

    @property
    def _is_dynamic(self) -> bool:
        conf = str(self._conf.get("spark.dynamicAllocation.enabled", "")).lower() == "true"
        return self._allocation("enabled") is True or conf

    def _allocation(self, name: str) -> Any:
        given = self._spec.get("dynamicAllocation")
        stated = given.get(name) if isinstance(given, dict) else None
        return self._conf.get(f"spark.dynamicAllocation.{name}") if stated is None else stated

    def template(self, name: str, part: JsonObject) -> JsonObject:
        """The operator's fields over those of the pod template, where there is one."""
        given = part.get("template")
        base = given if isinstance(given, dict) else {}
        spec: JsonObject = _dict(base.get("spec")) | {
            key: part[key] for key in POD_FIELDS if key in part
        }
        spec["nodeSelector"] = {**self._node_selector(name), **_dict(spec.get("nodeSelector"))}
        spec["volumes"] = [*_list(spec.get("volumes")), *self._mounted_volumes(part)]
        own = {"name": f"spark-{name}", "resources": self._resources(name, part)}
        others = [*_list(spec.get("containers"))[1:], *_list(part.get("sidecars"))]
        metadata = _dict(base.get("metadata"))
        labels = {**_dict(metadata.get("labels")), **_dict(part.get("labels"))}
        annotations = {**_dict(metadata.get("annotations")), **_dict(part.get("annotations"))}
        return {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {**spec, "containers": [own, *others], "restartPolicy": "Never"},
        }

    def _node_selector(self, name: str) -> JsonObject:
        """That of the whole application, and those that sparkConf has."""
        prefixes = ("spark.kubernetes.node.selector.", f"spark.kubernetes.{name}.node.selector.")
        settings = {
            key.removeprefix(prefix): str(value)
            for prefix in prefixes
            for key, value in self._conf.items()
            if key.startswith(prefix)
        }
        return {**settings, **_dict(self._spec.get("nodeSelector"))}

    def _mounted_volumes(self, part: JsonObject) -> list[Any]:
        mounted = {_dict(mount).get("name") for mount in _list(part.get("volumeMounts"))}
        volumes = _list(self._spec.get("volumes"))
        return [volume for volume in volumes if _dict(volume).get("name") in mounted]

    def _resources(self, name: str, part: JsonObject) -> JsonObject:
        requests = {"cpu": self._cpu(name, part), "memory": f"{self._memory_mib(name, part)}Mi"}
        gpu = part.get("gpu")
        devices = {gpu["name"]: gpu["quantity"]} if isinstance(gpu, dict) else {}
        return {"requests": {**requests, **devices}, "limits": devices}

    def _cpu(self, name: str, part: JsonObject) -> str:
        keys = (f"spark.kubernetes.{name}.request.cores", f"spark.{name}.cores")
        stated = [part.get("coreRequest"), self._conf.get(keys[0]), part.get("cores")]
        return str(next(self._stated(*stated, self._conf.get(keys[1])), 1))

    def _memory_mib(self, name: str, part: JsonObject) -> int:
        memory = self._stated(part.get("memory"), self._conf.get(f"spark.{name}.memory"))
        heap = _mebibytes(next(memory, DEFAULT_MEMORY))
        keys = (f"spark.{name}.memoryOverhead", f"spark.{name}.memoryOverheadFactor")
        overhead = next(self._stated(part.get("memoryOverhead"), self._conf.get(keys[0])), None)
        if overhead is not None:
            return heap + _mebibytes(overhead)
        shared = (self._spec.get("memoryOverheadFactor"), "spark.kubernetes.memoryOverheadFactor")
        factors = self._stated(self._conf.get(keys[1]), shared[0], self._conf.get(shared[1]))
        share = Fraction(str(next(factors, self._default_share)))
        return heap + max(int(heap * share), LEAST_OVERHEAD_MIB)

    @property
    def _default_share(self) -> Fraction:
        return OTHER_OVERHEAD if self._spec.get("type") in ("Python", "R") else JVM_OVERHEAD

    def _stated(self, *values: Any) -> Iterator[Any]:
        return (each for each in values if each is not None)


def _dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mebibytes(text: Any) -> int:
    """Memory as the JVM takes it: 512m and 4g are MiB and GiB, a bare number MiB."""
    match = JVM_MEMORY.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is not an amount of memory")
    return ceil(int(match["number"]) * KIB_PER_UNIT[match["unit"].lower() or "m"] / 1024)
