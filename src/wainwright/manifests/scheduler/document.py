"""A scheduler's configuration: the short form, or all that kube-scheduler is started with.

Unlike kube-scheduler we take no default constraints from a file that does not mention any: its
own soft ones are a matter of scores there, while a preference of the plan may open nodes.
"""

from typing import Any, Final

from wainwright.api.builtin.affinity import TopologySpreadConstraint
from wainwright.api.builtin.wording import among, broken, missing, twice, wrong
from wainwright.api.fault import Fault, Path
from wainwright.manifests.examine import SCHEDULER
from wainwright.manifests.scheduler.constraints import Constraints, constraints
from wainwright.manifests.scheduler.parts import Mapping, Parts
from wainwright.model.labels import HOSTNAME, ZONE

API_VERSION, KIND = SCHEDULER
PLUGIN: Final = "PodTopologySpread"
ARGUMENTS: Final = f"{PLUGIN}Args"
DEFAULT: Final = "default-scheduler"
WHOLE: Final = frozenset(
    {
        *("apiVersion", "kind", "parallelism", "leaderElection", "clientConnection", "profiles"),
        *("enableProfiling", "enableContentionProfiling", "percentageOfNodesToScore"),
        *("podInitialBackoffSeconds", "podMaxBackoffSeconds", "extenders"),
        "delayCacheUntilActive",
    }
)
PROFILE: Final = frozenset({"schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"})
SYSTEM: Final = tuple(
    TopologySpreadConstraint(maxSkew=skew, topologyKey=key, whenUnsatisfiable="ScheduleAnyway")
    for skew, key in ((3, HOSTNAME), (5, ZONE))
)
"""What kube-scheduler calls its system defaults."""
NONE_GIVEN: Final = "there are no default constraints in this configuration"
SYSTEM_ON_DEMAND: Final = (
    "kube-scheduler's own soft ones are planned only where defaultingType: System says so"
)


def default_constraints(value: Any) -> tuple[Constraints, list[Fault]]:
    """What the configuration gives pods without constraints, and whatever is wrong with it."""
    if not isinstance(value, dict):
        return (), [wrong((), value, f"podTopologySpread: …, or a {KIND}")]
    parts = Parts()
    made = _whole(value, parts) if _is_whole(value) else _short(value, parts)
    if not made and not parts.faults:
        parts.faults.append(Fault(path=(), message=NONE_GIVEN, hint=SYSTEM_ON_DEMAND, warning=True))
    return made, parts.faults


def _is_whole(value: Mapping) -> bool:
    return "apiVersion" in value or "kind" in value


def _short(value: Mapping, parts: Parts) -> Constraints:
    top = parts.mapping(value, (), ("podTopologySpread",))
    inner = parts.mapping(
        top.get("podTopologySpread"), ("podTopologySpread",), ("defaultConstraints",)
    )
    return _listed(inner, ("podTopologySpread",), parts)


def _listed(given: Mapping, path: Path, parts: Parts) -> Constraints:
    value = given.get("defaultConstraints")
    return () if value is None else constraints(value, (*path, "defaultConstraints"), parts.faults)


def _whole(value: Mapping, parts: Parts) -> Constraints:
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if value.get(field) is None:
            parts.faults.append(missing((field,), f"{field}: {wanted}"))
        elif value[field] != wanted:
            parts.faults.append(wrong((field,), value[field], wanted))
    if parts.faults:
        return ()
    profile = _profile(parts.mapping(value, (), WHOLE, open_ended=True), parts)
    if profile is None:
        return ()
    arguments = _arguments(*profile, parts)
    return () if arguments is None else _by_arguments(*arguments, parts)


def _profile(value: Mapping, parts: Parts) -> tuple[Path, Mapping] | None:
    """The profile of the default scheduler, or the only one there is."""
    found: dict[str, tuple[Path, Mapping]] = {}
    for path, entry in parts.entries(value.get("profiles"), ("profiles",)):
        profile = parts.mapping(entry, path, PROFILE, open_ended=True)
        name = str(profile.get("schedulerName") or DEFAULT)
        if name in found:
            parts.faults.append(twice((*path, "schedulerName"), name))
        found[name] = (path, profile)
    if len(found) > 1 and DEFAULT not in found:
        message = f"several profiles, and none is called {DEFAULT}"
        parts.faults.append(
            broken(("profiles",), sorted(found), message, f"one with schedulerName: {DEFAULT}")
        )
        return None
    return found.get(DEFAULT) or next(iter(found.values()), None)


def _arguments(path: Path, profile: Mapping, parts: Parts) -> tuple[Path, Mapping] | None:
    """What the profile tells the plugin."""
    found: tuple[Path, Mapping] | None = None
    for place, entry in parts.entries(profile.get("pluginConfig"), (*path, "pluginConfig")):
        plugin = parts.mapping(entry, place, ("name", "args"))
        if plugin.get("name") == PLUGIN:
            if found is not None:
                parts.faults.append(twice((*place, "name"), PLUGIN))
            found = ((*place, "args"), plugin)
    if found is None:
        return None
    known = ("apiVersion", "kind", "defaultConstraints", "defaultingType")
    return found[0], parts.mapping(found[1].get("args"), found[0], known)


def _by_arguments(path: Path, given: Mapping, parts: Parts) -> Constraints:
    for field, wanted in (("apiVersion", API_VERSION), ("kind", ARGUMENTS)):
        if given.get(field, wanted) != wanted:
            parts.faults.append(wrong((*path, field), given[field], wanted))
    made, defaulting = _listed(given, path, parts), given.get("defaultingType")
    if defaulting not in (None, "", "List", "System"):
        parts.faults.append(among((*path, "defaultingType"), str(defaulting), ("List", "System")))
    elif made and defaulting != "List":
        parts.faults.append(_not_a_list(path, defaulting))
    return SYSTEM if defaulting == "System" else made


def _not_a_list(path: Path, found: str | None) -> Fault:
    """kube-scheduler takes System where nothing is said, and then refuses the constraints."""
    return Fault(
        path=(*path, "defaultingType"),
        message="beside defaultConstraints the defaultingType must be List",
        found=found or "nothing",
        expected="List",
        hint="write defaultingType: List, or leave defaultConstraints out",
    )
