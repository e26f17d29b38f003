"""`wain explain pod`: pools, nodes and types that were passed over are told for the true reason."""

import pytest
from click.testing import CliRunner
from tests.support.explaining import CLOUD, LARGE, NODE, NOW, ON_DEMAND, pod, pool, told

from wainwright.cli.main import wain


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


def test_a_heavier_pool_is_asked_by_the_term_that_counts() -> None:
    pools = pool("heavy", 10, XLARGE), pool("light", 1, LARGE)
    said = told("a", *pools, pod("a", more=either(LARGE, ZONE_A)))
    assert (
        "heavy (weight 10): the pod needs node.kubernetes.io/instance-type In [m5.large], "
        "and only In [m5.xlarge] is on offer"
    ) in said


@pytest.mark.parametrize("flags", [(), ("--strict-weights",)], ids=["joins", "strict"])
def test_a_pool_that_only_a_later_term_lets_in_could_not_have_opened_a_node(
    flags: tuple[str, ...],
) -> None:
    pools = pool("heavy", 10, XLARGE), pool("light", 1, LARGE)
    first = pod("b", "1100m", more=either(LARGE))
    said = told("a", *pools, first, pod("a", "100m", more=either(LARGE, ZONE_A)), flags=flags)
    assert any(line.startswith("the node was planned for default/b") for line in said)
    assert not any("heavy" in line for line in said)


def test_a_node_that_a_preference_passes_over_is_not_said_to_refuse() -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    liked = affinity(preferred, f"[{{weight: 5, preference: {{matchExpressions: [{LARGE}]}}}}]")
    said = told("a", NODE, pool("only"), pod("a", "100m", more=liked))
    assert "it goes to no node of the input" in said
    wish = "to be on nodes with node.kubernetes.io/instance-type In [m5.large] (weight 5)"
    assert f"1 node: would do (here), had it given up {wish}" in said


def test_a_node_that_a_soft_spread_passes_over_is_not_said_to_refuse() -> None:
    spread = (
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, "
        "whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}], "
    )
    said = told("b", NODE, pool("only"), *(pod(name, "100m", spread) for name in "ab"))
    wish = "to be spread over kubernetes.io/hostname with maxSkew 1"
    assert f"1 node: would do (here), had it given up {wish}" in said


def test_a_node_that_only_a_later_term_selects_is_not_said_to_refuse() -> None:
    said = told("a", LABELLED, pool("only"), pod("a", "100m", more=either(LARGE, ZONE_A)))
    later = "by a later alternative of the pod; an earlier one goes first"
    assert f"1 node: would do (here) {later}" in said


def test_a_node_that_is_being_deleted_is_told_so() -> None:
    taint = "taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}], "
    leaving = NODE.replace("spec: {", f"spec: {{{taint}")
    assert "1 node: being deleted" in told("a", leaving, pool("only"), pod("a", "100m"))
    assert "1 node: being deleted" in told("a", leaving, pool("only"), pod("a", "100"))


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
    said = told("a", agent, pool("only"), wanted)
    assert "only: the pod needs port 80, which a daemonset takes there" in said


def test_machines_that_nobody_asked_for_are_not_among_the_types_left() -> None:
    metal = CLOUD.replace("[m5.large, m5.xlarge]", "[m5.24xlarge, m5.metal, m5a.24xlarge]")
    metal = metal.partition("  prices")[0]
    line = ("explain", "pod", "a", "-", *NOW)
    text = metal + pool("only", requirements=ON_DEMAND) + pod("a", "90")
    said = CliRunner().invoke(wain, line, input=text, standalone_mode=False).stdout
    assert "2 instance types are left that hold all its pods; the cheapest is taken" in said
    assert "beside 1 with accelerators or of bare metal, which nobody asks for" in said
    shown = CliRunner().invoke(wain, ("plan", "-", *NOW), input=text, standalone_mode=False).stdout
    assert "2 types" in shown
