"""Instance types from EC2, parsed into the types of the catalog."""

from typing import Any

import pytest
from tests.support.emulator_accounts import ManualClock

from wainwright.aws.instancetypes.account_offerings import parse_instance_type, parse_instance_types
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.instance_type_info import AcceleratorInfo
from wainwright.emulator.emulated_account import EmulatedAwsAccount


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    cloud = EmulatedAwsAccount(None, clock=ManualClock())
    found: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    while True:
        answer = cloud.answer("ec2", "DescribeInstanceTypes", {"MaxResults": 100, **token})
        found += answer["InstanceTypes"]
        if "NextToken" not in answer:
            return found
        token = {"NextToken": answer["NextToken"]}


def test_every_built_in_type_survives_the_round_trip(rows: list[dict[str, Any]]) -> None:
    found = parse_instance_types(rows)
    assert len(found) > 1300
    assert list(found) == sorted(found)
    assert found == {name: instance_type_info.built_in_instance_types()[name] for name in found}


def test_an_endpoint_that_does_not_state_attachments_has_those_of_the_built_in_types(
    rows: list[dict[str, Any]],
) -> None:
    rows = [{**row, "EbsInfo": {"EbsOptimizedSupport": "unsupported"}} for row in rows]
    found = parse_instance_types(rows)
    assert (found["m5.large"].ebs_attachments, found["m7i.48xlarge"].ebs_attachments) == (27, 128)
    assert found["m7i.48xlarge"].dedicated_ebs_attachments
    unknown = parse_instance_types([{**rows[0], "InstanceType": "z9.large"}])["z9.large"]
    assert (unknown.ebs_attachments, unknown.dedicated_ebs_attachments) == (27, False)


@pytest.mark.parametrize(
    "gone", ["NetworkInfo", "ProcessorInfo", "VCpuInfo", "MemoryInfo", "InstanceType"]
)
def test_a_type_that_cannot_be_parsed_does_not_hide_the_others(
    rows: list[dict[str, Any]], gone: str
) -> None:
    broken = {key: value for key, value in rows[0].items() if key != gone}
    assert len(parse_instance_types([broken, *rows[1:3]])) == 2


def test_optional_fields_may_be_absent(rows: list[dict[str, Any]]) -> None:
    row = next(each for each in rows if each["InstanceType"] == "m5.large")
    needed = ("InstanceType", "NetworkInfo", "ProcessorInfo", "VCpuInfo", "MemoryInfo")
    found = parse_instance_type({key: row[key] for key in needed})
    assert (found.spot, found.local_storage_gb, found.ebs_mbps) == (False, 0, None)


NETWORKS = [
    ("10 Gigabit", [12.0], 10_000),
    ("4x 100 Gigabit", [100.0] * 4, 400_000),
    ("Up to 10 Gigabit", [0.75], 750),
    ("Up to 10 Gigabit", [None], None),
    ("Moderate", [1.0], None),
]


@pytest.mark.parametrize(("performance", "baselines", "mbps"), NETWORKS)
def test_network_bandwidth_is_the_sustained_value(
    rows: list[dict[str, Any]], performance: str, baselines: list[float | None], mbps: int | None
) -> None:
    network = dict(rows[0]["NetworkInfo"], NetworkPerformance=performance)
    cards = [
        {
            "MaximumNetworkInterfaces": 3,
            **({} if each is None else {"BaselineBandwidthInGbps": each}),
        }
        for each in baselines
    ]
    found = parse_instance_type({**rows[0], "NetworkInfo": {**network, "NetworkCards": cards}})
    assert found.network_mbps == mbps


def test_an_accelerator_that_is_no_neuron_device_has_no_neuron_cores(
    rows: list[dict[str, Any]],
) -> None:
    device = {"Name": "Gaudi HL-205", "Manufacturer": "Habana", "Count": 8}
    found = parse_instance_type(
        {**rows[0], "InferenceAcceleratorInfo": {"Accelerators": [device]}, "NeuronInfo": None}
    )
    assert found.accelerator == AcceleratorInfo("gaudi-hl-205", "habana", 8, 0)
