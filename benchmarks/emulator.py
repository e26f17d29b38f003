"""The emulated EC2, in process and over HTTP, compared with moto's server for the same calls.
Servers run in their own processes, called through boto3 as a provider does. Moto is called less
often and its time scaled to the same number: it would take minutes.
"""

import gc
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode, urlsplit

import boto3
from botocore import xform_name
from botocore.config import Config

from benchmarks.measure import median_seconds, print_row
from wainwright.clock import SystemClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount

Call: TypeAlias = Callable[..., dict[str, Any]]

LAUNCHES: Final = 1_000
INSTANCES: Final = 10_000
MANY_INSTANCES: Final = (25_000, 50_000, 100_000)
MOTO_SCALE: Final = {"launches": 20, "machines": 500}
"""How often moto is asked, and for how many."""
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
FAMILIES: Final = ("c5", "m5", "r5", "c6i", "m6i", "r6i", "c5n", "m5n", "r5n", "i3en")


def run() -> None:
    print("emulated EC2")
    _measure_in_process()
    for number in MANY_INSTANCES:
        _measure_many(number)
    # Else the garbage collector of the client would visit the account with every request.
    gc.collect()
    with _emulator() as endpoint:
        ours = _measure_over_http(endpoint)
        page = _measure_page(endpoint)
    with _moto() as endpoint:
        theirs = _measure_moto(endpoint)
    print_row("HTTP: a page of 100 instance types", f"{page * 1000:.1f} ms", "below 50 ms")
    for what, figure in ours.items():
        beside = f"moto: {theirs[what]:.1f} s" if what in theirs else ""
        print_row(f"HTTP: {what}", f"{figure:.2f} s", beside)


def _measure_in_process() -> None:
    account = EmulatedAwsAccount(clock=SystemClock())

    def call(service: str, operation: str, **params: Any) -> dict[str, Any]:
        return account.answer(service, operation, params)

    fleet = _fleet(call)
    print_row(
        f"{LAUNCHES:,} launches with 180 overrides", f"{_launch(call, [fleet], LAUNCHES):.2f} s"
    )
    took = _launch(call, [_narrowed(fleet, zone) for zone in range(3)], INSTANCES - LAUNCHES)
    print_row(
        f"{INSTANCES - LAUNCHES:,} launches with one override", f"{took:.2f} s", "a few seconds"
    )
    took = median_seconds(lambda: call("ec2", "DescribeInstances"), 3)
    print_row(f"DescribeInstances of {INSTANCES:,}", f"{took:.2f} s")
    print_row(
        "the whole catalogue, page by page", f"{median_seconds(lambda: _refresh(call), 3):.2f} s"
    )


def _measure_many(number: int) -> None:
    """In two networks as large as EC2 allows; the time must grow with the number, not faster."""
    account = EmulatedAwsAccount(clock=SystemClock())

    def call(service: str, operation: str, **params: Any) -> dict[str, Any]:
        return account.answer(service, operation, params)

    fleets = [_in_network(call, _fleet(call, f"benchmark-{each}"), each) for each in range(2)]
    begin = process_time()
    for turn in range(0, number, 1000):
        capacity = {"DefaultTargetCapacityType": "on-demand", "TotalTargetCapacity": 1000}
        request = {**fleets[turn // 1000 % 2], "TargetCapacitySpecification": capacity}
        assert not call("ec2", "CreateFleet", **request)["Errors"]
    launched = process_time() - begin
    _describe_instances(call, number)
    listed = process_time() - begin - launched
    print_row(f"{number:,} instances launched, listed", f"{launched:.2f} s, {listed:.2f} s of CPU")


def _in_network(call: Call, fleet: dict[str, Any], number: int) -> dict[str, Any]:
    """The fleet in one subnet of 65,531 addresses."""
    block = f"10.{number}.0.0/16"
    network = call("ec2", "CreateVpc", CidrBlock=block)["Vpc"]["VpcId"]
    zone = ZONES[0]
    subnet = call("ec2", "CreateSubnet", VpcId=network, CidrBlock=block, AvailabilityZone=zone)
    place = {"SubnetId": subnet["Subnet"]["SubnetId"], "AvailabilityZone": zone}
    config = fleet["LaunchTemplateConfigs"][0]
    override = {**config["Overrides"][0], **place}
    return {**fleet, "LaunchTemplateConfigs": [{**config, "Overrides": [override]}]}


def _measure_over_http(endpoint: str) -> dict[str, float]:
    call = _client_call(endpoint)
    _refresh(call)  # clients load their own models once
    fleet = _fleet(call)
    found = {
        "the whole catalogue, page by page": median_seconds(lambda: _refresh(call), 3),
        f"{LAUNCHES:,} launches with 180 overrides": _launch(call, [fleet], LAUNCHES),
    }
    _launch_many(call, fleet, INSTANCES - LAUNCHES)
    found[f"DescribeInstances of {INSTANCES:,}"] = median_seconds(
        lambda: _describe_instances(call, INSTANCES), 1
    )
    return found


def _measure_moto(endpoint: str) -> dict[str, float]:
    """The same figures, scaled. It has no price list, and gives every list in one page."""
    call = _client_call(endpoint)
    call("ec2", "DescribeInstanceTypes")
    fleet = _fleet(call)
    launched = _launch(call, [fleet], MOTO_SCALE["launches"]) * LAUNCHES / MOTO_SCALE["launches"]
    number = MOTO_SCALE["machines"]
    _launch_many(call, fleet, number - MOTO_SCALE["launches"])
    listed = median_seconds(lambda: _describe_instances(call, number), 1) * INSTANCES / number
    return {
        "the whole catalogue, page by page": median_seconds(
            lambda: _refresh(call, prices=False), 1
        ),
        f"{LAUNCHES:,} launches with 180 overrides": launched,
        f"DescribeInstances of {INSTANCES:,}": listed,
    }


def _client_call(endpoint: str) -> Call:
    session = boto3.session.Session(
        aws_access_key_id="none", aws_secret_access_key="none", region_name="us-east-1"
    )
    config = Config(retries={"total_max_attempts": 1}, read_timeout=600)
    clients: dict[str, Any] = {}

    def call(service: str, operation: str, **params: Any) -> dict[str, Any]:
        if service not in clients:
            clients[service] = session.client(service, endpoint_url=endpoint, config=config)
        answer: dict[str, Any] = getattr(clients[service], xform_name(operation))(**params)
        return answer

    return call


def _fleet(call: Call, name: str = "benchmark") -> dict[str, Any]:
    """What a provider sends for a node: sixty types in three zones."""
    found = call("ec2", "DescribeSubnets")["Subnets"]
    places = {each["AvailabilityZone"]: each["SubnetId"] for each in found}
    image = call(
        "ec2",
        "DescribeImages",
        Owners=["amazon"],
        Filters=[{"Name": "architecture", "Values": ["x86_64"]}],
    )["Images"][0]["ImageId"]
    call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName=name,
        LaunchTemplateData={"ImageId": image},
    )
    overrides = [
        {"InstanceType": each, "SubnetId": places[zone], "AvailabilityZone": zone}
        for each in _types(call)
        for zone in ZONES
    ]
    assert len(overrides) == 180, len(overrides)
    template = {"LaunchTemplateName": name, "Version": "$Latest"}
    return {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {"LaunchTemplateSpecification": template, "Overrides": overrides}
        ],
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": "on-demand",
            "TotalTargetCapacity": 1,
        },
        "OnDemandOptions": {"AllocationStrategy": "lowest-price"},
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "web"}]}
        ],
    }


def _types(call: Call) -> list[str]:
    """Sixty that all three zones have."""
    zones: dict[str, set[str]] = {}
    where = {"LocationType": "availability-zone"}
    for each in _all_pages(call, "DescribeInstanceTypeOfferings", "InstanceTypeOfferings", **where):
        zones.setdefault(each["InstanceType"], set()).add(each["Location"])
    everywhere = (name for name, found in zones.items() if found.issuperset(ZONES))
    return sorted(
        name
        for name in everywhere
        if name.partition(".")[0] in FAMILIES and not name.endswith(".metal")
    )[:60]


def _narrowed(fleet: dict[str, Any], zone: int) -> dict[str, Any]:
    """To one pool: a subnet has no room for all the nodes."""
    config = fleet["LaunchTemplateConfigs"][0]
    only = {**config, "Overrides": [config["Overrides"][zone % len(ZONES)]]}
    return {**fleet, "LaunchTemplateConfigs": [only]}


def _launch(call: Call, fleets: list[dict[str, Any]], number: int) -> float:
    """So many nodes, each by a request of its own, from the fleets in turn."""
    begin = perf_counter()
    for turn in range(number):
        assert call("ec2", "CreateFleet", **fleets[turn % len(fleets)])["Instances"]
    return perf_counter() - begin


def _launch_many(call: Call, fleet: dict[str, Any], number: int) -> None:
    """Many nodes with few requests."""
    for turn in range(0, number, 1000):
        request = _narrowed(fleet, turn // 1000)
        count = min(number - turn, 1000)
        capacity = {**fleet["TargetCapacitySpecification"], "TotalTargetCapacity": count}
        call("ec2", "CreateFleet", **{**request, "TargetCapacitySpecification": capacity})


def _describe_instances(call: Call, expected: int) -> None:
    groups = _all_pages(call, "DescribeInstances", "Reservations", MaxResults=1000)
    assert sum(len(each["Instances"]) for each in groups) == expected


def _refresh(call: Call, *, prices: bool = True) -> None:
    """Types, offerings and spot prices, and the price list where there is one."""
    assert _all_pages(call, "DescribeInstanceTypes", "InstanceTypes", MaxResults=100)
    where: dict[str, Any] = {"LocationType": "availability-zone", "MaxResults": 1000}
    assert _all_pages(call, "DescribeInstanceTypeOfferings", "InstanceTypeOfferings", **where)
    assert _all_pages(call, "DescribeSpotPriceHistory", "SpotPriceHistory", MaxResults=1000)
    if prices:
        whole: dict[str, Any] = {"ServiceCode": "AmazonEC2", "MaxResults": 100}
        assert _all_pages(call, "GetProducts", "PriceList", "pricing", **whole)


def _all_pages(
    call: Call, operation: str, key: str, service: str = "ec2", **params: Any
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    while True:
        answer = call(service, operation, **params, **token)
        found += answer[key]
        if not answer.get("NextToken"):
            return found
        token = {"NextToken": answer["NextToken"]}


def _measure_page(endpoint: str) -> float:
    """Without a client that reads it: what the server takes, and the wire."""
    where = urlsplit(endpoint)
    connection = HTTPConnection(where.hostname or "", where.port)
    scope = "AKID/20260131/us-east-1/ec2/aws4_request"
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    body = urlencode({"Action": "DescribeInstanceTypes", "MaxResults": 100})

    def fetch() -> None:
        connection.request("POST", "/", body, headers)
        assert connection.getresponse().read().count(b"<instanceType>") == 100

    try:
        return median_seconds(fetch, 9)
    finally:
        connection.close()


@contextmanager
def _emulator() -> Iterator[str]:
    wain = Path(sys.executable).with_name("wain")
    with _process([str(wain), "emulator", "--port", "0"]) as child:
        assert child.stdout is not None
        yield json.loads(child.stdout.readline())["endpoint"]


@contextmanager
def _moto() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with _process([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]):
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            sleep(0.1)
        else:
            return
    raise TimeoutError("moto's server does not start")


@contextmanager
def _process(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield child
    finally:
        child.terminate()
        child.communicate()
