"""Building: from launch parameters to what a machine is made of."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wainwright.emulator.ec2.images import Images
from wainwright.emulator.ec2.machines import Build, Interface
from wainwright.emulator.ec2.network import Network
from wainwright.emulator.ec2.state import Image, SecurityGroup, Subnet
from wainwright.emulator.services.iam import Iam
from wainwright.emulator.services.iam_state import profile_arn
from wainwright.emulator.world import World
from wainwright.errors import AwsError

Data: TypeAlias = Mapping[str, Any]
"""Launch parameters, in the shape of LaunchTemplateData."""

METADATA: Final = {
    "HttpTokens": "optional",
    "HttpPutResponseHopLimit": 1,
    "HttpEndpoint": "enabled",
    "HttpProtocolIpv6": "disabled",
    "InstanceMetadataTags": "disabled",
}


def key_of(build: Build) -> str:
    """Equal builds are kept once."""
    return blake2b(msgspec.json.encode(build), digest_size=12).hexdigest()


class Builder:
    """Looks up what launch parameters name, and refuses what is not there."""

    def __init__(self, world: World, network: Network, images: Images, iam: Iam) -> None:
        self._world = world
        self._network = network
        self._images = images
        self._iam = iam

    def build(self, data: Data, subnet: Subnet) -> Build:
        image = self._images.image(data.get("ImageId"))
        interfaces = self._interfaces(data, subnet.vpc_id)
        disks = _disks(image, data)
        groups = {each for interface in interfaces for each in interface.groups}
        placement = data.get("Placement") or {}
        return Build(
            image=image.id,
            architecture=image.architecture,
            windows=(image.platform or "").lower() == "windows",
            user_data=data.get("UserData") or None,
            vpc=subnet.vpc_id,
            groups={each: self._network.group(each).name for each in sorted(groups)},
            interfaces=tuple(interfaces),
            profile=self._profile(data.get("IamInstanceProfile")),
            metadata={**METADATA, **(data.get("MetadataOptions") or {})},
            disks={device: each.fleeting for device, each in disks.items()},
            sizes={device: each.gib for device, each in disks.items() if each.gib},
            root_device=image.root_device,
            key=data.get("KeyName"),
            monitored=bool((data.get("Monitoring") or {}).get("Enabled")),
            enclave=bool((data.get("EnclaveOptions") or {}).get("Enabled")),
            ebs_optimized=bool(data.get("EbsOptimized")),
            tenancy=placement.get("Tenancy") or "default",
            placement_group=placement.get("GroupName"),
        )

    def _interfaces(self, data: Data, vpc: str) -> list[Interface]:
        """Groups are named with the interfaces or, where there are none, with the machine."""
        asked = data.get("NetworkInterfaces") or ()
        plain = data.get("SecurityGroupIds") or data.get("SecurityGroups")
        if asked and plain:
            raise AwsError(
                "InvalidParameterCombination",
                "Network interfaces and an instance-level security groups may not be specified on "
                "the same request",
            )
        if not asked:
            return [Interface(groups=self._groups(plain, vpc))]
        return [
            Interface(
                device=each.get("DeviceIndex", number),
                card=each.get("NetworkCardIndex", 0),
                kind=each.get("InterfaceType") or "interface",
                groups=self._groups(each.get("Groups"), vpc),
            )
            for number, each in enumerate(asked)
        ]

    def _groups(self, asked: Sequence[str] | None, vpc: str) -> tuple[str, ...]:
        if not asked:
            return (self._network.default_group(vpc).id,)
        return tuple(self._group(each, vpc).id for each in asked)

    def _group(self, name_or_id: str, vpc: str) -> SecurityGroup:
        if name_or_id.startswith("sg-"):
            group = self._network.group(name_or_id)
            if group.vpc_id == vpc:
                return group
        return self._network.named_group(name_or_id, vpc)

    def _profile(self, asked: Mapping[str, str] | None) -> dict[str, str] | None:
        if not asked:
            return None
        field = "arn" if asked.get("Arn") else "name"
        name = asked.get("Arn") or asked.get("Name") or ""
        found = self._iam.find_profile(name)
        if found is None:
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({name}) for parameter iamInstanceProfile.{field} is invalid. "
                f"Invalid IAM Instance Profile {'ARN' if field == 'arn' else field}",
            )
        return {"Arn": profile_arn(self._world, found), "Id": found.id}


class Disk(NamedTuple):
    fleeting: bool = True
    """Whether it goes with the machine."""
    gib: int = 0


def _disks(image: Image, data: Data) -> dict[str, Disk]:
    """Those of the image, changed and added to by the launch: what it leaves unsaid stays."""
    disks: dict[str, Disk] = {}
    for each in [*image.disks, *(data.get("BlockDeviceMappings") or ())]:
        device, said = each.get("DeviceName"), each.get("Ebs")
        if not device:
            continue
        if "NoDevice" in each:
            disks.pop(device, None)
        elif said is not None:
            known = disks.get(device, Disk())
            disks[device] = Disk(
                bool(said.get("DeleteOnTermination", known.fleeting)),
                said.get("VolumeSize") or known.gib,
            )
    return disks
