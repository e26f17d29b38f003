"""The input of the offline commands: every object, typed, complete, or all that is wrong with it.

Old kinds are converted, short forms spelt out, defaults filled in. Nothing is half read: when
anything is wrong, nothing is returned.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from wainwright.api.builtin import Reader
from wainwright.api.cloud import Catalog, Cloud
from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.fault import Fault
from wainwright.api.judge import completed, judge
from wainwright.api.kinds import Family, Kind, known
from wainwright.api.nodeclaim import NodeClaim
from wainwright.api.nodepool import NodePool
from wainwright.api.overrides import InstanceType, NodeOverlay
from wainwright.api.wire import Wire
from wainwright.collector import without_collector
from wainwright.manifests import scheduler
from wainwright.manifests.check import doubles
from wainwright.manifests.convert import Conversion, convert
from wainwright.manifests.document import Document
from wainwright.manifests.examine import identified
from wainwright.manifests.load import Progress, load, located, quiet
from wainwright.manifests.problem import Problem, Report
from wainwright.manifests.refused import InputRefused
from wainwright.manifests.scheduler.constraints import Constraints
from wainwright.manifests.shortforms import DEFAULT_CLASS, original, spelt_out

__all__ = ["InputRefused", "World", "default_class", "read"]

One = TypeVar("One", bound=Wire)


class World:
    """What the input describes, in the order it was written."""

    def __init__(self) -> None:
        self.objects: list[Wire] = []
        self.notes: list[Problem] = []
        self.default_constraints: Constraints = ()
        """What the scheduler asks of pods without topology spread constraints."""

    def all(self, kind: type[One]) -> list[One]:
        return [item for item in self.objects if isinstance(item, kind)]

    @property
    def pools(self) -> list[NodePool]:
        return self.all(NodePool)

    @property
    def classes(self) -> list[EC2NodeClass]:
        return self.all(EC2NodeClass)

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
    def catalog(self) -> Catalog | None:
        return next(iter(self.all(Catalog)), None)

    def class_of(self, pool: NodePool) -> EC2NodeClass:
        """The class that the pool refers to, or a default one where the input has none."""
        name = pool.spec.template.spec.nodeClassRef.name
        found = [item for item in self.classes if item.metadata.name == name]
        return found[0] if found else default_class(name)


def default_class(name: str = DEFAULT_CLASS) -> EC2NodeClass:
    """AL2023, without reservations: what a pool gets whose class is not in the input."""
    kind = known()["karpenter.k8s.aws/v1", "EC2NodeClass"]
    bare = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}}
    value = spelt_out({**bare, "spec": {}}, None).value
    return msgspec.convert(completed(kind, value), EC2NodeClass)


def read(
    arguments: Iterable[str],
    *,
    cloud: str | None = None,
    catalog: str | None = None,
    scheduler_config: str | None = None,
    progress: Progress = quiet,
) -> World:
    """Read everything that the arguments name; a Cloud or Catalog by flag replaces the input's.

    `scheduler_config` names the file with the configuration of the cluster's scheduler.
    """
    reading = _Reading()
    with without_collector():
        reading.take(arguments, progress, without={"Cloud": cloud, "Catalog": catalog})
        for name, file in (("Cloud", cloud), ("Catalog", catalog)):
            if file is not None:
                reading.take_only(file, name, progress)
        if scheduler_config is not None:
            reading.take_scheduler(scheduler_config)
    return reading.finished()


class _Reading:
    """Collects objects and what is wrong with them."""

    def __init__(self) -> None:
        self.world = World()
        self.errors: list[Problem] = []
        self.builtin = Reader()

    def take(
        self, arguments: Iterable[str], progress: Progress, without: dict[str, str | None]
    ) -> None:
        kept = []
        for document, kind in self._loaded(arguments, progress):
            flag = without.get(kind.name)
            if flag is None:
                kept.append((document, kind))
            else:
                self.note(document, f"replaced by {flag}, which was named on the command line")
        self._objects(kept)

    def take_only(self, file: str, name: str, progress: Progress) -> None:
        loaded = self._loaded([file], progress)
        kept = [(document, kind) for document, kind in loaded if kind.name == name]
        if not kept and not self.errors:
            message = f"there is no {name} in this file"
            self.errors.append(Problem(file=file, line=1, message=message))
        self._objects(kept)

    def take_scheduler(self, file: str) -> None:
        made = scheduler.read(file)
        self.errors.extend(made.errors)
        self.world.notes.extend(made.notes)
        self.world.default_constraints = made.constraints

    def _loaded(self, arguments: Iterable[str], progress: Progress) -> list[tuple[Document, Kind]]:
        loaded = load(arguments, progress)
        self.errors.extend(loaded.problems)
        known_ones = []
        for document in loaded.documents:
            finding = identified(document.value)
            self._faults(document, finding.faults)
            if finding.kind is not None:
                known_ones.append((document, finding.kind))
        self.errors.extend(doubles(known_ones))
        return known_ones

    def _objects(self, kept: Sequence[tuple[Document, Kind]]) -> None:
        for document, kind in kept:
            if kind.family is Family.BUILTIN:
                self._builtin(document)
        custom = [document for document, kind in kept if kind.family is not Family.BUILTIN]
        made = convert([document.value for document in custom])
        for note in made.notes:
            self.note(custom[note.document], note.message, note.path)
        for misfit in made.faults:
            self._faults(custom[misfit.document], [misfit.fault])
        self._custom_objects(made, custom)

    def _custom_objects(self, made: Conversion, custom: list[Document]) -> None:
        classes = [value for value in made.documents if value["kind"] == "EC2NodeClass"]
        only = _name(classes[0]) if len(classes) == 1 else None
        for value, origin in zip(made.documents, made.origins, strict=True):
            kind = known()[value["apiVersion"], value["kind"]]
            if kind.family is not Family.OLD:
                self._custom(custom[origin], kind, value, only)

    def _builtin(self, document: Document) -> None:
        item, faults = self.builtin.read(document.value)
        self._faults(document, faults)
        if not any(not fault.warning for fault in faults):
            self.world.objects.append(item)

    def _custom(
        self, document: Document, kind: Kind, value: dict[str, Any], only: str | None
    ) -> None:
        spelt = spelt_out(value, only)
        found = judge(kind, spelt.value)
        moved = [
            msgspec.structs.replace(fault, path=original(fault.path, spelt.moved))
            for fault in [*spelt.notes, *found]
        ]
        self._faults(document, moved)
        if not any(not fault.warning for fault in found):
            self.world.objects.append(_decoded(kind, spelt.value, found))

    def _faults(self, document: Document, faults: list[Fault]) -> None:
        for fault in faults:
            problem = located(document, fault)
            (self.world.notes if fault.warning else self.errors).append(problem)

    def note(self, document: Document, message: str, path: tuple[str | int, ...] = ()) -> None:
        fault = Fault(path=path, message=message, warning=True)
        self.world.notes.append(located(document, fault))

    def finished(self) -> World:
        for kind in (Cloud, Catalog):
            if len(self.world.all(kind)) > 1:
                message = f"the input has more than one {kind.__name__}"
                self.errors.append(Problem(file="input", message=message, hint="keep one"))
        if self.errors:
            raise InputRefused(Report(errors=self.errors, warnings=self.world.notes))
        return self.world


def _decoded(kind: Kind, value: dict[str, Any], found: list[Fault]) -> Wire:
    """The typed object; a status that makes no sense is left out, as a server would."""
    if any(fault.path[:1] == ("status",) for fault in found):
        value = {key: item for key, item in value.items() if key != "status"}
    return msgspec.convert(completed(kind, value), kind.type)


def _name(value: dict[str, Any]) -> str:
    meta = value.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""
