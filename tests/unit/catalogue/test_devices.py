"""GPUs, accelerators, EFA and branch interfaces as resources."""

import msgspec
import pytest

from wainwright.catalogue import builtin
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.branch import branch_interfaces, budget
from wainwright.catalogue.devices import EFA, NEURON, NEURON_CORE, POD_ENI, WINDOWS_ADDRESS, devices
from wainwright.catalogue.figure import Rule, amounts
from wainwright.catalogue.machine import Gpu, Machine
from wainwright.catalogue.settings import ClassSettings, NetworkInterface


def machine(name: str) -> Machine:
    return builtin.machines()[name]


def resources(name: str, settings: ClassSettings | None = None) -> dict[str, int]:
    return amounts(devices(machine(name), settings or ClassSettings()))


def test_an_ordinary_machine_has_branch_interfaces_and_nothing_else() -> None:
    assert resources("m5.large") == {POD_ENI: 9}


@pytest.mark.parametrize("name", ["t3.large", "t4g.large", "m4.large", "u-6tb1.112xlarge"])
def test_burstable_xen_and_one_giant_have_no_branch_interfaces(name: str) -> None:
    assert branch_interfaces(machine(name)) is None
    assert POD_ENI not in resources(name)


def test_exceptions_from_the_branch_rule_are_listed() -> None:
    listed = branch_interfaces(machine("i4i.8xlarge"))
    assert listed is not None
    assert (listed.amount, listed.rule) == (112, Rule.BRANCH_LISTED)


@pytest.mark.parametrize(
    ("name", "interfaces"),
    [
        ("m6g.medium", 6),
        ("m5.large", 12),
        ("m5.xlarge", 22),
        ("m5.2xlarge", 42),
        ("c5d.9xlarge", 62),
        ("m5.8xlarge", 62),
        ("m6i.8xlarge", 92),
        ("m7g.8xlarge", 62),
        ("m6i.12xlarge", 122),
        ("m5.12xlarge", 62),
        ("m7i-flex.large", 6),
        ("m7i-flex.xlarge", 12),
        ("m5.16xlarge", 122),
    ],
)
def test_interfaces_grow_with_cpus_and_sooner_on_newer_intel_and_amd(
    name: str, interfaces: int
) -> None:
    assert budget(machine(name)) == interfaces


def test_neuron_devices_come_with_their_cores() -> None:
    found = resources("inf1.xlarge")
    assert (found[NEURON], found[NEURON_CORE]) == (1, 4)


def test_an_accelerator_of_another_maker_is_no_neuron() -> None:
    assert NEURON not in resources("dl2q.24xlarge")


@pytest.mark.parametrize(
    ("maker", "resource"),
    [("nvidia", "nvidia.com/gpu"), ("amd", "amd.com/gpu"), ("habana", "habana.ai/gaudi")],
)
def test_each_maker_of_gpus_has_its_own_resource(maker: str, resource: str) -> None:
    fitted = msgspec.structs.replace(machine("m5.large"), gpu=Gpu("any", maker, 4, 1024))
    assert amounts(devices(fitted, ClassSettings()))[resource] == 4


def test_efa_interfaces_are_those_of_the_type() -> None:
    assert resources("p5.48xlarge")[EFA] == 32


def test_a_class_that_lists_interfaces_has_the_efa_interfaces_it_lists() -> None:
    attached = (NetworkInterface(card=0), NetworkInterface(card=1, efa_only=True))
    assert resources("p5.48xlarge", ClassSettings(network_interfaces=attached))[EFA] == 1


def test_windows_counts_private_addresses_on_amd64() -> None:
    settings = ClassSettings(ami_family=AmiFamily.WINDOWS2022)
    assert resources("m5.large", settings)[WINDOWS_ADDRESS] == 9
    assert WINDOWS_ADDRESS not in resources("m6g.large", settings)
