"""PodTemplatePaths: where the objects of a kind have their pod templates, and how many pods.

Offline commands read it, and have a table of the same structs for well-known kinds
(`manifests/pod_sets.py`).
"""

from typing import Annotated, ClassVar, Final

from wainwright.api.wire import (
    DNS_LABEL_PATTERN,
    DNS_NAME_PATTERN,
    ObjectMeta,
    Schema,
    WireStruct,
    cel_rule,
    field_meta,
)

PATH_PATTERN: Final = r"^(\.[A-Za-z0-9_-]+|\['[^']+'\])+$"
EXPECTED_PATH: Final = "a path such as .spec.template or .metadata.annotations['example.com/size']"

Path = Annotated[str, field_meta(pattern=PATH_PATTERN, expected=EXPECTED_PATH)]


class PodSetPaths(WireStruct, frozen=True, kw_only=True):
    """Pods that are created from one template."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "has(self.template) != has(self.job)",
                "pods come from a template or from a job, and from one of them only",
            )
        ]
    }

    name: Annotated[
        str | None,
        field_meta(
            "Part of the pods' names; not needed where there is one set.",
            max_length=63,
            pattern=f"^{DNS_LABEL_PATTERN}$",
            expected="lower case letters, digits and '-', with a letter or digit at both ends",
        ),
    ] = None
    forEach: Annotated[
        Path | None,
        field_meta(
            "A list or map of the object: a set for each entry, and the other paths begin there."
        ),
    ] = None
    template: Annotated[
        list[Path] | None,
        field_meta("The pod template; of several paths the first that is there.", min_items=1),
    ] = None
    job: Annotated[
        Path | None,
        field_meta("The spec of a Job, which has template, parallelism and completions."),
    ] = None
    replicas: Annotated[
        list[Path] | None,
        field_meta("How many: the largest of those that are there.", min_items=1),
    ] = None
    defaultReplicas: Annotated[
        int, field_meta("Where none of the paths is there.", minimum=0, default=1)
    ] = 1
    maxReplicas: Annotated[
        list[Path] | None, field_meta("How many at most, for --replicas max.", min_items=1)
    ] = None
    podsPerReplica: Annotated[
        Path | None, field_meta("How many pods a replica has; absent: one.")
    ] = None
    lessPerReplica: Annotated[
        int, field_meta("Pods of a replica that another set has.", minimum=0, default=0)
    ] = 0


class PodTemplatePathsSpec(WireStruct, frozen=True, kw_only=True):
    """A kind, in any version, and the pods of its objects."""

    group: Annotated[
        str,
        field_meta(
            "The API group: what apiVersion has before the slash.",
            pattern=f"^{DNS_NAME_PATTERN}$",
            expected="an API group such as example.com",
        ),
    ]
    kind: Annotated[str, field_meta("The kind.", min_length=1)]
    podSets: Annotated[
        list[PodSetPaths], field_meta("Its pods, by template; none: it creates no pods.")
    ]
    suspend: Annotated[Path | None, field_meta("While it is true there are no pods.")] = None


class PodTemplatePaths(WireStruct, frozen=True, kw_only=True):
    """Says how the objects of a kind are expanded into pods."""

    spec: PodTemplatePathsSpec
    apiVersion: str = "wainwright.dev/v1alpha1"
    kind: str = "PodTemplatePaths"
    metadata: ObjectMeta = ObjectMeta()
