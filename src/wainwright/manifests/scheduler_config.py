"""kube-scheduler's configuration (`--scheduler-config`): the default topology spread constraints.

Both the short form and all that kube-scheduler is started with are read. Unlike kube-scheduler we
take no default constraints from a file that does not mention any: its own soft ones are a matter of
scores there, while a preference of the plan may open nodes.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    broken_rule,
    did_you_mean,
    duplicate_value,
    format_value,
    invalid_value,
    missing_field,
    unsupported_value,
)
from wainwright.api.kubernetes.field_types import ListFieldType, object_type
from wainwright.api.kubernetes.label_validation import validate_label_key
from wainwright.api.kubernetes.pod_validation import validate_topology_spread
from wainwright.api.kubernetes.workloads import TopologySpreadConstraint
from wainwright.manifests.documents import ManifestDocument, load_manifests, locate_error
from wainwright.manifests.manifest_validation import SCHEDULER_CONFIG_KIND
from wainwright.manifests.problems import Problem
from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.translate.topology import DefaultConstraints

ConfigMapping = dict[str, Any]


class ConfigReader:
    """Reads parts of a value and gathers what is wrong with them."""

    def __init__(self) -> None:
        self.field_errors: list[FieldError] = []

    def mapping(
        self, value: Any, path: FieldPath, known: Collection[str], *, open_ended: bool = False
    ) -> ConfigMapping:
        """The mapping; an empty one where there is none.

        Where it is open-ended, fields that resemble no known one are left to newer schedulers.
        """
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.field_errors.append(invalid_value(path, value, "a mapping"))
            return {}
        for key in value:
            if key not in known:
                self.field_errors.append(_unknown_field(key, path, known, open_ended=open_ended))
        return value

    def entries(self, value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
        """The entries of a list, each with its place."""
        if value is None:
            return
        if not isinstance(value, list):
            advice = "begin each entry with '- '" if isinstance(value, dict) else ""
            self.field_errors.append(invalid_value(path, value, "a list", advice))
            return
        yield from (((*path, index), entry) for index, entry in enumerate(value))


def _unknown_field(
    key: str, path: FieldPath, known: Collection[str], *, open_ended: bool
) -> FieldError:
    hint = did_you_mean(key, sorted(known))
    return FieldError(
        path=(*path, key),
        message="unknown field",
        found=key,
        expected=f"one of {', '.join(sorted(known))}",
        hint=hint,
        warning=open_ended and not hint,
    )


FORBIDDEN_FIELDS: Final = {
    "labelSelector": "a default constraint has no selector: it is deduced for each pod",
    "matchLabelKeys": "matchLabelKeys have no effect on a default constraint",
}
"""What pods may write and defaults may not, with the reason."""


def read_constraints(value: Any, path: FieldPath, found: list[FieldError]) -> DefaultConstraints:
    """The constraints of a list; whatever is wrong with them is added to the faults found."""
    shape, field_errors = (
        ListFieldType(object_type("core.v1.TopologySpreadConstraint")),
        list[FieldError](),
    )
    shape.check_type(value, path, field_errors)
    made = msgspec.convert(shape.repair(value) or [], list[TopologySpreadConstraint])
    unread = {_entry_path(field_error, path) for field_error in field_errors}
    field_errors += [
        field_error
        for field_error in _constraint_errors(made, path)
        if _entry_path(field_error, path) not in unread
    ]
    # A field that is unknown here would be an intention that the plan leaves out.
    found.extend(
        msgspec.structs.replace(field_error, warning=False) for field_error in field_errors
    )
    return tuple(made)


def _entry_path(field_error: FieldError, path: FieldPath) -> FieldPath:
    return field_error.path[: len(path) + 1]


def _constraint_errors(
    made: list[TopologySpreadConstraint], path: FieldPath
) -> Iterator[FieldError]:
    for index, each in enumerate(made):
        yield from _forbidden_field_errors(each, (*path, index))
        if each.topologyKey:
            yield from validate_label_key(each.topologyKey, (*path, index, "topologyKey"))
    bare = [msgspec.structs.replace(each, labelSelector=None, matchLabelKeys=None) for each in made]
    yield from validate_topology_spread(bare, path)


def _forbidden_field_errors(
    given: TopologySpreadConstraint, path: FieldPath
) -> Iterator[FieldError]:
    for field, why in FORBIDDEN_FIELDS.items():
        value = getattr(given, field)
        if value is not None:
            yield FieldError(
                path=(*path, field),
                message=why,
                found=format_value(msgspec.to_builtins(value)),
                expected=f"no {field}",
                hint=f"leave {field} out",
            )


API_VERSION, KIND = SCHEDULER_CONFIG_KIND
SPREAD_PLUGIN: Final = "PodTopologySpread"
SPREAD_PLUGIN_ARGS: Final = f"{SPREAD_PLUGIN}Args"
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
CONFIGURATION_FIELDS: Final = frozenset(
    {
        *("apiVersion", "kind", "parallelism", "leaderElection", "clientConnection", "profiles"),
        *("enableProfiling", "enableContentionProfiling", "percentageOfNodesToScore"),
        *("podInitialBackoffSeconds", "podMaxBackoffSeconds", "extenders"),
        "delayCacheUntilActive",
    }
)
PROFILE_FIELDS: Final = frozenset(
    {"schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"}
)
SYSTEM_DEFAULT_CONSTRAINTS: Final = tuple(
    TopologySpreadConstraint(maxSkew=skew, topologyKey=key, whenUnsatisfiable="ScheduleAnyway")
    for skew, key in ((3, HOSTNAME), (5, ZONE))
)
"""What kube-scheduler calls its system defaults."""
NO_CONSTRAINTS_MESSAGE: Final = "there are no default constraints in this configuration"
SYSTEM_DEFAULTS_HINT: Final = (
    "kube-scheduler's own soft ones are planned only where defaultingType: System says so"
)


def default_constraints(value: Any) -> tuple[DefaultConstraints, list[FieldError]]:
    """What the configuration gives pods without constraints, and whatever is wrong with it."""
    if not isinstance(value, dict):
        return (), [invalid_value((), value, f"podTopologySpread: …, or a {KIND}")]
    parts = ConfigReader()
    made = (
        _read_full_configuration(value, parts)
        if _is_full_configuration(value)
        else _read_short_form(value, parts)
    )
    if not made and not parts.field_errors:
        parts.field_errors.append(
            FieldError(
                path=(), message=NO_CONSTRAINTS_MESSAGE, hint=SYSTEM_DEFAULTS_HINT, warning=True
            )
        )
    return made, parts.field_errors


def _is_full_configuration(value: ConfigMapping) -> bool:
    return "apiVersion" in value or "kind" in value


def _read_short_form(value: ConfigMapping, parts: ConfigReader) -> DefaultConstraints:
    top = parts.mapping(value, (), ("podTopologySpread",))
    inner = parts.mapping(
        top.get("podTopologySpread"), ("podTopologySpread",), ("defaultConstraints",)
    )
    return _read_list(inner, ("podTopologySpread",), parts)


def _read_list(given: ConfigMapping, path: FieldPath, parts: ConfigReader) -> DefaultConstraints:
    value = given.get("defaultConstraints")
    return (
        ()
        if value is None
        else read_constraints(value, (*path, "defaultConstraints"), parts.field_errors)
    )


def _read_full_configuration(value: ConfigMapping, parts: ConfigReader) -> DefaultConstraints:
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if value.get(field) is None:
            parts.field_errors.append(missing_field((field,), f"{field}: {wanted}"))
        elif value[field] != wanted:
            parts.field_errors.append(invalid_value((field,), value[field], wanted))
    if parts.field_errors:
        return ()
    profile = _find_profile(parts.mapping(value, (), CONFIGURATION_FIELDS, open_ended=True), parts)
    if profile is None:
        return ()
    arguments = _find_plugin_args(*profile, parts)
    return () if arguments is None else _read_plugin_args(*arguments, parts)


def _find_profile(
    value: ConfigMapping, parts: ConfigReader
) -> tuple[FieldPath, ConfigMapping] | None:
    """The profile of the default scheduler, or the only one there is."""
    found: dict[str, tuple[FieldPath, ConfigMapping]] = {}
    for path, entry in parts.entries(value.get("profiles"), ("profiles",)):
        profile = parts.mapping(entry, path, PROFILE_FIELDS, open_ended=True)
        name = str(profile.get("schedulerName") or DEFAULT_SCHEDULER_NAME)
        if name in found:
            parts.field_errors.append(duplicate_value((*path, "schedulerName"), name))
        found[name] = (path, profile)
    if len(found) > 1 and DEFAULT_SCHEDULER_NAME not in found:
        message = f"several profiles, and none is called {DEFAULT_SCHEDULER_NAME}"
        parts.field_errors.append(
            broken_rule(
                ("profiles",),
                sorted(found),
                message,
                f"one with schedulerName: {DEFAULT_SCHEDULER_NAME}",
            )
        )
        return None
    return found.get(DEFAULT_SCHEDULER_NAME) or next(iter(found.values()), None)


def _find_plugin_args(
    path: FieldPath, profile: ConfigMapping, parts: ConfigReader
) -> tuple[FieldPath, ConfigMapping] | None:
    """What the profile tells the plugin."""
    found: tuple[FieldPath, ConfigMapping] | None = None
    for place, entry in parts.entries(profile.get("pluginConfig"), (*path, "pluginConfig")):
        plugin = parts.mapping(entry, place, ("name", "args"))
        if plugin.get("name") == SPREAD_PLUGIN:
            if found is not None:
                parts.field_errors.append(duplicate_value((*place, "name"), SPREAD_PLUGIN))
            found = ((*place, "args"), plugin)
    if found is None:
        return None
    known = ("apiVersion", "kind", "defaultConstraints", "defaultingType")
    return found[0], parts.mapping(found[1].get("args"), found[0], known)


def _read_plugin_args(
    path: FieldPath, given: ConfigMapping, parts: ConfigReader
) -> DefaultConstraints:
    for field, wanted in (("apiVersion", API_VERSION), ("kind", SPREAD_PLUGIN_ARGS)):
        if given.get(field, wanted) != wanted:
            parts.field_errors.append(invalid_value((*path, field), given[field], wanted))
    made, defaulting = _read_list(given, path, parts), given.get("defaultingType")
    if defaulting not in (None, "", "List", "System"):
        parts.field_errors.append(
            unsupported_value((*path, "defaultingType"), str(defaulting), ("List", "System"))
        )
    elif made and defaulting != "List":
        parts.field_errors.append(_defaulting_type_error(path, defaulting))
    return SYSTEM_DEFAULT_CONSTRAINTS if defaulting == "System" else made


def _defaulting_type_error(path: FieldPath, found: str | None) -> FieldError:
    """kube-scheduler takes System where nothing is said, and then refuses the constraints."""
    return FieldError(
        path=(*path, "defaultingType"),
        message="beside defaultConstraints the defaultingType must be List",
        found=found or "nothing",
        expected="List",
        hint="write defaultingType: List, or leave defaultConstraints out",
    )


SECOND_DOCUMENT: Final = FieldError(
    path=(),
    message="a second document: a scheduler has one configuration",
    found="several documents",
    expected="one document",
    hint="keep the one of the scheduler that the plan is for",
)


class SchedulerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says, or what must be mended in it first."""

    constraints: DefaultConstraints = ()
    """Given to pods that have none of their own."""
    errors: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()


def read_scheduler_config(file: str) -> SchedulerConfig:
    loaded = load_manifests([file])
    if loaded.problems:
        return SchedulerConfig(errors=tuple(loaded.problems))
    if not loaded.documents:
        message = "an empty list is no configuration"
        return SchedulerConfig(errors=(Problem(file=file, line=1, message=message),))
    first, *others = loaded.documents
    return (
        SchedulerConfig(errors=(locate_error(others[0], SECOND_DOCUMENT),))
        if others
        else _read_document(first)
    )


def _read_document(document: ManifestDocument) -> SchedulerConfig:
    made, field_errors = default_constraints(document.value)
    errors = [
        locate_error(document, field_error)
        for field_error in field_errors
        if not field_error.warning
    ]
    notes = [
        locate_error(document, field_error) for field_error in field_errors if field_error.warning
    ]
    return SchedulerConfig(constraints=made, errors=tuple(errors), notes=tuple(notes))
