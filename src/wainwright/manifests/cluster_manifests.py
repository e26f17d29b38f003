"""The input of the offline commands: every object typed and complete, or all errors.
Legacy kinds are converted, short forms expanded as an API server requires, defaults filled in.
Offline commands accept short forms with a note; `wain validate` reports them as errors. When
anything is invalid, nothing is returned.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Any, Final, TypeVar

import msgspec

from wainwright.api.catalog_documents import (
    CapacityReservations,
    Catalog,
    Cloud,
    CloudReservation,
    InstanceType,
    NodeOverlay,
)
from wainwright.api.field_error import FieldError, FieldPath
from wainwright.api.karpenter.auto_mode import NodeClass
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kinds import KindFamily, KnownKind, known_kinds
from wainwright.api.kubernetes.object_reader import ObjectReader
from wainwright.api.pod_template_paths import PodTemplatePaths
from wainwright.api.validation.object_validation import validate_object, with_defaults
from wainwright.api.wire import WireStruct
from wainwright.gc_pause import gc_paused
from wainwright.manifests.annotation_warnings import find_annotation_problems
from wainwright.manifests.auto_mode import (
    auto_mode_class,
    built_in_pool,
    fill_built_in_pool,
    has_known_class,
    is_auto_mode,
    selected_built_in_pools,
)
from wainwright.manifests.convert.converter import Conversion, convert_documents
from wainwright.manifests.documents import (
    DEFAULT_READ_OPTIONS,
    LoadedManifests,
    ManifestDocument,
    ProgressCallback,
    ReadOptions,
    load_manifests,
    locate_error,
    no_progress,
)
from wainwright.manifests.duplicates import replace_duplicates
from wainwright.manifests.folder_scan import SkippedFile, describe_skipped
from wainwright.manifests.manifest_validation import identify_kind
from wainwright.manifests.misspellings import find_misspellings
from wainwright.manifests.other_kinds import OtherKinds
from wainwright.manifests.placeholders import name_placeholder
from wainwright.manifests.problems import InvalidInput, Problem, ProblemReport
from wainwright.manifests.scheduler_config import read_scheduler_config as read_scheduler
from wainwright.translate.topology import DefaultConstraints

JsonObject = dict[str, Any]

REQUIREMENTS_PATH: Final = ("spec", "template", "spec", "requirements")
DEFAULT_CLASS_REF: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"}
DEFAULT_CLASS: Final = "default"
DEFAULT_CONSOLIDATE_AFTER: Final = "0s"
ANY_SELECTOR_TERM: Final = [{"tags": {"karpenter.sh/discovery": "*"}}]


class LongForm(msgspec.Struct, frozen=True):
    """An object in its long form, notes on what was filled in, and original paths."""

    value: JsonObject
    notes: list[FieldError]
    moved: dict[FieldPath, FieldPath]


def expand_short_form(value: JsonObject, only_class: str | None) -> LongForm:
    """The long form of an object; the argument is not changed."""
    spec = value.get("spec")
    if isinstance(spec, dict) and value.get("kind") == "NodePool":
        return _expand_pool(value, spec, only_class)
    if isinstance(spec, dict | None) and value.get("kind") == "EC2NodeClass":
        return _expand_class(value, spec or {})
    return LongForm(value, [], {})


def _expand_pool(value: JsonObject, spec: JsonObject, only_class: str | None) -> LongForm:
    built_in = fill_built_in_pool(value)
    if built_in is not None:
        message = f"the built-in pool {_object_name(value)} of EKS Auto Mode"
        return LongForm(built_in, [_short_form_note(("spec",), message)], {})
    notes: list[FieldError] = []
    moved: dict[FieldPath, FieldPath] = {}
    template = spec.get("template") or {}
    template_spec = (template.get("spec") or {}) if isinstance(template, dict) else None
    if not isinstance(template_spec, dict):
        return LongForm(value, [], {})  # reported as an error of its type
    template_spec = dict(template_spec)
    pool_spec = dict(spec)
    if "requirements" in spec and "requirements" not in template_spec:
        template_spec["requirements"] = pool_spec.pop("requirements")
        moved[REQUIREMENTS_PATH] = ("spec", "requirements")
        notes.append(
            _short_form_note(("spec", "requirements"), "read as spec.template.spec.requirements")
        )
    if not template_spec.get("nodeClassRef"):
        name = only_class or DEFAULT_CLASS
        template_spec["nodeClassRef"] = {**DEFAULT_CLASS_REF, "name": name}
        notes.append(_short_form_note(("spec",), f"no nodeClassRef: the class {name} is used"))
    template_spec.setdefault("requirements", [])
    disruption = pool_spec.get("disruption")
    if isinstance(disruption, dict) and disruption.get("consolidateAfter") is None:
        pool_spec["disruption"] = {**disruption, "consolidateAfter": DEFAULT_CONSOLIDATE_AFTER}
        message = f"no consolidateAfter: {DEFAULT_CONSOLIDATE_AFTER} is used"
        notes.append(_short_form_note(("spec", "disruption"), message))
    return LongForm(
        {**value, "spec": {**pool_spec, "template": {**template, "spec": template_spec}}},
        notes,
        moved,
    )


def _expand_class(value: JsonObject, spec: JsonObject) -> LongForm:
    filled: JsonObject = {
        name: ANY_SELECTOR_TERM for name in SELECTOR_TERM_FIELDS if name not in spec
    }
    if "amiSelectorTerms" not in spec:
        filled["amiSelectorTerms"] = [{"alias": _default_alias(spec.get("amiFamily"))}]
    expanded: JsonObject = {**spec, **filled}
    if "role" not in spec and "instanceProfile" not in spec:
        expanded["role"] = filled["role"] = DEFAULT_CLASS
    notes = [_short_form_note(("spec",), f"left out and filled in: {', '.join(sorted(filled))}")]
    return LongForm({**value, "spec": expanded}, notes if filled else [], {})


SELECTOR_TERM_FIELDS: Final = ("subnetSelectorTerms", "securityGroupSelectorTerms")


def _default_alias(family: Any) -> str:
    known = isinstance(family, str) and family != "Custom"
    return f"{family.lower() if known else 'al2023'}@latest"


NAMED_BY_DEFAULT: Final = ("NodePool", "EC2NodeClass")


def with_default_names(values: Sequence[JsonObject]) -> list[JsonObject]:
    """The objects; pools and classes without a name are copied with one that nobody has."""
    taken = {(value["kind"], _object_name(value)) for value in values}
    return [_with_name(value, taken) for value in values]


def _with_name(value: JsonObject, taken: set[tuple[str, str]]) -> JsonObject:
    kind, metadata = value["kind"], value.get("metadata") or {}
    if kind not in NAMED_BY_DEFAULT or not isinstance(metadata, dict):
        return value
    if metadata.get("name") or metadata.get("generateName"):
        return value
    candidates = chain([DEFAULT_CLASS], (f"{DEFAULT_CLASS}-{number}" for number in count(2)))
    name = next(name for name in candidates if (kind, name) not in taken)
    taken.add((kind, name))
    return {**value, "metadata": {**metadata, "name": name}}


def _short_form_note(path: FieldPath, message: str) -> FieldError:
    return FieldError(path=path, message=f"short form: {message}", warning=True)


def original_path(path: FieldPath, moved: dict[FieldPath, FieldPath]) -> FieldPath:
    """The path in the user's document of a path in the long form."""
    for long, short in moved.items():
        if path[: len(long)] == long:
            return (*short, *path[len(long) :])
    return path


WireType = TypeVar("WireType", bound=WireStruct)


class ClusterManifests:
    """The objects of the input, in the order written."""

    def __init__(self) -> None:
        self.objects: list[WireStruct] = []
        self.notes: list[Problem] = []
        """What changes the answer: values that were dropped, objects that were not read."""
        self.other_notes: list[Problem] = []
        self.default_constraints: DefaultConstraints = ()
        """The scheduler's topology spread constraints for pods without their own."""
        self._classes: tuple[tuple[int, int], dict[str, EC2NodeClass]] | None = None

    def all(self, kind: type[WireType]) -> list[WireType]:
        return [item for item in self.objects if isinstance(item, kind)]

    @property
    def pools(self) -> list[NodePool]:
        return self.all(NodePool)

    @property
    def classes(self) -> list[EC2NodeClass]:
        return self.all(EC2NodeClass)

    @property
    def auto_mode_classes(self) -> list[EC2NodeClass]:
        """The node classes of EKS Auto Mode in the form that the catalogue reads."""
        given = self.all(NodeClass)
        names = [each.metadata.name for each in given]
        return [auto_mode_class(default_node_class(name), name, given) for name in names]

    @property
    def claims(self) -> list[NodeClaim]:
        return self.all(NodeClaim)

    @property
    def instance_types(self) -> list[InstanceType]:
        return self.all(InstanceType)

    @property
    def overlays(self) -> list[NodeOverlay]:
        return self.all(NodeOverlay)

    @property
    def cloud(self) -> Cloud | None:
        return next(iter(self.all(Cloud)), None)

    @property
    def account_reservations(self) -> list[CloudReservation] | None:
        """What `aws ec2 describe-capacity-reservations` has printed; None where it has not."""
        answers = self.all(CapacityReservations)
        if not answers:
            return None
        return [each for answer in answers for each in answer.spec.capacityReservations]

    @property
    def catalog(self) -> Catalog | None:
        return next(iter(self.all(Catalog)), None)

    def class_of(self, pool: NodePool) -> EC2NodeClass:
        """The class that the pool refers to, or a default one where the input has none."""
        name = pool.spec.template.spec.nodeClassRef.name
        if is_auto_mode(pool):
            return auto_mode_class(default_node_class(name), name, self.all(NodeClass))
        return self._class_named(name) or default_node_class(name)

    def _class_named(self, name: str) -> EC2NodeClass | None:
        """By a table that is made once: there may be thousands of NodePools and objects."""
        state = (id(self.objects), len(self.objects))
        if self._classes is None or self._classes[0] != state:
            by_name: dict[str, EC2NodeClass] = {}
            for each in self.classes:
                by_name.setdefault(each.metadata.name, each)
            self._classes = (state, by_name)
        return self._classes[1].get(name)


def default_node_class(name: str = DEFAULT_CLASS) -> EC2NodeClass:
    """AL2023, without reservations: the class of a pool whose class is not in the input."""
    kind = known_kinds()["karpenter.k8s.aws/v1", "EC2NodeClass"]
    bare = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}}
    value = expand_short_form({**bare, "spec": {}}, None).value
    return msgspec.convert(with_defaults(kind, value), EC2NodeClass)


def read_manifests(
    arguments: Iterable[str],
    *,
    cloud: str | None = None,
    catalog: str | None = None,
    scheduler_config: str | None = None,
    progress: ProgressCallback = no_progress,
    options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> ClusterManifests:
    """Read all files of the arguments; a Cloud or Catalog by flag replaces the input's.

    `scheduler_config` names the file with the configuration of the cluster's scheduler.
    """
    reader = _ManifestReader(options)
    with gc_paused():
        reader.read_paths(arguments, progress, replaced_kinds={"Cloud": cloud, "Catalog": catalog})
        for name, file in (("Cloud", cloud), ("Catalog", catalog)):
            if file is not None:
                reader.read_kind(file, name, progress)
        if scheduler_config is not None:
            reader.read_scheduler_config(scheduler_config)
        reader.add_built_in_pools(options.built_in_pools)
    return reader.finish()


def read_loaded_manifests(
    loaded: LoadedManifests, options: ReadOptions = DEFAULT_READ_OPTIONS
) -> ClusterManifests:
    """The same of documents that were read already, such as those of a Scenario."""
    reader = _ManifestReader(options)
    with gc_paused():
        reader.read_loaded(loaded)
        reader.add_built_in_pools(options.built_in_pools)
    return reader.finish()


def _several_of(kind: str, documents: Sequence[ManifestDocument]) -> Iterator[Problem]:
    """An error at each of them, which names the first of the others."""
    places = [locate_error(each, FieldError(path=(), message="")) for each in documents]
    for place in places:
        other = next(each for each in places if each is not place)
        message = (
            f"the input has {len(places)} {kind}s, but only one can be used; "
            f"another is at {other.where}"
        )
        yield msgspec.structs.replace(place, message=message, hint="keep one of them")


class _ManifestReader:
    """Collects objects and their errors."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.manifests = ClusterManifests()
        self.skipped: list[SkippedFile] = []
        self.other_kinds = OtherKinds()
        self.errors: list[Problem] = []
        self.places: dict[type, list[ManifestDocument]] = {}
        """Documents of custom objects, by their type, in the order of the input."""
        self.kubernetes_reader = ObjectReader()

    def read_paths(
        self,
        arguments: Iterable[str],
        progress: ProgressCallback,
        replaced_kinds: dict[str, str | None],
    ) -> None:
        documents = []
        for document, kind in self._load(arguments, progress):
            replacement = replaced_kinds.get(kind.name)
            if replacement is None:
                documents.append((document, kind))
            else:
                self.note(
                    document, f"replaced by {replacement}, which was named on the command line"
                )
        self._read_objects(documents)

    def read_loaded(self, loaded: LoadedManifests) -> None:
        self._read_objects(self._identify(loaded))

    def read_kind(self, file: str, name: str, progress: ProgressCallback) -> None:
        loaded = self._load([file], progress)
        documents = [(document, kind) for document, kind in loaded if kind.name == name]
        if not documents and not self.errors:
            message = f"there is no {name} in this file"
            self.errors.append(Problem(file=file, line=1, message=message))
        self._read_objects(documents)

    def read_scheduler_config(self, file: str) -> None:
        config = read_scheduler(file)
        self.errors.extend(config.errors)
        self.manifests.notes.extend(config.notes)
        self.manifests.default_constraints = config.constraints

    def _load(
        self, arguments: Iterable[str], progress: ProgressCallback
    ) -> list[tuple[ManifestDocument, KnownKind]]:
        return self._identify(load_manifests(arguments, progress, render=self.options.render))

    def _identify(self, loaded: LoadedManifests) -> list[tuple[ManifestDocument, KnownKind]]:
        self.errors.extend(loaded.problems)
        self.manifests.notes.extend(loaded.warnings)
        self.skipped.extend(loaded.skipped)
        known = []
        for document in loaded.documents:
            findings = identify_kind(document.value)
            self._add_errors(document, findings.field_errors)
            if findings.is_other_kind:
                self.other_kinds.add(document)
            if findings.kind is not None:
                known.append((document, findings.kind))
        known, duplicates = replace_duplicates(known)
        self._note_misspellings([document for document, _ in known])
        self.manifests.notes.extend([*loaded.duplicate_keys, *duplicates])
        return known

    def _read_objects(self, documents: Sequence[tuple[ManifestDocument, KnownKind]]) -> None:
        for document, kind in documents:
            if kind.family is KindFamily.KUBERNETES:
                self._read_kubernetes(document)
        custom = [
            document for document, kind in documents if kind.family is not KindFamily.KUBERNETES
        ]
        conversion = convert_documents(
            [document.value for document in custom], drop_unknown_fields=True
        )
        for note in conversion.notes:
            self.note(custom[note.document], note.message, note.path)
        for failed in conversion.field_errors:
            self._add_errors(custom[failed.document], [failed.field_error])
        self._read_custom_objects(conversion, custom)

    def _read_custom_objects(self, conversion: Conversion, custom: list[ManifestDocument]) -> None:
        values = with_default_names(conversion.documents)
        classes = [value for value in values if value["kind"] == "EC2NodeClass"]
        only_class = _object_name(classes[0]) if len(classes) == 1 else None
        for value, given, origin in zip(
            values, conversion.documents, conversion.origins, strict=True
        ):
            kind = known_kinds()[value["apiVersion"], value["kind"]]
            if kind.family is KindFamily.LEGACY:
                continue
            if value is not given:
                message = f"no name: {_object_name(value)} is used"
                self._note_short_form(
                    custom[origin], _short_form_note(("metadata", "name"), message)
                )
            self._read_custom(custom[origin], kind, value, only_class)

    def _read_kubernetes(self, document: ManifestDocument) -> None:
        item, field_errors = self.kubernetes_reader.read(document.value)
        self._add_errors(document, field_errors)
        if all(field_error.is_accepted for field_error in field_errors):
            self.manifests.objects.append(item)

    def _read_custom(
        self,
        document: ManifestDocument,
        kind: KnownKind,
        value: dict[str, Any],
        only_class: str | None,
    ) -> None:
        long_form = expand_short_form(value, only_class)
        field_errors = validate_object(kind, long_form.value)
        for note in long_form.notes:
            self._note_short_form(document, note)
        located = [
            msgspec.structs.replace(
                field_error, path=original_path(field_error.path, long_form.moved)
            )
            for field_error in field_errors
        ]
        self._add_errors(document, located)
        if all(field_error.is_accepted for field_error in field_errors):
            item = _decode_object(kind, long_form.value, field_errors)
            if isinstance(item, NodePool) and not has_known_class(item):
                self._leave_out_pool(document, item)
            else:
                self.manifests.objects.append(item)
                self.places.setdefault(type(item), []).append(document)

    def _leave_out_pool(self, document: ManifestDocument, pool: NodePool) -> None:
        reference = pool.spec.template.spec.nodeClassRef
        message = (
            f"NodePool {pool.metadata.name} is left out: the instance types of {reference.kind} "
            f"({reference.group}) are not known"
        )
        self.note(document, message, ("spec", "template", "spec", "nodeClassRef"))

    def add_built_in_pools(self, names: Iterable[str]) -> None:
        """Those that were asked for, and those that pods select by name."""
        kind = known_kinds()["karpenter.sh/v1", "NodePool"]
        there = {pool.metadata.name for pool in self.manifests.pools}
        selected = selected_built_in_pools(self.manifests.objects) - {*names}
        for name in sorted({*names, *selected} - there):
            self.manifests.objects.append(_decode_object(kind, built_in_pool(name), []))
        for name in sorted(selected - there):
            message = (
                f"pods select the NodePool {name}, which is not in the input: that of EKS Auto "
                "Mode is assumed"
            )
            self.manifests.notes.append(Problem(file="", message=message))

    def _add_errors(self, document: ManifestDocument, field_errors: list[FieldError]) -> None:
        for each in field_errors:
            field_error = self._judge(each)
            problem = locate_error(document, name_placeholder(document.value, field_error))
            (self.manifests.notes if field_error.warning else self.errors).append(problem)

    def _judge(self, field_error: FieldError) -> FieldError:
        if self.options.refuse_unknown_fields and field_error.is_unknown_field:
            return msgspec.structs.replace(field_error, warning=False)
        return _as_dropped(field_error) if field_error.pruned else field_error

    def _note_misspellings(self, documents: Sequence[ManifestDocument]) -> None:
        for document, warning in find_misspellings(documents, self.options.known_values):
            self.manifests.notes.append(locate_error(document, warning))
        for document, warning in find_annotation_problems(documents, with_refused=False):
            self.manifests.notes.append(locate_error(document, warning))

    def _note_short_form(self, document: ManifestDocument, note: FieldError) -> None:
        """It is read as it was meant, so that the answer is not another one."""
        self.manifests.other_notes.append(locate_error(document, note))

    def note(
        self, document: ManifestDocument, message: str, path: tuple[str | int, ...] = ()
    ) -> None:
        field_error = FieldError(path=path, message=message, warning=True)
        self.manifests.notes.append(locate_error(document, field_error))

    def _expand_other_kinds(self) -> None:
        paths = [each.spec for each in self.manifests.all(PodTemplatePaths)]
        expansion = self.other_kinds.expand(paths, verbose=self.options.verbose)
        self.manifests.objects.extend(expansion.objects)
        self.manifests.notes.extend(
            [*expansion.misspellings, *expansion.duplicates, *expansion.notes]
        )
        self.manifests.other_notes.extend(expansion.irrelevant)

    def finish(self) -> ClusterManifests:
        for kind in (Cloud, Catalog):
            if len(self.manifests.all(kind)) > 1:
                self.errors.extend(_several_of(kind.__name__, self.places.get(kind, [])))
        verbose = self.options.verbose
        self._expand_other_kinds()
        self.manifests.other_notes.extend(describe_skipped(self.skipped, verbose=verbose))
        if self.options.quiet:
            self.manifests.other_notes.clear()
        if self.errors:
            raise InvalidInput(
                ProblemReport(
                    errors=self.errors,
                    warnings=self.manifests.notes,
                    notes=self.manifests.other_notes,
                ),
                undone="read",
            )
        return self.manifests


def _as_dropped(field_error: FieldError) -> FieldError:
    """An unknown field is no reason not to plan: a cluster would run with the rest."""
    message = "unknown field: dropped, as an API server does"
    return msgspec.structs.replace(field_error, message=message, warning=True)


def _decode_object(
    kind: KnownKind, value: dict[str, Any], field_errors: list[FieldError]
) -> WireStruct:
    """The typed object; an invalid status is dropped, as an API server does."""
    if any(each.path[:1] == ("status",) and not each.pruned for each in field_errors):
        value = {key: item for key, item in value.items() if key != "status"}
    return msgspec.convert(with_defaults(kind, value), kind.type)


def _object_name(value: dict[str, Any]) -> str:
    meta = value.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""
