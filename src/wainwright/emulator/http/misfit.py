"""Misfits: what a request has that its API does not know, lacks, or that cannot be read."""

from enum import Enum, auto
from typing import Final

from wainwright.errors import AwsError


class Fault(Enum):
    UNKNOWN = auto()
    MISSING = auto()
    VALUE = auto()


class Misfit(Exception):
    """Says what is wrong; on its way up it learns where, a step at a time."""

    def __init__(self, fault: Fault, found: str = "", expected: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.found = found
        self.expected = expected
        self._steps: list[str] = []

    def under(self, step: str) -> "Misfit":
        self._steps.append(step)
        return self

    @property
    def path(self) -> str:
        return ".".join(reversed(self._steps))


def _ec2(misfit: Misfit) -> AwsError:
    match misfit.fault:
        case Fault.UNKNOWN:
            message = f"The parameter {misfit.path} is not recognized"
            return AwsError("UnknownParameter", message)
        case Fault.MISSING:
            message = f"The request must contain the parameter {misfit.path}"
            return AwsError("MissingParameter", message)
        case Fault.VALUE:
            message = (
                f"Value ({misfit.found}) for parameter {misfit.path} is invalid. "
                f"Expecting {misfit.expected}."
            )
            return AwsError("InvalidParameterValue", message)


def _query(misfit: Misfit) -> AwsError:
    return AwsError("MalformedInput", f"{misfit.path}: {_sentence(misfit)}")


def _json(misfit: Misfit) -> AwsError:
    return AwsError("SerializationException", f"{misfit.path}: {_sentence(misfit)}")


def _sentence(misfit: Misfit) -> str:
    return f"found {misfit.found}, expected {misfit.expected}"


WORDS: Final = {"ec2": _ec2, "query": _query, "json": _json, "rest-json": _json}
"""By protocol, how a service says that it cannot read a request."""
