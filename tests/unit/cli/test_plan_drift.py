"""`wain plan --diff OLD NEW`: which nodes drift because of the change, when, at what cost."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.consolidation_manifests import cloud, node, node_pool, pod

from wainwright.cli.main import wain
from wainwright.messages.formatting import MODELLED_PRICES

NOW = ("--now", "2026-01-31T12:00:00Z")
NODE_CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "r",
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
    },
}
Objects = list[dict[str, Any]]


def cluster() -> Objects:
    names = ("n1", "n2", "n3")
    nodes = [node(name, "m5.large") for name in names]
    pods = [pod(f"pod-{name}", name, "1500m") for name in names]
    return [node_pool(budgets=[{"nodes": "2"}]), copy.deepcopy(NODE_CLASS), cloud(), *nodes, *pods]


@pytest.fixture
def compare(tmp_path: Path) -> Callable[..., Result]:
    def run(old: Objects, new: Objects, *arguments: str) -> Result:
        for name, objects in (("old", old), ("new", new)):
            (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump_all(objects), encoding="utf-8")
        files = [str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")]
        given = ["plan", "--diff", *files, *NOW, *arguments]
        return CliRunner().invoke(wain, given, standalone_mode=False)

    return run


def drift_of(result: Result) -> dict[str, Any]:
    if result.exception is not None:
        raise result.exception
    found: dict[str, Any] = json.loads(result.stdout)["drift"]
    return found


def with_template(objects: Objects, **fields: Any) -> Objects:
    changed = copy.deepcopy(objects)
    changed[0]["spec"]["template"]["spec"] |= fields
    return changed


def test_nothing_drifts_where_nothing_changes(compare: Any) -> None:
    result = compare(cluster(), cluster())
    assert (result.return_value, result.stdout) == (0, "nothing changes\n")


def test_a_changed_template_drifts_all_nodes_as_many_at_a_time_as_budgets_allow(
    compare: Any,
) -> None:
    taints = [{"key": "a", "effect": "PreferNoSchedule"}]
    changed = with_template(cluster(), startupTaints=taints)
    drift = drift_of(compare(cluster(), changed, "-o", "json"))
    assert [(each["node"], each["reason"], each["wave"]) for each in drift["nodes"]] == [
        ("n1", "NodePoolDrifted", 1),
        ("n2", "NodePoolDrifted", 1),
        ("n3", "NodePoolDrifted", 2),
    ]
    assert drift["surgePerHour"] == pytest.approx(2 * 0.096)
    assert drift["pricePerHourChange"] == pytest.approx(0)


def test_the_text_has_reason_order_and_surge(compare: Any) -> None:
    changed = with_template(cluster(), expireAfter="48h")
    result = compare(cluster(), changed)
    assert result.return_value == 3
    assert result.stdout.splitlines() == [
        "the price stays the same; 3 nodes would drift",
        "3 nodes drift: the template of NodePool default changed: n1, n2, n3",
        "  1. n1, n2",
        "  2. n3",
        "  while both run, replacements cost up to ~$0.192/h; "
        "afterwards the cluster costs the same",
        MODELLED_PRICES,
    ]


def test_a_requirement_that_nodes_do_not_meet_any_more(compare: Any) -> None:
    requirement = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "In",
        "values": ["m5.xlarge"],
    }
    changed = with_template(cluster(), requirements=[requirement])
    drift = drift_of(compare(cluster(), changed, "-o", "json"))
    assert {each["reason"] for each in drift["nodes"]} == {"RequirementsDrifted"}
    assert "m5.large" in drift["nodes"][0]["message"]


def test_a_changed_class_drifts_the_nodes_of_its_pools(compare: Any) -> None:
    changed = cluster()
    changed[1]["spec"]["role"] = "other"
    drift = drift_of(compare(cluster(), changed, "-o", "json"))
    assert [each["reason"] for each in drift["nodes"]] == ["NodeClassDrift"] * 3


def test_a_reservation_that_is_no_longer_selected(compare: Any) -> None:
    name = "cr-0aaaaaaaaaaaaaaaa"
    old = cluster()
    old[0]["spec"]["template"]["spec"]["requirements"] = []
    old[1]["spec"]["capacityReservationSelectorTerms"] = [{"id": name}]
    old[2]["spec"]["capacityReservations"] = [
        {
            "id": name,
            "instanceType": "m5.large",
            "availabilityZone": "us-west-2a",
            "total": 1,
            "available": 0,
        }
    ]
    old[3]["metadata"]["labels"] |= {
        "karpenter.sh/capacity-type": "reserved",
        "karpenter.k8s.aws/capacity-reservation-id": name,
    }
    new = copy.deepcopy(old)
    del new[1]["spec"]["capacityReservationSelectorTerms"]
    drift = drift_of(compare(old, new, "-o", "json"))
    assert [(each["node"], each["reason"]) for each in drift["nodes"]] == [
        ("n1", "CapacityReservationDrift")
    ]


STATIC = ("--feature-gate", "StaticCapacity=true", "-o", "json")


def static_cluster(limit: int, budget: str = "100%") -> Objects:
    objects = cluster()
    objects[0] = node_pool(budgets=[{"nodes": budget}])
    objects[0]["spec"] |= {"replicas": 3, "limits": {"nodes": limit}}
    return objects


@pytest.mark.parametrize(
    ("limit", "budget", "waves"),
    [
        (4, "100%", [1, 2, 3]),
        (5, "100%", [1, 1, 2]),
        (5, "1", [1, 2, 3]),
        (6, "100%", [1, 1, 1]),
    ],
)
def test_drf_8_static_nodes_go_as_the_limit_leaves_room_beside_them(
    compare: Any, limit: int, budget: str, waves: list[int]
) -> None:
    old = static_cluster(limit, budget)
    changed = with_template(old, expireAfter="48h")
    drift = drift_of(compare(old, changed, *STATIC))
    assert [(each["node"], each["wave"]) for each in drift["nodes"]] == [
        (f"n{number}", wave) for number, wave in enumerate(waves, start=1)
    ]
    assert drift["surgePerHour"] == pytest.approx(waves.count(1) * 0.096)
    assert drift["pricePerHourChange"] == pytest.approx(0)


def test_drf_8_static_nodes_without_room_beside_them_are_held_back(compare: Any) -> None:
    old = static_cluster(3)
    drift = drift_of(compare(old, with_template(old, expireAfter="48h"), *STATIC))
    assert [(each["wave"], each["heldBy"] is not None) for each in drift["nodes"]] == [
        (None, True)
    ] * 3
    assert drift["surgePerHour"] == 0


def test_the_surge_is_of_static_and_other_nodepools_together(compare: Any) -> None:
    static = static_cluster(4)
    static[0]["metadata"]["name"] = "static"
    for each in static[3:6]:
        each["metadata"]["labels"]["karpenter.sh/nodepool"] = "static"
    other = [node_pool(budgets=[{"nodes": "1"}]), node("n4", "m5.large"), pod("d", "n4", "1500m")]
    changed = copy.deepcopy(static)
    changed[1]["spec"]["role"] = "other"  # of the class of both
    drift = drift_of(compare([*static, *other], [*changed, *other], *STATIC))
    assert [(each["node"], each["nodePool"], each["wave"]) for each in drift["nodes"]] == [
        ("n1", "static", 1),
        ("n2", "static", 2),
        ("n3", "static", 3),
        ("n4", "default", 1),
    ]
    assert drift["surgePerHour"] == pytest.approx(2 * 0.096)


def test_what_is_drifted_already_is_not_because_of_the_change(compare: Any) -> None:
    old = cluster()
    requirement = {"key": "example.com/team", "operator": "In", "values": ["a"]}
    old = with_template(old, requirements=[requirement])
    assert (
        drift_of(compare(old, with_template(old, expireAfter="48h"), "-o", "json"))["nodes"] == []
    )


def test_a_condition_that_is_stated_does_not_count(compare: Any) -> None:
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "c1", "labels": cluster()[3]["metadata"]["labels"]},
        "spec": {
            "nodeClassRef": {
                "group": "karpenter.k8s.aws",
                "kind": "EC2NodeClass",
                "name": "default",
            },
            "requirements": [],
        },
        "status": {
            "nodeName": "n1",
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": kind,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
                for kind, status in (("Drifted", "False"), ("Initialized", "True"))
            ],
        },
    }
    old = [*cluster(), claim]
    drift = drift_of(compare(old, with_template(old, expireAfter="48h"), "-o", "json"))
    assert [each["nodeClaim"] for each in drift["nodes"]] == ["c1", "n2", "n3"]


def test_nodes_that_may_not_be_evicted_say_why(compare: Any) -> None:
    old = cluster()
    old[-1]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    result = compare(old, with_template(old, expireAfter="48h"))
    assert result.stdout.splitlines()[-2] == (
        "  n3 is not replaced: it has drifted (NodePoolDrifted), but pod shop/pod-n3 has the "
        "annotation karpenter.sh/do-not-disrupt"
    )


def test_nodes_need_to_be_in_one_of_the_inputs_only(compare: Any) -> None:
    """A repository of manifests has no nodes; a snapshot of the cluster has."""
    new = [each for each in with_template(cluster(), expireAfter="48h") if each["kind"] != "Node"]
    drift = drift_of(compare(cluster(), new, "-o", "json"))
    assert [each["node"] for each in drift["nodes"]] == ["n1", "n2", "n3"]


def test_saved_inputs_tell_drift_too(compare: Any, tmp_path: Path) -> None:
    changed = cluster()
    changed[1]["spec"]["role"] = "other"
    expected = compare(cluster(), changed, "-o", "json").stdout
    files = []
    for name in ("old", "new"):
        saved = str(tmp_path / f"{name}.json")
        given = ["plan", str(tmp_path / f"{name}.yaml"), "--save-input", saved, *NOW]
        CliRunner().invoke(wain, given, standalone_mode=False)
        files.append(saved)
    again = CliRunner().invoke(
        wain, ["plan", "--diff", *files, "-o", "json"], standalone_mode=False
    )
    assert json.loads(again.stdout)["drift"] == json.loads(expected)["drift"]
