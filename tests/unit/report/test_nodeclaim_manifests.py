"""NodeClaim manifests are annotated with relaxed minValues and applied overlays."""

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from wainwright.cli.main import wain

MANIFESTS = """\
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
metadata: {name: test}
spec: {region: us-west-2, zones: [us-west-2a], instanceTypes: [m5.large, m5.xlarge]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec:
  template:
    metadata: {annotations: {example.com/own: kept}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: Exists, minValues: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, resources: {requests: {cpu: CPU}}}]}
"""
OVERLAY = """\
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: overlay}
spec:
  requirements: [{key: KEY, operator: In, values: [VALUE]}]
  CHANGE
"""
PREFIX = "karpenter.sh/"
TYPE = "node.kubernetes.io/instance-type"


def overlay(change: str, key: str = TYPE, value: str = "m5.large") -> str:
    return OVERLAY.replace("KEY", key).replace("VALUE", value).replace("CHANGE", change)


def annotations(more: str = "", cpu: str = "1", *flags: str) -> dict[str, str]:
    line = ("plan", "-", "-o", "nodeclaims", "--now", "2026-01-31T12:00:00Z", *flags)
    text = MANIFESTS.replace("CPU", cpu) + more
    result = CliRunner().invoke(wain, line, input=text, standalone_mode=False)
    assert result.exception is None, result.exception
    claim: dict[str, Any] = yaml.safe_load(result.stdout)
    return dict(claim["metadata"]["annotations"])


def test_a_claim_has_those_of_its_pool_and_nothing_that_is_not_so() -> None:
    assert annotations() == {"example.com/own": "kept"}


def test_lowered_min_values_are_annotated() -> None:
    found = annotations("", "3", "--min-values-policy", "BestEffort")
    assert found[f"{PREFIX}nodeclaim-min-values-relaxed"] == "true"
    assert found["example.com/own"] == "kept"


def test_min_values_that_need_no_lowering_are_not() -> None:
    found = annotations("", "1", "--min-values-policy", "BestEffort")
    assert f"{PREFIX}nodeclaim-min-values-relaxed" not in found


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (overlay('priceAdjustment: "-10%"'), {"price-overlay-applied"}),
        (overlay('capacity: {example.com/device: "1"}'), {"capacity-overlay-applied"}),
        (overlay('priceAdjustment: "-10%"', value="c5.large"), set()),
        (overlay('priceAdjustment: "-10%"', "karpenter.sh/capacity-type", "spot"), set()),
        (
            overlay('priceAdjustment: "-10%"')
            + overlay('capacity: {example.com/device: "1"}', value="m5.xlarge").replace(
                "name: overlay", "name: other"
            ),
            {"price-overlay-applied", "capacity-overlay-applied"},
        ),
    ],
    ids=["price", "capacity", "another type", "another market", "both"],
)
def test_overlays_on_allowed_offerings_are_annotated(more: str, expected: set[str]) -> None:
    found = annotations(more)
    assert {key for key in found if key.startswith(PREFIX)} == {PREFIX + each for each in expected}
    assert all(found[PREFIX + each] == "true" for each in expected)
