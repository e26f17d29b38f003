"""kube-scheduler's configuration (`--scheduler-config`): the default topology spread constraints.

Both a short form and a full KubeSchedulerConfiguration are read. Unlike kube-scheduler, a file
without default constraints gives none: kube-scheduler's own soft ones only affect scores there,
while a preference of the plan may open nodes.
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
    """Reads parts of a value and collects field errors."""

    def __init__(self) -> None:
        self.field_errors: list[FieldError] = []

    def mapping(
        self, value: Any, path: FieldPath, known: Collection[str], *, open_ended: bool = False
    ) -> ConfigMapping:
        """The mapping; empty where it is absent or invalid.
        Where it is open-ended, unknown fields that resemble no known one are only warnings: they
        may belong to newer schedulers.
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
        """The entries of a list, each with its path."""
        if value is None:
            return
        if not isinstance(value, list):
            hint = "begin each entry with '- '" if isinstance(value, dict) else ""
            self.field_errors.append(invalid_value(path, value, "a list", hint))
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
"""Fields that constraints of pods may have and default constraints may not, with the reason."""


def read_constraints(value: Any, path: FieldPath, reported: list[FieldError]) -> DefaultConstraints:
    """The constraints of a list; field errors are added to `reported`."""
    list_type, field_errors = (
        ListFieldType(object_type("core.v1.TopologySpreadConstraint")),
        list[FieldError](),
    )
    list_type.check_type(value, path, field_errors)
    constraints = msgspec.convert(list_type.repair(value) or [], list[TopologySpreadConstraint])
    invalid_entries = {_entry_path(field_error, path) for field_error in field_errors}
    field_errors += [
        field_error
        for field_error in _constraint_errors(constraints, path)
        if _entry_path(field_error, path) not in invalid_entries
    ]
    # An unknown field is an error here: the plan would silently ignore what it means.
    reported.extend(
        msgspec.structs.replace(field_error, warning=False) for field_error in field_errors
    )
    return tuple(constraints)


def _entry_path(field_error: FieldError, path: FieldPath) -> FieldPath:
    return field_error.path[: len(path) + 1]


def _constraint_errors(
    constraints: list[TopologySpreadConstraint], path: FieldPath
) -> Iterator[FieldError]:
    for index, each in enumerate(constraints):
        yield from _forbidden_field_errors(each, (*path, index))
        if each.topologyKey:
            yield from validate_label_key(each.topologyKey, (*path, index, "topologyKey"))
    without_selectors = [
        msgspec.structs.replace(each, labelSelector=None, matchLabelKeys=None)
        for each in constraints
    ]
    yield from validate_topology_spread(without_selectors, path)


def _forbidden_field_errors(
    constraint: TopologySpreadConstraint, path: FieldPath
) -> Iterator[FieldError]:
    for field, message in FORBIDDEN_FIELDS.items():
        value = getattr(constraint, field)
        if value is not None:
            yield FieldError(
                path=(*path, field),
                message=message,
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
"""kube-scheduler's system defaults."""
NO_CONSTRAINTS_MESSAGE: Final = "there are no default constraints in this configuration"
SYSTEM_DEFAULTS_HINT: Final = (
    "kube-scheduler's own soft ones are planned only where defaultingType: System says so"
)


def default_constraints(value: Any) -> tuple[DefaultConstraints, list[FieldError]]:
    """The default constraints of the configuration, and its field errors."""
    if not isinstance(value, dict):
        return (), [invalid_value((), value, f"podTopologySpread: …, or a {KIND}")]
    reader = ConfigReader()
    constraints = (
        _read_full_configuration(value, reader)
        if _is_full_configuration(value)
        else _read_short_form(value, reader)
    )
    if not constraints and not reader.field_errors:
        reader.field_errors.append(
            FieldError(
                path=(), message=NO_CONSTRAINTS_MESSAGE, hint=SYSTEM_DEFAULTS_HINT, warning=True
            )
        )
    return constraints, reader.field_errors


def _is_full_configuration(value: ConfigMapping) -> bool:
    return "apiVersion" in value or "kind" in value


def _read_short_form(value: ConfigMapping, reader: ConfigReader) -> DefaultConstraints:
    top = reader.mapping(value, (), ("podTopologySpread",))
    inner = reader.mapping(
        top.get("podTopologySpread"), ("podTopologySpread",), ("defaultConstraints",)
    )
    return _read_list(inner, ("podTopologySpread",), reader)


def _read_list(config: ConfigMapping, path: FieldPath, reader: ConfigReader) -> DefaultConstraints:
    value = config.get("defaultConstraints")
    return (
        ()
        if value is None
        else read_constraints(value, (*path, "defaultConstraints"), reader.field_errors)
    )


def _read_full_configuration(value: ConfigMapping, reader: ConfigReader) -> DefaultConstraints:
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if value.get(field) is None:
            reader.field_errors.append(missing_field((field,), f"{field}: {expected}"))
        elif value[field] != expected:
            reader.field_errors.append(invalid_value((field,), value[field], expected))
    if reader.field_errors:
        return ()
    profile = _find_profile(
        reader.mapping(value, (), CONFIGURATION_FIELDS, open_ended=True), reader
    )
    if profile is None:
        return ()
    arguments = _find_plugin_args(*profile, reader)
    return () if arguments is None else _read_plugin_args(*arguments, reader)


def _find_profile(
    value: ConfigMapping, reader: ConfigReader
) -> tuple[FieldPath, ConfigMapping] | None:
    """The profile of the default scheduler, or the only one."""
    profiles: dict[str, tuple[FieldPath, ConfigMapping]] = {}
    for path, entry in reader.entries(value.get("profiles"), ("profiles",)):
        profile = reader.mapping(entry, path, PROFILE_FIELDS, open_ended=True)
        name = str(profile.get("schedulerName") or DEFAULT_SCHEDULER_NAME)
        if name in profiles:
            reader.field_errors.append(duplicate_value((*path, "schedulerName"), name))
        profiles[name] = (path, profile)
    if len(profiles) > 1 and DEFAULT_SCHEDULER_NAME not in profiles:
        message = f"several profiles, and none is called {DEFAULT_SCHEDULER_NAME}"
        reader.field_errors.append(
            broken_rule(
                ("profiles",),
                sorted(profiles),
                message,
                f"one with schedulerName: {DEFAULT_SCHEDULER_NAME}",
            )
        )
        return None
    return profiles.get(DEFAULT_SCHEDULER_NAME) or next(iter(profiles.values()), None)


def _find_plugin_args(
    path: FieldPath, profile: ConfigMapping, reader: ConfigReader
) -> tuple[FieldPath, ConfigMapping] | None:
    """The profile's arguments of the PodTopologySpread plugin."""
    plugin_args: tuple[FieldPath, ConfigMapping] | None = None
    for place, entry in reader.entries(profile.get("pluginConfig"), (*path, "pluginConfig")):
        plugin = reader.mapping(entry, place, ("name", "args"))
        if plugin.get("name") == SPREAD_PLUGIN:
            if plugin_args is not None:
                reader.field_errors.append(duplicate_value((*place, "name"), SPREAD_PLUGIN))
            plugin_args = ((*place, "args"), plugin)
    if plugin_args is None:
        return None
    known = ("apiVersion", "kind", "defaultConstraints", "defaultingType")
    return plugin_args[0], reader.mapping(plugin_args[1].get("args"), plugin_args[0], known)


def _read_plugin_args(
    path: FieldPath, config: ConfigMapping, reader: ConfigReader
) -> DefaultConstraints:
    for field, expected in (("apiVersion", API_VERSION), ("kind", SPREAD_PLUGIN_ARGS)):
        if config.get(field, expected) != expected:
            reader.field_errors.append(invalid_value((*path, field), config[field], expected))
    constraints, defaulting = _read_list(config, path, reader), config.get("defaultingType")
    if defaulting not in (None, "", "List", "System"):
        reader.field_errors.append(
            unsupported_value((*path, "defaultingType"), str(defaulting), ("List", "System"))
        )
    elif constraints and defaulting != "List":
        reader.field_errors.append(_defaulting_type_error(path, defaulting))
    return SYSTEM_DEFAULT_CONSTRAINTS if defaulting == "System" else constraints


def _defaulting_type_error(path: FieldPath, found: str | None) -> FieldError:
    """kube-scheduler defaults to System, and then rejects the constraints."""
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
    """The content of the file, or its errors."""

    constraints: DefaultConstraints = ()
    """For pods without topology spread constraints."""
    errors: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()


def read_scheduler_config(file: str) -> SchedulerConfig:
    loaded = load_manifests([file])
    if loaded.problems or loaded.duplicate_keys:
        return SchedulerConfig(errors=(*loaded.problems, *loaded.duplicate_keys))
    if not loaded.documents:
        message = "an empty list is not a configuration"
        return SchedulerConfig(errors=(Problem(file=file, line=1, message=message),))
    first, *others = loaded.documents
    return (
        SchedulerConfig(errors=(locate_error(others[0], SECOND_DOCUMENT),))
        if others
        else _read_document(first)
    )


def _read_document(document: ManifestDocument) -> SchedulerConfig:
    constraints, field_errors = default_constraints(document.value)
    errors = [
        locate_error(document, field_error)
        for field_error in field_errors
        if not field_error.warning
    ]
    notes = [
        locate_error(document, field_error) for field_error in field_errors if field_error.warning
    ]
    return SchedulerConfig(constraints=constraints, errors=tuple(errors), notes=tuple(notes))
