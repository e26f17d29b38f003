"""`wain explain pod`: why a pod goes to its node, other pools and nodes, pods that are not planned;
and that fixes are tried only where they are printed.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner, Result
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import wain
from wainwright.core.explain.suggestion_trials import TrialRunner
from wainwright.errors import UsageError

NOW = ("--now", "2026-01-31T12:00:00Z")
CLOUD = """\
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
metadata: {name: test}
spec:
  region: us-west-2
  zones: [us-west-2a]
  instanceTypes: [m5.large, m5.xlarge]
  prices: [{instanceType: m5.large, capacityType: spot, price: 0.5},
           {instanceType: m5.xlarge, capacityType: spot, price: 0.5}]
"""
POOL = """\
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec: {weight: WEIGHT, LIMITStemplate: {spec: {requirements: [REQUIREMENTS]}}}
"""
ON_DEMAND = "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}"
LARGE = "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}"
POD = """\
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {MOREcontainers: [{name: c, resources: {requests: {cpu: CPU}}}]}
"""
NODE = """\
---
apiVersion: v1
kind: Node
metadata: {name: here, labels: {kubernetes.io/hostname: here}}
spec: {providerID: "aws:///us-west-2a/i-1"}
status: {allocatable: {cpu: "1", memory: 4Gi, pods: "10"},
         capacity: {cpu: "1", memory: 4Gi, pods: "10"},
         conditions: [{type: Ready, status: "True"}]}
"""


def pool(name: str, weight: int = 1, requirements: str = "", limits: str = "") -> str:
    made = POOL.replace("NAME", name).replace("WEIGHT", str(weight))
    return made.replace("REQUIREMENTS", requirements).replace("LIMITS", limits)


def pod(name: str, cpu: str = "1", more: str = "") -> str:
    return POD.replace("NAME", name).replace("CPU", f'"{cpu}"').replace("MORE", more)


def run_explain(name: str, *documents: str, flags: tuple[str, ...] = ()) -> Result:
    text = "".join((CLOUD, *documents))
    line = ("explain", "pod", name, "-", *NOW, *flags)
    return CliRunner().invoke(wain, line, input=text, standalone_mode=False)


def explain_lines(name: str, *documents: str, flags: tuple[str, ...] = ()) -> list[str]:
    result = run_explain(name, *documents, flags=flags)
    assert result.exception is None, result.exception
    return [line.strip() for line in result.stdout.splitlines()]


EXAMPLES = TESTS.parent / "examples"


def test_explain_shows_joined_nodes_and_pools_of_higher_weight() -> None:
    line = ("explain", "pod", "custom-0", str(EXAMPLES / "weights-joined-node"), *NOW)
    said = CliRunner().invoke(wain, line, standalone_mode=False).stdout
    assert "the node was planned for shop/web-0 and has room" in said
    assert "custom (weight 100) could have launched a node for it; with --strict-weights" in said
    assert "first pool" not in said


def test_each_heavier_pool_says_why_it_opened_no_node() -> None:
    said = explain_lines(
        "big",
        pool("small", 100, LARGE),
        pool("full", 50, limits="limits: {cpu: 1}, "),
        pool("tainted", 20).replace(
            "{spec: {", "{spec: {taints: [{key: team, value: x, effect: NoSchedule}], "
        ),
        pool("last"),
        pod("big", "3"),
    )
    assert (
        "launched for it by NodePool last (weight 1), the first NodePool by weight that could"
        in said
    )
    assert (
        "small (weight 100): the pod needs 3 cpu; the largest instance type that the "
        "NodePool allows, "
        "m5.large, has 1.93 cpu allocatable"
    ) in said
    assert any(line.startswith("full (weight 50): its limit of 1 cpu is reached") for line in said)
    assert any(line.startswith("tainted (weight 20): the pod does not tolerate") for line in said)


def test_a_pool_says_that_its_node_costs_least_among_those_of_its_weight() -> None:
    extra_large = LARGE.replace("m5.large", "m5.xlarge")
    pools = [pool("dear", 1, f"{extra_large}, {ON_DEMAND}"), pool("cheap", 1, ON_DEMAND)]
    said = explain_lines("web", *pools, pod("web"))
    assert "launched for it by NodePool cheap (weight 1); no NodePool has another weight" in said
    least = (
        "of the NodePools of its weight its node costs least: ~$0.096/h, before dear (~$0.192/h)"
    )
    assert least in said
    assert not any(line.startswith("dear") for line in said)


def test_where_no_pool_has_a_weight_none_is_said_to_be_first_by_it() -> None:
    extra_large = LARGE.replace("m5.large", "m5.xlarge")
    dear, cheap = pool("dear", 1, f"{extra_large}, {ON_DEMAND}"), pool("cheap", 1, ON_DEMAND)
    unweighted = [each.replace("weight: 1, ", "") for each in (dear, cheap)]
    said = explain_lines("web", *unweighted, pod("web"))
    assert "launched for it by NodePool cheap; no NodePool has a weight" in said
    assert (
        "of the NodePools that could its node costs least: ~$0.096/h, before dear (~$0.192/h)"
        in said
    )


def test_a_pool_says_that_another_of_its_weight_costs_the_same() -> None:
    said = explain_lines("web", pool("one", 1, ON_DEMAND), pool("other", 1, ON_DEMAND), pod("web"))
    assert any(
        "its node costs no more: ~$0.096/h, before other (~$0.096/h)" in line for line in said
    )


def test_a_limit_that_this_plan_has_used_up_is_reported_with_its_usage() -> None:
    limited = pool("limited", 100, LARGE, limits="limits: {cpu: 2}, ")
    said = explain_lines("b", limited, pool("rest"), pod("a", "1500m"), pod("b", "1400m"))
    reached = "its limit of 2 cpu is reached: 2 in use, and one more m5.large adds 2"
    assert f"limited (weight 100): {reached}" in said
    assert not any("counted as the largest" in line for line in said)


def test_a_limit_is_reported_with_the_note_that_nodes_count_at_their_largest_type() -> None:
    limited = pool("limited", 100, limits="limits: {cpu: 5}, ")
    apart = (
        "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "[{topologyKey: kubernetes.io/hostname, labelSelector: {}}]}}, "
    )
    pods = [pod(name, more=apart) for name in "ab"]
    said = explain_lines("b", limited, pool("rest"), *pods)
    assert any(line.startswith("limited (weight 100): its limit of 5 cpu") for line in said)
    assert "nodes planned in the same round counted as the largest type left to them" in said


def test_without_nodes_in_the_input_none_is_spoken_of() -> None:
    said = explain_lines("a", pool("only"), pod("a"))
    assert not any("node of the input" in line for line in said)
    assert "launched for it by NodePool only, the only NodePool" in said


def test_nodes_of_the_input_say_why_they_do_not_take_it() -> None:
    said = explain_lines("a", NODE, pool("only"), pod("a", "1500m"))
    assert "it fits no existing node" in said
    assert "1 node: insufficient cpu, at least 500m short (here)" in said


def test_a_pool_that_allows_one_capacity_type_is_named_for_it() -> None:
    said = explain_lines("a", pool("only", requirements=ON_DEMAND), pod("a"))
    assert "on-demand: only allows nothing else" in said
    assert not any("spot" in line for line in said)


def test_a_pod_that_allows_one_capacity_type_is_named_for_it() -> None:
    selector = "nodeSelector: {karpenter.sh/capacity-type: on-demand}, "
    assert "on-demand: its pods allow nothing else" in explain_lines(
        "a", pool("p"), pod("a", more=selector)
    )


def test_spot_that_costs_more_than_on_demand_is_reported_with_its_price() -> None:
    said = explain_lines("a", pool("only"), pod("a"))
    assert "not reserved: no capacity reservation that fits is selected" in said
    assert "not spot: the cheapest costs $0.500/h, which is more than on demand" in said


def test_one_instance_type_is_one() -> None:
    said = explain_lines("a", pool("only", requirements=LARGE), pod("a"))
    assert "1 instance type fits all its pods" in said


def test_explain_mentions_cost_packing_where_first_fit_differs(tmp_path: Path) -> None:
    dear = "{instanceType: m5.xlarge, capacityType: on-demand, price: 1.0}"
    file = tmp_path / "all.yaml"
    file.write_text(
        CLOUD.replace("prices: [", f"prices: [{dear}, ") + pool("only") + pod("a") + pod("b")
    )
    line = ("explain", "pod", "a", str(file), *NOW)
    first_fit, by_cost = (
        CliRunner().invoke(wain, (*line, "--packing", packing), standalone_mode=False).stdout
        for packing in ("first-fit", "cost")
    )
    assert "launched for it by NodePool only" in first_fit
    assert "packed with other pods for the lowest price" in by_cost


@pytest.mark.parametrize(
    ("more", "status", "why"),
    [
        (
            "schedulingGates: [{name: example.com/wait}], ",
            "",
            "it waits until its scheduling gates are removed: example.com/wait",
        ),
        ("nodeName: here, ", "", "it is bound to node here"),
        ("", "status: {phase: Succeeded}\n", "it has finished (Succeeded)"),
    ],
    ids=["gated", "bound", "finished"],
)
def test_a_pod_that_is_not_planned_has_a_reason_and_exit_code_one(
    more: str, status: str, why: str
) -> None:
    documents = (NODE, pool("only"), pod("other"), pod("quiet", more=more) + status)
    result = run_explain("quiet", *documents)
    assert (result.return_value, result.stdout) == (1, f"default/quiet is not planned: {why}\n")
    made = json.loads(run_explain("quiet", *documents, flags=("-o", "json")).stdout)
    assert (made["pod"], made["evaluated"], made["placed"]) == ("default/quiet", False, False)


def test_a_misspelt_pod_is_a_usage_error_with_a_suggestion() -> None:
    error = run_explain("wbe-0", pool("only"), pod("web-0")).exception
    assert isinstance(error, UsageError)
    assert (error.message, error.hint) == (
        "the input has no pod wbe-0",
        "did you mean default/web-0?",
    )


def test_a_pod_without_a_place_shows_the_funnel(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(CLOUD + pool("only") + pod("whale", "100"))
    line = ("explain", "pod", "whale", str(file), *NOW)
    result = CliRunner().invoke(wain, line, standalone_mode=False)
    assert result.return_value == 1
    assert result.stdout.startswith("default/whale is unschedulable\n")
    assert "after resources" not in result.stdout
    result = CliRunner().invoke(wain, [*line, "--all"], standalone_mode=False)
    assert "     0 after resources\n" in result.stdout


def test_amounts_side_by_side_are_in_one_unit() -> None:
    said = explain_lines("whale", pool("only"), pod("whale").replace('cpu: "1"', "memory: 64Gi"))
    assert (
        "NodePool only: the pod needs 64Gi memory; the largest instance type that the NodePool "
        "allows, m5.xlarge, has 13.8Gi allocatable"
    ) in said


def test_one_value_is_left() -> None:
    flexible = LARGE.replace("In, values: [m5.large]", "Exists, minValues: 2")
    said = explain_lines("a", pool("only", requirements=flexible), pod("a", "3"))
    key = "node.kubernetes.io/instance-type"
    assert (
        f"NodePool only: minValues requires 2 values of {key}; the NodePool allows 2, "
        "the pod's requests leave 1 (m5.xlarge)"
    ) in said


def affinity(kind: str, *terms: str) -> str:
    return f"affinity: {{nodeAffinity: {{{kind}: {', '.join(terms)}}}}}, "


def either(*terms: str) -> str:
    listed = ", ".join(f"{{matchExpressions: [{term}]}}" for term in terms)
    return affinity(
        "requiredDuringSchedulingIgnoredDuringExecution", f"{{nodeSelectorTerms: [{listed}]}}"
    )


XLARGE = LARGE.replace("m5.large", "m5.xlarge")
ZONE_A = "{key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}"
LABELLED = NODE.replace("hostname: here", "hostname: here, topology.kubernetes.io/zone: us-west-2a")


def test_a_pool_of_higher_weight_is_evaluated_with_the_term_that_counts() -> None:
    pools = pool("heavy", 10, XLARGE), pool("light", 1, LARGE)
    said = explain_lines("a", *pools, pod("a", more=either(LARGE, ZONE_A)))
    assert (
        "heavy (weight 10): the pod needs node.kubernetes.io/instance-type m5.large; "
        "the NodePool allows m5.xlarge"
    ) in said


@pytest.mark.parametrize("flags", [(), ("--strict-weights",)], ids=["joins", "strict"])
def test_a_pool_that_only_a_later_term_lets_in_could_not_have_opened_a_node(
    flags: tuple[str, ...],
) -> None:
    pools = pool("heavy", 10, XLARGE), pool("light", 1, LARGE)
    first = pod("b", "1100m", more=either(LARGE))
    said = explain_lines(
        "a", *pools, first, pod("a", "100m", more=either(LARGE, ZONE_A)), flags=flags
    )
    assert any(line.startswith("the node was planned for default/b") for line in said)
    assert not any("heavy" in line for line in said)


def test_a_node_that_a_preference_passes_over_is_not_said_to_refuse() -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    liked = affinity(preferred, f"[{{weight: 5, preference: {{matchExpressions: [{LARGE}]}}}}]")
    said = explain_lines("a", NODE, pool("only"), pod("a", "100m", more=liked))
    assert "no existing node is used" in said
    preference = "node affinity to node.kubernetes.io/instance-type In [m5.large] (weight 5)"
    assert f"1 node: would fit (here) without the preference for {preference}" in said


def test_a_node_that_a_soft_spread_passes_over_is_not_said_to_refuse() -> None:
    spread = (
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, "
        "whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}], "
    )
    said = explain_lines("b", NODE, pool("only"), *(pod(name, "100m", spread) for name in "ab"))
    preference = "topology spread over kubernetes.io/hostname with maxSkew 1"
    assert f"1 node: would fit (here) without the preference for {preference}" in said


def test_a_node_that_only_a_later_term_selects_is_not_said_to_refuse() -> None:
    said = explain_lines("a", LABELLED, pool("only"), pod("a", "100m", more=either(LARGE, ZONE_A)))
    later = "by a later node affinity term; an earlier one comes first"
    assert f"1 node: would fit (here) {later}" in said


def test_a_node_that_is_being_deleted_is_reported_as_such() -> None:
    taint = "taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}], "
    leaving = NODE.replace("spec: {", f"spec: {{{taint}")
    assert "1 node: being deleted" in explain_lines("a", leaving, pool("only"), pod("a", "100m"))
    said = explain_lines("a", leaving, pool("only"), pod("a", "100"))
    assert "1 existing node: 1 being deleted" in said


def test_a_port_that_daemonsets_take_everywhere_is_named() -> None:
    taking = "ports: [{containerPort: 80, hostPort: 80}], "
    agent = f"""\
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: agent}}
spec:
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec: {{containers: [{{name: c, {taking}}}]}}
"""
    wanted = pod("a").replace("name: c, ", f"name: c, {taking}")
    said = explain_lines("a", agent, pool("only"), wanted)
    assert (
        "NodePool only: host port 80 of the pod is in use by DaemonSet default/agent on its nodes"
        in said
    )


def test_types_with_accelerators_are_not_counted_unless_requested() -> None:
    metal = CLOUD.replace("[m5.large, m5.xlarge]", "[m5.24xlarge, m5.metal, m5a.24xlarge]")
    metal = metal.partition("  prices")[0]
    line = ("explain", "pod", "a", "-", *NOW)
    text = metal + pool("only", requirements=ON_DEMAND) + pod("a", "90")
    said = CliRunner().invoke(wain, line, input=text, standalone_mode=False).stdout
    assert "2 instance types fit all its pods; the cheapest is launched" in said
    assert "1 with accelerators or of bare metal are left out: no pod requires them" in said
    shown = CliRunner().invoke(wain, ("plan", "-", *NOW), input=text, standalone_mode=False).stdout
    assert "2 types" in shown


MANIFESTS = "".join((CLOUD, pool("p"), pod("small"), pod("large", "50")))
TRIAL_SETUP = TrialRunner.__init__.__code__


@contextmanager
def watch_trials() -> Iterator[list[str]]:
    """Collects the calls that set up a trial of fixes."""
    met: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is TRIAL_SETUP:
            met.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield met
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize(
    ("command", "tried"),
    [
        (("plan",), 1),
        (("reservations",), 0),
        (("explain", "pod", "small"), 0),
        (("explain", "pod", "large"), 1),
    ],
)
def test_fixes_are_tried_only_where_they_are_printed(command: tuple[str, ...], tried: int) -> None:
    with watch_trials() as met:
        arguments = [*command, "-", *NOW]
        said = CliRunner().invoke(wain, arguments, input=MANIFESTS, standalone_mode=False)
    assert said.exception is None, said.output
    assert len(met) == tried
    assert ("fix: request" in said.stdout) == bool(tried)
