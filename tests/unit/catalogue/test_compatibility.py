"""Types that a class can never launch."""

import pytest

from wainwright.catalogue import builtin
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.compatibility import Incompatible, incompatible
from wainwright.catalogue.settings import ClassSettings, NetworkInterface


def why(name: str, settings: ClassSettings) -> Incompatible | None:
    return incompatible(builtin.machines()[name], settings)


def test_al2023_does_not_run_on_the_first_arm_machines() -> None:
    assert why("a1.large", ClassSettings()) is Incompatible.NO_IMAGE


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.BOTTLEROCKET, AmiFamily.CUSTOM])
def test_other_images_run_on_them(family: AmiFamily) -> None:
    assert why("a1.large", ClassSettings(ami_family=family)) is None


def test_windows_needs_amd64() -> None:
    settings = ClassSettings(ami_family=AmiFamily.WINDOWS2022)
    assert why("m6g.large", settings) is Incompatible.NO_WINDOWS
    assert why("m5.large", settings) is None


def test_a_machine_needs_the_efa_interfaces_that_the_class_attaches() -> None:
    settings = ClassSettings(network_interfaces=(NetworkInterface(card=0, efa_only=True),))
    assert why("m5.large", settings) is Incompatible.TOO_FEW_EFA
    assert why("c5n.18xlarge", settings) is None


def test_a_machine_needs_the_cards_that_the_class_names() -> None:
    settings = ClassSettings(network_interfaces=(NetworkInterface(card=1),))
    assert why("m5.large", settings) is Incompatible.TOO_FEW_CARDS
    assert why("c6in.32xlarge", settings) is None
