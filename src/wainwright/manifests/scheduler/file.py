"""The file that `--scheduler-config` names."""

from typing import Final

import msgspec

from wainwright.api.fault import Fault
from wainwright.manifests.document import Document
from wainwright.manifests.load import load, located
from wainwright.manifests.problem import Problem
from wainwright.manifests.scheduler.constraints import Constraints
from wainwright.manifests.scheduler.document import default_constraints

FURTHER: Final = Fault(
    path=(),
    message="a second document: a scheduler has one configuration",
    found="several documents",
    expected="one document",
    hint="keep the one of the scheduler that the plan is for",
)


class Scheduler(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says, or what must be mended in it first."""

    constraints: Constraints = ()
    """Given to pods that have none of their own."""
    errors: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()


def read(file: str) -> Scheduler:
    loaded = load([file])
    if loaded.problems:
        return Scheduler(errors=tuple(loaded.problems))
    if not loaded.documents:
        message = "an empty list is no configuration"
        return Scheduler(errors=(Problem(file=file, line=1, message=message),))
    first, *others = loaded.documents
    return Scheduler(errors=(located(others[0], FURTHER),)) if others else _read(first)


def _read(document: Document) -> Scheduler:
    made, faults = default_constraints(document.value)
    errors = [located(document, fault) for fault in faults if not fault.warning]
    notes = [located(document, fault) for fault in faults if fault.warning]
    return Scheduler(constraints=made, errors=tuple(errors), notes=tuple(notes))
