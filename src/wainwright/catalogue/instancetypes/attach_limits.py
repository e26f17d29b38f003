"""How many EBS volumes of pods can be attached to a node, given its instance type and class.

EC2 states for each type how many EBS volumes can be attached. Most Nitro types share their
attachments between volumes, network interfaces and local NVMe disks: what EC2 states is what one
interface and the local disks leave. Newer types have a limit for EBS volumes alone, and so have
those of the Xen hypervisor. What the node itself attaches, its root volume above all, is not for
pods.

The EBS CSI driver finds the same when it starts on the node, and reports it in the CSINode: from
then on that is what counts.
"""

from typing import Final, TypeAlias

from wainwright.catalogue.instancetypes.derived_amount import DerivationRule, DerivedAmount
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.catalogue.instancetypes.node_class_settings import NodeClassSettings
from wainwright.model.pod import EBS_CSI_DRIVER

NETWORK_INTERFACES: Final = 2
"""The first, and the one that the VPC CNI plugin keeps ready for pods to come. It attaches more as
pods need addresses; how many of them before the CSI driver counts them is not known."""
XEN_ATTACHMENTS: Final = 39
"""On Linux: one more device name, and the instance may fail to boot."""
LINUX_ROOT: Final = "/dev/xvda"
FEWEST: Final = 1
"""What the CSI driver reports where nothing is left."""


AttachLimitInputs: TypeAlias = tuple[int, bool, bool, int]


def attach_limit_inputs(info: InstanceTypeInfo) -> AttachLimitInputs:
    """Everything about a type that its attach limits can depend on."""
    return (
        info.ebs_attachments,
        info.dedicated_ebs_attachments,
        info.hypervisor == "xen",
        info.all_network_interfaces,
    )


def compute_attach_limits(
    info: InstanceTypeInfo, settings: NodeClassSettings
) -> dict[str, DerivedAmount]:
    """The limit by CSI driver."""
    return {EBS_CSI_DRIVER: attachable_volumes(info, settings)}


def attachable_volumes(info: InstanceTypeInfo, settings: NodeClassSettings) -> DerivedAmount:
    """How many EBS volumes pods can attach to such a node."""
    is_xen, volumes = info.hypervisor == "xen", _own_volumes(settings)
    attachments = min(info.ebs_attachments, XEN_ATTACHMENTS) if is_xen else info.ebs_attachments
    inputs: dict[str, int | str] = {"attachments": attachments, "volumes": volumes}
    if is_xen or info.dedicated_ebs_attachments:
        amount, rule = attachments - volumes, DerivationRule.DEDICATED_ATTACHMENTS
    else:
        inputs["interfaces"] = further = _further_interfaces(info, settings)
        amount, rule = attachments - further - volumes, DerivationRule.SHARED_ATTACHMENTS
    return DerivedAmount(max(amount, FEWEST), rule, inputs)


def _further_interfaces(info: InstanceTypeInfo, settings: NodeClassSettings) -> int:
    expected = max(NETWORK_INTERFACES, len(settings.network_interfaces))
    return min(expected, info.all_network_interfaces) - 1


def _own_volumes(settings: NodeClassSettings) -> int:
    """Disks of the class, and those that the image has besides."""
    devices = {device.device for device in settings.block_devices}
    traits = settings.ami_family.traits
    if any(device.root for device in settings.block_devices) or not traits.pod_device:
        return max(len(devices), 1)
    of_image = {traits.pod_device} if traits.windows_build else {LINUX_ROOT, traits.pod_device}
    return len(devices | of_image)
