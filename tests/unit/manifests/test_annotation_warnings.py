"""Annotations of ours that mean nothing are reported at their line, and refuse nothing."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wainwright.cli.main import wain
from wainwright.errors import InvalidInputError

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: web
  annotations:
    {annotation}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
---
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
spec: {{region: us-west-2}}
"""
CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: default
  annotations:
    {annotation}
spec:
  role: node
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{a: b}}}}]
  securityGroupSelectorTerms: [{{tags: {{a: b}}}}]
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  template:
    metadata: {{annotations: {{{annotation}}}}}
    spec: {{restartPolicy: Never, containers: [{{name: main, image: train}}]}}
"""
MEMORY, RUNS_FOR = "wainwright.dev/kube-reserved-memory-strategy", "wainwright.dev/runs-for"
PAUSED = 'found "{}", expected one of all, disruption, provisioning: everything is paused'


def run(command: str, text: str, folder: Path) -> Result:
    file = folder / "given.yaml"
    file.write_text(text, "utf-8")
    return CliRunner().invoke(wain, [command, str(file)], standalone_mode=False)


def said(command: str, text: str, folder: Path) -> list[str]:
    """The lines about the annotation, and what the command returns as its exit code."""
    result = run(command, text, folder)
    about = [line for line in result.output.splitlines() if line.startswith(("    ", "warning"))]
    return [*(line.strip() for line in about), f"exit {result.return_value or 0}"]


@pytest.mark.parametrize(
    ("given", "annotation", "line", "message"),
    [
        (POOL, 'wainwright.dev/pause: "true"', 6, [PAUSED.format("true"), "did you mean all?"]),
        (
            POOL,
            "wainwright.dev/pause: provisoning",
            6,
            [PAUSED.format("provisoning"), "did you mean provisioning?"],
        ),
        (
            POOL,
            "wainwright.dev/minimum-saving: ten",
            6,
            ['found "ten", expected 5% or USD per hour such as 0.05: it is ignored'],
        ),
        (
            POOL,
            "wainwright.dev/puase: all",
            6,
            [
                "found wainwright.dev/puase, expected an annotation that a NodePool is known to "
                "have: it is ignored",
                "did you mean wainwright.dev/pause?",
            ],
        ),
        (
            CLASS,
            f"{MEMORY}: gke",
            6,
            [
                'found "gke", expected one of EKS, GKE: no node is launched from the class',
                "did you mean GKE?",
            ],
        ),
        (
            JOB,
            f"{RUNS_FOR}: ten minutes",
            6,
            ['found "ten minutes", expected a duration such as 20m: no simulation begins with it'],
        ),
    ],
)
def test_validate_warns_at_the_line(
    given: str, annotation: str, line: int, message: list[str], tmp_path: Path
) -> None:
    warning, *more = said("validate", given.format(annotation=annotation), tmp_path)
    key = annotation.partition(":")[0]
    assert f"given.yaml:{line}: " in warning
    assert warning.endswith(f'metadata.annotations["{key}"]')
    assert more == [*message, "exit 0"]


@pytest.mark.parametrize(
    ("given", "annotation"),
    [
        (POOL, "wainwright.dev/pause: Disruption"),
        (POOL, 'wainwright.dev/pause: "false"'),
        (POOL, "example.com/pause: yes please"),
        (CLASS, f"{MEMORY}: GKE"),
        (JOB, f"{RUNS_FOR}: 10m"),
    ],
)
def test_what_can_be_read_is_all_good(given: str, annotation: str, tmp_path: Path) -> None:
    result = run("validate", given.format(annotation=annotation), tmp_path)
    assert result.output.strip().endswith("all good")


@pytest.mark.parametrize("command", ["plan", "consolidate"])
def test_commands_that_read_the_nodepool_say_it_once(command: str, tmp_path: Path) -> None:
    result = run(command, POOL.format(annotation='wainwright.dev/pause: "true"'), tmp_path)
    assert result.output.count('found "true"') == 1
    assert 'given.yaml:6: metadata.annotations["wainwright.dev/pause"]' in result.output
    assert result.output.count("wainwright.dev/pause") == 1
    assert result.exception is None


def test_a_plan_refuses_the_value_of_a_class_and_does_not_warn_of_it(tmp_path: Path) -> None:
    given = POOL.format(annotation="{}") + "---\n" + CLASS.format(annotation=f"{MEMORY}: gke")
    result = run("plan", given, tmp_path)
    assert isinstance(result.exception, InvalidInputError)
    assert "expected one of EKS, GKE, found 'gke'" in str(result.exception)
    assert "gke" not in result.output


def test_annotations_that_are_no_texts_are_an_error_of_their_own(tmp_path: Path) -> None:
    result = run("validate", POOL.format(annotation="wainwright.dev/pause: true"), tmp_path)
    assert result.return_value == 2
    assert "is paused" not in result.output
