"""Resources and launch parameters of a client."""

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


def call_admin_api(client: HttpClient, path: str, body: Any = None) -> Any:
    """Calls the admin API of the emulator."""
    where = urlsplit(client.endpoint)
    connection = HTTPConnection(where.hostname or "", where.port)
    try:
        connection.request(
            "GET" if body is None else "POST",
            f"/_wain/{path}",
            None if body is None else json.dumps(body),
            {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        content = json.loads(response.read())
        assert response.status == 200, content
        return content
    finally:
        connection.close()


def change_emulator(client: HttpClient, **patch: Any) -> None:
    call_admin_api(client, "change", patch)


def subnets_by_zone(client: HttpClient) -> dict[str, str]:
    found = client.call("ec2", "DescribeSubnets", Filters=[DISCOVERY], MaxResults=500)["Subnets"]
    return {each["AvailabilityZone"]: each["SubnetId"] for each in found}


def security_group_ids(client: HttpClient) -> list[str]:
    found = client.call("ec2", "DescribeSecurityGroups", Filters=[DISCOVERY], MaxResults=500)
    return [each["GroupId"] for each in found["SecurityGroups"]]


def image_id(client: HttpClient, architecture: str = "x86_64") -> str:
    path = (
        f"/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/{architecture}/standard/"
        "recommended/image_id"
    )
    return str(client.call("ssm", "GetParameter", Name=path)["Parameter"]["Value"])


def profile_name(client: HttpClient) -> str:
    name = unique_name("wain_profile")
    client.call("iam", "CreateInstanceProfile", InstanceProfileName=name, Path="/karpenter/test/")
    client.call(
        "iam",
        "AddRoleToInstanceProfile",
        InstanceProfileName=name,
        RoleName="KarpenterNodeRole-wain",
    )
    return name


def tag_specification(kind: str, **tags: str) -> dict[str, Any]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return {"ResourceType": kind, "Tags": pairs}


def create_template(client: HttpClient, reservation: str | None = None, **more: Any) -> str:
    """Creates a launch template as the client does; returns its name."""
    name = unique_name("karpenter.k8s.aws/hash")
    specification: dict[str, Any] = {"CapacityReservationPreference": "none"}
    if reservation is not None:
        specification = {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": reservation},
        }
    data = {
        "ImageId": image_id(client),
        "UserData": b64encode(USER_DATA.encode()).decode(),
        "IamInstanceProfile": {"Name": profile_name(client)},
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
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": security_group_ids(client)}],
        "TagSpecifications": [tag_specification("network-interface", team="web")],
        "CapacityReservationSpecification": specification,
        **more,
    }
    client.call(
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
    capacity_type = "spot" if spot else "on-demand"
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
            "DefaultTargetCapacityType": capacity_type,
            "TotalTargetCapacity": number,
        },
        "TagSpecifications": [
            tag_specification(kind, **tags) for kind in ("instance", "volume", "fleet")
        ],
        **options,
        **more,
    }


def fleet_override(
    client: HttpClient, instance_type: str, zone: str, **more: Any
) -> dict[str, Any]:
    return {
        "InstanceType": instance_type,
        "SubnetId": subnets_by_zone(client)[zone],
        "AvailabilityZone": zone,
        **more,
    }


def launch_instances(
    client: HttpClient, instance_type: str = "m5.large", zone: str = "us-east-1a", **how: Any
) -> list[str]:
    """Instances of one capacity pool."""
    request = fleet_request(
        template_config(create_template(client), [fleet_override(client, instance_type, zone)]),
        **how,
    )
    (created,) = client.call("ec2", "CreateFleet", **request)["Instances"]
    return list(created["InstanceIds"])


def describe_instances(client: HttpClient, **params: Any) -> list[Any]:
    response = client.call("ec2", "DescribeInstances", **params)
    return [each for group in response["Reservations"] for each in group["Instances"]]


def create_reservation(
    client: HttpClient, number: int, instance_type: str = "m5.large", **more: Any
) -> str:
    created = client.call(
        "ec2",
        "CreateCapacityReservation",
        InstanceType=instance_type,
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-east-1a",
        InstanceCount=number,
        **{"InstanceMatchCriteria": "targeted", **more},
    )
    return str(created["CapacityReservation"]["CapacityReservationId"])
