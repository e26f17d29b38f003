"""The scene of a client: what it finds in the account, and what it launches with."""

import json
from base64 import b64encode
from http.client import HTTPConnection
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from tests.contract.clients import HttpClient

DISCOVERY = {"Name": "tag:karpenter.sh/discovery", "Values": ["wain"]}
ALIVE = {
    "Name": "instance-state-name",
    "Values": ["pending", "running", "stopping", "stopped", "shutting-down"],
}
USER_DATA = "MIME-Version: 1.0\n" + "# as long as it is in life\n" * 140
_numbers = count(1)


def unique_name(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}"


def call_admin_api(door: HttpClient, path: str, body: Any = None) -> Any:
    """Asks under the emulator's own path."""
    where = urlsplit(door.endpoint)
    connection = HTTPConnection(where.hostname or "", where.port)
    try:
        connection.request(
            "GET" if body is None else "POST",
            f"/_wain/{path}",
            None if body is None else json.dumps(body),
            {"Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        said = json.loads(answer.read())
        assert answer.status == 200, said
        return said
    finally:
        connection.close()


def change_emulator(door: HttpClient, **patch: Any) -> None:
    call_admin_api(door, "change", patch)


def subnets_by_zone(door: HttpClient) -> dict[str, str]:
    found = door.ask("ec2", "DescribeSubnets", Filters=[DISCOVERY], MaxResults=500)["Subnets"]
    return {each["AvailabilityZone"]: each["SubnetId"] for each in found}


def security_group_ids(door: HttpClient) -> list[str]:
    found = door.ask("ec2", "DescribeSecurityGroups", Filters=[DISCOVERY], MaxResults=500)
    return [each["GroupId"] for each in found["SecurityGroups"]]


def image_id(door: HttpClient, architecture: str = "x86_64") -> str:
    path = (
        f"/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/{architecture}/standard/"
        "recommended/image_id"
    )
    return str(door.ask("ssm", "GetParameter", Name=path)["Parameter"]["Value"])


def profile_name(door: HttpClient) -> str:
    name = unique_name("wain_profile")
    door.ask("iam", "CreateInstanceProfile", InstanceProfileName=name, Path="/karpenter/test/")
    door.ask(
        "iam",
        "AddRoleToInstanceProfile",
        InstanceProfileName=name,
        RoleName="KarpenterNodeRole-wain",
    )
    return name


def tag_specification(kind: str, **tags: str) -> dict[str, Any]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"ResourceType": kind, "Tags": pairs}


def create_template(door: HttpClient, reservation: str | None = None, **more: Any) -> str:
    """A launch template as the client makes it; gives its name."""
    name = unique_name("karpenter.k8s.aws/hash")
    specification: dict[str, Any] = {"CapacityReservationPreference": "none"}
    if reservation is not None:
        specification = {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": reservation},
        }
    data = {
        "ImageId": image_id(door),
        "UserData": b64encode(USER_DATA.encode()).decode(),
        "IamInstanceProfile": {"Name": profile_name(door)},
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True},
            }
        ],
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "required",
            "InstanceMetadataTags": "disabled",
        },
        "Monitoring": {"Enabled": False},
        "EnclaveOptions": {"Enabled": False},
        "Placement": {"Tenancy": "default"},
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": security_group_ids(door)}],
        "TagSpecifications": [tag_specification("network-interface", team="web")],
        "CapacityReservationSpecification": specification,
        **more,
    }
    door.ask(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName=name,
        LaunchTemplateData=data,
        TagSpecifications=[
            tag_specification(
                "launch-template",
                **{
                    "eks:eks-cluster-name": "wain",
                    "karpenter.k8s.aws/ec2nodeclass": "default",
                    "karpenter.sh/nodepool": "",
                    "markup": '<a> & "b"',
                },
            )
        ],
    )
    return name


def template_config(name: str, overrides: list[dict[str, Any]]) -> dict[str, Any]:
    specification = {"LaunchTemplateName": name, "Version": "$Latest"}
    return {"LaunchTemplateSpecification": specification, "Overrides": overrides}


def fleet_request(
    *configs: dict[str, Any], spot: bool = False, number: int = 1, **more: Any
) -> dict[str, Any]:
    """A CreateFleet request as the client sends it."""
    market = "spot" if spot else "on-demand"
    options: dict[str, Any] = {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}
    if spot:
        options = {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}
    tags = {
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "eks:eks-cluster-name": "wain",
    }
    return {
        "Type": "instant",
        "LaunchTemplateConfigs": list(configs),
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": market,
            "TotalTargetCapacity": number,
        },
        "TagSpecifications": [
            tag_specification(kind, **tags) for kind in ("instance", "volume", "fleet")
        ],
        **options,
        **more,
    }


def fleet_override(door: HttpClient, instance_type: str, zone: str, **more: Any) -> dict[str, Any]:
    return {
        "InstanceType": instance_type,
        "SubnetId": subnets_by_zone(door)[zone],
        "AvailabilityZone": zone,
        **more,
    }


def launch_instances(
    door: HttpClient, instance_type: str = "m5.large", zone: str = "us-east-1a", **how: Any
) -> list[str]:
    """Machines of one pool."""
    request = fleet_request(
        template_config(create_template(door), [fleet_override(door, instance_type, zone)]), **how
    )
    (made,) = door.ask("ec2", "CreateFleet", **request)["Instances"]
    return list(made["InstanceIds"])


def describe_instances(door: HttpClient, **params: Any) -> list[Any]:
    answer = door.ask("ec2", "DescribeInstances", **params)
    return [each for group in answer["Reservations"] for each in group["Instances"]]


def create_reservation(
    door: HttpClient, number: int, instance_type: str = "m5.large", **more: Any
) -> str:
    made = door.ask(
        "ec2",
        "CreateCapacityReservation",
        InstanceType=instance_type,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=number,
        **{"InstanceMatchCriteria": "targeted", **more},
    )
    return str(made["CapacityReservation"]["CapacityReservationId"])
