"""Rehearsal: a launch with everything but the machine, to find out whether it would be allowed."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.aws.cluster import Cluster
from wainwright.aws.nodeclass.resolved import Image, Resolved, Subnet
from wainwright.aws.templates.content import Template
from wainwright.aws.templates.ensure import Templates
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


class Rehearsed(msgspec.Struct, frozen=True, kw_only=True):
    """A template that is there, and a machine to try it out with."""

    template: str
    """Its name."""
    image: Image
    kind: str
    """An instance type that the image is for."""


class Rehearsal(Protocol):
    """Whoever makes launch templates."""

    async def rehearse(self, node_class: EC2NodeClass, resolved: Resolved) -> Rehearsed:
        """Makes sure of a template as launches of the class use it.

        AwsError where EC2 refuses it, BadInput where it cannot be written.
        """
        ...


class PlainTemplates:
    """A template with what is known without the rest of the launch; it boots no node.

    Made in earnest: EC2 looks for the template of a fleet even where nothing is to be launched.
    """

    def __init__(self, templates: Templates, cluster: Cluster) -> None:
        self._templates = templates
        self._cluster = cluster

    async def rehearse(self, node_class: EC2NodeClass, resolved: Resolved) -> Rehearsed:
        tags = self._cluster.class_tags(node_class.metadata.name, node_class.spec.tags)
        image = ordinary_first(resolved.images)[0]
        data = {
            "ImageId": image.id,
            "IamInstanceProfile": {"Name": resolved.profile},
            "NetworkInterfaces": [
                {"DeviceIndex": 0, "Groups": [each.id for each in resolved.security_groups]}
            ],
            "TagSpecifications": tagged(tags, "network-interface"),
        }
        name = await self._templates.ensure(Template(data=data, tags=tags))
        return Rehearsed(template=name, image=image, kind=trial_type(image))


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What a launch is rehearsed with."""

    made: Rehearsed
    subnet: Subnet
    tags: Mapping[str, str]

    def fleet(self) -> dict[str, Any]:
        """CreateFleet for one machine on demand."""
        override = {
            "InstanceType": self.made.kind,
            "SubnetId": self.subnet.id,
            "ImageId": self.made.image.id,
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
            "InstanceType": self.made.kind,
            "MinCount": 1,
            "MaxCount": 1,
            "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": self.subnet.id}],
            "TagSpecifications": tagged(self.tags, "instance", "volume", "network-interface"),
        }

    def _template(self) -> dict[str, str]:
        return {"LaunchTemplateName": self.made.template, "Version": "$Latest"}


def ordinary_first(images: Sequence[Image]) -> list[Image]:
    """Those for ordinary machines before others: such machines are sold everywhere."""
    return sorted(images, key=lambda image: len(_devices(image)))


def trial_type(image: Image) -> str:
    """A type that the image is for."""
    cpu = image.requirements.only(ARCH) or "amd64"
    return TRIAL_TYPES.get((cpu, "".join(_devices(image)[:1])), TRIAL_TYPES[cpu, ""])


def _devices(image: Image) -> list[str]:
    """Labels of the devices that its machines must have."""
    asked = image.requirements
    counts = (INSTANCE_GPU_COUNT, INSTANCE_ACCELERATOR_COUNT)
    return [key for key in counts if key in asked and not asked[key].allowed.admits_absence]


def propagating(error: AwsError) -> bool:
    """Whether EC2 has not heard yet of a profile that IAM made a moment ago."""
    return error.code == "InvalidParameterValue" and "IAM Instance Profile" in error.text
