"""Instance types, offerings, prices, images."""

import json

from tests.contract.cases.instances import any_image
from tests.contract.clients import AccountClient, expect_error, fetch_pages
from tests.contract.registry import contract_case


@contract_case()
def types_are_found_by_name_and_wildcard(client: AccountClient) -> None:
    found = client.call("ec2", "DescribeInstanceTypes", InstanceTypes=["m5.large"])["InstanceTypes"]
    (large,) = found
    assert large["VCpuInfo"]["DefaultVCpus"] == 2
    assert large["MemoryInfo"]["SizeInMiB"] == 8192
    assert large["NetworkInfo"]["Ipv4AddressesPerInterface"] == 10
    expected = [{"Name": "instance-type", "Values": ["m5.*large"]}]
    found = client.call("ec2", "DescribeInstanceTypes", Filters=expected)["InstanceTypes"]
    names = {each["InstanceType"] for each in found}
    assert {"m5.large", "m5.xlarge", "m5.24xlarge"} <= names
    assert all(name.startswith("m5.") for name in names)


@contract_case()
def an_unknown_type_is_an_error(client: AccountClient) -> None:
    code, status = expect_error(client, "ec2", "DescribeInstanceTypes", InstanceTypes=["m5.huge"])
    assert (code, status) == ("InvalidInstanceType", 400)


@contract_case(moto_wrong="it ignores MaxResults")
def instance_types_are_paginated(client: AccountClient) -> None:
    expected = [{"Name": "instance-type", "Values": ["c5.*"]}]
    found = fetch_pages(
        client, "ec2", "DescribeInstanceTypes", "InstanceTypes", Filters=expected, MaxResults=5
    )
    assert [len(page) for page in found] == [5, 4]
    names = [each["InstanceType"] for page in found for each in page]
    assert len(set(names)) == len(names)


@contract_case(moto_wrong="it ignores DryRun")
def a_dry_run_describes_nothing(client: AccountClient) -> None:
    code, status = expect_error(
        client, "ec2", "DescribeInstanceTypes", InstanceTypes=["m5.large"], DryRun=True
    )
    assert (code, status) == ("DryRunOperation", 412)


@contract_case()
def offerings_list_the_zones_of_a_type(client: AccountClient) -> None:
    found = client.call(
        "ec2",
        "DescribeInstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": ["m5.large"]}],
    )["InstanceTypeOfferings"]
    zones = {each["Location"] for each in found}
    assert {"us-east-1a", "us-east-1b", "us-east-1c"} <= zones
    assert {each["InstanceType"] for each in found} == {"m5.large"}


@contract_case(moto_wrong="every price is 0.00001, and of 2006")
def spot_prices_are_below_on_demand(client: AccountClient) -> None:
    found = client.call(
        "ec2",
        "DescribeSpotPriceHistory",
        InstanceTypes=["m5.large"],
        ProductDescriptions=["Linux/UNIX"],
        StartTime="2026-06-01T00:00:00Z",
        EndTime="2026-06-01T00:00:00Z",
    )["SpotPriceHistory"]
    assert len(found) >= 5
    assert all(0.01 < float(each["SpotPrice"]) <= 0.096 for each in found)


@contract_case(moto_wrong="there is no price list")
def the_price_list_has_on_demand_prices(client: AccountClient) -> None:
    expected = {
        "regionCode": "us-east-1",
        "serviceCode": "AmazonEC2",
        "instanceType": "m5.large",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    filters = [
        {"Type": "TERM_MATCH", "Field": key, "Value": each} for key, each in expected.items()
    ]
    (text,) = client.call("pricing", "GetProducts", ServiceCode="AmazonEC2", Filters=filters)[
        "PriceList"
    ]
    product = json.loads(text)
    assert product["product"]["attributes"]["instanceType"] == "m5.large"
    (term,) = product["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert float(dimension["pricePerUnit"]["USD"]) == 0.096


@contract_case()
def images_are_found_by_id(client: AccountClient) -> None:
    (found,) = client.call(
        "ec2",
        "DescribeImages",
        Filters=[
            {"Name": "image-id", "Values": [any_image(client)]},
            {"Name": "state", "Values": ["available"]},
        ],
    )["Images"]
    assert found["Architecture"] == "x86_64"
    assert found["Name"]
    assert found["CreationDate"].endswith("Z")
