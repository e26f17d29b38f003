"""`wain reservations`, as somebody meets it on the terminal."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from wainwright.cli.main import wain

STORY = str(Path(__file__).parents[3] / "examples" / "reserved-then-spot")
NOW = ("--now", "2026-01-31T12:00:00Z")


def lines(*arguments: str) -> list[str]:
    result = CliRunner().invoke(wain, [*arguments, *NOW], standalone_mode=False)
    assert result.exception is None, result.output
    return result.stdout.splitlines()


def written(folder: Path, *objects: dict[str, Any]) -> str:
    file = folder / "given.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(file)


def cloud(*reservations: dict[str, Any]) -> dict[str, Any]:
    place = {"instanceType": "c5.large", "availabilityZone": "us-west-2a", "total": 5}
    spec = {
        "region": "us-west-2",
        "zones": ["us-west-2a"],
        "instanceTypes": ["c5.large"],
        "capacityReservations": [{**place, **each} for each in reservations],
    }
    head = {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Cloud"}
    return {**head, "metadata": {"name": "test"}, "spec": spec}


def node_class(name: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass"}
    terms = [{"instanceType": "c5.large"}]
    return {
        **head,
        "metadata": {"name": name},
        "spec": {"capacityReservationSelectorTerms": terms, **spec},
    }


def pool(name: str) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
    head = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}}
    return {**head, "spec": {"template": {"spec": {"nodeClassRef": reference}}}}


def test_reserved_instances_of_launching_claims_are_in_flight_and_not_idle(tmp_path: Path) -> None:
    claims = tmp_path / "claims.yaml"
    claims.write_text("\n".join(lines("plan", STORY, "-o", "nodeclaims")))
    _, row = lines("reservations", STORY, str(claims))
    assert row.split()[3:] == ["10", "10", "0", "0", "0", "$0.000/h"]
    said = lines("plan", STORY, str(claims))
    [heading] = [line for line in said if line.startswith("RESERVATION")]
    assert heading.split() == ["RESERVATION", "TOTAL", "IN", "USE", "FREE", "PLAN", "TAKES", "IDLE"]
    [counts] = [line for line in said if line.startswith("cr-0123456789abcdef0")]
    assert counts.split()[1:] == ["10", "10", "0", "0", "0"]


def test_unusable_reservations_are_listed_with_the_reason(tmp_path: Path) -> None:
    given = written(
        tmp_path,
        cloud({"id": "cr-a", "platform": "Windows"}, {"id": "cr-b", "state": "expired"}),
        node_class("linux"),
        pool("linux"),
    )
    _, first, second, *remarks = lines("reservations", given)
    assert first.split()[3:] == ["5", "0", "5", "0", "5", "-"]
    assert second.split()[3:] == ["5", "0", "5", "0", "0", "-"]
    assert remarks == [
        "cr-a cannot be used: it is for another operating system than the class's",
        "cr-b cannot be used: it is not active",
    ]


def test_nothing_is_noted_of_what_one_class_can_use_and_another_cannot(tmp_path: Path) -> None:
    windows = [{"alias": "windows2022@latest"}]
    given = written(
        tmp_path,
        cloud({"id": "cr-a"}, {"id": "cr-b", "platform": "Windows"}),
        node_class("linux"),
        pool("linux"),
        node_class("windows", amiSelectorTerms=windows),
        pool("windows"),
    )
    plan = json.loads("\n".join(lines("plan", given, "-o", "json")))
    assert [use["unusable"] for use in plan["summary"]["reservations"]] == [None, None]
    assert not any("cannot be used" in said for said in plan["warnings"])


def test_without_a_selection_or_with_the_gate_closed_that_is_what_is_said(tmp_path: Path) -> None:
    bare = node_class("linux", capacityReservationSelectorTerms=None)
    given = written(tmp_path, cloud({"id": "cr-a"}), bare, pool("linux"))
    assert lines("reservations", given) == ["no class of the input selects a capacity reservation"]
    closed = ("--feature-gate", "CapacityReservations=false")
    assert lines("reservations", STORY, *closed) == ["the feature gate CapacityReservations is off"]
