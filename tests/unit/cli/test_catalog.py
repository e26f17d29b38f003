"""`wain catalog` and `wain explain type|price`, end to end."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from wainwright.cli.catalog import catalog
from wainwright.cli.catalog_input import parse_feature_gates, parse_time
from wainwright.cli.explain import explain
from wainwright.errors import UsageError
from wainwright.manifests.problems import InvalidInput
from wainwright.messages.formatting import MODELLED_PRICES

CLOUD = """
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
metadata: {name: west}
spec:
  region: us-west-2
  zones: [us-west-2a, us-west-2b]
  instanceTypes: [c5.large, c5.xlarge, m6g.large, mac2.metal]
  prices:
    - {instanceType: c5.large, capacityType: spot, zone: us-west-2a, price: 0.0315}
  capacityReservations:
    - {id: cr-a, instanceType: c5.large, availabilityZone: us-west-2a, total: 10, available: 5}
  unavailable: [{instanceType: c5.xlarge, capacityType: spot}]
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {capacityReservationSelectorTerms: [{id: cr-a}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, reserved]}
    - {key: kubernetes.io/arch, operator: In, values: [amd64]}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: edp}
spec:
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
  priceAdjustment: "-10%"
"""


@pytest.fixture
def cloud(tmp_path: Path) -> str:
    file = tmp_path / "cloud.yaml"
    file.write_text(CLOUD)
    return str(file)


def run(command: Any, *arguments: str, text: str | None = None) -> Result:
    result = CliRunner().invoke(command, arguments, input=text, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == 0
    return result


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_without_files_it_is_us_east_1_with_a_default_class() -> None:
    result = run(catalog, "--instance-type", "m5.xlarge")
    heading, row = result.stdout.splitlines()
    assert heading.startswith("TYPE       ARCH   VCPU")
    assert row.split()[:7] == ["m5.xlarge", "amd64", "4", "16Gi", "58", "3920m", "14162Mi"]
    assert row.split()[7] == "0.192"
    assert result.stderr == (
        "note: nothing in the input names a region: us-east-1 is assumed "
        f"(state it with --region or a Cloud)\n{MODELLED_PRICES}\n"
    )


def test_types_without_a_price_are_named() -> None:
    result = run(catalog, "--instance-type", "mac2*")
    assert result.stdout.count(" - ") >= 8
    assert "4 types without a price are never launched: mac2-m1ultra.metal" in result.stderr
    assert "and 1 more" in result.stderr


def test_filters_go_together_and_the_cheapest_comes_first(cloud: str) -> None:
    asked = ("--zone", "us-west-2b", "--capacity-type", "on-demand", "--sort", "price")
    result = run(catalog, cloud, *asked, "--offerings")
    assert [row[:3] for row in lines(result)[1:]] == [
        ["m6g.large", "on-demand", "us-west-2b"],
        ["c5.large", "on-demand", "us-west-2b"],
        ["c5.xlarge", "on-demand", "us-west-2b"],
    ]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--arch", "arm64"), ["m6g.large"]),
        (("--min-cpu", "4"), ["c5.xlarge", "mac2.metal"]),
        (("--min-memory", "8Gi"), ["c5.xlarge", "m6g.large", "mac2.metal"]),
        (("--min-memory", "8Gi", "--arch", "amd64"), ["c5.xlarge"]),
        (
            ("--instance-type", "c5*", "--instance-type", "m6*"),
            ["c5.large", "c5.xlarge", "m6g.large"],
        ),
        (("--sort", "memory", "--capacity-type", "spot"), ["c5.large", "m6g.large", "c5.xlarge"]),
        (("--sort", "cpu"), ["c5.large", "m6g.large", "c5.xlarge", "mac2.metal"]),
        (("--capacity-type", "reserved"), ["c5.large"]),
    ],
)
def test_each_filter_narrows(cloud: str, flags: tuple[str, ...], names: list[str]) -> None:
    found = [row[0] for row in lines(run(catalog, cloud, *flags))[1:]]
    assert found == names


def test_a_pool_lists_only_what_it_may_launch(cloud: str) -> None:
    result = run(catalog, cloud, "--nodepool", "general", "--offerings")
    bought = {(row[0], row[1], row[2]) for row in lines(result)[1:]}
    assert bought == {
        ("c5.large", "on-demand", "us-west-2a"),
        ("c5.large", "on-demand", "us-west-2b"),
        ("c5.large", "reserved", "us-west-2a"),
        ("c5.xlarge", "on-demand", "us-west-2a"),
        ("c5.xlarge", "on-demand", "us-west-2b"),
    }


def test_unavailable_offerings_are_shown_as_such(cloud: str) -> None:
    (row,) = lines(run(catalog, cloud, "--instance-type", "c5.xlarge"))[1:]
    assert row[-4:] == ["~0.153", "none", "left", "-"]


def test_csv_has_a_row_for_each_offering_and_one_for_types_without(cloud: str) -> None:
    result = run(catalog, cloud, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    reserved = [row for row in rows if row["capacityType"] == "reserved"]
    assert [(row["instanceType"], row["available"]) for row in reserved] == [("c5.large", "5")]
    mac = [row for row in rows if row["instanceType"] == "mac2.metal"]
    assert [row["pricePerHour"] for row in mac] == [""]
    priced = {row["pricePerHour"] for row in rows if row["capacityType"] == "spot"}
    assert "0.0315" in priced


def test_json_fed_back_gives_the_same_bytes(cloud: str) -> None:
    once = run(catalog, cloud, "-o", "json").stdout
    again = run(catalog, "-", "-o", "json", text=once).stdout
    assert once == again
    found = json.loads(once)
    assert (found["kind"], found["region"]) == ("Catalog", "us-west-2")
    large = next(kind for kind in found["instanceTypes"] if kind["name"] == "c5.large")
    assert large["capacity"]["memory"] == "3788Mi"
    assert {offering["reservationID"] for offering in large["offerings"]} == {None, "cr-a"}


def test_the_whole_catalogue_survives_being_printed_and_read() -> None:
    once = run(catalog, "-o", "json").stdout
    assert once.count('"name": ') == 1375
    assert run(catalog, "-", "-o", "json", text=once).stdout == once


def test_a_filtered_list_is_a_catalog_too(cloud: str) -> None:
    once = run(catalog, cloud, "--nodepool", "general", "-o", "json").stdout
    assert run(catalog, "-", "-o", "json", text=once).stdout == once


def test_flags_replace_the_documents(cloud: str, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(
        "apiVersion: wainwright.dev/v1alpha1\nkind: Cloud\n"
        "spec: {region: eu-west-1, instanceTypes: [t3.nano]}\n"
    )
    result = run(catalog, cloud, "--cloud", str(other), "--nodeclass", "default")
    assert [row[0] for row in lines(result)[1:]] == ["t3.nano"]
    assert "replaced by" in result.stderr


def test_diagnostics_name_file_and_line(cloud: str) -> None:
    Path(cloud).write_text(
        CLOUD.replace("instanceType: c5.large, capacityType", "instanceType: c5.lrge, capacityType")
    )
    result = run(catalog, cloud)
    assert f"note: {cloud}:10: spec.prices[0]" in result.stderr
    assert "there is no instance type c5.lrge" in result.stderr
    assert "did you mean c5.large?" in result.stderr


def test_a_refusal_names_file_line_and_field(cloud: str) -> None:
    Path(cloud).write_text(CLOUD.replace("us-west-2b]", "us-west-9b]"))
    with pytest.raises(InvalidInput) as caught:
        run(catalog, cloud)
    (problem,) = caught.value.report.errors
    assert (problem.file, problem.line, problem.path) == (cloud, 7, "spec.zones[1]")
    assert problem.hint == "its zones are us-west-2a, us-west-2b, us-west-2c, us-west-2d"


def test_a_refusal_from_a_pipe_names_the_object() -> None:
    with pytest.raises(InvalidInput) as caught:
        run(catalog, "-", text=CLOUD.replace("us-west-2b]", "us-west-9b]"))
    (problem,) = caught.value.report.errors
    assert (problem.file, problem.line, problem.path) == ("Cloud west", None, "spec.zones[1]")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--nodepool", "genral"), "the input has no NodePool genral"),
        (("--nodeclass", "other"), "the input has no EC2NodeClass other"),
        (("--nodepool", "general", "--nodeclass", "default"), "--nodepool has a class of its own"),
        (("--min-cpu", "many"), "--min-cpu: 'many' is not a quantity"),
        (("--now", "tomorrow"), "--now: 'tomorrow' is not a time"),
        (("--feature-gate", "NodeOverly=true"), "there is no feature gate 'NodeOverly'"),
        (("--feature-gate", "NodeOverlay=maybe"), "neither true nor false"),
        (
            ("--region", "us-east-1"),
            "the region us-east-1 was asked for, but the Cloud is of us-west-2",
        ),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    cloud: str, flags: tuple[str, ...], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        run(catalog, cloud, *flags)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--arch", "arm46"), "no architecture of EC2 is called arm46; did you mean arm64?"),
        (("--arch", "x86_64"), "no architecture of EC2 is called x86_64; did you mean amd64?"),
        (
            ("--zone", "us-wset-2a"),
            "no zone of us-west-2 is called us-wset-2a; did you mean us-west-2a?",
        ),
        (
            ("--instance-type", "c5.lrage"),
            "no instance type of us-west-2 is called c5.lrage; did you mean c5.large?",
        ),
        (
            ("--instance-type", "c55.*"),
            "no instance type of us-west-2 is called c55.*; did you mean c5.*?",
        ),
    ],
)
def test_a_misspelt_name_in_a_filter_gets_the_one_that_was_meant(
    cloud: str, flags: tuple[str, ...], says: str
) -> None:
    found = run(catalog, cloud, *flags)
    assert "nothing in the catalogue matches" in found.stderr
    assert says in found.stderr


def test_a_filter_that_only_matches_nothing_has_no_misspelling(cloud: str) -> None:
    found = run(catalog, cloud, "--arch", "arm64", "--min-cpu", "64")
    assert "is called" not in found.stderr


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("ture", "did you mean StaticCapacity=true?"),
        ("Flase", "did you mean StaticCapacity=false?"),
        ("1", "write StaticCapacity=true or StaticCapacity=false"),
    ],
)
def test_a_misspelt_value_of_a_feature_gate_gets_the_one_that_was_meant(
    value: str, hint: str
) -> None:
    with pytest.raises(UsageError) as refused:
        parse_feature_gates([f"StaticCapacity={value}"])
    assert refused.value.hint == hint


def test_several_classes_that_differ_need_a_name(cloud: str) -> None:
    other = CLOUD.split("---")[1].replace("default", "other").replace("cr-a", "cr-b")
    Path(cloud).write_text(f"{CLOUD}---{other}")
    with pytest.raises(UsageError, match="several classes, and they differ: default, other"):
        run(catalog, cloud)
    assert "c5.large" in run(catalog, cloud, "--nodeclass", "other").stdout


def test_several_classes_that_agree_need_none(cloud: str) -> None:
    other = CLOUD.split("---")[1].replace("name: default", "name: other")
    Path(cloud).write_text(f"{CLOUD}---{other}")
    assert "5 free" in run(catalog, cloud).stdout


def test_the_time_decides_about_reservations(cloud: str) -> None:
    Path(cloud).write_text(CLOUD.replace("available: 5}", 'endTime: "2026-05-01T00:00:00Z"}'))
    assert "10 free" in run(catalog, cloud, "--now", "2026-04-30T23:59:59Z").stdout
    assert "free" not in run(catalog, cloud, "--now", "2026-05-01").stdout


def test_explain_type_names_the_rule_of_each_number() -> None:
    text = run(explain, "type", "m5.xlarge").stdout
    assert "255Mi + 11Mi × 58 pods that the network interfaces allow" in text
    assert "4 network interfaces × (15 addresses each − 1) + 2" in text
    assert "16Gi of the type, less 7.5 % for the virtual machine, rounded up to 1229Mi" in text
    assert ["memory", "allocatable", "14162Mi"] in [line.split()[:3] for line in text.splitlines()]


def test_explain_type_as_json_has_every_number_with_its_reason() -> None:
    found = json.loads(run(explain, "type", "m5.xlarge", "-o", "json").stdout)
    assert found["instanceType"] == "m5.xlarge"
    assert found["labels"]["karpenter.k8s.aws/instance-family"] == "m5"
    left = {
        each["resource"]: each["amount"]
        for each in found["numbers"]
        if each["part"] == "allocatable"
    }
    assert left["cpu"] == "3920m"
    assert all(each["why"] for each in found["numbers"])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "m5.large",
            "it is sold elsewhere, or the Cloud leaves it out; the catalogue has c5.large",
        ),
        ("c5.lrge", "did you mean c5.large?"),
        ("p9.16xlarge", ""),
    ],
)
def test_an_unknown_type_is_not_taken_for_one_of_another_family(name: str, hint: str) -> None:
    cloud = (
        "apiVersion: wainwright.dev/v1alpha1\nkind: Cloud\nmetadata: {name: c}\n"
        "spec: {region: us-west-2, instanceTypes: [c5.large]}\n"
    )
    line = ("type", name, "-")
    refused = CliRunner().invoke(explain, line, input=cloud, standalone_mode=False).exception
    assert isinstance(refused, UsageError)
    assert refused.hint == hint


def test_explain_type_shows_why_no_offering_is_available() -> None:
    assert "does not run on: nothing of it is on offer" in run(explain, "type", "a1.large").stdout
    assert "has no price, and is not launched" in run(explain, "type", "mac2.metal").stdout


OVERRIDES = """
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
metadata: {name: c}
spec: {region: us-west-2, zones: [us-west-2a], instanceTypes: [c5.large]}
---
apiVersion: karpenter.sh/v1alpha1
kind: InstanceType
metadata: {name: c5.large}
spec:
  allocatable: {memory: 3900Mi, cpu: 1, example.com/fpga: 1}
  offerings:
  - {karpenter.sh/capacity-type: spot, kubernetes.io/os: windows, karpenter.sh/price: 0.01}
  - {topology.kubernetes.io/zone: us-west-2q, karpenter.sh/price: 0.01}
"""


def explained(*arguments: str) -> list[str]:
    result = CliRunner().invoke(explain, [*arguments, "-"], input=OVERRIDES, standalone_mode=False)
    assert result.exception is None
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_explain_type_shows_stated_allocatable() -> None:
    stated = "allocatable of the type's InstanceType object"
    rows = explained("type", "c5.large")
    assert f"memory allocatable 3900Mi {stated}, in place of capacity less overhead" in rows
    assert f"memory capacity 3900Mi as much as {stated}; otherwise 3788Mi" in rows
    assert f"example.com/fpga capacity 1 as much as {stated}; otherwise 0" in rows
    assert "cpu capacity 2 the type has 2 vCPUs" in rows
    assert not [row for row in rows if row.startswith(("cpu kube-reserved", "memory kube"))]


def test_explain_price_shows_offerings_that_no_node_can_have() -> None:
    rows = explained("price", "c5.large")
    why = "nodes have linux, the offering is for windows"
    assert "spot, any zone, kubernetes.io/os=windows: no price" in rows
    assert f"excluded by kubernetes.io/os no price {why}" in rows
    zone = "us-west-2 has no zone us-west-2q"
    assert f"excluded by topology.kubernetes.io/zone no price {zone}" in rows
    reasons = f"kubernetes.io/os: {why}; topology.kubernetes.io/zone: {zone}"
    assert rows[-1] == f"c5.large has no offering for this class ({reasons})."


def test_settings_for_all_classes_change_the_numbers() -> None:
    flags = ("--reserved-enis", "1", "--vm-memory-overhead-percent", "5")
    text = run(explain, "type", "m5.xlarge", *flags).stdout
    assert "less 5 % for the virtual machine" in text
    assert "the type has 4 interfaces, 1 of them reserved" in text
    assert (
        "× 16 + 2, at most 110" in run(explain, "type", "m5.xlarge", "--prefix-delegation").stdout
    )


def test_explain_price_shows_the_layers_one_under_the_other(cloud: str) -> None:
    text = run(explain, "price", "c5.large", cloud).stdout
    blocks = [block.splitlines() for block in text.split("\n\n")]
    on_demand = next(block for block in blocks if block[0].startswith("on-demand"))
    assert on_demand[0] == "on-demand, us-west-2a, us-west-2b: ~0.0765 USD per hour"
    assert [line.split()[:3] for line in on_demand[1:]] == [
        ["list", "price", "us-east-1"],
        ["NodeOverlay", "edp", "0.0765"],
    ]
    reserved = next(block for block in blocks if block[0].startswith("reserved"))
    assert reserved[0].endswith("5 free")
    assert "÷ (highest price" in reserved[1]


def test_explain_price_as_json_has_before_and_after(cloud: str) -> None:
    found = json.loads(run(explain, "price", "c5.large", cloud, "-o", "json").stdout)
    spot = [each for each in found["offerings"] if each["zones"] == ["us-west-2a"]]
    steps = next(each["steps"] for each in spot if each["capacityType"] == "spot")
    assert [(step["layer"], step["after"]) for step in steps][1] == ("Cloud", 0.0315)


def test_an_unknown_type_is_suggested() -> None:
    with pytest.raises(
        UsageError, match=r"there is no instance type m5\.xlrge in us-east-1"
    ) as caught:
        run(explain, "price", "m5.xlrge")
    assert caught.value.hint == "did you mean m5.xlarge?"


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_time("2026-01-31T08:00:00") == parse_time("2026-01-31T09:00:00+01:00")


def test_gates_go_by_both_their_names() -> None:
    assert parse_feature_gates(["ReservedCapacity=false"]) == parse_feature_gates(
        ["CapacityReservations=False"]
    )
    assert parse_feature_gates(
        ["CapacityReservations=false", "CapacityReservations=true"]
    ) == parse_feature_gates([])
    assert parse_feature_gates(["SpotToSpotConsolidation=true"]) == parse_feature_gates([])
