"""Devices: GPUs, accelerators and special network interfaces as resources that pods can ask for."""

from collections.abc import Iterator

from wainwright.catalogue.branch import branch_interfaces
from wainwright.catalogue.figure import Detail, Figure, Rule
from wainwright.catalogue.machine import Accelerator, Machine
from wainwright.catalogue.settings import ClassSettings

POD_ENI = "vpc.amazonaws.com/pod-eni"
EFA = "vpc.amazonaws.com/efa"
WINDOWS_ADDRESS = "vpc.amazonaws.com/PrivateIPv4Address"
NEURON = "aws.amazon.com/neuron"
NEURON_CORE = "aws.amazon.com/neuroncore"
GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "habana": "habana.ai/gaudi"}


def devices(machine: Machine, settings: ClassSettings) -> dict[str, Figure]:
    """What the machine has of each; what it has none of is left out."""
    every = dict(_devices(machine, settings))
    return {name: figure for name, figure in every.items() if figure.amount}


def _devices(machine: Machine, settings: ClassSettings) -> Iterator[tuple[str, Figure]]:
    gpu = machine.gpu
    if gpu is not None and gpu.manufacturer in GPU_RESOURCES:
        detail: Detail = {"count": gpu.count, "name": gpu.name}
        yield GPU_RESOURCES[gpu.manufacturer], Figure(gpu.count, Rule.DEVICES, detail)
    if machine.accelerator is not None and machine.accelerator.neuron_cores:
        yield from _neuron(machine.accelerator)
    yield EFA, _efa(machine, settings)
    if branches := branch_interfaces(machine):
        yield POD_ENI, branches
    if settings.ami_family.traits.windows_build and machine.architecture == "amd64":
        addresses = machine.addresses_per_interface
        yield (
            WINDOWS_ADDRESS,
            Figure(addresses - 1, Rule.WINDOWS_ADDRESSES, {"addresses": addresses}),
        )


def _neuron(device: Accelerator) -> Iterator[tuple[str, Figure]]:
    detail: Detail = {"count": device.count, "name": device.name, "cores": device.neuron_cores}
    yield NEURON, Figure(device.count, Rule.DEVICES, detail)
    yield NEURON_CORE, Figure(device.count * device.neuron_cores, Rule.NEURON_CORES, detail)


def _efa(machine: Machine, settings: ClassSettings) -> Figure:
    """A class that lists network interfaces has the EFA interfaces in its list, and no more."""
    if settings.network_interfaces:
        return Figure(settings.efa_only_interfaces, Rule.EFA_OF_CLASS)
    return Figure(machine.efa_interfaces, Rule.EFA)
