"""Rehearsal: a launch with everything but the machine, to find out whether it would be allowed."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.aws.cluster import Cluster
from wainwright.aws.ec2 import Ec2, template_request
from wainwright.aws.nodeclass.resolved import Image, Resolved, Subnet
from wainwright.aws.wire import tagged
from wainwright.errors import AwsError
from wainwright.model.labels import ARCH, INSTANCE_ACCELERATOR_COUNT, INSTANCE_GPU_COUNT

TRIAL_TYPES: Final[Mapping[tuple[str, str], str]] = {
    ("amd64", ""): "m5.large",
    ("arm64", ""): "m6g.large",
    ("amd64", INSTANCE_GPU_COUNT): "g4dn.xlarge",
    ("arm64", INSTANCE_GPU_COUNT): "g5g.xlarge",
    ("amd64", INSTANCE_ACCELERATOR_COUNT): "inf2.xlarge",
}
"""A type that nearly every region has, by architecture and device: nothing is launched with it."""
TRIAL_TEMPLATE: Final = "karpenter.k8s.aws/rehearsal"


class Templates(Protocol):
    """Whoever makes launch templates."""

    async def rehearse(self, node_class: EC2NodeClass, resolved: Resolved) -> str:
        """Makes sure of a template as launches of the class use it; its name.

        AwsError where EC2 refuses it, BadInput where it cannot be written.
        """
        ...


class TrialTemplates:
    """Asks for a template as a dry run, with as much as is known without the rest of the launch."""

    def __init__(self, ec2: Ec2, cluster: Cluster) -> None:
        self._ec2 = ec2
        self._cluster = cluster

    async def rehearse(self, node_class: EC2NodeClass, resolved: Resolved) -> str:
        tags = self._cluster.launch_tags(node_class.metadata.name, "", node_class.spec.tags)
        data = {
            "ImageId": resolved.images[0].id,
            "IamInstanceProfile": {"Name": resolved.profile},
            "NetworkInterfaces": [
                {"DeviceIndex": 0, "Groups": [each.id for each in resolved.security_groups]}
            ],
            "TagSpecifications": tagged(tags, "network-interface"),
        }
        token = f"rehearsal-{resolved.uid or resolved.name}"[:64]
        request = template_request(TRIAL_TEMPLATE, data, tags, token)
        error = await self._ec2.rehearse("CreateLaunchTemplate", request)
        if error is not None:
            raise error
        return TRIAL_TEMPLATE


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What a launch is rehearsed with."""

    template: str
    image: Image
    subnet: Subnet
    tags: Mapping[str, str]

    def fleet(self) -> dict[str, Any]:
        """CreateFleet for one machine on demand."""
        override = {
            "InstanceType": trial_type(self.image),
            "SubnetId": self.subnet.id,
            "ImageId": self.image.id,
        }
        return {
            "Type": "instant",
            "LaunchTemplateConfigs": [
                {"LaunchTemplateSpecification": self._template(), "Overrides": [override]}
            ],
            "TargetCapacitySpecification": {
                "DefaultTargetCapacityType": "on-demand",
                "TotalTargetCapacity": 1,
            },
            "TagSpecifications": tagged(self.tags, "instance", "volume", "fleet"),
        }

    def run(self) -> dict[str, Any]:
        """RunInstances for the same machine: who may launch fleets may not launch machines."""
        return {
            "LaunchTemplate": self._template(),
            "InstanceType": trial_type(self.image),
            "MinCount": 1,
            "MaxCount": 1,
            "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": self.subnet.id}],
            "TagSpecifications": tagged(self.tags, "instance", "volume", "network-interface"),
        }

    def _template(self) -> dict[str, str]:
        return {"LaunchTemplateName": self.template, "Version": "$Latest"}


def trial_type(image: Image) -> str:
    """A type that the image is for."""
    cpu = image.requirements.only(ARCH) or "amd64"
    devices = (INSTANCE_GPU_COUNT, INSTANCE_ACCELERATOR_COUNT)
    needed = [key for key in devices if _needs(image, key)]
    return TRIAL_TYPES.get((cpu, needed[0] if needed else ""), TRIAL_TYPES[(cpu, "")])


def _needs(image: Image, label: str) -> bool:
    return label in image.requirements and not image.requirements[label].allowed.admits_absence


def propagating(error: AwsError) -> bool:
    """Whether EC2 has not heard yet of a profile that IAM made a moment ago."""
    return error.code == "InvalidParameterValue" and "IAM Instance Profile" in error.text
