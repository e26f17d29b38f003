"""AMI families: what each operating system image implies for density, overhead and disks."""

from enum import Enum

import msgspec

from wainwright.catalogue.figure import GIB


class AmiFamily(Enum):
    """As the EC2NodeClass spells them."""

    AL2 = "AL2"
    AL2023 = "AL2023"
    BOTTLEROCKET = "Bottlerocket"
    WINDOWS2019 = "Windows2019"
    WINDOWS2022 = "Windows2022"
    WINDOWS2025 = "Windows2025"
    CUSTOM = "Custom"

    @property
    def traits(self) -> "Traits":
        return TRAITS[self]


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    windows_build: str = ""
    """Empty on Linux."""
    eni_density: bool = True
    """Whether network interfaces bound the number of pods; 110 else."""
    memory_by_eni_density: bool = True
    """Whether kube-reserved memory counts the pods that interfaces allow, or the pods in force."""
    pods_per_core: bool = True
    """Whether the kubelet setting of that name is honoured."""
    pod_device: str = ""
    """The volume that holds pods; unknown where the image is the user's own."""
    pod_device_size: int | None = None
    """What the volume has when the class says nothing."""

    @property
    def operating_system(self) -> str:
        return "windows" if self.windows_build else "linux"


def _windows(build: str) -> Traits:
    return Traits(
        windows_build=build,
        eni_density=False,
        memory_by_eni_density=False,
        pod_device="/dev/sda1",
        pod_device_size=50 * GIB,
    )


LINUX = Traits(pod_device="/dev/xvda", pod_device_size=20 * GIB)
TRAITS = {
    AmiFamily.AL2: LINUX,
    AmiFamily.AL2023: LINUX,
    AmiFamily.BOTTLEROCKET: Traits(
        memory_by_eni_density=False,
        pods_per_core=False,
        pod_device="/dev/xvdb",
        pod_device_size=20 * GIB,
    ),
    AmiFamily.WINDOWS2019: _windows("10.0.17763"),
    AmiFamily.WINDOWS2022: _windows("10.0.20348"),
    AmiFamily.WINDOWS2025: _windows("10.0.26100"),
    AmiFamily.CUSTOM: Traits(),
}
