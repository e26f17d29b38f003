"""From a file to a Scenario, with its manifests and traces; or everything that is wrong with it.

Nothing runs before the whole file was found valid: a mistake in the last event of a simulated week
is reported at once, with its file and line.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from wainwright import file_names
from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    format_value,
    invalid_value,
    missing_field,
)
from wainwright.api.kinds import is_own_group
from wainwright.catalogue.catalog_source import offline_source
from wainwright.catalogue.diagnostics import InvalidCatalogInput
from wainwright.catalogue.region_catalog import load_region_catalog
from wainwright.clock import EPOCH
from wainwright.manifests.cluster_manifests import ClusterManifests, read_loaded_manifests
from wainwright.manifests.documents import (
    LoadedManifests,
    ManifestDocument,
    ProgressCallback,
    ReadOptions,
    load_manifests,
    locate_error,
    no_progress,
)
from wainwright.manifests.manifest_validation import SCENARIO_KIND
from wainwright.manifests.problems import InvalidInput, Problem, ProblemReport, sort_problems
from wainwright.manifests.source_files import STDIN, NamedText
from wainwright.offline import known_reservations
from wainwright.sim.scenario import (
    END,
    Expectation,
    InstanceBehaviour,
    PodBehaviour,
    Scenario,
    ScenarioEvent,
    TotalExpectation,
    TracePod,
)
from wainwright.sim.scenario_format.applied_manifests import AppliedManifests, find_file
from wainwright.sim.scenario_format.event_format import EventReader, SelectorReader
from wainwright.sim.scenario_format.expectation_format import ExpectationReader
from wainwright.sim.scenario_format.field_reader import FieldReader, Fields
from wainwright.sim.scenario_format.references import RESERVATION, CreatedObjects
from wainwright.sim.scenario_format.run_times import check_run_times
from wainwright.sim.scenario_format.scenario_size import check_scenario_size
from wainwright.sim.scenario_format.set_changes import (
    SetChange,
    apply_changes,
    find_changed,
    given_by_change,
    parse_change,
    unknown_changed_fields,
)
from wainwright.sim.scenario_format.settings_format import SettingsReader
from wainwright.sim.scenario_format.trace_csv import TraceReader
from wainwright.sim.settings import SimulationSettings
from wainwright.translate.disruption import format_duration
from wainwright.translate.workload_expansion import POD_LIMIT

QUIET: Final = "quiet"
EVENT: Final = "the event"
"""What an event that stands in no file is called."""
MAX_QUIET: Final = 30 * 24 * 3600.0
"""How long `until: quiet` may take."""
SPEC_KEYS: Final = (
    *("start", "duration", "until", "seed", "manifests", "settings", "machines", "pods"),
    *("traces", "events", "expect"),
)
METADATA_KEYS: Final = ("name", "namespace", "labels", "annotations")


def read_scenario(
    file: str,
    *,
    changes: Sequence[str] = (),
    seed: int | None = None,
    progress: ProgressCallback = no_progress,
    options: ReadOptions = ReadOptions(),  # noqa: B008 - frozen
    pod_limit: int = POD_LIMIT,
) -> Scenario:
    """The Scenario of a file, with values of `--set` and `--seed` in place of its own.

    Raises InvalidInput with every problem, UsageError for a change that cannot be made.
    """
    parsed = [parse_change(text) for text in changes]
    loaded = load_manifests([file], progress, render=options.render)
    document = _take_scenario(loaded, file)
    scenario = _ScenarioReader(document, loaded, parsed, options).read(seed)
    check_scenario_size(scenario.manifests.objects, scenario.events, pod_limit)
    return scenario


def has_scenario(file: str) -> bool:
    """Whether there is a Scenario in the file, or so much is wrong with it that nobody knows."""
    loaded = load_manifests([file])
    return bool(loaded.problems) or any(_is_scenario(each.value) for each in loaded.documents)


def read_event(
    text: str, cluster: ClusterManifests, at: float, *, pod_limit: int = POD_LIMIT
) -> ScenarioEvent:
    """An event that happens at once: as a Scenario has it, without `at` and without files.

    What it names must be there in the cluster as it is. Raises InvalidInput with every problem.
    """
    loaded = load_manifests([NamedText(EVENT, text)])
    if len(loaded.documents) != 1 or loaded.problems:
        problems = loaded.problems or [_not_one_event(len(loaded.documents))]
        raise InvalidInput(ProblemReport(errors=problems, warnings=[]), undone="changed")
    event = _EventOfText(loaded.documents[0], cluster).read()
    now = msgspec.structs.replace(event, at=at, line=None)
    check_scenario_size(cluster.objects, [now], pod_limit)
    return now


def _not_one_event(count: int) -> Problem:
    return Problem(
        file=EVENT,
        line=1,
        message="there is no event" if not count else "there are several events",
        found=f"{count} documents",
        expected="one event, such as outage: {zone: us-west-2a}",
    )


class _EventOfText:
    """Reads one event that is no part of a Scenario."""

    def __init__(self, document: ManifestDocument, cluster: ClusterManifests) -> None:
        self._document = document
        self._cluster = cluster
        self._reader = FieldReader()
        self._selectors = SelectorReader(self._reader)
        self._applied = AppliedManifests(document, None, self._reader)
        self._created = CreatedObjects()
        self._created.add_objects(cluster.objects)
        for identity in _reservation_ids(cluster):
            self._created.add(RESERVATION, identity)

    def read(self) -> ScenarioEvent:
        value = self._document.value
        event = None
        if isinstance(value, dict) and "at" not in value:
            reader = EventReader(
                *(self._reader, self._selectors, self._applied, self._created),
                self._document.line,
            )
            event = reader.read({"at": "0s", **value}, (), 0)
        elif isinstance(value, dict):
            self._reader.add(invalid_value(("at",), value["at"], "no time: it happens at once"))
        else:
            self._reader.add(invalid_value((), value, "an event such as outage: {zone: …}"))
        self._check_names()
        errors = [locate_error(self._document, each) for each in self._reader.errors]
        errors += self._applied.errors
        if errors or event is None:
            raise InvalidInput(ProblemReport(errors=errors, warnings=[]), undone="changed")
        return event

    def _check_names(self) -> None:
        for reference in self._selectors.references:
            error = self._created.check(reference)
            if error is not None:
                self._reader.add(error)
        self._selectors.cloud.check(self._cluster)


def _take_scenario(loaded: LoadedManifests, file: str) -> ManifestDocument:
    """The only Scenario, which is no longer among the documents."""
    found = [each for each in loaded.documents if _is_scenario(each.value)]
    loaded.documents = [each for each in loaded.documents if not _is_scenario(each.value)]
    problems = list(loaded.problems)
    if not found and not problems:
        problems.append(_no_scenario(file))
    problems += [_second_scenario(found[0], each) for each in found[1:]]
    if problems:
        report = ProblemReport(errors=problems, warnings=loaded.warnings)
        raise InvalidInput(report, undone="simulated")
    return found[0]


def _is_scenario(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("kind") != SCENARIO_KIND[1]:
        return False
    version = value.get("apiVersion")
    return not isinstance(version, str) or is_own_group(version)


def _no_scenario(file: str) -> Problem:
    return Problem(
        file="standard input" if file == STDIN else file,
        line=1,
        message="there is no Scenario in this file",
        found="nothing",
        expected=f"a document of kind Scenario ({SCENARIO_KIND[0]})",
        hint="docs/simulate.md has the format",
    )


def _second_scenario(first: ManifestDocument, second: ManifestDocument) -> Problem:
    error = FieldError(
        path=("kind",),
        message=f"there is another Scenario in line {first.line(())} of {first.file}",
        found="Scenario",
        expected="one Scenario",
        hint="put each into a file of its own",
    )
    return locate_error(second, error)


class _ScenarioReader:
    """Reads one Scenario; every part adds to the same list of errors."""

    def __init__(
        self,
        document: ManifestDocument,
        loaded: LoadedManifests,
        changes: Sequence[SetChange],
        options: ReadOptions,
    ) -> None:
        self.document = document
        self.loaded = loaded
        self.changes = changes
        self.options = options
        is_file = file_names.exists(document.file)
        self.folder = Path(document.file).parent if is_file else Path()
        self.reader = FieldReader()
        self.selectors = SelectorReader(self.reader)
        self.created = CreatedObjects()
        self.applied = AppliedManifests(document, self.folder, self.reader)
        self.problems: list[Problem] = []
        self.created_reservations: list[tuple[str, FieldPath]] = []
        self.end = END
        """The last moment that anything may name."""

    def read(self, seed: int | None) -> Scenario:
        apply_changes([each for each in self.changes if not each.kind], self.document, ())
        top = self.reader.fields(
            self.document.value, (), ("apiVersion", "kind", "metadata", "spec")
        )
        self._check_version()
        spec = top.required("spec", self._spec, _no_fields(self.reader), "what the scenario is")
        manifests = self._read_world(spec)
        scenario = self._read_spec(spec, manifests or ClusterManifests())
        name = top.required("metadata", self._name, "", "metadata: {name: …}")
        if manifests is not None:
            self._check_references(scenario)
            self._check_cloud(manifests)
            self.selectors.cloud.check(manifests)
        self._raise_problems()
        scenario.manifests.notes.extend(self.applied.notes)
        scenario.manifests.other_notes.extend(self.applied.other_notes)
        return msgspec.structs.replace(
            scenario, name=name, seed=scenario.seed if seed is None else seed
        )

    def _read_spec(self, spec: Fields, manifests: ClusterManifests) -> Scenario:
        """In an order in which the end is known before what happens, and objects before names."""
        self.end = self._read_end(spec)
        start = spec.get("start", self.reader.timestamp, EPOCH)
        settings = SettingsReader(self.reader)
        return Scenario(
            name="",
            file=self.document.file,
            start=start,
            duration=None if "until" in spec else self.end,
            seed=spec.get("seed", self.reader.integer, 0),
            manifests=manifests,
            settings=spec.get("settings", settings.settings, SimulationSettings()),
            instances=spec.get("machines", settings.instances, InstanceBehaviour()),
            pods=spec.get("pods", settings.pods, PodBehaviour()),
            traces=self._traces(spec, start),
            events=spec.optional("events", self._events) or (),
            expect=spec.optional("expect", self._expectations) or (),
        )

    def _check_version(self) -> None:
        version = self.document.value.get("apiVersion")
        if version != SCENARIO_KIND[0]:
            path: FieldPath = ("apiVersion",)
            self.reader.add(
                invalid_value(path, version, SCENARIO_KIND[0])
                if version is not None
                else missing_field(path, SCENARIO_KIND[0])
            )

    def _spec(self, value: Any, path: FieldPath) -> Fields:
        return self.reader.fields(value, path, SPEC_KEYS)

    def _name(self, value: Any, path: FieldPath) -> str:
        fields = self.reader.fields(value, path, METADATA_KEYS)
        return fields.required("name", self.reader.text, "", "a name for the scenario")

    # The world at the start

    def _read_world(self, spec: Fields) -> ClusterManifests | None:
        """None where something is wrong with it, or a file is missing: what only that file has
        would be reported as missing at every place that names it.
        """
        errors_before = len(self.reader.errors)
        files = spec.optional("manifests", self._files) or ()
        is_complete = len(self.reader.errors) == errors_before
        for file in files:
            self.loaded.extend(load_manifests([file], render=self.options.render))
        self.loaded.documents = [each for each in self.loaded.documents if self._is_other(each)]
        apply_changes(
            [each for each in self.changes if each.kind], self.document, self.loaded.documents
        )
        self._check_changed_fields()
        for document in self.loaded.documents:
            errors = check_run_times(document.value)
            self.problems.extend(locate_error(document, error) for error in errors)
        try:
            manifests = read_loaded_manifests(self.loaded, self.options)
        except InvalidInput as error:
            self.problems.extend(error.report.errors)
            return None
        return manifests if is_complete else None

    def _check_changed_fields(self) -> None:
        """An unknown field of a manifest is dropped with a note; one that --set names is a typo."""
        for change in self.changes:
            for document in find_changed(change, self.loaded.documents) if change.kind else ():
                self.problems.extend(unknown_changed_fields(change, document))

    def _files(self, value: Any, path: FieldPath) -> tuple[str, ...]:
        names = self.reader.items(value, path, "a list of files and folders")
        found = []
        for index, name in enumerate(names):
            where = (*path, index)
            if not isinstance(name, str) or not name:
                self.reader.add(invalid_value(where, name, "the name of a file or folder"))
                continue
            file = find_file(self.folder, name, where, self.reader)
            found += [] if file is None else [file]
        return tuple(found)

    def _is_other(self, document: ManifestDocument) -> bool:
        """A folder that holds the Scenario as well brings it along a second time, and maybe other
        scenarios, which have the same manifests."""
        is_again = document.source.source is not self.document.source.source and (
            Path(document.file).resolve() == Path(self.document.file).resolve()
        )
        return not is_again and not _is_scenario(document.value)

    # Time

    def _read_end(self, spec: Fields) -> float:
        form = spec.exactly_one(("duration", "until"))
        if form == "duration":
            return spec.get("duration", self._duration, MAX_QUIET)
        if form == "until":
            spec.get("until", lambda each, path: self.reader.choice(each, path, (QUIET,)), QUIET)
        return MAX_QUIET

    def _duration(self, value: Any, path: FieldPath) -> float:
        errors = len(self.reader.errors)
        seconds = self.reader.duration(value, path)
        if seconds <= 0:
            if len(self.reader.errors) == errors:
                self.reader.add(invalid_value(path, value, "a duration of more than 0"))
            return END
        return seconds

    def _check_moment(self, at: float, path: FieldPath, value: Any) -> None:
        if at == END or at <= self.end:
            return
        end = format_duration(self.end)
        self.reader.add(
            FieldError(
                path=path,
                message=f"{format_value(value)} is after the end, which is at {end}",
                found=format_value(value),
                expected=f"a time of {end} or less",
                hint="let it happen earlier, or let the simulation last longer",
            )
        )

    # What happens, and what is expected

    def _traces(self, spec: Fields, start: float) -> tuple[TracePod, ...]:
        pods: list[TracePod] = []
        entries = spec.optional("traces", lambda each, path: self._list(each, path, "traces"))
        for index, each in enumerate(entries or ()):
            path = ("spec", "traces", index)
            fields = self.reader.fields(each, path, ("csv", "speed"))
            name = fields.required("csv", self.reader.text, "", "the name of a CSV file")
            speed = fields.get("speed", self._speed, 1.0)
            file = find_file(self.folder, name, (*path, "csv"), self.reader) if name else None
            if file is not None:
                trace = TraceReader(file, start=start, speed=speed, end=self.end)
                pods += trace.read()
                self.problems.extend(trace.problems)
        return tuple(sorted(pods, key=lambda pod: pod.created))

    def _speed(self, value: Any, path: FieldPath) -> float:
        speed = self.reader.number(value, path, "a number of more than 0")
        if speed == 0 and value == 0:
            self.reader.add(invalid_value(path, value, "a number of more than 0"))
        return speed or 1.0

    def _list(self, value: Any, path: FieldPath, what: str) -> list[Any]:
        return self.reader.items(value, path, f"a list of {what}")

    def _events(self, value: Any, path: FieldPath) -> tuple[ScenarioEvent, ...]:
        reader = EventReader(
            self.reader, self.selectors, self.applied, self.created, self.document.line
        )
        events = []
        for index, each in enumerate(self._list(value, path, "events")):
            where = (*path, index)
            event = reader.read(each, where, index)
            if event is not None:
                self._check_moment(event.at, (*where, "at"), each.get("at"))
                events.append(event)
        self.created_reservations = reader.created_reservations
        return tuple(sorted(events, key=lambda event: event.at))

    def _expectations(self, value: Any, path: FieldPath) -> tuple[Expectation, ...]:
        reader = ExpectationReader(self.reader, self.selectors, self.document.line)
        found = []
        for index, each in enumerate(self._list(value, path, "expectations")):
            expectation = reader.read(each, (*path, index))
            if expectation is not None:
                self._check_window(expectation, (*path, index), each)
                found.append(expectation)
        return tuple(found)

    def _check_window(self, expectation: Expectation, path: FieldPath, value: Any) -> None:
        if isinstance(expectation, TotalExpectation):
            return
        window = expectation.window
        if "at" in value:
            self._check_moment(window.start, (*path, "at"), value["at"])
        elif isinstance(value.get("during"), list) and len(value["during"]) == 2:
            for number, at in enumerate((window.start, window.end)):
                self._check_moment(at, (*path, "during", number), value["during"][number])

    # Names

    def _check_references(self, scenario: Scenario) -> None:
        manifests = scenario.manifests
        self.created.add_objects(manifests.objects)
        stated = _reservation_ids(manifests)
        for identity in stated:
            self.created.add(RESERVATION, identity)
        self._check_new_reservations(stated)
        for pod in scenario.traces:
            self.created.add("Pod", pod.name, pod.namespace)
        for reference in self.selectors.references:
            error = self.created.check(reference)
            if error is not None:
                self.reader.add(error)

    def _check_new_reservations(self, stated: Sequence[str]) -> None:
        known = set(stated)
        for identity, path in self.created_reservations:
            if identity in known:
                expected = "an id that no other reservation has"
                self.reader.add(invalid_value(path, identity, expected))
            known.add(identity)

    def _check_cloud(self, manifests: ClusterManifests) -> None:
        """Whether the cloud has the region, zones and instance types that are stated."""
        cloud, catalog = manifests.cloud, manifests.catalog
        if cloud is None and catalog is None:
            return
        try:
            load_region_catalog(offline_source(cloud=cloud, catalog=catalog), cloud)
        except InvalidCatalogInput as error:
            for each in error.diagnostics:  # there is one Cloud and one Catalog at most
                document = next(
                    item for item in self.loaded.documents if item.value.get("kind") == each.kind
                )
                self.problems.append(locate_error(document, each.field_error))

    def _raise_problems(self) -> None:
        located = [self._locate(error) for error in self.reader.errors]
        errors = [*located, *self.applied.errors, *self.problems]
        if errors:
            report = ProblemReport(errors=sort_problems(errors), warnings=[])
            raise InvalidInput(report, undone="simulated")

    def _locate(self, error: FieldError) -> Problem:
        problem = locate_error(self.document, error)
        for change in self.changes:
            if not change.kind and error.path[: len(change.path)] == change.path:
                return given_by_change(problem, change)
        return problem


def _reservation_ids(manifests: ClusterManifests) -> list[str]:
    found = [each.id for each in known_reservations(manifests)]
    for catalog in [] if manifests.catalog is None else [manifests.catalog]:
        offerings = [item for each in catalog.instanceTypes for item in each.offerings or ()]
        found += [item.reservationID for item in offerings if item.reservationID]
    return found


def _no_fields(reader: FieldReader) -> Fields:
    return Fields(reader, {}, ("spec",), is_mapping=False, is_known=False)
