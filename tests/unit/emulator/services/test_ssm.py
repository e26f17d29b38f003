"""SSM: the public parameters of the EKS images, and parameters that were put."""

from typing import Any

import pytest
from tests.support.emulator_accounts import SingleService

from wainwright.clock import EPOCH
from wainwright.emulator.services.public_images import KUBERNETES_VERSIONS, list_public_images
from wainwright.emulator.services.ssm import Ssm

EKS = "/aws/service/eks/optimized-ami"
BOTTLEROCKET = "/aws/service/bottlerocket"
WINDOWS = "/aws/service/ami-windows-latest"
MISSING = ("ParameterNotFound", 400)


def value(service: SingleService[Ssm], name: str) -> str:
    return str(service.call("GetParameter", Name=name)["Parameter"]["Value"])


def image_of(service: SingleService[Ssm], name: str) -> tuple[str, str]:
    """Name and architecture of the image of the parameter."""
    identity = value(service, name)
    found = [each for each in service.service.images() if each.id == identity]
    assert len(found) == 1
    return found[0].name, found[0].architecture


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_family_and_version_has_its_images(version: str) -> None:
    service, minor = SingleService(Ssm), int(version.split(".")[1])
    al2023 = f"{EKS}/{version}/amazon-linux-2023"
    paths = {
        f"{al2023}/x86_64/standard/recommended": "x86_64",
        f"{al2023}/arm64/standard/recommended": "arm64",
        f"{al2023}/x86_64/nvidia/recommended": "x86_64",
        f"{al2023}/arm64/nvidia/recommended": "arm64",
        f"{al2023}/x86_64/neuron/recommended": "x86_64",
        f"{BOTTLEROCKET}/aws-k8s-{version}/x86_64/latest": "x86_64",
        f"{BOTTLEROCKET}/aws-k8s-{version}/arm64/latest": "arm64",
        f"{BOTTLEROCKET}/aws-k8s-{version}-nvidia/x86_64/latest": "x86_64",
        f"{BOTTLEROCKET}/aws-k8s-{version}-nvidia/arm64/latest": "arm64",
        f"{WINDOWS}/Windows_Server-2019-English-Core-EKS_Optimized-{version}": "x86_64",
        f"{WINDOWS}/Windows_Server-2022-English-Core-EKS_Optimized-{version}": "x86_64",
    }
    if minor <= 32:
        paths |= {
            f"{EKS}/{version}/amazon-linux-2/recommended": "x86_64",
            f"{EKS}/{version}/amazon-linux-2-arm64/recommended": "arm64",
            f"{EKS}/{version}/amazon-linux-2-gpu/recommended": "x86_64",
        }
    if minor >= 35:
        paths[f"{WINDOWS}/Windows_Server-2025-English-Core-EKS_Optimized-{version}"] = "x86_64"
    for path, architecture in paths.items():
        name, found = image_of(service, f"{path}/image_id")
        assert found == architecture
        assert version in name


@pytest.mark.parametrize(
    "name",
    [
        f"{EKS}/1.36/amazon-linux-2023/arm64/neuron/recommended/image_id",
        f"{EKS}/1.33/amazon-linux-2/recommended/image_id",
        f"{EKS}/1.25/amazon-linux-2023/x86_64/standard/recommended/image_id",
        f"{WINDOWS}/Windows_Server-2025-English-Core-EKS_Optimized-1.34/image_id",
        "/nobody/put/this",
    ],
)
def test_unknown_parameters_are_not_found(name: str) -> None:
    assert SingleService(Ssm).refused("GetParameter", Name=name) == MISSING


def test_a_pinned_version_has_its_image_and_the_newest_is_recommended() -> None:
    service = SingleService(Ssm)
    folder = f"{EKS}/1.34/amazon-linux-2023/x86_64/standard"
    pinned = {}
    for day in ("20251023", "20251120", "20251218"):
        name = f"amazon-eks-node-al2023-x86_64-standard-1.34-v{day}"
        assert image_of(service, f"{folder}/{name}/image_id") == (name, "x86_64")
        pinned[day] = value(service, f"{folder}/{name}/image_id")
    assert len(set(pinned.values())) == 3
    assert value(service, f"{folder}/recommended/image_id") == pinned["20251218"]
    assert value(service, f"{folder}/recommended/image_name").endswith("v20251218")


def test_bottlerocket_is_pinned_by_its_own_version() -> None:
    service = SingleService(Ssm)
    folder = f"{BOTTLEROCKET}/aws-k8s-1.36/arm64"
    version = value(service, f"{folder}/latest/image_version")
    number = version.partition("-")[0]
    newest = value(service, f"{folder}/latest/image_id")
    assert value(service, f"{folder}/{number}/image_id") == newest
    assert value(service, f"{folder}/{version}/image_id") == newest
    assert value(service, f"{folder}/1.49.0/image_id") != newest


def test_images_are_distinct_and_specific_to_their_region() -> None:
    here, there = list_public_images("us-east-1"), list_public_images("eu-west-1")
    assert len({each.id for each in here}) == len({each.name for each in here}) == len(here)
    assert not {each.id for each in here} & {each.id for each in there}
    assert [each.id for each in here] == [each.id for each in list_public_images("us-east-1")]
    assert all(each.created < EPOCH < each.deprecated for each in here)
    assert all((each.platform == "windows") == (each.root_device == "/dev/sda1") for each in here)
    assert all(each.mappings()[0]["DeviceName"] == each.root_device for each in here)


def test_several_parameters_at_once_with_unknown_ones_listed() -> None:
    service = SingleService(Ssm)
    service.call("PutParameter", Name="b", Value="2", Type="String")
    service.call("PutParameter", Name="a", Value="1", Type="String")
    response = service.call("GetParameters", Names=["b", "x", "a", "b"])
    assert [each["Name"] for each in response["Parameters"]] == ["a", "b"]
    assert response["InvalidParameters"] == ["x"]
    many = [str(number) for number in range(11)]
    assert service.refused("GetParameters", Names=many) == ("ValidationException", 400)


def test_a_parameter_is_put_once_unless_overwritten() -> None:
    service = SingleService(Ssm)
    assert service.call("PutParameter", Name="/a/b", Value="1", Type="String")["Version"] == 1
    again: dict[str, Any] = {"Name": "/a/b", "Value": "2"}
    assert service.refused("PutParameter", **again) == ("ParameterAlreadyExists", 400)
    service.clock.time += 60
    assert service.call("PutParameter", **again, Overwrite=True)["Version"] == 2
    found = service.call("GetParameter", Name="/a/b")["Parameter"]
    assert (found["Value"], found["Version"], found["Type"]) == ("2", 2, "String")
    assert found["LastModifiedDate"].timestamp() == service.clock.time
    assert found["ARN"] == "arn:aws:ssm:us-east-1:111122223333:parameter/a/b"
    assert value(service, "/a/b:2") == "2"
    assert service.refused("GetParameter", Name="/a/b:1") == ("ParameterVersionNotFound", 400)
    assert value(service, found["ARN"]) == "2"
    untyped = service.refused("PutParameter", Name="/c", Value="1")
    assert untyped == ("ValidationException", 400)


def test_the_recommended_image_can_be_replaced_and_deleted() -> None:
    service = SingleService(Ssm)
    name = f"{EKS}/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
    service.call("PutParameter", Name=name, Value="ami-1", Overwrite=True)
    assert value(service, name) == "ami-1"
    service.call("DeleteParameter", Name=name)
    again = service.reloaded()
    for each in (service, again):
        assert each.refused("GetParameter", Name=name) == MISSING
        assert each.refused("DeleteParameter", Name=name) == MISSING
    again.call("PutParameter", Name=name, Value="ami-2", Type="String")
    assert value(again, name) == "ami-2"


def test_parameters_by_path_are_paginated() -> None:
    service = SingleService(Ssm)
    path = f"{EKS}/1.36/amazon-linux-2023/x86_64"
    found, params = [], {"Path": path, "Recursive": True}
    while True:
        response = service.call("GetParametersByPath", **params)
        found += [each["Name"] for each in response["Parameters"]]
        if "NextToken" not in response:
            break
        params["NextToken"] = response["NextToken"]
    assert found == sorted(found)
    assert len(found) == 3 * (3 + 1) * 2  # variants × (releases and the recommended) × parameters
    assert service.call("GetParametersByPath", Path=path)["Parameters"] == []
    direct = service.call("GetParametersByPath", Path=f"{path}/standard/recommended/")["Parameters"]
    assert [each["Name"].rpartition("/")[2] for each in direct] == ["image_id", "image_name"]
