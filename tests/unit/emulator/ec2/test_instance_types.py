"""DescribeInstanceTypes and its kin: every field that clients rely on, for every type."""

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
    ("NetworkInfo", "NetworkPerformance"),  # peak and baseline are one figure to us
    ("NetworkInfo", "NetworkCards", "NetworkPerformance"),
    ("NetworkInfo", "NetworkCards", "BaselineBandwidthInGbps"),
    ("EbsInfo", "EbsOptimizedSupport"),  # optional on a few old types, which we do not tell apart
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
        pairs = [(path, one, other) for one, other in zip(ours, theirs, strict=True)]
    else:
        return set() if ours == theirs or path in OURS_OR_ROUGH else {path}
    return set().union(*(differences(one, other, at) for at, one, other in pairs))


def test_what_we_say_of_a_type_is_what_another_record_of_ec2_says() -> None:
    wrong = {
        name: found
        for name, machine in instance_type_info.built_in_instance_types().items()
        if (found := differences(describe_instance_type(machine), second_opinion()[name]))
    }
    assert wrong == {}


@pytest.fixture(scope="module")
def whole() -> CheckedAccount:
    return CheckedAccount()


def test_every_type_has_what_clients_crash_without(whole: CheckedAccount) -> None:
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
    for machine in instance_type_info.built_in_instance_types().values():
        cards = describe_instance_type(machine)["NetworkInfo"]["NetworkCards"]
        interfaces = sum(card["MaximumNetworkInterfaces"] for card in cards)
        bandwidth = sum(card.get("BaselineBandwidthInGbps", 0) for card in cards)
        assert interfaces == machine.all_network_interfaces
        assert round(bandwidth * 1000) == (machine.network_mbps or 0)


def types(account: CheckedAccount, **filters: str) -> set[str]:
    asked = [
        {"Name": name.replace("__", ".").replace("_", "-"), "Values": value.split(",")}
        for name, value in filters.items()
    ]
    pages = account.pages("DescribeInstanceTypes", "InstanceTypes", Filters=asked)
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


def test_types_by_name_come_once_and_unknown_ones_are_named(whole: CheckedAccount) -> None:
    asked = ["m5.large", "c5.large", "m5.large"]
    answer = whole.ask("DescribeInstanceTypes", InstanceTypes=asked)
    assert [each["InstanceType"] for each in answer["InstanceTypes"]] == ["c5.large", "m5.large"]
    assert whole.refused("DescribeInstanceTypes", InstanceTypes=["m5.large", "m5.huge"]) == (
        "InvalidInstanceType",
        400,
    )


def test_an_unknown_filter_is_refused(whole: CheckedAccount) -> None:
    wrong = [{"Name": "colour", "Values": ["red"]}]
    for operation in ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings"):
        assert whole.refused(operation, Filters=wrong) == ("InvalidParameterValue", 400)


def test_a_page_has_at_most_a_hundred_types(whole: CheckedAccount) -> None:
    assert len(whole.ask("DescribeInstanceTypes")["InstanceTypes"]) == 100
    assert whole.refused("DescribeInstanceTypes", MaxResults=101) == ("InvalidParameterValue", 400)


def test_a_dry_run_would_have_succeeded(whole: CheckedAccount) -> None:
    assert whole.refused("DescribeInstanceTypes", DryRun=True) == ("DryRunOperation", 412)


def test_answers_are_fresh(whole: CheckedAccount) -> None:
    first = whole.ask("DescribeInstanceTypes", InstanceTypes=["m5.large"])["InstanceTypes"][0]
    first["ProcessorInfo"]["SupportedArchitectures"].append("quantum")
    again = whole.ask("DescribeInstanceTypes", InstanceTypes=["m5.large"])["InstanceTypes"][0]
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


def test_offerings_by_type_and_place(whole: CheckedAccount) -> None:
    answer = whole.ask(
        "DescribeInstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[
            {"Name": "instance-type", "Values": ["m5.large"]},
            {"Name": "location", "Values": ["us-east-1a"]},
        ],
    )
    assert [row["Location"] for row in answer["InstanceTypeOfferings"]] == ["us-east-1a"]
    assert whole.refused("DescribeInstanceTypeOfferings", LocationType="outpost") == (
        "InvalidParameterValue",
        400,
    )


def test_zones(whole: CheckedAccount) -> None:
    every = whole.ask("DescribeAvailabilityZones")["AvailabilityZones"]
    assert [each["ZoneName"][-1] for each in every] == list("abcdef")
    by_id = whole.ask("DescribeAvailabilityZones", ZoneIds=["use1-az3"])["AvailabilityZones"]
    assert [each["ZoneName"] for each in by_id] == ["us-east-1e"]
    filters = [{"Name": "zone-id", "Values": ["use1-az3", "use1-az1"]}]
    found = whole.ask("DescribeAvailabilityZones", Filters=filters)["AvailabilityZones"]
    assert [each["ZoneName"] for each in found] == ["us-east-1a", "us-east-1e"]
    assert whole.refused("DescribeAvailabilityZones", ZoneNames=["mars-1a"]) == (
        "InvalidParameterValue",
        400,
    )


def test_a_cloud_says_what_there_is() -> None:
    spec = CloudSpec(
        region="us-west-2",
        zones=["us-west-2b", "us-west-2a"],
        instanceTypes=["m5.*", "c6a.large"],
    )
    account = CheckedAccount(spec)
    found = types(account)
    assert found == {name for name in found if name.startswith("m5.")} | {"c6a.large"}
    assert len(found) > 5
    zones = account.ask("DescribeAvailabilityZones")["AvailabilityZones"]
    assert [each["ZoneName"] for each in zones] == ["us-west-2a", "us-west-2b"]
    assert account.refused("DescribeInstanceTypes", InstanceTypes=["c5.large"]) == (
        "InvalidInstanceType",
        400,
    )


def test_a_cloud_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="us-west-2"):
        CheckedAccount(CloudSpec(region="us-west-2", zones=["us-east-1a"]))


def test_a_type_with_a_slice_of_a_gpu_has_none_in_ec2s_count(whole: CheckedAccount) -> None:
    answer = whole.ask("DescribeInstanceTypes", InstanceTypes=["g6f.large"])
    (gpu,) = answer["InstanceTypes"][0]["GpuInfo"]["Gpus"]
    assert (gpu["Count"], gpu["LogicalGpuCount"]) == (0, 1)
