"""Manifests of an `apply`: written in the Scenario, or in files beside it."""

from pathlib import Path
from typing import Any, Final

import msgspec

from wainwright import file_names
from wainwright.api.api_resources import OPERATION_KINDS, served_resources
from wainwright.api.field_error import FieldError, FieldPath, did_you_mean, invalid_value
from wainwright.api.wire import WireStruct
from wainwright.manifests.cluster_manifests import ClusterManifests, read_loaded_manifests
from wainwright.manifests.documents import (
    LoadedManifests,
    ManifestDocument,
    ReadOptions,
    load_manifests,
    locate_error,
)
from wainwright.manifests.manifest_validation import identify_kind
from wainwright.manifests.problems import InvalidInput, Problem
from wainwright.model.spelling import closest_spelling
from wainwright.sim.scenario_format.field_reader import FieldReader
from wainwright.sim.scenario_format.references import resources_by_kind
from wainwright.sim.scenario_format.run_times import check_run_times

EXPECTED_MANIFESTS: Final = "a manifest, a list of them, or the name of a file"


class AppliedManifests:
    """Reads the manifests of events, as those of the start are read; unknown fields are refused
    where a manifest is written in the Scenario itself."""

    def __init__(
        self, document: ManifestDocument, folder: Path | None, reader: FieldReader
    ) -> None:
        """Without a folder names of files are refused."""
        self._document = document
        self._folder = folder
        self._reader = reader
        self.errors: list[Problem] = []
        """In the manifests themselves."""
        self.notes: list[Problem] = []
        self.other_notes: list[Problem] = []

    def read(self, value: Any, path: FieldPath) -> tuple[WireStruct, ...]:
        if not isinstance(value, list):
            return self._read_one(value, path)
        if not value:
            self._reader.add(invalid_value(path, value, EXPECTED_MANIFESTS))
        objects: list[WireStruct] = []
        for index, each in enumerate(value):
            objects += self._read_one(each, (*path, index))
        return tuple(objects)

    def _read_one(self, value: Any, path: FieldPath) -> tuple[WireStruct, ...]:
        if isinstance(value, str) and value and self._folder is not None:
            return self._read_file(value, path, self._folder)
        if not isinstance(value, dict):
            expected = EXPECTED_MANIFESTS if self._folder is not None else "a manifest"
            self._reader.add(invalid_value(path, value, expected))
            return ()
        if identify_kind(value).is_other_kind:
            return self._read_operation_kind(value, path)
        loaded = LoadedManifests()
        for error in check_run_times(value, path):
            self._reader.add(error)
        base = (*self._document.base, *path)
        loaded.documents.append(ManifestDocument(self._document.source, value, base))
        return self._read_loaded(loaded, path, ReadOptions(refuse_unknown_fields=True))

    def _read_operation_kind(
        self, value: dict[str, Any], path: FieldPath
    ) -> tuple[WireStruct, ...]:
        """A kind that controllers use and no plan depends on, such as a ConfigMap."""
        struct = OPERATION_KINDS.get((value["apiVersion"], value["kind"]))
        if struct is None:
            self._reader.add(_unknown_kind(value, path))
            return ()
        names = [field.encode_name for field in msgspec.structs.fields(struct)]
        self._reader.mapping(value, path, names, "a manifest")
        try:
            return (msgspec.convert(value, struct),)
        except msgspec.ValidationError as error:
            expected = f"a valid {value['kind']}"
            self._reader.add(
                FieldError(path=path, message=str(error), found=value["kind"], expected=expected)
            )
            return ()

    def _read_file(self, name: str, path: FieldPath, folder: Path) -> tuple[WireStruct, ...]:
        file = find_file(folder, name, path, self._reader)
        if file is None:
            return ()
        loaded = load_manifests([file])
        for document in loaded.documents:
            found = check_run_times(document.value)
            self.errors.extend(locate_error(document, error) for error in found)
        return self._read_loaded(loaded, path, ReadOptions())

    def _read_loaded(
        self, loaded: LoadedManifests, path: FieldPath, options: ReadOptions
    ) -> tuple[WireStruct, ...]:
        try:
            found = read_loaded_manifests(loaded, options)
        except InvalidInput as error:
            self.errors.extend(error.report.errors)
            return ()
        self._keep_notes(found)
        served = served_resources()
        for each in found.objects:
            if type(each) not in served:
                self._reader.add(_not_of_a_cluster(type(each).__name__, path))
        return tuple(each for each in found.objects if type(each) in served)

    def _keep_notes(self, found: ClusterManifests) -> None:
        self.notes.extend(found.notes)
        self.other_notes.extend(found.other_notes)


def find_file(folder: Path, name: str, path: FieldPath, reader: FieldReader) -> str | None:
    """The file or folder of that name beside the Scenario; None, with an error, without one."""
    file = folder / name
    if file_names.exists(str(file)):
        return str(file)
    reader.add(
        FieldError(
            path=path,
            message=f"there is no file {file}",
            found=name,
            expected="a file or folder, its path as seen from the folder of the scenario",
            hint=_similar_name(file),
        )
    )
    return None


def _similar_name(file: Path) -> str:
    try:
        beside = tuple(sorted(each.name for each in file.parent.iterdir()))
    except OSError:
        return ""
    meant = closest_spelling("", file.name, beside)
    return f"did you mean {meant}?" if meant else ""


def _unknown_kind(value: dict[str, Any], path: FieldPath) -> FieldError:
    kinds = sorted(f"{each.kind} of {each.api_version}" for each in resources_by_kind().values())
    found = f"{value['kind']} of {value['apiVersion']}"
    return FieldError(
        path=(*path, "kind"),
        message=f"a simulated cluster has no kind {found}",
        found=found,
        expected="a kind that nodes or pods depend on",
        hint=did_you_mean(found, kinds),
    )


def _not_of_a_cluster(kind: str, path: FieldPath) -> FieldError:
    hint = "it changes by the events price, unavailable and reservation" if kind == "Cloud" else ""
    return FieldError(
        path=path,
        message=f"a {kind} is not an object of a cluster: it cannot be applied",
        found=kind,
        expected="a kind that nodes or pods depend on",
        hint=hint,
    )
