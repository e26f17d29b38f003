"""DescribeInstanceTypes, offerings and zones: every field that clients use, for every type."""

import gzip
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.support.emulator_accounts import CheckedAccount

from wainwright.api.catalog_documents import CloudSpec
from wainwright.catalogue import regions
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.emulator.ec2.instance_types import describe_instance_type
from wainwright.errors import InvalidInputError

OURS_OR_ROUGH = {
    ("NetworkInfo", "NetworkPerformance"),  # peak and baseline are not distinguished
    ("NetworkInfo", "NetworkCards", "NetworkPerformance"),
    ("NetworkInfo", "NetworkCards", "BaselineBandwidthInGbps"),
    ("EbsInfo", "EbsOptimizedSupport"),  # optional on a few old types, not distinguished
    ("SupportedRootDeviceTypes",),  # instance store on old types
}


@cache
def second_opinion() -> dict[str, Any]:
    spec = find_spec("moto")
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).parent / "ec2" / "resources" / "instance_types.json.gz"
    found: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return found


def differences(ours: Any, theirs: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    if isinstance(ours, dict):
        known = theirs if isinstance(theirs, dict) else {}
        pairs = [((*path, key), value, known.get(key)) for key, value in ours.items()]
    elif isinstance(ours, list) and ours and isinstance(ours[0], dict):
        assert len(theirs or ()) == len(ours), path
        pairs = [(path, service, other) for service, other in zip(ours, theirs, strict=True)]
    else:
        return set() if ours == theirs or path in OURS_OR_ROUGH else {path}
    return set().union(*(differences(service, other, at) for at, service, other in pairs))


def test_instance_types_agree_with_recorded_ec2_responses() -> None:
    wrong = {
        name: found
        for name, instance in instance_type_info.built_in_instance_types().items()
        if (found := differences(describe_instance_type(instance), second_opinion()[name]))
    }
    assert wrong == {}


@pytest.fixture(scope="module")
def whole() -> CheckedAccount:
    return CheckedAccount()


def test_every_type_has_the_fields_that_clients_require(whole: CheckedAccount) -> None:
    seen = set()
    for found in whole.pages("DescribeInstanceTypes", "InstanceTypes", MaxResults=100):
        for entry in found:
            seen.add(entry["InstanceType"])
            network = entry["NetworkInfo"]
            card = network["NetworkCards"][network["DefaultNetworkCardIndex"]]
            assert card["MaximumNetworkInterfaces"] > 0
            assert network["Ipv4AddressesPerInterface"] > 0
            assert entry["ProcessorInfo"]["SupportedArchitectures"]
            assert entry["VCpuInfo"]["DefaultVCpus"] > 0
            assert entry["MemoryInfo"]["SizeInMiB"] > 0
    assert seen == set(regions.load_region("us-east-1").offered)


def test_cards_of_a_type_add_up_to_its_interfaces_and_bandwidth() -> None:
    for instance in instance_type_info.built_in_instance_types().values():
        cards = describe_instance_type(instance)["NetworkInfo"]["NetworkCards"]
        interfaces = sum(card["MaximumNetworkInterfaces"] for card in cards)
        bandwidth = sum(card.get("BaselineBandwidthInGbps", 0) for card in cards)
        assert interfaces == instance.all_network_interfaces
        assert round(bandwidth * 1000) == (instance.network_mbps or 0)


def types(account: CheckedAccount, **filters: str) -> set[str]:
    request = [
        {"Name": name.replace("__", ".").replace("_", "-"), "Values": value.split(",")}
        for name, value in filters.items()
    ]
    pages = account.pages("DescribeInstanceTypes", "InstanceTypes", Filters=request)
    return {entry["InstanceType"] for page in pages for entry in page}


@pytest.mark.parametrize(
    ("filters", "has", "has_not"),
    [
        ({"supported_virtualization_type": "paravirtual"}, "m1.small", "m5.large"),
        ({"processor_info__supported_architecture": "arm64"}, "m7g.large", "m5.large"),
        ({"processor_info__supported_architecture": "x86_64,arm64"}, "m5.large", "mac1.metal"),
        ({"instance_type": "m5*.large"}, "m5a.large", "m5a.xlarge"),
        ({"bare_metal": "true"}, "m5.metal", "m5.large"),
        ({"current_generation": "false"}, "m5.large", "m7i.large"),
        ({"hypervisor": "xen"}, "t2.micro", "m5.metal"),
        ({"supported_usage_class": "capacity-block"}, "p5.48xlarge", "p3dn.24xlarge"),
        ({"memory_info__size_in_mib": "8192"}, "m5.large", "m5.xlarge"),
        (
            {"network_info__efa_supported": "true", "bare_metal": "false"},
            "c5n.18xlarge",
            "c5n.metal",
        ),
        ({"burstable_performance_supported": "true"}, "t3.small", "t1.micro"),
        ({"instance_storage_info__nvme_support": "required"}, "m5d.large", "m5.large"),
    ],
)
def test_filters(whole: CheckedAccount, filters: dict[str, str], has: str, has_not: str) -> None:
    found = types(whole, **filters)
    assert has in found
    assert has_not not in found


def test_types_are_returned_once_and_unknown_ones_are_named_in_the_error(
    whole: CheckedAccount,
) -> None:
    request = ["m5.large", "c5.large", "m5.large"]
    response = whole.call("DescribeInstanceTypes", InstanceTypes=request)
    assert [each["InstanceType"] for each in response["InstanceTypes"]] == ["c5.large", "m5.large"]
    assert whole.refused("DescribeInstanceTypes", InstanceTypes=["m5.large", "m5.huge"]) == (
        "InvalidInstanceType",
        400,
    )


def test_an_unknown_filter_is_rejected(whole: CheckedAccount) -> None:
    wrong = [{"Name": "colour", "Values": ["red"]}]
    for operation in ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings"):
        assert whole.refused(operation, Filters=wrong) == ("InvalidParameterValue", 400)


def test_a_page_has_at_most_a_hundred_types(whole: CheckedAccount) -> None:
    assert len(whole.call("DescribeInstanceTypes")["InstanceTypes"]) == 100
    assert whole.refused("DescribeInstanceTypes", MaxResults=101) == ("InvalidParameterValue", 400)


def test_a_dry_run_would_have_succeeded(whole: CheckedAccount) -> None:
    assert whole.refused("DescribeInstanceTypes", DryRun=True) == ("DryRunOperation", 412)


def test_responses_are_independent_copies(whole: CheckedAccount) -> None:
    first = whole.call("DescribeInstanceTypes", InstanceTypes=["m5.large"])["InstanceTypes"][0]
    first["ProcessorInfo"]["SupportedArchitectures"].append("quantum")
    again = whole.call("DescribeInstanceTypes", InstanceTypes=["m5.large"])["InstanceTypes"][0]
    assert again["ProcessorInfo"]["SupportedArchitectures"] == ["x86_64"]


@pytest.mark.parametrize("kind", ["availability-zone", "availability-zone-id", "region"])
def test_offerings_are_those_of_the_region(whole: CheckedAccount, kind: str) -> None:
    expected = {
        (name, {"region": "us-east-1", "availability-zone": zone.name}.get(kind, zone.id))
        for name, zones in regions.load_region("us-east-1").offered.items()
        for zone in zones
    }
    pages = whole.pages(
        "DescribeInstanceTypeOfferings", "InstanceTypeOfferings", LocationType=kind, MaxResults=1000
    )
    rows = [each for page in pages for each in page]
    assert {(row["InstanceType"], row["Location"]) for row in rows} == expected
    assert len(rows) == len(expected)
    assert {row["LocationType"] for row in rows} == {kind}


def test_offerings_by_type_and_location(whole: CheckedAccount) -> None:
    response = whole.call(
        "DescribeInstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[
            {"Name": "instance-type", "Values": ["m5.large"]},
            {"Name": "location", "Values": ["us-east-1a"]},
        ],
    )
    assert [row["Location"] for row in response["InstanceTypeOfferings"]] == ["us-east-1a"]
    assert whole.refused("DescribeInstanceTypeOfferings", LocationType="outpost") == (
        "InvalidParameterValue",
        400,
    )


def test_zones(whole: CheckedAccount) -> None:
    every = whole.call("DescribeAvailabilityZones")["AvailabilityZones"]
    assert [each["ZoneName"][-1] for each in every] == list("abcdef")
    by_id = whole.call("DescribeAvailabilityZones", ZoneIds=["use1-az3"])["AvailabilityZones"]
    assert [each["ZoneName"] for each in by_id] == ["us-east-1e"]
    filters = [{"Name": "zone-id", "Values": ["use1-az3", "use1-az1"]}]
    found = whole.call("DescribeAvailabilityZones", Filters=filters)["AvailabilityZones"]
    assert [each["ZoneName"] for each in found] == ["us-east-1a", "us-east-1e"]
    assert whole.refused("DescribeAvailabilityZones", ZoneNames=["mars-1a"]) == (
        "InvalidParameterValue",
        400,
    )


def test_a_cloud_limits_types_and_zones() -> None:
    spec = CloudSpec(
        region="us-west-2",
        zones=["us-west-2b", "us-west-2a"],
        instanceTypes=["m5.*", "c6a.large"],
    )
    account = CheckedAccount(spec)
    found = types(account)
    assert found == {name for name in found if name.startswith("m5.")} | {"c6a.large"}
    assert len(found) > 5
    zones = account.call("DescribeAvailabilityZones")["AvailabilityZones"]
    assert [each["ZoneName"] for each in zones] == ["us-west-2a", "us-west-2b"]
    assert account.refused("DescribeInstanceTypes", InstanceTypes=["c5.large"]) == (
        "InvalidInstanceType",
        400,
    )


def test_an_invalid_cloud_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="us-west-2"):
        CheckedAccount(CloudSpec(region="us-west-2", zones=["us-east-1a"]))


def test_a_type_with_a_fractional_gpu_has_gpu_count_zero(whole: CheckedAccount) -> None:
    response = whole.call("DescribeInstanceTypes", InstanceTypes=["g6f.large"])
    (gpu,) = response["InstanceTypes"][0]["GpuInfo"]["Gpus"]
    assert (gpu["Count"], gpu["LogicalGpuCount"]) == (0, 1)
