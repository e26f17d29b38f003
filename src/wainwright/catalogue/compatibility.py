"""Compatibility: types that a class can never launch, whatever their size."""

from enum import Enum

from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.machine import Machine
from wainwright.catalogue.settings import ClassSettings


class Incompatible(Enum):
    """Why; the value is the rest of a sentence that starts with the type."""

    NO_IMAGE = "has a CPU that Amazon Linux 2023 does not run on"
    NO_WINDOWS = "is not amd64, and Windows runs on nothing else"
    TOO_FEW_EFA = "has fewer EFA interfaces than the class attaches"
    TOO_FEW_CARDS = "has fewer network cards than the class names"


def incompatible(machine: Machine, settings: ClassSettings) -> Incompatible | None:
    """The first reason, if any: such a type is listed, but has nothing on offer for the class."""
    if machine.family == "a1" and settings.ami_family is AmiFamily.AL2023:
        return Incompatible.NO_IMAGE
    if settings.ami_family.traits.windows_build and machine.architecture != "amd64":
        return Incompatible.NO_WINDOWS
    if settings.efa_only_interfaces > machine.efa_interfaces:
        return Incompatible.TOO_FEW_EFA
    if any(each.card >= machine.network_cards for each in settings.network_interfaces):
        return Incompatible.TOO_FEW_CARDS
    return None
