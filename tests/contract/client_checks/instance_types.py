"""Instance types, offerings, prices, images."""

import json
from datetime import UTC, datetime
from typing import Any

from tests.contract.client_checks.setup import image_id, unique_name
from tests.contract.clients import HttpClient, expect_error, fetch_pages
from tests.contract.registry import client_check

HVM = [
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
]
COMMON = {
    "regionCode": "us-east-1",
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
SHARED = {"tenancy": "Shared", "productFamily": "Compute Instance"}
METAL = {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"}


def all_types(client: HttpClient) -> list[list[Any]]:
    return fetch_pages(
        client, "ec2", "DescribeInstanceTypes", "InstanceTypes", Filters=HVM, MaxResults=100
    )


@client_check("calls DescribeInstanceTypes")
def the_dry_run_at_the_start(client: HttpClient) -> None:
    assert expect_error(client, "ec2", "DescribeInstanceTypes", DryRun=True) == (
        "DryRunOperation",
        412,
    )


@client_check("calls DescribeInstanceTypes", "needs 5")
def every_type_has_the_fields_without_which_the_client_falls_over(client: HttpClient) -> None:
    found = all_types(client)
    assert len(found) >= 13
    assert {len(page) for page in found[:-1]} == {100}
    for each in (each for page in found for each in page):
        assert each["ProcessorInfo"]["SupportedArchitectures"]
        assert each["VCpuInfo"]["DefaultVCpus"] > 0
        assert each["MemoryInfo"]["SizeInMiB"] > 0
        network = each["NetworkInfo"]
        card = network["NetworkCards"][network["DefaultNetworkCardIndex"]]
        assert card["MaximumNetworkInterfaces"] > 0
        assert network["Ipv4AddressesPerInterface"] > 0
        assert network["EncryptionInTransitSupported"] in (True, False)
        assert network["EnaSupport"] in ("required", "supported", "unsupported")
        assert each["SupportedUsageClasses"]
        assert each["EbsInfo"]["EbsOptimizedSupport"]
        assert "SupportedStrategies" in each["PlacementGroupInfo"]


@client_check("calls DescribeInstanceTypes")
def the_fields_that_become_labels(client: HttpClient) -> None:
    names = ["m5d.large", "g5.xlarge", "inf2.xlarge", "m7g.metal", "p5.48xlarge"]
    found = client.call("ec2", "DescribeInstanceTypes", InstanceTypes=names)["InstanceTypes"]
    types = {each["InstanceType"]: each for each in found}
    assert types["m5d.large"]["InstanceStorageInfo"]["TotalSizeInGB"] == 75
    assert types["m5d.large"]["InstanceStorageInfo"]["NvmeSupport"] == "required"
    assert types["m5d.large"]["Hypervisor"] == "nitro"
    assert types["m5d.large"]["ProcessorInfo"]["Manufacturer"] == "Intel"
    assert types["m5d.large"]["ProcessorInfo"]["SustainedClockSpeedInGhz"] == 3.1
    optimized = types["m5d.large"]["EbsInfo"]["EbsOptimizedInfo"]
    assert optimized["MaximumBandwidthInMbps"] == 4750
    (gpu,) = types["g5.xlarge"]["GpuInfo"]["Gpus"]
    assert (gpu["Name"], gpu["Manufacturer"], gpu["Count"]) == ("A10G", "NVIDIA", 1)
    assert gpu["MemoryInfo"]["SizeInMiB"] > 20_000
    assert types["inf2.xlarge"]["NeuronInfo"]["NeuronDevices"][0]["Count"] == 1
    assert "Hypervisor" not in types["m7g.metal"]
    assert types["p5.48xlarge"]["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 32


@client_check("calls DescribeInstanceTypeOfferings")
def offerings_by_zone_in_pages_of_a_thousand(client: HttpClient) -> None:
    found = fetch_pages(
        client,
        "ec2",
        "DescribeInstanceTypeOfferings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        MaxResults=1000,
    )
    assert len(found) >= 5
    assert {len(page) for page in found[:-1]} == {1000}
    capacity_pools = {(each["InstanceType"], each["Location"]) for page in found for each in page}
    assert ("m5.large", "us-east-1a") in capacity_pools
    assert {zone for _, zone in capacity_pools} == {f"us-east-1{letter}" for letter in "abcdef"}


@client_check("calls DescribeSpotPriceHistory", "needs 5")
def the_current_price_of_every_pool(client: HttpClient) -> None:
    now = datetime.now(UTC)
    found = fetch_pages(
        client,
        "ec2",
        "DescribeSpotPriceHistory",
        "SpotPriceHistory",
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
        StartTime=now,
        MaxResults=2000,
    )
    rows = [each for page in found for each in page]
    assert {len(page) for page in found[:-1]} == {2000}
    prices = {(each["InstanceType"], each["AvailabilityZone"]): each for each in rows}
    assert len(prices) > 5000
    assert all(float(each["SpotPrice"]) > 0 for each in rows)
    assert all(each["Timestamp"] <= now for each in rows)
    assert ("m5.large", "us-east-1a") in prices


@client_check("calls GetProducts", "needs 5")
def both_streams_of_prices_have_something(client: HttpClient) -> None:
    for stream, some, price in ((SHARED, "m5.large", 0.096), (METAL, "m5.metal", 4.608)):
        found = products(client, {**COMMON, **stream})
        assert found[some] == price
        assert all(each >= 0 for each in found.values())
        assert len(found) > 50


def products(client: HttpClient, expected: dict[str, str]) -> dict[str, float]:
    filters = [
        {"Type": "TERM_MATCH", "Field": key, "Value": each} for key, each in expected.items()
    ]
    found = {}
    for page in fetch_pages(
        client,
        "pricing",
        "GetProducts",
        "PriceList",
        ServiceCode="AmazonEC2",
        Filters=filters,
        MaxResults=100,
    ):
        assert len(page) <= 100
        for text in page:
            product = json.loads(str(text))
            (term,) = product["terms"]["OnDemand"].values()
            (dimension,) = term["priceDimensions"].values()
            name = product["product"]["attributes"]["instanceType"]
            found[name] = float(dimension["pricePerUnit"]["USD"])
    return found


@client_check("calls GetParameter", "needs 6")
def the_images_of_al2023_and_a_miss(client: HttpClient) -> None:
    base = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023"
    kinds = ["x86_64/standard", "x86_64/nvidia", "x86_64/neuron", "arm64/standard", "arm64/nvidia"]
    for kind in kinds:
        name = f"{base}/{kind}/recommended/image_id"
        assert client.call("ssm", "GetParameter", Name=name)["Parameter"]["Value"].startswith(
            "ami-"
        )
    missing = f"{base}/arm64/neuron/recommended/image_id"
    assert expect_error(client, "ssm", "GetParameter", Name=missing) == ("ParameterNotFound", 400)


@client_check("calls DescribeImages", "needs 6")
def images_by_id_with_what_the_client_needs(client: HttpClient) -> None:
    expected = [image_id(client), image_id(client, "arm64")]
    found = client.call(
        "ec2",
        "DescribeImages",
        Filters=[
            {"Name": "image-id", "Values": expected},
            {"Name": "state", "Values": ["available"]},
        ],
        IncludeDeprecated=True,
        MaxResults=1000,
    )["Images"]
    assert {each["ImageId"]: each["Architecture"] for each in found} == {
        expected[0]: "x86_64",
        expected[1]: "arm64",
    }
    for each in found:
        assert each["Name"]
        assert datetime.fromisoformat(each["CreationDate"]) < datetime.now(UTC)
        assert datetime.fromisoformat(each["DeprecationTime"]) > datetime.now(UTC)


@client_check("calls DescribeImages")
def images_by_name_and_by_tag_of_given_owners(client: HttpClient) -> None:
    name = unique_name("my-image")
    created = client.call(
        "ec2",
        "RegisterImage",
        Name=name,
        Architecture="arm64",
        RootDeviceName="/dev/xvda",
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20}}],
    )["ImageId"]
    client.call("ec2", "CreateTags", Resources=[created], Tags=[{"Key": "image", "Value": name}])
    for expected in (
        {"Name": "name", "Values": [f"{name}*"]},
        {"Name": "tag:image", "Values": [name]},
    ):
        (found,) = client.call(
            "ec2", "DescribeImages", Owners=["self", "amazon"], Filters=[expected], MaxResults=1000
        )["Images"]
        assert (found["ImageId"], found["Architecture"]) == (created, "arm64")
    by_key = [{"Name": "tag-key", "Values": ["image"]}]
    found = client.call("ec2", "DescribeImages", Owners=["self"], Filters=by_key)["Images"]
    assert created in {each["ImageId"] for each in found}
    public = [{"Name": "name", "Values": [f"{name}*"]}]
    assert client.call("ec2", "DescribeImages", Owners=["amazon"], Filters=public)["Images"] == []
